//! What a solve shows while it runs, in the units of the problem as it was given.

use std::ops::Range;

use crate::admm::{Iteration, Observer};
use crate::linalg::norms::norms_of_agents;
use crate::x_update::Penalty;

/// Residuals of one iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Record {
    /// ‖x − z‖, the distance between proposals and agreement.
    pub primal: f64,
    /// The distance of the multipliers from the slopes of the objectives.
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

/// Measures every iteration and passes it on.
pub(super) struct Watch<'s, F> {
    pub unit: &'s [f64], // [states], x = unit·x̂
    pub cost: f64,
    pub first: usize,
    pub history: &'s mut Vec<Record>,
    pub last: Measure,
    pub callback: F,
}

/// The residuals of an iteration with their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measure {
    pub record: Record,
    pub primal_size: f64,
    pub dual_size: f64,
}

impl<F: FnMut(&Progress<'_>) -> bool> Observer<f64> for Watch<'_, F> {
    fn iteration(&mut self, view: &Iteration<'_, '_, f64>) -> bool {
        let Penalty::Scalar(rho) = view.rho else { return true };
        let (unit, cost, offsets) = (self.unit, self.cost, view.op.sheaf().state_offsets());
        let terms = |agents: Range<usize>| {
            (offsets[agents.start]..offsets[agents.end]).map(move |k| {
                let (unit, x, z, before) = (unit[k], view.x[k], view.z[k], view.z_prev[k]);
                let slope = rho / (unit * cost);
                let moved = z - before - (view.relax - 1.0) * (x - before);
                [unit * (x - z), slope * moved, unit * x, unit * z, slope * view.u[k]]
            })
        };
        let [primal, dual, x, z, multipliers] = norms_of_agents(offsets.len() - 1, terms);
        let record = Record { primal, dual, rho };
        self.last = Measure { record, primal_size: x.max(z), dual_size: multipliers };
        if self.history.len() < self.history.capacity() {
            self.history.push(record);
        }
        (self.callback)(&Progress { iteration: self.first + view.k, record, scaled_x: view.x })
    }
}
