//! Calls that a user can make at any time, with invalid sizes and numbers: typed errors, never a panic.

use sheaf_admm::ErrorKind::{NotFinite, OutOfRange, Shape, Unsupported};
use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::sheaf::{
    AgentGraph, Connectivity, LowRank, LowRankGrad, Maps, MapsGrad, Sheaf, SheafOp, compose_low_rank,
    compose_low_rank_vjp, grid::grid_edges,
};
use sheaf_admm::x_update::{
    Coefficient, Curvature, Diagonal, Equality, Objective, ObjectiveGrad, Penalty, Qp,
};
use sheaf_admm::z_update::{
    Agreement, Cg, ConsensusGrad, Descent, EdgeMethod, EdgeSpace, Exact, Stop, ZUpdate,
};

use crate::errors::assert_kind;

#[test]
fn grids_beyond_all_memory_are_refused() {
    for connectivity in [Connectivity::Four, Connectivity::Eight] {
        for (height, width) in [(usize::MAX, usize::MAX), (1 << 32, 1), (1, 1 << 25), (1 << 13, 1 << 13)] {
            assert_kind(AgentGraph::grid(height, width, connectivity), OutOfRange, "slots");
            assert_kind(grid_edges(height, width, connectivity), OutOfRange, "slots");
        }
        for (height, width) in [(0, 0), (0, 7), (usize::MAX, 0), (1, 1)] {
            let graph = AgentGraph::grid(height, width, connectivity).expect("few agents, or none");
            assert!(graph.edges().is_empty());
        }
    }
    let graph = AgentGraph::grid(2, 2, Connectivity::Four).expect("four agents");
    assert_eq!((graph.slots(3), graph.slots(4), graph.slots(usize::MAX)), (4, 0, 0));
    let sheaf = Sheaf::uniform(&graph, 2, 1).expect("sizes are positive");
    assert!(sheaf.slot_rows(4).is_empty());
}

#[test]
fn composing_asks_for_equal_agents_and_arrays_that_fit() {
    let graph = AgentGraph::grid(2, 1, Connectivity::Four).expect("two agents");
    let sheaf = Sheaf::uniform(&graph, 2, 1).expect("sizes are positive");
    let mixed = Sheaf::heterogeneous(&graph, &[2, 3], &[1]).expect("sizes are positive");
    let (base, a, b) = ([0.5; 2], [0.25; 8], [0.5; 16]);
    let low = LowRank { base: &base, a: &a, b: &b, gate: None, rank: 1, scale: 1.0, index: &[] };
    let one = sheaf.as_uniform().map_or(0, |u| u.d_v * u.ld);
    let mut stacks = vec![0.0; 2 * one];
    compose_low_rank(&sheaf, &low, &mut stacks).expect("two views fit");
    assert_kind(compose_low_rank(&mixed, &low, &mut stacks), Unsupported, "maps");
    assert_kind(compose_low_rank(&sheaf, &low, &mut stacks[1..]), Shape, "stacks");
    assert_kind(compose_low_rank(&sheaf, &LowRank { a: &a[1..], ..low }, &mut stacks), Shape, "factors A");
    for rank in [0, usize::MAX] {
        assert!(compose_low_rank(&sheaf, &LowRank { rank, ..low }, &mut stacks).is_err());
    }

    let (mut d_base, mut d_a, mut d_b) = ([0.0; 2], [0.0; 8], [0.0; 16]);
    let mut vjp = |sheaf: &Sheaf, d_stacks: &[f64], d_a: &mut [f64], gate: Option<&mut [f64]>| {
        let mut grad = LowRankGrad { base: &mut d_base, a: d_a, b: &mut d_b, gate };
        compose_low_rank_vjp(sheaf, &low, d_stacks, &mut grad)
    };
    assert_kind(vjp(&mixed, &stacks, &mut d_a, None), Unsupported, "maps");
    assert_kind(vjp(&sheaf, &stacks[1..], &mut d_a, None), Shape, "stacks");
    assert_kind(vjp(&sheaf, &stacks, &mut d_a[1..], None), Shape, "gradient of factors A");
    assert_kind(vjp(&sheaf, &stacks, &mut d_a, Some(&mut [0.0])), Shape, "gradient of gates");
    vjp(&sheaf, &stacks, &mut d_a, Some(&mut [])).expect("no gates, none wanted");
}

