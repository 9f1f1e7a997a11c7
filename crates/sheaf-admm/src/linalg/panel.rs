//! Matrix products without packing, for operands that lie in a cache already.
//!
//! A general product copies its operands into blocks first. Where the same 288 × 288 matrix meets a few dozen rows again
//! and again, the copies cost as much as a tenth of the products. Here 9 × 48 numbers of the output stay in registers
//! and both operands are read where they lie: rows of `b` by vectors, `a` number by number. Where nine does not divide
//! the rows, blocks have eight; the rest takes smaller ones.
//!
//! Columns that are not whole vectors, other scalars and other processors take [`gemm()`], which is also the twin that
//! tests compare with.

use std::any::TypeId;

use super::gemm::{Mat, gemm};
use crate::Real;

/// Numbers in a vector.
const LANES: usize = 16;
/// Columns of a block: three vectors.
const COLS: usize = 3 * LANES;
/// Inner products longer than this are cut into equal pieces, so that a panel of `b` stays in the first-level cache while
/// all rows pass.
const DEPTH: usize = 108;

/// `out = a·b`, or `out += a·b` with `add`; `out` dense row-major.
pub fn panel_gemm<T: Real>(out: &mut [T], a: Mat<'_, T>, b: Mat<'_, T>, add: bool) {
    #[cfg(target_arch = "x86_64")]
    if fits(&a, &b) && super::simd::level() == super::simd::Level::Avx512 {
        return avx512::product(out, a, b, if add { avx512::Start::Add } else { avx512::Start::Zero });
    }
    gemm(out, a, b, T::ONE, if add { T::ONE } else { T::ZERO });
}

/// `out = a·b + bias`, the same in every row; `out` dense row-major.
pub fn panel_gemm_bias<T: Real>(out: &mut [T], a: Mat<'_, T>, b: Mat<'_, T>, bias: &[T]) {
    let n = b.shape().1;
    assert!(bias.len() >= n, "panel product: bias too short");
    #[cfg(target_arch = "x86_64")]
    if fits(&a, &b) && super::simd::level() == super::simd::Level::Avx512 {
        return avx512::product(out, a, b, avx512::Start::Bias(bias));
    }
    let rows = a.shape().0;
    out[..rows * n].chunks_exact_mut(n).for_each(|row| row.copy_from_slice(&bias[..n]));
    gemm(out, a, b, T::ONE, T::ONE);
}

