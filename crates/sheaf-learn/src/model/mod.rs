//! A learned model: views → encoder → coordination → decoder → loss.
//!
//! ```text
//! views ─ distinct ─▶ encoder ─▶ heads: h, objective, factors of maps ─▶ K × (x → z → u) ─▶ decoder ─▶ outputs, loss
//! ```
//!
//! A task provides the two networks ([`Encoder`], [`Decoder`]), a [`Spec`] and its samples ([`Samples`]). Everything
//! between is shared by all tasks and configured by the keys of [`ModelSection`].
//!
//! | file | holds |
//! | --- | --- |
//! | `section`, `spec` | keys of an experiment; what a task fixes |
//! | `views` | distinct views of a batch |
//! | `net` | the traits of encoder and decoder |
//! | `heads`, `gates`, `maps`, `consensus` | from features to local problems, restriction maps, consensus solver |
//! | `messages` | message passing, the other kind of coordination |
//! | `prepared`, `tables` | what depends only on the parameters; what depends on a view |
//! | `worker` | some samples: gather, iterate, decode, and the reverse pass |
//! | `batch` | many samples on all cores, gradients added in a fixed order |
//! | `evaluate`, `single`, `settle` | answers to many samples; one observed sample; when a sample has settled |
//! | `inspect` | interventions on one sample; the local problem of an agent |
//! | `hot` | single solves and their parts, with buffers kept, for benchmarks |
//! | `horizon`, `loss` | iterations, loss window, adjoint; the loss of the outputs |

pub mod batch;
pub mod cayley;
pub mod consensus;
pub mod evaluate;
pub mod gates;
pub mod grid;
pub mod heads;
pub mod horizon;
pub mod hot;
pub mod inspect;
pub mod loss;
pub mod maps;
pub mod messages;
pub mod net;
pub mod nets;
pub mod prepared;
mod ranks;
pub mod section;
pub mod settle;
pub mod single;
pub mod spec;
pub mod tables;
pub mod views;
pub mod worker;

pub use batch::{Batch, BatchLoss, CHUNKS};
pub use grid::ViewGrid;
pub use horizon::{Disturbance, Horizon, Iterations};
pub use hot::HotPaths;
pub use loss::Loss;
pub use net::{Decoder, DecoderGrad, Encoder, Rows};
pub use prepared::Prepared;
pub use ranks::Ranks;
pub use section::{
    AggregationKind, Choices, ConsensusKind, CoordinationKind, MapKind, ModelSection, ObjectiveKind,
};
pub use spec::{LoraNorm, LoraStart, MapStart, Scope, Spec};
pub use tables::Tables;
pub use views::{Samples, Targets, Views};
pub use worker::Worker;

use std::ops::Range;

use sheaf_admm::{Error, ErrorKind, Precision, Real, Result};

use crate::init;
use crate::nn::activation::{inverse_softplus, sigmoid_of, softplus_of};
use crate::params::ParamLayout;
use crate::rng::Stream;
use heads::Heads;
use maps::{Form, ModelMaps};
use messages::Messages;

/// Layers, parameter layout and choices; no parameter values.
#[derive(Clone, Debug)]
pub struct Model<E, D> {
    section: ModelSection,
    choices: Choices,
    spec: Spec,
    loss: Loss,
    layout: ParamLayout,
    encoder: E,
    heads: Heads,
    maps: ModelMaps,
    messages: Option<Messages>,
    decoder: D,
    rho: Option<Range<usize>>,
    beta: Option<Range<usize>>,
    eta: Option<Range<usize>>,
    constraints: Range<usize>, // [objective_rows, d_v], shared by all agents; empty without constraints
    precision: Precision,
    /// Parameters that samples use directly; the others are used through tables.
    touched: Range<usize>,
}

impl<E: Encoder, D: Decoder> Model<E, D> {
    /// Checks the choices and declares all parameters: encoder, heads, maps, decoder, scalars.
    pub fn new(
        section: ModelSection,
        spec: Spec,
        loss: Loss,
        encoder: impl FnOnce(&mut ParamLayout) -> E,
        decoder: impl FnOnce(&mut ParamLayout) -> D,
    ) -> Result<Self> {
        let choices = section.check(spec.slots)?;
        let mut layout = ParamLayout::new();
        let encoder = encoder(&mut layout);
        let heads = Heads::new(&mut layout, &section, &choices, &spec, encoder.width(), encoder.h_width());
        let at_maps = layout.len();
        let maps = ModelMaps::new(&mut layout, &section, &choices, &spec);
        let talks = choices.coordination == CoordinationKind::MessagePassing;
        let messages = talks.then(|| Messages::new(&mut layout, &section, &choices, spec.slots));
        let at_decoder = if talks { at_maps } else { layout.len() };
        let decoder = decoder(&mut layout);
        let admm = choices.admm();
        let rho = (admm && !choices.per_agent).then(|| layout.add("rho", &[]));
        // The published baseline of message passing has the strength of a tether that it never reads: it is declared, so
        // that counts and weights are the published ones.
        let beta = (choices.tether() || talks).then(|| layout.add("beta", &[]));
        let learned = admm && section.eta_learned && consensus::learns_eta(choices.consensus);
        let eta = learned.then(|| layout.add("eta", &[]));
        let constrained = admm && matches!(choices.objective, ObjectiveKind::Equality | ObjectiveKind::Qp);
        let constraints = match constrained {
            true => layout.add("objective/constraints", &[section.objective_rows, section.d_v]),
            false => 0..0,
        };
        layout.check()?;
        let first = match (spec.scope, maps.form()) {
            (Scope::Samples(_), _) => 0,
            (Scope::Batch, Form::None | Form::Stacks | Form::Agents) => at_decoder,
            (Scope::Batch, _) => at_maps,
        };
        let touched = first..layout.len();
        Ok(Self {
            section,
            choices,
            spec,
            loss,
            layout,
            encoder,
            heads,
            maps,
            messages,
            decoder,
            rho,
            beta,
            eta,
            constraints,
            precision: Precision::Full,
            touched,
        })
    }