#[test]
fn packing_a_stack_asks_for_whole_rows_and_room() {
    let mut stack = [0.0; 32];
    Sheaf::pack_stack(&[1.0; 6], 2, &mut stack).expect("three rows of two");
    assert_kind(Sheaf::pack_stack(&[1.0; 6], 0, &mut stack), Shape, "maps of an agent");
    assert_kind(Sheaf::pack_stack(&[1.0; 7], 2, &mut stack), Shape, "maps of an agent");
    assert_kind(Sheaf::pack_stack(&[1.0; 6], 3, &mut stack), Shape, "stack of an agent");
    let mut rows = [0.0; 6];
    assert_kind(Sheaf::unpack_stack_add(&stack[1..], 2, &mut rows), Shape, "stack of an agent");
    assert_kind(Sheaf::unpack_stack_add(&stack, 0, &mut rows), Shape, "maps of an agent");
    Sheaf::unpack_stack_add(&stack, 2, &mut rows).expect("fits");
    assert_eq!(rows, [1.0; 6]);
}

#[test]
fn operators_refuse_vectors_of_other_lengths() {
    let pair = Pair::new();
    let op = SheafOp::new(&pair.sheaf, Maps::Stack(&pair.stacks)).expect("fits");
    let (n, m, e) = (pair.sheaf.state_len(), pair.sheaf.row_len(), pair.sheaf.edge_len());
    let (z, mut g, mut y, mut s, mut r) =
        (vec![1.0; n], vec![0.0; n], vec![0.0; m], vec![0.0; m], vec![0.0; e]);
    let short = |v: &[f64]| v[1..].to_vec();
    op.laplacian(&z, &mut g, &mut y, &mut s).expect("fits");
    assert_kind(op.laplacian(&short(&z), &mut g, &mut y, &mut s), Shape, "laplacian: z");
    assert_kind(op.laplacian(&z, &mut short(&g), &mut y, &mut s), Shape, "laplacian: g");
    assert_kind(op.laplacian(&z, &mut g, &mut short(&y), &mut s), Shape, "laplacian: scratch");
    assert_kind(op.laplacian(&z, &mut g, &mut y, &mut short(&s)), Shape, "laplacian: s");
    assert_kind(op.project(&short(&z), &mut y), Shape, "project: z");
    assert_kind(op.project(&z, &mut []), Shape, "project: y");
    assert_kind(op.lift(&short(&s), &mut g), Shape, "lift: s");
    assert_kind(op.exchange(&y, &mut short(&s)), Shape, "exchange: s");
    assert_kind(op.difference(&y, &mut []), Shape, "difference: r");
    assert_kind(op.spread(&[], &mut s), Shape, "spread: r");
    assert_kind(op.coboundary(&z, &mut r, &mut short(&y)), Shape, "coboundary: scratch");
    assert_kind(op.coboundary_t(&r, &mut short(&g), &mut y), Shape, "coboundary_t: g");
    assert_kind(op.energy(&z, &mut [], &mut y), Shape, "energy");
    assert_kind(op.edge_rms(&short(&z), &mut r, &mut y), Shape, "edge_rms: z");
    let mut d_stack = vec![0.0; pair.stacks.len()];
    let pairs = (vec![0.0; 2 * m], vec![0.0; 2 * n]);
    let mut d_maps = MapsGrad::Stack(&mut d_stack);
    op.add_pair(&mut d_maps, 1.0, &pairs.0, &pairs.1).expect("fits");
    assert_kind(op.add_pair(&mut d_maps, 1.0, &pairs.0[1..], &pairs.1), Shape, "rows");
    assert_kind(op.add_pair(&mut d_maps, 1.0, &pairs.0, &pairs.1[1..]), Shape, "states");
    assert_kind(op.add_pair(&mut MapsGrad::Table(&mut []), 1.0, &pairs.0, &pairs.1), Unsupported, "maps");
}

