//! Restriction maps: how an agent's state is projected into the spaces it shares with its neighbours.
//!
//! Every kind offers the same two products, project (y_i = F_i z_i) and lift (g_i = F_iᵀ s_i).
//!
//! | kind | holds | used where |
//! | --- | --- | --- |
//! | [`Maps::Shared`] | one prepared stack for all agents, with an optional update for each | Sudoku |
//! | [`Maps::Stack`] | one stack for all agents, `[d_v, ld]` | small problems |
//! | [`Maps::Table`] | stacks `[views, d_v, ld]` and an index per agent | Maze |
//! | [`Maps::PerAgent`] | a stack of its own size for each agent | any graph, any stalk sizes |
//! | [`Maps::LowRank`] | F\[s\] = R\[s\] + gate·scale·A\[s\]·B\[s\]ᵀ, factors per view | any low-rank maps; the reference |
//! | [`Maps::Packed`] | the same on one base, without gates, packed for its kernels | MNIST |
//!
//! A stack is stored by columns, each padded to `ld` rows: entry (row r, column j) is at `j·ld + r`. The padding may
//! hold anything: no product reads it.

use super::shared::clear_padding;
use super::{PackedLowRank, SharedMaps, Sheaf, Uniform};
use crate::chunks::{self, Cut};
use crate::error::{check_finite, check_len};
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::gemm::{Mat, gemm};
use sheaf_kernels::stack::{BAND, Table};

/// Low-rank maps on a shared base.
#[derive(Clone, Copy, Debug)]
pub struct LowRank<'a, T> {
    /// Base maps `[bases, d_e, d_v]`: one for every slot, or a single one for all slots.
    pub base: &'a [T],
    /// Factors `[views, slots, d_e, rank]`.
    pub a: &'a [T],
    /// Factors `[views, slots, d_v, rank]`.
    pub b: &'a [T],
    /// Optional gates `[views, slots]`, already between 0 and 1.
    pub gate: Option<&'a [T]>,
    /// Rank of the update.
    pub rank: usize,
    /// Factor before A·Bᵀ (alpha / rank).
    pub scale: T,
    /// Which view each agent has.
    pub index: &'a [u32], // [agents]
}

