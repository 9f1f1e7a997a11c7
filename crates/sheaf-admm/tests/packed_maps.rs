//! Packed low-rank maps against the plain ones, products and gradients, on grids with and without borders.

use proptest::prelude::*;
use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::sheaf::{
    AgentGraph, Connectivity, LowRank, LowRankGrad, Maps, MapsGrad, PackedLowRank, Sheaf, SheafOp,
    ViewGroups, pack_base, pack_view, unpack_grad,
};
use sheaf_admm::x_update::{Objective, ObjectiveGrad, Penalty, Tether};
use sheaf_admm::z_update::{Agreement, Cg, CgStart, ZUpdate};
use sheaf_admm::{ErrorKind, Precision, Result};
use sheaf_testkit::TestRng;
use sheaf_testkit::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

struct Case {
    sheaf: Sheaf,
    rank: usize,
    scale: f64,
    base: Vec<f64>,
    a: Vec<f64>,
    b: Vec<f64>,
    index: Vec<u32>,
    groups: ViewGroups,
    packed_base: Vec<f64>,
    packed: Vec<f64>,
}

impl Case {
    fn new(size: (usize, usize), d: (usize, usize), rank: usize, views: usize, seed: u64) -> Self {
        let graph = AgentGraph::grid(size.0, size.1, Connectivity::Eight).unwrap();
        let sheaf = Sheaf::uniform(&graph, d.0, d.1).unwrap();
        let stream = &mut TestRng::new(seed);
        let index: Vec<u32> = (0..sheaf.agents()).map(|_| stream.below(views) as u32).collect();
        let mut draw = |len: usize| (0..len).map(|_| stream.normal()).collect::<Vec<f64>>();
        let (base, a, b) = (draw(d.1 * d.0), draw(views * 8 * d.1 * rank), draw(views * 8 * d.0 * rank));
        let shape = PackedLowRank::<f64>::shape(&sheaf, rank).unwrap();
        let mut packed_base = vec![0.0; shape.base_len()];
        pack_base(shape, &base, &mut packed_base).unwrap();
        let (mut packed, scale) = (vec![0.0; views * shape.view_len()], 0.3);
        for v in 0..views {
            let (wide_a, wide_b) = (8 * d.1 * rank, 8 * d.0 * rank);
            let (a, b) = (&a[v * wide_a..][..wide_a], &b[v * wide_b..][..wide_b]);
            pack_view(shape, a, b, scale, &mut packed[v * shape.view_len()..][..shape.view_len()]).unwrap();
        }
        let mut groups = ViewGroups::default();
        groups.set(&sheaf, &index);
        Self { sheaf, rank, scale, base, a, b, index, groups, packed_base, packed }
    }

    fn plain(&self) -> Maps<'_, f64> {
        Maps::LowRank(LowRank {
            base: &self.base,
            a: &self.a,
            b: &self.b,
            gate: None,
            rank: self.rank,
            scale: self.scale,
            index: &self.index,
        })
    }

    fn packed(&self) -> Maps<'_, f64> {
        let (base, views) = (&self.packed_base[..], &self.packed[..]);
        Maps::Packed(PackedLowRank {
            base,
            views,
            rank: self.rank,
            precision: Precision::Full,
            agents: std::slice::from_ref(&self.groups),
        })
    }

    /// Zeros for the gradient of all stacks.
    fn stacks(&self) -> Vec<f64> {
        let shape = PackedLowRank::<f64>::shape(&self.sheaf, self.rank).unwrap();
        vec![0.0; self.groups.views().len() * shape.d_v * shape.ld]
    }
}

const ITERATIONS: usize = 4;

fn problem<'a>(case: &'a Case, z_update: &'a ZUpdate<f64>) -> Problem<'a, f64> {
    let (n, op) = (case.sheaf.state_len(), SheafOp::new(&case.sheaf, case.packed()).unwrap());
    let objective = Objective::Tether(Tether { beta: 0.9, anchor: &case.packed[n..2 * n] });
    Problem { op, objective, z_update, rho: Penalty::Scalar(0.3), relax: 1.0 }
}

