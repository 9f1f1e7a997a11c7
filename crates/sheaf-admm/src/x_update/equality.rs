//! Quadratic with linear equalities, through the Schur complement.
//!
//! ```text
//! f(x) = ½ xᵀQx + qᵀx        A x = b        H = Q + ρI,  S = A H⁻¹ Aᵀ
//! x₀ = H⁻¹(ρv − q),   ν = S⁻¹(A x₀ − b),   x = x₀ − H⁻¹Aᵀ ν
//! ```
//!
//! Adjoint: the same system with the right side (d_x, 0) gives (λ, β), that is
//! λ₀ = H⁻¹ d_x, β = S⁻¹ A λ₀, λ = λ₀ − H⁻¹Aᵀ β, and
//!
//! ```text
//! d_v += ρλ   d_q −= λ   d_Q −= λxᵀ   d_ρ += λᵀ(v − x)   d_b += β   d_A −= νλᵀ + βxᵀ
//! ```
//!
//! | array | shape |
//! | --- | --- |
//! | v, x, q and their gradients | `[Σ d_i]` |
//! | Q, d_Q | `[Σ d_i]` (diagonal) or `[Σ d_i²]` |
//! | m, the equalities of each agent | `[agents]` |
//! | A, d_A | `[Σ m_i d_i]`, row-major blocks `m_i × d_i` |
//! | b, d_b | `[Σ m_i]` |
//! | ρ, d_ρ | one number, or `[agents]` |

use std::ops::Range;

use super::agents::Agents;
use super::curvature::{Curvature, dot};
use super::penalty::Penalty;
use crate::error::{check_finite, check_len};
use crate::linalg::cholesky;
use crate::{Error, ErrorKind, Real, Result};

/// The parameters of the equality-constrained family. The rows of each agent's A must be independent.
#[derive(Clone, Copy, Debug)]
pub struct Equality<'a, T> {
    /// Q, symmetric and positive semidefinite.
    pub quad: Curvature<'a, T>,
    /// q, the linear term.
    pub q: &'a [T], // [Σ d_i]
    /// How many equalities each agent has, from 0 to d_i.
    pub rows: &'a [usize], // [agents]
    /// A, one m_i × d_i block per agent.
    pub a: &'a [T], // [Σ m_i d_i]
    /// b, the right side.
    pub b: &'a [T], // [Σ m_i]
}

/// The gradients of an [`Equality`], added to; `None` if one is not needed.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct EqualityGrad<'a, T> {
    pub quad: Option<&'a mut [T]>, // [Σ d_i] or [Σ d_i²], as the curvature
    pub q: Option<&'a mut [T]>,    // [Σ d_i]
    pub a: Option<&'a mut [T]>,    // [Σ m_i d_i]
    pub b: Option<&'a mut [T]>,    // [Σ m_i]
}

impl<T> Default for EqualityGrad<'_, T> {
    fn default() -> Self {
        Self { quad: None, q: None, a: None, b: None }
    }
}

/// Where one agent's data lies: m × d constraints, and its offsets in every array.
struct Block {
    agent: usize,
    d: usize,
    m: usize,
    x: Range<usize>,
    quad: Range<usize>,
    a: Range<usize>,
    b: Range<usize>,
    schur: Range<usize>,
}

/// The prepared arrays: factors of H, H⁻¹Aᵀ row by row, factors of S; then room for λ, ν and β of one agent.
struct Prepared<'s, T> {
    factor: &'s mut [T],
    lifted: &'s mut [T],
    schur: &'s mut [T],
    room: &'s mut [T],
}

