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

use super::Sheaf;
use super::maps::{check_index, count_views, need_uniform, valid_uniform};
use crate::error::check_len;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::low_rank::{self, Grouped, LowRankShape, PairTape};
use sheaf_kernels::simd::{fma, kernel};

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

/// Packed low-rank maps.
#[derive(Clone, Copy, Debug)]
pub struct PackedLowRank<'a, T> {
    /// The base, from [`pack_base`].
    pub base: &'a [T],
    /// All views, from [`pack_view`].
    pub views: &'a [T],
    /// Rank of the update; 0 leaves the base alone.
    pub rank: usize,
    /// The views of the agents, sample by sample.
    pub agents: &'a [ViewGroups], // [samples]
}

impl<T: Real> PackedLowRank<'_, T> {
    /// The sizes for this sheaf.
    pub fn shape(sheaf: &Sheaf, rank: usize) -> Result<LowRankShape> {
        let u = need_uniform(sheaf)?;
        let shape = LowRankShape { d_v: u.d_v, d_e: u.d_e, slots: u.slots, rank, ld: u.ld };
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
        let shape = Self::shape(sheaf, self.rank)?;
        check_len("packed base", shape.base_len(), self.base.len())?;
        let views = count_views(self.views.len(), shape.view_len());
        check_len("packed views", views.unwrap_or(0) * shape.view_len(), self.views.len())?;
        check_len("packed maps: groups of views", samples, self.agents.len())?;
        self.agents.iter().try_for_each(|agents| check_index(&agents.index, sheaf.agents(), views))
    }

    /// The views of a single sample: products run sample by sample.
    fn only(&self) -> &ViewGroups {
        debug_assert_eq!(self.agents.len(), 1, "a sample of the batch");
        &self.agents[0]
    }

    fn valid_shape(&self, sheaf: &Sheaf) -> LowRankShape {
        let u = valid_uniform(sheaf);
        LowRankShape { d_v: u.d_v, d_e: u.d_e, slots: u.slots, rank: self.rank, ld: u.ld }
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

/// Adjoint of the composition F = R + factor·A·Bᵀ for one view: adds dR, dA and dB.
pub fn unpack_grad<T: Real>(
    shape: LowRankShape,
    view: &[T],    // [shape.view_len()]
    d_stack: &[T], // [d_v, ld]
    factor: T,
    d_base: &mut [T], // [d_e, d_v]
    d_a: &mut [T],    // [slots, d_e, rank]
    d_b: &mut [T],    // [slots, d_v, rank]
) -> Result<()> {
    let LowRankShape { d_v, d_e, slots, ld, .. } = shape;
    if ld < (slots * d_e).max(1) {
        return Err(Error::new(
            ErrorKind::Shape,
            "ld of packed maps",
            format_args!("{} or more", slots * d_e),
            ld,
        ));
    }
    check_len("packed view", shape.view_len(), view.len())?;
    check_len("gradient of a stack", d_v * ld, d_stack.len())?;
    check_len("gradient of the base", d_e * d_v, d_base.len())?;
    check_len("gradient of factor A", shape.m() * d_e, d_a.len())?;
    check_len("gradient of factor B", shape.m() * d_v, d_b.len())?;
    let (b, rest) = view.split_at(shape.d_v * shape.m());
    let a_t = &rest[shape.m() * shape.d_e..][..shape.m() * shape.d_e];
    base_grad(shape, d_stack, d_base);
    match shape.rank {
        0 => {}
        8 => factor_grads_8(shape, b, a_t, d_stack, factor, d_a, d_b),
        _ => factor_grads(shape, b, a_t, d_stack, factor, d_a, d_b),
    }
    Ok(())
}

#[inline(always)]
fn base_grad_body<T: Real, const FMA: bool>(shape: LowRankShape, d_stack: &[T], d_base: &mut [T]) {
    let LowRankShape { d_v, d_e, slots, ld, .. } = shape;
    for (j, column) in d_stack.chunks_exact(ld).enumerate() {
        for r in 0..d_e {
            let sum: T = (0..slots).map(|slot| column[slot * d_e + r]).sum();
            d_base[r * d_v + j] += sum;
        }
    }
}

kernel! {
    fn base_grad, base_grad_at<T>(shape: LowRankShape, d_stack: &[T], d_base: &mut [T]) = base_grad_body;
}

/// dA and dB for any rank.
#[inline(always)]
fn factor_grads_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    b: &[T],
    a_t: &[T],
    d_stack: &[T],
    factor: T,
    d_a: &mut [T],
    d_b: &mut [T],
) {
    let LowRankShape { d_v, d_e, slots, rank, ld } = shape;
    let m = slots * rank;
    for slot in 0..slots {
        for j in 0..d_v {
            let d = &d_stack[j * ld + slot * d_e..][..d_e];
            let b = &b[j * m + slot * rank..][..rank];
            let d_b = &mut d_b[(slot * d_v + j) * rank..][..rank];
            for (r, &d) in d.iter().enumerate() {
                let a = &a_t[(slot * d_e + r) * rank..][..rank];
                let d_a = &mut d_a[(slot * d_e + r) * rank..][..rank];
                for k in 0..rank {
                    d_a[k] = fma::<T, FMA>(factor * d, b[k], d_a[k]);
                    // The factor is already in the packed A.
                    d_b[k] = fma::<T, FMA>(d, a[k], d_b[k]);
                }
            }
        }
    }
}

kernel! {
    fn factor_grads, factor_grads_at<T>(
        shape: LowRankShape, b: &[T], a_t: &[T], d_stack: &[T], factor: T, d_a: &mut [T], d_b: &mut [T],
    ) = factor_grads_body;
}

/// dA and dB of rank 8, the published one: dB stays in a register over the rows of a slot.
#[inline(always)]
fn factor_grads_8_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    b: &[T],
    a_t: &[T],
    d_stack: &[T],
    factor: T,
    d_a: &mut [T],
    d_b: &mut [T],
) {
    const RANK: usize = 8;
    let LowRankShape { d_v, d_e, slots, ld, .. } = shape;
    let m = slots * RANK;
    let lanes = |slice: &[T], at: usize| -> [T; RANK] { slice[at..at + RANK].try_into().expect("8 lanes") };
    for slot in 0..slots {
        let d_a = &mut d_a[slot * d_e * RANK..][..d_e * RANK];
        let a_t = &a_t[slot * d_e * RANK..][..d_e * RANK];
        for j in 0..d_v {
            let d = &d_stack[j * ld + slot * d_e..][..d_e];
            let b = lanes(b, j * m + slot * RANK);
            let mut sum = [T::ZERO; RANK];
            for ((&d, a), d_a) in d.iter().zip(a_t.chunks_exact(RANK)).zip(d_a.chunks_exact_mut(RANK)) {
                for k in 0..RANK {
                    sum[k] = fma::<T, FMA>(d, a[k], sum[k]);
                    d_a[k] = fma::<T, FMA>(factor * d, b[k], d_a[k]);
                }
            }
            let d_b = &mut d_b[(slot * d_v + j) * RANK..][..RANK];
            for k in 0..RANK {
                d_b[k] += sum[k];
            }
        }
    }
}

kernel! {
    fn factor_grads_8, factor_grads_8_at<T>(
        shape: LowRankShape, b: &[T], a_t: &[T], d_stack: &[T], factor: T, d_a: &mut [T], d_b: &mut [T],
    ) = factor_grads_8_body;
}
