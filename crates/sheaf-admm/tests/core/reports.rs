//! How a solve ends, what it reports, and what its observer receives.

use sheaf_admm::admm::Observer;
use sheaf_admm::admm::{
    Balancing, Iteration, Mode, Options, Problem, SolveReport, Start, Status, Trace, Workspace,
};
use sheaf_admm::x_update::{Diagonal, Objective, Penalty};
use sheaf_admm::z_update::{Agreement, Exact, ZUpdate};
use sheaf_testkit::TestRng;

use crate::net::{Kind, Net};
use crate::point::Point;

/// Solves on a grid with a penalty and an observer.
fn solve(
    rho: f64,
    relax: f64,
    options: &Options<f64>,
    observer: &mut impl Observer<f64>,
) -> SolveReport<f64> {
    let net = Net::grid(Kind::Table);
    let (mut rng, mut point) = (TestRng::new(5), Point::default());
    net.draw_maps(&mut rng, &mut point);
    let (diag, q) = (rng.ranges(net.states(), 0.5, 1.5), rng.normals(net.states()));
    let z_update = ZUpdate::Exact(Exact::new(&net.sheaf, Agreement::Soft { gamma: 2.0 }));
    let objective = Objective::Diagonal(Diagonal::new(&diag, &q));
    let problem =
        Problem { op: net.op(&point), objective, z_update: &z_update, rho: Penalty::Scalar(rho), relax };
    problem.validate().expect("valid");
    let mut ws = Workspace::new(&problem, Mode::Solve);
    problem.solve(Start::Zeros, options, &mut ws, observer).expect("solves")
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

#[test]
fn a_solve_says_how_it_ended_and_after_how_many_iterations() {
    let fixed = solve(0.7, 1.0, &Options::fixed(7), &mut ());
    assert_eq!((fixed.status, fixed.iterations, fixed.rho_factor), (Status::Finished, 7, 1.0));
    let done = solve(0.7, 1.0, &Options::until(1e-8, 1e-8, 5000), &mut ());
    assert!(done.status == Status::Solved && done.iterations < 5000, "{done:?}");
    let sizes = |report: &SolveReport<f64>| report.residuals.map(|r| (r.primal, r.dual)).expect("it ran");
    let (less, more) = (sizes(&done), sizes(&fixed));
    assert!(less.0 < more.0 && less.1 < more.1, "{done:?} {fixed:?}");
    let cut = solve(0.7, 1.0, &Options::until(1e-8, 1e-8, 3), &mut ());
    assert_eq!((cut.status, cut.iterations), (Status::IterationLimit, 3));
    let mut until_four = |seen: &Iteration<'_, '_, f64>| seen.k < 4;
    let stopped = solve(0.7, 1.0, &Options::fixed(100), &mut until_four);
    assert_eq!((stopped.status, stopped.iterations), (Status::Stopped, 5));
    assert!(sizes(&stopped).0 > 0.0 && sizes(&stopped).1 > 0.0);
    let none = solve(0.7, 1.0, &Options::fixed(0), &mut ());
    assert_eq!((none.status, none.iterations, none.residuals), (Status::Finished, 0, None));
}

#[test]
fn residuals_stop_the_solve_at_the_first_iteration_below_both_tolerances() {
    let (rho, relax, absolute, relative) = (0.7, 1.6, 1e-6, 1e-4);
    let mut trace = Trace::default();
    let report = solve(rho, relax, &Options::until(absolute, relative, 1000), &mut trace);
    assert_eq!(report.status, Status::Solved);
    let n = trace.x.len() / report.iterations;
    let agents = trace.primal.len() / report.iterations;
    for k in 0..report.iterations {
        let at = |all: &[f64], k: usize| all[k * n..(k + 1) * n].to_vec();
        let before = if k == 0 { vec![0.0; n] } else { at(&trace.z, k - 1) };
        let (x, z, u) = (at(&trace.x, k), at(&trace.z, k), at(&trace.u, k));
        let relaxed: Vec<f64> = x.iter().zip(&before).map(|(x, z)| relax * x + (1.0 - relax) * z).collect();
        let gap = |a: &[f64], b: &[f64]| norm(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>());
        // The trace keeps the steps of u and z agent by agent.
        let (step, moved) = (gap(&relaxed, &z), rho * gap(&z, &before));
        assert!((norm(&trace.primal[k * agents..][..agents]) - step).abs() <= 1e-12 * step);
        assert!((norm(&trace.dual[k * agents..][..agents]) - moved).abs() <= 1e-12 * moved);
        let carried: Vec<f64> = before.iter().zip(&x).zip(&relaxed).map(|((z, x), r)| z + r - x).collect();
        let (primal, dual) = (gap(&x, &z), rho * gap(&z, &carried));
        let root = (n as f64).sqrt() * absolute;
        let goals = (root + relative * norm(&x).max(norm(&z)), root + relative * rho * norm(&u));
        let met = primal <= goals.0 && dual <= goals.1;
        assert_eq!(met, k + 1 == report.iterations, "iteration {k}: {primal} {dual} {goals:?}");
    }
}

#[test]
fn balancing_moves_the_penalty_towards_equal_residuals_and_rescales_the_duals() {
    for (rho, grows) in [(1e-3, true), (1e3, false)] {
        let mut seen: Vec<(f64, Vec<f64>, Vec<f64>)> = Vec::new(); // penalty, u, x − z
        let mut watch = |view: &Iteration<'_, '_, f64>| {
            let gap = view.x.iter().zip(view.z).map(|(x, z)| x - z).collect();
            seen.push((view.rho.of(0), view.u.to_vec(), gap));
            true
        };
        let balancing = Some(Balancing { factor: 2.0, ratio: 10.0, until: 20, ..Balancing::default() });
        let report = solve(rho, 1.0, &Options { balancing, ..Options::fixed(40) }, &mut watch);
        assert_eq!(report.rho_factor > 1.0, grows, "{report:?}");
        let moved = seen.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
        assert!((1..=20).contains(&moved), "the penalty moved {moved} times");
        for (k, pair) in seen.windows(2).enumerate() {
            let ratio = pair[0].0 / pair[1].0;
            assert!([0.5, 1.0, 2.0].contains(&ratio) && (k < 20 || ratio == 1.0), "iteration {k}: {ratio}");
            // ρu are the multipliers: they do not jump when ρ does.
            for ((after, gap), before) in pair[1].1.iter().zip(&pair[1].2).zip(&pair[0].1) {
                assert!(
                    (after - gap - ratio * before).abs() <= 1e-12 * (1.0 + before.abs()),
                    "iteration {k}"
                );
            }
        }
        let plain = solve(rho, 1.0, &Options::until(1e-6, 1e-6, 20_000), &mut ());
        let balanced = solve(rho, 1.0, &Options { balancing, ..Options::until(1e-6, 1e-6, 20_000) }, &mut ());
        assert!(balanced.iterations < plain.iterations, "{balanced:?} {plain:?}");
    }
}

#[test]
fn over_relaxation_reaches_the_same_answer() {
    let last = |relax: f64| {
        let mut trace = Trace::default();
        let report = solve(0.7, relax, &Options::until(1e-11, 0.0, 20_000), &mut trace);
        assert_eq!(report.status, Status::Solved);
        trace.x.split_off(trace.x.len() - trace.x.len() / report.iterations)
    };
    let plain = last(1.0);
    for relax in [0.6, 1.5, 1.8] {
        let worst = plain.iter().zip(last(relax)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 1e-8, "relaxation {relax}: {worst}");
    }
}
