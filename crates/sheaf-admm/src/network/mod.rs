//! One's own problems: agents with objectives, edges with agreements, `solve()`.
//!
//! ```text
//! minimise Σ_i f_i(x_i) + Σ_e φ_e(F_a x_a − F_b x_b − b_e)
//! ```
//!
//! | type | is |
//! | --- | --- |
//! | [`Network`] | agents and edges, as they are given |
//! | [`Quadratic`](crate::x_update::Quadratic), or any [`Proximal`] | the objective f_i of an agent |
//! | [`Solver`] | the problem scaled, factorised and ready to be solved again and again |
//! | [`Solution`] | x, prices, residuals and how the solve ended |
//!
//! φ_e is a [`Coupling`]: hard agreement by default, or a cost. The price λ_e of an edge is the multiplier of
//! F_a x_a − F_b x_b = b_e, the derivative of the optimal value by −b_e: at the solution
//! 0 ∈ ∂f_a(x_a) + F_aᵀλ_e and 0 ∈ ∂f_b(x_b) − F_bᵀλ_e, summed over the edges of an agent.

mod batch;
mod compile;
mod contradiction;
mod edge;
mod edge_term;
#[cfg(feature = "serde")]
pub mod file;
mod gradient;
mod hints;
mod intervene;
mod placed;
mod progress;
mod report;
mod scale;
mod settings;
mod shared;
mod solution;
mod solver;
mod update;

pub use edge::{Coupling, Edge};
pub use gradient::{AgentGrad, EdgeGrad, Gradient};
pub use intervene::{Moment, Played};
pub use progress::{Progress, Record};
pub use settings::{Consensus, Settings};
pub use solution::{Misses, Solution};
pub use solver::Solver;
pub use update::State;

use std::sync::Arc;

use crate::error::check_positive;
use crate::x_update::Proximal;
use crate::{Error, ErrorKind, Matrix, Result};

/// An agent of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(pub(crate) usize);

/// An edge of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(pub(crate) usize);

impl AgentId {
    /// Its number: agents are counted in the order in which they were added.
    pub fn index(self) -> usize {
        self.0
    }
}

impl EdgeId {
    /// Its number: edges are counted in the order in which they were added.
    pub fn index(self) -> usize {
        self.0
    }
}

/// An agent's objective and its penalties relative to those of the others.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub map: Arc<dyn Proximal<f64>>,
    pub penalty: Vec<f64>, // [d], [1] or []
}

/// Agents and edges.
///
/// ```
/// use sheaf_admm::network::Network;
/// use sheaf_admm::x_update::Quadratic;
/// use sheaf_admm::Matrix;
///
/// // Three agents with 2, 3 and 2 numbers; neighbours agree on the first. Each wants ½‖x‖² + qᵀx small.
/// let mut net = Network::new();
/// let a = net.agent(Quadratic::new(Matrix::identity(2), [-1.0, -7.0]))?;
/// let b = net.agent(Quadratic::new(Matrix::identity(3), [-2.0, 3.0, -3.0]))?;
/// let c = net.agent(Quadratic::new(Matrix::identity(2), [-6.0, -1.0]))?;
/// net.agree(a, [[1.0, 0.0]], b, [[1.0, 0.0, 0.0]])?;
/// let edge = net.agree(b, [[1.0, 0.0, 0.0]], c, [[1.0, 0.0]])?;
///
/// let solution = net.solve(1e-9)?;
/// assert!((solution.x(a)[0] - 3.0).abs() < 1e-6 && (solution.x(a)[1] - 7.0).abs() < 1e-6);
/// assert!((solution.price(edge)[0] + 3.0).abs() < 1e-6 || (solution.price(edge)[0] - 3.0).abs() < 1e-6);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Network {
    pub(crate) agents: Vec<Agent>,
    pub(crate) edges: Vec<Edge>,
}

impl Network {
    /// No agents, no edges.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an agent with this objective: a [`Quadratic`](crate::x_update::Quadratic), another map of the library or
    /// one's own.
    pub fn agent(&mut self, objective: impl Proximal<f64> + 'static) -> Result<AgentId> {
        self.shared_agent(Arc::new(objective))
    }

    /// Adds an agent with an objective that others may use too.
    pub fn shared_agent(&mut self, map: Arc<dyn Proximal<f64>>) -> Result<AgentId> {
        let number = self.agents.len();
        self.add_agent(map).map_err(|e| placed(format!("agent {number}"), e))
    }

    /// As [`shared_agent`](Self::shared_agent); errors name a part of the agent, not the agent.
    pub(crate) fn add_agent(&mut self, map: Arc<dyn Proximal<f64>>) -> Result<AgentId> {
        map.validate()?;
        check_positive("size of x", map.dim() as f64)?;
        self.agents.push(Agent { map, penalty: Vec::new() });
        Ok(AgentId(self.agents.len() - 1))
    }

