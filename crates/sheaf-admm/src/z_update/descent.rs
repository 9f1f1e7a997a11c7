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

use super::descend::Rule;
use super::node_slope::{Coupling, node_forward, node_forward_scratch_len, node_scratch_len, node_vjp};
use super::potential::EdgePotential;
use super::{Agreement, ConsensusGrad, InnerReport, Stop};
use crate::error::check_positive;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::{Real, Result};

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

    fn parts(&self) -> (Rule<T>, Coupling<T>) {
        let coupling = match self.agreement {
            Agreement::Hard => Coupling::Hard,
            Agreement::Soft { gamma } => Coupling::Soft { gamma, potential: EdgePotential::Quadratic },
        };
        (Rule { eta: self.eta, momentum: self.momentum, stop: self.stop }, coupling)
    }

    /// Checks the options.
    pub fn validate(&self, _op: &SheafOp<'_, T>) -> Result<()> {
        if let Agreement::Soft { gamma } = self.agreement {
            check_positive("gamma", gamma.to_f64())?;
        }
        self.parts().0.validate()
    }

    /// Numbers of scratch that `forward` and `vjp` share.
    pub(super) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let (rule, coupling) = self.parts();
        node_scratch_len(&rule, &coupling, op.sheaf())
    }

    /// Numbers of scratch that `forward` needs when no adjoint will run.
    pub(super) fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        node_forward_scratch_len(&self.parts().1, op.sheaf())
    }

    /// Nothing is carried.
    pub(super) fn carry_len(&self, _op: &SheafOp<'_, T>) -> usize {
        0
    }

    /// Nothing to prepare.
    pub(super) fn prepare(
        &self,
        _op: &SheafOp<'_, T>,
        _rho: &Penalty<'_, T>,
        _scratch: &mut [T],
    ) -> Result<()> {
        Ok(())
    }

    /// Solves. Saves: nothing; the adjoint replays.
    pub(super) fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],       // [states]
        _z_prev: &[T], // [states]
        _carry: &mut [T],
        z: &mut [T], // [states]
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        let (rule, coupling) = self.parts();
        Ok(node_forward(&rule, coupling, op, rho, w, z, scratch))
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_w`, maps, ρ, γ and η.
    pub(super) fn vjp(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        _z_prev: &[T],
        _carry: &[T],
        d_z: &[T],
        d_w: &mut [T],
        _d_z_prev: &mut [T],
        _d_carry: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let (rule, coupling) = self.parts();
        node_vjp(&rule, coupling, op, rho, w, d_z, d_w, grad, scratch);
        Ok(())
    }
}
