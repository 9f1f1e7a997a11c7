//! y_i = F_i z_i: broadcast z_j, add column j. Agents that share a view go in pairs.

use std::arch::x86_64::*;

use super::{columns, place};
use crate::linalg::stack::Table;

/// Calls `f::<1>` or `f::<2>` with agents that share a view: `$two` for a pair that stand side by side in the table's
/// order, `$one` for the others. A pair loads its stack once.
macro_rules! by_pairs {
    ($table:expr, |$agents:ident, $view:ident| $one:expr, $two:expr) => {{
        let mut k = 0;
        while k < $table.index.len() {
            let a = $table.agent(k);
            let $view = $table.index[a];
            if k + 1 < $table.index.len() && $table.index[$table.agent(k + 1)] == $view {
                let $agents = [a, $table.agent(k + 1)];
                $two;
                k += 2;
            } else {
                let $agents = [a];
                $one;
                k += 1;
            }
        }
    }};
}

#[target_feature(enable = "avx512f")]
pub(super) unsafe fn project_shape<const LV: usize, const DV: usize>(
    table: Table<'_>,
    views: usize,
    stacks: &[f32],
    z: &[f32],
    y: &mut [f32],
) {
    let len = columns::<DV>(&table) * LV * 16;
    let (z, y) = (z.as_ptr(), y.as_mut_ptr());
    by_pairs!(
        table,
        // SAFETY: `check` and `place` hold for every view and agent.
        |agents, view| unsafe {
            project_some::<LV, DV, 1>(&table, agents, stacks.as_ptr().add(place(view, views, len)), z, y);
        },
        // SAFETY: as above.
        unsafe {
            project_some::<LV, DV, 2>(&table, agents, stacks.as_ptr().add(place(view, views, len)), z, y);
        }
    );
}

/// F z of agents that share a stack.
///
/// # Safety
/// `stack` has d_v·16·LV entries; `z` and `y` have room for every agent.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn project_some<const LV: usize, const DV: usize, const A: usize>(
    table: &Table<'_>,
    agents: [usize; A],
    stack: *const f32,
    z: *const f32,
    y: *mut f32,
) {
    let (d_v, ld) = (columns::<DV>(table), LV * 16);
    // SAFETY: the caller vouches for all sizes.
    unsafe {
        // Two chains per block halve the wait for the multiply-add unit; a pair of agents has two already.
        let mut even = [[_mm512_setzero_ps(); LV]; A];
        let mut odd = [[_mm512_setzero_ps(); LV]; A];
        for j in 0..DV {
            if j >= d_v {
                break;
            }
            for b in 0..LV {
                let column = _mm512_loadu_ps(stack.add(j * ld + b * 16));
                for i in 0..A {
                    let z = _mm512_set1_ps(*z.add(agents[i] * d_v + j));
                    if A == 1 && j % 2 == 1 {
                        odd[i][b] = _mm512_fmadd_ps(z, column, odd[i][b]);
                    } else {
                        even[i][b] = _mm512_fmadd_ps(z, column, even[i][b]);
                    }
                }
            }
        }
        for i in 0..A {
            for b in 0..LV {
                let sum = if A == 1 { _mm512_add_ps(even[i][b], odd[i][b]) } else { even[i][b] };
                _mm512_storeu_ps(y.add(agents[i] * ld + b * 16), sum);
            }
        }
    }
}
