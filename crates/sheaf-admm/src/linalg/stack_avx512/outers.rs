//! dF_i += scale·Σ_t rows_t,i state_t,iᵀ, a block of columns held in registers over all terms.

use std::arch::x86_64::*;

use super::{columns, place};
use crate::linalg::stack::Table;

/// Columns whose gradients are held in registers at a time.
const HELD: usize = 5;

#[target_feature(enable = "avx512f")]
pub(super) unsafe fn outers_shape<const LV: usize, const DV: usize>(
    table: Table<'_>,
    views: usize,
    d_stacks: &mut [f32],
    scale: f32,
    terms: usize,
    rows: &[f32],
    states: &[f32],
) {
    let (d_v, ld, agents) = (columns::<DV>(&table), LV * 16, table.index.len());
    let factor = _mm512_set1_ps(scale);
    for (i, &view) in table.index.iter().enumerate() {
        let mut j = 0;
        while j < d_v {
            let width = HELD.min(d_v - j);
            // SAFETY: `check` holds for every view, agent and term; columns j..j + width exist.
            unsafe {
                let d_stack = d_stacks.as_mut_ptr().add(place(view, views, d_v * ld) + j * ld);
                let mut acc = [[_mm512_setzero_ps(); LV]; HELD];
                for t in 0..terms {
                    let r = rows.as_ptr().add((t * agents + i) * ld);
                    let x = states.as_ptr().add((t * agents + i) * d_v + j);
                    let mut held = [_mm512_setzero_ps(); LV];
                    for b in 0..LV {
                        held[b] = _mm512_loadu_ps(r.add(b * 16));
                    }
                    if width == HELD {
                        for c in 0..HELD {
                            let x = _mm512_set1_ps(*x.add(c));
                            for b in 0..LV {
                                acc[c][b] = _mm512_fmadd_ps(x, held[b], acc[c][b]);
                            }
                        }
                    } else {
                        for c in 0..width {
                            let x = _mm512_set1_ps(*x.add(c));
                            for b in 0..LV {
                                acc[c][b] = _mm512_fmadd_ps(x, held[b], acc[c][b]);
                            }
                        }
                    }
                }
                for c in 0..width {
                    for b in 0..LV {
                        let at = d_stack.add(c * ld + b * 16);
                        _mm512_storeu_ps(at, _mm512_fmadd_ps(factor, acc[c][b], _mm512_loadu_ps(at)));
                    }
                }
            }
            j += width;
        }
    }
}