#[test]
fn maps_with_numbers_that_are_not_finite_are_found_where_they_count() {
    let (mut pair, z_update) = (Pair::new(), cg(2));
    pair.stacks[7] = f64::NAN;
    pair.problem(&z_update).validate().expect("padding may hold anything");
    pair.stacks[16] = f64::INFINITY;
    assert_kind(pair.problem(&z_update).validate(), NotFinite, "stacks[16]");
    // Maps of each agent: the number may be any agent's.
    let pair = Pair::new();
    for agent in 0..2 {
        let mut stacks = vec![0.5; pair.sheaf.stack_len()];
        stacks[pair.sheaf.stack_offsets()[agent]] = f64::NAN;
        let op = SheafOp::new(&pair.sheaf, Maps::PerAgent(&stacks)).expect("fits");
        let place = format!("stacks[{}]", pair.sheaf.stack_offsets()[agent]);
        assert_kind(Problem { op, ..pair.problem(&z_update) }.validate(), NotFinite, &place);
    }
}

#[test]
fn an_operator_tells_its_offsets() {
    let pair = Pair::new();
    let op = SheafOp::new(&pair.sheaf, Maps::Stack(&pair.stacks)).expect("fits");
    assert_eq!(
        (op.offsets(), op.with_offsets(&[0.25]).expect("one edge").offsets()),
        (None, Some(&[0.25][..]))
    );
}

#[test]
fn a_solve_from_zeros_does_not_start_where_an_earlier_one_ended() {
    let (pair, z_update) = (Pair::new(), cg(3));
    let problem = pair.problem(&z_update);
    for mode in [Mode::Solve, Mode::Differentiate { iterations: 4 }] {
        let mut ws = Workspace::new(&problem, mode);
        let mut ends = [0; 2].map(|_| {
            problem.solve(Start::Zeros, &Options::fixed(3), &mut ws, &mut ()).expect("solves");
            [ws.x().to_vec(), ws.z().to_vec(), ws.u().to_vec()]
        });
        let [first, second] = &mut ends;
        assert_eq!(first, second, "{mode:?}");
    }
}

/// Two agents of stalk 2 that share one number, and everything needed for a solve.
struct Pair {
    sheaf: Sheaf,
    stacks: Vec<f64>,
    ones: [f64; 4],
}

impl Pair {
    fn new() -> Self {
        let graph = AgentGraph::from_edges(2, &[(0, 1)]).expect("valid");
        let sheaf = Sheaf::uniform(&graph, 2, 1).expect("valid");
        Self { sheaf, stacks: vec![0.5; 32], ones: [1.0; 4] }
    }

    fn problem<'a>(&'a self, z_update: &'a ZUpdate<f64>) -> Problem<'a, f64> {
        let op = SheafOp::new(&self.sheaf, Maps::Stack(&self.stacks)).expect("fits");
        let objective = Objective::Diagonal(Diagonal::new(&self.ones, &self.ones));
        Problem { op, objective, z_update, rho: Penalty::Scalar(1.0), relax: 1.0 }
    }
}

fn cg(steps: usize) -> ZUpdate<f64> {
    ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 1.0 }, steps))
}

