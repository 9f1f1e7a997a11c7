//! A network over several ranks.
//!
//! Every rank holds the network and its scaled form; the states, the objectives that run, the exchange and the work of an
//! iteration are shared. At the end all ranks have the whole solution.

use std::sync::Arc;
use std::time::Instant;

use super::compile::Compiled;
use super::progress::{Watch, Whole};
use super::solver::AFTER;
use super::{Consensus, Network, Progress, Settings, Solution, Solver};
use crate::admm::{Balancing, Mode, Options, Problem, Residuals, Start, Status, Workspace};
use crate::clock;
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
    offsets: Vec<f64>,         // [edge_len] of the part
    weights: Option<Vec<f64>>, // [edges] of the part, if all are soft
}

impl Part {
    fn new(compiled: &Compiled, comm: &Arc<dyn Comm>) -> Result<Self> {
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
        let of_part = |weights: &Vec<f64>| part.edge_places().iter().map(|&e| weights[e]).collect();
        let weights = compiled.weights.as_ref().map(of_part);
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
    /// bits that one process gives. It needs [`Consensus::Cg`]; a factorisation is refused. Ranks look for edges that
    /// contradict each other, but not for the certificates of other networks without a solution: those end at a limit.
    pub fn solve_over(&mut self, comm: &Arc<dyn Comm>) -> Result<&Solution> {
        let began = Instant::now();
        if self.settings.consensus != Consensus::Cg {
            let (expected, got) = ("Consensus::Cg", "a factorisation of the whole system");
            return Err(Error::new(ErrorKind::Unsupported, "network over several ranks", expected, got)
                .hint("set Settings::consensus, or --consensus cg of sheaf run"));
        }
        let deadline = self.settings.time_limit.and_then(|t| began.checked_add(t.saturating_add(AFTER)));
        clock::until(deadline, || {
            let (status, residuals) = self.iterate_over(comm)?;
            self.conclude(status, residuals)
        })?;
        self.solution.time = began.elapsed();
        Ok(&self.solution)
    }

    /// Runs the own part of the scaled problem; all ranks keep the whole state.
    fn iterate_over(&mut self, comm: &Arc<dyn Comm>) -> Result<(Status, Option<Residuals<f64>>)> {
        // Soft edges contradict nothing.
        if self.compiled.weights.is_some() {
            self.contradiction = Some(false);
        }
        let part = Part::new(&self.compiled, comm)?;
        let Some(share) = part.sheaf.share() else {
            let (expected, got) = ("a part of the sheaf", "the whole of it");
            return Err(Error::new(ErrorKind::Unsupported, "network over several ranks", expected, got));
        };
        let offsets = self.compiled.sheaf.state_offsets();
        let states = |rank: usize| {
            let own = own_agents(share.agents(), rank, comm.ranks());
            offsets[own.end] - offsets[own.start]
        };
        let counts: Vec<usize> = (0..comm.ranks()).map(states).collect();
        let Settings { tol, iterations, time_limit, adapt, relax, .. } = self.settings;
        let mut options = Options::until(tol, tol, iterations);
        options.time_limit = time_limit;
        options.balancing = adapt.then(Balancing::relative);
        let stacks = &self.compiled.stacks[part.stacks.clone()];
        let mut op = SheafOp::new(&part.sheaf, Maps::PerAgent(stacks))?.with_offsets(&part.offsets)?;
        if let Some(weights) = &part.weights {
            op = op.with_edge_weights(weights)?;
        }
        let problem = Problem {
            op,
            objective: Objective::Own(&self.compiled.maps[part.own.clone()]),
            z_update: &self.z_update,
            rho: Penalty::Scalar(self.rho),
            relax,
        };
        let mut workspace = Workspace::new(&problem, Mode::Solve);
        let units: Arc<[f64]> = self.unit[part.states.clone()].into();
        workspace.measure_in(Units { state: units, cost: self.compiled.scaling.cost });
        let start = Start::Warm { z: &self.z[part.states.clone()], u: &self.u[part.states.clone()] };
        let Solution { history, starts, edge_starts, .. } = &mut self.solution;
        history.clear();
        let whole = Whole { op: self.compiled.op()?, share, counts: &counts };
        let mut watch = Watch {
            net: &self.net,
            unit: &self.unit,
            tol,
            starts,
            edge_starts,
            edges: &mut self.edges,
            history,
            contradiction: &mut self.contradiction,
            offsets: &self.compiled.offsets,
            whole: Some(whole),
            callback: |_: &Progress<'_>| true,
        };
        let report = problem.solve(start, &options, &mut workspace, &mut watch)?;
        self.solution.iterations = report.iterations;
        let of_all = |own: &[f64]| share.collect(own, &counts);
        (self.x, self.z, self.u) = (of_all(workspace.x()), of_all(workspace.z()), of_all(workspace.u()));
        self.rho *= report.rho_factor;
        let op = self.compiled.op()?;
        let mut scratch = vec![0.0; self.z_update.residual_scratch_len(&op)];
        let rho = Penalty::Scalar(self.rho);
        self.z_update.multipliers(&op, &rho, &self.z, &self.u, &mut self.edges.lambda, &mut scratch);
        self.limit_rho();
        Ok((report.status, report.residuals))
    }
}
