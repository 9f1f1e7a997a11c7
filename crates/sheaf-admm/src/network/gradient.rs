//! The derivative of a solution by everything that was given.
//!
//! One more iteration is run and recorded at the solution; the adjoint is the one of its fixed point
//! ([`Adjoint::Implicit`]), so that it is the derivative of the solution and not of the way to it.

use super::compile::{Place, Stack};
use super::hints::hinted;
use super::solver::Solver;
use super::{AgentId, EdgeId};
use crate::admm::{Adjoint, Gradients, Mode, Options, Seeds, Start, Workspace};
use crate::error::{check_finite, check_len};
use crate::sheaf::MapsGrad;
use crate::x_update::{ObjectiveGrad, QuadraticGrad};
use crate::{Error, ErrorKind, Result};
use sheaf_kernels::pool;

/// The gradient of the objective of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentGrad {
    /// Of a quadratic.
    Quadratic(Box<QuadraticGrad>),
    /// Of the parameters of another map, in its own order.
    Own(Vec<f64>),
}

/// The gradient of an edge.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeGrad {
    /// Of the stored entries of F_a and F_b.
    pub maps: [Vec<f64>; 2],
    /// Of the offset.
    pub offset: Vec<f64>,
    /// Of the weight of the cost; 0 for a hard edge.
    pub weight: f64,
}

/// The gradient of a loss by what a network was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    /// Of all agents in their order, or of those that were asked for in the order asked.
    pub agents: Vec<AgentGrad>,
    /// Of all edges in their order, or of those that were asked for in the order asked.
    pub edges: Vec<EdgeGrad>,
}

/// The gradients of the scaled problem; empty where nothing was asked for.
#[derive(Default)]
struct Flat {
    params: Vec<f64>,   // of all maps, one after another
    starts: Vec<usize>, // [maps + 1], where the parameters of each begin
    stacks: Vec<f64>,
    offsets: Vec<f64>, // [edge_len]
    weights: Vec<f64>, // [edges] or []
}

/// Terms of the adjoint series before it fails, and where it stops.
const TERMS: usize = 100_000;
const ACCURACY: f64 = 1e-11;

impl Solver {
    /// The gradient of a loss whose gradient by x is `d_x`, one agent after another, at the last solution. It is the
    /// derivative of the exact solution as far as the solve was accurate: solve to a small tolerance first.
    ///
    /// ```
    /// use sheaf_admm::network::{AgentGrad, Network, Settings};
    /// use sheaf_admm::x_update::Quadratic;
    ///
    /// // x = y = −(p + q)/2: both move by −½ if p grows by 1.
    /// let mut net = Network::new();
    /// let a = net.agent(Quadratic::new([[1.0]], [-1.0]))?;
    /// let b = net.agent(Quadratic::new([[1.0]], [-5.0]))?;
    /// net.agree(a, [[1.0]], b, [[1.0]])?;
    /// let mut solver = net.solver(Settings { tol: 1e-10, ..Settings::default() })?;
    /// solver.solve()?;
    /// // The loss is x + 2y.
    /// let gradient = solver.gradient(&[1.0, 2.0])?;
    /// let AgentGrad::Quadratic(of_a) = &gradient.agents[a.index()] else { unreachable!() };
    /// assert!((of_a.q[0] + 1.5).abs() < 1e-8);
    /// # Ok::<(), sheaf_admm::Error>(())
    /// ```
    pub fn gradient(&self, d_x: &[f64]) -> Result<Gradient> {
        let agents: Vec<AgentId> = self.net.agent_ids().collect();
        let edges: Vec<EdgeId> = self.net.edge_ids().collect();
        self.gradient_of(d_x, &agents, &edges)
    }

    /// As [`gradient`](Self::gradient), by the parameters of these agents and edges alone, in their order. Without edges the
    /// gradient of the maps is not computed, without agents that of the objectives is not.
    pub fn gradient_of(&self, d_x: &[f64], agents: &[AgentId], edges: &[EdgeId]) -> Result<Gradient> {
        let checked = check_len("gradient of x", self.solution.x.len(), d_x.len());
        checked.and_then(|()| check_finite("gradient of x", d_x)).map_err(|e| hinted(e, Some("x")))?;
        agents.iter().try_for_each(|&agent| self.net.objective(agent).map(|_| ()))?;
        if let Some(edge) = edges.iter().find(|edge| edge.0 >= self.net.edges.len()) {
            let expected = format!("an edge below {}", self.net.edges.len());
            return Err(Error::new(ErrorKind::OutOfRange, "edge", expected, edge.0)
                .hint("use an EdgeId that this network returned"));
        }
        if !self.solution.is_solved() {
            let got = self.solution.status.to_string();
            return Err(Error::new(ErrorKind::Unsupported, "gradient", "a solved network", got)
                .hint("call solve() first; raise the limits if they ended it"));
        }
        self.check_current("gradient")?;
        let flat = pool::with_threads(self.settings.threads, || self.reverse(d_x, agents, edges))?;
        let agents = agents.iter().map(|agent| self.agent_grad(agent.0, &flat)).collect();
        let edges = edges.iter().map(|edge| self.edge_grad(edge.0, &flat)).collect();
        Ok(Gradient { agents, edges })
    }

