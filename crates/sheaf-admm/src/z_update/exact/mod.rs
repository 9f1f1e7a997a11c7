//! Exact solves by factorisation, cached from one ADMM iteration to the next.
//!
//! | agreement | factored in `prepare` | solution |
//! | --- | --- | --- |
//! | soft | A = γ L + ρ, `[states, states]` | A z = ρ w |
//! | hard | G = F S Fᵀ, `[edges, edges]` | G λ = F w, z = w − S Fᵀ λ |
//!
//! S = h/ρ_i is the metric of the penalties (the identity for a single one). Rows of F may depend on each other, as
//! they do around a cycle of agents that all compare the same thing: a row whose squared distance from the rows before
//! it is below `rank_tolerance` of its squared length is dropped, which changes λ but not z. As G squares the condition
//! of F, the projection is applied twice; the second pass removes the rounding error in F z.
//!
//! The adjoint is that of the solution, not of the steps of an algorithm:
//!
//! ```text
//! soft: A μ = z̄;             w̄ += ρ μ;        ρ̄ += μ·(w − z);   γ̄ −= μ·L z;   dF −= γ (e(z) μᵀ + e(μ) zᵀ)
//! hard: G μ = F S z̄,
//!       a = S (z̄ − Fᵀ μ);    w̄ += S⁻¹ a;      s̄_i += a_i·(z − w)_i / s_i²;      dF −= Dᵀλ aᵀ + Dᵀμ zᵀ
//! ```
//!
//! In the hard case this is the derivative along changes of F that keep its rank, the only ones along which the
//! projection is smooth; along others the multipliers of dropped rows count as 0.

mod plan;

use std::sync::Arc;

use super::checks::EdgeSupport;
use super::weights::Weights;
use super::{Agreement, ConsensusGrad, InnerReport};
use crate::error::check_positive;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{Sheaf, SheafOp};
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};
use plan::Plan;
use sheaf_kernels::vector::{add, axpy, dot};

/// An exact solve. `prepare` must have run with the same maps and penalty before `forward` and `vjp`, which read the
/// factor from the front of the same scratch.
#[derive(Clone, Debug)]
pub struct Exact<T> {
    /// Hard or soft; must stay the kind that [`Exact::new`] was given.
    pub agreement: Agreement<T>,
    /// Hard: a row of F is dropped if its part beyond the rows before it is below this share of its squared length.
    pub rank_tolerance: T,
    plan: Arc<Plan>,
}

impl<T: Real> Exact<T> {
    /// Orders the unknowns of this sheaf and finds the shape of the factor.
    pub fn new(sheaf: &Sheaf, agreement: Agreement<T>) -> Self {
        let plan = match agreement {
            Agreement::Soft { .. } => Plan::soft(sheaf),
            Agreement::Hard => Plan::hard(sheaf),
        };
        // Between rounding (a few ε) and dependence that matters; a dropped row is then broken by at most ε^⅜.
        let rank_tolerance = T::EPSILON.sqrt() * T::EPSILON.sqrt().sqrt();
        Self { agreement, rank_tolerance, plan: Arc::new(plan) }
    }

    /// Length of the factor.
    pub fn factor_len(&self) -> usize {
        self.plan.envelope.len()
    }

