//! The hot kernels: many small matrix–vector products, one stack per agent, stacks picked from a table by index.
//!
//! A stack is stored by columns, each padded to `ld` rows: `stack[j·ld + r]` is row r, column j. The padding may hold
//! anything: a lift does not read it, and a projection's output for it is never used. Columns are whole cache
//! lines.
//!
//! | kernel | does | bound by |
//! | --- | --- | --- |
//! | [`project_table`](StackKernels::project_table) | y_i = F_i z_i: broadcast z_j, add column j | multiply-adds |
//! | [`lift_table`](StackKernels::lift_table) | g_i = F_iᵀ s_i: one dot product per column | loads of F, then the horizontal sums |
//! | [`lift_band`](StackKernels::lift_band) | exchange, then lift, of one band of agents | the same, and the exchange's loads |
//! | [`outers_table`](StackKernels::outers_table) | dF_i += scale·Σ_t rows_t state_tᵀ | multiply-adds |
//!
//! Projection and lift work on *bands* of [`BAND`] agents and on rows that start at some agent, the `base`: a sweep
//! over a large sheaf then needs rows for a few bands only, which stay in the cache.

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::exchange::{Partners, SlotRows};
use super::reduce::fold;
use super::simd::{fma, kernel};
use super::vector::scale_shift;
use crate::Real;

/// Agents of a band: enough of them share a view to load its stack for two at a time, and their rows are few.
pub const BAND: usize = 128;

/// Sizes of a table of stacks and the index that picks one for each agent.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// Columns of a stack (the vertex stalk).
    pub d_v: usize,
    /// Padded rows of a stack; a multiple of 16.
    pub ld: usize,
    /// Rows in use; the others are padding.
    pub rows: usize,
    /// Which stack each agent uses.
    pub index: &'a [u32], // [agents]
    /// Agents in the order of processing: equal views side by side share a load of their stack. Each agent stays in its
    /// band. Empty for the natural order. The order affects only speed and the rounding of gradients.
    pub order: &'a [u32], // [agents] or []
}

impl Table<'_> {
    /// The k-th agent to process, which lies in the band of agent k.
    #[inline(always)]
    pub(super) fn agent(&self, k: usize) -> usize {
        if self.order.is_empty() {
            return k;
        }
        let agent = self.order[k] as usize;
        assert!(agent < self.index.len() && agent / BAND == k / BAND, "an agent outside its band");
        agent
    }

    /// Whether a range of agents consists of whole bands.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn whole_bands(&self, agents: &Range<usize>) -> bool {
        agents.start.is_multiple_of(BAND)
            && (agents.end.is_multiple_of(BAND) || agents.end == self.index.len())
    }

    /// The table of the agents of a band, in their natural order.
    fn band(&self, agents: &Range<usize>) -> Self {
        Self { index: &self.index[agents.clone()], order: &[], ..*self }
    }
}

/// Fills `order` so that, within every band, agents with equal views are adjacent; `counts` is scratch of at
/// least `views + 1`.
pub fn order_by_view(index: &[u32], views: usize, counts: &mut [u32], order: &mut [u32]) {
    let counts = &mut counts[..=views];
    for (band, (index, order)) in index.chunks(BAND).zip(order.chunks_mut(BAND)).enumerate() {
        counts.fill(0);
        for &view in index {
            counts[view as usize + 1] += 1;
        }
        for v in 0..views {
            counts[v + 1] += counts[v];
        }
        for (agent, &view) in index.iter().enumerate() {
            order[counts[view as usize] as usize] = (band * BAND + agent) as u32;
            counts[view as usize] += 1;
        }
    }
}

/// Exchange and lift of the agents of a band: s = y − y of the partner slots, q_i = gamma·F_iᵀ s_i + shift·p_i.
#[derive(Debug)]
pub struct LiftBand<'a, T> {
    /// Sizes, views and order of all agents.
    pub table: Table<'a>,
    /// Sizes of the slots.
    pub slots: SlotRows,
    /// The partner of every slot.
    pub partners: &'a Partners,
    /// The stacks `[views, d_v, ld]`.
    pub stacks: &'a [T],
    /// The same by tiles ([`tile_stacks`](super::tiles::tile_stacks)), or empty.
    pub tiles: &'a [T],
    /// The agents to lift.
    pub agents: Range<usize>,
    /// The agent whose rows `y` starts with; all partners' rows must be there.
    pub base: usize,
    /// Factor of the Laplacian.
    pub gamma: T,
    /// Factor of the identity.
    pub shift: T,
    /// The state that was projected.
    pub p: &'a [T], // [agents, d_v]
    /// Its projections.
    pub y: &'a [T], // [agents from base on, ld]
    /// Output of the differences, if they are kept; else scratch for a band.
    pub s: &'a mut [T], // [agents, ld]
    /// Whether the differences are kept.
    pub keep: bool,
    /// The result.
    pub q: &'a mut [T], // [agents, d_v]
    /// States of a later band that are read or written after this one, to be prefetched; empty where there are none.
    pub soon: [&'a [T]; 2], // [agents of a band, d_v] each
}