fn solve(problem: &Problem<'_, f64>, start: &[f64], mode: Mode, ws: &mut Workspace<f64>) {
    ws.fit(problem, mode);
    problem.solve(Start::At(start), &Options::fixed(ITERATIONS), ws, &mut ()).unwrap();
}

/// Adds to the gradient of the maps; returns that of the penalty.
fn reverse(
    problem: &Problem<'_, f64>,
    seed: &[f64],
    adjoint: Adjoint<f64>,
    ws: &mut Workspace<f64>,
    d_stacks: &mut [f64],
) -> Result<f64> {
    let (mut maps, mut d_rho, mut d_gamma, mut d_eta) = (MapsGrad::Packed(d_stacks), [0.0], 0.0, 0.0);
    let mut grads = Gradients {
        objective: &mut ObjectiveGrad::None,
        maps: &mut maps,
        rho: &mut d_rho,
        gamma: &mut d_gamma,
        eta: &mut d_eta,
        offsets: &mut [],
        edge_weights: &mut [],
        start: &mut [],
    };
    let seeds = Seeds { d_x: seed, d_z: Some(seed), d_u: None };
    problem.reverse(adjoint, &seeds, &mut grads, ws)?;
    Ok(d_rho[0])
}

fn solvers() -> [ZUpdate<f64>; 5] {
    let (soft, hard) = (Agreement::Soft { gamma: 0.7 }, Agreement::Hard);
    let starting = |agreement, start| Cg { start, ..Cg::published(agreement, 5) };
    [
        starting(hard, CgStart::Published),
        starting(hard, CgStart::Carried),
        starting(soft, CgStart::Published),
        starting(soft, CgStart::Warm),
        Cg::to_tolerance(hard, 0.2, 9),
    ]
    .map(ZUpdate::Cg)
}

#[test]
fn solving_and_differentiating_with_packed_maps_ask_for_no_memory() {
    let modes = [Mode::Differentiate { iterations: ITERATIONS }, Mode::Keep { iterations: ITERATIONS }];
    for (size, d, rank) in [((3, 3), (32, 24), 8), ((2, 4), (5, 3), 2)] {
        let case = Case::new(size, d, rank, 3, 5);
        let (start, mut d_stacks) = (&case.packed[..case.sheaf.state_len()], case.stacks());
        for (z_update, mode) in solvers().iter().flat_map(|solver| modes.map(|mode| (solver, mode))) {
            let (problem, mut ws) = (problem(&case, z_update), Workspace::default());
            let mut round = || {
                solve(&problem, start, mode, &mut ws);
                reverse(&problem, start, Adjoint::Unrolled, &mut ws, &mut d_stacks).unwrap()
            };
            let (first, mut again) = (round(), f64::NAN);
            assert_eq!(allocations(|| again = round()), 0);
            assert!(first != 0.0 && first.to_bits() == again.to_bits(), "{first} {again}");
        }
    }
}

#[test]
fn pairs_left_for_later_give_the_gradient_of_a_replay_as_often_as_a_tape_is_reversed() {
    let (iterations, case) = (ITERATIONS, Case::new((3, 4), (32, 24), 8, 3, 5));
    let start = &case.packed[..case.sheaf.state_len()];
    for z_update in &solvers() {
        let problem = problem(&case, z_update);
        for adjoint in [Adjoint::Unrolled, Adjoint::LastSteps(2)] {
            let mut ws = Workspace::default();
            solve(&problem, start, Mode::Differentiate { iterations }, &mut ws);
            let mut replayed = case.stacks();
            reverse(&problem, start, adjoint, &mut ws, &mut replayed).unwrap();
            assert!(replayed.iter().any(|&d| d != 0.0));
            solve(&problem, start, Mode::Keep { iterations }, &mut ws);
            for time in 0..3 {
                let mut kept = case.stacks();
                reverse(&problem, start, adjoint, &mut ws, &mut kept).unwrap();
                assert_same(&format!("{z_update:?}, {adjoint:?}, time {time}"), &kept, &replayed);
            }
        }
    }
}

