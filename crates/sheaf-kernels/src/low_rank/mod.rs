//! The kernels of low-rank maps on one base: F\[s\] = R + A\[s\]·B\[s\]ᵀ for every slot s of an agent.
//!
//! With m = slots·rank, one agent's products are chains of small ones, each of the form "broadcast a coefficient, add
//! a row", which is what vector units do best; every matrix is therefore kept in the order its product reads it:
//!
//! | product | steps | reads |
//! | --- | --- | --- |
//! | y = F z | t = R z, c = Bᵀ z, y\[s\] = t + A\[s\] c\[s\] | Rᵀ `[d_v, d_e]`, B `[d_v, m]`, A `[slots, rank, d_e]` |
//! | g = Fᵀ s | u = Σ s\[s\], e\[s\] = A\[s\]ᵀ s\[s\], g = Rᵀ u + B e | R `[d_e, d_v]`, Aᵀ `[slots, d_e, rank]`, Bᵀ `[m, d_v]` |
//! | dF += rows·stateᵀ | | |
//!
//! R is applied once per agent, not once per slot, and slots without an edge are left out: their rows are 0. The
//! published sizes have kernels of their own (`project`, `lift`, `outers`); all others run the plain loops
//! below, which are also the reference for those kernels.

mod bf16;
mod in_bf16;
mod lift;
mod outers;
mod pairs;
mod project;

pub use in_bf16::LowRankBf16;
pub use pairs::PairTape;

#[cfg(test)]
mod tests;

use super::exchange::{SlotRows, partners_body};
use super::simd::{Level, fma, kernel, level};
use crate::{Precision, Real};

/// Whether products in bf16 are faster than in `f32`. They run by `vdpbf16ps`; CPUs that have tiles execute it more slowly
/// than the multiply-adds of `f32`, and a map is too small to fill a tile.
pub fn gains_from_bf16() -> bool {
    level() != Level::Amx
}

/// Sizes of the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowRankShape {
    /// Vertex stalk.
    pub d_v: usize,
    /// Edge stalk.
    pub d_e: usize,
    /// Slots of an agent; at most 32.
    pub slots: usize,
    /// Rank of the update of each slot.
    pub rank: usize,
    /// Rows of an agent, padded.
    pub ld: usize,
    /// Precision of the operands.
    pub precision: Precision,
}

/// The sizes of the published MNIST model, apart from the padding.
const PUBLISHED: (usize, usize, usize, usize) = (32, 24, 8, 8);

impl LowRankShape {
    /// slots · rank.
    #[inline(always)]
    pub fn m(&self) -> usize {
        self.slots * self.rank
    }

    /// Length of a packed base: R, then Rᵀ.
    #[inline]
    pub fn base_len(&self) -> usize {
        2 * self.d_e * self.d_v / self.per_number()
    }

    /// Length of a packed view: B, A, Aᵀ, Bᵀ.
    #[inline]
    pub fn view_len(&self) -> usize {
        2 * self.m() * (self.d_v + self.d_e) / self.per_number()
    }

    /// The same sizes in this precision, as far as there are kernels: sizes other than the published keep the full one.
    pub fn in_precision<T: Real>(self, precision: Precision) -> Self {
        let precision = if self.is_published() && T::HAS_BF16 { precision } else { Precision::Full };
        Self { precision, ..self }
    }

    /// Whether packed numbers are words of two bf16.
    #[inline(always)]
    pub fn is_bf16(&self) -> bool {
        self.precision == Precision::Bf16
    }

    /// How many operands a packed number holds.
    #[inline(always)]
    fn per_number(&self) -> usize {
        if self.is_bf16() { 2 } else { 1 }
    }

    /// Whether [`pairs`] supports these sizes.
    #[inline]
    pub fn takes_pairs(&self) -> bool {
        self.is_published()
    }

    #[inline]
    fn is_published(&self) -> bool {
        (self.d_v, self.d_e, self.slots, self.rank) == PUBLISHED
    }
}

/// The view of each agent, and the agents in an order that puts those with equal views side by side.
#[derive(Clone, Copy, Debug)]
pub struct Grouped<'a> {
    /// The view of each agent.
    pub index: &'a [u32], // [agents]
    /// Bit mask of the slots of each agent that have an edge.
    pub masks: &'a [u32], // [agents]
    /// All agents, those with the same view and slots next to each other.
    pub order: &'a [u32], // [agents]
}

