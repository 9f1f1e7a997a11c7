//! A tape that keeps the inner steps gives the same gradients as one that replays them.

use sheaf_admm::Result;
use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::{Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty};
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Descent, REFRESH, Stop, ZUpdate};
use sheaf_testkit::TestRng;

const K: usize = 5;

fn draw(len: usize, stream: &mut TestRng) -> Vec<f64> {
    (0..len).map(|_| stream.normal()).collect()
}

/// All gradients of a solve and its results, one after the other.
fn gradients(
    z_update: &ZUpdate<f64>,
    per_agent: bool,
    adjoint: Adjoint<f64>,
    mode: Mode,
    ws: &mut Workspace<f64>,
) -> Result<Vec<f64>> {
    let sheaf = Sheaf::uniform(&AgentGraph::grid(3, 4, Connectivity::Eight)?, 4, 2)?;
    let (n, stream) = (sheaf.state_len(), &mut TestRng::new(3));
    let stacks: Vec<f64> = draw(sheaf.stack_len(), stream).iter().map(|f| 0.4 * f).collect();
    let diag: Vec<f64> = draw(n, stream).iter().map(|d| 0.5 + d.abs()).collect();
    let (q, h) = (draw(n, stream), draw(n, stream));
    let rho: Vec<f64> = draw(sheaf.agents(), stream).iter().map(|r| 0.5 + r.abs()).collect();
    let problem = Problem {
        op: SheafOp::new(&sheaf, Maps::PerAgent(&stacks))?,
        objective: Objective::Diagonal(Diagonal::new(&diag, &q)),
        z_update,
        rho: if per_agent { Penalty::PerAgent(&rho) } else { Penalty::Scalar(0.7) },
        relax: 1.2,
    };
    problem.validate()?;
    ws.fit(&problem, mode);
    let iterations = match mode {
        Mode::Differentiate { iterations } | Mode::Keep { iterations } => iterations,
        Mode::Solve => K,
    };
    problem.solve(Start::At(&h), &Options::fixed(iterations), ws, &mut ())?;
    let (d_x, d_z) = (draw(2 * n, stream), draw(n, stream));
    let (mut d_diag, mut d_q, mut d_h) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let (mut d_stacks, mut d_rho) =
        (vec![0.0; stacks.len()], vec![0.0; if per_agent { rho.len() } else { 1 }]);
    let (mut gamma, mut eta) = (0.0, 0.0);
    let grad = DiagonalGrad { diag: Some(&mut d_diag), q: Some(&mut d_q), ..DiagonalGrad::default() };
    problem.reverse(
        adjoint,
        &Seeds { d_x: &d_x, d_z: Some(&d_z), d_u: None },
        &mut Gradients {
            objective: &mut ObjectiveGrad::Diagonal(grad),
            maps: &mut MapsGrad::PerAgent(&mut d_stacks),
            rho: &mut d_rho,
            gamma: &mut gamma,
            eta: &mut eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut d_h,
        },
        ws,
    )?;
    let answers = [ws.x(), ws.z(), ws.u()].concat();
    Ok([d_diag, d_q, d_h, d_stacks, d_rho, vec![gamma, eta], answers].concat())
}

fn solvers() -> Vec<(&'static str, ZUpdate<f64>)> {
    let soft = Agreement::Soft { gamma: 1.5 };
    let published = |agreement| Cg::published(agreement, 4);
    vec![
        ("soft", ZUpdate::Cg(published(soft))),
        ("soft, warm", ZUpdate::Cg(Cg { start: CgStart::Warm, ..published(soft) })),
        ("hard, published", ZUpdate::Cg(published(Agreement::Hard))),
        ("hard, from zero", ZUpdate::Cg(Cg { start: CgStart::Zero, ..published(Agreement::Hard) })),
        ("hard, carried", ZUpdate::Cg(Cg { start: CgStart::Carried, ..published(Agreement::Hard) })),
        ("to a tolerance", ZUpdate::Cg(Cg::to_tolerance(soft, 1e-2, 30))),
        ("no steps", ZUpdate::Cg(Cg { stop: Stop::Steps(0), ..published(soft) })),
        ("descent", ZUpdate::Descent(Descent::nesterov(soft, 0.05, 4))),
    ]
}

