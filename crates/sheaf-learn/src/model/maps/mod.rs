//! Restriction maps of a learned model: base maps shared by all agents, plus a LoRA update per view.
//!
//! `F_i[s] = R[s] + (alpha / rank)·A_i[s]·B_i[s]ᵀ`, with R one map per slot or one for all. The form in which the maps
//! reach the solver depends only on their sizes ([`Form`]); the parameters are the same in every form. Without an update,
//! every agent can have base maps of its own.
//!
//! | form | what a batch holds | used when |
//! | --- | --- | --- |
//! | stacks | a dense stack per distinct view | a stack is small |
//! | agents | a dense stack per agent | every agent has its own base maps |
//! | packed | one base and packed factors per distinct view | one base for all slots |
//! | shared | G, Gᵀ and C = G Gᵀ; factors per agent | everything else, and CG in Gram space |

mod at_hand;
mod table;

pub use at_hand::{MapGrad, MapIndex};
pub use table::{MapTable, MapTableGrad};

use std::ops::Range;

use sheaf_admm::sheaf::{PackedLowRank, SharedStack, SharedStackGrad, Sheaf, pack_base};
use sheaf_admm::{Error, ErrorKind, Precision, Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::low_rank::{self, LowRankShape};
use sheaf_kernels::tiles::tile_stacks;
use sheaf_kernels::vector::{add, dot};

use crate::init;
use crate::model::cayley::Cayley;
use crate::model::section::{Choices, ConsensusKind, MapKind, ModelSection, Sharing};
use crate::model::spec::{MapStart, Spec};
use crate::params::ParamLayout;
use crate::rng::Stream;

/// Largest dense stack, in numbers, that is stored per view.
const SMALL_STACK: usize = 1024;

/// The form in which the maps reach the solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// No maps: the agents do not run ADMM.
    None,
    /// A dense stack per view.
    Stacks,
    /// A dense stack per agent.
    Agents,
    /// One base, packed factors per view.
    Packed,
    /// One prepared stack for all agents, factors per agent.
    Shared,
}

/// The maps of a model: the ranges of their parameters, and their form.
#[derive(Clone, Debug)]
pub struct ModelMaps {
    form: Form,
    kind: MapKind,
    base: Range<usize>,   // [bases, d_e, d_v], or [agents, slots, d_e, d_v]
    scales: Range<usize>, // [d_e], logarithms; empty without scales
    rank: usize,
    scale: f64,
    d_v: usize,
    d_e: usize,
    slots: usize,
    agents: usize, // that have base maps of their own; 0 if these are shared
    start: MapStart,
    precision: Precision,
}

/// What depends only on the parameters.
#[derive(Debug)]
pub struct PreparedMaps<T: Real> {
    /// The packed base; the base of all slots or the orthogonal matrix, where maps are shared; the stacks of the agents.
    base: AlignedVec<T>,
    tiles: AlignedVec<T>, // [agents, tile_len], of the stacks of the agents
    stack: SharedStack<T>,
    cayley: Cayley<T>,
    d_stack: AlignedVec<T>, // [m, d_v]
}

impl<T: Real> Default for PreparedMaps<T> {
    fn default() -> Self {
        let (base, tiles, stack, cayley, d_stack) = Default::default();
        Self { base, tiles, stack, cayley, d_stack }
    }
}

impl ModelMaps {
    /// Declares the base maps.
    pub fn new(layout: &mut ParamLayout, section: &ModelSection, choices: &Choices, spec: &Spec) -> Self {
        let (d_v, d_e) = (section.d_v, section.d_e);
        let own = choices.admm() && choices.sharing == Sharing::Agent;
        let agents = if own { section.agents } else { 0 };
        let base = match (choices.maps, choices.sharing) {
            _ if !choices.admm() => layout.len()..layout.len(),
            (MapKind::Orthonormal, _) => layout.add("maps/skew", &[d_v, d_v]),
            (_, Sharing::Global) => layout.add("maps/base", &[d_e, d_v]),
            (_, Sharing::Agent) => layout.add("maps/agents", &[agents, spec.slots, d_e, d_v]),
            _ if spec.slot_names.is_empty() => layout.add("maps", &[spec.slots, d_e, d_v]),
            _ => {
                let start = layout.len();
                let each = |name: &&str| layout.add(format!("maps/{name}"), &[d_e, d_v]).end;
                let end = spec.slot_names.iter().map(each).last().unwrap_or(start);
                start..end
            }
        };
        let scaled = choices.admm() && choices.maps == MapKind::Orthonormal && section.scales;
        let scales = if scaled { layout.add("maps/scale", &[d_e]) } else { layout.len()..layout.len() };
        let gram = matches!(choices.consensus, ConsensusKind::Gram | ConsensusKind::ClosedForm);
        let form = match choices.maps {
            _ if !choices.admm() => Form::None,
            MapKind::Orthonormal => Form::Shared,
            _ if own => Form::Agents,
            _ if gram => Form::Shared,
            _ if spec.slots * d_e * d_v <= SMALL_STACK => Form::Stacks,
            _ if choices.sharing == Sharing::Global => Form::Packed,
            _ => Form::Shared,
        };
        let rank = if choices.admm() && choices.maps == MapKind::LowRank { section.rank } else { 0 };
        let scale = section.alpha / section.rank.max(1) as f64;
        let (kind, slots, start) = (choices.maps, spec.slots, spec.map_start);
        let precision = Precision::Full;
        Self { form, kind, base, scales, rank, scale, d_v, d_e, slots, agents, start, precision }
    }

    /// Sets the precision of the products, forward and adjoint. Packed maps stay in full precision where that is faster.
    pub fn set_precision(&mut self, precision: Precision) {
        let stays = self.form == Form::Packed && !low_rank::gains_from_bf16();
        self.precision = if stays { Precision::Full } else { precision };
    }