#[test]
fn a_reverse_sweep_that_fails_leaves_no_pairs_to_the_next() {
    let (iterations, case) = (ITERATIONS, Case::new((3, 4), (32, 24), 8, 3, 5));
    let start = &case.packed[..case.sheaf.state_len()];
    // Soft consensus: the implicit adjoint refuses the published hard one before it begins.
    let (solver, mut ws) = (&solvers()[2], Workspace::default());
    let problem = problem(&case, solver);
    let of = |fails: bool, ws: &mut Workspace<f64>| {
        solve(&problem, start, Mode::Keep { iterations }, ws);
        if fails {
            let adjoint = Adjoint::Implicit { tolerance: 1e-9, max_terms: 1 };
            let told = reverse(&problem, start, adjoint, ws, &mut case.stacks());
            assert_eq!(told.unwrap_err().kind(), ErrorKind::SolverFailed);
        }
        let mut d_stacks = case.stacks();
        reverse(&problem, start, Adjoint::Unrolled, ws, &mut d_stacks).unwrap();
        d_stacks
    };
    let undisturbed = of(false, &mut ws);
    assert_same("after a failure", &of(true, &mut ws), &undisturbed);
}

#[test]
fn what_is_left_for_later_is_refused_in_another_size_or_for_other_maps() {
    let (case, other) = (Case::new((3, 3), (32, 24), 8, 3, 5), Case::new((2, 2), (5, 3), 2, 1, 5));
    let (solver, op) = (&solvers()[0], SheafOp::new(&case.sheaf, case.packed()).unwrap());
    let (mut kept, mut d_stacks, mut d_other) =
        (vec![f64::MAX; 2 * solver.kept_len(&op)], case.stacks(), other.stacks());
    let whole = kept.len();
    for len in [1, whole / 2 - 1, whole - 1] {
        let told =
            solver.add_deferred(&op, &mut kept[..len], |_, _| true, &mut MapsGrad::Packed(&mut d_stacks));
        assert_eq!(told.unwrap_err().kind(), ErrorKind::Shape);
    }
    let told = solver.add_deferred(&op, &mut kept, |_, _| true, &mut MapsGrad::Packed(&mut d_other));
    assert_eq!(told.unwrap_err().kind(), ErrorKind::Shape);
    // Numbers that do not come from a solve refer to no pairs beyond the memory.
    solver.add_deferred(&op, &mut kept, |_, _| true, &mut MapsGrad::Packed(&mut d_stacks)).unwrap();
}

fn assert_same(what: &str, got: &[f64], want: &[f64]) {
    let largest = want.iter().fold(1.0f64, |m, v| m.max(v.abs()));
    for (k, (a, b)) in got.iter().zip(want).enumerate() {
        assert!((a - b).abs() <= 1e-12 * largest, "{what}[{k}]: {a} against {b}");
    }
}

