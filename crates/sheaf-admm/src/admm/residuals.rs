//! Residuals of a solve: primal ‖x̃ − z‖ and dual ‖ρ(z − z_prev)‖ (Boyd et al. 2011, section 3.3).

use super::{Problem, Tape};
use crate::Real;
use crate::x_update::Penalty;

/// The stopping tolerances of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances<T> {
    /// Absolute tolerance, per coordinate.
    pub absolute: T,
    /// Relative tolerance, with respect to the size of x, z (primal) and ρu (dual).
    pub relative: T,
}

/// Norms over all agents of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Residuals<T> {
    /// ‖x̃ − z‖.
    pub primal: T,
    /// ‖ρ(z − z_prev)‖.
    pub dual: T,
    /// The goal of `primal`.
    pub primal_goal: T,
    /// The goal of `dual`.
    pub dual_goal: T,
}

impl<T: Real> Residuals<T> {
    /// Whether both residuals are below their goals.
    pub fn met(&self) -> bool {
        self.primal <= self.primal_goal && self.dual <= self.dual_goal
    }
}

impl<T: Real> Problem<'_, T> {
    /// Residuals of sample `b` after iteration `k`.
    pub(super) fn residuals<'t>(
        &self,
        b: usize,
        k: usize,
        rho: &Penalty<'_, T>,
        tolerances: Option<Tolerances<T>>,
        tape: &'t Tape<T>,
    ) -> Residuals<T> {
        let n = self.op.sheaf().state_len();
        let own = |all: &'t [T]| &all[b * n..][..n];
        let (x, u, z, z_prev) = (own(tape.x(k)), own(tape.u(k + 1)), own(tape.z(k + 1)), own(tape.z(k)));
        let mut sums = [T::ZERO; 5]; // primal², dual², x̃², z², (ρu)²
        for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
            let rho = rho.of(i);
            for k in range[0]..range[1] {
                // u' = w − z' and x̃ = w − u_old, so x̃ − z' = u' − u_old; u_old may be overwritten, x is not.
                let relaxed = self.relax * x[k] + (T::ONE - self.relax) * z_prev[k];
                let (p, d) = (relaxed - z[k], rho * (z[k] - z_prev[k]));
                sums[0] += p * p;
                sums[1] += d * d;
                sums[2] += relaxed * relaxed;
                sums[3] += z[k] * z[k];
                sums[4] += rho * rho * u[k] * u[k];
            }
        }
        let [primal, dual, x, z, u] = sums.map(T::sqrt);
        let root = T::from_f64((n as f64).sqrt());
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
