//! dF_i += scale·Σ_t rows_t,i state_t,iᵀ, a block of columns held in registers over all terms of agents that share a
//! view and are adjacent in the table's order.

use std::arch::x86_64::*;

use super::{columns, place};
use crate::stack::Table;

/// Columns whose gradients are held in registers at a time.
const HELD: usize = 5;

#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
pub(super) unsafe fn outers_shape<const LV: usize, const DV: usize, const HALF: bool>(
    table: Table<'_>,
    views: usize,
    d_stacks: &mut [f32],
    scale: f32,
    terms: usize,
    rows: &[f32],
    states: &[f32],
) {
    let (d_v, ld, agents) = (columns::<DV>(&table), LV * 16, table.index.len());
    let mut first = 0;
    while first < agents {
        let view = table.index[table.agent(first)];
        let mut end = first + 1;
        while end < agents && table.index[table.agent(end)] == view {
            end += 1;
        }
        let mut j = 0;
        while j < d_v {
            let width = HELD.min(d_v - j);
            // SAFETY: `check` holds for every view, agent and term; columns j..j + width exist.
            unsafe {
                let d_stack = d_stacks.as_mut_ptr().add(place(view, views, d_v * ld) + j * ld);
                let mut block = Block::<LV, HALF>::new();
                for k in first..end {
                    let i = table.agent(k);
                    let (mut r, mut x) = (rows.as_ptr().add(i * ld), states.as_ptr().add(i * d_v + j));
                    for _ in 0..terms {
                        // The full width is a compile-time constant.
                        if width == HELD {
                            block.add(HELD, r, x)
                        } else {
                            block.add(width, r, x)
                        }
                        (r, x) = (r.wrapping_add(agents * ld), x.wrapping_add(agents * d_v));
                    }
                }
                block.store(width, scale, d_stack);
            }
            j += width;
        }
        first = end;
    }
}

/// Gradients of a block of columns.
struct Block<const LV: usize, const HALF: bool> {
    whole: [[__m512; LV]; HELD],
    half: [__m256; HELD],
}

impl<const LV: usize, const HALF: bool> Block<LV, HALF> {
    const WHOLE: usize = if HALF { LV - 1 } else { LV };

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
    fn new() -> Self {
        Self { whole: [[_mm512_setzero_ps(); LV]; HELD], half: [_mm256_setzero_ps(); HELD] }
    }

    /// Adds one term.
    ///
    /// # Safety
    /// `r` has 16·LV entries, `x` has `width`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
    unsafe fn add(&mut self, width: usize, r: *const f32, x: *const f32) {
        // SAFETY: the caller guarantees the sizes.
        unsafe {
            let mut held = [_mm512_setzero_ps(); LV];
            for b in 0..Self::WHOLE {
                held[b] = _mm512_loadu_ps(r.add(b * 16));
            }
            let last = if HALF { _mm256_loadu_ps(r.add(Self::WHOLE * 16)) } else { _mm256_setzero_ps() };
            for c in 0..width {
                let x = _mm512_set1_ps(*x.add(c));
                for b in 0..Self::WHOLE {
                    self.whole[c][b] = _mm512_fmadd_ps(x, held[b], self.whole[c][b]);
                }
                if HALF {
                    self.half[c] = _mm256_fmadd_ps(_mm512_castps512_ps256(x), last, self.half[c]);
                }
            }
        }
    }

    /// Adds the block, scaled, to its columns of the gradient.
    ///
    /// # Safety
    /// `to` has `width` columns of 16·LV entries.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq")]
    unsafe fn store(&self, width: usize, scale: f32, to: *mut f32) {
        // SAFETY: the caller guarantees the sizes.
        unsafe {
            for c in 0..width {
                for b in 0..Self::WHOLE {
                    let at = to.add((c * LV + b) * 16);
                    let sum = _mm512_fmadd_ps(_mm512_set1_ps(scale), self.whole[c][b], _mm512_loadu_ps(at));
                    _mm512_storeu_ps(at, sum);
                }
                if HALF {
                    let at = to.add((c * LV + Self::WHOLE) * 16);
                    let sum = _mm256_fmadd_ps(_mm256_set1_ps(scale), self.half[c], _mm256_loadu_ps(at));
                    _mm256_storeu_ps(at, sum);
                }
            }
        }
    }
}
