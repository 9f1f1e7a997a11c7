//! Restriction maps of a learned model: base maps that all agents share, and what each view adds to them.
//!
//! F_i[s] = R[s] + (alpha / rank)·A_i[s]·B_i[s]ᵀ, with R one map per slot or one for all. How the maps reach the solver
//! depends on their sizes alone ([`Form`]); the parameters are the same in every form.
//!
//! | form | what a batch holds | taken where |
//! | --- | --- | --- |
//! | stacks | a dense stack per distinct view | a stack is small |
//! | packed | one base and packed factors per distinct view | one base for all slots |
//! | shared | G, Gᵀ and C = G Gᵀ; factors per agent | everything else, and CG in Gram space |

use std::ops::Range;

use sheaf_admm::sheaf::{
    AgentUpdates, AgentUpdatesGrad, LowRank, LowRankGrad, Maps, MapsGrad, PackedLowRank, SharedMaps,
    SharedMapsGrad, SharedStack, SharedStackGrad, Sheaf, SheafOp, UpdateDims, ViewGroups, compose_low_rank,
    compose_low_rank_vjp, pack_base, pack_view, unpack_grad,
};
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::low_rank::LowRankShape;
use sheaf_kernels::stack::order_by_view;
use sheaf_kernels::tiles::tile_stacks;
use sheaf_kernels::vector::add;

use super::cayley::Cayley;
use super::heads::{Headed, Heads};
use super::section::{Choices, ConsensusKind, MapKind, ModelSection};
use super::spec::{MapStart, Spec};
use crate::init;
use crate::params::ParamLayout;
use crate::rng::Stream;

/// Largest dense stack, in numbers, that every view gets of its own.
const SMALL_STACK: usize = 1024;

/// Views whose factors are held at a time before they are packed.
const BLOCK: usize = 64;

/// How the maps reach the solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A dense stack per view.
    Stacks,
    /// One base, packed factors per view.
    Packed,
    /// One prepared stack for all agents, factors per agent.
    Shared,
}

/// The maps of a model: places of their parameters and how they are used.
#[derive(Clone, Debug)]
pub struct ModelMaps {
    form: Form,
    kind: MapKind,
    base: Range<usize>, // [bases, d_e, d_v]
    rank: usize,
    scale: f64,
    d_v: usize,
    d_e: usize,
    slots: usize,
    start: MapStart,
}

/// What depends on the parameters alone.
#[derive(Debug)]
pub struct PreparedMaps<T: Real> {
    base: AlignedVec<T>, // the packed base; the base of all slots or the orthogonal matrix, where maps are shared
    stack: SharedStack<T>,
    cayley: Cayley<T>,
    d_stack: AlignedVec<T>, // [m, d_v]
}

impl<T: Real> Default for PreparedMaps<T> {
    fn default() -> Self {
        let (base, stack, cayley, d_stack) = Default::default();
        Self { base, stack, cayley, d_stack }
    }
}

/// Maps of the distinct views of some samples.
#[derive(Clone, Debug, Default)]
pub struct MapTable<T: Copy + Default> {
    views: usize,
    a: AlignedVec<T>,      // [views, slots, d_e, rank]; of BLOCK views where they are packed
    b: AlignedVec<T>,      // [views, slots, d_v, rank]; likewise
    stacks: AlignedVec<T>, // [views, d_v, ld]
    tiles: AlignedVec<T>,  // [views, tile_len]
    packed: AlignedVec<T>, // [views, view_len]
}

/// Their gradients.
#[derive(Clone, Debug, Default)]
pub struct MapTableGrad<T: Copy + Default> {
    /// Of A.
    pub a: AlignedVec<T>,
    /// Of B.
    pub b: AlignedVec<T>,
    stacks: AlignedVec<T>, // [views, d_v, ld]
}

/// The maps of the agents of the samples at hand.
#[derive(Debug)]
pub struct MapIndex<T: Real> {
    order: Vec<u32>,         // [agents], sorted by view
    counts: Vec<u32>,        // [views + 1]
    groups: Vec<ViewGroups>, // [samples]
    updates: AgentUpdates<T>,
    a: AlignedVec<T>, // [agents, slots, d_e, rank]
    b: AlignedVec<T>, // [agents, slots, d_v, rank]
}

impl<T: Real> Default for MapIndex<T> {
    fn default() -> Self {
        let (order, counts, groups, updates, a, b) = Default::default();
        Self { order, counts, groups, updates, a, b }
    }
}

