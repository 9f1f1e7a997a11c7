//! The scratch of a [`Quadratic`]: factor of H, the rows C, H⁻¹Cᵀ, S = C H⁻¹Cᵀ, and the active set of the last prox.
//!
//! | part | numbers |
//! | --- | --- |
//! | stamp, ρ, size of the active set | 3 |
//! | factor of H | d (diagonal), d², or the envelope |
//! | C, H⁻¹Cᵀ row by row | k·d each |
//! | S, factor of S on the active rows | k² each |
//! | active rows, whether a row is active, multipliers and their intervals, slacks, sizes of their terms, both of them at ν = 0, step | k each |
//! | x, two vectors of a solve | 3 d |
//! | the stamp again | 1 |
//!
//! A factor is kept from solve to solve. It counts as valid if the stamp stands at both ends and ρ is the same: scratch
//! that another problem has used in between then fails the test.

use super::Quadratic;
use crate::linalg::cholesky;
use crate::linalg::scratch::Scratch;
use crate::matrix::Kind;
use crate::{Error, ErrorKind, Result};

/// One row of C: what it asks of C_k x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Row {
    /// Row of A.
    Equal(usize),
    /// Row of G.
    AtMost(usize),
    /// x_j ≤ hi_j.
    Upper(usize),
    /// −x_j ≤ −lo_j.
    Lower(usize),
    /// l1_j |x_j|.
    Abs(usize),
}

/// The scratch, split.
pub(super) struct Work<'s> {
    pub head: &'s mut [f64],   // stamp, ρ, size of the active set
    pub factor: &'s mut [f64], // of H
    pub rows: &'s mut [f64],   // [k, d], C
    pub lifted: &'s mut [f64], // [k, d], H⁻¹ of every row
    pub schur: &'s mut [f64],  // [k, k], S
    pub chol: &'s mut [f64],   // [k, k], factor of S on the active rows, by rows of length k
    pub active: &'s mut [f64], // [k], the numbers of the active rows
    pub mark: &'s mut [f64],   // [k], 1 for an active row, else 0
    pub nu: &'s mut [f64],     // [k]
    pub low: &'s mut [f64],    // [k], the interval of ν
    pub high: &'s mut [f64],   // [k]
    pub slack: &'s mut [f64],  // [k]
    pub size: &'s mut [f64],   // [k]
    pub slack0: &'s mut [f64], // [k], at ν = 0
    pub size0: &'s mut [f64],  // [k]
    pub step: &'s mut [f64],   // [k]
    pub x: &'s mut [f64],      // [d]
    pub right: &'s mut [f64],  // [d]
    pub tmp: &'s mut [f64],    // [d]
    pub tail: &'s mut [f64],   // the stamp
}

