//! A [`Quadratic`] far away: what certificates ask of it.

use super::Quadratic;
use super::work::dot;
use crate::Matrix;
use crate::matrix::Kind;

impl Quadratic {
    /// inf d·x over the bounds, or over A x = b for a d = Aᵀy; else `None` with equalities or inequalities, unless d is 0.
    pub(super) fn lowest_in_box(&self, d: &[f64], zero: f64) -> Option<(f64, f64)> {
        let rows = !self.equal.1.is_empty() || !self.at_most.1.is_empty();
        if rows && d.iter().all(|d| d.abs() <= zero) {
            return Some((0.0, 0.0));
        }
        if rows {
            return self.lowest_on_plane(d, zero);
        }
        let (mut value, mut size) = (0.0, 0.0);
        for (j, &d) in d.iter().enumerate() {
            let bound = if d > 0.0 { self.lo(j) } else { self.hi(j) };
            if bound.is_finite() {
                (value, size) = (value + d * bound, size + (d * bound).abs());
            } else if d.abs() > zero {
                return Some((f64::NEG_INFINITY, 0.0));
            }
        }
        Some((value, size))
    }

    /// y·b if d = Aᵀy up to `zero`: then d·x is the same for all x with A x = b. y by conjugate gradients on A Aᵀy = A d, on
    /// the stack, since it is called while a solve runs; `None` for larger agents.
    fn lowest_on_plane(&self, d: &[f64], zero: f64) -> Option<(f64, f64)> {
        const MOST: usize = 64;
        let (a, b) = &self.equal;
        if d.len() > MOST || b.len() > MOST {
            return None;
        }
        let [mut y, mut r, mut p] = [[0.0; MOST]; 3];
        let mut rest = [0.0; MOST];
        rest[..d.len()].copy_from_slice(d);
        a.each(|i, j, v| r[i] += v * rest[j]);
        p.copy_from_slice(&r);
        let mut c = dot(&r, &r);
        for _ in 0..4 * b.len() + 4 {
            let mut q = [0.0; MOST];
            a.each(|i, j, v| q[j] += v * p[i]);
            let length = dot(&q, &q);
            if !(c > 0.0 && length > 0.0) {
                break;
            }
            y.iter_mut().zip(&p).for_each(|(y, p)| *y += c / length * p);
            rest.iter_mut().zip(&q).for_each(|(rest, q)| *rest -= c / length * q);
            r.fill(0.0);
            a.each(|i, j, v| r[i] += v * rest[j]);
            let next = dot(&r, &r);
            p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + next / c * *p);
            c = next;
        }
        let met = rest.iter().all(|rest| rest.abs() <= zero);
        let terms = y.iter().zip(b).map(|(y, b)| y * b);
        met.then(|| terms.fold((0.0, 0.0), |(value, size), term| (value + term, size + term.abs())))
    }

    /// qᵀd + Σ l1|d| if f neither curves up nor ends along d, else ∞. Curvature counts unless it is rounding: a
    /// direction along which it is merely small is not one of recession.
    pub(super) fn far(&self, d: &[f64], zero: f64) -> (f64, f64) {
        const ENDS: (f64, f64) = (f64::INFINITY, 0.0);
        let largest = d.iter().fold(0.0f64, |m, d| m.max(d.abs()));
        if self.lift() > 0.0 && largest > zero {
            return ENDS;
        }
        let rounding = 1024.0 * d.len() as f64 * f64::EPSILON * largest;
        let level = |along: f64, size: f64| along.abs() <= rounding * size;
        let inside = |along: f64, size: f64| along <= zero * size;
        let on_plane = |along: f64, size: f64| along.abs() <= zero * size;
        if !every_row(&self.quad, d, zero, level)
            || !every_row(&self.equal.0, d, 0.0, on_plane)
            || !every_row(&self.at_most.0, d, 0.0, inside)
        {
            return ENDS;
        }
        let (mut value, mut size) = (0.0, 0.0);
        for (j, &d) in d.iter().enumerate() {
            let bound = if d > 0.0 { self.hi(j) } else { self.lo(j) };
            if bound.is_finite() && d.abs() > zero {
                return ENDS;
            }
            for term in [self.q[j] * d, self.l1.get(j).map_or(0.0, |w| w * d.abs())] {
                (value, size) = (value + term, size + term.abs());
            }
        }
        (value, size)
    }
}

/// Whether `holds(row·d, Σ |entries|)` for every row of a matrix; numbers of d up to `zero` count as 0.
fn every_row(matrix: &Matrix, d: &[f64], zero: f64, holds: impl Fn(f64, f64) -> bool) -> bool {
    let term = |v: f64, d: f64| if d.abs() > zero { v * d } else { 0.0 };
    match matrix.kind() {
        Kind::Dense(values) => values.chunks_exact(d.len().max(1)).all(|row| {
            let along = row.iter().zip(d).map(|(&v, &d)| term(v, d)).sum();
            holds(along, row.iter().map(|v| v.abs()).sum())
        }),
        Kind::Diagonal(values) => values.iter().zip(d).all(|(&v, &d)| holds(term(v, d), v.abs())),
        Kind::Sparse(entries) => {
            let mut sums = vec![(0.0, 0.0); matrix.rows()];
            for &(row, col, v) in entries {
                sums[row].0 += term(v, d[col]);
                sums[row].1 += v.abs();
            }
            sums.into_iter().all(|(along, size)| holds(along, size))
        }
    }
}