/// Gradients of the maps of the samples at hand.
#[derive(Debug)]
pub struct MapGrad<T: Real> {
    stacks: AlignedVec<T>, // [views of the samples, d_v, ld]
    updates: AgentUpdatesGrad<T>,
    a: AlignedVec<T>,
    b: AlignedVec<T>,
}

impl<T: Real> Default for MapGrad<T> {
    fn default() -> Self {
        let (stacks, updates, a, b) = Default::default();
        Self { stacks, updates, a, b }
    }
}

impl ModelMaps {
    /// Declares the base maps.
    pub fn new(layout: &mut ParamLayout, section: &ModelSection, choices: &Choices, spec: &Spec) -> Self {
        let (d_v, d_e) = (section.d_v, section.d_e);
        let base = match (choices.maps, choices.global) {
            (MapKind::Orthonormal, _) => layout.add("maps/skew", &[d_v, d_v]),
            (_, true) => layout.add("maps/base", &[d_e, d_v]),
            _ if spec.slot_names.is_empty() => layout.add("maps", &[spec.slots, d_e, d_v]),
            _ => {
                let start = layout.len();
                let each = |name: &&str| layout.add(format!("maps/{name}"), &[d_e, d_v]).end;
                let end = spec.slot_names.iter().map(each).last().unwrap_or(start);
                start..end
            }
        };
        let gram = matches!(choices.consensus, ConsensusKind::Gram | ConsensusKind::ClosedForm);
        let form = match choices.maps {
            MapKind::Orthonormal => Form::Shared,
            _ if gram => Form::Shared,
            _ if spec.slots * d_e * d_v <= SMALL_STACK => Form::Stacks,
            _ if choices.global => Form::Packed,
            _ => Form::Shared,
        };
        let rank = if choices.maps == MapKind::LowRank { section.rank } else { 0 };
        let scale = section.alpha / section.rank.max(1) as f64;
        let (kind, slots, start) = (choices.maps, spec.slots, spec.map_start);
        Self { form, kind, base, rank, scale, d_v, d_e, slots, start }
    }

    /// How the maps reach the solver.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Where the base maps lie.
    pub fn base(&self) -> Range<usize> {
        self.base.clone()
    }

    /// Whether gradients reach the base.
    pub fn trained(&self) -> bool {
        self.kind != MapKind::Identity
    }

    fn scale<T: Real>(&self) -> T {
        T::from_f64(self.scale)
    }