impl<'a> Grouped<'a> {
    /// Takes a run of at most `most` equal agents from the front of `rest`: (view, slots, agents). Not an iterator
    /// with a closure: the compiler would compile the closure separately, without the kernel's vector instructions.
    #[inline(always)]
    pub(super) fn take_run(&self, most: usize, rest: &mut &'a [u32]) -> Option<(usize, u32, &'a [u32])> {
        let all = *rest;
        let first = *all.first()? as usize;
        let (view, mask) = (self.index[first], self.masks[first]);
        let mut len = 1;
        while len < most.min(all.len()) {
            let next = all[len] as usize;
            if self.index[next] != view || self.masks[next] != mask {
                break;
            }
            len += 1;
        }
        *rest = &all[len..];
        Some((view as usize, mask, &all[..len]))
    }
}

#[inline(always)]
fn project_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    base: &[T],
    views: &[T],
    z: &[T],
    y: &mut [T],
) {
    if shape.is_published() {
        project::project::<T, FMA, 32, 24, 64, 8>(agents, shape.ld, base, views, z, y);
    } else {
        project_plain::<T, FMA>(shape, agents, base, views, z, y);
    }
}

/// y = F z by plain loops.
#[inline(always)]
fn project_plain<T: Real, const FMA: bool>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    base: &[T],
    views: &[T],
    z: &[T],
    y: &mut [T],
) {
    let LowRankShape { d_v, d_e, slots, rank, ld, .. } = shape;
    let (m, len) = (shape.m(), shape.view_len());
    for (i, (z, y)) in z.chunks_exact(d_v).zip(y.chunks_exact_mut(ld)).enumerate() {
        let (b, rest) = views[agents.index[i] as usize * len..][..len].split_at(d_v * m);
        y.fill(T::ZERO);
        for slot in 0..slots {
            if agents.masks[i] >> slot & 1 == 0 {
                continue;
            }
            let y = &mut y[slot * d_e..][..d_e];
            for (j, &z) in z.iter().enumerate() {
                add_row::<T, FMA>(y, z, &base[(d_v + j) * d_e..][..d_e]);
            }
            for k in slot * rank..(slot + 1) * rank {
                let c: T = z.iter().enumerate().map(|(j, &z)| z * b[j * m + k]).sum();
                add_row::<T, FMA>(y, c, &rest[k * d_e..][..d_e]);
            }
        }
    }
}

/// y += a·x.
#[inline(always)]
fn add_row<T: Real, const FMA: bool>(y: &mut [T], a: T, x: &[T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = fma::<T, FMA>(a, x, *y);
    }
}

#[inline(always)]
fn lift_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    base: &[T],
    views: &[T],
    s: &[T],
    g: &mut [T],
) {
    if shape.is_published() {
        lift::lift::<T, FMA, 32, 24, 64, 8>(agents, shape.ld, base, views, s, g);
    } else {
        lift_plain::<T, FMA>(shape, agents, base, views, s, g);
    }
}

/// g = Fᵀ s by plain loops.
#[inline(always)]
fn lift_plain<T: Real, const FMA: bool>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    base: &[T],
    views: &[T],
    s: &[T],
    g: &mut [T],
) {
    let LowRankShape { d_v, d_e, slots, rank, ld, .. } = shape;
    let (m, len) = (shape.m(), shape.view_len());
    for (i, (s, g)) in s.chunks_exact(ld).zip(g.chunks_exact_mut(d_v)).enumerate() {
        let (a_t, b_t) = views[agents.index[i] as usize * len..][len / 2..len].split_at(m * d_e);
        g.fill(T::ZERO);
        for slot in 0..slots {
            if agents.masks[i] >> slot & 1 == 0 {
                continue;
            }
            let s = &s[slot * d_e..][..d_e];
            for (r, &s) in s.iter().enumerate() {
                add_row::<T, FMA>(g, s, &base[r * d_v..][..d_v]);
            }
            for k in 0..rank {
                let e: T = s.iter().enumerate().map(|(r, &s)| s * a_t[(slot * d_e + r) * rank + k]).sum();
                add_row::<T, FMA>(g, e, &b_t[(slot * rank + k) * d_v..][..d_v]);
            }
        }
    }
}

#[inline(always)]
fn exchange_lift_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    partners: &[u32],
    base: &[T],
    views: &[T],
    y: &[T],
    s: &mut [T],
    g: &mut [T],
) {
    if shape.is_published() {
        lift::exchange_lift::<T, FMA, 32, 24, 64, 8>(agents, partners, shape.ld, base, views, y, s, g);
    } else {
        let LowRankShape { d_e, slots, ld, .. } = shape;
        partners_body::<T, FMA>(SlotRows { slots, d_e, ld }, partners, y, s);
        lift_plain::<T, FMA>(shape, agents, base, views, s, g);
    }
}

