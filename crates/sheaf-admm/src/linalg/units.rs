//! The units of a problem before it was scaled.

use std::sync::Arc;

use crate::Real;

/// x = state·x̂ and f̂ = cost·f, hats for the scaled problem.
#[derive(Clone, Debug)]
pub(crate) struct Units<T> {
    pub state: Arc<[T]>, // [states]
    pub cost: T,
}

impl<T: Real> Units<T> {
    /// The unit of a slope of coordinate `k`.
    pub(crate) fn slope(&self, k: usize) -> T {
        T::ONE / (self.state[k] * self.cost)
    }
}
