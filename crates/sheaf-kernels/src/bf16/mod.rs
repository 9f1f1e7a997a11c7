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
//!
//! **Tiles.** A CPU with AMX multiplies tiles ([`amx`]), eight times as fast and in an order of its own. The inner
//! dimension is taken in parts of [`DEPTH`] and in groups of [`TILE`], padded by zeros. In a group the products of the
//! first numbers of all pairs are summed from zero, and those of the second numbers; the sum of the two is added to the
//! sum of the part. These are the rules of `tdpbf16ps`; [`twin::tiles`] follows them too. Products that would leave most
//! of a tile empty run as on other CPUs; the sizes alone decide ([`fills_tiles`]).

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
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

pub(super) use twin::{add_products, round_pair};

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

/// Numbers of the inner dimension that a tile holds.
const TILE: usize = 32;

/// The parts of an inner dimension for tiles: first number and numbers.
#[inline(always)]
fn tile_parts(k: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..k).step_by(DEPTH).map(move |from| (from, DEPTH.min(k - from)))
}

/// Whether a product is large enough for tiles.
#[inline]
fn fills_tiles(m: usize, k: usize, n: usize) -> bool {
    m >= 8 && k >= 16 && n >= 8
}

/// Whether the CPU has the instructions and `SHEAF_SIMD` does not forbid them.
pub(super) fn has_instructions() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| level() >= Level::Avx512 && detect())
}

#[cfg(target_arch = "x86_64")]
fn detect() -> bool {
    std::arch::is_x86_feature_detected!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> bool {
    false
}

/// Length of a packed right operand: whole groups of pairs, as tiles need them.
pub(super) fn pairs_len(k: usize, n: usize) -> usize {
    (k.div_ceil(TILE) * TILE / 2).saturating_mul(n.next_multiple_of(16))
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
        unsafe { if level() == Level::Amx { amx::pack(b, to) } else { avx512::pack(b, to) } };
    }
}

/// Runs a product, at most at this level. At the level of AMX the order of sums is that of tiles, on any CPU.
#[allow(unsafe_code)]
pub(super) fn product(product: Product<'_, f32>, limit: Level) {
    let ((m, k), n) = (product.a.shape(), product.b.shape().1);
    let tiles = limit == Level::Amx && fills_tiles(m, k, n);
    #[cfg(target_arch = "x86_64")]
    if limit >= Level::Avx512 && has_instructions() {
        // SAFETY: the CPU has these instructions.
        return unsafe {
            match (tiles, level() == Level::Amx) {
                (true, true) => amx::product(product),
                (true, false) => twin::tiles(product),
                // What was packed for tiles is in another order.
                (false, true) => avx512::product(product.unpacked()),
                (false, false) => avx512::product(product),
            }
        };
    }
    if tiles { twin::tiles(product) } else { twin::product(product, limit) }
}
