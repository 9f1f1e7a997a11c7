//! Soft systems that are too large to factor cheaply: conjugate gradients on the numbers that edges read.
//!
//! ```text
//! A = R̂ + κ L       L = Σ_e γω_e F_eᵀF_e,   κ = 1/h
//! ```
//!
//! L is stored as a sparse matrix, both triangles, and does not depend on ρ: a new penalty changes κ and the diagonal
//! only. Numbers that no edge reads are copied. The preconditioner is the diagonal of A: R̂ bounds the smallest eigenvalue
//! from below, so that the steps grow with √(κ‖L‖) and not with the size of the graph.
//!
//! `forward` starts at the previous z and reduces its residual by [`REDUCE`]. ADMM moves the target less and less, so the
//! error of the step falls with the residuals of the solve, which are those of the problem and are checked as such.

use super::rows::Rows;
use crate::chunks::{self, Cut};
use crate::clock;
use crate::linalg::scratch::Scratch;
use crate::sheaf::SheafOp;
use crate::z_update::InnerReport;
use crate::z_update::weights::Weights;
use crate::{Real, Result};

/// By how much a warm-started solve reduces its residual.
pub(super) const REDUCE: f64 = 0.03;
/// The most steps of one solve.
pub(super) const STEPS: usize = 2000;

/// The pattern of L on the numbers that edges read.
#[derive(Debug)]
pub(super) struct Iterative {
    pub(super) rows: Rows,         // with the m numbers that edges read
    pub(super) starts: Vec<usize>, // [m + 1]
    pub(super) cols: Vec<u32>,     // [nnz] off the diagonal, growing in each row
    pub(super) spans: Vec<usize>,  // [chunks + 1], where their entries begin
}

/// What `prepare` leaves.
struct Kept<'s, T> {
    values: &'s [T],  // [nnz], of L
    metric: &'s [T],  // [m], R̂
    inverse: &'s [T], // [m], 1/diagonal of A
    main: &'s [T],    // [m], diagonal of A
    pull: &'s [T],    // [m], Σ γω Fᵀb
    kappa: T,
}

impl Iterative {
    /// How many numbers are coupled.
    pub(super) fn unknowns(&self) -> usize {
        self.rows.coupled.len()
    }

    /// Entries of L.
    pub(super) fn entries(&self) -> usize {
        self.cols.len() + self.rows.coupled.len()
    }

    /// Length of what `prepare` leaves.
    pub(super) fn room(&self) -> usize {
        self.cols.len() + 5 * self.rows.coupled.len() + 1
    }

    /// Length of the scratch of a solve.
    pub(super) fn scratch_len(&self) -> usize {
        4 * self.rows.coupled.len()
    }

    pub(super) fn chunks(&self) -> usize {
        self.rows.bounds.len() - 1
    }

