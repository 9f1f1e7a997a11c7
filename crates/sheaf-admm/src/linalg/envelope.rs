//! Cholesky factorisation A = L Lᵀ of a symmetric matrix within its envelope.
//!
//! The matrix is made of blocks, which are put in [reverse Cuthill–McKee order](super::ordering). Row i keeps its
//! entries from the first block it touches up to the diagonal; the factor fills exactly that space, so it replaces the
//! matrix in place and its size is known in advance. A full matrix is the case where every row begins at 0.
//!
//! Rows are computed one by one, l_ij = (a_ij − Σ_k l_ik l_jk)/l_jj, each sum a product of two contiguous runs.
//!
//! With a rank tolerance the matrix may be singular (a Gram matrix with dependent rows): where the pivot, the squared
//! distance of row i from the rows before it, is at most tolerance·a_ii, the row is dropped: its unknown is 0 and its
//! equation is left out. For a right side in the range of A what remains is still a solution of the whole system.

use super::ordering::reverse_cuthill_mckee;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::vector::{axpy, dot};

/// Layout of the entries of a symmetric block matrix and of its factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    home: Vec<usize>,  // [blocks + 1], first row of a block in the caller's order
    place: Vec<usize>, // [blocks], first row of a block in the factor's order
    first: Vec<usize>, // [rows], first column of a row
    start: Vec<usize>, // [rows + 1], where a row's entries begin
}

impl Envelope {
    /// Blocks of these sizes, block b coupled to itself and to `neighbours[b]` (and they to it).
    pub fn new(sizes: &[usize], neighbours: &[Vec<usize>]) -> Self {
        let mut home = vec![0];
        sizes.iter().for_each(|size| home.push(home[home.len() - 1] + size));
        let order = reverse_cuthill_mckee(neighbours);
        let mut place = vec![0; sizes.len()];
        let mut next = 0;
        for &block in &order {
            place[block] = next;
            next += sizes[block];
        }
        let (mut first, mut start) = (Vec::with_capacity(next), vec![0]);
        for &block in &order {
            let reach = neighbours[block].iter().map(|&n| place[n]).chain([place[block]]);
            let column = reach.min().expect("a block reaches itself");
            for row in place[block]..place[block] + sizes[block] {
                first.push(column);
                start.push(start[row] + row + 1 - column);
            }
        }
        Self { home, place, first, start }
    }

    /// Number of entries of the matrix, and of its factor.
    pub fn len(&self) -> usize {
        self.start[self.rows()]
    }

    /// Number of rows of the matrix.
    pub fn rows(&self) -> usize {
        self.first.len()
    }

    /// The row of entry `k` of a block, in the factor's order.
    #[inline]
    pub fn row(&self, block: usize, k: usize) -> usize {
        self.place[block] + k
    }

    /// Adds to entry (row, col), rows in the factor's order. Entries above the diagonal are mirrored by those below
    /// and ignored.
    #[inline]
    pub fn add<T: Real>(&self, matrix: &mut [T], row: usize, col: usize, value: T) {
        if col <= row {
            matrix[self.start[row] + col - self.first[row]] += value;
        }
    }

    /// Replaces the matrix by its factor. Returns the rank: the rows that were not dropped. Without a rank tolerance a
    /// matrix that is not positive definite is an error.
    pub fn factor<T: Real>(&self, matrix: &mut [T], rank_tolerance: Option<T>) -> Result<usize> {
        let mut rank = 0;
        for i in 0..self.rows() {
            let (done, rest) = matrix.split_at_mut(self.start[i]);
            let row = &mut rest[..self.start[i + 1] - self.start[i]];
            let first = self.first[i];
            for j in first..i {
                let other = &done[self.start[j]..self.start[j + 1]];
                let from = first.max(self.first[j]);
                let pivot = other[j - self.first[j]];
                let sum = dot(&row[from - first..j - first], &other[from - self.first[j]..j - self.first[j]]);
                // A dropped row has a zero pivot and couples to nothing.
                row[j - first] = if pivot == T::ZERO { T::ZERO } else { (row[j - first] - sum) / pivot };
            }
            let (left, diagonal) = row.split_at_mut(i - first);
            let pivot = diagonal[0] - dot(left, left);
            if !pivot.is_finite() {
                return Err(Error::new(ErrorKind::NotFinite, format!("pivot {i}"), "a finite number", pivot));
            }
            diagonal[0] = match rank_tolerance {
                Some(tolerance) if pivot <= tolerance * diagonal[0] => T::ZERO,
                None if pivot <= T::ZERO => return Err(not_positive_definite(i, pivot)),
                _ => pivot.sqrt(),
            };
            rank += usize::from(diagonal[0] > T::ZERO);
        }
        Ok(rank)
    }

