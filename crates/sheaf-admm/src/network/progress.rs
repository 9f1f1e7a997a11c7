//! What a solve shows while it runs, in the units of the problem as it was given.

use super::Network;
use super::contradiction::contradict;
use super::report::{Edges, Hard};
use crate::admm::{Iteration, Observer};
use crate::share::Share;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;

/// Residuals of one iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Record {
    /// The largest number of x − z, the distance between proposals and agreement.
    pub primal: f64,
    /// The largest difference between a multiplier and the slope of the objective.
    pub dual: f64,
    /// The penalty, in scaled units.
    pub rho: f64,
}

/// An iteration, as a callback sees it.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'s> {
    /// Its number in this solve, from 0.
    pub iteration: usize,
    /// Its residuals.
    pub record: Record,
    /// The proposals in scaled units, agent after agent.
    pub scaled_x: &'s [f64],
}

/// Records every iteration, passes it on, and measures the edges of the network.
pub(super) struct Watch<'s, F> {
    pub net: &'s Network,
    pub unit: &'s [f64], // [states], x = unit·x̂
    pub tol: f64,
    pub starts: &'s [usize],      // [agents + 1]
    pub edge_starts: &'s [usize], // [edges + 1]
    pub edges: &'s mut Edges,
    pub history: &'s mut Vec<Record>,
    /// Whether hard edges may contradict each other; none if that has been looked at.
    pub contradiction: &'s mut Option<bool>,
    pub offsets: &'s [f64], // [edge_len], scaled
    /// Where other ranks have a part of the agents.
    pub whole: Option<Whole<'s>>,
    pub callback: F,
}

/// The whole network of a solve over several ranks, of which an iteration shows the own agents.
pub(super) struct Whole<'s> {
    pub op: SheafOp<'s, f64>,
    pub share: &'s Share,
    pub counts: &'s [usize], // [ranks], of states
}

/// A solve that is still running after so many iterations looks whether its hard edges contradict each other.
const LONG: usize = 500;

impl<F: FnMut(&Progress<'_>) -> bool> Observer<f64> for Watch<'_, F> {
    fn iteration(&mut self, view: &Iteration<'_, '_, f64>) -> bool {
        let (Penalty::Scalar(rho), Some(residuals)) = (view.rho, view.residuals) else { return true };
        let record = Record { primal: residuals.primal, dual: residuals.dual, rho };
        if self.history.len() < self.history.capacity() {
            self.history.push(record);
        }
        let goes_on = (self.callback)(&Progress { iteration: view.k, record, scaled_x: view.x });
        if view.k == LONG && self.contradiction.is_none() {
            // An error of sizes cannot be: they are those of the problem itself.
            let op = self.whole.as_ref().map_or(&view.op, |whole| &whole.op);
            *self.contradiction = Some(contradict(op, self.offsets).unwrap_or(false));
        }
        goes_on && *self.contradiction != Some(true)
    }

    /// F x − b of hard edges in the units of the network: proposals are what the solution returns.
    fn edges(&mut self, view: &Iteration<'_, '_, f64>) -> Option<(f64, f64)> {
        let (unit, starts) = (self.unit, self.starts);
        // Only settled iterates are measured: all ranks may hold all of them for a moment.
        let all = self.whole.as_ref().map(|whole| whole.share.collect(view.x, whole.counts));
        let x = all.as_deref().unwrap_or(view.x);
        let hard = |edge: &super::Edge| edge.coupling == super::Coupling::Hard;
        let found = self.edges.residuals(self.net, self.edge_starts, hard, |agent, j| {
            let k = starts[agent] + j;
            unit[k] * x[k]
        });
        let Hard { rows, .. } = found.hard;
        (rows > 0).then(|| found.hard.miss(self.tol))
    }
}