    /// The same model with products in this precision: those of encoder, heads, decoder, messages, shared and packed
    /// maps, forward and adjoint. Sums, parameters, norms, losses and the scalars of the solver keep their
    /// own precision. Refused where the solver promises more digits than bf16 has.
    pub fn in_precision(mut self, precision: Precision) -> Result<Self> {
        let tight = match self.choices.consensus {
            _ if precision == Precision::Full || !self.choices.admm() => None,
            ConsensusKind::Exact => Some("model.consensus = \"exact\"".into()),
            _ if self.section.cg_tolerance > 0.0 => {
                Some(format!("model.cg_tolerance = {}", self.section.cg_tolerance))
            }
            _ => None,
        };
        if let Some(got) = tight {
            let expected = "\"f32\" where consensus is solved to a tolerance: bf16 has three digits";
            return Err(Error::new(
                ErrorKind::Unsupported,
                "train.precision",
                expected,
                format!("\"bf16\" with {got}"),
            )
            .hint("set train.precision = \"f32\", or a fixed number of steps: model.cg_tolerance = 0"));
        }
        self.precision = precision;
        self.encoder.set_precision(precision);
        self.heads.set_precision(precision);
        self.decoder.set_precision(precision);
        self.maps.set_precision(precision);
        self.messages.iter_mut().for_each(|messages| messages.set_precision(precision));
        Ok(self)
    }

    /// Sets the CG steps of a consensus step, `model.cg_steps`.
    pub fn set_cg_steps(&mut self, steps: usize) {
        self.section.cg_steps = steps;
    }

    /// The precision of the products.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The keys the model was built from.
    pub fn section(&self) -> &ModelSection {
        &self.section
    }

    /// The choices of these keys.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// What the task fixes.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Names and shapes of the parameters.
    pub fn layout(&self) -> &ParamLayout {
        &self.layout
    }

    /// The encoder.
    pub fn encoder(&self) -> &E {
        &self.encoder
    }

    /// The decoder.
    pub fn decoder(&self) -> &D {
        &self.decoder
    }

    /// The loss.
    pub fn loss(&self) -> Loss {
        self.loss
    }

    /// Initial parameters of a seed.
    pub fn init<T: Real>(&self, seed: u64) -> Vec<T> {
        let mut params = vec![T::ZERO; self.layout.len()];
        let stream = &mut Stream::new(seed, self.spec.stream, 0, 0);
        self.encoder.init(&mut params, stream);
        self.heads.init(&mut params, stream);
        self.maps.init(&mut params, stream);
        if let Some(messages) = &self.messages {
            messages.init(&mut params, stream);
        }
        self.decoder.init(&mut params, stream);
        if !self.constraints.is_empty() {
            init::orthonormal(&mut params[self.constraints()], self.section.d_v, stream);
        }
        params
    }

    /// The range of the constraints' rows that all agents share.
    fn constraints(&self) -> Range<usize> {
        self.constraints.clone()
    }

    /// rho = softplus(raw + softplus⁻¹(initial)) and its derivative by raw (0 when it is not learned).
    pub fn rho<T: Real>(&self, params: &[T]) -> (T, T) {
        positive(params, &self.rho, self.section.rho_init, self.section.rho_learned)
    }

    /// The strength of the tether and its derivative, in the same way; 1 at the start.
    fn beta<T: Real>(&self, params: &[T]) -> (T, T) {
        positive(params, &self.beta, 1.0, true)
    }

    /// The step size of descent and its derivative, in the same way.
    fn eta<T: Real>(&self, params: &[T]) -> (T, T) {
        positive(params, &self.eta, self.section.eta_init, true)
    }

    /// The horizon of a training step: without coordination nothing iterates, and the one state enters the loss.
    pub fn horizon(&self, horizon: Horizon) -> Horizon {
        match self.choices.coordination {
            CoordinationKind::None => Horizon::whole(0, 1),
            _ => horizon,
        }
    }

    /// The iterations that run if `asked` are asked for: none without coordination.
    pub fn iterations(&self, asked: usize) -> usize {
        if self.choices.coordination == CoordinationKind::None { 0 } else { asked }
    }

    /// Number of samples whose views are encoded together; `None` if a whole batch shares them.
    pub fn encoded_together(&self) -> Option<usize> {
        match self.spec.scope {
            Scope::Batch => None,
            Scope::Samples(count) => Some(count.max(1).next_multiple_of(self.tile())),
        }
    }

    /// Number of samples that a worker solves together: more than one where the products of a tile form one matrix
    /// product (always in message passing), but never with balancing, which changes the penalty per sample.
    pub fn tile(&self) -> usize {
        if self.messages.is_some() {
            return 2 * self.spec.tile;
        }
        let batched = self.choices.admm()
            && matches!(self.choices.consensus, ConsensusKind::Gram | ConsensusKind::ClosedForm);
        if batched && !self.section.balancing { self.spec.tile } else { 1 }
    }
}

/// softplus(raw + softplus⁻¹(initial)) and its derivative by raw.
fn positive<T: Real>(params: &[T], at: &Option<Range<usize>>, initial: f64, learned: bool) -> (T, T) {
    let raw = at.as_ref().map_or(T::ZERO, |at| params[at.start]);
    let at = raw + T::from_f64(inverse_softplus(initial));
    (softplus_of(at), if learned { sigmoid_of(at) } else { T::ZERO })
}
