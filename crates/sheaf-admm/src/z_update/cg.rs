//! Conjugate gradients on the states, by T fixed steps or to a tolerance.
//!
//! The system is A z = b with A = γ·S L S + diag(shift), L = FᵀF and a symmetric node scaling S (absent unless
//! agents have penalties of their own in the hard case).
//!
//! | agreement | A | b | start | answer |
//! | --- | --- | --- | --- | --- |
//! | soft | γL + ρ | ρ w | w, or z_prev without gradient | z |
//! | hard, published | L + ε | L w | w − z_prev | w − solution |
//! | hard, exact | L + ε | L w | 0 | w − solution |
//!
//! | hard, carried | as published, L z_prev known from the solve before | | | |
//!
//! The published hard start is inexact on purpose: kernel components of w − z_prev are never removed. With one
//! penalty per agent the hard problem is solved in the scaled variable ρ^½ z, where the weighted projection becomes an
//! ordinary one (S = ρ^−½).
//!
//! One step, with guard e: q = A p, s = p·q + e, a = c/s (c = r·r), x += a p, r −= a q, c' = r·r, b = c'/(c + e),
//! p' = r' + b p. Its adjoint, primes being values after the step and bars gradients:
//!
//! ```text
//! r̄' += p̄';  b̄ = p̄'·p;  p̄ = b p̄';  c̄' += b̄/(c + e);  c̄ = −b̄ c'/(c + e)²;  r̄' += 2 c̄' r'
//! ā = x̄·p − r̄'·q;  p̄ += a x̄;  q̄ = −a r̄';  c̄ += ā/s;  s̄ = −ā c/s²;  p̄ += s̄ q;  q̄ += s̄ p;  p̄ += A q̄
//! ```
//!
//! and A receives the pair (q̄, p): dF += γ (e(p) q̄ᵀ + e(q̄) pᵀ), dγ += q̄·Lp, dshift += q̄·p. All pairs of a solve are
//! collected and added to dF at once.

use super::cg_system::{System, Work};
use super::{Agreement, InnerReport};
use crate::error::check_positive;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};

/// When conjugate gradients stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CgStop<T> {
    /// After exactly this many steps.
    Steps(usize),
    /// When ‖r‖ ≤ max(absolute, relative·‖b‖), or after `max_steps`.
    Tolerance {
        /// Absolute part.
        absolute: T,
        /// Part relative to the right side.
        relative: T,
        /// Upper limit of steps; memory for the adjoint grows with it.
        max_steps: usize,
    },
}

impl<T> CgStop<T> {
    /// The most steps that can run.
    pub fn max_steps(&self) -> usize {
        match self {
            Self::Steps(n) => *n,
            Self::Tolerance { max_steps, .. } => *max_steps,
        }
    }
}

/// Where the iteration starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgStart {
    /// The published choice: w (soft), w − z_prev (hard, inexact on purpose).
    Published,
    /// Soft: at z_prev, through which no gradient flows. Hard: as [`CgStart::Zero`].
    Warm,
    /// Hard: at 0, which makes the converged answer the exact projection. Soft: as [`CgStart::Published`].
    Zero,
    /// Hard: as [`CgStart::Published`], but r_0 = L z_prev − ε·start takes L z_prev from the end of the solve before,
    /// where it is r + ε·solution: the same numbers but for rounding, and one product fewer. Every
    /// [`REFRESH`]th solve computes it anew, because rounding errors in it do not fade. Soft, or with one penalty per
    /// agent: as [`CgStart::Published`].
    Carried,
}

/// Solves with [`CgStart::Carried`] from one computation of L z_prev to the next.
pub const REFRESH: usize = 16;

/// Conjugate gradients on the states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cg<T> {
    /// Hard or soft.
    pub agreement: Agreement<T>,
    /// When to stop.
    pub stop: CgStop<T>,
    /// Where to start.
    pub start: CgStart,
    /// Added to both denominators; 1e-8 as published, 0 for solves to a tight tolerance.
    pub guard: T,
    /// Tikhonov term of the hard system; 1e-5 as published.
    pub tikhonov: T,
}

impl<T: Real> Cg<T> {
    /// The published solver: `steps` fixed steps, guard 1e-8, Tikhonov 1e-5, published start.
    pub fn published(agreement: Agreement<T>, steps: usize) -> Self {
        Self {
            agreement,
            stop: CgStop::Steps(steps),
            start: CgStart::Published,
            guard: T::from_f64(1e-8),
            tikhonov: T::from_f64(1e-5),
        }
    }

    /// A solve to a relative tolerance, from a start that makes the hard answer the exact projection.
    pub fn to_tolerance(agreement: Agreement<T>, relative: T, max_steps: usize) -> Self {
        Self {
            agreement,
            stop: CgStop::Tolerance { absolute: T::ZERO, relative, max_steps },
            start: CgStart::Zero,
            guard: T::ZERO,
            tikhonov: T::ZERO,
        }
    }

    /// Checks the options.
    pub fn validate(&self, _op: &SheafOp<'_, T>) -> Result<()> {
        if let Agreement::Soft { gamma } = self.agreement {
            check_positive("gamma", gamma.to_f64())?;
        }
        for (place, value) in [("cg guard", self.guard), ("cg tikhonov", self.tikhonov)] {
            if !(value.is_finite() && value >= T::ZERO) {
                return Err(Error::new(ErrorKind::NotPositive, place, "a finite number, 0 or above", value));
            }
        }
        if let CgStop::Tolerance { absolute, relative, .. } = self.stop {
            check_positive("cg tolerance", (absolute.max(T::ZERO) + relative.max(T::ZERO)).to_f64())?;
        }
        Ok(())
    }

    /// Numbers carried to the next solve: L z and how many solves ago it was computed.
    pub fn carry_len(&self, op: &SheafOp<'_, T>) -> usize {
        match (self.agreement, self.start) {
            (Agreement::Hard, CgStart::Carried) => op.sheaf().state_len() + 1,
            _ => 0,
        }
    }

    /// Scratch of a forward solve.
    pub fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        2 * op.sheaf().row_len() + 6 * op.sheaf().state_len()
    }

    /// Solves. Saves: nothing; the adjoint replays.
    pub fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &mut [T], // carry_len(op)
        z: &mut [T],
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        let (mut work, half) = Work::carve(op, scratch);
        let system = System::new(self, op, rho, half);
        let report = system.run(w, z_prev, carry, z, &mut work, None);
        system.carry_on(work.r, z, carry);
        system.finish(w, z);
        Ok(report)
    }
}
