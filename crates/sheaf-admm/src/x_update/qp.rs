//! General QP: equalities, inequalities and a box, solved per agent by an interior-point method.
//!
//! ```text
//! f(x) = ½ xᵀQx + qᵀx      A x = b,   G x ≤ h,   lo ≤ x ≤ hi
//! H x + q − ρv + Aᵀν + Gᵀμ + … = 0,   μ ≥ 0,   μᵀ(Gx − h) = 0        H = Q + ρI
//! ```
//!
//! Adjoint, through these conditions at the solution: with C the active rows (all of A, the rows of G and of the box
//! that x touches), (λ, β) solves H λ + Cᵀβ = d_x, C λ = 0, and
//!
//! ```text
//! d_v += ρλ   d_q −= λ   d_Q −= λxᵀ   d_ρ += λᵀ(v − x)
//! d_b += β   d_A −= νλᵀ + βxᵀ         d_h += β   d_G −= μλᵀ + βxᵀ         d_hi += β   d_lo −= β
//! ```
//!
//! with β = 0 off the active rows. Kinks are treated as in the diagonal family: a constraint that x only touches
//! (zero multiplier) counts as active. Among active rows that depend on each other, the one with the larger multiplier
//! (equalities first) is kept and the others get no gradient.
//!
//! This family is the one exception to the rule that a prox and its VJP do not allocate: the interior-point solver
//! does. The VJP keeps nothing from the forward pass; it recomputes the multipliers from the rows that x touches.
//! All arithmetic inside is `f64`.
//!
//! | array | shape |
//! | --- | --- |
//! | v, x, q and their gradients | `[Σ d_i]` |
//! | Q, d_Q | `[Σ d_i]` (diagonal) or `[Σ d_i²]` |
//! | m, p: equalities and inequalities of each agent | `[agents]`, or empty for none |
//! | A, d_A, G, d_G | `[Σ m_i d_i]`, `[Σ p_i d_i]`, row-major blocks |
//! | b, d_b, h, d_h | `[Σ m_i]`, `[Σ p_i]` |
//! | lo, hi and their gradients | one number, or `[Σ d_i]` |
//! | ρ, d_ρ | one number, or `[agents]` |

use std::ops::Range;

use super::active_set::LocalQp;
use super::agents::Agents;
use super::coefficient::{Coefficient, check_box};
use super::curvature::{Curvature, dot};
use super::penalty::Penalty;
use crate::error::{check_finite, check_len};
use crate::{Real, Result};

/// The parameters of the general QP.
#[derive(Clone, Copy, Debug)]
pub struct Qp<'a, T> {
    /// Q, symmetric and positive semidefinite.
    pub quad: Curvature<'a, T>,
    /// q, the linear term.
    pub q: &'a [T], // [Σ d_i]
    /// How many equalities each agent has; empty for none anywhere.
    pub eq_rows: &'a [usize], // [agents]
    /// A of the equalities.
    pub a: &'a [T], // [Σ m_i d_i]
    /// b of the equalities.
    pub b: &'a [T], // [Σ m_i]
    /// How many inequalities each agent has; empty for none anywhere.
    pub in_rows: &'a [usize], // [agents]
    /// G of the inequalities G x ≤ h.
    pub g: &'a [T], // [Σ p_i d_i]
    /// h of the inequalities.
    pub h: &'a [T], // [Σ p_i]
    /// The lower bound; −∞ allowed.
    pub lo: Option<Coefficient<'a, T>>,
    /// The upper bound; +∞ allowed.
    pub hi: Option<Coefficient<'a, T>>,
}

/// The gradients of a [`Qp`], added to, in the shapes of its fields; `None` if one is not needed.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct QpGrad<'a, T> {
    pub quad: Option<&'a mut [T]>,
    pub q: Option<&'a mut [T]>,
    pub a: Option<&'a mut [T]>,
    pub b: Option<&'a mut [T]>,
    pub g: Option<&'a mut [T]>,
    pub h: Option<&'a mut [T]>,
    pub lo: Option<&'a mut [T]>,
    pub hi: Option<&'a mut [T]>,
}

impl<T> Default for QpGrad<'_, T> {
    fn default() -> Self {
        Self { quad: None, q: None, a: None, b: None, g: None, h: None, lo: None, hi: None }
    }
}

/// Offsets of one agent's data in every array.
struct Block {
    agent: usize,
    x: Range<usize>,
    quad: Range<usize>,
    a: Range<usize>,
    b: Range<usize>,
    g: Range<usize>,
    h: Range<usize>,
}

impl<'a, T: Real> Qp<'a, T> {
    /// A quadratic without constraints; add them by setting their fields.
    pub fn new(quad: Curvature<'a, T>, q: &'a [T]) -> Self {
        Self { quad, q, eq_rows: &[], a: &[], b: &[], in_rows: &[], g: &[], h: &[], lo: None, hi: None }
    }

