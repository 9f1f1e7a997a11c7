//! How far a solve still is from its end: primal ‖x̃ − z‖ and dual ‖ρ(z − z_prev)‖ (Boyd et al. 2011, section 3.3).

use super::{Problem, Workspace};
use crate::Real;
use crate::x_update::Penalty;

/// When an adaptive solve is finished.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances<T> {
    /// Per coordinate.
    pub absolute: T,
    /// Relative to the size of x, z (primal) and ρu (dual).
    pub relative: T,
}

/// Norms over all agents of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Residuals<T> {
    /// ‖x̃ − z‖.
    pub primal: T,
    /// ‖ρ(z − z_prev)‖.
    pub dual: T,
    /// What `primal` must fall below.
    pub primal_goal: T,
    /// What `dual` must fall below.
    pub dual_goal: T,
}

impl<T: Real> Residuals<T> {
    /// Both are below their goals.
    pub fn met(&self) -> bool {
        self.primal <= self.primal_goal && self.dual <= self.dual_goal
    }
}

impl<T: Real> Problem<'_, T> {
    /// Residuals after a step, whose previous z is in `ws.z_next` and whose target is in `ws.w`.
    pub(super) fn residuals(
        &self,
        rho: &Penalty<'_, T>,
        tolerances: Option<Tolerances<T>>,
        ws: &Workspace<T>,
    ) -> Residuals<T> {
        let mut sums = [T::ZERO; 5]; // primal², dual², x̃², z², (ρu)²
        for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
            let rho = rho.of(i);
            for k in range[0]..range[1] {
                // u' = w − z' and x̃ = w − u_old, so x̃ − z' = u' − u_old; u_old is gone, x is not.
                let relaxed = self.relax * ws.x[k] + (T::ONE - self.relax) * ws.z_next[k];
                let (p, d) = (relaxed - ws.z[k], rho * (ws.z[k] - ws.z_next[k]));
                sums[0] += p * p;
                sums[1] += d * d;
                sums[2] += relaxed * relaxed;
                sums[3] += ws.z[k] * ws.z[k];
                sums[4] += rho * rho * ws.u[k] * ws.u[k];
            }
        }
        let [primal, dual, x, z, u] = sums.map(T::sqrt);
        let root = T::from_f64((self.op.sheaf().state_len() as f64).sqrt());
        let goal = |size: T| tolerances.map_or(T::ZERO, |t| root * t.absolute + t.relative * size);
        Residuals { primal, dual, primal_goal: goal(x.max(z)), dual_goal: goal(u) }
    }
}

/// Per-agent norms ‖a_i − b_i‖, written to `out` `[agents]`.
pub(super) fn agent_distances<T: Real>(offsets: &[usize], a: &[T], b: &[T], out: &mut [T]) {
    for (range, out) in offsets.windows(2).zip(out) {
        *out = (range[0]..range[1]).map(|k| (a[k] - b[k]) * (a[k] - b[k])).sum::<T>().sqrt();
    }
}
