//! The reverse sweep over ranks against one process, bit by bit.

use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::share::{GraphPart, own_agents};
use sheaf_admm::sheaf::{AgentGraph, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::{Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty};
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Descent, ZUpdate};
use sheaf_kernels::pool::with_threads;

use crate::support::{bits, graph, numbers, on_ranks};

const D_E: usize = 2;

/// Agents with stalks of their own.
struct Case {
    graph: AgentGraph,
    d_v: Vec<usize>,
    stacks: Vec<f64>,
    diag: Vec<f64>,
    q: Vec<f64>,
    seed: Vec<f64>,
    rho: Vec<f64>,
}

/// All gradients of a solve.
#[derive(Debug)]
struct Grads {
    x: Vec<f64>,
    maps: Vec<f64>,
    diag: Vec<f64>,
    q: Vec<f64>,
    start: Vec<f64>,
    rho: Vec<f64>,
    gamma: f64,
    eta: f64,
}

impl Case {
    fn new() -> (Self, Sheaf) {
        let graph = graph(11);
        let d_v: Vec<usize> = (0..graph.agents()).map(|i| 1 + i % 3).collect();
        let sheaf = Sheaf::heterogeneous(&graph, &d_v, &vec![D_E; graph.edges().len()]).unwrap();
        let n = sheaf.state_len();
        let positive = |seed, n| numbers(seed, n).into_iter().map(|v| 0.8 + 0.5 * v).collect();
        let stacks = numbers(1, sheaf.stack_len()).into_iter().map(|v| 0.4 * v).collect();
        let (diag, q, seed, rho) = (positive(2, n), numbers(3, n), numbers(4, n), positive(5, d_v.len()));
        (Self { graph, d_v, stacks, diag, q, seed, rho }, sheaf)
    }

    /// Solves on the agents of a sheaf, whose states and stacks start at these places, and goes back.
    fn run(
        &self,
        sheaf: &Sheaf,
        z_update: &ZUpdate<f64>,
        mode: Mode,
        each: bool,
        states: usize,
        stacks: usize,
    ) -> Grads {
        let own = sheaf.share().map_or(0..sheaf.agents(), |share| share.own());
        let (n, stacks) = (sheaf.state_len(), &self.stacks[stacks..][..sheaf.stack_len()]);
        let of = |all: &[f64]| all[states..][..n].to_vec();
        let (diag, q, seed) = (of(&self.diag), of(&self.q), of(&self.seed));
        let rho = if each { Penalty::PerAgent(&self.rho[own]) } else { Penalty::Scalar(0.6) };
        let problem = Problem {
            op: SheafOp::new(sheaf, Maps::PerAgent(stacks)).unwrap(),
            objective: Objective::Diagonal(Diagonal::new(&diag, &q)),
            z_update,
            rho,
            relax: 1.1,
        };
        let mut ws = Workspace::new(&problem, mode);
        problem.solve(Start::At(&seed), &Options::fixed(3), &mut ws, &mut ()).unwrap();
        let mut grads = Grads {
            x: ws.x().to_vec(),
            maps: vec![0.0; stacks.len()],
            diag: vec![0.0; n],
            q: vec![0.0; n],
            start: vec![0.0; n],
            rho: vec![0.0; rho.grad_len(sheaf.agents())],
            gamma: 0.0,
            eta: 0.0,
        };
        let objective =
            DiagonalGrad { diag: Some(&mut grads.diag), q: Some(&mut grads.q), ..Default::default() };
        let mut gradients = Gradients {
            objective: &mut ObjectiveGrad::Diagonal(objective),
            maps: &mut MapsGrad::PerAgent(&mut grads.maps),
            rho: &mut grads.rho,
            gamma: &mut grads.gamma,
            eta: &mut grads.eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut grads.start,
        };
        let seeds = Seeds { d_x: &seed, d_z: Some(&q), d_u: None };
        problem.reverse(Adjoint::Unrolled, &seeds, &mut gradients, &mut ws).unwrap();
        grads
    }
}

#[test]
fn gradients_over_ranks_have_the_bits_of_one_process() {
    let (case, whole) = Case::new();
    let soft = Agreement::Soft { gamma: 0.5 };
    let with = |agreement, start| ZUpdate::Cg(Cg { start, ..Cg::published(agreement, 3) });
    let solvers = [
        ("soft", with(soft, CgStart::Published)),
        ("warm", with(soft, CgStart::Warm)),
        ("hard", with(Agreement::Hard, CgStart::Published)),
        ("carried", with(Agreement::Hard, CgStart::Carried)),
        ("descent", ZUpdate::Descent(Descent::nesterov(soft, 0.05, 3))),
    ];
    let (replay, keep) = (Mode::Differentiate { iterations: 3 }, Mode::Keep { iterations: 3 });
    for (name, z_update) in &solvers {
        for (mode, each) in [(replay, false), (keep, true)] {
            let one = with_threads(1, || case.run(&whole, z_update, mode, each, 0, 0));
            assert!(one.maps.iter().any(|&d| d != 0.0) && one.start.iter().all(|d| d.is_finite()));
            for ranks in [1, 2, 4] {
                on_ranks(ranks, |comm| {
                    let part = GraphPart::new(&case.graph, comm.rank(), ranks).unwrap();
                    let own = own_agents(case.graph.agents(), comm.rank(), ranks);
                    let d_e = vec![D_E; part.edge_places().len()];
                    let sheaf = Sheaf::heterogeneous_part(&part, &case.d_v[own.clone()], &d_e, comm).unwrap();
                    let states = whole.state_offsets()[own.start]..whole.state_offsets()[own.end];
                    let stacks = whole.stack_offsets()[own.start]..whole.stack_offsets()[own.end];
                    let agents = if each { own } else { 0..1 };
                    let met = case.run(&sheaf, z_update, mode, each, states.start, stacks.start);
                    for (what, met, one) in [
                        ("x", &met.x, &one.x[states.clone()]),
                        ("maps", &met.maps, &one.maps[stacks]),
                        ("diag", &met.diag, &one.diag[states.clone()]),
                        ("q", &met.q, &one.q[states.clone()]),
                        ("start", &met.start, &one.start[states]),
                        ("rho", &met.rho, &one.rho[agents]),
                        ("gamma, eta", &vec![met.gamma, met.eta], &[one.gamma, one.eta]),
                    ] {
                        assert!(bits(met) == bits(one), "{name}, {mode:?}, {ranks} ranks: {what}");
                    }
                });
            }
        }
    }
}