impl<'a, T: Real> Equality<'a, T> {
    pub(super) fn check_sizes(&self, agents: Agents<'_>) -> Result<()> {
        check_len("equality.rows", agents.count(), self.rows.len())?;
        if let Some(i) = agents.dims().zip(self.rows).position(|(d, &m)| m > d) {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("equality.rows of agent {}", agents.name(i)),
                format_args!("at most {} independent equalities", agents.dim(i)),
                self.rows[i],
            ));
        }
        self.quad.check_sizes("equality.quad", agents)?;
        check_len("equality.q", agents.width(), self.q.len())?;
        check_len("equality.a", agents.dims().zip(self.rows).map(|(d, m)| d * m).sum(), self.a.len())?;
        check_len("equality.b", self.rows.iter().sum(), self.b.len())
    }

    pub(super) fn validate(&self, agents: Agents<'_>) -> Result<()> {
        check_finite("equality.q", self.q)?;
        check_finite("equality.a", self.a)?;
        check_finite("equality.b", self.b)?;
        self.quad.validate("equality.quad", agents)
    }

    pub(super) fn scratch_len(&self, agents: Agents<'_>) -> usize {
        let most = self.rows.iter().max().copied().unwrap_or(0);
        // Row counts of any size may arrive here before they are rejected.
        let fixed = self.quad.entries().len() + self.a.len();
        fixed
            .saturating_add(agents.max_dim())
            .saturating_add(self.schur_len())
            .saturating_add(most.saturating_mul(2))
    }

    fn schur_len(&self) -> usize {
        self.rows.iter().fold(0, |sum: usize, &m| sum.saturating_add(m.saturating_mul(m)))
    }

    fn split<'s>(&self, scratch: &'s mut [T]) -> Prepared<'s, T> {
        let (factor, rest) = scratch.split_at_mut(self.quad.entries().len());
        let (lifted, rest) = rest.split_at_mut(self.a.len());
        let (schur, room) = rest.split_at_mut(self.schur_len());
        Prepared { factor, lifted, schur, room }
    }

    fn blocks<'s>(&'s self, agents: Agents<'s>) -> impl Iterator<Item = Block> + use<'s, 'a, T> {
        let (mut quad, mut a, mut b, mut schur) = (0, 0, 0, 0);
        let next = |at: &mut usize, len: usize| {
            *at += len;
            *at - len..*at
        };
        let curvature = self.quad;
        self.rows.iter().enumerate().map(move |(agent, &m)| {
            let d = agents.dim(agent);
            Block {
                agent,
                d,
                m,
                x: agents.range(agent),
                quad: next(&mut quad, curvature.block_len(d)),
                a: next(&mut a, m * d),
                b: next(&mut b, m),
                schur: next(&mut schur, m * m),
            }
        })
    }

    pub(super) fn prepare(&self, agents: Agents<'_>, rho: &Penalty<'_, T>, scratch: &mut [T]) -> Result<()> {
        let Prepared { factor, lifted, schur, .. } = self.split(scratch);
        for at in self.blocks(agents) {
            let (name, d, m) = (agents.name(at.agent), at.d, at.m);
            let (factor, lifted) = (&mut factor[at.quad.clone()], &mut lifted[at.a.clone()]);
            let (a, schur) = (&self.a[at.a], &mut schur[at.schur]);
            self.quad
                .factor(&self.quad.entries()[at.quad], d, rho.of(at.agent), factor)
                .map_err(|bad| bad.of_agent(name, "equality.quad + rho·I"))?;
            lifted.copy_from_slice(a);
            lifted.chunks_exact_mut(d.max(1)).for_each(|row| self.quad.solve(factor, d, row));
            for i in 0..m {
                for j in 0..=i {
                    schur[i * m + j] = dot(&a[i * d..(i + 1) * d], &lifted[j * d..(j + 1) * d]);
                }
            }
            // A dependent row leaves a pivot of rounding size, of either sign.
            let rounding = T::EPSILON * T::from_f64(16.0 * (d + m) as f64);
            cholesky::factor(schur, m, rounding).map_err(|bad| dependent_row(name, bad.row))?;
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
        let Prepared { factor, lifted, schur, room } = self.split(scratch);
        for at in self.blocks(agents) {
            let (v, q, x) = (&v[at.x.clone()], &self.q[at.x.clone()], &mut x[at.x]);
            let (factor, lifted) = (&factor[at.quad], &lifted[at.a.clone()]);
            self.unconstrained(factor, rho.of(at.agent), v, q, x);
            let nu = &mut room[..at.m];
            residual(&self.a[at.a], x, &self.b[at.b], nu);
            cholesky::solve(&schur[at.schur], at.m, nu);
            subtract_rows(lifted, nu, x);
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
        grad: Option<&mut EqualityGrad<'_, T>>,
        scratch: &mut [T],
    ) -> Result<()> {
        let mut none = EqualityGrad::default();
        let grad = grad.unwrap_or(&mut none);
        self.check_grad(grad)?;
        let Prepared { factor, lifted, schur, room } = self.split(scratch);
        for at in self.blocks(agents) {
            let (own, d, m) = (rho.of(at.agent), at.d, at.m);
            let (v, q, x) = (&v[at.x.clone()], &self.q[at.x.clone()], &x[at.x.clone()]);
            let (factor, lifted, schur) = (&factor[at.quad.clone()], &lifted[at.a.clone()], &schur[at.schur]);
            let a = &self.a[at.a.clone()];
            let (lambda, rest) = room.split_at_mut(d);
            let (nu, beta) = rest[..2 * m].split_at_mut(m);

            // ν is not kept from the forward pass: one more solve with the cached factor recomputes it.
            self.unconstrained(factor, own, v, q, lambda);
            residual(a, lambda, &self.b[at.b.clone()], nu);
            cholesky::solve(schur, m, nu);

            lambda.copy_from_slice(&d_x[at.x.clone()]);
            self.quad.solve(factor, d, lambda);
            beta.iter_mut().zip(a.chunks_exact(d.max(1))).for_each(|(beta, row)| *beta = dot(row, lambda));
            cholesky::solve(schur, m, beta);
            subtract_rows(lifted, beta, lambda);

            d_v[at.x.clone()].iter_mut().zip(&*lambda).for_each(|(d, &l)| *d += own * l);
            d_rho[rho.grad_index(at.agent)] += dot(lambda, v) - dot(lambda, x);
            if let Some(d_q) = &mut grad.q {
                d_q[at.x].iter_mut().zip(&*lambda).for_each(|(d, &l)| *d -= l);
            }
            if let Some(d_quad) = &mut grad.quad {
                self.quad.vjp(lambda, x, &mut d_quad[at.quad]);
            }
            if let Some(d_b) = &mut grad.b {
                d_b[at.b].iter_mut().zip(&*beta).for_each(|(d, &b)| *d += b);
            }
            if let Some(d_a) = &mut grad.a {
                for (k, row) in d_a[at.a].chunks_exact_mut(d.max(1)).enumerate() {
                    for j in 0..d {
                        row[j] -= nu[k] * lambda[j] + beta[k] * x[j];
                    }
                }
            }
        }
        Ok(())
    }

    /// H⁻¹(ρv − q), the solution without equalities.
    fn unconstrained(&self, factor: &[T], rho: T, v: &[T], q: &[T], x: &mut [T]) {
        x.iter_mut().zip(v).zip(q).for_each(|((x, &v), &q)| *x = rho * v - q);
        self.quad.solve(factor, x.len(), x);
    }

    fn check_grad(&self, grad: &EqualityGrad<'_, T>) -> Result<()> {
        let len = |g: &Option<&mut [T]>, full: &[T]| g.as_ref().map_or(full.len(), |g| g.len());
        let entries = self.quad.entries();
        check_len("gradient of equality.quad", entries.len(), len(&grad.quad, entries))?;
        check_len("gradient of equality.q", self.q.len(), len(&grad.q, self.q))?;
        check_len("gradient of equality.a", self.a.len(), len(&grad.a, self.a))?;
        check_len("gradient of equality.b", self.b.len(), len(&grad.b, self.b))
    }

    pub(super) fn value(&self, agents: Agents<'_>, x: &[T]) -> T {
        let quadratic = |at: Block| self.quad.value(&self.quad.entries()[at.quad], &x[at.x]);
        dot(self.q, x) + self.blocks(agents).map(quadratic).sum()
    }
}

/// out = A x − b.
fn residual<T: Real>(a: &[T], x: &[T], b: &[T], out: &mut [T]) {
    let rows = a.chunks_exact(x.len().max(1)).zip(b);
    out.iter_mut().zip(rows).for_each(|(out, (row, &b))| *out = dot(row, x) - b);
}

/// x −= rowsᵀ · weights.
fn subtract_rows<T: Real>(rows: &[T], weights: &[T], x: &mut [T]) {
    for (row, &w) in rows.chunks_exact(x.len().max(1)).zip(weights) {
        x.iter_mut().zip(row).for_each(|(x, &r)| *x -= w * r);
    }
}

fn dependent_row(agent: usize, row: usize) -> Error {
    Error::new(
        ErrorKind::NotPositiveDefinite,
        format!("equality.a of agent {agent}"),
        "independent rows",
        format_args!("row {row}, which depends on the rows above it"),
    )
    .hint("remove the redundant equality, or use the general QP")
}
