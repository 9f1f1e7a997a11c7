//! The gradient of low-rank maps from pairs of states alone, without any exchanged residuals.
//!
//! A pair (p, q̄) of a product q = L p gives dF_is += e_is(p) q̄_iᵀ + e_is(q̄) p_iᵀ, where e_is(p) = F_is p_i − F_jo p_j
//! is the residual of agent i at slot s, whose partner is slot o of agent j. The maps are the same for all pairs of a
//! solve, so the sums over the pairs can be taken first:
//!
//! ```text
//! S_i = Σ p_i q̄_iᵀ + q̄_i p_iᵀ      C_ji = Σ p_j q̄_iᵀ + q̄_j p_iᵀ      dF_is += F_is S_i − F_jo C_ji
//! ```
//!
//! This needs no stored residuals, only p and q̄, a quarter of the memory: the tape of a solve stays in cache.
//!
//! With maps in bf16 the states are rounded before they are multiplied, like every state that meets these maps; the products
//! with F, of which there is one for each sum, stay in `f32`.
//!
//! | name | shape |
//! | --- | --- |
//! | S_i, C_ji | `[DV, DV]`, rows of the left factor |
//! | a slot of F, transposed | `[DV, DE]` |
//! | dF | `[views, DV, ld]` |

use std::ops::Range;

use super::Grouped;
use crate::Real;
use crate::simd::fma;

/// Pairs (p, q̄) of states, in blocks of equal length: `[p_0, p_1, …]` and `[q̄_0, q̄_1, …]` of one solve in each.
#[derive(Clone, Copy, Debug)]
pub struct PairTape<'a, T> {
    /// All blocks.
    pub numbers: &'a [T], // [blocks, block]
    /// Length of a block.
    pub block: usize,
    /// Length of a state of all agents.
    pub states: usize,
    /// Capacity of a block, in pairs.
    pub most: usize,
    /// Offset of p_0 in a block.
    pub p: usize,
    /// Offset of q̄_0 in a block.
    pub q: usize,
    /// Offset of the two numbers that give the valid pairs: the first, and one past the last.
    pub span: usize,
}

impl<'a, T: Real> PairTape<'a, T> {
    /// A block and its valid pairs.
    #[inline(always)]
    pub(super) fn at(&self, block: usize) -> (&'a [T], Range<usize>) {
        let numbers = &self.numbers[block * self.block..][..self.block];
        let [first, end] = [0, 1].map(|k| (numbers[self.span + k].to_f64() as usize).min(self.most));
        (numbers, first..end)
    }

    /// Number of blocks.
    #[inline(always)]
    pub(super) fn blocks(&self) -> usize {
        self.numbers.len() / self.block.max(1)
    }
}

/// y += a·x.
#[inline(always)]
fn add_row<T: Real, const FMA: bool, const N: usize>(y: &mut [T; N], a: T, x: &[T; N]) {
    for l in 0..N {
        y[l] = fma::<T, FMA>(a, x[l], y[l]);
    }
}

/// Rows of a sum that are held in registers.
const HELD: usize = 8;

/// out += Σ p_j q̄_iᵀ over all pairs, and q̄_j p_iᵀ where `BOTH`.
#[inline(always)]
fn sums<T: Real, const FMA: bool, const DV: usize, const BOTH: bool>(
    tape: PairTape<'_, T>,
    (j, i): (u32, u32),
    out: &mut [[T; DV]; DV],
) {
    for first in (0..DV).step_by(HELD) {
        let mut acc: [[T; DV]; HELD] = out[first..][..HELD].try_into().expect("rows");
        let (at_i, at_j) = (i as usize * DV, j as usize * DV + first);
        for block in 0..tape.blocks() {
            let (numbers, span) = tape.at(block);
            for t in span {
                let p = &numbers[tape.p + t * tape.states..][..tape.states];
                let q = &numbers[tape.q + t * tape.states..][..tape.states];
                let p_i: [T; DV] = p[at_i..][..DV].try_into().expect("a state");
                let q_i: [T; DV] = q[at_i..][..DV].try_into().expect("a state");
                let p_j: &[T; HELD] = p[at_j..][..HELD].try_into().expect("rows");
                let q_j: &[T; HELD] = q[at_j..][..HELD].try_into().expect("rows");
                // Rows are written out: the compiler would vectorise a loop over rows with gathers.
                let [a, b, c, d, e, f, g, h] = &mut acc;
                for (row, r) in [(a, 0), (b, 1), (c, 2), (d, 3), (e, 4), (f, 5), (g, 6), (h, 7)] {
                    add_row::<T, FMA, DV>(row, p_j[r], &q_i);
                    if BOTH {
                        add_row::<T, FMA, DV>(row, q_j[r], &p_i);
                    }
                }
            }
        }
        out[first..][..HELD].copy_from_slice(&acc);
    }
}