#[test]
fn a_workspace_hands_out_only_what_was_recorded() {
    let (pair, z_update) = (Pair::new(), cg(3));
    let problem = pair.problem(&z_update);
    let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 5 });
    assert_kind(ws.x_at(0), OutOfRange, "recorded proposals");
    problem.solve(Start::Zeros, &Options::fixed(3), &mut ws, &mut ()).expect("solves");
    assert_eq!(ws.x_at(2).expect("ran"), ws.x());
    assert_eq!(ws.last_x(3).expect("ran").len(), 12);
    assert_eq!(ws.last_x(0).expect("none is fine").len(), 0);
    assert_eq!(ws.last_x_of(0, 0).expect("ran"), ws.x());
    for k in [3, 4, usize::MAX] {
        assert_kind(ws.x_at(k), OutOfRange, "recorded proposals");
        assert_kind(ws.last_x(k.saturating_add(1)), OutOfRange, "recorded proposals");
        assert_kind(ws.last_x_of(0, k), OutOfRange, "recorded proposals");
        assert_kind(ws.last_x_of(k, 0), OutOfRange, "recorded proposals");
    }
    assert_eq!([ws.x().len(), ws.z().len(), ws.u().len()], [4; 3], "exactly the states of the last solve");
    assert!(Workspace::<f64>::default().x().is_empty());
}

#[test]
fn a_tape_or_scratch_beyond_all_memory_is_refused_by_the_solve() {
    let pair = Pair::new();
    for (steps, iterations) in [(3, usize::MAX), (3, usize::MAX / 64), (usize::MAX, 3), (1 << 60, 3)] {
        let z_update = cg(steps);
        let problem = pair.problem(&z_update);
        let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations });
        let options = Options::fixed(if steps == 3 { iterations } else { 0 });
        if steps == 3 {
            assert_kind(problem.solve(Start::Zeros, &options, &mut ws, &mut ()), Shape, "workspace");
        }
    }
}

#[test]
fn a_problem_without_agents_is_solved_and_differentiated() {
    let graph = AgentGraph::from_edges(0, &[]).expect("nobody");
    let sheaf = Sheaf::uniform(&graph, 2, 1).expect("sizes are positive");
    let mut solvers = Vec::new();
    for agreement in [Agreement::Hard, Agreement::Soft { gamma: 1.0 }] {
        solvers.push(ZUpdate::Cg(Cg::published(agreement, 2)));
        solvers.push(ZUpdate::Descent(Descent::nesterov(agreement, 0.1, 2)));
        solvers.push(ZUpdate::Exact(Exact::new(&sheaf, agreement)));
        let (method, stop) = (EdgeMethod::Cg { guard: 1e-8 }, Stop::Steps(2));
        solvers.push(ZUpdate::EdgeSpace(EdgeSpace { agreement, method, stop, warm: true }));
    }
    for z_update in &solvers {
        for maps in [Maps::PerAgent(&[]), Maps::Stack(&[])] {
            let Ok(op) = SheafOp::new(&sheaf, maps) else { continue };
            let objective = Objective::Diagonal(Diagonal::new(&[], &[]));
            for rho in [Penalty::Scalar(1.0), Penalty::PerAgent(&[])] {
                let problem = Problem { op, objective: objective.clone(), z_update, rho, relax: 1.0 };
                problem.validate().expect("nothing is wrong");
                let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: 2 });
                problem.solve(Start::At(&[]), &Options::fixed(2), &mut ws, &mut ()).expect("nothing to do");
                let mut grads = Gradients {
                    objective: &mut ObjectiveGrad::None,
                    maps: &mut MapsGrad::None,
                    rho: &mut vec![0.0; rho.grad_len(0)],
                    gamma: &mut 0.0,
                    eta: &mut 0.0,
                    offsets: &mut [],
                    edge_weights: &mut [],
                    start: &mut [],
                };
                let seeds = Seeds { d_x: &[], d_z: None, d_u: None };
                problem.reverse(Adjoint::Unrolled, &seeds, &mut grads, &mut ws).expect("nothing to do");
            }
        }
    }
}

