//! Products of `f32` matrices with operands rounded to bfloat16 and sums in `f32`.
//!
//! **Rounding.** An operand is rounded to the nearest bfloat16, ties to even, when it is packed; denormal numbers become
//! zero. These are the rules of `vcvtne2ps2bf16`.
//!
//! **Order of sums.** The inner dimension is taken in pairs, padded by a zero if it is odd, and in parts of at most
//! [`DEPTH`] of nearly equal length. A part is summed from zero: for each pair, the product of the second numbers is
//! added, then that of the first, each by a fused multiply-add rounded to nearest; denormal results become zero. These
//! are the rules of `vdpbf16ps`. `alpha` times the sum of a part is stored or added.
//!
//! The AVX-512 kernel ([`avx512`]) and the portable loops ([`twin`]) follow both, so that they give the same bits.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(test)]
mod tests;
mod twin;

use std::sync::OnceLock;

use super::aligned::AlignedVec;
use super::gemm::{Mat, Product};
use super::simd::{Level, level};

/// Inner products longer than this are split.
const DEPTH: usize = 320;

/// The parts of an inner dimension, in pairs: first pair and number of pairs.
#[inline(always)]
fn parts(k: usize) -> impl Iterator<Item = (usize, usize)> {
    let (pairs, parts) = (k.div_ceil(2), k.div_ceil(DEPTH));
    (0..parts).map(move |i| {
        let first = i * pairs / parts;
        (first, (i + 1) * pairs / parts - first)
    })
}

/// Whether the CPU has the instructions and `SHEAF_SIMD` does not forbid them.
pub(super) fn has_instructions() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| level() == Level::Avx512 && detect())
}

#[cfg(target_arch = "x86_64")]
fn detect() -> bool {
    std::arch::is_x86_feature_detected!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> bool {
    false
}

/// Length of a packed right operand.
pub(super) fn pairs_len(k: usize, n: usize) -> usize {
    k.div_ceil(2).saturating_mul(n.next_multiple_of(16))
}

/// Packs a right operand as the kernel reads it; nothing is left where the kernel does not run.
#[allow(unsafe_code)]
pub(super) fn pack(b: Mat<'_, f32>, to: &mut AlignedVec<u32>) {
    let (k, n) = b.shape();
    if !has_instructions() {
        *to = AlignedVec::default();
    } else if to.len() != pairs_len(k, n) {
        *to = AlignedVec::zeros(pairs_len(k, n));
    }
    #[cfg(target_arch = "x86_64")]
    if !to.is_empty() {
        // SAFETY: the CPU has these instructions.
        unsafe { avx512::pack(b, to) };
    }
}

/// Runs a product, at most at this level.
#[allow(unsafe_code)]
pub(super) fn product(product: Product<'_, f32>, limit: Level) {
    #[cfg(target_arch = "x86_64")]
    if limit == Level::Avx512 && has_instructions() {
        // SAFETY: the CPU has these instructions.
        return unsafe { avx512::product(product) };
    }
    twin::product(product, limit);
}
