//! Which pictures each training step sees.
//!
//! The steps walk through the set without gaps: step t sees pictures t·batch … (t + 1)·batch − 1 of an endless
//! sequence of epochs, each a shuffle of its own. All depends on (seed, step) alone, so that a resumed run meets what
//! an uninterrupted one would have met; and n epochs are exactly n·len / batch steps, nothing dropped.

use sheaf_admm::Real;
use sheaf_learn::rng::Stream;

use super::data::ImageSet;

/// The shuffles in use, kept while they last.
#[derive(Clone, Debug, Default)]
pub struct Epochs {
    of: Option<(u64, u64)>,
    order: Vec<u32>, // [pictures]
}

/// Pictures of one step.
#[derive(Clone, Debug, Default)]
pub struct Pictures<T> {
    /// Places in the training set.
    pub chosen: Vec<u32>, // [samples]
    /// Pixels in [0, 1].
    pub images: Vec<T>, // [samples, height, width]
    /// Classes.
    pub labels: Vec<u8>, // [samples]
}

impl Epochs {
    /// The picture at place `place` of the endless sequence.
    fn picture(&mut self, seed: u64, place: u64, count: usize) -> u32 {
        let epoch = place / count as u64;
        if self.of != Some((seed, epoch)) {
            self.order.clear();
            self.order.extend(0..count as u32);
            Stream::new(seed, "order of the pictures", epoch, 0).shuffle(&mut self.order);
            self.of = Some((seed, epoch));
        }
        self.order[(place % count as u64) as usize]
    }

    /// Writes the pictures of a step.
    pub fn fill<T: Real>(
        &mut self,
        set: &ImageSet,
        seed: u64,
        step: u64,
        batch: usize,
        out: &mut Pictures<T>,
    ) {
        out.chosen.clear();
        out.labels.clear();
        out.images.resize(batch * set.pixels(), T::ZERO);
        for (i, image) in out.images.chunks_exact_mut(set.pixels()).enumerate() {
            let picture = self.picture(seed, step * batch as u64 + i as u64, set.len());
            set.write_image(picture as usize, image);
            out.chosen.push(picture);
            out.labels.push(set.labels[picture as usize]);
        }
    }
}