impl Quadratic {
    /// The rows, in order.
    pub(super) fn row_kinds(&self) -> impl Iterator<Item = Row> + '_ {
        let d = if self.separable() { 0 } else { self.q.len() };
        (0..self.equal.1.len())
            .map(Row::Equal)
            .chain((0..self.at_most.1.len()).map(Row::AtMost))
            .chain((0..d).filter(|&j| self.hi(j).is_finite()).map(Row::Upper))
            .chain((0..d).filter(|&j| self.lo(j).is_finite()).map(Row::Lower))
            .chain((0..d.min(self.l1.len())).filter(|&j| self.l1[j] > 0.0).map(Row::Abs))
    }

    pub(super) fn row_count(&self) -> usize {
        if self.lo.is_empty() && self.hi.is_empty() && self.l1.is_empty() {
            return self.equal.1.len() + self.at_most.1.len();
        }
        self.row_kinds().count()
    }

    fn factor_len(&self) -> usize {
        let d = self.q.len();
        match &self.envelope {
            Some(envelope) => envelope.len(),
            None if self.is_diagonal() => d,
            None => d.saturating_mul(d),
        }
    }

    pub(super) fn work_len(&self) -> usize {
        let (d, k) = (self.q.len(), self.row_count());
        let rows = k.saturating_mul(d).saturating_add(k.saturating_mul(k)).saturating_mul(2);
        self.factor_len().saturating_add(rows).saturating_add(10 * k + 3 * d + 4)
    }

    pub(super) fn split<'s>(&self, scratch: &'s mut [f64]) -> Work<'s> {
        let (d, k) = (self.q.len(), self.row_count());
        let mut all = Scratch::new(scratch);
        Work {
            head: all.take(3),
            factor: all.take(self.factor_len()),
            rows: all.take(k * d),
            lifted: all.take(k * d),
            schur: all.take(k * k),
            chol: all.take(k * k),
            active: all.take(k),
            mark: all.take(k),
            nu: all.take(k),
            low: all.take(k),
            high: all.take(k),
            slack: all.take(k),
            size: all.take(k),
            slack0: all.take(k),
            size0: all.take(k),
            step: all.take(k),
            x: all.take(d),
            right: all.take(d),
            tmp: all.take(d),
            tail: all.take(1),
        }
    }

    /// Factorises H, lifts the rows and forms S, unless the scratch holds them.
    pub(super) fn fill(&self, rho: f64, scratch: &mut [f64]) -> Result<()> {
        let work = self.split(scratch);
        let stamp = self.stamp as f64;
        let mine = work.head[0] == stamp && work.tail[0] == stamp;
        if mine && work.head[1] == rho {
            return Ok(());
        }
        // Multipliers stay useful when only the penalty moved.
        if !mine {
            work.nu.fill(0.0);
            self.fill_rows(work.rows);
        }
        work.head[2] = if mine { -1.0 } else { -2.0 };
        work.head[1] = f64::NAN;
        self.factor(rho, work.factor)?;
        let (d, k) = (self.q.len(), work.nu.len());
        for (row, lifted) in work.rows.chunks_exact(d.max(1)).zip(work.lifted.chunks_exact_mut(d.max(1))) {
            lifted.copy_from_slice(row);
            self.solve_h(work.factor, lifted, work.tmp);
        }
        for i in 0..k {
            for j in 0..=i {
                let s = dot(&work.rows[i * d..(i + 1) * d], &work.lifted[j * d..(j + 1) * d]);
                (work.schur[i * k + j], work.schur[j * k + i]) = (s, s);
            }
        }
        (work.head[0], work.head[1], work.tail[0]) = (stamp, rho, stamp);
        Ok(())
    }

    fn fill_rows(&self, rows: &mut [f64]) {
        let (d, m) = (self.q.len(), self.equal.1.len());
        rows.fill(0.0);
        self.equal.0.each(|row, col, v| rows[row * d + col] += v);
        self.at_most.0.each(|row, col, v| rows[(m + row) * d + col] += v);
        for (k, kind) in self.row_kinds().enumerate() {
            match kind {
                Row::Upper(j) | Row::Abs(j) => rows[k * d + j] = 1.0,
                Row::Lower(j) => rows[k * d + j] = -1.0,
                Row::Equal(_) | Row::AtMost(_) => {}
            }
        }
    }

    /// The factor of H = Q + l2 + β + ρ, or its reciprocal where it is diagonal.
    fn factor(&self, rho: f64, out: &mut [f64]) -> Result<()> {
        let (d, lift) = (self.q.len(), self.lift() + rho);
        if let Kind::Diagonal(diagonal) = self.quad.kind() {
            out.iter_mut().zip(diagonal).for_each(|(out, q)| *out = 1.0 / (q + lift));
            return match out.iter().position(|h| !(*h > 0.0 && h.is_finite())) {
                None => Ok(()),
                Some(row) => Err(not_definite(row, diagonal[row] + lift)),
            };
        }
        out.fill(0.0);
        match &self.envelope {
            Some(envelope) => {
                self.quad.each(|i, j, v| envelope.add(out, i, j, v));
                (0..d).for_each(|i| envelope.add(out, i, i, lift));
                envelope.factor(out)
            }
            None => {
                self.quad.each(|i, j, v| out[i * d + j] += v);
                (0..d).for_each(|i| out[i * d + i] += lift);
                cholesky::factor(out, d, 0.0).map_err(|bad| not_definite(bad.row, bad.value))
            }
        }
    }

    /// b ← H⁻¹ b; `tmp` is scratch.
    pub(super) fn solve_h(&self, factor: &[f64], b: &mut [f64], tmp: &mut [f64]) {
        match &self.envelope {
            Some(envelope) => envelope.solve(factor, b, tmp),
            None if self.is_diagonal() => b.iter_mut().zip(factor).for_each(|(b, h)| *b *= h),
            None => cholesky::solve(factor, b.len(), b),
        }
    }

    /// r_k, the right side of a row.
    pub(super) fn rhs(&self, row: Row) -> f64 {
        match row {
            Row::Equal(i) => self.equal.1[i],
            Row::AtMost(i) => self.at_most.1[i],
            Row::Upper(j) => self.hi[j],
            Row::Lower(j) => -self.lo[j],
            Row::Abs(_) => 0.0,
        }
    }

    /// The interval of a row's multiplier.
    pub(super) fn range(&self, row: Row) -> (f64, f64) {
        match row {
            Row::Equal(_) => (f64::NEG_INFINITY, f64::INFINITY),
            Row::AtMost(_) | Row::Upper(_) | Row::Lower(_) => (0.0, f64::INFINITY),
            Row::Abs(j) => (-self.l1[j], self.l1[j]),
        }
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    sheaf_kernels::vector::dot(a, b)
}

fn not_definite(row: usize, pivot: f64) -> Error {
    let got = format!("pivot {pivot:e} at row {row}");
    Error::new(ErrorKind::NotPositiveDefinite, "Q + rho·I", "a positive definite matrix", got)
        .hint("build Q as M Mᵀ, or raise rho")
}