#[test]
fn objectives_refuse_offsets_penalties_and_scratch_of_other_sizes() {
    let pair = Pair::new();
    let objective = Objective::Diagonal(Diagonal::new(&pair.ones, &pair.ones));
    let offsets = [0, 2, 4];
    let (mut x, mut scratch) = ([0.0; 4], vec![0.0; objective.scratch_len(&offsets)]);
    let rho = Penalty::Scalar(1.0);
    objective.prepare(&offsets, &rho, &mut scratch).expect("fits");
    for bad in [&[][..], &[1, 4], &[0, 3, 2], &[0, 4, 2, 4], &[0, usize::MAX]] {
        let _ = objective.scratch_len(bad);
        assert!(objective.prox(bad, &rho, &pair.ones, &mut x, &mut scratch).is_err(), "{bad:?}");
        assert!(objective.value(bad, &x).is_err(), "{bad:?}");
        assert!(objective.validate(bad).is_err(), "{bad:?}");
    }
    let each = Penalty::PerAgent(&pair.ones[..1]);
    assert_kind(objective.prox(&offsets, &each, &pair.ones, &mut x, &mut scratch), Shape, "rho");
    assert_kind(objective.value(&offsets, &x[1..]), Shape, "x-update: x");

    let (q, many) = ([0.0; 4], [usize::MAX, 1]);
    let equality = Equality { quad: Curvature::Diagonal(&q), q: &q, rows: &many, a: &[], b: &[] };
    let qp = Qp { eq_rows: &many, in_rows: &many, ..Qp::new(Curvature::Diagonal(&q), &q) };
    let mixed = Objective::Mixed(vec![objective.clone(); 5]);
    let short = Diagonal { hi: Some(Coefficient::PerCoordinate(&q[1..])), ..Diagonal::new(&q, &q) };
    for bad in [Objective::Equality(equality), Objective::Qp(qp), mixed, Objective::Diagonal(short)] {
        let mut scratch = vec![0.0; bad.scratch_len(&offsets).min(1000)];
        assert!(bad.validate(&offsets).is_err());
        assert!(bad.prepare(&offsets, &rho, &mut scratch).is_err());
        assert!(bad.prox(&offsets, &rho, &pair.ones, &mut x, &mut scratch).is_err());
        assert!(bad.value(&offsets, &x).is_err());
    }
}

#[test]
fn consensus_solvers_refuse_penalties_and_gradients_of_other_kinds() {
    let pair = Pair::new();
    let ones = pair.ones;
    for z_update in [cg(2), ZUpdate::Exact(Exact::new(&pair.sheaf, Agreement::Hard))] {
        let op = pair.problem(&z_update).op;
        let (mut scratch, mut z) = (vec![0.0; z_update.scratch_len(&op)], [0.0; 4]);
        let scalar = Penalty::Scalar(1.0);
        z_update.prepare(&op, &scalar, &mut scratch).expect("fits");
        let few = Penalty::PerAgent(&ones[..1]);
        assert_kind(z_update.prepare(&op, &few, &mut scratch), Shape, "rho");
        assert_kind(z_update.forward(&op, &few, &ones, &ones, &mut [], &mut z, &mut scratch), Shape, "rho");
        let mut vjp = |maps: &mut MapsGrad<'_, f64>, d_rho: &mut [f64]| {
            let (mut d_w, mut d_z_prev) = ([0.0; 4], [0.0; 4]);
            let mut grad = ConsensusGrad {
                maps,
                rho: d_rho,
                gamma: &mut 0.0,
                eta: &mut 0.0,
                offsets: &mut [],
                edge_weights: &mut [],
            };
            let (d_w, d_z_prev) = (&mut d_w, &mut d_z_prev);
            z_update.vjp(
                &op,
                &scalar,
                &ones,
                &ones,
                &[],
                &ones,
                d_w,
                d_z_prev,
                &mut [],
                &mut grad,
                &mut scratch,
            )
        };
        vjp(&mut MapsGrad::None, &mut [0.0]).expect("no gradient of the maps is fine");
        assert_kind(vjp(&mut MapsGrad::None, &mut []), Shape, "gradient of rho");
        assert_kind(vjp(&mut MapsGrad::Table(&mut []), &mut [0.0]), Unsupported, "gradient of maps");
        assert_kind(vjp(&mut MapsGrad::Stack(&mut []), &mut [0.0]), Shape, "gradient of the stack");
    }
}