#[test]
fn kept_steps_give_the_gradients_of_replayed_ones() {
    for (name, solver) in solvers() {
        for per_agent in [false, true] {
            for adjoint in [Adjoint::Unrolled, Adjoint::LastSteps(3)] {
                let run =
                    |mode| gradients(&solver, per_agent, adjoint, mode, &mut Workspace::default()).unwrap();
                let replayed = run(Mode::Differentiate { iterations: K });
                let kept = run(Mode::Keep { iterations: K });
                let largest = replayed.iter().fold(0.0f64, |m, g| m.max(g.abs()));
                assert!(largest > 0.0);
                for (k, (a, b)) in kept.iter().zip(&replayed).enumerate() {
                    assert!(
                        (a - b).abs() <= 1e-13 * largest,
                        "{name}, {adjoint:?}, number {k}: {a} against {b}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_workspace_that_kept_steps_solves_longer_and_keeps_again() {
    let solver = ZUpdate::Cg(Cg::published(Agreement::Hard, 4));
    let mut ws = Workspace::default();
    let keep = Mode::Keep { iterations: K };
    let first = gradients(&solver, false, Adjoint::Unrolled, keep, &mut ws).unwrap();
    // Without a tape there is nothing to reverse, but the solve itself must not touch the tape's memory.
    let error = gradients(&solver, false, Adjoint::Unrolled, Mode::Solve, &mut ws).unwrap_err();
    assert!(error.to_string().contains("a recorded solve"));
    assert_eq!(gradients(&solver, false, Adjoint::Unrolled, keep, &mut ws).unwrap(), first);
}

#[test]
fn a_product_that_is_carried_on_gives_what_computing_it_gives() {
    // More iterations than the product is carried without being recomputed.
    let iterations = REFRESH + 5;
    let published = Cg::published(Agreement::Hard, 3);
    let carried = Cg { start: CgStart::Carried, ..published };
    for mode in [Mode::Differentiate { iterations }, Mode::Keep { iterations }] {
        for per_agent in [false, true] {
            let run = |cg| {
                let (solver, mut ws) = (ZUpdate::Cg(cg), Workspace::default());
                gradients(&solver, per_agent, Adjoint::Unrolled, mode, &mut ws).unwrap()
            };
            let (computed, carried) = (run(published), run(carried));
            let largest = computed.iter().fold(0.0f64, |m, g| m.max(g.abs()));
            for (k, (a, b)) in carried.iter().zip(&computed).enumerate() {
                assert!((a - b).abs() <= 1e-11 * largest, "number {k}: {a} against {b}");
            }
        }
    }
}

#[test]
fn a_product_that_is_computed_every_time_is_the_published_start() {
    let published = Cg::published(Agreement::Hard, 3);
    let run = |cg| {
        let (solver, mode) = (ZUpdate::Cg(cg), Mode::Keep { iterations: K });
        gradients(&solver, false, Adjoint::Unrolled, mode, &mut Workspace::default())
    };
    let every = Cg { start: CgStart::Carried, refresh: 1, ..published };
    assert_eq!(run(every).unwrap(), run(published).unwrap());
    let error = run(Cg { refresh: 0, ..every }).unwrap_err();
    assert!(error.to_string().contains("cg refresh"), "{error}");
}

#[test]
fn an_implicit_adjoint_of_a_carried_product_is_refused() {
    let carried = Cg { start: CgStart::Carried, ..Cg::published(Agreement::Hard, 3) };
    let adjoint = Adjoint::Implicit { tolerance: 1e-6, max_terms: 100 };
    let keep = Mode::Keep { iterations: K };
    let told = gradients(&ZUpdate::Cg(carried), false, adjoint, keep, &mut Workspace::default());
    assert!(told.unwrap_err().to_string().contains("CgStart::Carried"));
}