    /// The form in which the maps reach the solver.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The range of the base maps in the parameter vector.
    pub fn base(&self) -> Range<usize> {
        self.base.clone()
    }

    /// Whether the base receives gradients.
    pub fn trained(&self) -> bool {
        self.form != Form::None && self.kind != MapKind::Identity
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
        for (k, map) in base.chunks_exact_mut(self.d_e * self.d_v).enumerate() {
            let slot = k % self.slots;
            match self.start {
                _ if !self.trained() => init::identity(map, self.d_v),
                MapStart::Orthonormal => init::orthonormal(map, self.d_v, stream),
                MapStart::SoftSlice(noise) => init::soft_slice(map, self.d_v, slot, noise, stream),
            }
        }
    }

    fn shape(&self, sheaf: &Sheaf) -> Result<LowRankShape> {
        Ok(PackedLowRank::<f32>::shape(sheaf, self.rank)?.in_precision::<f32>(self.precision))
    }

    /// Prepares the maps for these parameters.
    pub fn prepare<T: Real>(&self, params: &[T], sheaf: &Sheaf, p: &mut PreparedMaps<T>) -> Result<()> {
        let own = &params[self.base.clone()];
        match self.form {
            Form::None | Form::Stacks => Ok(()),
            Form::Agents => self.stack_agents(own, sheaf, p),
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
                    MapKind::Orthonormal => {
                        p.cayley.forward(self.d_v, own, all);
                        self.lengthen(&params[self.scales.clone()], all);
                    }
                    _ => all.chunks_exact_mut(own.len()).for_each(|slots| slots.copy_from_slice(own)),
                }
                p.stack.set_precision(self.precision)?;
                p.stack.prepare(all, self.d_v)
            }
        }
    }

    /// Writes the stack of every agent.
    fn stack_agents<T: Real>(&self, own: &[T], sheaf: &Sheaf, p: &mut PreparedMaps<T>) -> Result<()> {
        if sheaf.agents() != self.agents {
            let expected = format!("{} agents, as model.agents says", self.agents);
            return Err(Error::new(ErrorKind::Shape, "input of the model", expected, sheaf.agents())
                .hint("maps of every agent (model.sharing = \"agent\") fit inputs of one size only"));
        }
        let stack_len = self.stack_len(sheaf);
        p.base.ensure(self.agents * stack_len);
        let stacks = &mut p.base[..self.agents * stack_len];
        let rows = own.chunks_exact(own.len() / self.agents);
        for (stack, rows) in stacks.chunks_exact_mut(stack_len).zip(rows) {
            Sheaf::pack_stack(rows, self.d_v, stack)?;
        }
        if sheaf.tile_len() > 0 {
            p.tiles.ensure(self.agents * sheaf.tile_len());
            tile_stacks(stacks, &mut p.tiles);
        }
        Ok(())
    }

    /// Numbers in a dense stack.
    fn stack_len(&self, sheaf: &Sheaf) -> usize {
        let u = sheaf.as_uniform().expect("learned maps have one size");
        u.d_v * u.ld
    }

    /// Adjoint of [`prepare`](Self::prepare) where maps are shared: adds to `d_params`.
    pub fn prepare_vjp<T: Real>(
        &self,
        params: &[T],
        p: &mut PreparedMaps<T>,
        grad: &SharedStackGrad<T>,
        d_params: &mut [T],
    ) -> Result<()> {
        if self.form != Form::Shared || !self.trained() {
            return Ok(());
        }
        let len = self.slots * self.d_e * self.d_v;
        p.d_stack.ensure(len);
        let d_stack = &mut p.d_stack[..len];
        d_stack.fill(T::ZERO);
        p.stack.vjp(grad, d_stack)?;
        match self.kind {
            MapKind::Orthonormal => {
                self.lengthen_vjp(
                    &params[self.scales.clone()],
                    &p.base[..len],
                    d_stack,
                    &mut d_params[self.scales.clone()],
                );
                p.cayley.vjp(self.d_v, d_stack, &mut d_params[self.base.clone()]);
            }
            _ => {
                let d_base = &mut d_params[self.base.clone()];
                d_stack.chunks_exact(d_base.len()).for_each(|slots| add(d_base, slots));
            }
        }
        Ok(())
    }

    /// Multiplies row k of every slot by exp(scale k); a scale of 0 is a length of 1.
    fn lengthen<T: Real>(&self, scales: &[T], rows: &mut [T]) {
        if !scales.is_empty() {
            for (row, &scale) in rows.chunks_exact_mut(self.d_v).zip(scales.iter().cycle()) {
                let length = scale.exp();
                row.iter_mut().for_each(|v| *v *= length);
            }
        }
    }

    /// Adjoint of [`lengthen`](Self::lengthen), given the lengthened rows: adds to `d_scales`, and turns the gradient of
    /// the rows into that of rows of length 1.
    fn lengthen_vjp<T: Real>(&self, scales: &[T], rows: &[T], d_rows: &mut [T], d_scales: &mut [T]) {
        let pairs = rows.chunks_exact(self.d_v).zip(d_rows.chunks_exact(self.d_v));
        for (k, (row, d_row)) in pairs.enumerate().filter(|_| !scales.is_empty()) {
            d_scales[k % scales.len()] += dot(row, d_row);
        }
        self.lengthen(scales, d_rows);
    }

    /// Zeros for the gradient of the prepared maps.
    pub fn reset_shared<T: Real>(&self, p: &PreparedMaps<T>, grad: &mut SharedStackGrad<T>) {
        if self.form == Form::Shared {
            grad.reset(&p.stack);
        }
    }
}