    pub(super) fn check_sizes(&self, agents: Agents<'_>) -> Result<()> {
        let n = agents.width();
        self.quad.check_sizes("qp.quad", agents)?;
        check_len("qp.q", n, self.q.len())?;
        let count = |rows: &[usize]| if rows.is_empty() { 0 } else { agents.count() };
        check_len("qp.eq_rows", count(self.eq_rows), self.eq_rows.len())?;
        check_len("qp.in_rows", count(self.in_rows), self.in_rows.len())?;
        // Saturating: a sum that overflows exceeds the length of every array.
        let sum = |terms: &mut dyn Iterator<Item = usize>| terms.fold(0, usize::saturating_add);
        let total = |rows: &[usize]| sum(&mut rows.iter().copied());
        let entries = |rows: &[usize]| sum(&mut agents.dims().zip(rows).map(|(d, m)| d.saturating_mul(*m)));
        check_len("qp.a", entries(self.eq_rows), self.a.len())?;
        check_len("qp.b", total(self.eq_rows), self.b.len())?;
        check_len("qp.g", entries(self.in_rows), self.g.len())?;
        check_len("qp.h", total(self.in_rows), self.h.len())?;
        self.lo.map_or(Ok(()), |b| b.check_len("qp.lo", n))?;
        self.hi.map_or(Ok(()), |b| b.check_len("qp.hi", n))
    }

    pub(super) fn validate(&self, agents: Agents<'_>) -> Result<()> {
        let arrays =
            [("qp.q", self.q), ("qp.a", self.a), ("qp.b", self.b), ("qp.g", self.g), ("qp.h", self.h)];
        arrays.into_iter().try_for_each(|(name, values)| check_finite(name, values))?;
        check_box("qp", agents, self.lo, self.hi)?;
        self.quad.validate("qp.quad", agents)
    }

