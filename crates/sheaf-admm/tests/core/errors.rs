//! Mistakes are typed errors that name the place.

use sheaf_admm::ErrorKind::{NotFinite, NotPositive, NotPositiveDefinite, OutOfRange, Shape, Unsupported};
use sheaf_admm::admm::{Adjoint, Balancing, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::sheaf::{AgentGraph, Edge, LowRank, LowRankGrad, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::{Dense, Diagonal, Objective, ObjectiveGrad, Penalty};
use sheaf_admm::z_update::{Agreement, Cg, ConsensusGrad, Descent, Exact, Stop, ZUpdate};
use sheaf_admm::{ErrorKind, Result};

pub fn assert_kind<T>(result: Result<T>, kind: ErrorKind, place: &str) {
    let error = result.err().unwrap_or_else(|| panic!("{place}: a mistake went through"));
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.place().contains(place), "`{place}` is not in: {error}");
    assert!(!error.expected().is_empty() && !error.got().is_empty(), "{error}");
}

/// Two agents of stalk 2 with one edge of stalk 1.
struct Pair {
    sheaf: Sheaf,
    stack: Vec<f64>,
    ones: [f64; 4],
    z_update: ZUpdate<f64>,
}

impl Pair {
    fn new() -> Self {
        let graph = AgentGraph::from_edges(2, &[(0, 1)]).expect("valid");
        let sheaf = Sheaf::uniform(&graph, 2, 1).expect("valid");
        let mut stack = vec![0.0; 32];
        (stack[0], stack[16]) = (1.0, -0.5);
        let z_update = ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 1.0 }, 3));
        Self { sheaf, stack, ones: [1.0; 4], z_update }
    }

    fn problem(&self) -> Problem<'_, f64> {
        Problem {
            op: SheafOp::new(&self.sheaf, Maps::Stack(&self.stack)).expect("fits"),
            objective: Objective::Diagonal(Diagonal::new(&self.ones, &self.ones)),
            z_update: &self.z_update,
            rho: Penalty::Scalar(1.0),
            relax: 1.6,
        }
    }
}

fn solve(problem: &Problem<'_, f64>, options: &Options<f64>) -> Result<()> {
    let mut ws = Workspace::new(problem, Mode::Solve);
    problem.solve(Start::Zeros, options, &mut ws, &mut ()).map(|_| ())
}

#[test]
fn graphs_refuse_agents_and_slots_that_do_not_exist() {
    assert_kind(AgentGraph::from_edges(2, &[(0, 1), (1, 2)]), OutOfRange, "edge 1, end v");
    assert_kind(AgentGraph::from_edges(usize::MAX, &[]), OutOfRange, "agents");
    let edge = Edge { u: 0, slot_u: 0, v: 1, slot_v: 3 };
    assert_kind(AgentGraph::with_slots(vec![1, 2], vec![edge]), OutOfRange, "edge 0, end v");
    let edge = Edge { u: 1, slot_u: 1, v: 1, slot_v: 1 };
    assert_kind(AgentGraph::with_slots(vec![1, 2], vec![edge]), OutOfRange, "edge 0");
    assert_kind(AgentGraph::with_slots(vec![usize::MAX, usize::MAX], vec![]), OutOfRange, "slots");
}

#[test]
fn sheaves_refuse_sizes_that_do_not_fit() {
    let graph = AgentGraph::from_edges(3, &[(0, 1), (1, 2)]).expect("valid");
    assert_kind(Sheaf::uniform(&graph, 0, 1), Shape, "d_v");
    assert_kind(Sheaf::uniform(&graph, 1, 0), Shape, "d_e");
    assert_kind(Sheaf::uniform(&graph, usize::MAX, 1), Shape, "stalks of agents");
    assert_kind(Sheaf::uniform(&graph, 1, usize::MAX / 2), Shape, "stalks of edges");
    assert_kind(Sheaf::heterogeneous(&graph, &[1, 2], &[1, 1]), Shape, "stalk sizes of agents");
    assert_kind(Sheaf::heterogeneous(&graph, &[1, 2, 3], &[1]), Shape, "stalk sizes of edges");
    assert_kind(Sheaf::heterogeneous(&graph, &[1, 0, 3], &[1, 1]), Shape, "agent 1");
    let edges = vec![Edge { u: 0, slot_u: 0, v: 1, slot_v: 0 }, Edge { u: 0, slot_u: 0, v: 2, slot_v: 0 }];
    let shared = AgentGraph::with_slots(vec![1; 3], edges).expect("valid");
    assert_kind(Sheaf::heterogeneous(&shared, &[2; 3], &[1, 2]), Shape, "edge 1");
}

