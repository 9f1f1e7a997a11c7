//! Sums over pairs of states: out += Σ p_j q̄_iᵀ + q̄_j p_iᵀ.
//!
//! The two products of a pair are one product of words: the numbers of p and q̄ at one place of the state of j make a word,
//! those of q̄ and p at one place of the state of i another. The pairs of all ends follow one another as one long inner
//! dimension. Some of them are rounded at a time, each once, into rows that lie side by side.

use super::super::PairTape;
use super::{DV, Plain};
use crate::bf16::{add_products, round_pair};

/// Pairs that are rounded together.
const MOST: usize = 64;

/// The words of a state.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Words(pub [u32; DV]);

/// The two operations of which the sums consist.
#[allow(unsafe_code)]
pub(super) trait Outers {
    /// The words of two states, of which `first` gives the lower halves.
    ///
    /// # Safety
    /// The CPU must have the instructions of the implementation.
    unsafe fn join(first: &[f32; DV], second: &[f32; DV], words: &mut Words);
    /// out\[r\]\[l\] += Σ_t left\[t\]\[r\]·right\[t\]\[l\]; the second products of words come before the first.
    ///
    /// # Safety
    /// As for [`join`](Self::join).
    unsafe fn add(left: &[Words], right: &[Words], out: &mut [f32]);
}

#[allow(unsafe_code)]
impl Outers for Plain {
    #[inline(always)]
    unsafe fn join(first: &[f32; DV], second: &[f32; DV], words: &mut Words) {
        for l in 0..DV {
            words.0[l] = round_pair(first[l], second[l]);
        }
    }

    #[inline(always)]
    unsafe fn add(left: &[Words], right: &[Words], out: &mut [f32]) {
        for (left, right) in left.iter().zip(right) {
            for (row, &x) in out.chunks_exact_mut(DV).zip(&left.0) {
                for l in 0..DV {
                    row[l] = add_products(row[l], x, right.0[l]);
                }
            }
        }
    }
}

/// out += Σ p_j q̄_iᵀ + q̄_j p_iᵀ over the pairs of all ends (j, i).
///
/// # Safety
/// As for [`Outers`].
#[allow(unsafe_code)]
#[inline(always)]
pub(super) unsafe fn sums<D: Outers>(tape: PairTape<'_, f32>, ends: &[(u32, u32)], out: &mut [f32]) {
    let out = &mut out[..DV * DV];
    let (mut left, mut right, mut count) = ([Words([0; DV]); MOST], [Words([0; DV]); MOST], 0);
    for &(j, i) in ends {
        for block in 0..tape.blocks() {
            let (numbers, span) = tape.at(block);
            for t in span {
                let state = |from: usize, agent: u32| -> &[f32; DV] {
                    let at = from + t * tape.states + agent as usize * DV;
                    numbers[at..][..DV].try_into().expect("a state")
                };
                // SAFETY: the caller guarantees the instructions.
                unsafe {
                    D::join(state(tape.p, j), state(tape.q, j), &mut left[count]);
                    D::join(state(tape.q, i), state(tape.p, i), &mut right[count]);
                    count += 1;
                    if count == MOST {
                        D::add(&left, &right, out);
                        count = 0;
                    }
                }
            }
        }
    }
    // SAFETY: as above.
    unsafe { D::add(&left[..count], &right[..count], out) }
}
