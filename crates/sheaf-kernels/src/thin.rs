//! Products with matrices of a few dozen rows, one vector at a time: the updates that every agent adds to shared maps.
//!
//! | call | computes | m | x, y |
//! | --- | --- | --- | --- |
//! | [`thin_dot`] | `out_l = m_l·x` | rows, n | n |
//! | [`thin_axpy`] | `y += Σ_l c_l m_l`, its adjoint | rows, n | n |
//! | [`block_dot`] | `out_l = m_l·x_b`, b = l / per_block | blocks·per_block, width | blocks, width |
//! | [`block_axpy`] | `y_b += Σ_l c_l m_l`, its adjoint | blocks·per_block, width | blocks, width |
//!
//! Sums run in sixteen lanes, in an order that depends on the shapes alone.

use super::reduce::{dot, fold};
use super::simd::{fma, kernel};
use crate::Real;

const LANES: usize = 16;
/// Rows that share the loads of x; their sums are independent chains.
const ROWS: usize = 4;

#[inline(always)]
fn thin_dot_body<T: Real, const FMA: bool>(m: &[T], x: &[T], out: &mut [T]) {
    let n = x.len();
    let whole = n - n % LANES;
    let mut groups = m.chunks_exact(ROWS * n);
    let mut outs = out.chunks_exact_mut(ROWS);
    for (rows, out) in groups.by_ref().zip(outs.by_ref()) {
        let (r0, rest) = rows.split_at(n);
        let (r1, rest) = rest.split_at(n);
        let (r2, r3) = rest.split_at(n);
        let mut acc = [[T::ZERO; LANES]; ROWS];
        let lanes = x.chunks_exact(LANES).zip(r0.chunks_exact(LANES)).zip(r1.chunks_exact(LANES));
        let lanes = lanes.zip(r2.chunks_exact(LANES)).zip(r3.chunks_exact(LANES));
        for ((((x, r0), r1), r2), r3) in lanes {
            for l in 0..LANES {
                acc[0][l] = fma::<T, FMA>(r0[l], x[l], acc[0][l]);
                acc[1][l] = fma::<T, FMA>(r1[l], x[l], acc[1][l]);
                acc[2][l] = fma::<T, FMA>(r2[l], x[l], acc[2][l]);
                acc[3][l] = fma::<T, FMA>(r3[l], x[l], acc[3][l]);
            }
        }
        for (k, out) in out.iter_mut().enumerate() {
            *out = fold(acc[k]) + dot::<T, FMA>(&rows[k * n + whole..(k + 1) * n], &x[whole..]);
        }
    }
    for (row, out) in groups.remainder().chunks_exact(n).zip(outs.into_remainder()) {
        *out = dot::<T, FMA>(row, x);
    }
}

kernel! {
    /// `out_l = m_l·x`.
    pub fn thin_dot, thin_dot_at<T>(m: &[T], x: &[T], out: &mut [T]) = thin_dot_body;
}

/// Columns held in registers while all rows are added.
const BLOCK: usize = 4 * LANES;

/// `N` columns of y from `at` on.
#[inline(always)]
fn add_columns<T: Real, const FMA: bool, const N: usize>(m: &[T], c: &[T], y: &mut [T], at: usize) {
    let n = y.len();
    let mut acc = [T::ZERO; N];
    acc.copy_from_slice(&y[at..at + N]);
    for (row, &c) in m.chunks_exact(n).zip(c) {
        let row = &row[at..at + N];
        for l in 0..N {
            acc[l] = fma::<T, FMA>(c, row[l], acc[l]);
        }
    }
    y[at..at + N].copy_from_slice(&acc);
}

#[inline(always)]
fn thin_axpy_body<T: Real, const FMA: bool>(m: &[T], c: &[T], y: &mut [T]) {
    let (n, mut at) = (y.len(), 0);
    while at + BLOCK <= n {
        add_columns::<T, FMA, BLOCK>(m, c, y, at);
        at += BLOCK;
    }
    while at + LANES <= n {
        add_columns::<T, FMA, LANES>(m, c, y, at);
        at += LANES;
    }
    while at < n {
        add_columns::<T, FMA, 1>(m, c, y, at);
        at += 1;
    }
}

