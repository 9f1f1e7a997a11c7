//! Vector registers as the product kernel sees them: one trait, implemented for every scalar and instruction set.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// A register of `LEN` numbers.
///
/// # Safety
/// All functions need a CPU with the instructions of the register; those that take a pointer need as many valid
/// elements there as they read or write. No alignment is needed.
pub(crate) trait Lanes<T>: Copy {
    /// Elements of a register.
    const LEN: usize;
    /// One number in all lanes.
    unsafe fn splat(x: T) -> Self;
    /// `LEN` numbers from memory.
    unsafe fn load(from: *const T) -> Self;
    /// The first `count` numbers from memory, followed by zeros; `count` is below `LEN`.
    unsafe fn load_first(from: *const T, count: usize) -> Self;
    /// All lanes to memory.
    unsafe fn store(self, to: *mut T);
    /// The first `count` lanes to memory; `count` is below `LEN`.
    unsafe fn store_first(self, to: *mut T, count: usize);
    /// self·b + c, rounded once.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// self·b.
    unsafe fn mul(self, b: Self) -> Self;
    /// Transposes 4 × 4 numbers: from rows `stride` apart to rows `wide` apart.
    unsafe fn transpose4(from: *const T, stride: usize, to: *mut T, wide: usize);

    /// Stores the first `count` lanes times `alpha`, added to what is there if `add`; `count` is at most `LEN`.
    #[inline(always)]
    unsafe fn write(self, at: *mut T, count: usize, alpha: T, add: bool) {
        // SAFETY: the caller guarantees the instructions and `count` numbers.
        unsafe {
            let alpha = Self::splat(alpha);
            match (count == Self::LEN, add) {
                (true, true) => self.mul_add(alpha, Self::load(at)).store(at),
                (true, false) => self.mul(alpha).store(at),
                (false, true) => self.mul_add(alpha, Self::load_first(at, count)).store_first(at, count),
                (false, false) => self.mul(alpha).store_first(at, count),
            }
        }
    }
}

