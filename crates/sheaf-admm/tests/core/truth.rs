//! A status is true: solves that do not reach the solution of the problem do not say so.

use std::time::{Duration, Instant};

use sheaf_admm::admm::{
    Balancing, Mode, Options, Problem, ResidualKind, SolveReport, Start, Status, Workspace,
};
use sheaf_admm::sheaf::{AgentGraph, Maps, Sheaf, SheafOp};
use sheaf_admm::x_update::{Coefficient, Curvature, Dense, Diagonal, Equality, Objective, Penalty, Tether};
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Exact, Stop, ZUpdate};
use sheaf_testkit::TestRng;

/// Agents with one number each; those joined must agree.
struct Scalars {
    sheaf: Sheaf,
    stacks: Vec<f64>,
}

impl Scalars {
    fn new(agents: usize, edges: &[(usize, usize)]) -> Self {
        let graph = AgentGraph::from_edges(agents, edges).expect("a graph");
        let sheaf = Sheaf::heterogeneous(&graph, &vec![1; agents], &vec![1; edges.len()]).expect("a sheaf");
        let mut stacks = vec![0.0; sheaf.stack_len()];
        for agent in 0..agents {
            let rows = vec![1.0; sheaf.slot_rows(agent).len() - 1];
            Sheaf::pack_stack(&rows, 1, &mut stacks[sheaf.stack_offsets()[agent]..]).expect("fits");
        }
        Self { sheaf, stacks }
    }

    fn path(agents: usize) -> Self {
        Self::new(agents, &(1..agents).map(|i| (i - 1, i)).collect::<Vec<_>>())
    }

    /// Solves from zero; returns the report and x.
    fn solve(
        &self,
        objective: Objective<'_, f64>,
        z_update: ZUpdate<f64>,
        (rho, relax): (f64, f64),
        options: &Options<f64>,
    ) -> (SolveReport<f64>, Vec<f64>) {
        let op = SheafOp::new(&self.sheaf, Maps::PerAgent(&self.stacks)).expect("maps fit");
        let problem = Problem { op, objective, z_update: &z_update, rho: Penalty::Scalar(rho), relax };
        problem.validate().expect("valid");
        let mut ws = Workspace::new(&problem, Mode::Solve);
        let report = problem.solve(Start::Zeros, options, &mut ws, &mut ()).expect("solves");
        (report, ws.x().to_vec())
    }
}

fn exact(net: &Scalars) -> ZUpdate<f64> {
    ZUpdate::Exact(Exact::new(&net.sheaf, Agreement::Hard))
}

#[test]
fn two_agents_whose_inner_solve_ends_early_are_not_solved() {
    let net = Scalars::path(2);
    let objective = Objective::Tether(Tether { beta: 1.0, anchor: &[1.0, -1.0] });
    let stop = Stop::Tolerance { absolute: 0.0, relative: 1e-10, max_steps: 0 };
    let cg = Cg { stop, ..Cg::to_tolerance(Agreement::Hard, 1e-10, 0) };
    let (report, x) = net.solve(objective, ZUpdate::Cg(cg), (1.0, 1.0), &Options::until(1e-6, 1e-6, 1000));
    assert!((x[0] - x[1]).abs() > 1.0, "{x:?}");
    assert_eq!(report.status, Status::Inexact(ResidualKind::Edges), "{report}");
    let residuals = report.residuals.expect("it ran");
    assert!(residuals.ratio(ResidualKind::Edges).expect("measured") > 1e5, "{report}");
    assert!(!residuals.inner_met && report.inner.missed > 0);
}

#[test]
fn a_long_path_with_few_inner_steps_is_not_solved() {
    let net = Scalars::path(2000);
    let q: Vec<f64> = (0..2000).map(|k| if k < 1000 { -1.0 } else { 0.0 }).collect();
    let diag = vec![1.0; 2000];
    let options = Options::until(1e-6, 1e-6, 300);
    for cg in [Cg::to_tolerance(Agreement::Hard, 1e-12, 5), Cg::published(Agreement::Hard, 5)] {
        let objective = Objective::Diagonal(Diagonal::new(&diag, &q));
        let (report, x) = net.solve(objective, ZUpdate::Cg(cg), (1.0, 1.0), &options);
        // Everyone should be at ½.
        assert!(x.iter().any(|x| (x - 0.5).abs() > 0.1), "{report}");
        assert!(!matches!(report.status, Status::Solved | Status::Settled), "{report}");
    }
}

