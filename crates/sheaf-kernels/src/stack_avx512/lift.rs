//! g_i = F_iᵀ s_i: a dot product per column, added up by one tree of shuffles. Rows of padding are not read.

use std::arch::x86_64::*;

use super::{columns, place};
use crate::stack::Table;

#[target_feature(enable = "avx512f")]
pub(super) unsafe fn lift_shape<const LV: usize, const DV: usize, const HALF: bool>(
    table: Table<'_>,
    views: usize,
    stacks: &[f32],
    s: &[f32],
    g: &mut [f32],
) {
    let (d_v, ld) = (columns::<DV>(&table), LV * 16);
    let in_use = if HALF { 8 } else { table.rows.saturating_sub(ld - 16).min(16) };
    let last = ((1u32 << in_use) - 1) as __mmask16;
    for (i, &view) in table.index.iter().enumerate() {
        // SAFETY: `check` and `place` hold for every view and agent.
        unsafe {
            let mut held = [_mm512_setzero_ps(); LV];
            for b in 0..LV {
                let rows = if b + 1 == LV { last } else { 0xffff };
                held[b] = _mm512_maskz_loadu_ps(rows, s.as_ptr().add(i * ld + b * 16));
            }
            let stack = stacks.as_ptr().add(place(view, views, d_v * ld));
            lift_one::<LV, DV>(d_v, stack, held, last, g.as_mut_ptr().add(i * d_v));
        }
    }
}

/// Fᵀ s of one agent, s in registers; `last` masks the rows of the last vector that are in use. The sums are the
/// bottleneck, not the loads: pairs of agents gain nothing.
///
/// # Safety
/// `stack` has d_v·16·LV entries, `g` room for d_v.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn lift_one<const LV: usize, const DV: usize>(
    d_v: usize,
    stack: *const f32,
    held: [__m512; LV],
    last: __mmask16,
    g: *mut f32,
) {
    let (ld, mask) = (LV * 16, ((1u32 << d_v) - 1) as __mmask16);
    let mut sums = [_mm512_setzero_ps(); 16];
    for j in 0..DV {
        if j >= d_v {
            break;
        }
        // SAFETY: column j of the stack; the caller guarantees its size.
        unsafe {
            let rows = |b: usize| if b + 1 == LV { last } else { 0xffff };
            let mut acc = _mm512_mul_ps(held[0], _mm512_maskz_loadu_ps(rows(0), stack.add(j * ld)));
            for b in 1..LV {
                let block = _mm512_maskz_loadu_ps(rows(b), stack.add(j * ld + b * 16));
                acc = _mm512_fmadd_ps(held[b], block, acc);
            }
            sums[j] = acc;
        }
    }
    // SAFETY: the masked store writes d_v entries.
    unsafe { _mm512_mask_storeu_ps(g, mask, add_up::<DV>(sums)) };
}

/// Lane j of the result is the sum of all lanes of `v[j]`; vectors from `DV` on are zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_up<const DV: usize>(v: [__m512; 16]) -> __m512 {
    let zero = _mm512_setzero_ps();
    let mut pairs = [zero; 8];
    for i in 0..8 {
        if 2 * i < DV {
            let (a, b) = (v[2 * i], v[2 * i + 1]);
            pairs[i] = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
        }
    }
    let mut fours = [zero; 4];
    for i in 0..4 {
        if 4 * i < DV {
            let (a, b) = (_mm512_castps_pd(pairs[2 * i]), _mm512_castps_pd(pairs[2 * i + 1]));
            let (lo, hi) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
            fours[i] = _mm512_add_ps(_mm512_castpd_ps(lo), _mm512_castpd_ps(hi));
        }
    }
    let mut eights = [zero; 2];
    for i in 0..2 {
        if 8 * i < DV {
            let (a, b) = (fours[2 * i], fours[2 * i + 1]);
            eights[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
        }
    }
    let (a, b) = (eights[0], eights[1]);
    _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd))
}