    fn kept<'s, T: Real>(&self, kept: &'s [T]) -> Kept<'s, T> {
        let m = self.rows.coupled.len();
        let (values, rest) = kept.split_at(self.cols.len());
        let part = |k: usize| &rest[k * m..(k + 1) * m];
        Kept { values, metric: part(0), inverse: part(2), main: part(3), pull: part(4), kappa: rest[5 * m] }
    }

    /// κ, and what depends on it.
    pub(super) fn rescale<T: Real>(&self, weights: &Weights<'_, T>, kept: &mut [T]) {
        let (m, kappa) = (self.rows.coupled.len(), T::ONE / weights.mean);
        let (front, back) = kept.split_at_mut(self.cols.len() + 2 * m);
        let (metric, diagonal) = front[self.cols.len()..].split_at(m);
        let (inverse, back) = back.split_at_mut(m);
        for k in 0..m {
            back[k] = metric[k] + kappa * diagonal[k];
            inverse[k] = T::ONE / back[k];
        }
        back[2 * m] = kappa;
    }

    /// z for target `w`, from `start`, with the residual reduced by `reduce`, or to rounding level, in at most `most` steps.
    pub(super) fn solve<T: Real>(
        &self,
        kept: &[T],
        w: &[T],
        start: &[T],
        reduce: T,
        affine: bool,
        z: &mut [T],
        scratch: &mut [T],
        most: usize,
    ) -> Result<InnerReport> {
        let (m, kept, chunks, bounds) =
            (self.rows.coupled.len(), self.kept(kept), self.chunks(), &self.rows.bounds[..]);
        let mut scratch = Scratch::new(scratch);
        let (y, r, p, q) = (scratch.take(m), scratch.take(m), scratch.take(m), scratch.take(m));
        z.copy_from_slice(w);
        y.iter_mut().zip(&self.rows.coupled).for_each(|(y, &k)| *y = start[k as usize]);
        // r = right side − A y, p = r/diagonal.
        let parts = (Cut::by_chunk(&mut *r, bounds), Cut::by_chunk(&mut *p, bounds));
        let [mut c, size] = chunks::sums(chunks, parts, |chunk, (r, p)| {
            let mut sums = [T::ZERO; 2];
            for (at, k) in (bounds[chunk]..bounds[chunk + 1]).enumerate() {
                let pull = if affine { kept.kappa * kept.pull[k] } else { T::ZERO };
                let right = kept.metric[k] * w[self.rows.coupled[k] as usize] + pull;
                r.data[at] = right - self.product(&kept, y, k);
                p.data[at] = kept.inverse[k] * r.data[at];
                sums[0] += r.data[at] * p.data[at];
                sums[1] += right * right * kept.inverse[k];
            }
            Ok(sums)
        })?;
        let floor = T::EPSILON * T::EPSILON * T::from_f64(4.0) * size;
        let goal = (reduce * reduce * c).max(floor);
        let mut report = InnerReport { steps: 0, converged: true };
        while c > goal {
            report.steps += 1;
            let [length] = chunks::sums(chunks, Cut::by_chunk(&mut *q, bounds), |chunk, q| {
                let mut sum = T::ZERO;
                for (at, k) in (bounds[chunk]..bounds[chunk + 1]).enumerate() {
                    q.data[at] = self.product(&kept, p, k);
                    sum += q.data[at] * p[k];
                }
                Ok([sum])
            })?;
            // Written so that NaN ends the loop too.
            if !(length > T::ZERO && length.is_finite()) || report.steps > most || clock::late() {
                report.converged = false;
                break;
            }
            let (a, last) = (c / length, c);
            let parts = (Cut::by_chunk(&mut *y, bounds), Cut::by_chunk(&mut *r, bounds));
            [c] = chunks::sums(chunks, parts, |chunk, (y, r)| {
                let mut sum = T::ZERO;
                for (at, k) in (bounds[chunk]..bounds[chunk + 1]).enumerate() {
                    y.data[at] += a * p[k];
                    r.data[at] -= a * q[k];
                    sum += r.data[at] * r.data[at] * kept.inverse[k];
                }
                Ok([sum])
            })?;
            let b = c / last;
            chunks::each(chunks, Cut::by_chunk(&mut *p, bounds), |chunk, p| {
                for (at, k) in (bounds[chunk]..bounds[chunk + 1]).enumerate() {
                    p.data[at] = kept.inverse[k] * r[k] + b * p.data[at];
                }
            });
        }
        y.iter().zip(&self.rows.coupled).for_each(|(&y, &k)| z[k as usize] = y);
        Ok(report)
    }

    /// (A y)_k.
    #[inline]
    fn product<T: Real>(&self, kept: &Kept<'_, T>, y: &[T], k: usize) -> T {
        let own = self.starts[k]..self.starts[k + 1];
        let mut sum = T::ZERO;
        for (&c, &v) in self.cols[own.clone()].iter().zip(&kept.values[own]) {
            sum += v * y[c as usize];
        }
        kept.main[k] * y[k] + kept.kappa * sum
    }

    /// x = c_e(F z − b) on every edge, `coefficient(e)` is c_e.
    pub(super) fn multipliers<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        coefficient: impl Fn(usize) -> T,
        affine: bool,
        z: &[T],
        x: &mut [T],
        rows: &mut [T],
    ) {
        op.raw().coboundary(z, x, rows);
        if affine {
            op.raw().subtract_offsets(x);
        }
        for (e, edge) in op.sheaf().edges().iter().enumerate() {
            let c = coefficient(e);
            x[edge.start as usize..(edge.start + edge.dim) as usize].iter_mut().for_each(|x| *x *= c);
        }
    }
}