fn check(case: &Case, seed: u64) {
    let sheaf = &case.sheaf;
    let (n, m, terms) = (sheaf.state_len(), sheaf.row_len(), 3);
    let ops = [case.plain(), case.packed()].map(|maps| SheafOp::new(sheaf, maps).unwrap());
    let stream = &mut TestRng::new(seed);
    let states: Vec<f64> = (0..terms * n).map(|_| stream.normal()).collect();
    let rows: Vec<f64> = (0..terms * m).map(|_| stream.normal()).collect();
    // Only differences along edges are lifted or multiplied: slots without an edge and padding are 0.
    let mut exchanged = rows.clone();
    for (y, s) in rows.chunks_exact(m).zip(exchanged.chunks_exact_mut(m)) {
        ops[0].exchange(y, s).unwrap();
    }
    let lifted = ops.map(|op| {
        let mut g = vec![f64::NAN; n];
        op.lift(&exchanged[..m], &mut g).unwrap();
        g
    });
    assert_same("lift", &lifted[1], &lifted[0]);
    let laplacian = ops.map(|op| {
        let (mut g, mut y, mut s) = (vec![f64::NAN; n], vec![f64::NAN; m], vec![f64::NAN; m]);
        op.laplacian(&states[..n], &mut g, &mut y, &mut s).unwrap();
        [g, s].concat()
    });
    assert_same("laplacian", &laplacian[1], &laplacian[0]);

    let zeros = |like: &[f64]| vec![0.0; like.len()];
    let (mut base, mut a, mut b) = (zeros(&case.base), zeros(&case.a), zeros(&case.b));
    let grad = LowRankGrad { base: &mut base, a: &mut a, b: &mut b, gate: None };
    MapsGrad::LowRank(grad).add_outers(sheaf, ops[0].maps(), 0.6, terms, &exchanged, &states).unwrap();
    let shape = PackedLowRank::<f64>::shape(sheaf, case.rank).unwrap();
    let (stack, view_len) = (shape.d_v * shape.ld, shape.view_len());
    let mut d_stacks = case.stacks();
    MapsGrad::Packed(&mut d_stacks)
        .add_outers(sheaf, ops[1].maps(), 0.6, terms, &exchanged, &states)
        .unwrap();
    let (mut d_base, mut d_a, mut d_b) = (zeros(&case.base), zeros(&case.a), zeros(&case.b));
    let (wide_a, wide_b) = (shape.m() * shape.d_e, shape.m() * shape.d_v);
    for (local, &view) in case.groups.views().iter().enumerate() {
        let v = view as usize;
        unpack_grad(
            shape,
            &case.packed[v * view_len..][..view_len],
            &d_stacks[local * stack..][..stack],
            case.scale,
            &mut d_base,
            &mut d_a[v * wide_a..][..wide_a],
            &mut d_b[v * wide_b..][..wide_b],
        )
        .unwrap();
    }
    assert_same("d_base", &d_base, &base);
    assert_same("d_a", &d_a, &a);
    assert_same("d_b", &d_b, &b);
}