#[test]
fn maps_refuse_numbers_and_views_that_do_not_fit() {
    let pair = Pair::new();
    let build = |maps| SheafOp::new(&pair.sheaf, maps);
    assert_kind(build(Maps::Stack(&pair.stack[1..])), Shape, "shared stack");
    assert_kind(
        build(Maps::Table { stacks: &pair.stack, index: &[0], order: &[], tiles: &[] }),
        Shape,
        "view index",
    );
    assert_kind(
        build(Maps::Table { stacks: &pair.stack, index: &[0, 1], order: &[], tiles: &[] }),
        OutOfRange,
        "agent 1",
    );
    assert_kind(
        build(Maps::Table { stacks: &pair.stack[1..], index: &[0, 0], order: &[], tiles: &[] }),
        Shape,
        "stacks",
    );
    assert_kind(build(Maps::PerAgent(&pair.stack)), Shape, "stacks");
    let (base, a, b) = (&[1.0; 2][..], &[1.0; 1][..], &[1.0; 2][..]);
    let low = LowRank { base, a, b, gate: None, rank: 1, scale: 1.0, index: &[0, 0] };
    build(Maps::LowRank(low)).expect("these maps fit");
    assert_kind(build(Maps::LowRank(LowRank { base: a, ..low })), Shape, "base maps");
    assert_kind(build(Maps::LowRank(LowRank { b: a, ..low })), Shape, "factors B");
    assert_kind(build(Maps::LowRank(LowRank { rank: 0, ..low })), Shape, "rank");
    assert_kind(build(Maps::LowRank(LowRank { gate: Some(&[]), ..low })), Shape, "gates");
    assert_kind(build(Maps::LowRank(LowRank { index: &[0, 7], ..low })), OutOfRange, "agent 1");
    let graph = AgentGraph::from_edges(3, &[(0, 1), (1, 2)]).expect("valid");
    let mixed = Sheaf::heterogeneous(&graph, &[1, 2, 3], &[1, 1]).expect("valid");
    assert_kind(SheafOp::new(&mixed, Maps::Stack(&pair.stack)), Unsupported, "maps");
}

#[test]
fn problems_refuse_parameters_without_meaning() {
    let pair = Pair::new();
    let sound = pair.problem();
    sound.validate().expect("this problem is sound");
    for rho in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let problem = Problem { rho: Penalty::Scalar(rho), ..sound.clone() };
        assert_kind(problem.validate(), NotPositive, "rho");
        assert_kind(solve(&problem, &Options::fixed(1)), NotPositive, "rho");
    }
    let each = Problem { rho: Penalty::PerAgent(&[1.0, 0.0]), ..sound.clone() };
    assert_kind(each.validate(), NotPositive, "rho of agent 1");
    assert_kind(Problem { rho: Penalty::PerAgent(&[1.0]), ..sound.clone() }.validate(), Shape, "rho");
    assert_kind(Problem { relax: 0.0, ..sound.clone() }.validate(), NotPositive, "relaxation");
    assert_kind(Problem { relax: 2.0, ..sound.clone() }.validate(), Unsupported, "relaxation");
    let nan = [1.0, f64::NAN, 1.0, 1.0];
    let objective = Objective::Diagonal(Diagonal::new(&pair.ones, &nan));
    assert_kind(Problem { objective, ..sound.clone() }.validate(), NotFinite, "diagonal.q[1]");
    let objective = Objective::Diagonal(Diagonal::new(&pair.ones[..3], &pair.ones));
    assert_kind(Problem { objective, ..sound.clone() }.validate(), Shape, "diagonal.diag");
    let indefinite = [1.0, 2.0, 2.0, 1.0, 1.0, 0.0, 0.0, 1.0];
    let objective = Objective::Dense(Dense { quad: &indefinite, q: &pair.ones });
    assert_kind(Problem { objective, ..sound.clone() }.validate(), NotPositiveDefinite, "dense.quad");
    for gamma in [0.0, f64::NAN] {
        let soft = Agreement::Soft { gamma };
        let all = [
            ZUpdate::Cg(Cg::published(soft, 3)),
            ZUpdate::Descent(Descent::nesterov(soft, 0.1, 3)),
            ZUpdate::Exact(Exact::new(&pair.sheaf, soft)),
        ];
        for z_update in &all {
            let problem = Problem { z_update, ..sound.clone() };
            assert_kind(problem.validate(), NotPositive, "gamma");
            assert_kind(solve(&problem, &Options::fixed(1)), NotPositive, "gamma");
        }
    }
    for (absolute, relative) in [(0.0, 0.0), (1e-3, f64::NAN), (1e-3, -1.0), (f64::INFINITY, 0.0)] {
        let stop = Stop::Tolerance { absolute, relative, max_steps: 9 };
        let z_update = ZUpdate::Cg(Cg { stop, ..Cg::published(Agreement::Hard, 3) });
        assert_kind(Problem { z_update: &z_update, ..sound.clone() }.validate(), NotPositive, "cg tolerance");
    }
}

