//! From the scaled state of a solve to its [`Solution`].

use std::time::Duration;

use super::compile::{Compiled, Place};
use super::solver::Solver;
use super::{Coupling, Edge, Misses, Network, Solution};
use crate::admm::{Residuals, Status};
use crate::chunks::{self, Cut};
use crate::linalg::norms::larger;

/// Buffers for residuals and prices of edges.
#[derive(Clone, Debug)]
pub(super) struct Edges {
    sides: Vec<f64>,             // [runs, 2, most rows of an edge], F_a x_a and F_b x_b
    bounds: Vec<usize>,          // [runs + 1] in them
    pub(super) lambda: Vec<f64>, // [edge_len], prices in scaled units
}

/// F x − b over all hard edges.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hard {
    pub rows: usize,
    largest: f64,
    squares: [f64; 3], // of F_a x_a, F_b x_b and b
}

/// What the edges cost and miss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EdgeResiduals {
    pub hard: Hard,
    /// The cost of all other edges.
    pub cost: f64,
}

impl Hard {
    /// The largest number of F x − b and its goal.
    pub(super) fn miss(&self, tol: f64) -> (f64, f64) {
        let mean = |square: f64| (square / self.rows.max(1) as f64).sqrt();
        let size = self.squares.into_iter().map(mean).fold(0.0, larger);
        (self.largest, tol + tol * size)
    }

    fn add(&mut self, r: f64, terms: [f64; 3]) {
        self.rows += 1;
        self.largest = larger(self.largest, r.abs());
        self.squares.iter_mut().zip(terms).for_each(|(sum, t)| *sum += t * t);
    }
}

impl Edges {
    pub(super) fn new(net: &Network, compiled: &Compiled) -> Self {
        let most = net.edges.iter().map(|e| e.offset.len()).max().unwrap_or(0);
        let lambda = vec![0.0; compiled.sheaf.edge_len()];
        let bounds: Vec<usize> = (0..=chunks::item_runs(net.edges.len())).map(|run| 2 * most * run).collect();
        Self { sides: vec![0.0; bounds[bounds.len() - 1]], bounds, lambda }
    }

    /// The residuals and the cost of the edges that `which` picks; `x(agent, j)` is coordinate j of an agent.
    pub(super) fn residuals(
        &mut self,
        net: &Network,
        edge_starts: &[usize],
        which: impl Fn(&Edge) -> bool + Sync,
        x: impl Fn(usize, usize) -> f64 + Sync,
    ) -> EdgeResiduals {
        let Self { sides, bounds, .. } = self;
        let count = net.edges.len();
        let one = |run: usize, sides: Cut<'_, f64>| {
            let mut found = EdgeResiduals::default();
            let (left, right) = sides.data.split_at_mut(sides.data.len() / 2);
            for e in chunks::items(run, count).filter(|&e| which(&net.edges[e])) {
                let (edge, rows) = (&net.edges[e], edge_starts[e + 1] - edge_starts[e]);
                let (left, right) = (&mut left[..rows], &mut right[..rows]);
                for ((agent, map), side) in edge.ends.iter().zip([&mut *left, &mut *right]) {
                    side.fill(0.0);
                    map.each(|row, col, v| side[row] += v * x(agent.0, col));
                }
                for row in 0..rows {
                    let terms = [left[row], right[row], edge.offset[row]];
                    left[row] -= right[row] + edge.offset[row];
                    if edge.coupling == Coupling::Hard {
                        found.hard.add(left[row], terms);
                    }
                }
                found.cost += edge.coupling.value(left);
            }
            Ok(found.numbers())
        };
        let join = |total: &mut [f64; 6], own: [f64; 6]| {
            let largest = larger(total[0], own[0]);
            total.iter_mut().zip(own).for_each(|(t, v)| *t += v);
            total[0] = largest;
        };
        let parts = Cut::by_chunk(sides, bounds);
        let found = chunks::fold(chunks::item_runs(count), parts, one, join);
        found.map_or(EdgeResiduals::default(), EdgeResiduals::from_numbers)
    }
}

impl EdgeResiduals {
    /// As numbers, of which the first is a largest one and the others are sums.
    fn numbers(self) -> [f64; 6] {
        let Hard { rows, largest, squares: [a, b, c] } = self.hard;
        [largest, rows as f64, a, b, c, self.cost]
    }

    fn from_numbers([largest, rows, a, b, c, cost]: [f64; 6]) -> Self {
        Self { hard: Hard { rows: rows as usize, largest, squares: [a, b, c] }, cost }
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
    /// Fills the solution from the scaled state and the residuals of the last iteration.
    pub(super) fn report(&mut self, status: Status, residuals: Option<Residuals<f64>>) {
        let Self { unit, x, rho, solution, .. } = self;
        solution.status = status;
        solution.rho = *rho;
        solution.x.iter_mut().zip(x.iter().zip(unit.iter())).for_each(|(out, (x, unit))| *out = unit * x);
        if solution.iterations == 0 && status == Status::TimeLimit {
            // Nothing is known, and there is no time to find out.
            let unknown = (f64::INFINITY, 0.0);
            solution.misses = Misses { primal: unknown, dual: unknown, edges: unknown };
            solution.objective = None;
            return;
        }
        self.prices();
        let Self { net, solution, edges, settings, .. } = self;
        let (all, starts) = (&solution.x, &solution.starts);
        let found = edges.residuals(net, &solution.edge_starts, |_| true, |agent, j| all[starts[agent] + j]);
        let count = net.agents.len();
        let values = chunks::sums(chunks::count(count), (), |chunk, ()| {
            let value = |i: usize| net.agents[i].map.value(&all[starts[i]..starts[i + 1]]);
            let own: Option<f64> = chunks::agents(chunk, count).map(value).sum();
            Ok([own.unwrap_or(0.0), f64::from(u8::from(own.is_none()))])
        });
        solution.objective =
            values.ok().filter(|[_, unknown]| *unknown == 0.0).map(|[sum, _]| sum + found.cost);
        // Without an iteration nothing is known about x and the multipliers.
        let unknown = Residuals { primal: f64::INFINITY, dual: f64::INFINITY, ..Residuals::default() };
        let of = residuals.unwrap_or(unknown);
        let dual = (of.dual, of.dual_goal);
        solution.misses = Misses {
            primal: (of.primal, of.primal_goal),
            dual: of.stationarity.filter(|soft| soft.0 * dual.1 > dual.0 * soft.1).unwrap_or(dual),
            edges: found.hard.miss(settings.tol),
        };
    }

    /// λ = e λ̂/c. The first edge of a term has the multiplier of the term.
    fn prices(&mut self) {
        let Self { compiled, solution, edges, .. } = self;
        let (starts, count) = (&solution.edge_starts[..], compiled.places.len());
        let parts = Cut::by_item(&mut solution.prices, starts);
        chunks::each(chunks::item_runs(count), parts, |run, prices| {
            let own = chunks::items(run, count);
            let first = starts[own.start];
            for e in own {
                let (Place::Native(edge) | Place::Term { edge, .. }) = compiled.places[e];
                let from = &edges.lambda[compiled.edge_starts[edge]..compiled.edge_starts[edge + 1]];
                let factor = compiled.scaling.edges[e] / compiled.scaling.cost;
                let to = &mut prices.data[starts[e] - first..starts[e + 1] - first];
                to.iter_mut().zip(from).for_each(|(out, l)| *out = factor * l);
            }
        });
    }
}
