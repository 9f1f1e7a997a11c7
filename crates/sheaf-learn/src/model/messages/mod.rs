//! Recurrent message passing: the second kind of coordination.
//!
//! ```text
//! s₀ = start(h)
//! m_{j→i} = W[t] s_j + b[t]      t: the slot of the sender, or one type for all
//! a_i = rms(aggregate over j of m_{j→i} · M)          M only where messages are narrower or wider than states
//! v_i = [a_i, rms(h_i)] U + c
//! r, z = sigmoid(rms([s, v]) · …)      t = tanh(rms([r s, v]) · …)      s' = (1 − z) t + z s
//! ```
//!
//! | array | shape |
//! | --- | --- |
//! | h, s, a, v, r, z, t | rows, d_v; a row per agent of every sample |
//! | m | rows, types, message width |
//! | W, b | types, message width, d_v; types, message width |
//!
//! | file | holds |
//! | --- | --- |
//! | `links` | which messages reach which agent |
//! | `aggregate` | maximum, mean, sum, degree-normalised sum |
//! | `cell` | one round and its adjoint |
//! | `rounds` | all rounds of some samples, the tape, the reverse sweep |

mod aggregate;
mod cell;
mod links;
mod rounds;

pub use links::Links;
pub use rounds::Rounds;

use std::ops::Range;

use sheaf_admm::{Precision, Real};

use super::section::{AggregationKind, Choices, ModelSection};
use crate::nn::{Init, Linear, RmsNorm};
use crate::params::ParamLayout;
use crate::rng::Stream;

/// The layers.
#[derive(Clone, Debug)]
pub struct Messages {
    start: Linear,
    kernel: Range<usize>, // [types, width, d_v]
    bias: Range<usize>,   // [types, width]
    own: Option<Linear>,  // an agent's message to itself, with degree-normalised sums
    to_state: Option<Linear>,
    aggregated_norm: RmsNorm,
    context_norm: RmsNorm,
    update_input: Linear, // [2 d_v, d_v]
    gate_norm: RmsNorm,
    reset_gate: Linear,
    update_gate: Linear,
    candidate_norm: RmsNorm,
    candidate: Linear,
    kind: AggregationKind,
    types: usize,
    width: usize,
    d_v: usize,
    precision: Precision,
}

impl Messages {
    /// Declares the parameters, for agents with this many slots.
    pub fn new(layout: &mut ParamLayout, section: &ModelSection, choices: &Choices, slots: usize) -> Self {
        let (d_v, width) = (section.d_v, section.message_width());
        let types = if choices.shared_messages { 1 } else { slots };
        let kind = choices.aggregation;
        let linear = |layout: &mut ParamLayout, name: &str, input, output, bias| {
            Linear::new(layout, &format!("messages/{name}"), input, output, bias)
        };
        let norm = |layout: &mut ParamLayout, name: &str, dim| {
            RmsNorm::new(layout, &format!("messages/{name}"), dim)
        };
        Self {
            start: linear(layout, "start", d_v, d_v, true),
            kernel: layout.add("messages/kernel", &[types, width, d_v]),
            bias: layout.add("messages/bias", &[types, width]),
            own: (kind == AggregationKind::Degree).then(|| linear(layout, "own", d_v, width, false)),
            to_state: (width != d_v).then(|| linear(layout, "to_state", width, d_v, false)),
            aggregated_norm: norm(layout, "aggregated_norm", d_v),
            context_norm: norm(layout, "context_norm", d_v),
            update_input: linear(layout, "update_input", 2 * d_v, d_v, true),
            gate_norm: norm(layout, "gate_norm", 2 * d_v),
            reset_gate: linear(layout, "reset_gate", 2 * d_v, d_v, true),
            update_gate: linear(layout, "update_gate", 2 * d_v, d_v, true),
            candidate_norm: norm(layout, "candidate_norm", 2 * d_v),
            candidate: linear(layout, "candidate", 2 * d_v, d_v, true),
            kind,
            types,
            width,
            d_v,
            precision: Precision::Full,
        }
    }

    /// Sets the precision of the products, forward and adjoint.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
        let layers = [&mut self.start, &mut self.reset_gate, &mut self.update_gate, &mut self.candidate];
        let layers = self.own.iter_mut().chain(&mut self.to_state).chain(layers);
        layers.for_each(|layer| layer.set_precision(precision));
    }

    /// Writes the initial values. Message weights are Xavier-uniform with both fans multiplied by the number of types.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        let Self { types, width, d_v, .. } = *self;
        self.start.init(params, stream);
        Init::GlorotUniform.fill(&mut params[self.kernel.clone()], types * d_v, types * width, stream);
        let layers = [&self.update_input, &self.reset_gate, &self.update_gate, &self.candidate];
        for layer in self.own.iter().chain(&self.to_state).chain(layers) {
            layer.init(params, stream);
        }
        let norms = [&self.aggregated_norm, &self.context_norm, &self.gate_norm, &self.candidate_norm];
        norms.into_iter().for_each(|norm| norm.init(params));
    }

    /// Kinds of messages of an agent.
    pub fn types(&self) -> usize {
        self.types
    }
}
