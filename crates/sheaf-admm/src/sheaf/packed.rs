//! Low-rank maps on one base, packed for the kernels of [`linalg::low_rank`](sheaf_kernels::low_rank).
//!
//! F\[s\] = R + factor·A\[s\]·B\[s\]ᵀ. Packing puts the numbers of a view in the order the products read them and
//! multiplies A by the factor; it is done once per batch and distinct view. The gradient of the maps is collected as
//! dense stacks, one for every distinct view of a sample, and propagated to A, B and R once at the end:
//!
//! ```text
//! dR += Σ_s dF[s]     dA[s] += factor·dF[s]·B[s]     dB[s] += factor·dF[s]ᵀ·A[s]
//! ```
//!
//! | name | shape |
//! | --- | --- |
//! | R, dR | `[d_e, d_v]` |
//! | A, dA | `[slots, d_e, rank]` |
//! | B, dB | `[slots, d_v, rank]` |
//! | packed base | R, then Rᵀ |
//! | packed view | B `[d_v, slots, rank]`, A `[slots, rank, d_e]`, Aᵀ `[slots, d_e, rank]`, Bᵀ `[slots, rank, d_v]` |
//! | dF | `[d_v, ld]`, a stack |
//!
//! In bf16 a packed number holds two operands, so that base and views take half the room; the gradient of the maps stays dense
//! and in full precision.

use super::maps::{check_index, count_views, need_uniform, valid_uniform};
use super::{Sheaf, Uniform};
use crate::error::{check_finite, check_len};
use crate::{Error, ErrorKind, Precision, Real, Result};
use sheaf_kernels::low_rank::{self, Grouped, LowRankShape, PairTape};

/// The view of each agent of a sample; reused from sample to sample, so that it allocates once.
#[derive(Clone, Debug, Default)]
pub struct ViewGroups {
    index: Vec<u32>, // [agents]
    masks: Vec<u32>, // [agents], slots that have an edge
    order: Vec<u32>, // [agents], by view and slots
    local: Vec<u32>, // [agents], place of the agent's view in `views`
    views: Vec<u32>, // [distinct], increasing
    first: Vec<u32>, // [distinct], first agent of each view
}

impl ViewGroups {
    /// Sorts the agents of a sample by view. `index` gives the view of each agent of the sheaf.
    pub fn set(&mut self, sheaf: &Sheaf, index: &[u32]) {
        let Self { index: own, masks, order, local, views, first } = self;
        own.clear();
        own.extend_from_slice(index);
        masks.clear();
        masks.extend((0..index.len()).map(|agent| used_slots(sheaf, agent)));
        order.clear();
        order.extend(0..index.len() as u32);
        order.sort_unstable_by_key(|&agent| (index[agent as usize], masks[agent as usize], agent));
        views.clear();
        first.clear();
        local.clear();
        local.resize(index.len(), 0);
        for &agent in order.iter() {
            let view = index[agent as usize];
            if views.last() != Some(&view) {
                views.push(view);
                first.push(agent);
            }
            local[agent as usize] = views.len() as u32 - 1;
        }
    }

    /// The distinct views of the sample, increasing.
    pub fn views(&self) -> &[u32] {
        &self.views
    }

    /// The view of each agent.
    pub fn index(&self) -> &[u32] {
        &self.index
    }

    /// The place of each agent's view in [`views`](Self::views).
    pub fn local(&self) -> &[u32] {
        &self.local
    }

    /// For each of [`views`](Self::views), the first agent that has it.
    pub fn speakers(&self) -> &[u32] {
        &self.first
    }

    fn by_view(&self) -> Grouped<'_> {
        Grouped { index: &self.index, masks: &self.masks, order: &self.order }
    }

    fn by_local(&self) -> Grouped<'_> {
        Grouped { index: &self.local, masks: &self.masks, order: &self.order }
    }
}

/// Bit mask of the slots of an agent that have an edge; all slots if that is not known.
fn used_slots(sheaf: &Sheaf, agent: usize) -> u32 {
    let Some((rows, partners)) = sheaf.partners() else {
        return sheaf.as_uniform().map_or(0, |u| ((1u64 << u.slots.min(32)) - 1) as u32);
    };
    // A slot without an edge is its own partner.
    let own = |slot: usize| (agent * rows.ld + slot * rows.d_e) as u32;
    let of_agent = partners.rows().get(agent * rows.slots..(agent + 1) * rows.slots).unwrap_or_default();
    let used = of_agent.iter().enumerate().filter(|&(slot, &partner)| partner != own(slot));
    used.fold(0, |mask, (slot, _)| mask | 1u32.checked_shl(slot as u32).unwrap_or(0))
}