#[test]
fn solves_refuse_starts_options_and_workspaces_that_do_not_fit() {
    let pair = Pair::new();
    let problem = pair.problem();
    let run =
        |start, options: Options<f64>, ws: &mut Workspace<f64>| problem.solve(start, &options, ws, &mut ());
    let mut ws = Workspace::new(&problem, Mode::Solve);
    assert_kind(run(Start::At(&[0.0; 3]), Options::fixed(1), &mut ws), Shape, "start");
    let nan = [0.0, 0.0, f64::NAN, 0.0];
    assert_kind(run(Start::At(&nan), Options::fixed(1), &mut ws), NotFinite, "start[2]");
    assert_kind(run(Start::Zeros, Options::until(0.0, 0.0, 9), &mut ws), NotPositive, "tolerance");
    assert_kind(run(Start::Zeros, Options::until(1.0, -1.0, 9), &mut ws), NotPositive, "relative tolerance");
    let balancing = Some(Balancing { factor: 1.0, ..Balancing::default() });
    let options = Options { balancing, ..Options::fixed(1) };
    assert_kind(run(Start::Zeros, options, &mut ws), Unsupported, "balancing factor");
    assert_kind(run(Start::Zeros, Options::fixed(1), &mut Workspace::default()), Shape, "workspace");

    let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 4 });
    assert_kind(run(Start::Zeros, Options::fixed(5), &mut ws), Shape, "workspace, iterations");
    run(Start::Zeros, Options::fixed(4), &mut ws).expect("four iterations fit");
}

#[test]
fn a_workspace_made_for_fewer_inner_steps_is_refused_before_the_sweep() {
    let pair = Pair::new();
    let problem = pair.problem();
    let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 2 });
    let longer = ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 1.0 }, 50));
    let other = Problem { z_update: &longer, ..problem };
    other.solve(Start::Zeros, &Options::fixed(2), &mut ws, &mut ()).expect("the forward needs no more room");
    let mut grads = Gradients {
        objective: &mut ObjectiveGrad::None,
        maps: &mut MapsGrad::None,
        rho: &mut [0.0],
        gamma: &mut 0.0,
        eta: &mut 0.0,
        offsets: &mut [],
        edge_weights: &mut [],
        start: &mut [],
    };
    let seeds = Seeds { d_x: &pair.ones, d_z: None, d_u: None };
    let result = other.reverse(Adjoint::Unrolled, &seeds, &mut grads, &mut ws);
    assert_kind(result, Shape, "scratch of the z-update");
}

#[test]
fn a_solve_that_leaves_the_numbers_says_so() {
    // Finite, but too large to compute with.
    let pair = Pair::new();
    let huge = [f64::MAX; 4];
    let objective = Objective::Diagonal(Diagonal::new(&pair.ones, &huge));
    let problem = Problem { objective, ..pair.problem() };
    assert_kind(solve(&problem, &Options::fixed(20)), NotFinite, "solve");
    // Maps are not searched for NaN on every solve, but no NaN passes undetected.
    let mut broken = Pair::new();
    broken.stack[0] = f64::NAN;
    assert_kind(solve(&broken.problem(), &Options::fixed(3)), NotFinite, "solve");
}