#[test]
fn the_published_sizes_agree_with_the_plain_maps() {
    for (size, views) in [((9, 9), 5), ((4, 6), 24), ((1, 1), 1), ((2, 9), 2)] {
        check(&Case::new(size, (32, 24), 8, views, 1), 2);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_sizes_agree_with_the_plain_maps(
        h in 1usize..5, w in 1usize..5, d_v in 1usize..9, d_e in 1usize..9, rank in 1usize..4, views in 1usize..6,
        seed in 0u64..1000,
    ) {
        check(&Case::new((h, w), (d_v, d_e), rank, views, seed), seed);
    }
}

#[test]
fn views_are_listed_once_each_with_an_agent_that_speaks_for_them() {
    let case = Case::new((4, 4), (2, 2), 1, 6, 3);
    let views = case.groups.views();
    assert!(views.windows(2).all(|pair| pair[0] < pair[1]));
    for (agent, &local) in case.groups.local().iter().enumerate() {
        assert_eq!(views[local as usize], case.index[agent]);
        assert_eq!(case.index[case.groups.speakers()[local as usize] as usize], case.index[agent]);
    }
}

#[test]
fn slices_of_other_sizes_are_neither_packed_nor_unpacked() {
    let case = Case::new((2, 2), (3, 2), 1, 1, 3);
    let shape = PackedLowRank::<f64>::shape(&case.sheaf, 1).unwrap();
    let (mut base, mut view) = (vec![0.0; shape.base_len()], vec![0.0; shape.view_len()]);
    assert!(pack_base(shape, &case.base[1..], &mut base).is_err());
    assert!(pack_base(shape, &case.base, &mut base[1..]).is_err());
    assert!(pack_view(shape, &case.a[1..], &case.b, 1.0, &mut view).is_err());
    assert!(pack_view(shape, &case.a, &case.b[1..], 1.0, &mut view).is_err());
    assert!(pack_view(shape, &case.a, &case.b, 1.0, &mut view[1..]).is_err());
    let lens = [shape.view_len(), shape.d_v * shape.ld, case.base.len(), case.a.len(), case.b.len()];
    for wrong in 0..6 {
        let len = |i: usize| vec![0.0; lens[i] - usize::from(i == wrong)];
        let (view, d_stack, mut d_base, mut d_a, mut d_b) = (len(0), len(1), len(2), len(3), len(4));
        let done = unpack_grad(shape, &view, &d_stack, 1.0, &mut d_base, &mut d_a, &mut d_b);
        assert_eq!(done.is_ok(), wrong == 5, "{wrong}");
    }
    let narrow = sheaf_kernels::low_rank::LowRankShape { ld: 0, ..shape };
    assert!(unpack_grad(narrow, &view, &[], 1.0, &mut base, &mut [], &mut []).is_err());
}

#[test]
fn maps_that_do_not_fit_are_refused() {
    let case = Case::new((2, 2), (3, 2), 2, 2, 4);
    let packed = |base, views, rank| PackedLowRank {
        base,
        views,
        rank,
        precision: Precision::Full,
        agents: std::slice::from_ref(&case.groups),
    };
    let refused = |low| SheafOp::new(&case.sheaf, Maps::Packed(low)).unwrap_err();
    let (base, views) = (&case.packed_base[..], &case.packed[..]);
    assert_eq!(refused(packed(&base[1..], views, 2)).kind(), ErrorKind::Shape);
    assert_eq!(refused(packed(base, &views[1..], 2)).kind(), ErrorKind::Shape);
    assert_eq!(refused(packed(base, &views[..views.len() / 2], 2)).kind(), ErrorKind::OutOfRange);
    let mut few = ViewGroups::default();
    few.set(&case.sheaf, &[0, 1]);
    assert_eq!(
        refused(PackedLowRank {
            base,
            views,
            rank: 2,
            precision: Precision::Full,
            agents: std::slice::from_ref(&few)
        })
        .kind(),
        ErrorKind::Shape
    );
}

/// The gradient of the maps of a converged solve.
fn maps_gradient(case: &Case, mode: Mode, adjoint: Adjoint<f64>) -> Vec<f64> {
    let (n, iterations) = (case.sheaf.state_len(), 40);
    let z_update = ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 0.02 }, 12));
    let (start, anchor) = (&case.packed[..n], &case.packed[n..2 * n]);
    let objective = Objective::Tether(Tether { beta: 0.8, anchor });
    let op = SheafOp::new(&case.sheaf, case.packed()).unwrap();
    let problem = Problem { op, objective, z_update: &z_update, rho: Penalty::Scalar(0.9), relax: 1.0 };
    let mut ws = Workspace::new(&problem, mode);
    problem.solve(Start::At(start), &Options::fixed(iterations), &mut ws, &mut ()).unwrap();
    let u = case.sheaf.as_uniform().unwrap();
    let mut d_stacks = vec![0.0; case.groups.views().len() * u.d_v * u.ld];
    let mut grads = Gradients {
        objective: &mut ObjectiveGrad::None,
        maps: &mut MapsGrad::Packed(&mut d_stacks),
        rho: &mut [0.0],
        gamma: &mut 0.0,
        eta: &mut 0.0,
        offsets: &mut [],
        edge_weights: &mut [],
        start: &mut [],
    };
    problem.reverse(adjoint, &Seeds { d_x: start, d_z: None, d_u: None }, &mut grads, &mut ws).unwrap();
    // Padding is not part of the gradient.
    d_stacks.chunks_exact_mut(u.ld).for_each(|column| column[u.slots * u.d_e..].fill(0.0));
    d_stacks
}

#[test]
fn kept_steps_of_packed_maps_give_the_gradient_of_replayed_ones_however_it_is_taken() {
    let iterations = 40;
    for (d, rank) in [((32, 24), 8), ((5, 3), 2)] {
        let case = Case::new((3, 3), d, rank, 3, 11);
        let implicit = Adjoint::Implicit { tolerance: 1e-13, max_terms: 400 };
        for adjoint in [Adjoint::Unrolled, Adjoint::LastSteps(4), implicit] {
            let replayed = maps_gradient(&case, Mode::Differentiate { iterations }, adjoint);
            let kept = maps_gradient(&case, Mode::Keep { iterations }, adjoint);
            assert!(replayed.iter().any(|g| g.abs() > 1e-3));
            assert_same(&format!("{d:?}, {adjoint:?}"), &kept, &replayed);
        }
    }
}