/// Length of a map of the published sizes, the only ones in bf16.
const PUBLISHED_MAP: usize = 32 * 24;

/// Packed low-rank maps.
#[derive(Clone, Copy, Debug)]
pub struct PackedLowRank<'a, T> {
    /// The base, from [`pack_base`].
    pub base: &'a [T],
    /// All views, from [`pack_view`].
    pub views: &'a [T],
    /// Rank of the update; 0 leaves the base alone.
    pub rank: usize,
    /// Precision in which base and views were packed; the published sizes alone have bf16.
    pub precision: Precision,
    /// The views of the agents, sample by sample.
    pub agents: &'a [ViewGroups], // [samples]
}

impl<T: Real> PackedLowRank<'_, T> {
    /// The sizes for this sheaf, in full precision; [`LowRankShape::in_precision`] gives those of another.
    pub fn shape(sheaf: &Sheaf, rank: usize) -> Result<LowRankShape> {
        let u = need_uniform(sheaf)?;
        let shape = Self::uniform_shape(u, rank, Precision::Full);
        let len = rank.checked_mul(u.slots).and_then(|m| m.checked_mul(2 * (u.d_v + u.d_e)));
        if len.is_none() {
            let place = "rank of packed low-rank maps";
            return Err(Error::new(ErrorKind::Shape, place, "factors that memory can hold", rank));
        }
        if u.slots <= 32 {
            return Ok(shape);
        }
        Err(Error::new(ErrorKind::Unsupported, "packed low-rank maps", "at most 32 slots", u.slots)
            .hint("use Maps::LowRank, which takes any sizes"))
    }

    pub(super) fn validate(&self, sheaf: &Sheaf, samples: usize) -> Result<()> {
        let shape = Self::shape(sheaf, self.rank)?.in_precision::<T>(self.precision);
        check_len("packed base", shape.base_len(), self.base.len())?;
        let views = count_views(self.views.len(), shape.view_len());
        check_len("packed views", views.unwrap_or(0) * shape.view_len(), self.views.len())?;
        check_len("packed maps: groups of views", samples, self.agents.len())?;
        self.agents.iter().try_for_each(|agents| check_index(&agents.index, sheaf.agents(), views))
    }

    pub(super) fn check_finite(&self, sheaf: &Sheaf) -> Result<()> {
        let shape = self.valid_shape(sheaf);
        if !shape.is_bf16() {
            check_finite("packed base", self.base)?;
            return check_finite("packed views", self.views);
        }
        // A number holds two operands, so the maps themselves are checked.
        let mut map = [T::ZERO; PUBLISHED_MAP];
        for view in self.views.chunks_exact(shape.view_len()) {
            for slot in 0..shape.slots {
                T::slot_bf16(self.base, view, slot, &mut map);
                check_finite("packed views", &map)?;
            }
        }
        Ok(())
    }

    /// The views of a single sample: products run sample by sample.
    fn only(&self) -> &ViewGroups {
        debug_assert_eq!(self.agents.len(), 1, "a sample of the batch");
        &self.agents[0]
    }

    fn valid_shape(&self, sheaf: &Sheaf) -> LowRankShape {
        Self::uniform_shape(valid_uniform(sheaf), self.rank, self.precision)
    }

    fn uniform_shape(u: Uniform, rank: usize, precision: Precision) -> LowRankShape {
        let Uniform { d_v, d_e, slots, ld } = u;
        LowRankShape { d_v, d_e, slots, rank, ld, precision: Precision::Full }.in_precision::<T>(precision)
    }

    pub(super) fn project(&self, sheaf: &Sheaf, z: &[T], y: &mut [T]) {
        low_rank::project(self.valid_shape(sheaf), self.only().by_view(), self.base, self.views, z, y);
    }

    pub(super) fn lift(&self, sheaf: &Sheaf, s: &[T], g: &mut [T]) {
        low_rank::lift(self.valid_shape(sheaf), self.only().by_view(), self.base, self.views, s, g);
    }

    /// s = y − y of the partner slot, then g = Fᵀ s.
    pub(super) fn exchange_lift(&self, sheaf: &Sheaf, partners: &[u32], y: &[T], s: &mut [T], g: &mut [T]) {
        let (shape, agents) = (self.valid_shape(sheaf), self.only().by_view());
        low_rank::exchange_lift(shape, agents, partners, self.base, self.views, y, s, g);
    }

    /// Whether [`add_pairs`](Self::add_pairs) supports maps of these sizes.
    pub(super) fn takes_pairs(&self, sheaf: &Sheaf) -> bool {
        sheaf.partners().is_some() && self.valid_shape(sheaf).takes_pairs()
    }

    /// Adds the contributions of all pairs of a tape to dense stacks `[distinct views of the sample, d_v, ld]`.
    pub(super) fn add_pairs(&self, sheaf: &Sheaf, d_stacks: &mut [T], scale: T, tape: PairTape<'_, T>) {
        let Some((_, partners)) = sheaf.partners() else {
            return debug_assert!(false, "maps that take pairs have one partner for a slot");
        };
        let (shape, agents, local) = (self.valid_shape(sheaf), self.only().by_view(), self.only().local());
        low_rank::pairs(shape, agents, local, partners.rows(), self.base, self.views, tape, scale, d_stacks);
    }

    /// Adds outer products to dense stacks `[distinct views of the sample, d_v, ld]`.
    pub(super) fn add_outers(
        &self,
        sheaf: &Sheaf,
        d_stacks: &mut [T],
        scale: T,
        terms: usize,
        rows: &[T],
        states: &[T],
    ) {
        let agents = self.only().by_local();
        low_rank::outers(self.valid_shape(sheaf), agents, d_stacks, scale, terms, rows, states);
    }
}

