//! Nonlinear edge potentials, through the nonlinear sheaf Laplacian Fᵀ∘∇U∘F.
//!
//! z = argmin γ Σ U(r) + ½‖z − w‖²_ρ with r = F z, U acting on every coordinate of every residual; computed by descent
//! from w with slope γ Fᵀ U'(F z) + ρ (z − w). The tolerance is on the norm of the slope, relative to the one at w.
//!
//! | U | U(r) | U'(r) | U''(r) |
//! | --- | --- | --- | --- |
//! | quadratic | r²/2 | r | 1 |
//! | Huber, width δ | r²/2 up to δ, then δ(abs r − δ/2) | r, at most δ | 1 up to and at δ, then 0 |
//! | smoothed l1, width ε | √(r² + ε²) − ε | r/√(r² + ε²) | ε²/(r² + ε²)^1.5 |
//!
//! Huber limits the influence of outliers: a residual beyond δ pulls with constant force. Smoothed l1 lets some edges
//! disagree entirely. Offsets and weights of edges give U(F z − b) and γω_e. The adjoint of a fixed number of steps runs
//! back through the descent, that of a solve to a tolerance is the gradient of the solution; at Huber's kink |r| = δ
//! both take the inner side, U'' = 1.

mod adjoint;

pub(super) use adjoint::{potential_scratch_len, potential_vjp};

use super::Stop;
use super::descent::node_slope::{Coupling, NodeDescent};
use super::descent::rule::Rule;
use crate::error::check_positive;
use crate::sheaf::SheafOp;
use crate::{Real, Result};

/// The potential of one coordinate of a residual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EdgePotential<T> {
    /// r²/2.
    Quadratic,
    /// r²/2 up to `delta`, linear beyond.
    Huber {
        /// Where it becomes linear.
        delta: T,
    },
    /// √(r² + ε²) − ε.
    SmoothedL1 {
        /// ε, the width of the rounded tip.
        epsilon: T,
    },
}

impl<T: Real> EdgePotential<T> {
    /// U(r).
    pub fn value(&self, r: T) -> T {
        let half = T::from_f64(0.5);
        match *self {
            Self::Quadratic => half * r * r,
            Self::Huber { delta } if r.abs() <= delta => half * r * r,
            Self::Huber { delta } => delta * (r.abs() - half * delta),
            Self::SmoothedL1 { epsilon } => (r * r + epsilon * epsilon).sqrt() - epsilon,
        }
    }

    /// U'(r).
    #[inline]
    pub fn slope(&self, r: T) -> T {
        match *self {
            Self::Quadratic => r,
            Self::Huber { delta } => r.max(-delta).min(delta),
            Self::SmoothedL1 { epsilon } => r / (r * r + epsilon * epsilon).sqrt(),
        }
    }

    /// U''(r).
    #[inline]
    pub fn curvature(&self, r: T) -> T {
        match *self {
            Self::Quadratic => T::ONE,
            Self::Huber { delta } if r.abs() <= delta => T::ONE,
            Self::Huber { .. } => T::ZERO,
            Self::SmoothedL1 { epsilon } => {
                let square = r * r + epsilon * epsilon;
                epsilon * epsilon / (square * square.sqrt())
            }
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        match self {
            Self::Quadratic => Ok(()),
            Self::Huber { delta } => check_positive("huber delta", delta.to_f64()),
            Self::SmoothedL1 { epsilon } => check_positive("smoothed l1 epsilon", epsilon.to_f64()),
        }
    }
}

/// Descent on γ Σ U(F z) + ½‖z − w‖²_ρ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Potential<T> {
    /// U.
    pub potential: EdgePotential<T>,
    /// The weight γ of disagreement.
    pub gamma: T,
    /// Step size η; small enough for curvature γ‖F‖² + ρ.
    pub eta: T,
    /// Momentum μ: 0 for plain descent.
    pub momentum: T,
    /// When to stop.
    pub stop: Stop<T>,
}

impl<T: Real> Potential<T> {
    /// The same as steps on an energy.
    pub(super) fn steps(&self) -> NodeDescent<T> {
        let Self { potential, gamma, eta, momentum, stop } = *self;
        NodeDescent { rule: Rule { eta, momentum, stop }, coupling: Coupling::Soft { gamma, potential } }
    }

    /// Checks the options.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        self.steps().validate(op)
    }
}
