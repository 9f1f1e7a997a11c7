//! The two operations by AVX-512 BF16.

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::transmute;

use super::Dots;

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
