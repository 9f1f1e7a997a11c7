//! The adjoint of the prox of a [`Quadratic`], at its active set W.
//!
//! ```text
//! H λ + C_Wᵀ β = d_x,   C_W λ = 0
//! d_v += ρλ   d_ρ += λᵀ(v − x)   d_q −= λ   d_Q −= λxᵀ   d_l2 −= λᵀx   d_β −= λᵀ(x − h)   d_h += βλ
//! right side of a row: d_r += β (a lower bound: −β)      the row itself: −νλ − βx
//! d_l1_j −= sign(x_j) λ_j
//! ```
//!
//! In the closed form λ is d_x/H on the coordinates that are neither at a bound nor held at 0 by l1; a coordinate at a
//! bound passes d_x on to the bound. At a change of the active set the derivative is the one of the set that the prox
//! ended with. d_Q treats every stored entry as free, so it is not symmetric in general; on symmetric changes it is the
//! derivative.

use super::Quadratic;
use super::work::Row;
use crate::x_update::proximal::ProxGrad;
use crate::{Matrix, Result};

/// The gradient of everything that a [`Quadratic`] holds, each in the shape that it was given in.
#[derive(Clone, Debug, PartialEq)]
pub struct QuadraticGrad {
    /// Of the stored entries of Q.
    pub quad: Vec<f64>,
    /// Of q.
    pub q: Vec<f64>,
    /// Of the weights of |x_j|; empty if there are none.
    pub l1: Vec<f64>,
    /// Of l2.
    pub l2: f64,
    /// Of the strength of the tether.
    pub beta: f64,
    /// Of the anchor of the tether; empty if there is none.
    pub anchor: Vec<f64>,
    /// Of the lower bounds; empty if there are none.
    pub lo: Vec<f64>,
    /// Of the upper bounds; empty if there are none.
    pub hi: Vec<f64>,
    /// Of the stored entries of A.
    pub equal: Vec<f64>,
    /// Of b.
    pub equal_to: Vec<f64>,
    /// Of the stored entries of G.
    pub at_most: Vec<f64>,
    /// Of the limits of G x.
    pub limit: Vec<f64>,
}

/// The parts of a flat gradient.
struct Parts<'g> {
    quad: &'g mut [f64],
    q: &'g mut [f64],
    l1: &'g mut [f64],
    l2: &'g mut [f64],
    beta: &'g mut [f64],
    anchor: &'g mut [f64],
    lo: &'g mut [f64],
    hi: &'g mut [f64],
    equal: &'g mut [f64],
    equal_to: &'g mut [f64],
    at_most: &'g mut [f64],
    limit: &'g mut [f64],
}

impl Quadratic {
    pub(super) fn grad_len(&self) -> usize {
        let anchor = self.tether.as_ref().map_or(0, |t| t.1.len());
        let rows =
            self.equal.0.stored() + self.equal.1.len() + self.at_most.0.stored() + self.at_most.1.len();
        self.quad.stored() + self.q.len() + self.l1.len() + 2 + anchor + self.lo.len() + self.hi.len() + rows
    }

    /// Names the parts of a flat gradient of this quadratic.
    pub(crate) fn name_grad(&self, flat: &mut [f64]) -> QuadraticGrad {
        let p = self.parts(flat);
        QuadraticGrad {
            quad: p.quad.to_vec(),
            q: p.q.to_vec(),
            l1: p.l1.to_vec(),
            l2: p.l2[0],
            beta: p.beta[0],
            anchor: p.anchor.to_vec(),
            lo: p.lo.to_vec(),
            hi: p.hi.to_vec(),
            equal: p.equal.to_vec(),
            equal_to: p.equal_to.to_vec(),
            at_most: p.at_most.to_vec(),
            limit: p.limit.to_vec(),
        }
    }