    fn blocks<'s>(&'s self, agents: Agents<'s>) -> impl Iterator<Item = Block> + use<'s, 'a, T> {
        let (mut quad, mut a, mut b, mut g, mut h) = (0, 0, 0, 0, 0);
        let next = |at: &mut usize, len: usize| {
            *at += len;
            *at - len..*at
        };
        (0..agents.count()).map(move |agent| {
            let d = agents.dim(agent);
            let (m, p) = (self.eq_rows.get(agent).copied(), self.in_rows.get(agent).copied());
            let (m, p) = (m.unwrap_or(0), p.unwrap_or(0));
            Block {
                agent,
                x: agents.range(agent),
                quad: next(&mut quad, self.quad.block_len(d)),
                a: next(&mut a, m * d),
                b: next(&mut b, m),
                g: next(&mut g, p * d),
                h: next(&mut h, p),
            }
        })
    }

    /// One agent's problem: rows of A, of G, then of the finite bounds.
    fn local(&self, agents: Agents<'_>, at: &Block, rho: T, v: &[T]) -> LocalQp {
        let (d, rho, mut hessian) = (at.x.len(), rho.to_f64(), widen(&self.quad.entries()[at.quad.clone()]));
        if let Curvature::Diagonal(_) = self.quad {
            hessian = (0..d * d).map(|e| if e / d == e % d { hessian[e % d] } else { 0.0 }).collect();
        }
        (0..d).for_each(|i| hessian[i * d + i] += rho);
        let linear = at.x.clone().map(|i| self.q[i].to_f64() - rho * v[i].to_f64()).collect();
        let mut rows = widen(&self.a[at.a.clone()]);
        rows.extend(self.g[at.g.clone()].iter().map(|g| g.to_f64()));
        let mut rhs = widen(&self.b[at.b.clone()]);
        rhs.extend(self.h[at.h.clone()].iter().map(|h| h.to_f64()));
        for (i, side) in self.bounds(at) {
            let bound = if side > 0.0 { self.hi } else { self.lo };
            let start = rows.len();
            rows.resize(start + d, 0.0);
            rows[start + i - at.x.start] = side;
            rhs.push(side * bound.map_or(0.0, |b| b.at(i).to_f64()));
        }
        let agent = agents.name(at.agent);
        LocalQp { agent, d, hessian, linear, rows, rhs, equalities: at.b.len() }
    }

    /// The finite bounds of one agent: (coordinate, 1 for upper or −1 for lower).
    fn bounds(&self, at: &Block) -> impl Iterator<Item = (usize, f64)> + use<'a, T> {
        let (lo, hi) = (self.lo, self.hi);
        at.x.clone().flat_map(move |i| {
            let finite = |b: Option<Coefficient<'_, T>>| b.is_some_and(|b| b.at(i).is_finite());
            [(finite(hi), 1.0), (finite(lo), -1.0)].into_iter().filter(|b| b.0).map(move |b| (i, b.1))
        })
    }

    pub(super) fn prox(&self, agents: Agents<'_>, rho: &Penalty<'_, T>, v: &[T], x: &mut [T]) -> Result<()> {
        for at in self.blocks(agents) {
            let found = self.local(agents, &at, rho.of(at.agent), v).solve()?;
            x[at.x].iter_mut().zip(&found.x).for_each(|(x, &found)| *x = T::from_f64(found));
        }
        Ok(())
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
        grad: Option<&mut QpGrad<'_, T>>,
    ) -> Result<()> {
        let mut none = QpGrad::default();
        let grad = grad.unwrap_or(&mut none);
        self.check_grad(agents, grad)?;
        let accuracy = 64.0 * T::EPSILON.to_f64();
        for at in self.blocks(agents) {
            let own = rho.of(at.agent);
            let local = self.local(agents, &at, own, v);
            let found = local.solve_near(&widen(&x[at.x.clone()]), accuracy)?;
            let (lambda, beta) = local.adjoint(&found, &widen(&d_x[at.x.clone()]));
            let (v, lambda_t) = (&v[at.x.clone()], narrow::<T>(&lambda));
            let (x, x_t) = (&found.x, narrow::<T>(&found.x));
            add(&mut d_v[at.x.clone()], lambda_t.iter().map(|&l| own * l));
            d_rho[rho.grad_index(at.agent)] += dot(&lambda_t, v) - dot(&lambda_t, &x_t);
            if let Some(d_quad) = &mut grad.quad {
                self.quad.vjp(&lambda_t, &x_t, &mut d_quad[at.quad.clone()]);
            }
            let (eq, ineq) = (0..at.b.len(), at.b.len()..at.b.len() + at.h.len());
            let entries = |k: usize| {
                let (nu, beta, lambda) = (found.nu[k], beta[k], &lambda);
                (0..x.len()).map(move |j| T::from_f64(-(nu * lambda[j] + beta * x[j])))
            };
            let beta_of = |k: usize| T::from_f64(beta[k]);
            part(&mut grad.q, &at.x, lambda_t.iter().map(|&l| -l));
            part(&mut grad.b, &at.b, eq.clone().map(beta_of));
            part(&mut grad.h, &at.h, ineq.clone().map(beta_of));
            part(&mut grad.a, &at.a, eq.flat_map(entries));
            part(&mut grad.g, &at.g, ineq.clone().flat_map(entries));
            for (k, (i, side)) in (ineq.end..).zip(self.bounds(&at)) {
                let into = if side > 0.0 { &mut grad.hi } else { &mut grad.lo };
                if let Some(into) = into {
                    let slot = if into.len() == 1 { 0 } else { i };
                    into[slot] += T::from_f64(side * beta[k]);
                }
            }
        }
        Ok(())
    }

    fn check_grad(&self, agents: Agents<'_>, grad: &QpGrad<'_, T>) -> Result<()> {
        let check = |place: &str, full: usize, g: &Option<&mut [T]>| {
            check_len(place, full, g.as_ref().map_or(full, |g| g.len()))
        };
        check("gradient of qp.quad", self.quad.entries().len(), &grad.quad)?;
        check("gradient of qp.q", self.q.len(), &grad.q)?;
        check("gradient of qp.a", self.a.len(), &grad.a)?;
        check("gradient of qp.b", self.b.len(), &grad.b)?;
        check("gradient of qp.g", self.g.len(), &grad.g)?;
        check("gradient of qp.h", self.h.len(), &grad.h)?;
        let n = agents.width();
        self.lo.map_or(Ok(()), |b| check("gradient of qp.lo", b.grad_len(n), &grad.lo))?;
        self.hi.map_or(Ok(()), |b| check("gradient of qp.hi", b.grad_len(n), &grad.hi))
    }

    pub(super) fn value(&self, agents: Agents<'_>, x: &[T]) -> T {
        let quadratic = |at: Block| self.quad.value(&self.quad.entries()[at.quad], &x[at.x]);
        dot(self.q, x) + self.blocks(agents).map(quadratic).sum()
    }
}

fn widen<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}

fn narrow<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&v| T::from_f64(v)).collect()
}

fn add<T: Real>(into: &mut [T], terms: impl Iterator<Item = T>) {
    into.iter_mut().zip(terms).for_each(|(into, term)| *into += term);
}

fn part<T: Real>(into: &mut Option<&mut [T]>, at: &Range<usize>, terms: impl Iterator<Item = T>) {
    if let Some(into) = into {
        add(&mut into[at.clone()], terms);
    }
}