macro_rules! lanes {
    ($register:ident of $len:literal $t:ident, $transpose:ident, mask $mask:ident:
        $splat:ident $load:ident $load_first:ident $store:ident $store_first:ident $mul_add:ident $mul:ident) => {
        impl Lanes<$t> for $register {
            const LEN: usize = $len;
            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                // SAFETY: the caller guarantees the instructions.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                // SAFETY: the caller guarantees the instructions and the numbers.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn load_first(from: *const $t, count: usize) -> Self {
                // SAFETY: the caller guarantees the instructions and the numbers; masked lanes are not touched.
                unsafe { $load_first($mask(count), from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                // SAFETY: the caller guarantees the instructions and the room.
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn store_first(self, to: *mut $t, count: usize) {
                // SAFETY: the caller guarantees the instructions and the room; masked lanes are not touched.
                unsafe { $store_first(to, $mask(count), self) }
            }
            #[inline(always)]
            unsafe fn mul_add(self, b: Self, c: Self) -> Self {
                // SAFETY: the caller guarantees the instructions.
                unsafe { $mul_add(self, b, c) }
            }
            #[inline(always)]
            unsafe fn mul(self, b: Self) -> Self {
                // SAFETY: the caller guarantees the instructions.
                unsafe { $mul(self, b) }
            }
            #[inline(always)]
            unsafe fn transpose4(from: *const $t, stride: usize, to: *mut $t, wide: usize) {
                // SAFETY: the caller guarantees the instructions, the numbers and the room.
                unsafe { $transpose(from, stride, to, wide) }
            }
        }
    };
}

lanes!(__m512 of 16 f32, transpose_f32, mask mask16:
    _mm512_set1_ps _mm512_loadu_ps _mm512_maskz_loadu_ps _mm512_storeu_ps _mm512_mask_storeu_ps
    _mm512_fmadd_ps _mm512_mul_ps);
lanes!(__m512d of 8 f64, transpose_f64, mask mask8:
    _mm512_set1_pd _mm512_loadu_pd _mm512_maskz_loadu_pd _mm512_storeu_pd _mm512_mask_storeu_pd
    _mm512_fmadd_pd _mm512_mul_pd);
lanes!(__m256 of 8 f32, transpose_f32, mask lanes32:
    _mm256_set1_ps _mm256_loadu_ps masked_load_ps _mm256_storeu_ps _mm256_maskstore_ps
    _mm256_fmadd_ps _mm256_mul_ps);
lanes!(__m256d of 4 f64, transpose_f64, mask lanes64:
    _mm256_set1_pd _mm256_loadu_pd masked_load_pd _mm256_storeu_pd _mm256_maskstore_pd
    _mm256_fmadd_pd _mm256_mul_pd);

#[inline(always)]
fn mask16(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as __mmask16
}

#[inline(always)]
fn mask8(count: usize) -> __mmask8 {
    ((1u32 << count) - 1) as __mmask8
}

/// Ones in the first `count` of eight lanes.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn lanes32(count: usize) -> __m256i {
    // SAFETY: the caller guarantees the instructions.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

/// Ones in the first `count` of four lanes.
///
/// # Safety
/// The CPU must have AVX2.
#[inline(always)]
unsafe fn lanes64(count: usize) -> __m256i {
    // SAFETY: the caller guarantees the instructions.
    unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(count as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
}

/// Masked load, with the arguments in the order of the other masked loads.
///
/// # Safety
/// The CPU must have AVX; the masked elements must be readable.
#[inline(always)]
unsafe fn masked_load_ps(mask: __m256i, from: *const f32) -> __m256 {
    // SAFETY: the caller guarantees both.
    unsafe { _mm256_maskload_ps(from, mask) }
}

/// Masked load, with the arguments in the order of the other masked loads.
///
/// # Safety
/// The CPU must have AVX; the masked elements must be readable.
#[inline(always)]
unsafe fn masked_load_pd(mask: __m256i, from: *const f64) -> __m256d {
    // SAFETY: the caller guarantees both.
    unsafe { _mm256_maskload_pd(from, mask) }
}

/// See [`Lanes::transpose4`].
///
/// # Safety
/// As for [`Lanes::transpose4`].
#[inline(always)]
unsafe fn transpose_f32(from: *const f32, stride: usize, to: *mut f32, wide: usize) {
    // SAFETY: the caller guarantees four rows of four numbers on both sides; SSE is always available.
    unsafe {
        let row = |i: usize| _mm_loadu_ps(from.add(i * stride));
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (ab_lo, ab_hi) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let (cd_lo, cd_hi) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        _mm_storeu_ps(to, _mm_movelh_ps(ab_lo, cd_lo));
        _mm_storeu_ps(to.add(wide), _mm_movehl_ps(cd_lo, ab_lo));
        _mm_storeu_ps(to.add(2 * wide), _mm_movelh_ps(ab_hi, cd_hi));
        _mm_storeu_ps(to.add(3 * wide), _mm_movehl_ps(cd_hi, ab_hi));
    }
}

/// See [`Lanes::transpose4`].
///
/// # Safety
/// As for [`Lanes::transpose4`]; the CPU must have AVX.
#[inline(always)]
unsafe fn transpose_f64(from: *const f64, stride: usize, to: *mut f64, wide: usize) {
    // SAFETY: the caller guarantees four rows of four numbers on both sides, and AVX.
    unsafe {
        let row = |i: usize| _mm256_loadu_pd(from.add(i * stride));
        let (a, b, c, d) = (row(0), row(1), row(2), row(3));
        let (ab_even, ab_odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
        let (cd_even, cd_odd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
        _mm256_storeu_pd(to, _mm256_permute2f128_pd(ab_even, cd_even, 0x20));
        _mm256_storeu_pd(to.add(wide), _mm256_permute2f128_pd(ab_odd, cd_odd, 0x20));
        _mm256_storeu_pd(to.add(2 * wide), _mm256_permute2f128_pd(ab_even, cd_even, 0x31));
        _mm256_storeu_pd(to.add(3 * wide), _mm256_permute2f128_pd(ab_odd, cd_odd, 0x31));
    }
}