/// The restriction maps of a sample or of a batch. For a batch, `index` and `order` are `[samples, agents]`, stacks per
/// agent are `[samples, stack_len]`, packed maps have one group per sample, and shared maps serve all samples.
#[derive(Clone, Copy, Debug)]
pub enum Maps<'a, T> {
    /// A prepared stack for all agents.
    Shared(SharedMaps<'a, T>),
    /// One stack `[d_v, ld]` for all agents.
    Stack(&'a [T]),
    /// Stacks `[views, d_v, ld]`, `index[i]` names agent i's.
    Table {
        /// The stacks.
        stacks: &'a [T],
        /// Which stack each agent uses.
        index: &'a [u32], // [agents]
        /// A permutation of the agents that puts equal views of a band side by side, for speed
        /// ([`order_by_view`](sheaf_kernels::stack::order_by_view)); empty for the natural order.
        order: &'a [u32], // [agents] or []
        /// The stacks once more, as a faster kernel reads them ([`Sheaf::tile_len`],
        /// [`tile_stacks`](sheaf_kernels::tiles::tile_stacks)); or empty.
        tiles: &'a [T], // [views, tile_len] or []
    },
    /// Agent i's stack `[d_v(i), ld(i)]` starts at [`Sheaf::stack_offsets`]`[i]`.
    PerAgent(&'a [T]),
    /// Low-rank updates of a shared base.
    LowRank(LowRank<'a, T>),
    /// Low-rank updates of one base, packed.
    Packed(PackedLowRank<'a, T>),
}

impl<T: Real> Maps<'_, T> {
    /// Checks all sizes and indices against the sheaf and the number of samples.
    pub fn validate(&self, sheaf: &Sheaf, samples: usize) -> Result<()> {
        let agents = sheaf.agents().saturating_mul(samples);
        match self {
            Self::Shared(maps) => maps.validate(need_uniform(sheaf)?, agents),
            Self::Stack(stack) => {
                let u = need_uniform(sheaf)?;
                check_len("shared stack", u.d_v * u.ld, stack.len())
            }
            Self::Table { stacks, index, order, tiles } => {
                if !order.is_empty() {
                    check_len("order of agents", agents, order.len())?;
                    let each = order.chunks_exact(sheaf.agents().max(1));
                    each.clone().try_for_each(|order| check_order(order, sheaf.agents()))?;
                }
                let one = need_uniform(sheaf).map(|u| u.d_v * u.ld)?;
                let views = count_views(stacks.len(), one);
                check_len("stacks", views.unwrap_or(0) * one, stacks.len())?;
                if !tiles.is_empty() {
                    check_len("tiles of stacks", views.unwrap_or(0) * sheaf.tile_len(), tiles.len())?;
                }
                check_index(index, agents, views)
            }
            Self::PerAgent(stacks) => check_len("stacks", sheaf.stack_len() * samples, stacks.len()),
            Self::LowRank(low) => low.validate(sheaf, agents),
            Self::Packed(low) => low.validate(sheaf, samples),
        }
    }

    /// Checks that every number of the maps is finite. One pass over them; padding does not count.
    pub fn check_finite(&self, sheaf: &Sheaf) -> Result<()> {
        match self {
            Self::Shared(maps) => maps.check_finite(),
            Self::Stack(stacks) | Self::Table { stacks, .. } => {
                let Uniform { d_e, slots, ld, .. } = need_uniform(sheaf)?;
                check_columns(stacks, ld, slots * d_e, 0)
            }
            Self::PerAgent(stacks) => (0..stacks.len().checked_div(sheaf.stack_len()).unwrap_or(0)
                * sheaf.agents())
                .try_for_each(|k| {
                    let (i, base) = (k % sheaf.agents(), k / sheaf.agents() * sheaf.stack_len());
                    let (start, end) = (base + sheaf.stack_offsets[i], base + sheaf.stack_offsets[i + 1]);
                    let (ld, used) = (sheaf.row_offsets[i + 1] - sheaf.row_offsets[i], sheaf.slot_rows(i));
                    check_columns(&stacks[start..end], ld, used.last().copied().unwrap_or(0), start)
                }),
            Self::LowRank(low) => {
                check_finite("base maps", low.base)?;
                check_finite("factors A", low.a)?;
                check_finite("factors B", low.b)?;
                check_finite("scale of low-rank maps", &[low.scale])?;
                check_finite("gates", low.gate.unwrap_or_default())
            }
            Self::Packed(low) => low.check_finite(sheaf),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Shared(_) => "shared",
            Self::Stack(_) => "one stack",
            Self::Table { .. } => "table",
            Self::PerAgent(_) => "per agent",
            Self::LowRank(_) => "low-rank",
            Self::Packed(_) => "packed low-rank",
        }
    }

    /// y_i = F_i z_i for every agent. Overwrites `y`.
    pub(super) fn project(&self, sheaf: &Sheaf, z: &[T], y: &mut [T]) {
        if sheaf.row_len() == 0 {
            return;
        }
        match self {
            Self::Shared(maps) => {
                let u = valid_uniform(sheaf);
                maps.project(&z[..sheaf.state_len()], y, u.ld);
                clear_padding(sheaf, u, y);
            }
            Self::Stack(stack) => {
                let (Uniform { d_v, ld, .. }, n) = (valid_uniform(sheaf), sheaf.agents());
                gemm(y, Mat::new(z, n, d_v), Mat::new(stack, d_v, ld), T::ONE, T::ZERO);
            }
            Self::Table { stacks, index, order, .. } => {
                T::project_table(table(sheaf, index, order), 0..sheaf.agents(), 0, stacks, z, y)
            }
            Self::PerAgent(stacks) => {
                let parts = Cut::by_agent(&mut y[..], &sheaf.row_offsets);
                chunks::each(chunks::count(sheaf.agents()), parts, |chunk, y| {
                    let start = chunks::run(chunk, &sheaf.row_offsets).start;
                    let own = chunks::agents(chunk, sheaf.agents());
                    each_agent(sheaf, own, |one, place, states, rows| {
                        if !rows.is_empty() {
                            let y = &mut y.data[rows.start - start..rows.end - start];
                            T::project_table(one, 0..1, 0, &stacks[place], &z[states], y);
                        }
                    });
                });
            }
            Self::LowRank(low) => low.project(sheaf, z, y),
            Self::Packed(low) => low.project(sheaf, z, y),
        }
    }

    /// g_i = F_iᵀ s_i for every agent. Overwrites `g`. The adjoint of [`project`](Self::project).
    pub(super) fn lift(&self, sheaf: &Sheaf, s: &[T], g: &mut [T]) {
        if sheaf.row_len() == 0 {
            g.fill(T::ZERO);
            return;
        }
        match self {
            Self::Shared(maps) => maps.lift(s, valid_uniform(sheaf).ld, &mut g[..sheaf.state_len()], false),
            Self::Stack(stack) => {
                let (Uniform { d_v, d_e, slots, ld }, n) = (valid_uniform(sheaf), sheaf.agents());
                let (s, stack) =
                    (Mat::strided(s, n, slots * d_e, ld), Mat::strided(stack, d_v, slots * d_e, ld));
                gemm(g, s, stack.t(), T::ONE, T::ZERO);
            }
            Self::Table { stacks, index, .. } => T::lift_table(table(sheaf, index, &[]), stacks, s, g),
            Self::PerAgent(stacks) => {
                let parts = Cut::by_agent(&mut g[..sheaf.state_len()], &sheaf.state_offsets);
                chunks::each(chunks::count(sheaf.agents()), parts, |chunk, g| {
                    let start = chunks::run(chunk, &sheaf.state_offsets).start;
                    let own = chunks::agents(chunk, sheaf.agents());
                    each_agent(sheaf, own, |one, place, states, rows| {
                        let g = &mut g.data[states.start - start..states.end - start];
                        if rows.is_empty() {
                            g.fill(T::ZERO);
                        } else {
                            T::lift_table(one, &stacks[place], &s[rows], g);
                        }
                    });
                });
            }
            Self::LowRank(low) => low.lift(sheaf, s, g),
            Self::Packed(low) => low.lift(sheaf, s, g),
        }
    }
}

/// Checks the used rows of every column; `start` is the offset of the columns within the stacks, for error messages.
fn check_columns<T: Real>(stacks: &[T], ld: usize, used: usize, start: usize) -> Result<()> {
    for (column, rows) in stacks.chunks_exact(ld.max(1)).enumerate() {
        if let Some(row) = rows[..used.min(ld)].iter().position(|f| !f.is_finite()) {
            let place = format!("stacks[{}]", start + column * ld + row);
            return Err(Error::new(ErrorKind::NotFinite, place, "a finite number", rows[row]));
        }
    }
    Ok(())
}

/// Calls `f(table of one, stack range, state range, row range)` for some agents of a sheaf of mixed sizes. An agent
/// without edges has no rows, which the kernels do not support.
pub(super) fn each_agent(
    sheaf: &Sheaf,
    agents: std::ops::Range<usize>,
    mut f: impl FnMut(Table<'_>, std::ops::Range<usize>, std::ops::Range<usize>, std::ops::Range<usize>),
) {
    for i in agents {
        let states = sheaf.state_offsets[i]..sheaf.state_offsets[i + 1];
        let rows = sheaf.row_offsets[i]..sheaf.row_offsets[i + 1];
        let used = sheaf.slot_rows(i).last().copied().unwrap_or(0);
        let one = Table { d_v: states.len(), ld: rows.len(), rows: used, index: &[0], order: &[] };
        f(one, sheaf.stack_offsets[i]..sheaf.stack_offsets[i + 1], states, rows);
    }
}

/// The kernel's view of a uniform sheaf.
pub(super) fn table<'a>(sheaf: &Sheaf, index: &'a [u32], order: &'a [u32]) -> Table<'a> {
    let Uniform { d_v, d_e, slots, ld } = valid_uniform(sheaf);
    Table { d_v, ld, rows: slots * d_e, index, order }
}

/// The sizes of a sheaf that was found to be uniform when the maps were checked.
#[inline]
pub(super) fn valid_uniform(sheaf: &Sheaf) -> Uniform {
    debug_assert!(sheaf.uniform.is_some(), "checked with the maps");
    sheaf.uniform.unwrap_or(Uniform { d_v: 1, d_e: 0, slots: 0, ld: 1 })
}

pub(super) fn need_uniform(sheaf: &Sheaf) -> Result<Uniform> {
    sheaf.uniform.ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "maps", "agents that are all alike", "stalks of different sizes")
            .hint("use Maps::PerAgent, which takes any sizes")
    })
}

/// How many views of length `one` fit `len` numbers; any number where a view is empty.
pub(super) fn count_views(len: usize, one: usize) -> Option<usize> {
    len.checked_div(one)
}

/// Checks that every entry of an order names an agent of its own band, as
/// [`order_by_view`](sheaf_kernels::stack::order_by_view) makes it.
fn check_order(order: &[u32], agents: usize) -> Result<()> {
    check_len("order of agents", agents, order.len())?;
    match order.iter().enumerate().find(|&(k, &a)| a as usize >= agents || a as usize / BAND != k / BAND) {
        None => Ok(()),
        Some((k, &agent)) => Err(Error::new(
            ErrorKind::OutOfRange,
            format!("order of agents, place {k}"),
            format_args!("an agent of the same band of {BAND}, below {agents}"),
            agent,
        )),
    }
}

pub(super) fn check_index(index: &[u32], agents: usize, views: Option<usize>) -> Result<()> {
    check_len("view index", agents, index.len())?;
    let missing = |views: usize| index.iter().position(|&v| v as usize >= views).map(|i| (i, views));
    match views.and_then(missing) {
        None => Ok(()),
        Some((i, views)) => Err(Error::new(
            ErrorKind::OutOfRange,
            format!("view of agent {i}"),
            format_args!("below {views}"),
            index[i],
        )),
    }
}

impl<T: Real> LowRank<'_, T> {
    fn validate(&self, sheaf: &Sheaf, agents: usize) -> Result<()> {
        if self.rank == 0 {
            return Err(Error::new(ErrorKind::Shape, "rank of low-rank maps", "at least 1", 0)
                .hint("use Maps::Shared or Maps::Stack for maps without an update"));
        }
        let (_, views) = self.check_sizes(sheaf)?;
        check_index(self.index, agents, views)
    }

    /// Checks that there are dense stacks for as many views as there are factors; for rank 0, any number of stacks.
    pub(super) fn check_stacks(&self, sheaf: &Sheaf, stacks: usize) -> Result<Uniform> {
        let (u, views) = self.check_sizes(sheaf)?;
        let one = u.d_v * u.ld;
        let wanted = views.or(stacks.checked_div(one)).unwrap_or(0).saturating_mul(one);
        check_len("stacks of low-rank maps", wanted, stacks)?;
        Ok(u)
    }

    /// Checks everything but the index; returns the sizes of the sheaf and the number of views (`None`: any number).
    fn check_sizes(&self, sheaf: &Sheaf) -> Result<(Uniform, Option<usize>)> {
        let u = need_uniform(sheaf)?;
        let one = u.d_e * u.d_v;
        if self.base.len() != one && self.base.len() != u.slots * one {
            return Err(Error::new(
                ErrorKind::Shape,
                "base maps",
                format_args!("{one} numbers (one base) or {} (one per slot)", u.slots * one),
                self.base.len(),
            ));
        }
        // Saturating: an oversized rank is rejected by the length checks below.
        let per_view = (u.slots * u.d_e).saturating_mul(self.rank);
        let counted = count_views(self.a.len(), per_view);
        let views = counted.unwrap_or(0);
        check_len("factors A", views * per_view, self.a.len())?;
        check_len("factors B", (views * u.slots * u.d_v).saturating_mul(self.rank), self.b.len())?;
        if let Some(gate) = self.gate {
            check_len("gates", views * u.slots, gate.len())?;
        }
        Ok((u, counted))
    }

    /// (base map, A, B, factor) of a slot of a view.
    #[inline(always)]
    pub(super) fn slot(&self, u: Uniform, view: usize, slot: usize) -> (&[T], &[T], &[T], T) {
        let one = u.d_e * u.d_v;
        let base = if self.base.len() == one { self.base } else { &self.base[slot * one..][..one] };
        let k = view * u.slots + slot;
        let a = &self.a[k * u.d_e * self.rank..][..u.d_e * self.rank];
        let b = &self.b[k * u.d_v * self.rank..][..u.d_v * self.rank];
        (base, a, b, self.gate.and_then(|g| g.get(k)).map_or(self.scale, |&g| g * self.scale))
    }

    fn project(&self, sheaf: &Sheaf, z: &[T], y: &mut [T]) {
        let u = valid_uniform(sheaf);
        for ((&view, z), y) in self.index.iter().zip(z.chunks_exact(u.d_v)).zip(y.chunks_exact_mut(u.ld)) {
            for slot in 0..u.slots {
                let (base, a, b, factor) = self.slot(u, view as usize, slot);
                let y = &mut y[slot * u.d_e..][..u.d_e];
                for (y, row) in y.iter_mut().zip(base.chunks_exact(u.d_v)) {
                    *y = row.iter().zip(z).map(|(&f, &z)| f * z).sum();
                }
                for k in 0..self.rank {
                    let c: T = z.iter().zip(b.chunks_exact(self.rank)).map(|(&z, b)| z * b[k]).sum();
                    for (y, a) in y.iter_mut().zip(a.chunks_exact(self.rank)) {
                        *y += factor * a[k] * c;
                    }
                }
            }
            y[u.slots * u.d_e..].fill(T::ZERO);
        }
    }

    fn lift(&self, sheaf: &Sheaf, s: &[T], g: &mut [T]) {
        let u = valid_uniform(sheaf);
        for ((&view, s), g) in self.index.iter().zip(s.chunks_exact(u.ld)).zip(g.chunks_exact_mut(u.d_v)) {
            g.fill(T::ZERO);
            for slot in 0..u.slots {
                let (base, a, b, factor) = self.slot(u, view as usize, slot);
                let s = &s[slot * u.d_e..][..u.d_e];
                for (&s, row) in s.iter().zip(base.chunks_exact(u.d_v)) {
                    for (g, &f) in g.iter_mut().zip(row) {
                        *g += f * s;
                    }
                }
                for k in 0..self.rank {
                    let c: T = s.iter().zip(a.chunks_exact(self.rank)).map(|(&s, a)| s * a[k]).sum();
                    for (g, b) in g.iter_mut().zip(b.chunks_exact(self.rank)) {
                        *g += factor * b[k] * c;
                    }
                }
            }
        }
    }
}
