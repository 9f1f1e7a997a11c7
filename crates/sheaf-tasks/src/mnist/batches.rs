//! The pictures of a training step, with pixels in [0, 1].

use sheaf_admm::Real;
use sheaf_learn::task::Epochs;

use super::data::ImageSet;

/// Pictures of one step.
#[derive(Clone, Debug, Default)]
pub struct Pictures<T> {
    /// Indices in the training set.
    pub chosen: Vec<u32>, // [samples]
    /// Pixels in [0, 1].
    pub images: Vec<T>, // [samples, height, width]
    /// Classes.
    pub labels: Vec<u8>, // [samples]
}

impl<T: Real> Pictures<T> {
    /// Writes the pictures of a step; see [`Epochs`].
    pub fn fill(&mut self, epochs: &mut Epochs, set: &ImageSet, seed: u64, step: u64, batch: usize) {
        self.chosen.clear();
        self.labels.clear();
        self.images.resize(batch * set.pixels(), T::ZERO);
        for (i, image) in self.images.chunks_exact_mut(set.pixels()).enumerate() {
            let place = step * batch as u64 + i as u64;
            let picture = epochs.sample("order of the pictures", seed, place, set.len());
            set.write_image(picture as usize, image);
            self.chosen.push(picture);
            self.labels.push(set.labels[picture as usize]);
        }
    }
}
