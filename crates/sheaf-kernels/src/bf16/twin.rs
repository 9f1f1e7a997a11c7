//! The portable twin of the bf16 kernel: the same rounding and the same order of sums, in plain loops.

use super::super::gemm::Product;
use super::super::simd::{Level, kernel};
use super::{DEPTH, TILE, parts, tile_parts};

/// Columns that are rounded together, once for all rows.
const WIDE: usize = 32;

/// Rounds to the nearest bfloat16, ties to even; denormal numbers become zero.
#[inline(always)]
pub(super) fn round(x: f32) -> f32 {
    let bits = x.to_bits();
    if x.is_nan() {
        // Quiet, and without the lower half.
        return f32::from_bits((bits | 0x0040_0000) & 0xffff_0000);
    }
    let up = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
    flush(f32::from_bits(if bits & 0x7f80_0000 == 0 { bits } else { up }))
}

/// Two rounded numbers as a pair, the first in the lower half.
#[inline(always)]
pub(crate) fn round_pair(first: f32, second: f32) -> u32 {
    round(first).to_bits() >> 16 | round(second).to_bits()
}

/// sum + the products of two pairs: of their second numbers, then of their first.
#[inline(always)]
pub(crate) fn add_products(sum: f32, a: u32, b: u32) -> f32 {
    let (low, high) =
        (|pair: u32| f32::from_bits(pair << 16), |pair: u32| f32::from_bits(pair & 0xffff_0000));
    flush(low(a).mul_add(low(b), flush(high(a).mul_add(high(b), sum))))
}

/// Zero of the same sign if the number is denormal.
#[inline(always)]
fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// Runs a product, at most at this level.
pub(super) fn product(product: Product<'_, f32>, limit: Level) {
    loops_at(limit, product);
}

kernel! {
    #[allow(dead_code)]
    fn loops, loops_at(product: Product<'_, f32>) = loops_body;
}

#[inline(always)]
fn loops_body<const FMA: bool>(product: Product<'_, f32>) {
    let Product { out, stride, a, b, alpha, add } = product;
    let ((m, k), (_, n)) = (a.shape(), b.shape());
    let ((a_row, a_col), (b_row, b_col)) = (a.strides(), b.strides());
    let (a, b) = (a.data(), b.data());
    let mut panel = [[0.0; WIDE]; DEPTH];
    for (first, pairs) in parts(k) {
        let (from, depth) = (2 * first, (2 * pairs).min(k - 2 * first));
        for col in (0..n).step_by(WIDE) {
            let width = WIDE.min(n - col);
            for (l, line) in panel[..depth].iter_mut().enumerate() {
                for (j, to) in line[..width].iter_mut().enumerate() {
                    *to = round(b[(from + l) * b_row + (col + j) * b_col]);
                }
            }
            for i in 0..m {
                let x = |l: usize| round(a[i * a_row + (from + l) * a_col]);
                let mut sums = [0.0f32; WIDE];
                for l in (0..depth).step_by(2) {
                    if l + 1 < depth {
                        add_product(&mut sums, x(l + 1), &panel[l + 1]);
                    } else {
                        add_product(&mut sums, 0.0, &[0.0; WIDE]);
                    }
                    add_product(&mut sums, x(l), &panel[l]);
                }
                let add = add || first > 0;
                for (out, &sum) in out[i * stride + col..][..width].iter_mut().zip(&sums) {
                    *out = if add { sum.mul_add(alpha, *out) } else { sum * alpha };
                }
            }
        }
    }
}

#[inline(always)]
fn add_product(sums: &mut [f32; WIDE], x: f32, line: &[f32; WIDE]) {
    for j in 0..WIDE {
        sums[j] = flush(x.mul_add(line[j], sums[j]));
    }
}

/// Runs a product with the order of sums of tiles.
pub(super) fn tiles(product: Product<'_, f32>) {
    let Product { out, stride, a, b, alpha, add } = product;
    let ((m, k), (_, n)) = (a.shape(), b.shape());
    let ((a_row, a_col), (b_row, b_col)) = (a.strides(), b.strides());
    let (a, b) = (a.data(), b.data());
    for (from, depth) in tile_parts(k) {
        let add = add || from > 0;
        for i in 0..m {
            for j in 0..n {
                let x = |l: usize| if l < k { round(a[i * a_row + l * a_col]) } else { 0.0 };
                let y = |l: usize| if l < k { round(b[l * b_row + j * b_col]) } else { 0.0 };
                let mut sum = 0.0f32;
                for group in (from..from + depth).step_by(TILE) {
                    let of = |first: usize| {
                        let products = (group + first..group + TILE).step_by(2);
                        products.fold(0.0f32, |sum, l| flush(x(l).mul_add(y(l), sum)))
                    };
                    sum = flush(sum + flush(of(0) + of(1)));
                }
                let out = &mut out[i * stride + j];
                *out = if add { sum.mul_add(alpha, *out) } else { sum * alpha };
            }
        }
    }
}
