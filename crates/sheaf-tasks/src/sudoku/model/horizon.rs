//! How far a training step looks.

/// How many iterations run and how many of the last ones are read and learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// Iterations K.
    pub iterations: usize,
    /// Loss window W; clamped to K.
    pub window: usize,
    /// Gradients go back through so many of the last iterations; 0 for all. Not less than the window.
    pub gradient: usize,
}

impl Horizon {
    /// Every iteration counts for the gradients.
    pub fn whole(iterations: usize, window: usize) -> Self {
        Self { iterations, window, gradient: 0 }
    }

    /// The window, clamped.
    pub(super) fn window(&self) -> usize {
        self.window.clamp(1, self.iterations)
    }

    /// Iterations the gradients go back through.
    pub(super) fn taped(&self) -> usize {
        if self.gradient == 0 { self.iterations } else { self.gradient.clamp(self.window(), self.iterations) }
    }
}
