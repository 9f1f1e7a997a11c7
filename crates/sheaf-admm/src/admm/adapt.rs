//! Residual balancing: the penalty grows when proposals lag behind agreement and shrinks when agreement lags behind.
//!
//! ρ' = τρ where ‖r‖ > μ‖s‖, ρ/τ where ‖s‖ > μ‖r‖ (Boyd et al. 2011, section 3.4.1). With residuals relative to their
//! sizes the rule does not depend on the units of the problem, and one change can go all the way: ρ' = ρ√(‖r‖/‖s‖) (as
//! OSQP does). The duals are scaled by 1/ρ, so u' = u·ρ/ρ'. The adjoint holds these decisions fixed: ρ_k is a constant
//! factor times the first ρ.

use super::residuals::Residuals;
use crate::error::check_positive;
use crate::{Error, ErrorKind, Real, Result};

/// When the penalty changes, and by how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balancing<T> {
    /// τ, the factor of one change; 2 is usual.
    pub factor: T,
    /// μ, the ratio of the residuals that triggers a change; 10 is usual.
    pub ratio: T,
    /// No change after this many iterations, so that the solve can settle.
    pub until: usize,
    /// The factor of all changes together stays between 1/limit and limit.
    pub limit: T,
    /// Iterations from one decision to the next; 1 decides after every iteration.
    pub every: usize,
    /// Compare residuals relative to their sizes, and change ρ by the root of their ratio instead of by `factor`.
    pub relative: bool,
}

impl<T: Real> Default for Balancing<T> {
    fn default() -> Self {
        Self {
            factor: T::from_f64(2.0),
            ratio: T::from_f64(10.0),
            until: usize::MAX,
            limit: T::from_f64(1e6),
            every: 1,
            relative: false,
        }
    }
}

impl<T: Real> Balancing<T> {
    /// For problems of any units: residuals relative to their goals, a decision every 25 iterations, a change by the root of their
    /// ratio where it is above 2.
    pub fn relative() -> Self {
        Self { ratio: T::from_f64(2.0), every: 25, relative: true, ..Self::default() }
    }

    /// Checks all parameters.
    pub fn validate(&self) -> Result<()> {
        for (place, value) in [
            ("balancing factor", self.factor),
            ("balancing ratio", self.ratio),
            ("balancing limit", self.limit),
        ] {
            check_positive(place, value.to_f64())?;
            if value <= T::ONE {
                return Err(Error::new(ErrorKind::Unsupported, place, "a number above 1", value));
            }
        }
        if self.every == 0 {
            return Err(Error::new(ErrorKind::NotPositive, "balancing interval", "at least 1", 0));
        }
        Ok(())
    }

    /// Whether the penalty may change after iteration `k`.
    pub(super) fn is_due(&self, k: usize) -> bool {
        k < self.until && (k + 1).is_multiple_of(self.every)
    }

    /// The next factor of the penalty, given the one before; within the limits, and unchanged if the residuals are not finite.
    pub(super) fn decide(&self, before: T, residuals: &Residuals<T>) -> T {
        if !residuals.is_finite() {
            return before;
        }
        let (primal, dual) = if self.relative {
            // The goals have an absolute part: multipliers that vanish do not ask for a vanishing penalty.
            let of = |value: T, goal: T, size: T| match () {
                () if value == T::ZERO => value,
                () if goal > T::ZERO => value / goal,
                () => value / size.max(value),
            };
            let r = residuals;
            (of(r.primal, r.primal_goal, r.primal_size), of(r.dual, r.dual_goal, r.dual_size))
        } else {
            (residuals.primal, residuals.dual)
        };
        let change = if self.relative { (primal / dual).sqrt() } else { self.factor };
        let wanted = if primal > self.ratio * dual {
            before * change
        } else if dual > self.ratio * primal {
            if self.relative { before * change } else { before / self.factor }
        } else {
            before
        };
        // A residual of exactly 0 asks for an infinite change.
        let wanted = if wanted.is_finite() { wanted } else { self.limit };
        wanted.max(T::ONE / self.limit).min(self.limit)
    }
}
