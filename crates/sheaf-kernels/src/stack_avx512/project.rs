//! y_i = F_i z_i: broadcast z_j, add column j. Agents that share a view are processed in pairs.

use std::arch::x86_64::*;
use std::ops::Range;

use super::{by_pairs, columns, place};
use crate::stack::Table;

#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
pub(super) unsafe fn project_shape<const LV: usize, const DV: usize, const HALF: bool>(
    table: Table<'_>,
    agents: Range<usize>,
    base: usize,
    views: usize,
    stacks: &[f32],
    z: &[f32],
    y: &mut [f32],
) {
    let (len, z) = (columns::<DV>(&table) * LV * 16, z.as_ptr());
    let y = y.as_mut_ptr().wrapping_sub(base * LV * 16);
    by_pairs!(
        table,
        agents,
        // SAFETY: `check_band` and `place` hold for every view and agent.
        |some, view| unsafe {
            project_some::<LV, DV, HALF, 1>(&table, some, stacks.as_ptr().add(place(view, views, len)), z, y);
        },
        // SAFETY: as above.
        unsafe {
            project_some::<LV, DV, HALF, 2>(&table, some, stacks.as_ptr().add(place(view, views, len)), z, y);
        }
    );
}

/// F z of agents that share a stack.
///
/// # Safety
/// `stack` has d_v·16·LV entries; `z` and `y` have room for every agent.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
unsafe fn project_some<const LV: usize, const DV: usize, const HALF: bool, const A: usize>(
    table: &Table<'_>,
    agents: [usize; A],
    stack: *const f32,
    z: *const f32,
    y: *mut f32,
) {
    let (d_v, ld) = (columns::<DV>(table), LV * 16);
    let whole = if HALF { LV - 1 } else { LV };
    // SAFETY: the caller guarantees all sizes.
    unsafe {
        // Two chains per block halve the wait for the multiply-add unit; a pair of agents has two already.
        let mut sums = [[[_mm512_setzero_ps(); LV]; A]; 2];
        let mut halves = [[_mm256_setzero_ps(); A]; 2];
        for j in 0..DV {
            if j >= d_v {
                break;
            }
            let chain = if A == 1 { j % 2 } else { 0 };
            let column = stack.add(j * ld);
            for i in 0..A {
                let z = _mm512_set1_ps(*z.add(agents[i] * d_v + j));
                for b in 0..whole {
                    let block = _mm512_loadu_ps(column.add(b * 16));
                    sums[chain][i][b] = _mm512_fmadd_ps(z, block, sums[chain][i][b]);
                }
                if HALF {
                    let block = _mm256_loadu_ps(column.add(whole * 16));
                    halves[chain][i] = _mm256_fmadd_ps(_mm512_castps512_ps256(z), block, halves[chain][i]);
                }
            }
        }
        for i in 0..A {
            let to = y.wrapping_add(agents[i] * ld);
            for b in 0..whole {
                let (even, odd) = (sums[0][i][b], sums[1][i][b]);
                _mm512_storeu_ps(to.add(b * 16), if A == 1 { _mm512_add_ps(even, odd) } else { even });
            }
            if HALF {
                let (even, odd) = (halves[0][i], halves[1][i]);
                _mm256_storeu_ps(to.add(whole * 16), if A == 1 { _mm256_add_ps(even, odd) } else { even });
            }
        }
    }
}