    fn parts<'g>(&self, flat: &'g mut [f64]) -> Parts<'g> {
        let mut all = crate::linalg::scratch::Scratch::new(flat);
        let d = self.q.len();
        Parts {
            quad: all.take(self.quad.stored()),
            q: all.take(d),
            l1: all.take(self.l1.len()),
            l2: all.take(1),
            beta: all.take(1),
            anchor: all.take(self.tether.as_ref().map_or(0, |t| t.1.len())),
            lo: all.take(self.lo.len()),
            hi: all.take(self.hi.len()),
            equal: all.take(self.equal.0.stored()),
            equal_to: all.take(self.equal.1.len()),
            at_most: all.take(self.at_most.0.stored()),
            limit: all.take(self.at_most.1.len()),
        }
    }

    pub(super) fn reverse(
        &self,
        rho: f64,
        v: &[f64],
        x: &[f64],
        d_x: &[f64],
        grad: &mut ProxGrad<'_, f64>,
        scratch: &mut [f64],
    ) -> Result<()> {
        self.fill(rho, scratch)?;
        let mut work = self.split(scratch);
        if !work.nu.is_empty() {
            // The active set in the scratch may be that of a later iteration: solve this one again.
            self.pull(rho, v, work.right);
            self.solve_h(work.factor, work.right, work.tmp);
            self.solve_rows(&mut work)?;
        }
        work.right.copy_from_slice(d_x);
        if self.separable() {
            for j in 0..x.len() {
                let free = self.lo(j) < x[j] && x[j] < self.hi(j) && !self.held(j, x[j]);
                work.right[j] = if free { d_x[j] * work.factor[j] } else { 0.0 };
            }
        } else {
            self.solve_h(work.factor, work.right, work.tmp);
            work.adjoint();
        }
        let lambda = &*work.right;
        grad.add_lambda(rho, lambda, v, x);
        if grad.params.is_empty() {
            return Ok(());
        }
        let mut parts = self.parts(grad.params);
        self.common(lambda, x, &mut parts);
        if self.separable() {
            self.bounds_vjp(x, d_x, &mut parts);
            return Ok(());
        }
        let n = work.head[2] as usize;
        for (k, kind) in self.row_kinds().enumerate() {
            let position = (0..n).find(|&i| work.active[i] == k as f64);
            let beta = position.map_or(0.0, |i| work.step[i]);
            match kind {
                Row::Equal(i) => parts.equal_to[i] += beta,
                Row::AtMost(i) => parts.limit[i] += beta,
                Row::Upper(j) => parts.hi[j] += beta,
                Row::Lower(j) => parts.lo[j] -= beta,
                Row::Abs(j) if position.is_none() => parts.l1[j] -= work.nu[k].signum() * lambda[j],
                Row::Abs(_) => {}
            }
        }
        let m = self.equal.1.len();
        let beta = |k: usize| (0..n).find(|&i| work.active[i] == k as f64).map_or(0.0, |i| work.step[i]);
        let row = |matrix: &Matrix, first: usize, into: &mut [f64]| {
            let mut at = 0;
            matrix.each(|row, j, _| {
                into[at] -= work.nu[first + row] * lambda[j] + beta(first + row) * x[j];
                at += 1;
            });
        };
        row(&self.equal.0, 0, parts.equal);
        row(&self.at_most.0, m, parts.at_most);
        Ok(())
    }

    /// The terms of the objective.
    fn common(&self, lambda: &[f64], x: &[f64], parts: &mut Parts<'_>) {
        let mut at = 0;
        self.quad.each(|i, j, _| {
            parts.quad[at] -= lambda[i] * x[j];
            at += 1;
        });
        for j in 0..x.len() {
            parts.q[j] -= lambda[j];
            parts.l2[0] -= lambda[j] * x[j];
        }
        if let Some((beta, anchor)) = &self.tether {
            for j in 0..x.len() {
                parts.beta[0] -= lambda[j] * (x[j] - anchor[j]);
                parts.anchor[j] += beta * lambda[j];
            }
        }
        if self.separable() {
            for (j, d_l1) in parts.l1.iter_mut().enumerate() {
                *d_l1 -= x[j].signum() * lambda[j];
            }
        }
    }

    /// The bounds of the closed form.
    fn bounds_vjp(&self, x: &[f64], d_x: &[f64], parts: &mut Parts<'_>) {
        for j in 0..x.len() {
            if x[j] == self.hi(j) {
                parts.hi[j] += d_x[j];
            } else if x[j] == self.lo(j) {
                parts.lo[j] += d_x[j];
            }
        }
    }

    /// Whether l1 holds a coordinate at 0.
    fn held(&self, j: usize, x: f64) -> bool {
        x == 0.0 && self.l1.get(j).is_some_and(|w| *w > 0.0)
    }
}