#[test]
fn under_relaxation_does_not_pass_for_a_solution() {
    let net = Scalars::path(3);
    let objective = || Objective::Tether(Tether { beta: 1.0, anchor: &[1.0, 2.0, 6.0] });
    let options = Options::until(1e-6, 1e-6, 50);
    let (report, _) = net.solve(objective(), exact(&net), (1.0, 1e-6), &options);
    assert_eq!((report.status, report.iterations), (Status::IterationLimit, 50), "{report}");
    let (report, x) = net.solve(objective(), exact(&net), (1.0, 1.0), &Options::until(1e-9, 1e-9, 500));
    assert_eq!(report.status, Status::Solved);
    assert!(x.iter().all(|x| (x - 3.0).abs() < 1e-6), "{x:?}");
}

#[test]
fn the_published_hard_variant_does_not_pass_its_wrong_point_for_a_solution() {
    let net = Scalars::path(3);
    let objective = || Objective::Tether(Tether { beta: 1.0, anchor: &[1.0, 2.0, 6.0] });
    let options = Options::until(1e-6, 1e-6, 1000);
    for start in [CgStart::Published, CgStart::Carried] {
        let cg = Cg { start, tikhonov: 0.0, ..Cg::published(Agreement::Hard, 5) };
        let (report, x) = net.solve(objective(), ZUpdate::Cg(cg), (1.0, 1.0), &options);
        assert!(x.iter().any(|x| (x - 3.0).abs() > 0.1), "{x:?}");
        assert_eq!(report.status, Status::Inexact(ResidualKind::Stationarity), "{report}");
    }
    let cg = Cg { start: CgStart::Zero, tikhonov: 0.0, ..Cg::published(Agreement::Hard, 5) };
    let (report, x) = net.solve(objective(), ZUpdate::Cg(cg), (1.0, 1.0), &options);
    assert_eq!(report.status, Status::Solved, "{report}");
    assert!(x.iter().all(|x| (x - 3.0).abs() < 1e-4), "{x:?}");
}

#[test]
fn soft_consensus_of_a_few_steps_is_not_solved() {
    let net = Scalars::path(30);
    let q: Vec<f64> = (0..30).map(|k| (k as f64).sin()).collect();
    let diag = vec![1.0; 30];
    for (z_update, solved) in [
        (ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 50.0 }, 2)), false),
        (ZUpdate::Cg(Cg::to_tolerance(Agreement::Soft { gamma: 50.0 }, 1e-10, 200)), true),
    ] {
        let objective = Objective::Diagonal(Diagonal::new(&diag, &q));
        let (report, _) = net.solve(objective, z_update, (1.0, 1.0), &Options::until(1e-7, 1e-7, 2000));
        let expected = if solved { Status::Solved } else { Status::Inexact(ResidualKind::Stationarity) };
        assert_eq!(report.status, expected, "{report}");
    }
}

#[test]
fn boxes_that_no_agreement_reaches_are_infeasible() {
    let net = Scalars::path(3);
    let (lo, hi) = ([0.0, f64::NEG_INFINITY, 2.0], [1.0, f64::INFINITY, 3.0]);
    let boxed = Diagonal {
        lo: Some(Coefficient::PerCoordinate(&lo)),
        hi: Some(Coefficient::PerCoordinate(&hi)),
        ..Diagonal::new(&[1.0, 0.0, 2.0], &[1.0, 0.0, -3.0])
    };
    for relax in [1.0, 1.6] {
        for balancing in [None, Some(Balancing::default()), Some(Balancing::relative())] {
            let options = Options { balancing, ..Options::until(1e-6, 1e-6, 5000) };
            let (report, _) = net.solve(Objective::Diagonal(boxed), exact(&net), (1.0, relax), &options);
            assert_eq!(report.status, Status::PrimalInfeasible, "{report}");
            assert!(report.rho_factor.is_finite() && report.rho_factor > 0.0);
        }
    }
}

#[test]
fn equalities_that_contradict_each_other_across_an_edge_are_infeasible() {
    let net = Scalars::path(2);
    let equality = Equality {
        quad: Curvature::Diagonal(&[1.0; 2]),
        q: &[0.0; 2],
        rows: &[1, 1],
        a: &[1.0, 2.0],
        b: &[1.0, 3.0],
    };
    let options = Options::until(1e-8, 1e-8, 3000);
    let (report, _) = net.solve(Objective::Equality(equality), exact(&net), (1.0, 1.0), &options);
    assert_eq!(report.status, Status::PrimalInfeasible, "{report}");
}

