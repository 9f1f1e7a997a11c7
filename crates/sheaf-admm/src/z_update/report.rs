//! How inner solves ended.

/// How an inner solve ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InnerReport {
    /// Steps that ran.
    pub steps: usize,
    /// Whether the tolerance was met (always true for a fixed number of steps and for exact solves).
    pub converged: bool,
}

/// How the inner solves of a whole solve ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InnerTotals {
    /// Inner solves, one per sample and iteration.
    pub solves: usize,
    /// Steps of all of them.
    pub steps: usize,
    /// Solves that ended before their tolerance was met.
    pub missed: usize,
}

impl InnerTotals {
    pub(crate) fn add(&mut self, other: Self) {
        self.solves += other.solves;
        self.steps += other.steps;
        self.missed += other.missed;
    }
}