    /// Writes the initial values.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        let base = &mut params[self.base.clone()];
        if let (MapKind::Orthonormal, MapStart::SoftSlice(noise)) = (self.kind, self.start) {
            // Q ≈ I − 2A with A = S − Sᵀ: the deviation of Q is 2√2 times that of S.
            let deviation = noise / 8f64.sqrt();
            base.iter_mut().for_each(|s| *s = T::from_f64(deviation * stream.normal()));
            return;
        }
        for (slot, map) in base.chunks_exact_mut(self.d_e * self.d_v).enumerate() {
            match self.start {
                _ if !self.trained() => init::identity(map, self.d_v),
                MapStart::Orthonormal => init::orthonormal(map, self.d_v, stream),
                MapStart::SoftSlice(noise) => init::soft_slice(map, self.d_v, slot, noise, stream),
            }
        }
    }

    fn shape(&self, sheaf: &Sheaf) -> Result<LowRankShape> {
        PackedLowRank::<f32>::shape(sheaf, self.rank)
    }

    /// Prepares for these parameters.
    pub fn prepare<T: Real>(&self, params: &[T], sheaf: &Sheaf, p: &mut PreparedMaps<T>) -> Result<()> {
        let own = &params[self.base.clone()];
        match self.form {
            Form::Stacks => Ok(()),
            Form::Packed => {
                let shape = self.shape(sheaf)?;
                p.base.ensure(shape.base_len());
                pack_base(shape, own, &mut p.base[..shape.base_len()])
            }
            Form::Shared => {
                let len = self.slots * self.d_e * self.d_v;
                p.base.ensure(len);
                let all = &mut p.base[..len];
                match self.kind {
                    MapKind::Orthonormal => p.cayley.forward(self.d_v, own, all),
                    _ => all.chunks_exact_mut(own.len()).for_each(|slots| slots.copy_from_slice(own)),
                }
                p.stack.prepare(all, self.d_v)
            }
        }
    }

    /// Adjoint of [`prepare`](Self::prepare) where maps are shared: adds to `d_params`.
    pub fn prepare_vjp<T: Real>(
        &self,
        p: &mut PreparedMaps<T>,
        grad: &SharedStackGrad<T>,
        d_params: &mut [T],
    ) -> Result<()> {
        if self.form != Form::Shared || !self.trained() {
            return Ok(());
        }
        let (len, d_base) = (self.slots * self.d_e * self.d_v, &mut d_params[self.base.clone()]);
        p.d_stack.ensure(len);
        let d_stack = &mut p.d_stack[..len];
        d_stack.fill(T::ZERO);
        p.stack.vjp(grad, d_stack)?;
        match self.kind {
            MapKind::Orthonormal => p.cayley.vjp(self.d_v, d_stack, d_base),
            _ => d_stack.chunks_exact(d_base.len()).for_each(|slots| add(d_base, slots)),
        }
        Ok(())
    }

    /// Zeros for the gradient of what was prepared.
    pub fn reset_shared<T: Real>(&self, p: &PreparedMaps<T>, grad: &mut SharedStackGrad<T>) {
        if self.form == Form::Shared {
            grad.reset(&p.stack);
        }
    }

    /// The maps of `views` views, after their heads.
    pub fn tabulate<T: Real>(
        &self,
        params: &[T],
        sheaf: &Sheaf,
        heads: &Heads,
        headed: &Headed<T>,
        views: usize,
        t: &mut MapTable<T>,
    ) -> Result<()> {
        t.views = views;
        let (a_len, b_len) = heads.factor_lens();
        let held = if self.form == Form::Packed { views.min(BLOCK) } else { views };
        t.a.ensure(held * a_len);
        t.b.ensure(held * b_len);
        match self.form {
            Form::Packed => self.pack(params, sheaf, heads, headed, t),
            Form::Stacks => {
                heads.factors(params, 0..views, headed, &mut t.a[..views * a_len], &mut t.b[..views * b_len]);
                let u = sheaf.as_uniform().expect("learned maps have one size");
                t.stacks.ensure(views * u.d_v * u.ld);
                let stacks = &mut t.stacks[..views * u.d_v * u.ld];
                compose_low_rank(
                    sheaf,
                    &self.low_rank(params, &t.a[..views * a_len], &t.b[..views * b_len]),
                    stacks,
                )?;
                if sheaf.tile_len() > 0 {
                    t.tiles.ensure(views * sheaf.tile_len());
                    tile_stacks(stacks, &mut t.tiles);
                }
                Ok(())
            }
            Form::Shared => {
                heads.factors(params, 0..views, headed, &mut t.a[..views * a_len], &mut t.b[..views * b_len]);
                Ok(())
            }
        }
    }

    fn pack<T: Real>(
        &self,
        params: &[T],
        sheaf: &Sheaf,
        heads: &Heads,
        headed: &Headed<T>,
        t: &mut MapTable<T>,
    ) -> Result<()> {
        let shape = self.shape(sheaf)?;
        let view_len = shape.view_len();
        t.packed.ensure(t.views * view_len);
        if view_len == 0 {
            return Ok(());
        }
        let (a_len, b_len) = heads.factor_lens();
        for first in (0..t.views).step_by(BLOCK) {
            let last = (first + BLOCK).min(t.views);
            let (a, b) = (&mut t.a[..(last - first) * a_len], &mut t.b[..(last - first) * b_len]);
            heads.factors(params, first..last, headed, a, b);
            let packed = t.packed[first * view_len..last * view_len].chunks_exact_mut(view_len);
            for ((a, b), view) in a.chunks_exact(a_len).zip(b.chunks_exact(b_len)).zip(packed) {
                pack_view(shape, a, b, self.scale(), view)?;
            }
        }
        Ok(())
    }

    fn low_rank<'a, T: Real>(&self, params: &'a [T], a: &'a [T], b: &'a [T]) -> LowRank<'a, T> {
        let base = &params[self.base.clone()];
        LowRank { base, a, b, gate: None, rank: self.rank, scale: self.scale(), index: &[] }
    }

    /// Finds the maps of the agents of the samples at hand, whose views are `index` `[samples, agents]`.
    pub fn group<T: Real>(
        &self,
        sheaf: &Sheaf,
        p: &PreparedMaps<T>,
        t: &MapTable<T>,
        index: &[u32],
        own: &mut MapIndex<T>,
    ) -> Result<()> {
        let agents = sheaf.agents();
        match self.form {
            Form::Stacks => {
                own.order.resize(index.len(), 0);
                own.counts.resize(t.views + 1, 0);
                for (index, order) in index.chunks(agents).zip(own.order.chunks_mut(agents)) {
                    order_by_view(index, t.views, &mut own.counts, order);
                }
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
            Form::Shared => {}
        }
        Ok(())
    }

    fn dims(&self) -> UpdateDims {
        UpdateDims { slots: self.slots, d_v: self.d_v, d_e: self.d_e, rank: self.rank }
    }

    /// Numbers of A and B of a view.
    fn factor_lens(&self) -> (usize, usize) {
        (self.slots * self.rank * self.d_e, self.slots * self.rank * self.d_v)
    }

    /// The maps of the samples at hand, as the solver takes them.
    pub fn op<'a, T: Real>(
        &self,
        sheaf: &'a Sheaf,
        p: &'a PreparedMaps<T>,
        t: &'a MapTable<T>,
        index: &'a [u32],
        own: &'a MapIndex<T>,
    ) -> Result<SheafOp<'a, T>> {
        let maps = match self.form {
            Form::Stacks => {
                let u = sheaf.as_uniform().expect("learned maps have one size");
                let stacks = &t.stacks[..t.views * u.d_v * u.ld];
                let tiles = &t.tiles[..t.views * sheaf.tile_len()];
                Maps::Table { stacks, index, order: &own.order, tiles }
            }
            Form::Packed => {
                let shape = self.shape(sheaf)?;
                Maps::Packed(PackedLowRank {
                    base: &p.base[..shape.base_len()],
                    views: &t.packed[..t.views * shape.view_len()],
                    rank: self.rank,
                    agents: &own.groups,
                })
            }
            Form::Shared if self.rank > 0 => Maps::Shared(SharedMaps::with_updates(&p.stack, &own.updates)),
            Form::Shared => Maps::Shared(SharedMaps::new(&p.stack)),
        };
        SheafOp::batch(sheaf, maps, index.len() / sheaf.agents())
    }

    /// Where the solver adds the gradients of the maps of the samples at hand.
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
            Form::Stacks => MapsGrad::Table(&mut table.stacks[..views * u.d_v * u.ld]),
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

    /// Takes the gradients of the samples at hand to those of their views and of the base.
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
            Form::Stacks => Ok(()),
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

    /// Adjoint of [`tabulate`](Self::tabulate) as far as the maps go: fills `table.a` and `table.b`, adds to the base.
    pub fn tabulate_vjp<T: Real>(
        &self,
        params: &[T],
        sheaf: &Sheaf,
        heads: &Heads,
        t: &MapTable<T>,
        table: &mut MapTableGrad<T>,
        d_params: &mut [T],
    ) -> Result<()> {
        if self.form != Form::Stacks || !self.trained() {
            return Ok(());
        }
        let (a_len, b_len) = heads.factor_lens();
        let u = sheaf.as_uniform().expect("learned maps have one size");
        let MapTableGrad { a, b, stacks } = table;
        let low = self.low_rank(params, &t.a[..t.views * a_len], &t.b[..t.views * b_len]);
        let base = &mut d_params[self.base.clone()];
        let (a, b) = (&mut a[..t.views * a_len], &mut b[..t.views * b_len]);
        let mut grad = LowRankGrad { base, a, b, gate: None };
        compose_low_rank_vjp(sheaf, &low, &stacks[..t.views * u.d_v * u.ld], &mut grad)
    }

    /// Zeros for so many views.
    pub fn reset_grad<T: Real>(
        &self,
        sheaf: &Sheaf,
        heads: &Heads,
        views: usize,
        table: &mut MapTableGrad<T>,
    ) {
        let (a_len, b_len) = heads.factor_lens();
        let u = sheaf.as_uniform().expect("learned maps have one size");
        let stacks = if self.form == Form::Stacks { views * u.d_v * u.ld } else { 0 };
        for (buffer, len) in
            [(&mut table.a, views * a_len), (&mut table.b, views * b_len), (&mut table.stacks, stacks)]
        {
            buffer.ensure(len);
            buffer[..len].fill(T::ZERO);
        }
    }
}

impl<T: Real> MapTableGrad<T> {
    /// Adds the gradients of the same views from elsewhere.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.a, &other.a);
        add(&mut self.b, &other.b);
        add(&mut self.stacks, &other.stacks);
    }
}
