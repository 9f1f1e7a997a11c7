//! The operations by AVX-512 BF16.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::transmute;

use super::pairs::{Outers, Words};
use super::{DV, Dots};

/// Vector instructions.
pub(super) struct Vectors;

impl Dots for Vectors {
    #[inline(always)]
    unsafe fn accumulate<const N: usize>(acc: &mut [f32; N], coefs: &[u32], rows: &[f32]) {
        const { assert!(N.is_multiple_of(8) && N <= 64) };
        let rows = &rows[..coefs.len() * N];
        // SAFETY: the caller guarantees the instructions; rows of N words exist for all coefficients, and the sums have
        // N lanes.
        unsafe {
            let (wide, rest) = (N / 16, !N.is_multiple_of(16));
            let (mut sums, mut last) = ([_mm512_setzero_ps(); 4], _mm256_setzero_ps());
            let to = acc.as_mut_ptr();
            for i in 0..wide {
                sums[i] = _mm512_loadu_ps(to.add(16 * i));
            }
            if rest {
                last = _mm256_loadu_ps(to.add(16 * wide));
            }
            for (j, &coef) in coefs.iter().enumerate() {
                let row = rows.as_ptr().add(j * N);
                let x = _mm512_set1_epi32(coef as i32);
                for i in 0..wide {
                    let row: __m512bh = transmute(_mm512_loadu_ps(row.add(16 * i)));
                    sums[i] = _mm512_dpbf16_ps(sums[i], transmute::<__m512i, __m512bh>(x), row);
                }
                if rest {
                    let row: __m256bh = transmute(_mm256_loadu_ps(row.add(16 * wide)));
                    let x: __m256bh = transmute(_mm512_castsi512_si256(x));
                    last = _mm256_dpbf16_ps(last, x, row);
                }
            }
            for i in 0..wide {
                _mm512_storeu_ps(to.add(16 * i), sums[i]);
            }
            if rest {
                _mm256_storeu_ps(to.add(16 * wide), last);
            }
        }
    }

    #[inline(always)]
    unsafe fn words(numbers: &[f32], words: &mut [u32]) {
        let words = &mut words[..numbers.len() / 2];
        for (numbers, words) in numbers.chunks(32).zip(words.chunks_mut(16)) {
            let mask = |count: usize| if count >= 16 { !0 } else { ((1u32 << count) - 1) as __mmask16 };
            let high = numbers.len().saturating_sub(16);
            // SAFETY: the caller guarantees the instructions; masked lanes are not touched.
            unsafe {
                let low = _mm512_maskz_loadu_ps(mask(numbers.len()), numbers.as_ptr());
                let high = _mm512_maskz_loadu_ps(mask(high), numbers.as_ptr().wrapping_add(16));
                let packed: __m512i = transmute(_mm512_cvtne2ps_pbh(high, low));
                _mm512_mask_storeu_epi32(words.as_mut_ptr().cast(), mask(words.len()), packed);
            }
        }
    }
}

/// Rows of a sum that are held in registers.
const HELD: usize = 8;

impl Outers for Vectors {
    #[inline(always)]
    unsafe fn join(first: &[f32; DV], second: &[f32; DV], words: &mut Words) {
        // Number 2i of the result is i of the low half, 2i + 1 is i of the high half.
        for at in (0..DV).step_by(16) {
            // SAFETY: the caller guarantees the instructions; the three arrays have sixteen numbers from here on.
            unsafe {
                let order = _mm512_set_epi16(
                    31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4,
                    19, 3, 18, 2, 17, 1, 16, 0,
                );
                let low = _mm512_loadu_ps(first.as_ptr().add(at));
                let high = _mm512_loadu_ps(second.as_ptr().add(at));
                let packed: __m512i = transmute(_mm512_cvtne2ps_pbh(high, low));
                let packed = _mm512_permutexvar_epi16(order, packed);
                _mm512_storeu_si512(words.0.as_mut_ptr().add(at).cast(), packed);
            }
        }
    }

    #[inline(always)]
    unsafe fn add(left: &[Words], right: &[Words], out: &mut [f32]) {
        const { assert!(DV == 32) };
        for (group, out) in out.chunks_exact_mut(HELD * DV).enumerate() {
            let to = out.as_mut_ptr();
            // SAFETY: the caller guarantees the instructions; a chunk has eight rows of two registers, a state two
            // registers of words.
            unsafe {
                let mut acc = [[_mm512_setzero_ps(); 2]; HELD];
                for r in 0..HELD {
                    acc[r] = [0, 16].map(|at| _mm512_loadu_ps(to.add(r * DV + at)));
                }
                for (left, right) in left.iter().zip(right) {
                    let line = [0, 16].map(|at| {
                        transmute::<__m512i, __m512bh>(_mm512_loadu_si512(right.0.as_ptr().add(at).cast()))
                    });
                    for r in 0..HELD {
                        let x: __m512bh = transmute(_mm512_set1_epi32(left.0[group * HELD + r] as i32));
                        acc[r][0] = _mm512_dpbf16_ps(acc[r][0], x, line[0]);
                        acc[r][1] = _mm512_dpbf16_ps(acc[r][1], x, line[1]);
                    }
                }
                for r in 0..HELD {
                    _mm512_storeu_ps(to.add(r * DV), acc[r][0]);
                    _mm512_storeu_ps(to.add(r * DV + 16), acc[r][1]);
                }
            }
        }
    }
}