/// S of some agents: the sum of both products of every pair.
#[inline(always)]
fn self_sum<T: Real, const FMA: bool, const DV: usize>(
    tape: PairTape<'_, T>,
    words: bool,
    run: &[u32], // at most TOGETHER agents
) -> [[T; DV]; DV] {
    let mut sum = [[T::ZERO; DV]; DV];
    if words {
        let mut ends = [(0, 0); TOGETHER];
        ends.iter_mut().zip(run).for_each(|(end, &i)| *end = (i, i));
        T::pair_sums_bf16(tape, &ends[..run.len()], sum.as_flattened_mut());
        return sum;
    }
    for &i in run {
        sums::<T, FMA, DV, false>(tape, (i, i), &mut sum);
    }
    for r in 0..DV {
        for l in 0..=r {
            let both = sum[r][l] + sum[l][r];
            (sum[r][l], sum[l][r]) = (both, both);
        }
    }
    sum
}

/// A slot of F, transposed: Rᵀ + B Aᵀ.
#[inline(always)]
fn slot_of<T: Real, const FMA: bool, const DV: usize, const DE: usize, const M: usize, const RANK: usize>(
    base: &[T],
    view: &[T],
    slot: usize,
) -> [[T; DE]; DV] {
    let (base_t, b, a) = (&base[DE * DV..][..DE * DV], &view[..DV * M], &view[DV * M..][..M * DE]);
    let mut f = [[T::ZERO; DE]; DV];
    for (k, f) in f.iter_mut().enumerate() {
        let mut row: [T; DE] = base_t[k * DE..][..DE].try_into().expect("a row of the base");
        for t in slot * RANK..(slot + 1) * RANK {
            let (b, a): (T, [T; DE]) = (b[k * M + t], a[t * DE..][..DE].try_into().expect("a row of A"));
            for r in 0..DE {
                row[r] = fma::<T, FMA>(b, a[r], row[r]);
            }
        }
        *f = row;
    }
    f
}

/// Columns of dF that are held in registers.
const COLUMNS: usize = 8;

/// dF of a slot += scale·F C, or F Cᵀ where `TURNED`.
#[inline(always)]
fn add_product<T: Real, const FMA: bool, const DV: usize, const DE: usize, const TURNED: bool>(
    f: &[[T; DE]; DV],
    c: &[[T; DV]; DV],
    scale: T,
    slot: usize,
    ld: usize,
    d_stack: &mut [T], // [DV, ld]
) {
    for first in (0..DV).step_by(COLUMNS) {
        let mut acc = [[T::ZERO; DE]; COLUMNS];
        for k in 0..DV {
            let coef = |column: usize| if TURNED { c[first + column][k] } else { c[k][first + column] };
            let [s, t, u, v, w, x, y, z] = &mut acc;
            for (row, column) in [(s, 0), (t, 1), (u, 2), (v, 3), (w, 4), (x, 5), (y, 6), (z, 7)] {
                add_row::<T, FMA, DE>(row, coef(column), &f[k]);
            }
        }
        for column in 0..COLUMNS {
            let d = &mut d_stack[(first + column) * ld + slot * DE..][..DE];
            for r in 0..DE {
                d[r] = fma::<T, FMA>(scale, acc[column][r], d[r]);
            }
        }
    }
}

/// Edges between agents of one view that are summed before their maps are applied.
const TOGETHER: usize = 64;

/// The maps and where their gradient goes.
struct Target<'a, T> {
    agents: Grouped<'a>,
    local: &'a [u32], // [agents]
    ld: usize,
    base: &'a [T],
    views: &'a [T],
    /// Whether the numbers of base and views are words of two bf16.
    words: bool,
    tape: PairTape<'a, T>,
    scale: T,
    d_stacks: &'a mut [T],
}

