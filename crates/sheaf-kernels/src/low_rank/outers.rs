//! The gradient of low-rank maps whose sizes are compile-time constants, as dense stacks:
//! dF += scale·Σ_t rows_t·state_tᵀ.
//!
//! | name | shape |
//! | --- | --- |
//! | dF | `[views, DV, ld]` |
//! | rows | `[terms, agents, ld]` |
//! | states | `[terms, agents, DV]` |

use super::Grouped;
use crate::Real;
use crate::simd::fma;

/// Columns of dF that are held in registers.
const HELD: usize = 4;

/// A block of [`HELD`] columns × N rows of dF: all terms of all agents are added in registers, then it is written once.
#[inline(always)]
fn outer_block<T: Real, const FMA: bool, const DV: usize, const N: usize>(
    agents: &[u32],
    (count, ld): (usize, usize),
    (column, row): (usize, usize),
    d_stack: &mut [T],
    scale: T,
    terms: usize,
    rows: &[T],
    states: &[T],
) {
    let mut acc = [[T::ZERO; N]; HELD];
    for t in 0..terms {
        for &agent in agents {
            let place = t * count + agent as usize;
            let rows: [T; N] = rows[place * ld + row..][..N].try_into().expect("N rows");
            let state: &[T; HELD] = states[place * DV + column..][..HELD].try_into().expect("columns");
            for c in 0..HELD {
                for l in 0..N {
                    acc[c][l] = fma::<T, FMA>(state[c], rows[l], acc[c][l]);
                }
            }
        }
    }
    for c in 0..HELD {
        let d = &mut d_stack[(column + c) * ld + row..][..N];
        for l in 0..N {
            d[l] = fma::<T, FMA>(scale, acc[c][l], d[l]);
        }
    }
}

/// dF_i += scale·Σ_t rows_t,i · state_t,iᵀ, into stacks `[views, DV, ld]`; DV is a multiple of [`HELD`], DE of 8.
#[inline(always)]
pub(super) fn outers<T: Real, const FMA: bool, const DV: usize, const DE: usize>(
    agents: Grouped<'_>,
    ld: usize,
    d_stacks: &mut [T],
    scale: T,
    terms: usize,
    rows: &[T],
    states: &[T],
) {
    let (count, mut rest) = (agents.index.len(), agents.order);
    while let Some((view, mut mask, run)) = agents.take_run(count, &mut rest) {
        let d = &mut d_stacks[view * DV * ld..][..DV * ld];
        while mask != 0 {
            // The lowest run of consecutive slots, as one block of rows.
            let first = mask.trailing_zeros();
            let slots = (mask >> first).trailing_ones();
            mask &= !((((1u64 << slots) - 1) << first) as u32);
            let (mut row, end) = (first as usize * DE, (first + slots) as usize * DE);
            while row < end {
                let wide = match end - row {
                    96.. => 96,
                    48.. => 48,
                    24.. => 24,
                    _ => 8,
                };
                for column in (0..DV).step_by(HELD) {
                    let (sizes, at) = ((count, ld), (column, row));
                    match wide {
                        96 => outer_block::<T, FMA, DV, 96>(run, sizes, at, d, scale, terms, rows, states),
                        48 => outer_block::<T, FMA, DV, 48>(run, sizes, at, d, scale, terms, rows, states),
                        24 => outer_block::<T, FMA, DV, 24>(run, sizes, at, d, scale, terms, rows, states),
                        _ => outer_block::<T, FMA, DV, 8>(run, sizes, at, d, scale, terms, rows, states),
                    }
                }
                row += wide;
            }
        }
    }
}
