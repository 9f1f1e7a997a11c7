//! The `[model]` keys that all tasks share: coordination, objective, maps, consensus, penalty.
//!
//! A task adds its own keys (widths of its networks) and its own defaults. [`ModelSection::check`] turns words into
//! [`Choices`] and rejects invalid combinations, each with a reason.

mod check;
mod choices;
mod descent;

pub use choices::{
    AggregationKind, Choices, ConsensusKind, CoordinationKind, MapKind, ObjectiveKind, Sharing,
};

use serde::{Deserialize, Serialize};

/// Keys of `[model]` that every task has. The defaults are those of the published Maze model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSection {
    /// `admm`, `message-passing`, or `none`: no iterations, the decoder reads the encoder's h. Keys of one kind of
    /// coordination mean nothing to the others; `d_v` belongs to all.
    pub coordination: String,
    /// Vertex stalk: dimension of an agent's state.
    pub d_v: usize,
    /// Edge stalk: dimension in which two neighbours compare their states.
    pub d_e: usize,
    /// `low-rank` (base maps with a LoRA update per view), `shared` (base maps alone; `slot` means the same),
    /// `orthonormal` (the stacked base maps are an orthogonal matrix) or `identity` (fixed).
    pub maps: String,
    /// Whether orthonormal maps have a learned scale for each dimension of an edge, shared by the slots: how strongly
    /// neighbours agree in it.
    pub scales: bool,
    /// `slot` (one base map per slot), `global` (one for all slots) or `agent` (one per slot of every agent; the weights
    /// then fit inputs with `agents` agents only).
    pub sharing: String,
    /// Number of agents, for `sharing = "agent"`; not read otherwise.
    pub agents: usize,
    /// Rank of the LoRA update.
    pub rank: usize,
    /// The LoRA update is multiplied by alpha / rank.
    pub alpha: f64,
    /// Whether the encoder also emits a gate from 0 to 1 per slot that multiplies the LoRA update.
    pub gates: bool,
    /// `l1-box`, `quadratic` (diagonal, no l1, no box), `lasso` (one fixed l1 weight), `non-negative`, `tether`,
    /// `dense` (Q = diag(D) + V Vᵀ, D and V from the encoder), `equality` (A x = b, A learned and shared by all agents,
    /// b from the encoder) or `qp` (G x ≤ g and x ≥ 0, G learned and shared, g > 0 from the encoder).
    pub objective: String,
    /// Columns of V, for `dense`.
    pub objective_rank: usize,
    /// Rows of A or G, for `equality` and `qp`.
    pub objective_rows: usize,
    /// Fixed l1 weight of `lasso`; 0 leaves the term out.
    pub l1: f64,
    /// Initial l1 weight of `l1-box`.
    pub l1_init: f64,
    /// Initial upper bound of `l1-box`, and initial g of `qp`.
    pub upper_init: f64,
    /// `soft` or `hard`.
    pub agreement: String,
    /// Weight γ of disagreement, when soft.
    pub gamma: f64,
    /// `cg`, `cg-carried`, `cg-warm`, `gram` (CG in Gram space), `closed-form` (orthonormal maps), `descent`, `edge`,
    /// `exact`, `huber`, or `auto`, which takes what suits the maps.
    pub consensus: String,
    /// Inner steps of a consensus step, for iterative solvers.
    pub cg_steps: usize,
    /// Relative tolerance of the inner solve; 0 runs exactly `cg_steps` steps.
    pub cg_tolerance: f64,
    /// Initial step size of `descent`, `edge` and `huber`.
    pub eta_init: f64,
    /// Whether the step size is learned; if not, it is no parameter, and weights of `cg` fit the model.
    pub eta_learned: bool,
    /// Where `descent` starts: `target` (at w, as published) or `previous` (where each agent was; soft agreement).
    pub descent_start: String,
    /// How far the agents are out of step: `delay=4,loss=0.1,activity=0.9,seed=7`, each may be left out; empty for agents
    /// in step. For `descent`.
    pub asynchronous: String,
    /// Momentum of `descent` and `huber`.
    pub momentum: f64,
    /// Threshold at which the Huber potential becomes linear.
    pub huber_width: f64,
    /// Initial penalty.
    pub rho_init: f64,
    /// Whether the penalty is learned.
    pub rho_learned: bool,
    /// `shared` (one penalty) or `per-agent` (the encoder emits one per agent).
    pub penalty: String,
    /// Whether the penalty follows the residuals (Boyd et al., section 3.4.1).
    pub balancing: bool,
    /// Over-relaxation; 1 is plain ADMM.
    pub relaxation: f64,
    /// `h` (an encoder output) or `zeros`.
    pub start: String,
    /// Message passing: how an agent aggregates what it receives, `max`, `mean`, `add` or `degree` (a sum normalised by
    /// the degrees of both ends, with a message to itself).
    pub aggregation: String,
    /// Message passing: numbers in a message; 0 takes `d_e`.
    pub message_width: usize,
    /// Message passing: `directional` (a message per slot) or `shared` (one for all neighbours).
    pub messages: String,
}

impl Default for ModelSection {
    fn default() -> Self {
        Self {
            coordination: "admm".into(),
            d_v: 10,
            d_e: 5,
            maps: "low-rank".into(),
            scales: false,
            sharing: "slot".into(),
            agents: 0,
            rank: 4,
            alpha: 1.0,
            gates: false,
            objective: "l1-box".into(),
            objective_rank: 2,
            objective_rows: 2,
            l1: 0.0,
            l1_init: 0.01,
            upper_init: 1.0,
            agreement: "soft".into(),
            gamma: 5.0,
            consensus: "auto".into(),
            cg_steps: 5,
            cg_tolerance: 0.0,
            eta_init: 0.01,
            eta_learned: true,
            descent_start: "target".into(),
            asynchronous: String::new(),
            momentum: 0.9,
            huber_width: 1.0,
            rho_init: 0.25,
            rho_learned: true,
            penalty: "shared".into(),
            balancing: false,
            relaxation: 1.0,
            start: "h".into(),
            aggregation: "max".into(),
            message_width: 0,
            messages: "directional".into(),
        }
    }
}

impl ModelSection {
    /// Numbers in a message.
    pub fn message_width(&self) -> usize {
        if self.message_width == 0 { self.d_e } else { self.message_width }
    }
}