/// The kernels of a scalar type; `f32` has hand-written AVX-512 versions.
pub trait StackKernels: Sized {
    /// y_i = F_i z_i for the agents of a range; `y` starts with the rows of agent `base`.
    fn project_table(
        table: Table<'_>,
        agents: Range<usize>,
        base: usize,
        stacks: &[Self],
        z: &[Self],
        y: &mut [Self],
    );
    /// g_i = F_iᵀ s_i for every agent.
    fn lift_table(table: Table<'_>, stacks: &[Self], s: &[Self], g: &mut [Self]);
    /// Exchange and lift of a band.
    fn lift_band(band: LiftBand<'_, Self>);
    /// dF_i += scale·Σ_t rows_t,i · state_t,iᵀ; `rows` is [terms, agents·ld], `states` is [terms, agents·d_v].
    fn outers_table(
        table: Table<'_>,
        d_stacks: &mut [Self],
        scale: Self,
        terms: usize,
        rows: &[Self],
        states: &[Self],
    );
}

/// The plain version: exchange into `s`, lift from there, scale.
fn lift_band_plain<T: Real>(band: LiftBand<'_, T>) {
    let LiftBand { table, slots, agents, gamma, shift, .. } = band;
    let first = if band.keep { agents.start } else { 0 };
    let s = &mut band.s[first * table.ld..][..agents.len() * table.ld];
    T::exchange_partners(slots, band.partners, agents.clone(), band.base, band.y, s);
    let states = agents.start * table.d_v..agents.end * table.d_v;
    let q = &mut band.q[states.clone()];
    T::lift_table(table.band(&agents), band.stacks, s, q);
    if (gamma, shift) != (T::ONE, T::ZERO) {
        scale_shift(q, gamma, shift, &band.p[states]);
    }
}

/// Rows a pass holds in accumulators.
const BLOCK: usize = 16;

#[inline(always)]
fn project_body<T: Real, const FMA: bool>(table: Table<'_>, stacks: &[T], z: &[T], y: &mut [T]) {
    let Table { d_v, ld, index, .. } = table;
    for ((&view, z), y) in index.iter().zip(z.chunks_exact(d_v)).zip(y.chunks_exact_mut(ld)) {
        let stack = &stacks[view as usize * d_v * ld..][..d_v * ld];
        for (block, y) in y.chunks_exact_mut(BLOCK).enumerate() {
            let mut acc = [T::ZERO; BLOCK];
            for (&z, column) in z.iter().zip(stack.chunks_exact(ld)) {
                let column: &[T; BLOCK] = column[block * BLOCK..][..BLOCK].try_into().expect("BLOCK rows");
                for r in 0..BLOCK {
                    acc[r] = fma::<T, FMA>(z, column[r], acc[r]);
                }
            }
            y.copy_from_slice(&acc);
        }
    }
}

#[inline(always)]
fn lift_body<T: Real, const FMA: bool>(table: Table<'_>, stacks: &[T], s: &[T], g: &mut [T]) {
    let Table { d_v, ld, rows, index, .. } = table;
    for ((&view, s), g) in index.iter().zip(s.chunks_exact(ld)).zip(g.chunks_exact_mut(d_v)) {
        let stack = &stacks[view as usize * d_v * ld..][..d_v * ld];
        for (g, column) in g.iter_mut().zip(stack.chunks_exact(ld)) {
            let mut acc = [T::ZERO; BLOCK];
            let (columns, blocks) = (column[..rows].chunks_exact(BLOCK), s[..rows].chunks_exact(BLOCK));
            let rest = columns.remainder().iter().zip(blocks.remainder());
            for (c, s) in columns.zip(blocks) {
                for r in 0..BLOCK {
                    acc[r] = fma::<T, FMA>(c[r], s[r], acc[r]);
                }
            }
            for (acc, (&c, &s)) in acc.iter_mut().zip(rest) {
                *acc = fma::<T, FMA>(c, s, *acc);
            }
            *g = fold(acc);
        }
    }
}

#[inline(always)]
fn outers_body<T: Real, const FMA: bool>(
    table: Table<'_>,
    d_stacks: &mut [T],
    scale: T,
    terms: usize,
    rows: &[T],
    states: &[T],
) {
    let Table { d_v, ld, index, .. } = table;
    let (row_len, state_len) = (index.len() * ld, index.len() * d_v);
    for (i, &view) in index.iter().enumerate() {
        let d_stack = &mut d_stacks[view as usize * d_v * ld..][..d_v * ld];
        for t in 0..terms {
            let rows = &rows[t * row_len + i * ld..][..ld];
            let state = &states[t * state_len + i * d_v..][..d_v];
            for (column, &x) in d_stack.chunks_exact_mut(ld).zip(state) {
                let x = scale * x;
                for (c, &r) in column.iter_mut().zip(rows) {
                    *c = fma::<T, FMA>(x, r, *c);
                }
            }
        }
    }
}

kernel! {
    fn project_any, project_any_at<T>(table: Table<'_>, stacks: &[T], z: &[T], y: &mut [T]) = project_body;
}
kernel! {
    fn lift_any, lift_any_at<T>(table: Table<'_>, stacks: &[T], s: &[T], g: &mut [T]) = lift_body;
}
kernel! {
    fn outers_any, outers_any_at<T>(
        table: Table<'_>, d_stacks: &mut [T], scale: T, terms: usize, rows: &[T], states: &[T],
    ) = outers_body;
}

/// The parts of `z` and `y` that belong to a range of agents.
fn cut<'v, T>(
    table: &Table<'_>,
    agents: &Range<usize>,
    base: usize,
    z: &'v [T],
    y: &'v mut [T],
) -> (&'v [T], &'v mut [T]) {
    let (z, y) = (&z[agents.start * table.d_v..], &mut y[(agents.start - base) * table.ld..]);
    (&z[..agents.len() * table.d_v], &mut y[..agents.len() * table.ld])
}

impl StackKernels for f64 {
    fn project_table(
        table: Table<'_>,
        agents: Range<usize>,
        base: usize,
        stacks: &[f64],
        z: &[f64],
        y: &mut [f64],
    ) {
        let (z, y) = cut(&table, &agents, base, z, y);
        project_any(table.band(&agents), stacks, z, y);
    }
    fn lift_table(table: Table<'_>, stacks: &[f64], s: &[f64], g: &mut [f64]) {
        lift_any(table, stacks, s, g);
    }
    fn lift_band(band: LiftBand<'_, f64>) {
        lift_band_plain(band);
    }
    fn outers_table(table: Table<'_>, d: &mut [f64], scale: f64, terms: usize, rows: &[f64], states: &[f64]) {
        outers_any(table, d, scale, terms, rows, states);
    }
}

/// Runs the AVX-512 kernel where the CPU has it and the shape fits.
macro_rules! wide {
    ($fits:expr, $kernel:ident($($arg:expr),*)) => {
        #[cfg(target_arch = "x86_64")]
        if super::simd::level() >= super::simd::Level::Avx512 && $fits {
            // SAFETY: AVX-512 was detected; the kernel checks all lengths itself.
            unsafe { super::stack_avx512::$kernel($($arg),*) };
            return;
        }
    };
}

#[allow(unsafe_code)]
impl StackKernels for f32 {
    fn project_table(
        table: Table<'_>,
        agents: Range<usize>,
        base: usize,
        stacks: &[f32],
        z: &[f32],
        y: &mut [f32],
    ) {
        wide!(super::stack_avx512::fits(&table), project(table, agents, base, stacks, z, y));
        let (z, y) = cut(&table, &agents, base, z, y);
        project_any(table.band(&agents), stacks, z, y);
    }
    fn lift_table(table: Table<'_>, stacks: &[f32], s: &[f32], g: &mut [f32]) {
        wide!(super::stack_avx512::fits(&table), lift(table, stacks, s, g));
        lift_any(table, stacks, s, g);
    }
    fn lift_band(band: LiftBand<'_, f32>) {
        wide!(super::stack_avx512::fits_tiles(&band), lift_tiles(band));
        lift_band_plain(band);
    }
    fn outers_table(table: Table<'_>, d: &mut [f32], scale: f32, terms: usize, rows: &[f32], states: &[f32]) {
        wide!(super::stack_avx512::fits(&table), outers(table, d, scale, terms, rows, states));
        outers_any(table, d, scale, terms, rows, states);
    }
}