impl<T: Real> Target<'_, T> {
    #[inline(always)]
    fn slot<const FMA: bool, const DV: usize, const DE: usize, const M: usize, const RANK: usize>(
        &self,
        agent: usize,
        slot: usize,
    ) -> [[T; DE]; DV] {
        let len = 2 * M * (DV + DE) / if self.words { 2 } else { 1 };
        let view = &self.views[self.agents.index[agent] as usize * len..][..len];
        if self.words {
            let mut f = [[T::ZERO; DE]; DV];
            T::slot_bf16(self.base, view, slot, f.as_flattened_mut());
            return f;
        }
        slot_of::<T, FMA, DV, DE, M, RANK>(self.base, view, slot)
    }

    #[inline(always)]
    fn stack<const DV: usize>(&mut self, agent: usize) -> &mut [T] {
        &mut self.d_stacks[self.local[agent] as usize * DV * self.ld..][..DV * self.ld]
    }

    /// Edges between slots `slot` and `other` of agents that have the views of `ends[0]`.
    #[inline(always)]
    fn edges<const FMA: bool, const DV: usize, const DE: usize, const M: usize, const RANK: usize>(
        &mut self,
        ends: &[(u32, u32)],
        own: &[[T; DE]; DV],
        (slot, other): (usize, usize),
    ) {
        let Some(&(j, i)) = ends.first() else { return };
        let (i, j, ld, scale) = (i as usize, j as usize, self.ld, self.scale);
        let mut sum = [[T::ZERO; DV]; DV];
        if self.words {
            T::pair_sums_bf16(self.tape, ends, sum.as_flattened_mut());
        } else {
            for &end in ends {
                sums::<T, FMA, DV, true>(self.tape, end, &mut sum);
            }
        }
        let theirs = self.slot::<FMA, DV, DE, M, RANK>(j, other);
        add_product::<T, FMA, DV, DE, false>(&theirs, &sum, -scale, slot, ld, self.stack::<DV>(i));
        add_product::<T, FMA, DV, DE, true>(own, &sum, -scale, other, ld, self.stack::<DV>(j));
    }
}

/// dF_i += scale·Σ over all pairs, into stacks that `local` assigns to the agents.
#[inline(always)]
pub(super) fn pairs<
    T: Real,
    const FMA: bool,
    const DV: usize,
    const DE: usize,
    const M: usize,
    const RANK: usize,
>(
    agents: Grouped<'_>,
    local: &[u32],    // [agents]
    partners: &[u32], // [agents, slots]
    ld: usize,
    (base, views, words): (&[T], &[T], bool),
    tape: PairTape<'_, T>,
    scale: T,
    d_stacks: &mut [T],
) {
    let (slots, mut rest) = (M / RANK, agents.order);
    let mut target = Target { agents, local, ld, base, views, words, tape, scale, d_stacks };
    let mut ends = [(0, 0); TOGETHER];
    while let Some((_, mask, run)) = agents.take_run(TOGETHER, &mut rest) {
        let speaker = run[0] as usize;
        let sum = self_sum::<T, FMA, DV>(tape, words, run);
        for slot in (0..slots).filter(|slot| mask >> slot & 1 == 1) {
            let own = target.slot::<FMA, DV, DE, M, RANK>(speaker, slot);
            add_product::<T, FMA, DV, DE, false>(&own, &sum, scale, slot, ld, target.stack::<DV>(speaker));
            let (mut count, mut shared) = (0, 0);
            for &i in run {
                let partner = partners[i as usize * slots + slot] as usize;
                let (j, other) = (partner / ld, partner % ld / DE);
                // Every edge once, from its first end.
                if (j, other) <= (i as usize, slot) {
                    continue;
                }
                if agents.index[j] != agents.index[speaker] {
                    target.edges::<FMA, DV, DE, M, RANK>(&[(j as u32, i)], &own, (slot, other));
                    continue;
                }
                if count > 0 && other != shared {
                    target.edges::<FMA, DV, DE, M, RANK>(&ends[..count], &own, (slot, shared));
                    count = 0;
                }
                (ends[count], shared, count) = ((j as u32, i), other, count + 1);
            }
            target.edges::<FMA, DV, DE, M, RANK>(&ends[..count], &own, (slot, shared));
        }
    }
}