#[test]
fn linear_objectives_without_an_end_are_unbounded() {
    let net = Scalars::path(3);
    let options = Options::until(1e-6, 1e-6, 5000);
    let diagonal = Diagonal::new(&[0.0; 3], &[1.0, -0.5, 1.0]);
    let (report, _) = net.solve(Objective::Diagonal(diagonal), exact(&net), (1.0, 1.0), &options);
    assert_eq!(report.status, Status::Unbounded, "{report}");
    let soft = ZUpdate::Exact(Exact::new(&net.sheaf, Agreement::Soft { gamma: 2.0 }));
    let (report, _) = net.solve(Objective::Diagonal(diagonal), soft, (1.0, 1.0), &options);
    assert_eq!(report.status, Status::Unbounded, "{report}");
    let dense = Dense { quad: &[0.0; 3], q: &[1.0, -0.5, 1.0] };
    let (report, _) = net.solve(Objective::Dense(dense), exact(&net), (1.0, 1.0), &options);
    assert_eq!(report.status, Status::Unbounded, "{report}");
}

#[test]
fn a_nearly_flat_objective_is_not_called_unbounded() {
    let net = Scalars::path(2);
    let diagonal = Diagonal::new(&[1e-8; 2], &[1.0, 1.0]);
    let options = Options::until(1e-6, 1e-6, 400);
    let (report, _) = net.solve(Objective::Diagonal(diagonal), exact(&net), (1.0, 1.0), &options);
    assert_eq!(report.status, Status::IterationLimit, "{report}");
}

#[test]
fn balancing_stays_finite_whatever_the_residuals_are() {
    let net = Scalars::path(2);
    // The dual residual is 0 up to rounding after the first iteration, so that ρ is asked to grow for ever.
    let fixed = Diagonal {
        lo: Some(Coefficient::PerCoordinate(&[1.0, -1.0])),
        hi: Some(Coefficient::PerCoordinate(&[1.0, -1.0])),
        ..Diagonal::new(&[1.0; 2], &[0.0; 2])
    };
    for balancing in [Balancing::default(), Balancing::relative()] {
        let options = Options { balancing: Some(balancing), ..Options::fixed(3000) };
        for rho in [1e-6, 1e6] {
            let (report, x) = net.solve(Objective::Diagonal(fixed), exact(&net), (rho, 1.0), &options);
            assert!(report.rho_factor <= 1e6 && report.rho_factor >= 1e-6, "{report}");
            assert!(
                x == [1.0, -1.0] && report.residuals.is_some_and(|r| (r.primal - 2f64.sqrt()).abs() < 1e-9),
                "{report}"
            );
        }
    }
}

#[test]
fn residuals_of_huge_and_tiny_numbers_are_measured() {
    let net = Scalars::path(2);
    for scale in [1e-200, 1e-6, 1e6, 1e200] {
        let anchor = [scale, 3.0 * scale];
        let objective = Objective::Tether(Tether { beta: 1.0, anchor: &anchor });
        let (report, x) = net.solve(objective, exact(&net), (1.0, 1.0), &Options::until(0.0, 1e-8, 200));
        assert_eq!(report.status, Status::Solved, "{scale}: {report}");
        assert!(x.iter().all(|x| (x / scale - 2.0).abs() < 1e-6), "{scale}: {x:?}");
    }
}

#[test]
fn a_time_limit_ends_the_solve_soon_after_it() {
    let net = Scalars::path(3000);
    let (diag, q) = (vec![1.0; 3000], TestRng::new(1).normals(3000));
    let (limit, began) = (Duration::from_millis(50), Instant::now());
    let options = Options::until(0.0, 1e-300, usize::MAX).within(limit);
    let soft = ZUpdate::Cg(Cg::to_tolerance(Agreement::Soft { gamma: 1.0 }, 1e-8, 100));
    let objective = Objective::Diagonal(Diagonal::new(&diag, &q));
    let (report, x) = net.solve(objective, soft, (1.0, 1.0), &options);
    assert_eq!(report.status, Status::TimeLimit, "{report}");
    assert!(began.elapsed() >= limit && report.iterations > 1 && x.len() == 3000);
}