    /// Checks the options, and that the sheaf is the one the plan was made for.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        let edges = EdgeSupport { hard_edges: false, ..EdgeSupport::ALL };
        edges.check("exact solver", self.agreement, op, "solve with ZUpdate::EdgeSpace to a tolerance")?;
        let soft = match self.agreement {
            Agreement::Soft { gamma } => check_positive("gamma", gamma.to_f64()).map(|()| true)?,
            Agreement::Hard => false,
        };
        let name = |soft| if soft { "soft agreement" } else { "hard agreement" };
        if soft != self.plan.soft {
            return Err(Error::new(ErrorKind::Unsupported, "exact solver", name(self.plan.soft), name(soft))
                .hint("make another one with Exact::new"));
        }
        if !(self.rank_tolerance >= T::ZERO && self.rank_tolerance < T::ONE) {
            return Err(Error::new(
                ErrorKind::OutOfRange,
                "rank tolerance",
                "a number of at least 0 and below 1",
                self.rank_tolerance,
            ));
        }
        if *op.sheaf() == self.plan.sheaf { Ok(()) } else { Err(another_sheaf(op)) }
    }

    /// Checks what the solve itself relies on: that all vectors have the lengths of its own sheaf.
    fn check_sheaf(&self, op: &SheafOp<'_, T>) -> Result<()> {
        let lens = |s: &Sheaf| (s.agents(), s.state_len(), s.row_len(), s.edge_len());
        if lens(op.sheaf()) == lens(&self.plan.sheaf) { Ok(()) } else { Err(another_sheaf(op)) }
    }

    /// Length of the scratch that `prepare`, `forward` and `vjp` share.
    pub(super) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let (n, m, e) = (op.sheaf().state_len(), op.sheaf().row_len(), op.sheaf().edge_len());
        let solve = 6 * m + 7 * n + if self.plan.soft { 0 } else { 4 * e } + op.sheaf().agents();
        self.plan.factor_room() + solve.max(Plan::assemble_scratch_len(op.sheaf()))
    }

    /// Length of the scratch that `prepare` and `forward` need if no adjoint runs.
    pub(super) fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        self.scratch_len(op)
    }

    /// Factors the system of these maps and this penalty into the front of `scratch`.
    pub(super) fn prepare(&self, op: &SheafOp<'_, T>, rho: &Penalty<'_, T>, scratch: &mut [T]) -> Result<()> {
        self.validate(op)?;
        let (factor, work) = scratch.split_at_mut(self.plan.factor_room());
        let factor = &mut factor[..self.plan.envelope.len()];
        let tolerance = match self.agreement {
            Agreement::Soft { gamma } => {
                self.plan.assemble_soft(op, gamma, rho, factor, work);
                None
            }
            Agreement::Hard => {
                self.plan.assemble_hard(op, &Weights::new(rho), factor, work);
                Some(self.rank_tolerance)
            }
        };
        self.plan.envelope.factor(factor, tolerance).map(|_| ())
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
        self.check_sheaf(op)?;
        let (factor, work) = scratch.split_at_mut(self.plan.factor_room());
        let mut work = Scratch::new(work);
        match self.agreement {
            Agreement::Soft { gamma } => self.soft(op, rho, gamma, factor, w, z, &mut work),
            Agreement::Hard => {
                let lambda = work.take(op.sheaf().edge_len());
                self.project(op, &Weights::new(rho), factor, w, true, z, lambda, &mut work);
            }
        }
        Ok(InnerReport { steps: 1, converged: true })
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_w`, maps, ρ and γ.
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
        self.check_sheaf(op)?;
        let (factor, work) = scratch.split_at_mut(self.plan.factor_room());
        let work = Scratch::new(work);
        match self.agreement {
            Agreement::Soft { gamma } => self.soft_vjp(op, rho, gamma, factor, w, d_z, d_w, grad, work),
            Agreement::Hard => self.hard_vjp(op, &Weights::new(rho), factor, w, d_z, d_w, grad, work),
        }
        Ok(())
    }

    /// z = A⁻¹(ρ w + γ FᵀΩ b).
    fn soft(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        gamma: T,
        factor: &[T],
        w: &[T],
        z: &mut [T],
        work: &mut Scratch<'_, T>,
    ) {
        let (n, m) = (op.sheaf().state_len(), op.sheaf().row_len());
        let (right, tmp) = (work.take(n), work.take(n));
        for (i, range) in op.sheaf().state_offsets().windows(2).enumerate() {
            for k in range[0]..range[1] {
                right[k] = rho.of(i) * w[k];
            }
        }
        if op.offsets().is_some() {
            let (y, s, pulled) = (work.take(m), work.take(m), work.take(n));
            tmp.fill(T::ZERO);
            op.raw().affine_laplacian(tmp, pulled, y, s);
            axpy(right, -gamma, pulled);
        }
        self.plan.envelope.solve(factor, right, z, tmp);
    }

    fn soft_vjp(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        gamma: T,
        factor: &[T],
        w: &[T],
        d_z: &[T],
        d_w: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        mut work: Scratch<'_, T>,
    ) {
        let (n, m) = (op.sheaf().state_len(), op.sheaf().row_len());
        let (y, rows) = (work.take(m), work.take(2 * m));
        let (states, tmp) = (work.take(2 * n), work.take(n));
        let (mu, z) = states.split_at_mut(n);
        self.plan.envelope.solve(factor, d_z, mu, tmp);
        self.soft(op, rho, gamma, factor, w, z, &mut work);
        let (e_z, e_mu) = rows.split_at_mut(m);
        op.raw().affine_laplacian(z, tmp, y, e_z);
        edge_grads(op, gamma, z, mu, grad, y, e_mu);
        op.raw().project(mu, y);
        op.raw().exchange(y, e_mu);
        *grad.gamma -= dot(mu, tmp);
        for (i, range) in op.sheaf().state_offsets().windows(2).enumerate() {
            let mut d_rho = T::ZERO;
            for k in range[0]..range[1] {
                d_w[k] += rho.of(i) * mu[k];
                d_rho += mu[k] * (w[k] - z[k]);
            }
            grad.rho[rho.grad_index(i)] += d_rho;
        }
        op.raw().add_pair(grad.maps, -gamma, rows, states);
    }

    /// z, the projection of w in the metric of the weights onto F z = b (`affine`) or F z = 0, and its multipliers λ.
    fn project(
        &self,
        op: &SheafOp<'_, T>,
        weights: &Weights<'_, T>,
        factor: &[T],
        w: &[T],
        affine: bool,
        z: &mut [T],
        lambda: &mut [T],
        work: &mut Scratch<'_, T>,
    ) {
        let (n, m, e) = (op.sheaf().state_len(), op.sheaf().row_len(), op.sheaf().edge_len());
        let (rows, step) = (work.take(m), work.take(n));
        let (r, more, tmp) = (work.take(e), work.take(e), work.take(e));
        lambda.fill(T::ZERO);
        z.copy_from_slice(w);
        for _ in 0..2 {
            op.raw().coboundary(z, r, rows);
            if affine {
                op.raw().subtract_offsets(r);
            }
            self.plan.envelope.solve(factor, r, more, tmp);
            add(lambda, more);
            op.raw().coboundary_t(more, step, rows);
            weights.scale(op.sheaf(), step);
            axpy(z, -T::ONE, step);
        }
    }

    fn hard_vjp(
        &self,
        op: &SheafOp<'_, T>,
        weights: &Weights<'_, T>,
        factor: &[T],
        w: &[T],
        d_z: &[T],
        d_w: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        mut work: Scratch<'_, T>,
    ) {
        let sheaf = op.sheaf();
        let (n, m, e) = (sheaf.state_len(), sheaf.row_len(), sheaf.edge_len());
        let (rows, states) = (work.take(2 * m), work.take(2 * n));
        let (multipliers, pulled, d_s) = (work.take(e), work.take(n), work.take(sheaf.agents()));
        let (row_lambda, row_mu) = rows.split_at_mut(m);
        let (a, z) = states.split_at_mut(n);
        let work = work.rest();
        self.project(op, weights, factor, w, true, z, multipliers, &mut Scratch::new(work));
        op.raw().spread(multipliers, row_lambda);
        pulled.copy_from_slice(d_z);
        weights.scale(sheaf, pulled);
        self.project(op, weights, factor, pulled, false, a, multipliers, &mut Scratch::new(work));
        if !grad.offsets.is_empty() {
            add(grad.offsets, multipliers);
        }
        op.raw().spread(multipliers, row_mu);
        for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
            let s = weights.of(i);
            d_s[i] = T::ZERO;
            for k in range[0]..range[1] {
                d_w[k] += a[k] / s;
                d_s[i] += a[k] * (z[k] - w[k]) / (s * s);
            }
        }
        weights.vjp(d_s, T::ZERO, grad.rho);
        grad.maps.outers(sheaf, op.maps(), -T::ONE, 2, rows, states);
    }
}

/// Adds the gradients of offsets and weights of soft edges; `y` and `rows` are scratch of `row_len`.
fn edge_grads<T: Real>(
    op: &SheafOp<'_, T>,
    gamma: T,
    z: &[T],
    mu: &[T],
    grad: &mut ConsensusGrad<'_, '_, T>,
    y: &mut [T],
    rows: &mut [T],
) {
    if grad.offsets.is_empty() && grad.edge_weights.is_empty() {
        return;
    }
    op.raw().project(z, y);
    op.raw().project(mu, rows);
    for (i, e) in op.sheaf().edges().iter().enumerate() {
        let (u, v, start) = (e.row_u as usize, e.row_v as usize, e.start as usize);
        let weight = op.edge_weights().map_or(T::ONE, |weights| weights[i]);
        for k in 0..e.dim as usize {
            let along = gamma * (rows[u + k] - rows[v + k]);
            if let Some(d) = grad.offsets.get_mut(start + k) {
                *d += weight * along;
            }
            if let Some(d) = grad.edge_weights.get_mut(i) {
                let b = op.offsets().map_or(T::ZERO, |b| b[start + k]);
                *d -= along * (y[u + k] - y[v + k] - b);
            }
        }
    }
}

fn another_sheaf<T: Real>(op: &SheafOp<'_, T>) -> Error {
    let got = format!("another one, of {} agents", op.sheaf().agents());
    Error::new(ErrorKind::Shape, "exact solver", "the sheaf it was made for", got)
        .hint("make one for this sheaf with Exact::new")
}
