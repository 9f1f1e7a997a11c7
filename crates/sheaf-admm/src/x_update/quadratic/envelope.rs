//! Cholesky factorisation A = L Lᵀ of a sparse symmetric matrix within its envelope.
//!
//! Rows are put in [reverse Cuthill–McKee order](super::ordering). Row i keeps its entries from the first column it
//! touches up to the diagonal; the factor fills exactly that space, so it replaces the matrix in place, its size is known
//! in advance, and neither factor nor solve allocates.

use super::ordering::reverse_cuthill_mckee;
use crate::{Error, ErrorKind, Result};
use sheaf_kernels::vector::{axpy, dot};

/// Layout of the entries of a symmetric matrix and of its factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    place: Vec<usize>, // [rows], where a row stands in the factor's order
    first: Vec<usize>, // [rows], first column of a row, in the factor's order
    start: Vec<usize>, // [rows + 1], where a row's entries begin
}

impl Envelope {
    /// Row i is coupled to itself and to `neighbours[i]` (and they to it).
    pub fn new(neighbours: &[Vec<usize>]) -> Self {
        let order = reverse_cuthill_mckee(neighbours);
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &row)| place[row] = at);
        let (mut first, mut start) = (Vec::with_capacity(order.len()), vec![0]);
        for (at, &row) in order.iter().enumerate() {
            let column = neighbours[row].iter().map(|&n| place[n]).fold(at, usize::min);
            first.push(column);
            start.push(start[at] + at + 1 - column);
        }
        Self { place, first, start }
    }

    /// Number of entries of the matrix, and of its factor.
    pub fn len(&self) -> usize {
        self.start[self.first.len()]
    }

    /// Adds to entry (row, col) in the caller's order. One of the two mirrored entries is ignored.
    pub fn add(&self, matrix: &mut [f64], row: usize, col: usize, value: f64) {
        let (row, col) = (self.place[row], self.place[col]);
        if col <= row {
            matrix[self.start[row] + col - self.first[row]] += value;
        }
    }

    /// Replaces the matrix by its factor.
    pub fn factor(&self, matrix: &mut [f64]) -> Result<()> {
        for i in 0..self.first.len() {
            let (done, rest) = matrix.split_at_mut(self.start[i]);
            let (row, first) = (&mut rest[..self.start[i + 1] - self.start[i]], self.first[i]);
            for j in first..i {
                let (other, from) = (&done[self.start[j]..self.start[j + 1]], first.max(self.first[j]));
                let left = &other[from - self.first[j]..j - self.first[j]];
                let sum = dot(&row[from - first..j - first], left);
                row[j - first] = (row[j - first] - sum) / other[j - self.first[j]];
            }
            let (left, diagonal) = row.split_at_mut(i - first);
            let pivot = diagonal[0] - dot(left, left);
            if !(pivot > 0.0 && pivot.is_finite()) {
                let place = format!("pivot {i} of a sparse matrix");
                return Err(Error::new(ErrorKind::NotPositiveDefinite, place, "a number above 0", pivot));
            }
            diagonal[0] = pivot.sqrt();
        }
        Ok(())
    }

    /// b ← A⁻¹ b from the factor; `tmp` is scratch.
    pub fn solve(&self, factor: &[f64], b: &mut [f64], tmp: &mut [f64]) {
        self.place.iter().zip(&*b).for_each(|(&at, &b)| tmp[at] = b);
        let row = |i: usize| &factor[self.start[i]..self.start[i + 1]];
        for i in 0..self.first.len() {
            if let [left @ .., pivot] = row(i) {
                tmp[i] = (tmp[i] - dot(left, &tmp[self.first[i]..i])) / pivot;
            }
        }
        for i in (0..self.first.len()).rev() {
            if let [left @ .., pivot] = row(i) {
                tmp[i] /= pivot;
                let value = tmp[i];
                axpy(&mut tmp[self.first[i]..i], -value, left);
            }
        }
        self.place.iter().zip(b).for_each(|(&at, b)| *b = tmp[at]);
    }
}