#[test]
fn an_iterate_that_is_not_finite_is_a_numerical_failure() {
    let net = Scalars::path(2);
    let objective = Objective::Tether(Tether { beta: 1.0, anchor: &[1.0, 2.0] });
    let z_update = ZUpdate::Descent(sheaf_admm::z_update::Descent {
        agreement: Agreement::Hard,
        eta: 1e200,
        momentum: 0.0,
        stop: Stop::Steps(3),
    });
    let (report, x) = net.solve(objective, z_update, (1.0, 1.0), &Options::until(1e-6, 1e-6, 100));
    assert_eq!(report.status, Status::NumericalFailure, "{report}");
    assert!(x.is_empty());
}

#[test]
fn prices_are_the_slopes_of_the_optimal_value_in_the_offsets() {
    let net = Scalars::path(2);
    let anchor = [1.0, -2.0];
    // min ½(x₀ − 1)² + ½(x₁ + 2)² with x₀ − x₁ = b, or γ/2 (x₀ − x₁ − b)² paid: λ = k (3 − b), k = ½ or γ/(1 + 2γ).
    for (agreement, k) in [(Agreement::Hard, 0.5), (Agreement::Soft { gamma: 2.0 }, 0.4)] {
        for b in [[0.0], [0.7]] {
            let op = SheafOp::new(&net.sheaf, Maps::PerAgent(&net.stacks)).expect("maps fit");
            let z_update = ZUpdate::Exact(Exact::new(&net.sheaf, agreement));
            let problem = Problem {
                op: op.with_offsets(&b).expect("one offset"),
                objective: Objective::Tether(Tether { beta: 1.0, anchor: &anchor }),
                z_update: &z_update,
                rho: Penalty::Scalar(0.3),
                relax: 1.0,
            };
            let mut ws = Workspace::new(&problem, Mode::Solve);
            let options =
                Options { balancing: Some(Balancing::relative()), ..Options::until(1e-11, 1e-11, 3000) };
            let report = problem.solve(Start::Zeros, &options, &mut ws, &mut ()).expect("solves");
            assert_eq!(report.status, Status::Solved, "{report}");
            let mut lambda = [f64::NAN];
            let rest = problem.prices(&mut ws, &mut lambda).expect("solved");
            assert!((lambda[0] - k * (3.0 - b[0])).abs() < 1e-8 && rest < 1e-8, "{lambda:?} {rest}");
            // A warm start at the solution has nothing left to do.
            let (z, u) = (ws.z().to_vec(), ws.u().to_vec());
            let rho = Penalty::Scalar(0.3 * report.rho_factor);
            let again = Problem { rho, ..problem.clone() };
            let warm = again
                .solve(Start::Warm { z: &z, u: &u }, &Options::until(1e-9, 1e-9, 3000), &mut ws, &mut ())
                .expect("solves");
            assert!(warm.status == Status::Solved && warm.iterations <= 2, "{warm}");
        }
    }
}

#[test]
fn hard_edges_have_their_prices_beside_soft_ones() {
    // x₀ = x₁, and ½(x₁ − x₂)² is paid: with x₀ = x₁ = s, 2s − 3 + s − x₂ = 0 and x₂ + 3 = s − x₂.
    let (net, weights) = (Scalars::path(3), [f64::INFINITY, 1.0]);
    let op = SheafOp::new(&net.sheaf, Maps::PerAgent(&net.stacks)).expect("maps fit");
    let z_update = ZUpdate::Exact(Exact::new(&net.sheaf, Agreement::Soft { gamma: 1.0 }));
    let problem = Problem {
        op: op.with_edge_weights(&weights).expect("one weight an edge"),
        objective: Objective::Tether(Tether { beta: 1.0, anchor: &[3.0, 0.0, -3.0] }),
        z_update: &z_update,
        rho: Penalty::Scalar(0.8),
        relax: 1.0,
    };
    let mut ws = Workspace::new(&problem, Mode::Solve);
    let options = Options::until(1e-11, 1e-11, 3000);
    let report = problem.solve(Start::Zeros, &options, &mut ws, &mut ()).expect("solves");
    assert_eq!(report.status, Status::Solved, "{report}");
    for (x, want) in ws.x().iter().zip([0.6, 0.6, -1.2]) {
        assert!((x - want).abs() < 1e-9, "{:?}", ws.x());
    }
    let mut lambda = [f64::NAN; 2];
    let rest = problem.prices(&mut ws, &mut lambda).expect("solved");
    assert!((lambda[0] - 2.4).abs() < 1e-8 && (lambda[1] - 1.8).abs() < 1e-8, "{lambda:?}");
    assert!(rest < 1e-8, "{rest}");
}