#[inline(always)]
fn outers_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    d_stacks: &mut [T],
    scale: T,
    terms: usize,
    rows: &[T],
    states: &[T],
) {
    if shape.is_published() {
        outers::outers::<T, FMA, 32, 24>(agents, shape.ld, d_stacks, scale, terms, rows, states);
    } else {
        outers_plain::<T, FMA>(shape, agents, d_stacks, scale, terms, rows, states);
    }
}

/// dF += scale·rows·stateᵀ by plain loops.
#[inline(always)]
fn outers_plain<T: Real, const FMA: bool>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    d_stacks: &mut [T],
    scale: T,
    terms: usize,
    rows: &[T],
    states: &[T],
) {
    let LowRankShape { d_v, ld, .. } = shape;
    let count = agents.index.len();
    for (i, &view) in agents.index.iter().enumerate() {
        let d_stack = &mut d_stacks[view as usize * d_v * ld..][..d_v * ld];
        for t in 0..terms {
            let rows = &rows[(t * count + i) * ld..][..ld];
            let state = &states[(t * count + i) * d_v..][..d_v];
            for (column, &x) in d_stack.chunks_exact_mut(ld).zip(state) {
                add_row::<T, FMA>(column, scale * x, rows);
            }
        }
    }
}

/// y_i = F_i z_i for every agent; padding becomes 0.
pub fn project<T: Real>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    base: &[T],
    views: &[T],
    z: &[T],
    y: &mut [T],
) {
    match shape.precision {
        Precision::Full => project_full(shape, agents, base, views, z, y),
        Precision::Bf16 => T::project_bf16((agents, shape.ld), base, views, z, y),
    }
}

/// g_i = F_iᵀ s_i for every agent.
pub fn lift<T: Real>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    base: &[T],
    views: &[T],
    s: &[T],
    g: &mut [T],
) {
    match shape.precision {
        Precision::Full => lift_full(shape, agents, base, views, s, g),
        Precision::Bf16 => T::lift_bf16((agents, shape.ld), base, views, s, g),
    }
}

/// s = y − y of the partner slot, g_i = F_iᵀ s_i for every agent.
pub fn exchange_lift<T: Real>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    partners: &[u32],
    base: &[T],
    views: &[T],
    y: &[T],
    s: &mut [T],
    g: &mut [T],
) {
    match shape.precision {
        Precision::Full => exchange_lift_full(shape, agents, partners, base, views, y, s, g),
        Precision::Bf16 => T::exchange_lift_bf16((agents, shape.ld), partners, base, views, y, s, g),
    }
}

kernel! {
    fn project_full, project_at<T>(
        shape: LowRankShape, agents: Grouped<'_>, base: &[T], views: &[T], z: &[T], y: &mut [T],
    ) = project_body;
}
kernel! {
    fn lift_full, lift_at<T>(
        shape: LowRankShape, agents: Grouped<'_>, base: &[T], views: &[T], s: &[T], g: &mut [T],
    ) = lift_body;
}
kernel! {
    fn exchange_lift_full, exchange_lift_at<T>(
        shape: LowRankShape, agents: Grouped<'_>, partners: &[u32], base: &[T], views: &[T], y: &[T], s: &mut [T],
        g: &mut [T],
    ) = exchange_lift_body;
}
kernel! {
    /// dF_i += scale·Σ_t rows_t,i · state_t,iᵀ, into stacks `[views, d_v, ld]`. Rows of slots without an edge are 0.
    pub fn outers, outers_at<T>(
        shape: LowRankShape, agents: Grouped<'_>, d_stacks: &mut [T], scale: T, terms: usize, rows: &[T],
        states: &[T],
    ) = outers_body;
}

#[inline(always)]
fn pairs_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    local: &[u32],
    partners: &[u32],
    base: &[T],
    views: &[T],
    tape: PairTape<'_, T>,
    scale: T,
    d_stacks: &mut [T],
) {
    debug_assert!(shape.takes_pairs(), "other sizes have their residuals at hand");
    let ld = shape.ld;
    let maps = (base, views, shape.is_bf16());
    pairs::pairs::<T, FMA, 32, 24, 64, 8>(agents, local, partners, ld, maps, tape, scale, d_stacks);
}
kernel! {
    /// dF_i += scale·Σ e_i(p) q̄_iᵀ + e_i(q̄) p_iᵀ over all pairs, into stacks `[views, d_v, ld]` that `local` assigns to
    /// the agents; for sizes that [`takes_pairs`](LowRankShape::takes_pairs).
    pub fn pairs, pairs_at<T>(
        shape: LowRankShape, agents: Grouped<'_>, local: &[u32], partners: &[u32], base: &[T], views: &[T],
        tape: PairTape<'_, T>, scale: T, d_stacks: &mut [T],
    ) = pairs_body;
}
