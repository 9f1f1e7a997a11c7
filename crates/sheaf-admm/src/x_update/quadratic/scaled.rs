//! A [`Quadratic`] in other units: x = D x̂, costs times c, and its gradients back in the units it was given in.
//!
//! ```text
//! Q̂ = c D (Q + l2 + β) D,   q̂ = c D (q − βh),   l̂1 = c D l1,   Â = A D,   Ĝ = G D,   bounds divided by D
//! ```

use super::{Quadratic, QuadraticGrad};
use crate::Matrix;
use crate::matrix::Kind;

impl Quadratic {
    /// f̂(x̂) = c·f(D x̂), up to a constant.
    pub(crate) fn scaled(&self, d: &[f64], c: f64) -> Self {
        let lift = self.lift();
        let n = d.len();
        let quad = match self.quad.kind() {
            Kind::Diagonal(q) => {
                Matrix::diagonal((0..n).map(|j| c * d[j] * (q[j] + lift) * d[j]).collect::<Vec<_>>())
            }
            Kind::Dense(q) => {
                let entry = |k: usize| {
                    let (i, j) = (k / n, k % n);
                    c * d[i] * (q[k] + if i == j { lift } else { 0.0 }) * d[j]
                };
                Matrix::dense(n, n, (0..n * n).map(entry).collect::<Vec<_>>())
            }
            Kind::Sparse(entries) => {
                let scaled = entries.iter().map(|&(i, j, v)| (i, j, c * d[i] * v * d[j]));
                let lifts = (0..n).map(|j| (j, j, c * d[j] * lift * d[j]));
                Matrix::sparse(n, n, scaled.chain(lifts).collect::<Vec<_>>())
            }
        };
        let mut out = Self::new(quad, vec![0.0; n]);
        out.set_scaled_q(self, d, c);
        out.l1 = self.l1.iter().zip(d).map(|(w, d)| c * d * w).collect();
        out.lo = vec![0.0; self.lo.len()];
        out.hi = vec![0.0; self.hi.len()];
        out.set_scaled_bounds(self, d);
        out.equal = (columns(&self.equal.0, d), self.equal.1.clone());
        out.at_most = (columns(&self.at_most.0, d), self.at_most.1.clone());
        out.renewed()
    }

    /// q̂ from the quadratic that this one is a scaled copy of.
    pub(crate) fn set_scaled_q(&mut self, given: &Self, d: &[f64], c: f64) {
        for (j, q) in self.q.iter_mut().enumerate() {
            let pull = given.tether.as_ref().map_or(0.0, |(beta, h)| beta * h[j]);
            *q = c * d[j] * (given.q[j] - pull);
        }
    }

    /// Bounds from the quadratic that this one is a scaled copy of.
    pub(crate) fn set_scaled_bounds(&mut self, given: &Self, d: &[f64]) {
        self.lo.iter_mut().zip(&given.lo).zip(d).for_each(|((own, lo), d)| *own = lo / d);
        self.hi.iter_mut().zip(&given.hi).zip(d).for_each(|((own, hi), d)| *own = hi / d);
    }

    /// The gradient of this quadratic from the flat one of its scaled copy.
    pub(crate) fn unscaled_grad(&self, scaled: &Self, flat: &mut [f64], d: &[f64], c: f64) -> QuadraticGrad {
        let mut g = scaled.name_grad(flat);
        let lifts: Vec<f64> = match scaled.quad.kind() {
            Kind::Diagonal(_) => g.quad.clone(),
            Kind::Dense(_) => (0..d.len()).map(|j| g.quad[j * d.len() + j]).collect(),
            Kind::Sparse(_) => g.quad.split_off(self.quad.stored()),
        };
        let mut at = 0;
        self.quad.each(|i, j, _| {
            g.quad[at] *= c * d[i] * d[j];
            at += 1;
        });
        let sum = |f: &dyn Fn(usize) -> f64| (0..d.len()).map(f).sum::<f64>();
        g.l2 = sum(&|j| c * d[j] * d[j] * lifts[j]);
        if let Some((beta, h)) = &self.tether {
            g.beta = g.l2 - sum(&|j| c * d[j] * h[j] * g.q[j]);
            g.anchor = (0..d.len()).map(|j| -beta * c * d[j] * g.q[j]).collect();
        }
        g.q.iter_mut().zip(d).for_each(|(g, d)| *g *= c * d);
        g.l1.iter_mut().zip(d).for_each(|(g, d)| *g *= c * d);
        g.lo.iter_mut().zip(d).for_each(|(g, d)| *g /= d);
        g.hi.iter_mut().zip(d).for_each(|(g, d)| *g /= d);
        for (matrix, grad) in [(&self.equal.0, &mut g.equal), (&self.at_most.0, &mut g.at_most)] {
            let mut at = 0;
            matrix.each(|_, j, _| {
                grad[at] *= d[j];
                at += 1;
            });
        }
        g
    }
}

/// M D.
fn columns(matrix: &Matrix, d: &[f64]) -> Matrix {
    let mut values = Vec::with_capacity(matrix.stored());
    matrix.each(|_, j, v| values.push(v * d[j]));
    // As many values as are stored.
    matrix.with_values(&values).unwrap_or_else(|_| matrix.clone())
}
