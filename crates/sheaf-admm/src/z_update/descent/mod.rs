//! Gradient descent on the states, plain or with Nesterov momentum, by T fixed steps or to a tolerance.
//!
//! | agreement | energy | slope g | limit |
//! | --- | --- | --- | --- |
//! | hard | ½‖F z‖² | S L z | the projection of w onto ker F in the metric ρ |
//! | soft | γ/2‖F z‖² + ½‖z − w‖²_ρ | γ L z + ρ (z − w) | (γ L + ρ)⁻¹ ρ w |
//!
//! It starts at z = w, m = 0; one step is m ← μ m + g, z ← z − η (μ m + g), m being the new one. S is the identity
//! for a single penalty; with one penalty per agent S = h/ρ_i (h their harmonic mean), the same descent in the scaled
//! variable ρ^½ z, where the weighted projection is an ordinary one. The tolerance is on ‖g‖, relative to its value at
//! w. The adjoint of a step, with e = −η z̄':
//!
//! ```text
//! m̄' += μ e;   ḡ = e + m̄';   η̄ −= z̄'·(μ m' + g);   m̄ = μ m̄';   z̄ = z̄' + H ḡ
//! soft: γ̄ += ḡ·L z;   w̄ −= ρ ḡ;   ρ̄ += ḡ·(z − w);       maps: the pair (ḡ, z)
//! ```
//!
//! and w̄ += z̄ at the start.

pub(super) mod node_slope;
pub(super) mod rule;
pub(super) mod step_size;

use super::potential::EdgePotential;
use super::{Agreement, Stop};
use crate::sheaf::SheafOp;
use crate::{Real, Result};
use node_slope::{Coupling, NodeDescent};
use rule::Rule;

/// Gradient descent on the states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descent<T> {
    /// Hard or soft.
    pub agreement: Agreement<T>,
    /// Step size η.
    pub eta: T,
    /// Momentum μ: 0 for plain descent, 0.9 as published.
    pub momentum: T,
    /// When to stop.
    pub stop: Stop<T>,
}

impl<T: Real> Descent<T> {
    /// The published solver: `steps` fixed steps with momentum 0.9.
    pub fn nesterov(agreement: Agreement<T>, eta: T, steps: usize) -> Self {
        Self { agreement, eta, momentum: T::from_f64(0.9), stop: Stop::Steps(steps) }
    }

    /// The same as steps on an energy.
    pub(super) fn steps(&self) -> NodeDescent<T> {
        let coupling = match self.agreement {
            Agreement::Hard => Coupling::Hard,
            Agreement::Soft { gamma } => Coupling::Soft { gamma, potential: EdgePotential::Quadratic },
        };
        NodeDescent { rule: Rule { eta: self.eta, momentum: self.momentum, stop: self.stop }, coupling }
    }

    /// Checks the options.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        self.steps().validate(op)
    }
}
