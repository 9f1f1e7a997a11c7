//! Dense stacks of the views of some samples, and the way back from their gradient.

use std::ops::Range;

use sheaf_admm::sheaf::{LowRank, LowRankGrad, Maps, Sheaf, Uniform, compose_low_rank, compose_low_rank_vjp};
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::stack::order_by_view;
use sheaf_kernels::tiles::tile_stacks;

use super::inputs::{Inputs, Slot, Views};
use super::parts::Part;

/// Stacks of the distinct views of some samples.
#[derive(Debug, Default)]
pub struct Stacks<T: Copy + Default> {
    views: Vec<u32>, // the views, ascending
    index: Vec<u32>, // [samples, agents], places in `views`
    order: Vec<u32>, // [samples, agents]
    counts: Vec<u32>,
    stacks: AlignedVec<T>, // [views, d_v, ld]
    tiles: AlignedVec<T>,  // [views, tile_len]
    one: usize,
    tile: usize,
}

impl<T: Real> Stacks<T> {
    /// Composes the stacks of these samples.
    pub fn compose(
        &mut self,
        sheaf: &Sheaf,
        u: Uniform,
        inputs: &Inputs<'_, T>,
        samples: Range<usize>,
    ) -> Result<()> {
        self.find(sheaf.agents(), inputs.views, samples);
        let count = self.views.len();
        (self.one, self.tile) = (u.d_v * u.ld, sheaf.tile_len());
        self.stacks.ensure(count * self.one);
        self.tiles.ensure(count * self.tile);
        let one = self.one;
        for (k, &view) in self.views.iter().enumerate() {
            let stack = &mut self.stacks[k * one..][..one];
            match (inputs.get(Slot::Maps), low_rank(inputs, u, view as usize)) {
                (_, Some(low)) => compose_low_rank(sheaf, &low, stack)?,
                (Some(maps), None) => {
                    let len = u.slots * u.d_e * u.d_v;
                    Sheaf::pack_stack(&maps[view as usize * len..][..len], u.d_v, stack)?;
                }
                (None, None) => {}
            }
        }
        if self.tile > 0 {
            tile_stacks(&self.stacks[..count * one], &mut self.tiles[..count * self.tile]);
        }
        // Agents with the same view run together.
        self.order.resize(self.index.len(), 0);
        self.counts.resize(count + 1, 0);
        let each = self.index.chunks(sheaf.agents()).zip(self.order.chunks_mut(sheaf.agents()));
        each.for_each(|(index, order)| order_by_view(index, count, &mut self.counts, order));
        Ok(())
    }

    /// The distinct views of the samples, and the place of each agent's view among them.
    fn find(&mut self, agents: usize, views: &Views, samples: Range<usize>) {
        let (count, all) = (samples.len(), agents as u32);
        self.views.clear();
        self.index.clear();
        match views {
            Views::One => {
                self.views.push(0);
                self.index.resize(count * agents, 0);
            }
            Views::PerAgent => {
                self.views.extend(0..all);
                (0..count).for_each(|_| self.index.extend(0..all));
            }
            Views::PerSample => {
                self.views.extend(samples.start as u32 * all..samples.end as u32 * all);
                self.index.extend(0..count as u32 * all);
            }
            Views::Index(index) => {
                let own = &index[samples.start * agents..samples.end * agents];
                self.views.extend_from_slice(own);
                self.views.sort_unstable();
                self.views.dedup();
                let views = &self.views;
                self.index.extend(own.iter().map(|v| views.partition_point(|w| w < v) as u32));
            }
        }
    }

    /// Number of distinct views.
    pub fn count(&self) -> usize {
        self.views.len()
    }

    /// Length of the gradient of the stacks.
    pub fn grad_len(&self) -> usize {
        self.count() * self.one
    }

    /// The maps of one sample, counted from the first of those composed.
    pub fn maps(&self, sample: usize, agents: usize) -> Maps<'_, T> {
        Maps::Table {
            stacks: &self.stacks[..self.count() * self.one],
            index: &self.index[sample * agents..][..agents],
            order: &self.order[sample * agents..][..agents],
            tiles: &self.tiles[..self.count() * self.tile],
        }
    }

    /// Adds the gradient of the stacks to those of maps, base and factors.
    pub fn unpack(
        &self,
        sheaf: &Sheaf,
        u: Uniform,
        inputs: &Inputs<'_, T>,
        d_stacks: &[T],
        part: &mut Part<T>,
    ) -> Result<()> {
        // Views of a sample are stored from the first sample of the part on; all others at their own place.
        let first = if *inputs.views == Views::PerSample { part.first * sheaf.agents() } else { 0 };
        for (d_stack, &view) in d_stacks.chunks_exact(self.one.max(1)).zip(&self.views) {
            let (view, place) = (view as usize, view as usize - first);
            let Some(low) = low_rank(inputs, u, view) else {
                let len = u.slots * u.d_e * u.d_v;
                Sheaf::unpack_stack_add(
                    d_stack,
                    u.d_v,
                    &mut part.grads[Slot::Maps as usize][place * len..][..len],
                )?;
                continue;
            };
            let (len_a, len_b) = (low.a.len(), low.b.len());
            let [base, a, b] = part.three([Slot::Base, Slot::A, Slot::B]);
            let mut grad = LowRankGrad {
                base,
                a: &mut a[place * len_a..][..len_a],
                b: &mut b[place * len_b..][..len_b],
                gate: None,
            };
            compose_low_rank_vjp(sheaf, &low, d_stack, &mut grad)?;
        }
        Ok(())
    }
}

/// Base and factors of one view.
fn low_rank<'a, T: Real>(inputs: &Inputs<'a, T>, u: Uniform, view: usize) -> Option<LowRank<'a, T>> {
    let (base, a, b) = (inputs.get(Slot::Base)?, inputs.get(Slot::A)?, inputs.get(Slot::B)?);
    let (len_a, len_b) = (u.slots * u.d_e * inputs.rank, u.slots * u.d_v * inputs.rank);
    Some(LowRank {
        base,
        a: &a[view * len_a..][..len_a],
        b: &b[view * len_b..][..len_b],
        gate: None,
        rank: inputs.rank,
        scale: inputs.scale,
        index: &[],
    })
}
