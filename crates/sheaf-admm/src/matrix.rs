//! Matrices as a user gives them: dense, diagonal, sparse, identity or a selection of coordinates.

use std::sync::{Arc, LazyLock};

use crate::error::{check_finite, check_len};
use crate::{Error, ErrorKind, Result};

/// A matrix of `f64`. Copies share its numbers. Constructors only store; sizes and numbers are checked where the matrix is used.
///
/// ```
/// use sheaf_admm::Matrix;
///
/// let dense = Matrix::from([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!((dense.rows(), dense.cols()), (2, 2));
/// // The third and the first of four coordinates.
/// assert_eq!(Matrix::selector(4, [2, 0]).apply(&[5.0, 6.0, 7.0, 8.0]), [7.0, 5.0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    /// Shared by all copies: networks often use one map for many edges.
    kind: Arc<Kind>,
}

/// How the entries are stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Row-major.
    Dense(Vec<f64>), // [rows · cols]
    /// The diagonal of a square matrix.
    Diagonal(Vec<f64>), // [rows]
    /// (row, column, value); entries at the same place add up.
    Sparse(Vec<(usize, usize, f64)>),
}

impl Matrix {
    /// A dense matrix from its rows, one after another.
    pub fn dense(rows: usize, cols: usize, values: impl Into<Vec<f64>>) -> Self {
        static EMPTY: LazyLock<Arc<Kind>> = LazyLock::new(|| Arc::new(Kind::Dense(Vec::new())));
        let values = values.into();
        let kind = if values.is_empty() { EMPTY.clone() } else { Arc::new(Kind::Dense(values)) };
        Self { rows, cols, kind }
    }

    /// A square matrix from its diagonal.
    pub fn diagonal(values: impl Into<Vec<f64>>) -> Self {
        let values = values.into();
        Self { rows: values.len(), cols: values.len(), kind: Arc::new(Kind::Diagonal(values)) }
    }

    /// The identity.
    pub fn identity(n: usize) -> Self {
        Self::diagonal(vec![1.0; n])
    }

    /// The square matrix of zeros.
    pub fn zero(n: usize) -> Self {
        Self::diagonal(vec![0.0; n])
    }

    /// Entries (row, column, value); those at the same place add up.
    pub fn sparse(rows: usize, cols: usize, entries: impl Into<Vec<(usize, usize, f64)>>) -> Self {
        Self { rows, cols, kind: Arc::new(Kind::Sparse(entries.into())) }
    }

    /// Takes coordinate `picks[i]` of `cols` as its i-th.
    pub fn selector(cols: usize, picks: impl AsRef<[usize]>) -> Self {
        let entries = picks.as_ref().iter().enumerate().map(|(row, &col)| (row, col, 1.0)).collect();
        Self { rows: picks.as_ref().len(), cols, kind: Arc::new(Kind::Sparse(entries)) }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The stored numbers in their order: row-major, the diagonal, or entry by entry. Gradients of a matrix have this
    /// shape.
    pub fn values(&self) -> Vec<f64> {
        match &*self.kind {
            Kind::Dense(values) | Kind::Diagonal(values) => values.clone(),
            Kind::Sparse(entries) => entries.iter().map(|e| e.2).collect(),
        }
    }

    /// How many numbers are stored.
    pub fn stored(&self) -> usize {
        match &*self.kind {
            Kind::Dense(values) | Kind::Diagonal(values) => values.len(),
            Kind::Sparse(entries) => entries.len(),
        }
    }

    /// The same places with other values, in the order of [`values`](Self::values).
    pub fn with_values(&self, values: &[f64]) -> Result<Self> {
        check_len("values of a matrix", self.stored(), values.len())?;
        let mut other = self.clone();
        match Arc::make_mut(&mut other.kind) {
            Kind::Dense(own) | Kind::Diagonal(own) => own.copy_from_slice(values),
            Kind::Sparse(entries) => entries.iter_mut().zip(values).for_each(|(e, &v)| e.2 = v),
        }
        Ok(other)
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Calls `f(row, column, value)` for every stored number, in order.
    pub(crate) fn each(&self, mut f: impl FnMut(usize, usize, f64)) {
        match &*self.kind {
            Kind::Dense(values) => {
                for (row, line) in values.chunks_exact(self.cols.max(1)).enumerate() {
                    line.iter().enumerate().for_each(|(col, &v)| f(row, col, v));
                }
            }
            Kind::Diagonal(values) => values.iter().enumerate().for_each(|(i, &v)| f(i, i, v)),
            Kind::Sparse(entries) => entries.iter().for_each(|&(row, col, v)| f(row, col, v)),
        }
    }

    /// A x.
    pub fn apply(&self, x: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.rows];
        self.each(|row, col, v| out[row] += v * x[col]);
        out
    }

    /// All entries, row-major.
    pub fn to_dense(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.rows * self.cols];
        self.each(|row, col, v| out[row * self.cols + col] += v);
        out
    }

    /// Checks that the stored numbers fit the sizes and are finite.
    pub(crate) fn check(&self, place: &str) -> Result<()> {
        match &*self.kind {
            Kind::Dense(values) => {
                check_len(place, self.rows.saturating_mul(self.cols), values.len())?;
                check_finite(place, values)
            }
            Kind::Diagonal(values) => check_finite(place, values),
            Kind::Sparse(entries) => {
                let outside = |&&(row, col, _): &&(usize, usize, f64)| row >= self.rows || col >= self.cols;
                if let Some(&(row, col, _)) = entries.iter().find(outside) {
                    let expected = format!("entries inside {} × {}", self.rows, self.cols);
                    let got = format!("one at ({row}, {col})");
                    return Err(Error::new(ErrorKind::OutOfRange, place, expected, got));
                }
                match entries.iter().find(|e| !e.2.is_finite()) {
                    None => Ok(()),
                    Some(&(row, col, v)) => {
                        let place = format!("{place}[{row}, {col}]");
                        Err(Error::new(ErrorKind::NotFinite, place, "a finite number", v))
                    }
                }
            }
        }
    }

    /// Checks the number of columns.
    pub(crate) fn check_cols(&self, place: &str, cols: usize) -> Result<()> {
        if self.cols == cols {
            return Ok(());
        }
        let expected = format!("{cols} columns");
        Err(Error::new(ErrorKind::Shape, place, expected, format_args!("{} × {}", self.rows, self.cols)))
    }
}

impl<const R: usize, const C: usize> From<[[f64; C]; R]> for Matrix {
    fn from(rows: [[f64; C]; R]) -> Self {
        Self::dense(R, C, rows.concat())
    }
}

impl<const R: usize, const C: usize> From<&[[f64; C]; R]> for Matrix {
    fn from(rows: &[[f64; C]; R]) -> Self {
        Self::dense(R, C, rows.concat())
    }
}

impl From<&Self> for Matrix {
    fn from(matrix: &Self) -> Self {
        matrix.clone()
    }
}
