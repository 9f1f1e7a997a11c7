//! g_i = F_iᵀ s_i: a dot product per column, added up by one tree of shuffles; the exchange may be fused in.

use std::arch::x86_64::*;

use super::{columns, place};
use crate::linalg::stack::Table;

#[target_feature(enable = "avx512f")]
pub(super) unsafe fn lift_shape<const LV: usize, const DV: usize>(
    table: Table<'_>,
    views: usize,
    stacks: &[f32],
    s: &[f32],
    g: &mut [f32],
) {
    let (d_v, ld) = (columns::<DV>(&table), LV * 16);
    for (i, &view) in table.index.iter().enumerate() {
        // SAFETY: `check` and `place` hold for every view and agent.
        unsafe {
            let mut held = [_mm512_setzero_ps(); LV];
            for b in 0..LV {
                held[b] = _mm512_loadu_ps(s.as_ptr().add(i * ld + b * 16));
            }
            let stack = stacks.as_ptr().add(place(view, views, d_v * ld));
            lift_one::<LV, DV>(d_v, stack, held, g.as_mut_ptr().add(i * d_v));
        }
    }
}

/// Fᵀ s of one agent, s in registers. The sums bind here, not the loads: pairs of agents gain nothing.
///
/// # Safety
/// `stack` has d_v·16·LV entries, `g` room for d_v.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn lift_one<const LV: usize, const DV: usize>(
    d_v: usize,
    stack: *const f32,
    held: [__m512; LV],
    g: *mut f32,
) {
    let (ld, mask) = (LV * 16, ((1u32 << d_v) - 1) as __mmask16);
    let mut sums = [_mm512_setzero_ps(); 16];
    for j in 0..DV {
        if j >= d_v {
            break;
        }
        // SAFETY: column j of the stack; the caller vouches for its size.
        unsafe {
            let mut acc = _mm512_mul_ps(held[0], _mm512_loadu_ps(stack.add(j * ld)));
            for b in 1..LV {
                acc = _mm512_fmadd_ps(held[b], _mm512_loadu_ps(stack.add(j * ld + b * 16)), acc);
            }
            sums[j] = acc;
        }
    }
    // SAFETY: the masked store writes d_v entries.
    unsafe { _mm512_mask_storeu_ps(g, mask, add_up::<DV>(sums)) };
}

#[target_feature(enable = "avx512f")]
pub(super) unsafe fn exchange_lift_shape<const LV: usize, const DV: usize, const DE: usize>(
    table: Table<'_>,
    views: usize,
    partners: &[u32],
    stacks: &[f32],
    y: &[f32],
    s: &mut [f32],
    g: &mut [f32],
) {
    let (d_v, ld) = (columns::<DV>(&table), LV * 16);
    for (i, &view) in table.index.iter().enumerate() {
        // SAFETY: `check`, `place` and the partners' bounds hold for every view and agent.
        unsafe {
            let held = exchange_one::<LV, DE>(i, partners, y.as_ptr(), s.as_mut_ptr());
            let stack = stacks.as_ptr().add(place(view, views, d_v * ld));
            lift_one::<LV, DV>(d_v, stack, held, g.as_mut_ptr().add(i * d_v));
        }
    }
}

/// y − y of the partner slots of one agent with eight slots; also written to `s`.
///
/// # Safety
/// `y` and `s` hold 16·LV entries for every agent, `partners` eight slots inside `y` for every agent.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn exchange_one<const LV: usize, const DE: usize>(
    agent: usize,
    partners: &[u32],
    y: *const f32,
    s: *mut f32,
) -> [__m512; LV] {
    let partners: &[u32; 8] = partners[agent * 8..][..8].try_into().expect("eight slots");
    let mut other = [_mm512_setzero_ps(); LV];
    for k in 0..8 {
        let (first, end) = (k * DE, (k + 1) * DE);
        for b in 0..LV {
            let (lo, hi) = (b * 16, b * 16 + 16);
            if first < hi && end > lo {
                let (from, to) = (first.max(lo) - lo, end.min(hi) - lo);
                let mask = (((1u32 << to) - 1) & !((1u32 << from) - 1)) as __mmask16;
                let shift = lo as isize - first as isize;
                let start = y.wrapping_add(partners[k] as usize).wrapping_offset(shift);
                // SAFETY: the lanes of the mask lie inside the partner's slot; the others are never touched, so a
                // start before or behind the rows is not read there.
                other[b] = unsafe { _mm512_mask_loadu_ps(other[b], mask, start) };
            }
        }
    }
    let mut held = [_mm512_setzero_ps(); LV];
    for b in 0..LV {
        let at = agent * LV * 16 + b * 16;
        // SAFETY: the agent's own rows.
        unsafe {
            held[b] = _mm512_sub_ps(_mm512_loadu_ps(y.add(at)), other[b]);
            _mm512_storeu_ps(s.add(at), held[b]);
        }
    }
    held
}

/// Lane j of the answer is the sum of all lanes of `v[j]`; vectors from `DV` on are zero.
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
