//! Packing: `f32` lines to lines of bf16 pairs.
//!
//! | call | source | packed |
//! | --- | --- | --- |
//! | [`stream`] | lines along the inner dimension | each line as its pairs |
//! | [`interleave`] | lines across the inner dimension | two lines as one line of pairs |
//! | [`transpose`] | lines along the inner dimension | a line of each pair, across all lines |
//! | [`turn`] | lines across the inner dimension | rows along it, each as its pairs |
//!
//! What is missing from a whole register or a pair is zero.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::transmute;

/// Numbers, and pairs, of a register.
pub(super) const LEN: usize = 16;

/// Lines of `f32`, `stride` apart.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub first: *const f32,
    pub stride: usize,
    pub lines: usize,
    pub len: usize,
}

/// Ones for the numbers that a register holds of a line with `left` numbers from here on.
#[inline(always)]
fn mask(left: usize) -> __mmask16 {
    if left >= LEN { !0 } else { ((1u32 << left) - 1) as __mmask16 }
}

/// Sixteen numbers of a line, or as many as are left.
///
/// # Safety
/// The CPU must have the instructions, `from` the numbers.
#[inline(always)]
unsafe fn load(from: *const f32, left: usize) -> __m512 {
    // SAFETY: the caller guarantees both; masked lanes are not touched.
    unsafe { _mm512_maskz_loadu_ps(mask(left), from) }
}

/// The pairs of thirty-two numbers of a line, of which `left` exist.
///
/// # Safety
/// As for [`load`].
#[inline(always)]
unsafe fn pairs(from: *const f32, left: usize) -> __m512i {
    // SAFETY: the caller guarantees both.
    unsafe {
        let low = load(from, left);
        let high = load(from.wrapping_add(LEN), left.saturating_sub(LEN));
        transmute(_mm512_cvtne2ps_pbh(high, low))
    }
}

/// Each line as its pairs, `line` apart; whole registers are written.
///
/// # Safety
/// The CPU must have AVX-512 F, BW, DQ, VL and BF16; the source must exist, `to` must have room.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) unsafe fn stream(source: Source, to: *mut u32, line: usize) {
    let Source { first, stride, lines, len } = source;
    for i in 0..lines {
        for at in (0..len).step_by(2 * LEN) {
            // SAFETY: the caller guarantees the source and the room.
            unsafe {
                let packed = pairs(first.add(i * stride + at), len - at);
                _mm512_storeu_si512(to.add(i * line + at / 2).cast(), packed);
            }
        }
    }
}

/// The pairs of two lines, `stride` apart: sixteen of each, of which `left` exist; without the second line, zeros.
///
/// # Safety
/// As for [`load`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn two_lines(from: *const f32, stride: usize, left: usize, both: bool) -> __m512i {
    // Number 2i of the result is i of the low half, 2i + 1 is i of the high half.
    let order = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18,
        2, 17, 1, 16, 0,
    );
    // SAFETY: the caller guarantees the numbers.
    unsafe {
        let low = load(from, left);
        let high = load(from.wrapping_add(stride), if both { left } else { 0 });
        let packed: __m512i = transmute(_mm512_cvtne2ps_pbh(high, low));
        _mm512_permutexvar_epi16(order, packed)
    }
}

/// Two lines as one line of pairs, `wide` apart, a multiple of sixteen.
///
/// # Safety
/// As for [`stream`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) unsafe fn interleave(source: Source, to: *mut u32, wide: usize) {
    let Source { first, stride, lines, len } = source;
    for l in 0..lines.div_ceil(2) {
        let both = 2 * l + 1 < lines;
        for at in (0..wide).step_by(LEN) {
            // SAFETY: the caller guarantees the source and the room.
            unsafe {
                let from = first.wrapping_add(2 * l * stride + at);
                let packed = two_lines(from, stride, len.saturating_sub(at), both);
                _mm512_storeu_si512(to.add(l * wide + at).cast(), packed);
            }
        }
    }
}

/// Lines across the inner dimension as rows along it, `line` pairs apart, a multiple of sixteen. Rows up to a whole
/// sixteen and pairs up to a whole sixteen are written.
///
/// # Safety
/// As for [`stream`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) unsafe fn turn(source: Source, to: *mut u32, line: usize) {
    let Source { first, stride, lines, len } = source;
    for row in (0..len).step_by(LEN) {
        for at in (0..lines).step_by(2 * LEN) {
            // SAFETY: the caller guarantees the source and the room.
            unsafe {
                let mut square = [_mm512_setzero_si512(); LEN];
                let pairs = (lines - at).div_ceil(2).min(LEN);
                for (l, pair) in square[..pairs].iter_mut().enumerate() {
                    let (from, both) =
                        (first.wrapping_add((at + 2 * l) * stride + row), at + 2 * l + 1 < lines);
                    *pair = two_lines(from, stride, len - row, both);
                }
                transpose_square(&mut square);
                for (i, pairs) in square.iter().enumerate() {
                    _mm512_storeu_si512(to.add((row + i) * line + at / 2).cast(), *pairs);
                }
            }
        }
    }
}

/// A line of each pair across all lines, `wide` apart, a multiple of sixteen.
///
/// # Safety
/// As for [`stream`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) unsafe fn transpose(source: Source, to: *mut u32, wide: usize) {
    let Source { first, stride, lines, len } = source;
    for column in (0..wide).step_by(LEN) {
        let count = lines.saturating_sub(column).min(LEN);
        for at in (0..len).step_by(2 * LEN) {
            // SAFETY: the caller guarantees the source and the room.
            unsafe {
                let mut square = [_mm512_setzero_si512(); LEN];
                for (i, row) in square[..count].iter_mut().enumerate() {
                    *row = pairs(first.add((column + i) * stride + at), len - at);
                }
                transpose_square(&mut square);
                let rows = (len - at).div_ceil(2).min(LEN);
                for (l, row) in square[..rows].iter().enumerate() {
                    _mm512_storeu_si512(to.add((at / 2 + l) * wide + column).cast(), *row);
                }
            }
        }
    }
}

/// Transposes 16 × 16 pairs.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
fn transpose_square(r: &mut [__m512i; LEN]) {
    // Within four lanes of four: pairs of rows, then fours of rows.
    let mut t = [_mm512_setzero_si512(); LEN];
    for i in 0..LEN / 2 {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    for i in 0..LEN / 4 {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    // r[4i + c] holds column 4j + c of rows 4i to 4i + 3 in its lane j; the lanes are transposed in turn.
    for c in 0..4 {
        let (a, b, d, e) = (r[c], r[4 + c], r[8 + c], r[12 + c]);
        let (ab_even, ab_odd) = (_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
        let (de_even, de_odd) = (_mm512_shuffle_i32x4(d, e, 0x88), _mm512_shuffle_i32x4(d, e, 0xdd));
        t[c] = _mm512_shuffle_i32x4(ab_even, de_even, 0x88);
        t[8 + c] = _mm512_shuffle_i32x4(ab_even, de_even, 0xdd);
        t[4 + c] = _mm512_shuffle_i32x4(ab_odd, de_odd, 0x88);
        t[12 + c] = _mm512_shuffle_i32x4(ab_odd, de_odd, 0xdd);
    }
    *r = t;
}
