//! Dense quadratic: one linear solve per agent, factorised once per solve.
//!
//! ```text
//! f(x) = ½ xᵀQx + qᵀx
//! (Q + ρI) x = ρv − q
//! ```
//!
//! Adjoint, with (Q + ρI) λ = d_x (Q is symmetric):
//!
//! ```text
//! d_v += ρλ   d_q −= λ   d_Q −= λxᵀ   d_ρ += λᵀ(v − x)
//! ```
//!
//! d_Q treats every entry as free, so it is not symmetric in general; on symmetric changes of Q it is the derivative.
//!
//! | array | shape |
//! | --- | --- |
//! | v, x, q and their gradients | `[Σ d_i]` |
//! | Q, d_Q | `[Σ d_i²]`, row-major blocks |
//! | ρ, d_ρ | one number, or `[agents]` |

use super::agents::Agents;
use super::curvature::{Curvature, dot};
use super::penalty::Penalty;
use crate::error::{check_finite, check_len};
use crate::{Real, Result};

/// The parameters of the dense family.
#[derive(Clone, Copy, Debug)]
pub struct Dense<'a, T> {
    /// Q, symmetric and positive semidefinite.
    pub quad: &'a [T], // [Σ d_i²]
    /// q, the linear term.
    pub q: &'a [T], // [Σ d_i]
}

/// The gradients of a [`Dense`], added to; `None` if one is not needed.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct DenseGrad<'a, T> {
    pub quad: Option<&'a mut [T]>, // [Σ d_i²]
    pub q: Option<&'a mut [T]>,    // [Σ d_i]
}

impl<T> Default for DenseGrad<'_, T> {
    fn default() -> Self {
        Self { quad: None, q: None }
    }
}

impl<'a, T: Real> Dense<'a, T> {
    fn curvature(&self) -> Curvature<'a, T> {
        Curvature::Dense(self.quad)
    }

    pub(super) fn check_sizes(&self, agents: Agents<'_>) -> Result<()> {
        self.curvature().check_sizes("dense.quad", agents)?;
        check_len("dense.q", agents.width(), self.q.len())
    }

    pub(super) fn validate(&self, agents: Agents<'_>) -> Result<()> {
        check_finite("dense.q", self.q)?;
        self.curvature().validate("dense.quad", agents)
    }

    /// The factors, then λ of one agent.
    pub(super) fn scratch_len(&self, agents: Agents<'_>) -> usize {
        self.quad.len().saturating_add(agents.max_dim())
    }

    pub(super) fn prepare(&self, agents: Agents<'_>, rho: &Penalty<'_, T>, scratch: &mut [T]) -> Result<()> {
        let mut at = 0;
        for (i, d) in agents.dims().enumerate() {
            let block = at..at + d * d;
            at = block.end;
            self.curvature()
                .factor(&self.quad[block.clone()], d, rho.of(i), &mut scratch[block])
                .map_err(|bad| bad.of_agent(agents.name(i), "dense.quad + rho·I"))?;
        }
        Ok(())
    }

    pub(super) fn prox(
        &self,
        agents: Agents<'_>,
        rho: &Penalty<'_, T>,
        v: &[T],
        x: &mut [T],
        scratch: &mut [T],
    ) {
        let mut at = 0;
        for (i, d) in agents.dims().enumerate() {
            let (own, rho) = (agents.range(i), rho.of(i));
            let x = &mut x[own.clone()];
            x.iter_mut().zip(&v[own.clone()]).zip(&self.q[own]).for_each(|((x, &v), &q)| *x = rho * v - q);
            self.curvature().solve(&scratch[at..at + d * d], d, x);
            at += d * d;
        }
    }

    pub(super) fn vjp(
        &self,
        agents: Agents<'_>,
        rho: &Penalty<'_, T>,
        v: &[T],
        x: &[T],
        d_x: &[T],
        d_v: &mut [T],
        d_rho: &mut [T],
        grad: Option<&mut DenseGrad<'_, T>>,
        scratch: &mut [T],
    ) -> Result<()> {
        let (mut d_quad, mut d_q) =
            grad.map_or((None, None), |g| (g.quad.as_deref_mut(), g.q.as_deref_mut()));
        let (n, entries) = (agents.width(), self.quad.len());
        check_len("gradient of dense.quad", entries, d_quad.as_ref().map_or(entries, |d| d.len()))?;
        check_len("gradient of dense.q", n, d_q.as_ref().map_or(n, |d| d.len()))?;
        let (factors, lambda) = scratch.split_at_mut(entries);
        let mut at = 0;
        for (i, d) in agents.dims().enumerate() {
            let (own, block) = (agents.range(i), at..at + d * d);
            at = block.end;
            let (v, x, lambda) = (&v[own.clone()], &x[own.clone()], &mut lambda[..d]);
            lambda.copy_from_slice(&d_x[own.clone()]);
            self.curvature().solve(&factors[block.clone()], d, lambda);
            let own_rho = rho.of(i);
            d_v[own.clone()].iter_mut().zip(&*lambda).for_each(|(d, &l)| *d += own_rho * l);
            d_rho[rho.grad_index(i)] += dot(lambda, v) - dot(lambda, x);
            if let Some(d_q) = &mut d_q {
                d_q[own].iter_mut().zip(&*lambda).for_each(|(d, &l)| *d -= l);
            }
            if let Some(d_quad) = &mut d_quad {
                self.curvature().vjp(lambda, x, &mut d_quad[block]);
            }
        }
        Ok(())
    }

    pub(super) fn value(&self, agents: Agents<'_>, x: &[T]) -> T {
        let mut at = 0;
        let mut total = dot(self.q, x);
        for (i, d) in agents.dims().enumerate() {
            total += self.curvature().value(&self.quad[at..at + d * d], &x[agents.range(i)]);
            at += d * d;
        }
        total
    }
}
