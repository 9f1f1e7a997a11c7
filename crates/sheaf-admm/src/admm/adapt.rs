//! Residual balancing: the penalty grows when proposals lag behind agreement and shrinks when agreement lags behind.
//!
//! ρ' = τρ where ‖r‖ > μ‖s‖, ρ/τ where ‖s‖ > μ‖r‖. The duals are scaled by 1/ρ, so u' = u·ρ/ρ'. The adjoint holds these
//! decisions fixed: ρ_k is a constant factor times the first ρ.

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
}

impl<T: Real> Default for Balancing<T> {
    fn default() -> Self {
        Self { factor: T::from_f64(2.0), ratio: T::from_f64(10.0), until: usize::MAX }
    }
}

impl<T: Real> Balancing<T> {
    /// Checks both parameters.
    pub fn validate(&self) -> Result<()> {
        for (place, value) in [("balancing factor", self.factor), ("balancing ratio", self.ratio)] {
            check_positive(place, value.to_f64())?;
            if value <= T::ONE {
                return Err(Error::new(ErrorKind::Unsupported, place, "a number above 1", value));
            }
        }
        Ok(())
    }

    /// The factor that the penalty is multiplied by after iteration `k`.
    pub(super) fn decide(&self, k: usize, residuals: &Residuals<T>) -> T {
        if k >= self.until {
            T::ONE
        } else if residuals.primal > self.ratio * residuals.dual {
            self.factor
        } else if residuals.dual > self.ratio * residuals.primal {
            T::ONE / self.factor
        } else {
            T::ONE
        }
    }
}
