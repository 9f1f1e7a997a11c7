//! Whole problems from mostly sensible numbers: every call gives a result or a typed error, none panics, and results
//! are finite.

use proptest::prelude::*;
use sheaf_admm::admm::{
    Adjoint, Balancing, Gradients, Mode, Options, Problem, Seeds, Start, Tolerances, Workspace,
};
use sheaf_admm::sheaf::{AgentGraph, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::{Coefficient, Diagonal, Objective, ObjectiveGrad, Penalty, Tether};
use sheaf_admm::z_update::{
    Agreement, Cg, CgStart, Descent, EdgeMethod, EdgePotential, EdgeSpace, Exact, Potential, Stop, ZUpdate,
};

/// Mostly sensible numbers, sometimes invalid ones.
fn number() -> impl Strategy<Value = f64> {
    let odd = prop_oneof![
        Just(0.0),
        Just(-1.0),
        Just(1e300),
        Just(1e-300),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
    ];
    prop_oneof![20 => 0.05..1.5, 1 => odd]
}

fn count() -> impl Strategy<Value = usize> {
    prop_oneof![12 => 0usize..6, 1 => Just(usize::MAX), 1 => Just(1 << 40)]
}

fn stop() -> impl Strategy<Value = Stop<f64>> {
    let tolerance = (number(), number(), 0usize..40);
    prop_oneof![
        count().prop_map(|steps| Stop::Steps(steps.min(1000))),
        tolerance.prop_map(|(absolute, relative, max_steps)| Stop::Tolerance {
            absolute,
            relative,
            max_steps
        }),
    ]
}

/// The choice and the parameters of a consensus solver.
type Solver = (usize, bool, bool, [f64; 4], Stop<f64>);

fn solver() -> impl Strategy<Value = Solver> {
    let numbers = [number(), number(), number(), number()];
    (0usize..7, any::<bool>(), any::<bool>(), numbers, stop())
}

fn z_update(sheaf: &Sheaf, (family, hard, warm, [gamma, a, b, c], stop): Solver) -> ZUpdate<f64> {
    let agreement = if hard { Agreement::Hard } else { Agreement::Soft { gamma } };
    let start = if warm { CgStart::Warm } else { CgStart::Published };
    let edges = |method| ZUpdate::EdgeSpace(EdgeSpace { agreement, method, stop, warm });
    let potential =
        |potential| ZUpdate::Potential(Potential { potential, gamma, eta: 0.1 * a, momentum: 0.5 * b, stop });
    match family {
        0 => ZUpdate::Cg(Cg { agreement, stop, start, guard: a, tikhonov: b, refresh: stop.max_steps() }),
        1 => ZUpdate::Descent(Descent { agreement, eta: 0.1 * a, momentum: 0.5 * b, stop }),
        2 => edges(EdgeMethod::Cg { guard: a }),
        3 => edges(EdgeMethod::Descent { eta: 0.1 * a, momentum: 0.5 * b }),
        4 => potential(EdgePotential::Huber { delta: c }),
        5 => potential(EdgePotential::SmoothedL1 { epsilon: c }),
        _ => ZUpdate::Exact(Exact::new(sheaf, agreement)),
    }
}

fn options() -> impl Strategy<Value = Options<f64>> {
    let tolerances = prop::option::of((number(), number()))
        .prop_map(|t| t.map(|(absolute, relative)| Tolerances { absolute: 1e-3 * absolute, relative }));
    let balancing = prop::option::of((number(), number(), count())).prop_map(|b| {
        b.map(|(factor, ratio, until)| Balancing {
            factor: 1.0 + factor,
            ratio: 1.0 + ratio,
            until,
            ..Balancing::default()
        })
    });
    let taped = prop::option::of(count());
    (0usize..12, tolerances, balancing, any::<bool>(), taped).prop_map(
        |(iterations, tolerances, balancing, x_only, taped)| Options {
            iterations,
            tolerances,
            balancing,
            x_only,
            taped,
            ..Options::fixed(iterations)
        },
    )
}

fn adjoint() -> impl Strategy<Value = Adjoint<f64>> {
    prop_oneof![
        Just(Adjoint::Unrolled),
        count().prop_map(Adjoint::LastSteps),
        (number(), 0usize..50).prop_map(|(tolerance, max_terms)| Adjoint::Implicit { tolerance, max_terms }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whole_problems_are_solved_and_differentiated_or_refused(
        ends in prop::collection::vec((0usize..4, 0usize..4), 0..6),
        drawn in prop::collection::vec(number(), 8),
        (solver, options, adjoint) in (solver(), options(), adjoint()),
        (per_agent, tether, room, window, relax) in
            (any::<bool>(), any::<bool>(), prop_oneof![6 => Just(12), 1 => count()], 0usize..4, number()),
        validated in any::<bool>(),
    ) {
        let graph = AgentGraph::from_edges(4, &ends).expect("all four exist");
        let d_e: Vec<usize> = ends.iter().map(|(u, v)| 1 + (u + v) % 2).collect();
        let sheaf = Sheaf::heterogeneous(&graph, &[2, 1, 3, 2], &d_e).expect("sizes are positive");
        let (n, cycle) = (sheaf.state_len(), |len: usize, from: usize| -> Vec<f64> {
            (0..len).map(|k| drawn[(k + from) % drawn.len()]).collect()
        });
        let (stacks, diag, q, start) = (cycle(sheaf.stack_len(), 0), cycle(n, 1), cycle(n, 2), cycle(n, 3));
        let rho = cycle(4, 4);
        let z_update = z_update(&sheaf, solver);
        let (lo, hi) = (Some(Coefficient::Scalar(-drawn[5])), Some(Coefficient::Scalar(drawn[6])));
        let l1 = Some(Coefficient::Scalar(0.1 * drawn[7]));
        let objective = match tether {
            true => Objective::Tether(Tether { beta: drawn[0], anchor: &q }),
            false => Objective::Diagonal(Diagonal { l1, lo, hi, ..Diagonal::new(&diag, &q) }),
        };
        let problem = Problem {
            op: SheafOp::new(&sheaf, Maps::PerAgent(&stacks)).expect("a stack for every agent"),
            objective,
            z_update: &z_update,
            rho: if per_agent { Penalty::PerAgent(&rho) } else { Penalty::Scalar(rho[0]) },
            relax,
        };
        let valid = problem.validate().is_ok();
        // Half of the cases continue without validation.
        if validated && !valid {
            return Ok(());
        }
        let mut ws = Workspace::new(&problem, Mode::Differentiate { iterations: room.min(1 << 20) });
        let Ok(report) = problem.solve(Start::At(&start), &options, &mut ws, &mut ()) else { return Ok(()) };
        let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
        prop_assert!(report.iterations == 0 || finite(ws.z()) && finite(ws.u()), "{report:?}");
        let (d_x, d_z) = (cycle(window * n, 6), cycle(n, 7));
        let (mut d_stacks, mut d_rho) = (vec![0.0; stacks.len()], vec![0.0; problem.rho.grad_len(4)]);
        let (mut d_gamma, mut d_eta, mut d_start) = (0.0, 0.0, vec![0.0; n]);
        let mut grads = Gradients {
            objective: &mut ObjectiveGrad::None,
            maps: &mut MapsGrad::PerAgent(&mut d_stacks),
            rho: &mut d_rho,
            gamma: &mut d_gamma,
            eta: &mut d_eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut d_start,
        };
        let seeds = Seeds { d_x: &d_x, d_z: Some(&d_z), d_u: None };
        let reversed = problem.reverse(adjoint, &seeds, &mut grads, &mut ws);
        prop_assert!(reversed.is_err() || report.iterations > 0, "nothing ran that could be reversed");
        prop_assert!(reversed.is_err() || window <= report.iterations);
    }
}
