//! A dense matrix with only the operations the reference sheaf needs.

/// A row-major matrix of `f64`.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f64>, // [rows, cols]
}

impl Matrix {
    /// All zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self { rows, cols, data: vec![0.0; rows * cols] }
    }

    /// The identity.
    pub fn identity(n: usize) -> Self {
        Self::from_fn(n, n, |i, j| if i == j { 1.0 } else { 0.0 })
    }

    /// Entry (i, j) is `f(i, j)`.
    pub fn from_fn(rows: usize, cols: usize, mut f: impl FnMut(usize, usize) -> f64) -> Self {
        let data = (0..rows * cols).map(|k| f(k / cols, k % cols)).collect();
        Self { rows, cols, data }
    }

    /// From row-major numbers.
    pub fn from_rows(rows: usize, cols: usize, data: &[f64]) -> Self {
        assert_eq!(data.len(), rows * cols, "a {rows} × {cols} matrix has {} entries", rows * cols);
        Self { rows, cols, data: data.to_vec() }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All entries, row-major.
    pub fn as_slice(&self) -> &[f64] {
        &self.data
    }

    /// Entry (row, col).
    pub fn get(&self, row: usize, col: usize) -> f64 {
        self.data[row * self.cols + col]
    }

    /// Replaces entry (row, col).
    pub fn set(&mut self, row: usize, col: usize, value: f64) {
        self.data[row * self.cols + col] = value;
    }

    /// The transpose.
    pub fn transpose(&self) -> Self {
        Self::from_fn(self.cols, self.rows, |i, j| self.get(j, i))
    }

    /// Every entry times `factor`.
    pub fn scaled(&self, factor: f64) -> Self {
        Self::from_fn(self.rows, self.cols, |i, j| factor * self.get(i, j))
    }

    /// The matrix product.
    pub fn mul(&self, other: &Self) -> Self {
        assert_eq!(self.cols, other.rows, "inner dimensions of a product must agree");
        Self::from_fn(self.rows, other.cols, |i, j| {
            (0..self.cols).map(|k| self.get(i, k) * other.get(k, j)).sum()
        })
    }

    /// The product with a vector.
    pub fn mul_vec(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(self.cols, x.len(), "inner dimensions of a product must agree");
        (0..self.rows).map(|i| (0..self.cols).map(|j| self.get(i, j) * x[j]).sum()).collect()
    }

    /// Solves `self · x = right` by Gaussian elimination with partial pivoting. Panics if the matrix is singular to
    /// working precision.
    pub fn solve(&self, right: &[f64]) -> Vec<f64> {
        assert!(self.rows == self.cols && self.rows == right.len(), "solve needs a square system");
        let n = self.rows;
        let (mut a, mut x) = (self.clone(), right.to_vec());
        let largest = a.data.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        for col in 0..n {
            let pivot = (col..n)
                .max_by(|&i, &j| a.get(i, col).abs().total_cmp(&a.get(j, col).abs()))
                .expect("the range is not empty");
            assert!(a.get(pivot, col).abs() > 1e-14 * largest, "the matrix is singular at column {col}");
            for j in 0..n {
                a.data.swap(col * n + j, pivot * n + j);
            }
            x.swap(col, pivot);
            for row in col + 1..n {
                let factor = a.get(row, col) / a.get(col, col);
                for j in col..n {
                    a.set(row, j, a.get(row, j) - factor * a.get(col, j));
                }
                x[row] -= factor * x[col];
            }
        }
        for col in (0..n).rev() {
            x[col] /= a.get(col, col);
            for row in 0..col {
                x[row] -= a.get(row, col) * x[col];
            }
        }
        x
    }

    /// Eigenvalues and eigenvectors (as columns) of a symmetric matrix, by cyclic Jacobi rotations.
    pub fn symmetric_eigen(&self) -> (Vec<f64>, Self) {
        assert_eq!(self.rows, self.cols, "eigenvalues need a square matrix");
        let n = self.rows;
        let (mut a, mut vectors) = (self.clone(), Self::identity(n));
        let total: f64 = a.data.iter().map(|v| v * v).sum();
        for _sweep in 0..100 {
            let off: f64 = (0..n)
                .flat_map(|i| (0..i).map(move |j| (i, j)))
                .map(|(i, j)| a.get(i, j) * a.get(i, j))
                .sum();
            if off <= 1e-30 * total {
                break;
            }
            for p in 0..n {
                for q in p + 1..n {
                    rotate(&mut a, &mut vectors, p, q);
                }
            }
        }
        ((0..n).map(|i| a.get(i, i)).collect(), vectors)
    }
}

/// One Jacobi rotation in the plane (p, q): zeroes a[p, q] and updates the eigenvectors.
fn rotate(a: &mut Matrix, vectors: &mut Matrix, p: usize, q: usize) {
    if a.get(p, q) == 0.0 {
        return;
    }
    let theta = (a.get(q, q) - a.get(p, p)) / (2.0 * a.get(p, q));
    let tangent = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    let n = a.rows;
    for k in 0..n {
        let (x, y) = (a.get(k, p), a.get(k, q));
        a.set(k, p, cosine * x - sine * y);
        a.set(k, q, sine * x + cosine * y);
    }
    for k in 0..n {
        let (x, y) = (a.get(p, k), a.get(q, k));
        a.set(p, k, cosine * x - sine * y);
        a.set(q, k, sine * x + cosine * y);
    }
    for k in 0..n {
        let (x, y) = (vectors.get(k, p), vectors.get(k, q));
        vectors.set(k, p, cosine * x - sine * y);
        vectors.set(k, q, sine * x + cosine * y);
    }
}
