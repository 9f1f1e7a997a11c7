//! Matrix products, single-threaded: parallelism lives one level up, over samples, so that sums keep one order
//! whatever the thread count.
//!
//! All matrices are row-major views with a row stride. `beta` is 0 (overwrite) or 1 (add).

use crate::Real;

/// A row-major matrix view: `rows × cols`, consecutive rows `stride` apart.
#[derive(Clone, Copy, Debug)]
pub struct Mat<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a, T> Mat<'a, T> {
    /// A dense `rows × cols` view of the front of `data`.
    #[inline]
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols)
    }

    /// A view whose rows are `stride` apart.
    #[inline]
    pub fn strided(data: &'a [T], rows: usize, cols: usize, stride: usize) -> Self {
        assert!(cols <= stride || rows <= 1, "matrix view: rows overlap");
        assert!(data.len() >= last_index(rows, cols, stride), "matrix view: slice too short");
        Self { data, rows, cols, row_stride: stride, col_stride: 1 }
    }

    /// (rows, columns).
    #[inline]
    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Distance of (rows, columns) from the next.
    #[inline]
    pub(crate) fn strides(&self) -> (usize, usize) {
        (self.row_stride, self.col_stride)
    }

    /// The numbers, from the first of the view on.
    #[inline]
    pub(crate) fn data(&self) -> &'a [T] {
        self.data
    }

    /// The transposed view.
    #[inline]
    pub fn t(self) -> Self {
        Self {
            data: self.data,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }
}

fn last_index(rows: usize, cols: usize, stride: usize) -> usize {
    if rows == 0 || cols == 0 { 0 } else { (rows - 1) * stride + cols }
}

/// Scalars the GEMM crate multiplies.
pub trait Gemm: Sized {}
impl Gemm for f32 {}
impl Gemm for f64 {}

/// `out = beta·out + alpha·a·b`, `out` dense row-major `a.rows × b.cols`; `beta` must be 0 or 1.
#[inline]
pub fn gemm<T: Real>(out: &mut [T], a: Mat<'_, T>, b: Mat<'_, T>, alpha: T, beta: T) {
    let stride = b.cols;
    gemm_strided(out, stride, a, b, alpha, beta);
}

/// As [`gemm()`], the rows of `out` `stride` apart.
#[allow(unsafe_code)]
pub fn gemm_strided<T: Real>(out: &mut [T], stride: usize, a: Mat<'_, T>, b: Mat<'_, T>, alpha: T, beta: T) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    assert_eq!(k, b.rows, "gemm: inner dimensions differ");
    assert!(n <= stride || m <= 1, "gemm: output rows overlap");
    assert!(out.len() >= last_index(m, n, stride), "gemm: output slice too short");
    assert!(beta == T::ZERO || beta == T::ONE, "gemm: beta is 0 or 1");
    // SAFETY: the views were checked against their slices when they were made and `out` is checked above, so
    // every element the strides reach lies inside its slice; `out` is borrowed mutably and cannot overlap.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            stride as isize,
            beta == T::ONE,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            T::ONE,
            alpha,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
