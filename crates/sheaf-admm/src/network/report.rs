//! From the scaled state of a solve to its [`Solution`].

use std::time::Duration;

use super::compile::{Compiled, Place};
use super::progress::Measure;
use super::solver::Solver;
use super::{Coupling, Misses, Network, Solution};
use crate::Result;
use crate::admm::Status;

/// Buffers for residuals and prices of edges.
#[derive(Clone, Debug)]
pub(super) struct Edges {
    left: Vec<f64>,              // [rows], F_a x_a of the network's edges
    right: Vec<f64>,             // [rows], F_b x_b
    pub(super) lambda: Vec<f64>, // [edge_len], prices in scaled units
    slopes: Vec<f64>,            // [states], Fᵀλ, if consensus is not exact
    rows: Vec<f64>,              // [rows of the sheaf], if consensus is not exact
}

impl Edges {
    pub(super) fn new(net: &Network, compiled: &Compiled, exact: bool) -> Self {
        let rows: usize = net.edges.iter().map(|e| e.offset.len()).sum();
        let (sheaf, some) = (&compiled.sheaf, |len: usize| vec![0.0; if exact { 0 } else { len }]);
        let lambda = vec![0.0; sheaf.edge_len()];
        let (slopes, own_rows) = (some(sheaf.state_len()), some(sheaf.row_len()));
        Self { left: vec![0.0; rows], right: vec![0.0; rows], lambda, slopes, rows: own_rows }
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
    pub(super) fn report(&mut self, status: Status, measure: &Measure) -> Result<()> {
        let balance = self.balance()?;
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
            dual: (measure.record.dual.hypot(balance), goal(n, measure.dual_size)),
            edges: (edges.0, goal(solution.prices.len().max(1), edges.1)),
        };
        Ok(())
    }

    /// ‖Fᵀλ − ρu‖ in the units of the problem: how far the slopes of soft edges are from the multipliers. 0 by construction
    /// where consensus is exact.
    fn balance(&mut self) -> Result<f64> {
        let Self { compiled, edges: Edges { lambda, slopes, rows, .. }, unit, u, rho, .. } = self;
        if slopes.is_empty() {
            return Ok(0.0);
        }
        compiled.op()?.coboundary_t(lambda, slopes, rows)?;
        let each = slopes.iter().zip(&*u).zip(&*unit);
        let squares = each.map(|((s, u), unit)| ((s - *rho * u) / (unit * compiled.scaling.cost)).powi(2));
        Ok(squares.sum::<f64>().sqrt())
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

    /// λ = e λ̂/c. The first edge of a term has the multiplier of the term.
    fn prices(&mut self) {
        let Self { compiled, solution, edges, .. } = self;
        let out = solution.edge_starts.windows(2).zip(&compiled.places).zip(&compiled.scaling.edges);
        for ((at, place), e) in out {
            let (Place::Native(edge) | Place::Term { edge, .. }) = *place;
            let from = &edges.lambda[compiled.edge_starts[edge]..compiled.edge_starts[edge + 1]];
            let factor = e / compiled.scaling.cost;
            solution.prices[at[0]..at[1]].iter_mut().zip(from).for_each(|(out, l)| *out = factor * l);
        }
    }
}
