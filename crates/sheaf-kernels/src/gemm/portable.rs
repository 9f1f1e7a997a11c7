//! The product for CPUs without kernels of this crate: the `gemm` crate, on the calling thread.

use super::{Product, plain};
use crate::Real;

/// Products with fewer multiplications than this are faster in the plain loops.
const SMALL: usize = 512;

/// Runs a product; may allocate. The order of sums depends on the shape alone.
#[allow(unsafe_code)]
pub(super) fn product<T: Real>(product: Product<'_, T>) {
    let (m, k) = product.a.shape();
    let n = product.b.shape().1;
    if m.saturating_mul(n).saturating_mul(k) < SMALL {
        return plain(product);
    }
    let Product { out, stride, a, b, alpha, add } = product;
    let ((a_row, a_col), (b_row, b_col)) = (a.strides(), b.strides());
    // SAFETY: the views and the output were checked to hold m × k, k × n and m × n numbers at these strides, and the
    // output is borrowed exclusively. Strides are below the lengths of slices, so they fit an `isize`; those that do
    // not belong to views with one row and are never used. `T` is `f32` or `f64`, the types the crate supports.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            stride as isize,
            add,
            a.data().as_ptr(),
            a_col as isize,
            a_row as isize,
            b.data().as_ptr(),
            b_col as isize,
            b_row as isize,
            T::ONE,
            alpha,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
