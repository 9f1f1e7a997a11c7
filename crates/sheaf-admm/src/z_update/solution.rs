//! The solution of a consensus step and its gradient, independent of the steps that an algorithm takes to it.
//!
//! Hard, soft and mixed agreement are one system in the multipliers x = λ/h of the edges, with the metric S = h/ρ_i and
//! κ_e = h/(γω_e), 0 for hard edges:
//!
//! ```text
//! (K + F S Fᵀ) x = F w − b;      z = w − S Fᵀ x
//! ```
//!
//! Adjoint, from one more solve with the same operator:
//!
//! ```text
//! (K + F S Fᵀ) μ = F S z̄;        a = S (z̄ − Fᵀ μ)
//! w̄ += S⁻¹ a;   s̄_i += a_i·(z − w)_i / s_i²;   b̄ += μ;   κ̄_e = μ_e·x_e;   dF −= Dᵀx aᵀ + Dᵀμ zᵀ
//! ```
//!
//! Differentiating the steps of conjugate gradients instead gives another derivative, which is wrong where the right side
//! has few components (the steps end early, and a perturbation in a new direction would have needed more of them).

use super::weights::Weights;
use super::{Agreement, ConsensusGrad};
use crate::linalg::scratch::Scratch;
use crate::sheaf::{Sheaf, SheafOp};
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::vector::{axpy, dot, xpby};

/// κ of every edge: base/ω_e.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kappa<'a, T> {
    /// h/γ; 0 when hard.
    pub base: T,
    pub weights: Option<&'a [T]>, // [edges]
}

impl<'a, T: Real> Kappa<'a, T> {
    /// For this agreement; `mean` is h, `tikhonov` stands in a hard system where the states have it.
    pub(super) fn new(agreement: Agreement<T>, tikhonov: T, mean: T, op: &SheafOp<'a, T>) -> Self {
        let base = match agreement {
            Agreement::Hard => tikhonov * mean,
            Agreement::Soft { gamma } => mean / gamma,
        };
        Self { base, weights: op.edge_weights() }
    }

    /// κ of one edge.
    fn of(&self, edge: usize) -> T {
        match self.weights {
            Some(weights) if weights[edge] == T::INFINITY => T::ZERO,
            Some(weights) => self.base / weights[edge],
            None => self.base,
        }
    }

    /// k += κ∘p.
    pub(super) fn add_to(&self, sheaf: &Sheaf, p: &[T], k: &mut [T]) {
        if self.weights.is_none() {
            return axpy(k, self.base, p);
        }
        for (e, edge) in sheaf.edges().iter().enumerate() {
            let own = edge.start as usize..(edge.start + edge.dim) as usize;
            axpy(&mut k[own.clone()], self.of(e), &p[own]);
        }
    }
}

/// The system K + F S Fᵀ.
pub(super) struct EdgeOperator<'a, T> {
    pub op: &'a SheafOp<'a, T>,
    pub weights: Weights<'a, T>,
    pub kappa: Kappa<'a, T>,
}

/// Vectors of a solve.
struct Work<'s, T> {
    r: &'s mut [T],    // [edges]
    p: &'s mut [T],    // [edges]
    k: &'s mut [T],    // [edges]
    t: &'s mut [T],    // [states]
    rows: &'s mut [T], // [rows]
}

/// When the solves of an adjoint end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accuracy<T> {
    /// Relative to the right side.
    pub relative: T,
    /// What is accepted if the steps run out.
    pub accepted: T,
    pub max_steps: usize,
}

impl<T: Real> Accuracy<T> {
    /// As accurate as a solve with this stopping rule, but no more accurate than rounding allows.
    pub(super) fn like(stop: &super::Stop<T>) -> Self {
        let tightest = T::EPSILON * T::from_f64(32.0);
        match *stop {
            super::Stop::Tolerance { relative, max_steps, .. } if relative > T::ZERO => {
                let goal = relative.min(T::from_f64(1e-6)).max(tightest);
                Self { relative: goal, accepted: relative.max(T::EPSILON.sqrt()), max_steps }
            }
            _ => Self { relative: tightest, accepted: T::EPSILON.sqrt(), max_steps: stop.max_steps() },
        }
    }
}

