//! A network over several ranks.
//!
//! Every rank holds the network and its scaled form; the states, the objectives that run, the exchange and the work of an
//! iteration are shared. At the end all ranks have the whole solution.

use std::sync::Arc;
use std::time::Instant;

use super::compile::Compiled;
use super::progress::Record;
use super::{Consensus, Network, Settings, Solution, Solver};
use crate::admm::{Balancing, Iteration, Mode, Options, Problem, Start, Workspace};
use crate::error::check_len;
use crate::linalg::units::Units;
use crate::share::{Comm, GraphPart, Order, own_agents};
use crate::sheaf::{AgentGraph, Edge, Maps, Sheaf, SheafOp};
use crate::x_update::{Objective, Penalty};
use crate::z_update::{Agreement, Cg, CgStart, ZUpdate};
use crate::{Error, ErrorKind, Result};

/// The most steps of one consensus step.
const STEPS: usize = 1000;

/// Conjugate gradients that are accurate enough for residuals of `tol`.
pub(super) fn conjugate_gradients(agreement: Agreement<f64>, tol: f64) -> ZUpdate<f64> {
    let relative = (0.01 * tol).max(1e-13);
    ZUpdate::Cg(Cg { start: CgStart::Warm, ..Cg::to_tolerance(agreement, relative, STEPS) })
}

/// What a rank holds of a compiled network.
struct Part {
    sheaf: Sheaf,
    own: std::ops::Range<usize>,
    states: std::ops::Range<usize>,
    stacks: std::ops::Range<usize>,
    offsets: Vec<f64>, // [edge_len] of the part
    weights: Vec<f64>, // [edges] of the part
}

impl Part {
    fn new(compiled: &Compiled, weights: &[f64], comm: &Arc<dyn Comm>) -> Result<Self> {
        let whole = &compiled.sheaf;
        let edge = |((u, slot_u), (v, slot_v)): ((usize, usize), (usize, usize))| Edge {
            u: u as u32,
            slot_u: slot_u as u32,
            v: v as u32,
            slot_v: slot_v as u32,
        };
        let slots = (0..whole.agents()).map(|i| whole.slot_rows(i).len() - 1).collect();
        let graph = AgentGraph::with_slots(slots, whole.edge_ends().map(edge).collect())?;
        let part = GraphPart::new(&graph, comm.rank(), comm.ranks())?;
        let own = part.own();
        let bounds = |offsets: &[usize]| offsets[own.start]..offsets[own.end];
        let d_v: Vec<usize> =
            own.clone().map(|i| whole.state_offsets()[i + 1] - whole.state_offsets()[i]).collect();
        let stalk = |e: usize| compiled.edge_starts[e]..compiled.edge_starts[e + 1];
        let d_e: Vec<usize> = part.edge_places().iter().map(|&e| stalk(e).len()).collect();
        let sheaf = Sheaf::heterogeneous_part(&part, &d_v, &d_e, Arc::clone(comm))?;
        let offsets = part.edge_places().iter().flat_map(|&e| &compiled.offsets[stalk(e)]).copied().collect();
        let weights = part.edge_places().iter().map(|&e| weights[e]).collect();
        let (states, stacks) = (bounds(whole.state_offsets()), bounds(whole.stack_offsets()));
        Ok(Self { sheaf, own, states, stacks, offsets, weights })
    }
}

impl Network {
    /// The graph of the network: every end of an edge has a slot of its own.
    pub fn graph(&self) -> Result<AgentGraph> {
        let pairs: Vec<(usize, usize)> = self.edges.iter().map(|e| (e.ends[0].0.0, e.ends[1].0.0)).collect();
        AgentGraph::from_edges(self.agents.len(), &pairs)
    }

    /// The same network with its agents in another order: agent i is at `order.places()[i]`.
    pub fn in_order(&self, order: &Order) -> Result<Self> {
        check_len("order of agents", self.agents.len(), order.agents().len())?;
        let mut sorted = Self { agents: Vec::with_capacity(self.agents.len()), edges: self.edges.clone() };
        sorted.agents.extend(order.agents().iter().map(|&agent| self.agents[agent].clone()));
        for (agent, _) in sorted.edges.iter_mut().flat_map(|edge| &mut edge.ends) {
            agent.0 = order.places()[agent.0];
        }
        Ok(sorted)
    }
}