    /// Adds a hard edge: F_a x_a = F_b x_b.
    pub fn agree(
        &mut self,
        a: AgentId,
        map_a: impl Into<Matrix>,
        b: AgentId,
        map_b: impl Into<Matrix>,
    ) -> Result<EdgeId> {
        self.edge(Edge::new(a, map_a, b, map_b))
    }

    /// Adds an edge with an offset, a cost of disagreement, or both.
    pub fn edge(&mut self, edge: Edge) -> Result<EdgeId> {
        let number = self.edges.len();
        self.add_edge(edge).map_err(|e| placed(format!("edge {number}"), e))
    }

    /// As [`edge`](Self::edge); errors name a part of the edge, not the edge.
    pub(crate) fn add_edge(&mut self, edge: Edge) -> Result<EdgeId> {
        let mut dims = [0; 2];
        for (dim, (agent, _)) in dims.iter_mut().zip(&edge.ends) {
            *dim = self.objective(*agent)?.dim();
        }
        edge.validate(dims)?;
        self.edges.push(edge);
        Ok(EdgeId(self.edges.len() - 1))
    }

    /// The penalty of an agent relative to that of the others (1): one number, or one per coordinate of a quadratic. A
    /// larger penalty keeps the agent closer to the agreement while the solve runs; the solution does not depend on it.
    pub fn set_penalty(&mut self, agent: AgentId, penalty: &[f64]) -> Result<()> {
        let map = self.objective(agent)?;
        let place = format!("penalty of agent {}", agent.0);
        let positive = penalty.iter().try_for_each(|&rho| check_positive(&place, rho));
        positive.map_err(|e| hints::hinted(e, Some("penalty")))?;
        if penalty.len() != 1 && (penalty.len() != map.dim() || map.as_quadratic().is_none()) {
            let expected = if map.as_quadratic().is_some() {
                format!("1 or {} numbers", map.dim())
            } else {
                "1 number".into()
            };
            let error = Error::new(ErrorKind::Shape, place, expected, penalty.len());
            return Err(hints::hinted(error, Some("penalty")));
        }
        self.agents[agent.0].penalty = penalty.to_vec();
        Ok(())
    }

    /// Number of agents.
    pub fn agents(&self) -> usize {
        self.agents.len()
    }

    /// Number of edges.
    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    /// The objective of an agent.
    pub fn objective(&self, agent: AgentId) -> Result<&dyn Proximal<f64>> {
        match self.agents.get(agent.0) {
            Some(found) => Ok(found.map.as_ref()),
            None => Err(Error::new(
                ErrorKind::OutOfRange,
                "agent",
                format_args!("an agent of this network, below {}", self.agents.len()),
                agent.0,
            )
            .hint("use an AgentId that this network returned")),
        }
    }

    /// The identifiers of all agents.
    pub fn agent_ids(&self) -> impl Iterator<Item = AgentId> + use<> {
        (0..self.agents.len()).map(AgentId)
    }

    /// The identifiers of all edges.
    pub fn edge_ids(&self) -> impl Iterator<Item = EdgeId> + use<> {
        (0..self.edges.len()).map(EdgeId)
    }

    /// A solver for this network.
    pub fn solver(&self, settings: Settings) -> Result<Solver> {
        Solver::new(self.clone(), settings)
    }

    /// As [`solver`](Self::solver) for a network that is not needed any more: its edges and objectives are not copied.
    pub fn into_solver(self, settings: Settings) -> Result<Solver> {
        Solver::new(self, settings)
    }

    /// Solves once, to absolute and relative tolerance `tol`, with default [`Settings`] otherwise. Look at
    /// [`Solution::status`]: a limit or an infeasible problem is not an error.
    pub fn solve(&self, tol: f64) -> Result<Solution> {
        let mut solver = self.solver(Settings { tol, ..Settings::default() })?;
        solver.solve()?;
        Ok(solver.into_solution())
    }
}

impl Network {
    /// Gives the network quadratics of its own, which can be updated.
    pub(crate) fn detach(&mut self) {
        for agent in &mut self.agents {
            let shared = Arc::get_mut(&mut agent.map).is_none();
            if let Some(own) = shared.then(|| agent.map.detached()).flatten() {
                agent.map = own;
            }
        }
    }
}

/// The same error with its place inside an agent or edge, and a hint.
fn placed(place: String, error: Error) -> Error {
    let key = hints::key_of(&error);
    hints::hinted(named(place, error), key)
}

/// The same error with its place inside another.
pub(crate) fn named(place: String, error: Error) -> Error {
    let inner =
        Error::new(error.kind(), format!("{place}: {}", error.place()), error.expected(), error.got());
    match error.hint_text() {
        Some(hint) => inner.hint(hint),
        None => inner,
    }
}
