//! Matrix products whose sides are whole blocks of 9 × 48, without packing.
//!
//! A general product copies its operands into blocks first. Where the same 288 × 288 matrix meets a few dozen rows again
//! and again, the copies cost as much as a tenth of the products. Here 9 × 48 numbers of the output stay in registers
//! and both operands are read where they lie: rows of `b` by vectors, `a` number by number.
//!
//! Other shapes, other scalars and other processors take [`gemm()`], which is also the twin that tests compare with.

use std::any::TypeId;

use super::gemm::{Mat, gemm};
use crate::Real;

/// Rows of a block.
const ROWS: usize = 9;
/// Columns of a block: three vectors of sixteen.
const COLS: usize = 48;
/// Inner products longer than this are cut, so that a panel of `b` stays in the first-level cache while all rows pass.
const DEPTH: usize = 96;

/// `out = a·b`, or `out += a·b` with `add`; `out` dense row-major.
pub fn panel_gemm<T: Real>(out: &mut [T], a: Mat<'_, T>, b: Mat<'_, T>, add: bool) {
    #[cfg(target_arch = "x86_64")]
    if fits(&a, &b) && super::simd::level() == super::simd::Level::Avx512 {
        return avx512::product(out, a, b, add);
    }
    gemm(out, a, b, T::ONE, if add { T::ONE } else { T::ZERO });
}

/// Whether the kernel takes this product.
fn fits<T: Real>(a: &Mat<'_, T>, b: &Mat<'_, T>) -> bool {
    let (m, k) = a.shape();
    let (inner, n) = b.shape();
    let whole = m > 0 && k > 0 && n > 0 && m.is_multiple_of(ROWS) && n.is_multiple_of(COLS);
    TypeId::of::<T>() == TypeId::of::<f32>() && whole && k == inner && b.strides().1 == 1
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    #![allow(unsafe_code)]
    use super::{COLS, DEPTH, Mat, ROWS, Real};
    use std::arch::x86_64::*;

    /// Strides and lengths of a product, in numbers.
    #[derive(Clone, Copy)]
    struct Shape {
        depth: usize,
        a_row: usize,
        a_col: usize,
        b_row: usize,
        out_row: usize,
    }

    /// The product, `T` being `f32` and the sides whole blocks.
    pub(super) fn product<T: Real>(out: &mut [T], a: Mat<'_, T>, b: Mat<'_, T>, add: bool) {
        let ((m, k), (_, n)) = (a.shape(), b.shape());
        let ((a_row, a_col), (b_row, _)) = (a.strides(), b.strides());
        assert!(out.len() >= m * n, "panel product: output slice too short");
        let (a, b) = (a.data().as_ptr().cast::<f32>(), b.data().as_ptr().cast::<f32>());
        let out = out.as_mut_ptr().cast::<f32>();
        for from in (0..k).step_by(DEPTH) {
            let shape = Shape { depth: DEPTH.min(k - from), a_row, a_col, b_row, out_row: n };
            let add = add || from > 0;
            for col in (0..n).step_by(COLS) {
                for row in (0..m).step_by(ROWS) {
                    // SAFETY: AVX-512 was detected by the caller, who also checked that T is f32. The views were
                    // checked against their slices when they were made and `out` above, rows and columns are whole
                    // blocks, and b's columns are adjacent: all that a block reaches lies inside the three slices.
                    unsafe {
                        let a = a.add(row * a_row + from * a_col);
                        let (b, out) = (b.add(from * b_row + col), out.add(row * n + col));
                        if a_row == 1 {
                            block::<true>(shape, a, b, out, add);
                        } else {
                            block::<false>(shape, a, b, out, add);
                        }
                    }
                }
            }
        }
    }

    /// One block of the output. `ADJACENT`: the rows of a are adjacent numbers, so offsets are constants.
    #[target_feature(enable = "avx512f")]
    unsafe fn block<const ADJACENT: bool>(s: Shape, a: *const f32, b: *const f32, out: *mut f32, add: bool) {
        let row = if ADJACENT { 1 } else { s.a_row };
        let mut acc = [[_mm512_setzero_ps(); 3]; ROWS];
        let (mut a, mut b) = (a, b);
        for _ in 0..s.depth {
            // SAFETY: the caller vouches for `depth` rows of b and columns of a; the pointers step one past the last
            // only after their last use.
            unsafe {
                let v = [_mm512_loadu_ps(b), _mm512_loadu_ps(b.add(16)), _mm512_loadu_ps(b.add(32))];
                for i in 0..ROWS {
                    let x = _mm512_set1_ps(*a.add(i * row));
                    for j in 0..3 {
                        acc[i][j] = _mm512_fmadd_ps(x, v[j], acc[i][j]);
                    }
                }
                a = a.wrapping_add(s.a_col);
                b = b.wrapping_add(s.b_row);
            }
        }
        for (i, acc) in acc.iter().enumerate() {
            for (j, &sum) in acc.iter().enumerate() {
                // SAFETY: the caller vouches for nine rows of 48 numbers of the output.
                unsafe {
                    let at = out.add(i * s.out_row + 16 * j);
                    let sum = if add { _mm512_add_ps(sum, _mm512_loadu_ps(at)) } else { sum };
                    _mm512_storeu_ps(at, sum);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, seed: u32) -> Vec<f32> {
        let mix = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761) >> 20;
        (0..n as u32).map(|i| mix(i) as f32 / 4_096.0 - 0.5).collect()
    }

    #[test]
    fn blocks_agree_with_the_general_product() {
        for (m, k, n) in [(9, 1, 48), (27, 288, 96), (18, 530, 144), (9, 512, 48)] {
            let (a, b, c) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n, 3));
            for transposed in [false, true] {
                let a = if transposed { Mat::new(&a, k, m).t() } else { Mat::new(&a, m, k) };
                assert!(fits(&a, &Mat::new(&b, k, n)));
                for add in [false, true] {
                    let (mut got, mut want) = (c.clone(), c.clone());
                    panel_gemm(&mut got, a, Mat::new(&b, k, n), add);
                    gemm(&mut want, a, Mat::new(&b, k, n), 1.0, f32::from(u8::from(add)));
                    for (g, w) in got.iter().zip(&want) {
                        assert!((g - w).abs() < 1e-6 * k as f32, "{m} {k} {n}: {g} {w}");
                    }
                }
            }
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_left_to_the_general_product() {
        let (a, b) = (numbers(10 * 4, 1), numbers(4 * 48, 2));
        assert!(!fits(&Mat::new(&a, 10, 4), &Mat::new(&b, 4, 48)));
        assert!(!fits(&Mat::new(&a, 9, 4), &Mat::new(&b, 48, 4).t()));
        let (mut got, mut want) = (vec![0.0; 480], vec![0.0; 480]);
        panel_gemm(&mut got, Mat::new(&a, 10, 4), Mat::new(&b, 4, 48), false);
        gemm(&mut want, Mat::new(&a, 10, 4), Mat::new(&b, 4, 48), 1.0, 0.0);
        assert_eq!(got, want);
    }
}
