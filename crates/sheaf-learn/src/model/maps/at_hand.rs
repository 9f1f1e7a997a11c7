//! The maps of a worker's current samples, and their gradients.

use sheaf_admm::sheaf::{
    AgentUpdates, AgentUpdatesGrad, Maps, MapsGrad, PackedLowRank, SharedMaps, SharedMapsGrad,
    SharedStackGrad, Sheaf, SheafOp, UpdateDims, ViewGroups, unpack_grad,
};
use sheaf_admm::{Error, ErrorKind, Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::stack::order_by_view;
use sheaf_kernels::vector::add;

use super::{Form, MapTable, MapTableGrad, ModelMaps, PreparedMaps};

/// The maps of the agents of the current samples.
#[derive(Debug)]
pub struct MapIndex<T: Real> {
    numbers: Vec<u32>, // [agents], the number of every agent in its sample, if its maps are its own
    order: Vec<u32>,   // [agents], sorted by view
    counts: Vec<u32>,  // [views + 1]
    groups: Vec<ViewGroups>, // [samples]
    updates: AgentUpdates<T>,
    pub(super) a: AlignedVec<T>, // [agents, slots, d_e, rank]
    pub(super) b: AlignedVec<T>, // [agents, slots, d_v, rank]
}

impl<T: Real> Default for MapIndex<T> {
    fn default() -> Self {
        let (numbers, order, counts, groups, updates, a, b) = Default::default();
        Self { numbers, order, counts, groups, updates, a, b }
    }
}

/// Gradients of the maps of the current samples.
#[derive(Debug)]
pub struct MapGrad<T: Real> {
    pub(super) stacks: AlignedVec<T>, // [views of the samples, d_v, ld]
    updates: AgentUpdatesGrad<T>,
    pub(super) a: AlignedVec<T>,
    pub(super) b: AlignedVec<T>,
}

impl<T: Real> Default for MapGrad<T> {
    fn default() -> Self {
        let (stacks, updates, a, b) = Default::default();
        Self { stacks, updates, a, b }
    }
}

impl ModelMaps {
    /// Finds the maps of the agents of the current samples, whose views are `index` `[samples, agents]`.
    pub fn group<T: Real>(
        &self,
        sheaf: &Sheaf,
        p: &PreparedMaps<T>,
        t: &MapTable<T>,
        index: &[u32],
        own: &mut MapIndex<T>,
    ) -> Result<()> {
        // A rank may own no agents.
        let agents = sheaf.agents().max(1);
        match self.form {
            Form::Stacks => {
                own.order.resize(index.len(), 0);
                own.counts.resize(t.views + 1, 0);
                for (index, order) in index.chunks(agents).zip(own.order.chunks_mut(agents)) {
                    order_by_view(index, t.views, &mut own.counts, order);
                }
            }
            Form::Agents => {
                own.numbers.clear();
                own.numbers.extend((0..index.len()).map(|k| (k % agents) as u32));
            }
            Form::Packed => {
                own.groups.resize_with(index.len() / agents, ViewGroups::default);
                let samples = own.groups.iter_mut().zip(index.chunks_exact(agents));
                samples.for_each(|(groups, index)| groups.set(sheaf, index));
            }
            Form::Shared if self.rank > 0 => {
                let (a_len, b_len) = self.factor_lens();
                own.a.ensure(index.len() * a_len);
                own.b.ensure(index.len() * b_len);
                for (k, &view) in index.iter().enumerate() {
                    let view = view as usize;
                    own.a[k * a_len..][..a_len].copy_from_slice(&t.a[view * a_len..][..a_len]);
                    own.b[k * b_len..][..b_len].copy_from_slice(&t.b[view * b_len..][..b_len]);
                }
                let (a, b) = (&own.a[..index.len() * a_len], &own.b[..index.len() * b_len]);
                own.updates.prepare(&p.stack, self.dims(), self.scale(), a, b)?;
            }
            Form::None | Form::Shared => {}
        }
        Ok(())
    }

    fn dims(&self) -> UpdateDims {
        UpdateDims { slots: self.slots, d_v: self.d_v, d_e: self.d_e, rank: self.rank }
    }

    /// Sizes of A and B of a view.
    fn factor_lens(&self) -> (usize, usize) {
        (self.slots * self.rank * self.d_e, self.slots * self.rank * self.d_v)
    }

    /// The maps of the current samples, in the form the solver takes.
    pub fn op<'a, T: Real>(
        &self,
        sheaf: &'a Sheaf,
        p: &'a PreparedMaps<T>,
        t: &'a MapTable<T>,
        index: &'a [u32],
        own: &'a MapIndex<T>,
    ) -> Result<SheafOp<'a, T>> {
        let maps = match self.form {
            Form::None => {
                let (place, want) = ("model.coordination", "\"admm\" for what needs restriction maps");
                return Err(Error::new(ErrorKind::Unsupported, place, want, "a model without maps"));
            }
            Form::Stacks => {
                let u = sheaf.as_uniform().expect("learned maps have one size");
                let stacks = &t.stacks[..t.views * u.d_v * u.ld];
                let tiles = &t.tiles[..t.views * sheaf.tile_len()];
                Maps::Table { stacks, index, order: &own.order, tiles }
            }
            Form::Agents => {
                let stacks = &p.base[..self.agents * self.stack_len(sheaf)];
                let tiles = &p.tiles[..self.agents * sheaf.tile_len()];
                Maps::Table { stacks, index: &own.numbers, order: &[], tiles }
            }
            Form::Packed => {
                let shape = self.shape(sheaf)?;
                Maps::Packed(PackedLowRank {
                    base: &p.base[..shape.base_len()],
                    views: &t.packed[..t.views * shape.view_len()],
                    rank: self.rank,
                    precision: self.precision,
                    agents: &own.groups,
                })
            }
            Form::Shared if self.rank > 0 => Maps::Shared(SharedMaps::with_updates(&p.stack, &own.updates)),
            Form::Shared => Maps::Shared(SharedMaps::new(&p.stack)),
        };
        let samples = index.len().checked_div(sheaf.agents()).unwrap_or(1);
        SheafOp::batch(sheaf, maps, samples)
    }

    /// Where the solver accumulates the gradients of the maps of the current samples.
    pub fn grad<'a, T: Real>(
        &self,
        sheaf: &Sheaf,
        views: usize,
        index: &MapIndex<T>,
        table: &'a mut MapTableGrad<T>,
        shared: &'a mut SharedStackGrad<T>,
        own: &'a mut MapGrad<T>,
    ) -> MapsGrad<'a, T> {
        let u = sheaf.as_uniform().expect("learned maps have one size");
        match self.form {
            _ if !self.trained() => MapsGrad::None,
            Form::None => MapsGrad::None,
            Form::Stacks => MapsGrad::Table(&mut table.stacks[..views * u.d_v * u.ld]),
            Form::Agents => MapsGrad::Table(&mut table.stacks[..self.agents * u.d_v * u.ld]),
            Form::Packed => {
                let views: usize = index.groups.iter().map(|groups| groups.views().len()).sum();
                let len = views * u.d_v * u.ld;
                own.stacks.ensure(len);
                own.stacks[..len].fill(T::ZERO);
                MapsGrad::Packed(&mut own.stacks[..len])
            }
            Form::Shared => {
                let updates = (self.rank > 0).then(|| {
                    own.updates.reset(&index.updates);
                    &mut own.updates
                });
                MapsGrad::Shared(SharedMapsGrad { stack: shared, updates })
            }
        }
    }

    /// Propagates the gradients of the current samples to those of their views and of the base.
    pub fn scatter<T: Real>(
        &self,
        sheaf: &Sheaf,
        p: &PreparedMaps<T>,
        t: &MapTable<T>,
        views: &[u32],
        index: &MapIndex<T>,
        own: &mut MapGrad<T>,
        table: &mut MapTableGrad<T>,
        shared: &mut SharedStackGrad<T>,
        d_params: &mut [T],
    ) -> Result<()> {
        let (a_len, b_len) = self.factor_lens();
        match self.form {
            _ if !self.trained() => Ok(()),
            Form::None | Form::Stacks | Form::Agents => Ok(()),
            Form::Packed => {
                let shape = self.shape(sheaf)?;
                let (stack, view_len) = (shape.d_v * shape.ld, shape.view_len());
                let of_samples = index.groups.iter().flat_map(|groups| groups.views());
                for (d_stack, &view) in own.stacks.chunks_exact(stack).zip(of_samples) {
                    let view = view as usize;
                    unpack_grad(
                        shape,
                        &t.packed[view * view_len..][..view_len],
                        d_stack,
                        self.scale(),
                        &mut d_params[self.base.clone()],
                        &mut table.a[view * a_len..][..a_len],
                        &mut table.b[view * b_len..][..b_len],
                    )?;
                }
                Ok(())
            }
            Form::Shared if self.rank > 0 => {
                own.a.ensure(views.len() * a_len);
                own.b.ensure(views.len() * b_len);
                let (d_a, d_b) = (&mut own.a[..views.len() * a_len], &mut own.b[..views.len() * b_len]);
                index.updates.prepare_vjp(&p.stack, &mut own.updates, d_a, d_b, shared)?;
                for ((&view, d_a), d_b) in
                    views.iter().zip(d_a.chunks_exact(a_len)).zip(d_b.chunks_exact(b_len))
                {
                    add(&mut table.a[view as usize * a_len..][..a_len], d_a);
                    add(&mut table.b[view as usize * b_len..][..b_len], d_b);
                }
                Ok(())
            }
            Form::Shared => Ok(()),
        }
    }
}
