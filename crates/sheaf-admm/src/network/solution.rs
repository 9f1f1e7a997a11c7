//! The result of a solve.

use std::time::Duration;

use super::{AgentId, EdgeId, Record};
use crate::admm::Status;

/// How far a solution is from satisfying the problem, in the units of the problem as it was given. Each is the largest number
/// of a vector, so that no agent is far off unnoticed, with the goal tol + tol·size; the size is the root mean square of what
/// is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Misses {
    /// The largest number of x − z, and its goal.
    pub primal: (f64, f64),
    /// The largest distance of a multiplier from the slope of an objective or of soft edges, and its goal.
    pub dual: (f64, f64),
    /// The largest number of F x − b over hard edges, and its goal.
    pub edges: (f64, f64),
}

/// How a solve ended: proposals x, prices of edges, residuals.
///
/// ```
/// use sheaf_admm::admm::Status;
/// use sheaf_admm::network::Network;
/// use sheaf_admm::x_update::Quadratic;
///
/// let mut net = Network::new();
/// let a = net.agent(Quadratic::new([[1.0]], [-1.0]))?;
/// let b = net.agent(Quadratic::new([[3.0]], [-9.0]))?;
/// let edge = net.agree(a, [[1.0]], b, [[1.0]])?;
/// let solution = net.solve(1e-9)?;
/// assert_eq!(solution.status(), Status::Solved);
/// assert!((solution.x(a)[0] - 2.5).abs() < 1e-6);
/// // ½x² − x alone has slope 1.5 there, which the price of the edge balances.
/// assert!((solution.price(edge)[0] + 1.5).abs() < 1e-6);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    pub(super) status: Status,
    pub(super) iterations: usize,
    pub(super) time: Duration,
    pub(super) rho: f64,
    pub(super) objective: Option<f64>,
    pub(super) misses: Misses,
    pub(super) x: Vec<f64>,
    pub(super) starts: Vec<usize>, // [agents + 1]
    pub(super) prices: Vec<f64>,
    pub(super) edge_starts: Vec<usize>, // [edges + 1]
    pub(super) history: Vec<Record>,
}

impl Solution {
    /// How the solve ended.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether every residual is below its goal.
    pub fn is_solved(&self) -> bool {
        self.status == Status::Solved
    }

    /// x of an agent.
    ///
    /// # Panics
    /// If the agent belongs to a larger network.
    pub fn x(&self, agent: AgentId) -> &[f64] {
        &self.x[self.starts[agent.0]..self.starts[agent.0 + 1]]
    }

    /// The multiplier λ of F_a x_a − F_b x_b = b (hard), or the slope of the cost there. Where hard edges depend on each
    /// other, the multipliers of least norm; in networks of more than 20,000 numbers whose edges compare single numbers, those
    /// that are 0 off a spanning tree.
    ///
    /// # Panics
    /// If the edge belongs to a larger network.
    pub fn price(&self, edge: EdgeId) -> &[f64] {
        &self.prices[self.edge_starts[edge.0]..self.edge_starts[edge.0 + 1]]
    }

    /// x of all agents, one after another.
    pub fn all_x(&self) -> &[f64] {
        &self.x
    }

    /// Σ f + Σ φ at x; `None` if an objective does not tell its value, or the time was up before the first iteration.
    pub fn objective(&self) -> Option<f64> {
        self.objective
    }

    /// Iterations that ran.
    pub fn iterations(&self) -> usize {
        self.iterations
    }

    /// How long the solve took.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// The penalty at the end, in scaled units.
    pub fn rho(&self) -> f64 {
        self.rho
    }

    /// The residuals and their goals.
    pub fn misses(&self) -> &Misses {
        &self.misses
    }

    /// The residuals of every iteration, of the first 10,000 at most.
    pub fn history(&self) -> &[Record] {
        &self.history
    }
}
