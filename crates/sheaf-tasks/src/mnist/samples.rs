//! Pictures as the model takes them, and the class that the agents vote for.

use sheaf_admm::Real;
use sheaf_learn::model::evaluate::Reader;
use sheaf_learn::model::{Samples, Targets, ViewGrid};

use super::data::ImageSet;
use super::metrics::vote;

/// Pictures of a set as the model takes them; beyond the border is black.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageSamples<'a> {
    pub(super) grid: ViewGrid,
    pub(super) set: &'a ImageSet,
}

impl Samples for ImageSamples<'_> {
    fn len(&self) -> usize {
        self.set.len()
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        self.grid.views(self.set.image(i), 0.0, |pixel| f32::from(pixel) / 255.0, out);
    }

    fn targets(&self, i: usize, out: &mut Targets) {
        out.labels.clear();
        out.labels.resize(self.grid.agents(), self.set.labels[i]);
    }
}

/// Pictures in [0, 1], possibly with views that are black.
#[derive(Clone, Copy, Debug)]
pub struct PictureSamples<'a> {
    /// The grid of the agents' views.
    pub grid: ViewGrid,
    /// Pixels.
    pub images: &'a [f32], // [pictures, height, width]
    /// Agents that see black.
    pub dropped: Option<&'a [bool]>, // [pictures, agents]
}

impl Samples for PictureSamples<'_> {
    fn len(&self) -> usize {
        self.images.len() / self.grid.pixels()
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        let pixels = self.grid.pixels();
        self.grid.views(&self.images[i * pixels..][..pixels], 0.0, |pixel| pixel, out);
        let agents = self.grid.agents();
        if let Some(dropped) = self.dropped.map(|d| &d[i * agents..][..agents]) {
            let views = out.chunks_exact_mut(self.grid.view_pixels()).zip(dropped);
            views.filter(|(_, dropped)| **dropped).for_each(|(view, _)| view.fill(0.0));
        }
    }

    fn targets(&self, _i: usize, out: &mut Targets) {
        out.labels.clear();
    }
}

/// Returns the class that the agents vote for.
#[derive(Clone, Copy, Debug)]
pub struct VoteReader {
    /// Number of classes.
    pub classes: usize,
}

impl Reader for VoteReader {
    type Answer = u8;

    fn read<T: Real>(&self, _i: usize, outputs: &[T]) -> u8 {
        vote(outputs, &mut vec![T::ZERO; self.classes]) as u8
    }
}