#[test]
fn reverse_sweeps_refuse_what_does_not_belong_to_the_solve() {
    let pair = Pair::new();
    let problem = pair.problem();
    let reverse = |ws: &mut Workspace<f64>,
                   d_x: &[f64],
                   d_z: Option<&[f64]>,
                   rho: usize,
                   start: usize,
                   stack: usize| {
        let (mut d_rho, mut d_start, mut d_stack) = (vec![0.0; rho], vec![0.0; start], vec![0.0; stack]);
        let mut grads = Gradients {
            objective: &mut ObjectiveGrad::None,
            maps: &mut MapsGrad::Stack(&mut d_stack),
            rho: &mut d_rho,
            gamma: &mut 0.0,
            eta: &mut 0.0,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut d_start,
        };
        problem.reverse(Adjoint::Unrolled, &Seeds { d_x, d_z, d_u: d_z }, &mut grads, ws)
    };
    let (seed, options) = ([1.0; 12], Options::fixed(2));
    let mut ws = Workspace::new(&problem, Mode::Solve);
    problem.solve(Start::Zeros, &options, &mut ws, &mut ()).expect("solves");
    assert_kind(reverse(&mut ws, &seed[..4], None, 1, 4, 32), Unsupported, "reverse");
    let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 2 });
    assert_kind(reverse(&mut ws, &seed[..4], None, 1, 4, 32), Unsupported, "reverse");
    problem.solve(Start::Zeros, &options, &mut ws, &mut ()).expect("solves");
    assert_kind(reverse(&mut ws, &seed[..5], None, 1, 4, 32), Shape, "seed of x");
    assert_kind(reverse(&mut ws, &seed, None, 1, 4, 32), Shape, "seed of x");
    assert_kind(reverse(&mut ws, &seed[..4], Some(&seed[..3]), 1, 4, 32), Shape, "seed of z");
    assert_kind(reverse(&mut ws, &seed[..4], None, 2, 4, 32), Shape, "gradient of rho");
    assert_kind(reverse(&mut ws, &seed[..4], None, 1, 3, 32), Shape, "gradient of the start");
    assert_kind(reverse(&mut ws, &seed[..4], None, 1, 4, 31), Shape, "gradient of the stack");
    reverse(&mut ws, &seed[..4], None, 1, 4, 32).expect("this one belongs to it");

    let mut wrong = MapsGrad::LowRank(LowRankGrad { base: &mut [], a: &mut [], b: &mut [], gate: None });
    let mut grads = Gradients {
        objective: &mut ObjectiveGrad::None,
        maps: &mut wrong,
        rho: &mut [0.0],
        gamma: &mut 0.0,
        eta: &mut 0.0,
        offsets: &mut [],
        edge_weights: &mut [],
        start: &mut [],
    };
    let seeds = Seeds { d_x: &seed[..4], d_z: None, d_u: None };
    let result = problem.reverse(Adjoint::Unrolled, &seeds, &mut grads, &mut ws);
    assert_kind(result, Unsupported, "gradient of maps");
    // A solve that failed leaves nothing to differentiate.
    let nan = [f64::NAN; 4];
    assert!(problem.solve(Start::At(&nan), &options, &mut ws, &mut ()).is_err());
    let broken = Problem { rho: Penalty::Scalar(-1.0), ..problem.clone() };
    assert!(broken.solve(Start::Zeros, &options, &mut ws, &mut ()).is_err());
    assert_kind(reverse(&mut ws, &seed[..4], None, 1, 4, 32), Unsupported, "reverse");
}

#[test]
fn consensus_solvers_refuse_vectors_that_do_not_fit() {
    let pair = Pair::new();
    let (op, rho, z_update) = (pair.problem().op, Penalty::Scalar(1.0), &pair.z_update);
    let mut scratch = vec![0.0; z_update.scratch_len(&op)];
    let (ones, mut z) = (pair.ones, [0.0; 4]);
    let short = z_update.forward(&op, &rho, &ones[..3], &ones, &mut [], &mut z, &mut scratch);
    assert_kind(short, Shape, "z-update");
    let carry = z_update.forward(&op, &rho, &ones, &ones, &mut [0.0], &mut z, &mut scratch);
    assert_kind(carry, Shape, "carry");
    let tight = z_update.forward(&op, &rho, &ones, &ones, &mut [], &mut z, &mut scratch[..3]);
    assert_kind(tight, Shape, "z-update scratch");
    let (mut maps, mut d_w, mut d_z_prev) = (MapsGrad::None, [0.0; 4], [0.0; 4]);
    let mut grad = ConsensusGrad {
        maps: &mut maps,
        rho: &mut [0.0],
        gamma: &mut 0.0,
        eta: &mut 0.0,
        offsets: &mut [],
        edge_weights: &mut [],
    };
    let (d_w, d_z_prev, scratch) = (&mut d_w[..3], &mut d_z_prev, &mut scratch);
    let short = z_update.vjp(&op, &rho, &ones, &ones, &[], &ones, d_w, d_z_prev, &mut [], &mut grad, scratch);
    assert_kind(short, Shape, "z-update");
}
