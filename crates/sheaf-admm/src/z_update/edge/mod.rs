//! Consensus through the multipliers of the edges, by conjugate gradients or descent, started where the previous ADMM
//! iteration ended.
//!
//! Both families are z = w − R⁻¹ Fᵀ λ with R = diag(ρ) and
//!
//! | agreement | system | λ at the solution |
//! | --- | --- | --- |
//! | hard | F R⁻¹ Fᵀ λ = F w | multiplier of F z = 0 |
//! | soft | (1/γ + F R⁻¹ Fᵀ) λ = F w | γ F z |
//!
//! The soft row follows from γ Fᵀ F z + R (z − w) = 0: put λ = γ F z, so z = w − R⁻¹ Fᵀ λ, and apply F. (The system
//! (I + (γ/ρ) F Fᵀ) λ = F w that is sometimes printed has F z itself as its solution; then z = w − (γ/ρ) Fᵀ λ.)
//!
//! The carry is λ: it does not change when ρ and the scaled duals do. The iterations run in λ/h, h the harmonic
//! mean of the penalties, with S = h R⁻¹ and A = h/γ + F S Fᵀ: step sizes and the guard then mean the same for every ρ,
//! and for a single ρ the hard system is F Fᵀ. With κ = h/γ (0 when hard), x = λ/h, x_0 = carry/h:
//!
//! ```text
//! b = F w;   x = steps from x_0 on A x = b;   z = w − S Fᵀ x;   carry' = h x
//! ```
//!
//! Adjoint, around that of the steps:
//!
//! ```text
//! x̄ = h c̄' − F S z̄;   h̄ += c̄'·x;   s̄_i −= z̄_i·(Fᵀ x)_i;   w̄ += z̄;   dF −= Dᵀx (S z̄)ᵀ
//! w̄ += Fᵀ b̄;   dF += Dᵀb̄ wᵀ;   c̄ = x̄_0/h;   h̄ −= x̄_0·x_0/h;   h̄ += κ̄/γ;   γ̄ −= κ̄ h/γ²
//! ```
//!
//! With offsets b of the edges, F w − b takes the place of F w; with weights, γω_e that of γ, and an edge of infinite
//! weight is hard. A solve to a tolerance is differentiated as a [solution](super::solution), with any weights; the formulas above
//! are for a fixed number of steps.
//!
//! Edge space pays off when edges have fewer dimensions than states. The hard system is singular if rows of F depend on
//! each other; F w lies in its range, so the iterations still converge.

mod cg;
mod products;
mod steps;
mod system;

use super::checks::EdgeSupport;
use super::descent::rule::Rule;
use super::solution::{Accuracy, Kappa, solution_scratch_len, solution_vjp};
use super::weights::Weights;
use super::{Agreement, ConsensusGrad, InnerReport, Stop};
use crate::error::check_positive;
use crate::linalg::scratch::Scratch;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};
use cg::EdgeCg;
use products::Products;
use sheaf_kernels::vector::{add, axpy, dot};
use steps::EdgeSteps;
use system::{EdgeGrad, EdgeSystem};

/// How the edge-space system is solved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EdgeMethod<T> {
    /// Conjugate gradients.
    Cg {
        /// Added to both denominators, so that a solve may continue after it has converged; 1e-8 as in
        /// [`Cg::published`](super::Cg::published), 0 for solves to a tight tolerance.
        guard: T,
    },
    /// Gradient descent.
    Descent {
        /// Step size η.
        eta: T,
        /// Momentum: 0 for plain descent.
        momentum: T,
    },
}

/// Consensus through the multipliers of the edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EdgeSpace<T> {
    /// Hard or soft.
    pub agreement: Agreement<T>,
    /// How to solve.
    pub method: EdgeMethod<T>,
    /// When to stop; the tolerance is relative to ‖F w‖.
    pub stop: Stop<T>,
    /// Whether to start from the multipliers of the previous ADMM iteration (gradients flow through them) or from 0.
    pub warm: bool,
}

