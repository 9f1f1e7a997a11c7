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
    LowRank, LowRankGrad, Maps, MapsGrad, PackedLowRank, Sheaf, SheafOp, ViewGroups, compose_low_rank,
    compose_low_rank_vjp, pack_base, pack_view, unpack_grad,
};
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::low_rank::LowRankShape;
use sheaf_kernels::stack::order_by_view;
use sheaf_kernels::tiles::tile_stacks;
use sheaf_kernels::vector::add;

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
    start: MapStart,
}

/// What depends on the parameters alone.
#[derive(Clone, Debug, Default)]
pub struct PreparedMaps<T: Copy + Default> {
    base: AlignedVec<T>, // the packed base
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

/// The agents of the samples at hand, sorted by view.
#[derive(Clone, Debug, Default)]
pub struct MapIndex {
    order: Vec<u32>,  // [agents]
    counts: Vec<u32>, // [views + 1]
    groups: ViewGroups,
}

/// Gradients of the maps of the samples at hand.
#[derive(Clone, Debug, Default)]
pub struct MapGrad<T: Copy + Default> {
    stacks: AlignedVec<T>, // [views of the samples, d_v, ld]
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
        Self { form, kind: choices.maps, base, rank, scale, d_v, d_e, start: spec.map_start }
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
        if self.form == Form::Packed {
            let shape = self.shape(sheaf)?;
            p.base.ensure(shape.base_len());
            pack_base(shape, &params[self.base.clone()], &mut p.base[..shape.base_len()])?;
        }
        Ok(())
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
                compose_low_rank(sheaf, &self.low_rank(params, &t.a[..views * a_len], &t.b[..views * b_len]), stacks)?;
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

    /// Sorts the agents of the samples at hand by view.
    pub fn group<T: Real>(&self, sheaf: &Sheaf, t: &MapTable<T>, index: &[u32], work: &mut MapIndex) {
        match self.form {
            Form::Stacks => {
                work.order.resize(index.len(), 0);
                work.counts.resize(t.views + 1, 0);
                order_by_view(index, t.views, &mut work.counts, &mut work.order);
            }
            Form::Packed => work.groups.set(sheaf, index),
            Form::Shared => {}
        }
    }

    /// The maps of the samples at hand, as the solver takes them.
    pub fn op<'a, T: Real>(
        &self,
        sheaf: &'a Sheaf,
        p: &'a PreparedMaps<T>,
        t: &'a MapTable<T>,
        index: &'a [u32],
        work: &'a MapIndex,
    ) -> Result<SheafOp<'a, T>> {
        let maps = match self.form {
            Form::Stacks => {
                let u = sheaf.as_uniform().expect("learned maps have one size");
                let stacks = &t.stacks[..t.views * u.d_v * u.ld];
                let tiles = &t.tiles[..t.views * sheaf.tile_len()];
                Maps::Table { stacks, index, order: &work.order, tiles }
            }
            Form::Packed => {
                let shape = self.shape(sheaf)?;
                Maps::Packed(PackedLowRank {
                    base: &p.base[..shape.base_len()],
                    views: &t.packed[..t.views * shape.view_len()],
                    rank: self.rank,
                    agents: &work.groups,
                })
            }
            Form::Shared => unimplemented!("shared maps"),
        };
        SheafOp::new(sheaf, maps)
    }

    /// Where the solver adds the gradients of the maps of the samples at hand.
    pub fn grad<'a, T: Real>(
        &self,
        sheaf: &Sheaf,
        views: usize,
        index: &MapIndex,
        table: &'a mut MapTableGrad<T>,
        own: &'a mut MapGrad<T>,
    ) -> MapsGrad<'a, T> {
        let u = sheaf.as_uniform().expect("learned maps have one size");
        match self.form {
            Form::Stacks => MapsGrad::Table(&mut table.stacks[..views * u.d_v * u.ld]),
            Form::Packed => {
                let len = index.groups.views().len() * u.d_v * u.ld;
                own.stacks.ensure(len);
                own.stacks[..len].fill(T::ZERO);
                MapsGrad::Packed(&mut own.stacks[..len])
            }
            Form::Shared => unimplemented!("shared maps"),
        }
    }

    /// Takes the gradients of the samples at hand to those of their views and of the base.
    pub fn scatter<T: Real>(
        &self,
        sheaf: &Sheaf,
        t: &MapTable<T>,
        index: &MapIndex,
        own: &MapGrad<T>,
        table: &mut MapTableGrad<T>,
        d_params: &mut [T],
    ) -> Result<()> {
        if self.form != Form::Packed || !self.trained() {
            return Ok(());
        }
        let shape = self.shape(sheaf)?;
        let (stack, view_len) = (shape.d_v * shape.ld, shape.view_len());
        let (a_len, b_len) = (shape.m() * shape.d_e, shape.m() * shape.d_v);
        for (local, &view) in index.groups.views().iter().enumerate() {
            let view = view as usize;
            unpack_grad(
                shape,
                &t.packed[view * view_len..][..view_len],
                &own.stacks[local * stack..][..stack],
                self.scale(),
                &mut d_params[self.base.clone()],
                &mut table.a[view * a_len..][..a_len],
                &mut table.b[view * b_len..][..b_len],
            )?;
        }
        Ok(())
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
        let ((a_len, b_len), u) = (heads.factor_lens(), sheaf.as_uniform().expect("learned maps have one size"));
        let MapTableGrad { a, b, stacks } = table;
        let low = self.low_rank(params, &t.a[..t.views * a_len], &t.b[..t.views * b_len]);
        let base = &mut d_params[self.base.clone()];
        let (a, b) = (&mut a[..t.views * a_len], &mut b[..t.views * b_len]);
        let mut grad = LowRankGrad { base, a, b, gate: None };
        compose_low_rank_vjp(sheaf, &low, &stacks[..t.views * u.d_v * u.ld], &mut grad)
    }

    /// Zeros for so many views.
    pub fn reset_grad<T: Real>(&self, sheaf: &Sheaf, heads: &Heads, views: usize, table: &mut MapTableGrad<T>) {
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
