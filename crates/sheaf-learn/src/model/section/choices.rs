//! The checked words of a [`ModelSection`](super::ModelSection).

use sheaf_admm::z_update::OutOfStep;

/// How the agents coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinationKind {
    /// ADMM on a sheaf.
    Admm,
    /// Recurrent message passing.
    MessagePassing,
    /// Not at all: the decoder reads the encoder's h.
    None,
}

/// How the messages that an agent receives become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregationKind {
    /// The largest, component by component.
    Max,
    /// The mean.
    Mean,
    /// The sum.
    Add,
    /// The sum with weights 1/√(d_j d_i), d the number of messages received plus 1, and a message to itself.
    Degree,
}

/// Family of local objectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectiveKind {
    /// Diagonal quadratic, l1, box from 0 to a learned bound.
    L1Box,
    /// Diagonal quadratic alone.
    Quadratic,
    /// Diagonal quadratic with one fixed l1 weight.
    Lasso,
    /// Diagonal quadratic, not below 0.
    NonNegative,
    /// A pull towards h.
    Tether,
    /// Dense quadratic: a diagonal plus a part of low rank.
    Dense,
    /// Diagonal quadratic with linear equalities.
    Equality,
    /// Diagonal quadratic with linear inequalities, not below 0.
    Qp,
}

/// Kind of restriction maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Base maps with a LoRA update per view.
    LowRank,
    /// Base maps alone.
    Shared,
    /// Base maps whose stack is an orthogonal matrix.
    Orthonormal,
    /// Ones on the diagonal, never trained.
    Identity,
}

/// Which agents and slots have a base map in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One base map per slot, the same for all agents.
    Slot,
    /// One base map for all slots of all agents.
    Global,
    /// Every agent has base maps of its own, one per slot.
    Agent,
}

/// Consensus solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsensusKind {
    /// CG on the states from the published start.
    Cg,
    /// The same, with the product of the last state carried over (hard agreement).
    CgCarried,
    /// CG on the states, started at the last agreed state.
    CgWarm,
    /// CG in Gram space.
    Gram,
    /// The closed form for orthonormal maps.
    ClosedForm,
    /// Gradient descent with Nesterov momentum.
    Descent,
    /// Descent on edge multipliers, warm-started.
    Edge,
    /// A cached factorisation.
    Exact,
    /// Huber potentials on the edges, by descent.
    Huber,
}

/// The checked words of a [`ModelSection`](super::ModelSection).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// How the agents coordinate.
    pub coordination: CoordinationKind,
    /// Family of local objectives.
    pub objective: ObjectiveKind,
    /// Kind of maps.
    pub maps: MapKind,
    /// Which agents and slots have a base map in common.
    pub sharing: Sharing,
    /// Hard agreement.
    pub hard: bool,
    /// Consensus solver.
    pub consensus: ConsensusKind,
    /// Descent starts where each agent was.
    pub warm: bool,
    /// How far the agents are out of step.
    pub lag: OutOfStep,
    /// One penalty per agent.
    pub per_agent: bool,
    /// z starts at h.
    pub start_at_h: bool,
    /// How messages are aggregated.
    pub aggregation: AggregationKind,
    /// One kind of messages for all slots.
    pub shared_messages: bool,
}

impl Choices {
    /// Whether the agents run ADMM.
    pub fn admm(&self) -> bool {
        self.coordination == CoordinationKind::Admm
    }

    /// Whether the objective is a pull towards h.
    pub fn tether(&self) -> bool {
        self.admm() && self.objective == ObjectiveKind::Tether
    }
}
