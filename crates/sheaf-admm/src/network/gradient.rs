//! The derivative of a solution by everything that was given.
//!
//! One more iteration is run and recorded at the solution; the adjoint is the one of its fixed point
//! ([`Adjoint::Implicit`]), so that it is the derivative of the solution and not of the way to it.

use super::compile::{Place, Stack};
use super::solver::Solver;
use crate::admm::{Adjoint, Gradients, Mode, Options, Seeds, Start, Workspace};
use crate::error::check_len;
use crate::sheaf::MapsGrad;
use crate::x_update::{ObjectiveGrad, QuadraticGrad};
use crate::{Error, ErrorKind, Result};

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

/// The gradient of a loss by everything a network was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    /// Agent by agent.
    pub agents: Vec<AgentGrad>,
    /// Edge by edge.
    pub edges: Vec<EdgeGrad>,
}

/// The gradients of the scaled sheaf.
struct Flat {
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
    pub fn gradient(&self, d_x: &[f64]) -> Result<Gradient> {
        check_len("gradient of x", self.solution.x.len(), d_x.len())?;
        if !self.solution.is_solved() {
            let got = self.solution.status.to_string();
            return Err(Error::new(ErrorKind::Unsupported, "gradient", "a solved network", got)
                .hint("call solve() first; raise the limits if they ended it"));
        }
        let problem = self.problem()?;
        let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 1 });
        problem.solve(Start::Warm { z: &self.z, u: &self.u }, &Options::fixed(1), &mut ws, &mut ())?;
        let mut seed = vec![0.0; self.unit.len()];
        seed.iter_mut().zip(d_x).zip(&self.unit).for_each(|((s, g), unit)| *s = g * unit);
        let mut params = vec![0.0; self.compiled.maps.iter().map(|m| m.param_len()).sum()];
        let mut stacks = vec![0.0; self.compiled.stacks.len()];
        let (mut rho, mut gamma, mut eta) = ([0.0], 0.0, 0.0);
        let mut offsets = vec![0.0; self.compiled.offsets.len()];
        let mut weights = vec![0.0; self.compiled.weights.as_ref().map_or(0, Vec::len)];
        let mut grads = Gradients {
            objective: &mut ObjectiveGrad::Own(&mut params),
            maps: &mut MapsGrad::PerAgent(&mut stacks),
            rho: &mut rho,
            gamma: &mut gamma,
            eta: &mut eta,
            offsets: &mut offsets,
            edge_weights: &mut weights,
            start: &mut [],
        };
        let seeds = Seeds { d_x: &seed, d_z: None, d_u: None };
        let adjoint = Adjoint::Implicit { tolerance: ACCURACY, max_terms: TERMS };
        problem.reverse(adjoint, &seeds, &mut grads, &mut ws)?;
        Ok(self.unscaled(&mut params, &Flat { stacks, offsets, weights }))
    }

    fn unscaled(&self, params: &mut [f64], flat: &Flat) -> Gradient {
        let (scaling, c) = (&self.compiled.scaling, self.compiled.scaling.cost);
        let (mut agents, mut terms, mut rest) = (Vec::new(), Vec::new(), params);
        for (i, map) in self.compiled.maps.iter().enumerate() {
            let (own, after) = std::mem::take(&mut rest).split_at_mut(map.param_len());
            rest = after;
            match (self.net.agents.get(i).map(|a| a.map.as_quadratic()), map.as_quadratic()) {
                (Some(Some(given)), Some(scaled)) => {
                    let grad = given.unscaled_grad(scaled, own, &scaling.states[i], c);
                    agents.push(AgentGrad::Quadratic(Box::new(grad)));
                }
                (Some(_), _) => agents.push(AgentGrad::Own(own.to_vec())),
                (None, _) => terms.push(own.to_vec()),
            }
        }
        let edges = (0..self.net.edges.len()).map(|e| self.edge_grad(e, flat, &terms)).collect();
        Gradient { agents, edges }
    }

    fn edge_grad(&self, e: usize, flat: &Flat, terms: &[Vec<f64>]) -> EdgeGrad {
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
                let own = &terms[agent - self.net.agents.len()];
                (&own[..edge.offset.len()], own[edge.offset.len()])
            }
        };
        EdgeGrad { maps, offset: offset.iter().map(|g| scale * g).collect(), weight: ratio * weight }
    }
}
