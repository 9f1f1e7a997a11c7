//! The gradient kernel of low-rank maps: dF_i += scale·Σ_t rows_t,i · state_t,iᵀ, into dense stacks, one per view.
//!
//! A block of dF stays in registers over all terms of all agents that share the view.

use super::low_rank::{Grouped, cover};
use super::simd::{fma, kernel};
use crate::Real;

/// Terms of dF are added to so many columns at a time.
const HELD: usize = 4;

/// A block of HELD columns × N rows of dF: read once, all terms of all agents added, written once.
#[inline(always)]
fn outer_block<T: Real, const FMA: bool, const C: usize, const N: usize>(
    at: usize,
    agents: &[u32],
    sizes: (usize, usize, usize), // d_v, ld, agents in all
    column: usize,
    d_stack: &mut [T],
    scale: T,
    terms: usize,
    rows: &[T],
    states: &[T],
) {
    let (d_v, ld, count) = sizes;
    let mut acc = [[T::ZERO; N]; C];
    for t in 0..terms {
        for &agent in agents {
            let place = t * count + agent as usize;
            let rows: &[T; N] = rows[place * ld + at..][..N].try_into().expect("N rows");
            let state: &[T; C] = states[place * d_v + column..][..C].try_into().expect("C columns");
            for c in 0..C {
                for l in 0..N {
                    acc[c][l] = fma::<T, FMA>(state[c], rows[l], acc[c][l]);
                }
            }
        }
    }
    for c in 0..C {
        let d = &mut d_stack[(column + c) * ld + at..][..N];
        for l in 0..N {
            d[l] = fma::<T, FMA>(scale, acc[c][l], d[l]);
        }
    }
}

#[inline(always)]
fn outers_body<T: Real, const FMA: bool>(
    d_v: usize,
    ld: usize,
    agents: Grouped<'_>,
    d_stacks: &mut [T],
    scale: T,
    terms: usize,
    rows: &[T],
    states: &[T],
) {
    let count = agents.index.len();
    let sizes = (d_v, ld, count);
    agents.each_run(count, |view, run| {
        let d_stack = &mut d_stacks[view * d_v * ld..][..d_v * ld];
        let mut column = 0;
        while column < d_v {
            if column + HELD <= d_v {
                cover!(
                    ld,
                    outer_block::<T, FMA, HELD>(run, sizes, column, d_stack, scale, terms, rows, states)
                );
                column += HELD;
            } else {
                cover!(ld, outer_block::<T, FMA, 1>(run, sizes, column, d_stack, scale, terms, rows, states));
                column += 1;
            }
        }
    });
}

kernel! {
    /// dF_i += scale·Σ_t rows_t,i · state_t,iᵀ, into stacks `[views, d_v, ld]`.
    pub(crate) fn outers, outers_at<T>(
        d_v: usize, ld: usize, agents: Grouped<'_>, d_stacks: &mut [T], scale: T, terms: usize, rows: &[T],
        states: &[T],
    ) = outers_body;
}