impl Solver {
    /// As [`solve`](Self::solve), on all ranks that `comm` connects; all call it together, with the same network, and get the
    /// bits that one process gives. For networks whose edges are all [`Soft`](super::Coupling::Soft), with
    /// [`Consensus::Cg`]. Other networks are refused, and so is a search for the reasons of a network without a solution.
    pub fn solve_over(&mut self, comm: &Arc<dyn Comm>) -> Result<&Solution> {
        let began = Instant::now();
        let place = "network over several ranks";
        let Some(weights) = self.compiled.weights.clone() else {
            let (expected, hint) = ("edges that are all soft", "solve it in one process");
            return Err(
                Error::new(ErrorKind::Unsupported, place, expected, "hard or robust edges").hint(hint)
            );
        };
        if self.settings.consensus != Consensus::Cg {
            let (expected, got) = ("Consensus::Cg", "a factorisation of the whole system");
            return Err(Error::new(ErrorKind::Unsupported, place, expected, got)
                .hint("set Settings::consensus, or --consensus cg of sheaf run"));
        }
        let part = Part::new(&self.compiled, &weights, comm)?;
        let Settings { tol, iterations, time_limit, adapt, relax, .. } = self.settings;
        let mut options = Options::until(tol, tol, iterations);
        options.time_limit = time_limit;
        options.balancing = adapt.then(Balancing::relative);
        let op = SheafOp::new(&part.sheaf, Maps::PerAgent(&self.compiled.stacks[part.stacks.clone()]))?;
        let problem = Problem {
            op: op.with_offsets(&part.offsets)?.with_edge_weights(&part.weights)?,
            objective: Objective::Own(&self.compiled.maps[part.own.clone()]),
            z_update: &self.z_update,
            rho: Penalty::Scalar(self.rho),
            relax,
        };
        let mut workspace = Workspace::new(&problem, Mode::Solve);
        let units: Arc<[f64]> = self.unit[part.states.clone()].into();
        workspace.measure_in(Units { state: units, cost: self.compiled.scaling.cost });
        let start = Start::Warm { z: &self.z[part.states.clone()], u: &self.u[part.states.clone()] };
        let history = &mut self.solution.history;
        history.clear();
        let mut record = |view: &Iteration<'_, '_, f64>| {
            let room = history.len() < history.capacity();
            if let (Penalty::Scalar(rho), Some(r), true) = (view.rho, view.residuals, room) {
                history.push(Record { primal: r.primal, dual: r.dual, rho });
            }
            true
        };
        let report = problem.solve(start, &options, &mut workspace, &mut record)?;
        self.solution.iterations = report.iterations;
        self.collect(comm, &part, &workspace)?;
        self.rho *= report.rho_factor;
        self.limit_rho();
        self.report(report.status, report.residuals);
        self.solution.time = began.elapsed();
        Ok(&self.solution)
    }

    /// The whole state on every rank, and the prices of its edges.
    fn collect(&mut self, comm: &Arc<dyn Comm>, part: &Part, workspace: &Workspace<f64>) -> Result<()> {
        let Some(share) = part.sheaf.share() else { return Ok(()) };
        let offsets = self.compiled.sheaf.state_offsets();
        let states = |rank: usize| {
            let own = own_agents(share.agents(), rank, comm.ranks());
            offsets[own.end] - offsets[own.start]
        };
        let counts: Vec<usize> = (0..comm.ranks()).map(states).collect();
        let of_all = |own: &[f64]| share.collect(own, &counts);
        (self.x, self.z, self.u) = (of_all(workspace.x()), of_all(workspace.z()), of_all(workspace.u()));
        let op = self.compiled.op()?;
        let mut scratch = vec![0.0; self.z_update.residual_scratch_len(&op)];
        let rho = Penalty::Scalar(self.rho);
        self.z_update.multipliers(&op, &rho, &self.z, &self.u, &mut self.edges.lambda, &mut scratch);
        Ok(())
    }
}
