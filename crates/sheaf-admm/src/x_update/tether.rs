//! Tether: each agent is pulled towards its own anchor h with strength β.
//!
//! ```text
//! f(x) = β/2 ‖x − h‖²
//! x = (βh + ρv)/(β + ρ)
//! ```
//!
//! Adjoint, with g = d_x/(β + ρ):
//!
//! ```text
//! d_h += βg   d_v += ρg   d_β += Σ g(h − x)   d_ρ += Σ g(v − x)
//! ```
//!
//! | array | shape |
//! | --- | --- |
//! | v, x, h and their gradients | `[Σ d_i]` |
//! | β, d_β | one number |
//! | ρ, d_ρ | one number, or `[agents]` |

use super::agents::Agents;
use super::penalty::Penalty;
use crate::error::{check_finite, check_len};
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::diagonal_prox::gap_dot;

/// The parameters of the tether.
#[derive(Clone, Copy, Debug)]
pub struct Tether<'a, T> {
    /// β, the strength, at least 0.
    pub beta: T,
    /// h, the anchor.
    pub anchor: &'a [T], // [Σ d_i]
}

/// The gradients of a [`Tether`], added to; `None` if one is not needed.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct TetherGrad<'a, T> {
    pub beta: Option<&'a mut T>,
    pub anchor: Option<&'a mut [T]>, // [Σ d_i]
}

impl<T> Default for TetherGrad<'_, T> {
    fn default() -> Self {
        Self { beta: None, anchor: None }
    }
}

impl<T: Real> Tether<'_, T> {
    pub(super) fn check_sizes(&self, agents: Agents<'_>) -> Result<()> {
        check_len("tether.anchor", agents.width(), self.anchor.len())
    }

    pub(super) fn validate(&self) -> Result<()> {
        if !self.beta.is_finite() || self.beta < T::ZERO {
            let kind = if self.beta.is_finite() { ErrorKind::NotPositive } else { ErrorKind::NotFinite };
            return Err(Error::new(kind, "tether.beta", "a finite number, at least 0", self.beta)
                .hint("pass the learned strength through softplus"));
        }
        check_finite("tether.anchor", self.anchor)
    }

    pub(super) fn prox(&self, agents: Agents<'_>, rho: &Penalty<'_, T>, v: &[T], x: &mut [T]) {
        for agent in 0..agents.count() {
            let (rho, at) = (rho.of(agent), agents.range(agent));
            let scale = T::ONE / (self.beta + rho);
            let (to_h, to_v) = (self.beta * scale, rho * scale);
            let (h, v) = (&self.anchor[at.clone()], &v[at.clone()]);
            x[at].iter_mut().zip(h).zip(v).for_each(|((x, &h), &v)| *x = to_h * h + to_v * v);
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
        grad: Option<&mut TetherGrad<'_, T>>,
    ) -> Result<()> {
        let (d_beta, d_anchor) =
            grad.map_or((None, None), |g| (g.beta.as_deref_mut(), g.anchor.as_deref_mut()));
        let n = agents.width();
        check_len("gradient of tether.anchor", n, d_anchor.as_ref().map_or(n, |d| d.len()))?;
        let mut beta_sum = T::ZERO;
        for agent in 0..agents.count() {
            let (own, at) = (rho.of(agent), agents.range(agent));
            let scale = T::ONE / (self.beta + own);
            let g = &d_x[at.clone()];
            d_v[at.clone()].iter_mut().zip(g).for_each(|(d_v, &g)| *d_v += own * scale * g);
            d_rho[rho.grad_index(agent)] += scale * gap_dot(g, &v[at.clone()], &x[at.clone()]);
            beta_sum += scale * gap_dot(g, &self.anchor[at.clone()], &x[at]);
        }
        if let Some(d_beta) = d_beta {
            *d_beta += beta_sum;
        }
        if let Some(d_anchor) = d_anchor {
            for agent in 0..agents.count() {
                let (at, to_h) = (agents.range(agent), self.beta / (self.beta + rho.of(agent)));
                d_anchor[at.clone()].iter_mut().zip(&d_x[at]).for_each(|(d, &g)| *d += to_h * g);
            }
        }
        Ok(())
    }

    pub(super) fn value(&self, x: &[T]) -> T {
        let gap: T = x.iter().zip(self.anchor).map(|(&x, &h)| (x - h) * (x - h)).sum();
        T::from_f64(0.5) * self.beta * gap
    }
}