    /// The gradients of the scaled problem.
    fn reverse(&self, d_x: &[f64], agents: &[AgentId], edges: &[EdgeId]) -> Result<Flat> {
        let problem = self.problem()?;
        let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 1 });
        problem.solve(Start::Warm { z: &self.z, u: &self.u }, &Options::fixed(1), &mut ws, &mut ())?;
        let mut seed = vec![0.0; self.unit.len()];
        seed.iter_mut().zip(d_x).zip(self.unit.iter()).for_each(|((s, g), unit)| *s = g * unit);
        let mut flat = self.room(agents, edges);
        let Flat { params, stacks, offsets, weights, .. } = &mut flat;
        let (mut rho, mut gamma, mut eta) = ([0.0], 0.0, 0.0);
        let none = params.is_empty();
        let mut maps = if stacks.is_empty() { MapsGrad::None } else { MapsGrad::PerAgent(stacks) };
        let mut grads = Gradients {
            objective: &mut if none { ObjectiveGrad::None } else { ObjectiveGrad::Own(params) },
            maps: &mut maps,
            rho: &mut rho,
            gamma: &mut gamma,
            eta: &mut eta,
            offsets,
            edge_weights: weights,
            start: &mut [],
        };
        let seeds = Seeds { d_x: &seed, d_z: None, d_u: None };
        let adjoint = Adjoint::Implicit { tolerance: ACCURACY, max_terms: TERMS };
        problem.reverse(adjoint, &seeds, &mut grads, &mut ws)?;
        Ok(flat)
    }

    /// Zeros for what is asked for.
    fn room(&self, agents: &[AgentId], edges: &[EdgeId]) -> Flat {
        let (compiled, mut flat) = (&self.compiled, Flat::default());
        // Edges that are agents of their own have their parameters among those of the agents.
        let own = |edge: &EdgeId| matches!(compiled.places[edge.0], Place::Term { .. });
        if !agents.is_empty() || edges.iter().any(own) {
            flat.starts.push(0);
            for map in &compiled.maps {
                flat.starts.push(flat.starts[flat.starts.len() - 1] + map.param_len());
            }
            flat.params = vec![0.0; flat.starts[compiled.maps.len()]];
        }
        if !edges.is_empty() {
            flat.stacks = vec![0.0; compiled.stacks.len()];
            flat.offsets = vec![0.0; compiled.offsets.len()];
            flat.weights = vec![0.0; compiled.weights.as_ref().map_or(0, Vec::len)];
        }
        flat
    }

    fn agent_grad(&self, i: usize, flat: &Flat) -> AgentGrad {
        let (scaling, map) = (&self.compiled.scaling, &self.compiled.maps[i]);
        let mut own = flat.params[flat.starts[i]..flat.starts[i + 1]].to_vec();
        match (self.net.agents[i].map.as_quadratic(), map.as_quadratic()) {
            (Some(given), Some(scaled)) => {
                let grad = given.unscaled_grad(scaled, &mut own, &scaling.states[i], scaling.cost);
                AgentGrad::Quadratic(Box::new(grad))
            }
            _ => AgentGrad::Own(own),
        }
    }

    fn edge_grad(&self, e: usize, flat: &Flat) -> EdgeGrad {
        let (edge, scale) = (&self.net.edges[e], self.compiled.scaling.edges[e]);
        let maps = [0, 1].map(|end| {
            let (agent, map) = &edge.ends[end];
            let at = Stack::new(&self.compiled.sheaf, agent.0, self.compiled.slots[e][end]);
            let mut grad = Vec::with_capacity(map.stored());
            let d = &self.compiled.scaling.states[agent.0];
            map.each(|row, col, _| grad.push(scale * d[col] * flat.stacks[at.index(row, col)]));
            grad
        });
        let ratio = edge.coupling.weight_ratio(scale, self.compiled.scaling.cost);
        let (offset, weight) = match self.compiled.places[e] {
            Place::Native(own) => {
                let at = self.compiled.edge_starts[own]..self.compiled.edge_starts[own + 1];
                (&flat.offsets[at], flat.weights.get(own).copied().unwrap_or(0.0))
            }
            Place::Term { agent, .. } => {
                let own = &flat.params[flat.starts[agent]..flat.starts[agent + 1]];
                (&own[..edge.offset.len()], own[edge.offset.len()])
            }
        };
        EdgeGrad { maps, offset: offset.iter().map(|g| scale * g).collect(), weight: ratio * weight }
    }
}