    /// x = A⁻¹ b from the factor; `b` and `x` in the caller's order, `tmp` `[rows]` in the factor's.
    pub fn solve<T: Real>(&self, factor: &[T], b: &[T], x: &mut [T], tmp: &mut [T]) {
        for (block, &place) in self.place.iter().enumerate() {
            let home = self.home[block]..self.home[block + 1];
            tmp[place..place + home.len()].copy_from_slice(&b[home]);
        }
        for i in 0..self.rows() {
            let (left, pivot) = self.split_row(factor, i);
            let sum = dot(left, &tmp[self.first[i]..i]);
            tmp[i] = if pivot == T::ZERO { T::ZERO } else { (tmp[i] - sum) / pivot };
        }
        for i in (0..self.rows()).rev() {
            let (left, pivot) = self.split_row(factor, i);
            if pivot != T::ZERO {
                tmp[i] /= pivot;
                let value = tmp[i];
                axpy(&mut tmp[self.first[i]..i], -value, left);
            }
        }
        for (block, &place) in self.place.iter().enumerate() {
            let home = self.home[block]..self.home[block + 1];
            x[home.clone()].copy_from_slice(&tmp[place..place + home.len()]);
        }
    }

    fn split_row<'f, T: Real>(&self, factor: &'f [T], i: usize) -> (&'f [T], T) {
        let row = &factor[self.start[i]..self.start[i + 1]];
        (&row[..row.len() - 1], row[row.len() - 1])
    }
}

fn not_positive_definite<T: Real>(row: usize, pivot: T) -> Error {
    Error::new(ErrorKind::NotPositiveDefinite, format!("pivot {row}"), "a number above 0", pivot)
        .hint("the matrix is too badly scaled for this precision, or has entries that are not finite")
}

#[cfg(test)]
mod tests {
    use super::Envelope;

    /// Five blocks in a ring with a chord; entries follow from their indices in the caller's order.
    fn ring() -> (Envelope, Vec<f64>, Vec<Vec<f64>>) {
        let sizes = [2, 1, 3, 2, 1];
        let neighbours = vec![vec![1, 4], vec![0, 2, 3], vec![1, 3], vec![2, 4, 1], vec![3, 0]];
        let envelope = Envelope::new(&sizes, &neighbours);
        let owner: Vec<(usize, usize)> =
            (0..5).flat_map(|block| (0..sizes[block]).map(move |k| (block, k))).collect();
        let mut matrix = vec![0.0; envelope.len()];
        let mut dense = vec![vec![0.0; 9]; 9];
        for (i, &(b, k)) in owner.iter().enumerate() {
            for (j, &(c, l)) in owner.iter().enumerate() {
                if b == c || neighbours[b].contains(&c) {
                    let value = if i == j { 6.0 } else { ((i * j + i + j) as f64).sin() };
                    dense[i][j] = value;
                    envelope.add(&mut matrix, envelope.row(b, k), envelope.row(c, l), value);
                }
            }
        }
        (envelope, matrix, dense)
    }

    #[test]
    fn the_solution_satisfies_the_equations() {
        let (envelope, mut matrix, dense) = ring();
        assert!(envelope.len() < 9 * 10 / 2, "the envelope is not full");
        assert_eq!(envelope.factor(&mut matrix, None).unwrap(), 9);
        let b: Vec<f64> = (0..9).map(|i| (i as f64).cos()).collect();
        let (mut x, mut tmp) = (vec![0.0; 9], vec![0.0; 9]);
        envelope.solve(&matrix, &b, &mut x, &mut tmp);
        for (row, b) in dense.iter().zip(&b) {
            let ax: f64 = row.iter().zip(&x).map(|(a, x)| a * x).sum();
            assert!((ax - b).abs() < 1e-13);
        }
    }

    #[test]
    fn dependent_rows_are_dropped_and_the_rest_still_solves_the_whole() {
        // The Gram matrix of (1, 0), (2, 0), (0, 0), (1, 1): rank 2.
        let rows = [[1.0, 0.0], [2.0, 0.0], [0.0, 0.0], [1.0, 1.0]];
        let all: Vec<Vec<usize>> = vec![(0..4).collect(); 4];
        let envelope = Envelope::new(&[1; 4], &all);
        let gram = |i: usize, j: usize| rows[i][0] * rows[j][0] + rows[i][1] * rows[j][1];
        let mut matrix = vec![0.0; envelope.len()];
        for i in 0..4 {
            for j in 0..4 {
                envelope.add(&mut matrix, envelope.row(i, 0), envelope.row(j, 0), gram(i, j));
            }
        }
        let mut definite = matrix.clone();
        assert!(envelope.factor(&mut definite, None).is_err());
        assert_eq!(envelope.factor(&mut matrix, Some(1e-12)).unwrap(), 2);
        let b: Vec<f64> = rows.iter().map(|r| 0.3 * r[0] - 0.7 * r[1]).collect();
        let (mut x, mut tmp) = (vec![f64::NAN; 4], vec![f64::NAN; 4]);
        envelope.solve(&matrix, &b, &mut x, &mut tmp);
        for i in 0..4 {
            let ax: f64 = (0..4).map(|j| gram(i, j) * x[j]).sum();
            assert!((ax - b[i]).abs() < 1e-14);
        }
    }
}
