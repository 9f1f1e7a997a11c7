//! From the scaled state of a solve to its [`Solution`].

use std::time::Duration;

use super::compile::{Compiled, Place};
use super::progress::Measure;
use super::solver::Solver;
use super::{Coupling, Misses, Network, Solution};
use crate::admm::Status;
use crate::linalg::scratch::Scratch;
use crate::sheaf::SheafOp;
use crate::z_update::{LeastSquares, least_squares};

/// Buffers for residuals and prices of edges.
#[derive(Clone, Debug)]
pub(super) struct Edges {
    left: Vec<f64>,     // [rows], F_a x_a of the network's edges
    right: Vec<f64>,    // [rows], F_b x_b
    slope: Vec<f64>,    // [states], ρu
    scratch: Vec<f64>,  // of the search for prices
    starts: Vec<usize>, // [edges of the sheaf + 1]
}

impl Edges {
    pub(super) fn new(net: &Network, compiled: &Compiled) -> Self {
        let rows: usize = net.edges.iter().map(|e| e.offset.len()).sum();
        let sheaf = &compiled.sheaf;
        let (n, e) = (sheaf.state_len(), sheaf.edge_len());
        let mut starts = vec![0];
        for edge in net.edges.iter().zip(&compiled.places) {
            let count = if matches!(edge.1, Place::Native(_)) { 1 } else { 2 };
            (0..count).for_each(|_| starts.push(starts[starts.len() - 1] + edge.0.offset.len()));
        }
        Self {
            left: vec![0.0; rows],
            right: vec![0.0; rows],
            slope: vec![0.0; n],
            scratch: vec![0.0; sheaf.row_len() + 3 * e + 2 * n],
            starts,
        }
    }
}

/// A solution without numbers.
pub(super) fn empty(net: &Network, history: usize) -> Solution {
    let cumulate = |sizes: &mut dyn Iterator<Item = usize>| {
        let mut starts = vec![0];
        sizes.for_each(|size| starts.push(starts[starts.len() - 1] + size));
        starts
    };
    let starts = cumulate(&mut net.agents.iter().map(|a| a.map.dim()));
    let edge_starts = cumulate(&mut net.edges.iter().map(|e| e.offset.len()));
    Solution {
        status: Status::Finished,
        iterations: 0,
        time: Duration::ZERO,
        rho: 1.0,
        objective: None,
        misses: Misses::default(),
        x: vec![0.0; starts[starts.len() - 1]],
        prices: vec![0.0; edge_starts[edge_starts.len() - 1]],
        starts,
        edge_starts,
        history: Vec::with_capacity(history),
    }
}

impl Solver {
    /// Fills the solution from the scaled state.
    pub(super) fn report(&mut self, status: Status, measure: &Measure) {
        let Self { unit, x, rho, solution, .. } = self;
        solution.status = status;
        solution.rho = *rho;
        solution.x.iter_mut().zip(x.iter().zip(&*unit)).for_each(|(out, (x, unit))| *out = unit * x);
        self.prices();
        let (edges, cost) = self.edge_residuals();
        let tol = self.settings.tol;
        let goal = |count: usize, size: f64| (count as f64).sqrt() * tol + tol * size;
        let Self { net, solution, .. } = self;
        let values = net.agents.iter().zip(solution.starts.windows(2));
        let each = values.map(|(agent, range)| agent.map.value(&solution.x[range[0]..range[1]]));
        solution.objective = each.sum::<Option<f64>>().map(|f| f + cost);
        let n = solution.x.len();
        solution.misses = Misses {
            primal: (measure.record.primal, goal(n, measure.primal_size)),
            dual: (measure.record.dual, goal(n, measure.dual_size)),
            edges: (edges.0, goal(solution.prices.len().max(1), edges.1)),
        };
    }

    /// ‖F x − b‖ of hard edges with the size of its sides, and the cost of all other edges.
    fn edge_residuals(&mut self) -> ((f64, f64), f64) {
        let Self { net, solution, edges, .. } = self;
        let (mut miss, mut sizes, mut cost) = (0.0, [0.0f64; 3], 0.0);
        edges.left.fill(0.0);
        edges.right.fill(0.0);
        for (edge, at) in net.edges.iter().zip(solution.edge_starts.windows(2)) {
            let (left, right) = (&mut edges.left[at[0]..at[1]], &mut edges.right[at[0]..at[1]]);
            for ((agent, map), side) in edge.ends.iter().zip([&mut *left, &mut *right]) {
                let x = &solution.x[solution.starts[agent.0]..];
                map.each(|row, col, v| side[row] += v * x[col]);
            }
            for row in 0..left.len() {
                let terms = [left[row], right[row], edge.offset[row]];
                left[row] -= right[row] + edge.offset[row];
                if edge.coupling == Coupling::Hard {
                    miss += left[row] * left[row];
                    sizes.iter_mut().zip(terms).for_each(|(size, t)| *size += t * t);
                }
            }
            cost += edge.coupling.value(left);
        }
        ((miss.sqrt(), sizes.iter().fold(0.0f64, |m, s| m.max(s.sqrt()))), cost)
    }

    /// λ = e λ̂/c with Fᵀλ̂ = ρu. An edge that is an agent reads λ̂ = −ρu of its first half.
    fn prices(&mut self) {
        let Self { compiled, u, rho, solution, edges, .. } = self;
        let sheaf = &compiled.sheaf;
        edges.slope.iter_mut().zip(&*u).for_each(|(d, u)| *d = *rho * u);
        let native = compiled.places.iter().any(|p| matches!(p, Place::Native(_)));
        let mut scratch = Scratch::new(&mut edges.scratch);
        let (rows, q) = (scratch.take(sheaf.row_len()), scratch.take(sheaf.state_len()));
        // The stacks were checked when the solver was made.
        let Ok(op) = SheafOp::new(sheaf, crate::sheaf::Maps::PerAgent(&compiled.stacks)) else { return };
        let mut work = LeastSquares::carve(&op, rows, q, &mut scratch);
        if native {
            let size = edges.slope.iter().map(|d| d * d).sum::<f64>().sqrt();
            least_squares(&op, &edges.slope, 1e-12 * size, &mut work);
        }
        let out = solution.edge_starts.windows(2).zip(&compiled.places).zip(&compiled.scaling.edges);
        for ((at, place), e) in out {
            let from: &[f64] = match *place {
                Place::Native(edge) => &work.lambda[edges.starts[edge]..edges.starts[edge + 1]],
                Place::Term { agent, .. } => &edges.slope[sheaf.state_offsets()[agent]..],
            };
            let sign = if matches!(place, Place::Native(_)) { 1.0 } else { -1.0 };
            let factor = sign * e / compiled.scaling.cost;
            solution.prices[at[0]..at[1]].iter_mut().zip(from).for_each(|(out, l)| *out = factor * l);
        }
    }
}