impl<T: Real> EdgeOperator<'_, T> {
    /// k = (K + F S Fᵀ) p.
    fn apply(&self, p: &[T], k: &mut [T], t: &mut [T], rows: &mut [T]) {
        let sheaf = self.op.sheaf();
        self.op.raw().coboundary_t(p, t, rows);
        self.weights.scale(sheaf, t);
        self.op.raw().coboundary(t, k, rows);
        self.kappa.add_to(sheaf, p, k);
    }

    /// Solves for x from 0, `work.r` holding the right side; returns the relative residual.
    fn solve(&self, accuracy: Accuracy<T>, x: &mut [T], work: &mut Work<'_, T>) -> T {
        let Work { r, p, k, t, rows } = work;
        x.fill(T::ZERO);
        p.copy_from_slice(r);
        let mut c = dot(r, r);
        let reference = c.sqrt();
        let goal = (accuracy.relative * reference) * (accuracy.relative * reference);
        // Twice the steps of the forward solve: its right side may be easier.
        let most = accuracy.max_steps.saturating_mul(2).saturating_add(100);
        let mut best = c;
        for _ in 0..most {
            if c <= goal {
                break;
            }
            self.apply(p, k, t, rows);
            let length = dot(p, k);
            if !(length > T::ZERO && length.is_finite()) {
                break;
            }
            let a = c / length;
            axpy(x, a, p);
            axpy(r, -a, k);
            let next = dot(r, r);
            xpby(p, r, next / c);
            c = next;
            best = best.min(c);
        }
        if reference > T::ZERO { best.sqrt() / reference } else { T::ZERO }
    }

    /// Adds the gradients of γ and ω from κ̄_e = μ_e·x_e; returns that of h.
    fn kappa_vjp(
        &self,
        agreement: Agreement<T>,
        mu: &[T],
        x: &[T],
        grad: &mut ConsensusGrad<'_, '_, T>,
    ) -> T {
        let mut d_base = T::ZERO;
        for (e, edge) in self.op.sheaf().edges().iter().enumerate() {
            let own = edge.start as usize..(edge.start + edge.dim) as usize;
            let along = dot(&mu[own.clone()], &x[own]);
            match self.kappa.weights {
                Some(weights) if weights[e] == T::INFINITY => {}
                Some(weights) => {
                    d_base += along / weights[e];
                    if let Some(d_weight) = grad.edge_weights.get_mut(e) {
                        *d_weight -= along * self.kappa.base / (weights[e] * weights[e]);
                    }
                }
                None => d_base += along,
            }
        }
        if let Agreement::Soft { gamma } = agreement {
            *grad.gamma -= d_base * self.kappa.base / gamma;
        }
        // κ is proportional to h.
        d_base * self.kappa.base / self.weights.mean
    }
}

/// Length of the scratch of [`solution_vjp`].
pub(super) fn solution_scratch_len(sheaf: &Sheaf) -> usize {
    3 * sheaf.row_len() + 5 * sheaf.edge_len() + 4 * sheaf.state_len() + sheaf.agents()
}

/// Adjoint of the solution of a consensus step with target `w`: adds to `d_w` and to every gradient.
pub(super) fn solution_vjp<T: Real>(
    op: &SheafOp<'_, T>,
    rho: &Penalty<'_, T>,
    (agreement, tikhonov): (Agreement<T>, T),
    accuracy: Accuracy<T>,
    w: &[T],   // [states]
    d_z: &[T], // [states]
    d_w: &mut [T],
    grad: &mut ConsensusGrad<'_, '_, T>,
    scratch: &mut [T],
) -> Result<()> {
    let sheaf = op.sheaf();
    let (n, m, e) = (sheaf.state_len(), sheaf.row_len(), sheaf.edge_len());
    let weights = Weights::new(rho);
    // The Tikhonov term of the states is scaled by the penalties only where they differ.
    let tikhonov = if let Penalty::Scalar(rho) = rho { tikhonov / *rho } else { tikhonov };
    let system = EdgeOperator { op, weights, kappa: Kappa::new(agreement, tikhonov, weights.mean, op) };
    let mut scratch = Scratch::new(scratch);
    let (rows, y) = (scratch.take(2 * m), scratch.take(m));
    let (states, t, pulled) = (scratch.take(2 * n), scratch.take(n), scratch.take(n));
    let (x, mu) = (scratch.take(e), scratch.take(e));
    let mut work = Work { r: scratch.take(e), p: scratch.take(e), k: scratch.take(e), t, rows: y };
    let d_s = scratch.take(sheaf.agents());
    let (a, z) = states.split_at_mut(n);
    let (row_x, row_mu) = rows.split_at_mut(m);

    op.raw().residual(w, work.r, work.rows);
    let forward = system.solve(accuracy, x, &mut work);
    op.raw().spread(x, row_x);
    op.raw().lift(row_x, work.t);
    weights.scale(sheaf, work.t);
    z.copy_from_slice(w);
    axpy(z, -T::ONE, work.t);

    pulled.copy_from_slice(d_z);
    weights.scale(sheaf, pulled);
    op.raw().coboundary(pulled, work.r, work.rows);
    let backward = system.solve(accuracy, mu, &mut work);
    op.raw().spread(mu, row_mu);
    op.raw().lift(row_mu, work.t);
    weights.scale(sheaf, work.t);
    a.copy_from_slice(pulled);
    axpy(a, -T::ONE, work.t);
    check_solved(accuracy, forward.max(backward))?;

    for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
        let s = weights.of(i);
        d_s[i] = T::ZERO;
        for k in range[0]..range[1] {
            d_w[k] += a[k] / s;
            d_s[i] += a[k] * (z[k] - w[k]) / (s * s);
        }
    }
    let d_mean = system.kappa_vjp(agreement, mu, x, grad);
    let d_mean = if let (Penalty::Scalar(_), Agreement::Hard) = (rho, agreement) { T::ZERO } else { d_mean };
    weights.vjp(d_s, d_mean, grad.rho);
    if !grad.offsets.is_empty() {
        axpy(grad.offsets, T::ONE, mu);
    }
    grad.maps.outers(sheaf, op.maps(), -T::ONE, 2, rows, states);
    Ok(())
}

/// A gradient from a solve that ended far from its solution would be wrong without a sign of it.
pub(super) fn check_solved<T: Real>(accuracy: Accuracy<T>, reached: T) -> Result<()> {
    if reached <= accuracy.accepted {
        return Ok(());
    }
    let expected = format!("a relative residual of {:.1e}", accuracy.accepted);
    Err(Error::new(
        ErrorKind::SolverFailed,
        "gradient of a consensus step",
        expected,
        format_args!("{reached:.1e}"),
    )
    .hint("allow more steps in its tolerance, or solve with ZUpdate::Exact"))
}