kernel! {
    /// `y += Σ_l c_l m_l`.
    pub fn thin_axpy, thin_axpy_at<T>(m: &[T], c: &[T], y: &mut [T]) = thin_axpy_body;
}

#[inline(always)]
fn block_dot_body<T: Real, const FMA: bool>(m: &[T], per_block: usize, width: usize, x: &[T], out: &mut [T]) {
    let blocks = m.chunks_exact(per_block * width).zip(x.chunks_exact(width));
    for ((m, x), out) in blocks.zip(out.chunks_exact_mut(per_block)) {
        for (row, out) in m.chunks_exact(width).zip(out) {
            *out = dot::<T, FMA>(row, x);
        }
    }
}

kernel! {
    /// `out_l = m_l·x_b`, b = l / per_block.
    pub fn block_dot, block_dot_at<T>(m: &[T], per_block: usize, width: usize, x: &[T], out: &mut [T])
        = block_dot_body;
}

#[inline(always)]
fn block_axpy_body<T: Real, const FMA: bool>(m: &[T], per_block: usize, width: usize, c: &[T], y: &mut [T]) {
    let blocks = m.chunks_exact(per_block * width).zip(y.chunks_exact_mut(width));
    for ((m, y), c) in blocks.zip(c.chunks_exact(per_block)) {
        for (row, &c) in m.chunks_exact(width).zip(c) {
            for i in 0..width {
                y[i] = fma::<T, FMA>(c, row[i], y[i]);
            }
        }
    }
}

kernel! {
    /// `y_b += Σ_l c_l m_l` over the rows of block b.
    pub fn block_axpy, block_axpy_at<T>(m: &[T], per_block: usize, width: usize, c: &[T], y: &mut [T])
        = block_axpy_body;
}

#[cfg(test)]
mod tests {
    use super::super::simd::Level;
    use super::*;

    fn numbers(n: usize, seed: u32) -> Vec<f64> {
        let mix = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761) >> 16;
        (0..n as u32).map(|i| f64::from(mix(i)) / 65_536.0 - 0.5).collect()
    }

    fn close(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12), "{got:?} {want:?}");
    }

    #[test]
    fn all_four_are_their_formulas_at_every_level() {
        for level in [Level::Portable, Level::Avx2, Level::Avx512] {
            for (rows, n) in [(1, 1), (4, 16), (6, 100), (36, 288), (9, 37)] {
                let (m, x, c, y) = (numbers(rows * n, 1), numbers(n, 2), numbers(rows, 3), numbers(n, 4));
                let mut out = vec![9.0; rows];
                thin_dot_at(level, &m, &x, &mut out);
                let want: Vec<f64> =
                    m.chunks(n).map(|row| row.iter().zip(&x).map(|(a, b)| a * b).sum()).collect();
                close(&out, &want);
                let mut sum = y.clone();
                thin_axpy_at(level, &m, &c, &mut sum);
                let want: Vec<f64> =
                    (0..n).map(|j| y[j] + (0..rows).map(|l| c[l] * m[l * n + j]).sum::<f64>()).collect();
                close(&sum, &want);
            }
            for (blocks, per_block, width) in [(1, 1, 1), (9, 4, 32), (3, 2, 21)] {
                let rows = blocks * per_block;
                let (m, x) = (numbers(rows * width, 1), numbers(blocks * width, 2));
                let (c, mut out) = (numbers(rows, 3), vec![9.0; rows]);
                block_dot_at(level, &m, per_block, width, &x, &mut out);
                let entry = |l: usize, i: usize| m[l * width + i];
                let want: Vec<f64> = (0..rows)
                    .map(|l| (0..width).map(|i| entry(l, i) * x[l / per_block * width + i]).sum())
                    .collect();
                close(&out, &want);
                let mut y = x.clone();
                block_axpy_at(level, &m, per_block, width, &c, &mut y);
                let add = |b: usize, i: usize| {
                    (b * per_block..(b + 1) * per_block).map(|l| c[l] * entry(l, i)).sum::<f64>()
                };
                let want: Vec<f64> = (0..blocks * width).map(|k| x[k] + add(k / width, k % width)).collect();
                close(&y, &want);
            }
        }
    }
}