/// Writes R and Rᵀ.
pub fn pack_base<T: Real>(
    shape: LowRankShape,
    base: &[T],    // [d_e, d_v]
    out: &mut [T], // [shape.base_len()]
) -> Result<()> {
    let (d_e, d_v) = (shape.d_e, shape.d_v);
    check_len("base of the maps", d_e * d_v, base.len())?;
    check_len("packed base", shape.base_len(), out.len())?;
    if shape.is_bf16() {
        T::pack_base_bf16(base, out);
        return Ok(());
    }
    let (plain, transposed) = out.split_at_mut(d_e * d_v);
    plain.copy_from_slice(base);
    transpose(base, d_e, d_v, transposed);
    Ok(())
}

/// Packs the factors of one view; `factor` is multiplied into A.
pub fn pack_view<T: Real>(
    shape: LowRankShape,
    a: &[T], // [slots, d_e, rank]
    b: &[T], // [slots, d_v, rank]
    factor: T,
    out: &mut [T], // [shape.view_len()]
) -> Result<()> {
    let LowRankShape { d_v, d_e, slots, rank, .. } = shape;
    let m = slots * rank;
    check_len("factor A", m * d_e, a.len())?;
    check_len("factor B", m * d_v, b.len())?;
    check_len("packed view", shape.view_len(), out.len())?;
    if shape.is_bf16() {
        T::pack_view_bf16(a, b, factor, out);
        return Ok(());
    }
    let (own_b, rest) = out.split_at_mut(d_v * m);
    let (own_a, rest) = rest.split_at_mut(m * d_e);
    let (a_t, b_t) = rest.split_at_mut(m * d_e);
    for (to, &a) in a_t.iter_mut().zip(a) {
        *to = factor * a;
    }
    for slot in 0..slots {
        let b = &b[slot * d_v * rank..][..d_v * rank];
        for j in 0..d_v {
            own_b[j * m + slot * rank..][..rank].copy_from_slice(&b[j * rank..][..rank]);
        }
        transpose(b, d_v, rank, &mut b_t[slot * rank * d_v..][..rank * d_v]);
        let a_t = &a_t[slot * d_e * rank..][..d_e * rank];
        transpose(a_t, d_e, rank, &mut own_a[slot * rank * d_e..][..rank * d_e]);
    }
    Ok(())
}

/// out = mᵀ, `m` being `[rows, cols]`.
fn transpose<T: Real>(m: &[T], rows: usize, cols: usize, out: &mut [T]) {
    for (r, row) in m.chunks_exact(cols.max(1)).take(rows).enumerate() {
        for (c, &value) in row.iter().enumerate() {
            out[c * rows + r] = value;
        }
    }
}