/// Whether the kernel takes this product.
fn fits<T: Real>(a: &Mat<'_, T>, b: &Mat<'_, T>) -> bool {
    let (m, k) = a.shape();
    let (inner, n) = b.shape();
    let whole = m > 0 && k > 0 && n > 0 && n.is_multiple_of(LANES);
    TypeId::of::<T>() == TypeId::of::<f32>() && whole && k == inner && b.strides().1 == 1
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    #![allow(unsafe_code)]
    use super::{COLS, DEPTH, LANES, Mat, Real};
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

    /// What a product is added to.
    #[derive(Clone, Copy)]
    pub(super) enum Start<'a, T> {
        Zero,
        /// The output.
        Add,
        /// These numbers, in every row.
        Bias(&'a [T]),
    }

    /// What a block is added to; the numbers of a bias begin with those of the block.
    #[derive(Clone, Copy)]
    enum From {
        Zero,
        Out,
        Bias(*const f32),
    }

    /// A kernel for one block: (shape, a, b, out, from).
    type Block = unsafe fn(Shape, *const f32, *const f32, *mut f32, From);

    /// The product, `T` being `f32` and the columns whole vectors.
    pub(super) fn product<T: Real>(out: &mut [T], a: Mat<'_, T>, b: Mat<'_, T>, start: Start<'_, T>) {
        let ((m, k), (_, n)) = (a.shape(), b.shape());
        let ((a_row, a_col), (b_row, _)) = (a.strides(), b.strides());
        assert!(out.len() >= m * n, "panel product: output slice too short");
        let (a, b) = (a.data().as_ptr().cast::<f32>(), b.data().as_ptr().cast::<f32>());
        let out = out.as_mut_ptr().cast::<f32>();
        let depth = k.div_ceil(k.div_ceil(DEPTH));
        for from in (0..k).step_by(depth) {
            let shape = Shape { depth: depth.min(k - from), a_row, a_col, b_row, out_row: n };
            for col in (0..n).step_by(COLS) {
                let vectors = COLS.min(n - col) / LANES;
                let added = match start {
                    _ if from > 0 => From::Out,
                    Start::Zero => From::Zero,
                    Start::Add => From::Out,
                    Start::Bias(bias) => From::Bias(bias[col..][..LANES * vectors].as_ptr().cast()),
                };
                let mut row = 0;
                while row < m {
                    let rows = block_rows(m, m - row);
                    let block = choose(a_row == 1, rows, vectors);
                    // SAFETY: AVX-512 was detected by the caller, who also checked that T is f32. The views were
                    // checked against their slices when they were made, `out` and the bias above, `rows` are left and
                    // `vectors` whole, and b's columns are adjacent: all that a block reaches lies inside its slice.
                    unsafe {
                        let a = a.add(row * a_row + from * a_col);
                        let (b, out) = (b.add(from * b_row + col), out.add(row * n + col));
                        block(shape, a, b, out, added);
                    }
                    row += rows;
                }
            }
        }
    }

    /// Rows of the next block of `m` in all, `left` of them left.
    fn block_rows(m: usize, left: usize) -> usize {
        let most = if m.is_multiple_of(9) { 9 } else { 8 };
        [most, 4, 2].into_iter().find(|&rows| rows <= left).unwrap_or(1)
    }

    fn choose(adjacent: bool, rows: usize, vectors: usize) -> Block {
        if adjacent { by_rows::<true>(rows, vectors) } else { by_rows::<false>(rows, vectors) }
    }

    fn by_rows<const ADJACENT: bool>(rows: usize, vectors: usize) -> Block {
        match rows {
            9 => by_vectors::<ADJACENT, 9>(vectors),
            8 => by_vectors::<ADJACENT, 8>(vectors),
            4 => by_vectors::<ADJACENT, 4>(vectors),
            2 => by_vectors::<ADJACENT, 2>(vectors),
            _ => by_vectors::<ADJACENT, 1>(vectors),
        }
    }

    fn by_vectors<const ADJACENT: bool, const R: usize>(vectors: usize) -> Block {
        match vectors {
            3 => block::<ADJACENT, R, 3>,
            2 => block::<ADJACENT, R, 2>,
            _ => block::<ADJACENT, R, 1>,
        }
    }

    /// `R` rows and `V` vectors of the output. `ADJACENT`: the rows of a are adjacent numbers, so offsets are constants.
    #[target_feature(enable = "avx512f")]
    unsafe fn block<const ADJACENT: bool, const R: usize, const V: usize>(
        s: Shape,
        a: *const f32,
        b: *const f32,
        out: *mut f32,
        from: From,
    ) {
        let row = if ADJACENT { 1 } else { s.a_row };
        let mut acc = [[_mm512_setzero_ps(); V]; R];
        if let From::Bias(bias) = from {
            for j in 0..V {
                // SAFETY: the caller vouches for V vectors of the bias.
                let start = unsafe { _mm512_loadu_ps(bias.add(LANES * j)) };
                acc.iter_mut().for_each(|acc| acc[j] = start);
            }
        }
        let (mut a, mut b) = (a, b);
        for _ in 0..s.depth {
            // SAFETY: the caller vouches for `depth` rows of b and columns of a; the pointers step one past the last
            // only after their last use.
            unsafe {
                let mut v = [_mm512_setzero_ps(); V];
                for (j, v) in v.iter_mut().enumerate() {
                    *v = _mm512_loadu_ps(b.add(LANES * j));
                }
                for i in 0..R {
                    let x = _mm512_set1_ps(*a.add(i * row));
                    for j in 0..V {
                        acc[i][j] = _mm512_fmadd_ps(x, v[j], acc[i][j]);
                    }
                }
                a = a.wrapping_add(s.a_col);
                b = b.wrapping_add(s.b_row);
            }
        }
        let add = matches!(from, From::Out);
        for (i, acc) in acc.iter().enumerate() {
            for (j, &sum) in acc.iter().enumerate() {
                // SAFETY: the caller vouches for R rows of V vectors of the output.
                unsafe {
                    let at = out.add(i * s.out_row + LANES * j);
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
        for (m, k, n) in
            [(9, 1, 48), (27, 288, 96), (18, 530, 144), (128, 97, 512), (23, 40, 16), (15, 9, 128)]
        {
            let (a, b, c) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n, 3));
            for transposed in [false, true] {
                let a = if transposed { Mat::new(&a, k, m).t() } else { Mat::new(&a, m, k) };
                assert!(fits(&a, &Mat::new(&b, k, n)));
                let b = Mat::new(&b, k, n);
                let check = |got: &[f32], want: &[f32]| {
                    for (g, w) in got.iter().zip(want) {
                        assert!((g - w).abs() < 1e-6 * k as f32, "{m} {k} {n}: {g} {w}");
                    }
                };
                for add in [false, true] {
                    let (mut got, mut want) = (c.clone(), c.clone());
                    panel_gemm(&mut got, a, b, add);
                    gemm(&mut want, a, b, 1.0, f32::from(u8::from(add)));
                    check(&got, &want);
                }
                let (bias, mut got) = (&c[..n], c.clone());
                panel_gemm_bias(&mut got, a, b, bias);
                let mut want: Vec<f32> = bias.iter().copied().cycle().take(m * n).collect();
                gemm(&mut want, a, b, 1.0, 1.0);
                check(&got, &want);
            }
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_left_to_the_general_product() {
        let (a, b) = (numbers(10 * 4, 1), numbers(4 * 50, 2));
        assert!(!fits(&Mat::new(&a, 10, 4), &Mat::new(&b, 4, 50)));
        assert!(!fits(&Mat::new(&a, 10, 4), &Mat::new(&b, 48, 4).t()));
        let (mut got, mut want) = (vec![0.0; 500], vec![0.0; 500]);
        panel_gemm(&mut got, Mat::new(&a, 10, 4), Mat::new(&b, 4, 50), false);
        gemm(&mut want, Mat::new(&a, 10, 4), Mat::new(&b, 4, 50), 1.0, 0.0);
        assert_eq!(got, want);
    }
}