impl<T: Real> EdgeSpace<T> {
    fn steps(&self) -> EdgeSteps<T> {
        let Self { stop, warm, .. } = *self;
        match self.method {
            EdgeMethod::Cg { guard } => EdgeSteps::Cg(EdgeCg { guard, stop, warm }),
            EdgeMethod::Descent { eta, momentum } => EdgeSteps::Descent(Rule { eta, momentum, stop }),
        }
    }

    /// Whether gradients are those of the solution.
    fn differentiates_solution(&self) -> bool {
        matches!(self.stop, Stop::Tolerance { .. })
    }

    /// Checks the options.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        let fixed = EdgeSupport { offsets: true, ..EdgeSupport::NONE };
        let edges = if self.differentiates_solution() { EdgeSupport::ALL } else { fixed };
        edges.check("edge space", self.agreement, op, "solve to a tolerance (Stop::Tolerance)")?;
        if let Agreement::Soft { gamma } = self.agreement {
            check_positive("gamma", gamma.to_f64())?;
        }
        match self.steps() {
            EdgeSteps::Descent(rule) => rule.validate(),
            EdgeSteps::Cg(EdgeCg { guard, .. }) if guard.is_finite() && guard >= T::ZERO => {
                self.stop.validate("edge-space cg")
            }
            EdgeSteps::Cg(EdgeCg { guard, .. }) => Err(Error::new(
                ErrorKind::NotPositive,
                "edge-space cg guard",
                "a finite number, 0 or above",
                guard,
            )),
        }
    }

    /// Length of the scratch that `forward` and `vjp` share.
    pub(super) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let sheaf = op.sheaf();
        let (n, m, e) = (sheaf.state_len(), sheaf.row_len(), sheaf.edge_len());
        if self.differentiates_solution() {
            return solution_scratch_len(sheaf).max(self.forward_scratch_len(op));
        }
        let steps = self.steps();
        let kept = Products::len(op, steps.products()).saturating_add(steps.trail_len(e));
        kept.saturating_add(2 * m + n + 10 * e + sheaf.agents())
    }

    /// Length of the scratch that `forward` needs if no adjoint runs.
    pub(super) fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let sheaf = op.sheaf();
        2 * sheaf.row_len() + sheaf.state_len() + 6 * sheaf.edge_len()
    }

    /// Length of the carried multipliers; 0 without warm start.
    pub(super) fn carry_len(&self, op: &SheafOp<'_, T>) -> usize {
        if self.warm { op.sheaf().edge_len() } else { 0 }
    }

    /// Solves; `carry` holds the multipliers λ. Saves: nothing; the adjoint replays.
    pub(super) fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],         // [states]
        _z_prev: &[T],   // [states]
        carry: &mut [T], // [edges] or empty
        z: &mut [T],     // [states]
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        let sheaf = op.sheaf();
        let (m, e) = (sheaf.row_len(), sheaf.edge_len());
        let mut scratch = Scratch::new(scratch);
        let (y, products) = (scratch.take(m), Products::shared(op, &mut scratch));
        let (b, x, work) = (scratch.take(e), scratch.take(e), scratch.take(4 * e));
        op.raw().residual(w, b, y);
        let mut system = self.system(op, rho, b, y, products, EdgeGrad::none());
        let mean = system.weights.mean;
        scale_into(x, T::ONE / mean, carry);
        let report = self.steps().run(&mut system, x, work, None);
        let EdgeSystem { weights, products, y, .. } = system;
        let states = products.into_states();
        op.raw().coboundary_t(x, states, y);
        weights.scale(sheaf, states);
        z.copy_from_slice(w);
        axpy(z, -T::ONE, states);
        scale_into(carry, mean, x);
        Ok(report)
    }

    fn system<'a>(
        &self,
        op: &'a SheafOp<'a, T>,
        rho: &Penalty<'a, T>,
        b: &'a [T],
        y: &'a mut [T],
        products: Products<'a, T>,
        grad: EdgeGrad<'a, T>,
    ) -> EdgeSystem<'a, T> {
        let weights = Weights::new(rho);
        let kappa = Kappa::new(self.agreement, T::ZERO, weights.mean, op);
        EdgeSystem { op, weights, kappa, b, y, products, first: 0, grad }
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_w`, maps, ρ, γ and η; replaces the gradient of the output
    /// carry in `d_carry` by that of the input carry.
    pub(super) fn vjp(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        _z_prev: &[T],
        carry: &[T],
        d_z: &[T],
        d_w: &mut [T],
        _d_z_prev: &mut [T],
        d_carry: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        if self.differentiates_solution() {
            let (system, accuracy) = ((self.agreement, T::ZERO), Accuracy::like(&self.stop));
            solution_vjp(op, rho, system, accuracy, w, d_z, d_w, grad, scratch)?;
            // The solution does not depend on where the solve started, so no gradient flows through the carry.
            d_carry.fill(T::ZERO);
            return Ok(());
        }
        let sheaf = op.sheaf();
        let (n, m, e) = (sheaf.state_len(), sheaf.row_len(), sheaf.edge_len());
        let steps = self.steps();
        let mut scratch = Scratch::new(scratch);
        let (y, row, state) = (scratch.take(m), scratch.take(m), scratch.take(n));
        let products = Products::carve(op, steps.products(), &mut scratch);
        let (b, start, x) = (scratch.take(e), scratch.take(e), scratch.take(e));
        let (d_x, work) = (scratch.take(e), scratch.take(4 * e));
        let (tmp, d_b, d_s) = (scratch.take(e), scratch.take(e), scratch.take(sheaf.agents()));
        d_b.fill(T::ZERO);
        d_s.fill(T::ZERO);
        op.raw().residual(w, b, y);
        let sums = EdgeGrad { tmp, d_b, d_s, d_kappa: T::ZERO };
        let mut system = self.system(op, rho, b, y, products, sums);
        let mean = system.weights.mean;
        scale_into(start, T::ONE / mean, carry);
        x.copy_from_slice(start);
        let mut trail = steps.trail(e, &mut scratch);
        let ran = steps.run(&mut system, x, work, Some(&mut trail)).steps;

        let mut d_mean = dot(d_carry, x);
        self.answer_vjp(&mut system, x, d_z, d_w, d_x, grad, state, row);
        axpy(d_x, mean, d_carry);
        *grad.eta += steps.run_vjp(&mut system, ran, start, &mut trail, d_x, work);
        system.products.add_pairs(op, grad.maps);

        if !grad.offsets.is_empty() {
            axpy(grad.offsets, -T::ONE, system.grad.d_b);
        }
        op.raw().coboundary_t(system.grad.d_b, state, row);
        add(d_w, state);
        grad.maps.outers(sheaf, op.maps(), T::ONE, 1, row, w);
        d_mean -= dot(d_x, start) / mean;
        scale_into(d_carry, T::ONE / mean, d_x);
        if let Agreement::Soft { gamma } = self.agreement {
            d_mean += system.grad.d_kappa / gamma;
            *grad.gamma -= system.grad.d_kappa * mean / (gamma * gamma);
        }
        system.weights.vjp(system.grad.d_s, d_mean, grad.rho);
        Ok(())
    }

    /// Adjoint of z = w − S Fᵀ x; replaces `d_x`.
    fn answer_vjp(
        &self,
        system: &mut EdgeSystem<'_, T>,
        x: &[T],
        d_z: &[T],
        d_w: &mut [T],
        d_x: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        state: &mut [T],
        row: &mut [T],
    ) {
        let op = system.op;
        op.raw().coboundary_t(x, state, row);
        for (i, range) in op.sheaf().state_offsets().windows(2).enumerate() {
            let range = range[0]..range[1];
            system.grad.d_s[i] -= dot(&d_z[range.clone()], &state[range]);
        }
        add(d_w, d_z);
        state.copy_from_slice(d_z);
        system.weights.scale(op.sheaf(), state);
        grad.maps.outers(op.sheaf(), op.maps(), -T::ONE, 1, row, state);
        op.raw().coboundary(state, d_x, row);
        d_x.iter_mut().for_each(|d| *d = -*d);
    }
}

/// out = factor·x; zeros if there is no x.
fn scale_into<T: Real>(out: &mut [T], factor: T, x: &[T]) {
    if x.is_empty() {
        out.fill(T::ZERO);
    }
    out.iter_mut().zip(x).for_each(|(o, &x)| *o = factor * x);
}
