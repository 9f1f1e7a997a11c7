//! The reverse sweep against finite differences of the iteration as it ran.

use sheaf_admm::admm::{Adjoint, Balancing, Options, Status};
use sheaf_admm::z_update::{
    Agreement, Cg, CgStart, Descent, EdgeMethod, EdgePotential, EdgeSpace, Exact, Potential, Stop, ZUpdate,
};
use sheaf_testkit::assert_close_max;

use crate::admm_case::{Case, Loss, Outcome, Solver};
use crate::net::{Kind, Net};
use crate::point::Point;

const PUBLISHED: Solver = |_, agreement, _| ZUpdate::Cg(Cg::published(agreement, 5));

const SIX: Options<f64> = Options::fixed(6);

fn grid(relax: f64, from_h: bool) -> Case {
    Case { net: Net::grid(Kind::Table), solver: PUBLISHED, relax, from_h, width: 0.5, has_eta: false }
}

/// Solves, reverses, and compares with finite differences of the same steps written out.
fn assert_unrolled(case: &Case, point: &Point, options: &Options<f64>, loss: &Loss) -> Outcome {
    let (grad, outcome, report) = case.reverse(point, options, Adjoint::Unrolled, loss);
    let again = case.replay(point, &outcome.factors);
    assert_close_max(&format!("{}: z", case.net.name), &outcome.z, &again.z, 1e-12);
    assert_close_max(&format!("{}: u", case.net.name), &outcome.u, &again.u, 1e-12);
    assert_close_max(&format!("{}: x", case.net.name), &outcome.x.concat(), &again.x.concat(), 1e-12);
    assert_eq!(report.iterations, outcome.x.len());
    let pieces = outcome.pieces(point);
    assert!(pieces[2] > 0 && pieces[3] > 0, "at lo, at hi, at zero, free: {pieces:?}");
    let f = |at: &Point| loss.value(&case.replay(at, &outcome.factors));
    point.assert_gradient(&case.net.name, &grad, &f);
    outcome
}

#[test]
fn six_iterations_are_differentiated_through_every_input_and_kind_of_maps() {
    for net in Net::all() {
        let case = Case { net, ..grid(1.6, true) };
        let loss = Loss::new(case.net.states(), 2, true, true);
        assert_unrolled(&case, &case.point(true, false, 0.6, &SIX), &SIX, &loss);
    }
}

#[test]
fn every_solver_is_differentiated_inside_the_iteration() {
    let descent: Solver = |_, agreement, eta| ZUpdate::Descent(Descent::nesterov(agreement, eta, 10));
    let edge_cg: Solver = |_, agreement, _| {
        let (method, stop) = (EdgeMethod::Cg { guard: 1e-8 }, Stop::Steps(3));
        ZUpdate::EdgeSpace(EdgeSpace { agreement, method, stop, warm: true })
    };
    let edge_descent: Solver = |_, agreement, eta| {
        let (method, stop) = (EdgeMethod::Descent { eta, momentum: 0.5 }, Stop::Steps(4));
        ZUpdate::EdgeSpace(EdgeSpace { agreement, method, stop, warm: true })
    };
    let exact: Solver = |sheaf, agreement, _| ZUpdate::Exact(Exact::new(sheaf, agreement));
    for (solver, has_eta) in [(descent, true), (edge_cg, false), (edge_descent, true), (exact, false)] {
        for (soft, per_agent) in [(false, true), (true, false), (true, true)] {
            let case = Case { net: Net::irregular(), solver, has_eta, ..grid(1.6, true) };
            let loss = Loss::new(case.net.states(), 2, true, true);
            let balancing = Some(Balancing { factor: 2.0, ratio: 1.2, until: 5, ..Balancing::default() });
            let options = Options { balancing, ..SIX };
            assert_unrolled(&case, &case.point(soft, per_agent, 0.4, &options), &options, &loss);
        }
    }
}

#[test]
fn nonlinear_potentials_are_differentiated_inside_the_iteration() {
    let solver: Solver = |_, agreement, eta| {
        let Agreement::Soft { gamma } = agreement else { panic!("a potential is soft") };
        let potential = EdgePotential::SmoothedL1 { epsilon: 0.3 };
        ZUpdate::Potential(Potential { gamma, potential, eta, momentum: 0.9, stop: Stop::Steps(8) })
    };
    for per_agent in [false, true] {
        let case = Case { net: Net::irregular(), solver, has_eta: true, ..grid(1.6, true) };
        let loss = Loss::new(case.net.states(), 2, true, true);
        assert_unrolled(&case, &case.point(true, per_agent, 0.4, &SIX), &SIX, &loss);
    }
}

#[test]
fn relaxation_penalties_and_agreement_combine() {
    for relax in [1.0, 1.6] {
        for soft in [false, true] {
            for per_agent in [false, true] {
                let case = grid(relax, true);
                let loss = Loss::new(case.net.states(), 2, false, false);
                assert_unrolled(&case, &case.point(soft, per_agent, 0.6, &SIX), &SIX, &loss);
            }
        }
    }
}

#[test]
fn a_start_at_zeros_and_a_loss_on_every_iterate_are_differentiated() {
    let case = grid(1.6, false);
    let loss = Loss::new(case.net.states(), 6, false, true);
    assert_unrolled(&case, &case.point(true, false, 0.6, &SIX), &SIX, &loss);
    let loss = Loss::new(case.net.states(), 0, true, false);
    assert_unrolled(&case, &case.point(true, true, 0.6, &SIX), &SIX, &loss);
}

#[test]
fn balanced_penalties_pass_their_gradient_to_the_first_with_the_factors_held() {
    for per_agent in [false, true] {
        for rho in [0.1, 6.0] {
            let solver: Solver =
                |_, agreement, _| ZUpdate::Cg(Cg { start: CgStart::Zero, ..Cg::published(agreement, 5) });
            let case = Case { solver, ..grid(1.6, true) };
            let balancing = Some(Balancing { factor: 2.0, ratio: 1.2, until: 5, ..Balancing::default() });
            let options = Options { balancing, ..Options::fixed(8) };
            let loss = Loss::new(case.net.states(), 2, true, true);
            let point = case.point(false, per_agent, rho, &options);
            let outcome = assert_unrolled(&case, &point, &options, &loss);
            let moves = outcome.factors.windows(2).filter(|w| w[0] != w[1]).count();
            assert!(moves >= 2, "the penalty moved {moves} times: {:?}", outcome.factors);
            assert_eq!(outcome.factors[5], outcome.factors[7], "no move after `until`");
        }
    }
}

#[test]
fn a_solve_that_stops_at_its_tolerance_is_differentiated_through_the_steps_that_ran() {
    let case = Case { net: Net::irregular(), ..grid(1.6, true) };
    let options = Options::until(1e-3, 1e-3, 100);
    let point = case.point(true, false, 0.6, &options);
    let loss = Loss::new(case.net.states(), 2, true, true);
    let outcome = assert_unrolled(&case, &point, &options, &loss);
    let (_, report) = case.solve(&point, &options);
    assert_eq!(report.status, Status::Solved);
    assert!(outcome.x.len() > 5 && outcome.x.len() < 100, "{} iterations", outcome.x.len());
}

#[test]
fn the_last_steps_alone_are_differentiated_with_the_state_before_them_frozen() {
    for relax in [1.0, 1.6] {
        let case = grid(relax, true);
        let point = case.point(true, true, 0.6, &Options::fixed(7));
        let loss = Loss::new(case.net.states(), 2, true, true);
        let before = case.replay(&point, &[1.0; 4]);
        let (grad, ..) = case.reverse(&point, &Options::fixed(7), Adjoint::LastSteps(3), &loss);
        assert!(grad.get("h").iter().all(|&g| g == 0.0), "the start lies before the last steps");
        let f = |at: &Point| loss.value(&case.written_out(at, &[1.0; 3], (&before.z, &before.u)));
        point.assert_gradient("last three of seven", &grad.without("h"), &f);

        let (all, ..) = case.reverse(&point, &Options::fixed(7), Adjoint::LastSteps(7), &loss);
        let (unrolled, ..) = case.reverse(&point, &Options::fixed(7), Adjoint::Unrolled, &loss);
        for name in ["h", "q", "rho", "stacks"] {
            assert_eq!(all.get(name), unrolled.get(name), "the last seven of seven are all: {name}");
        }
    }
}

/// Solves to convergence, takes the implicit adjoint, and compares with finite differences of converged solves.
fn assert_implicit(case: &Case, soft: bool, per_agent: bool) {
    let options = Options::until(1e-13, 0.0, 20_000);
    let point = case.point_at_rest(soft, per_agent, 0.8, &options);
    let loss = Loss::new(case.net.states(), 2, true, false);
    let adjoint = Adjoint::Implicit { tolerance: 1e-12, max_terms: 20_000 };
    let (grad, _, report) = case.reverse(&point, &options, adjoint, &loss);
    let name = format!("{}, soft {soft}, per agent {per_agent}", case.net.name);
    assert_eq!(report.status, Status::Solved, "{name}: {report:?}");
    // The start, the penalty and the step size do not change the solution.
    assert!(grad.get("h").iter().all(|&g| g == 0.0), "{name}");
    assert!(grad.get("rho").iter().all(|g| g.abs() < 1e-9), "{name}: {:?}", grad.get("rho"));
    assert!(!case.has_eta || grad.one("eta").abs() < 1e-9, "{name}: {:?}", grad.get("eta"));
    let f = |at: &Point| loss.value(&case.solve(at, &options).0);
    point.assert_gradient(&name, &grad.without("h").without("rho").without("eta"), &f);
}

#[test]
fn at_convergence_the_implicit_adjoint_is_the_derivative_of_the_solution() {
    let exact: Solver = |sheaf, agreement, _| ZUpdate::Exact(Exact::new(sheaf, agreement));
    for (soft, per_agent) in [(true, false), (true, true), (false, false), (false, true)] {
        let small = Net::small(if soft { Kind::Table } else { Kind::LowRank { bases: 8, gate: true } });
        for net in [Net::irregular(), small] {
            assert_implicit(&Case { net, solver: exact, width: 1.5, ..grid(1.6, true) }, soft, per_agent);
        }
    }
}

#[test]
fn the_implicit_adjoint_follows_conjugate_gradients_to_a_tight_tolerance() {
    let solver: Solver = |_, agreement, _| ZUpdate::Cg(Cg::to_tolerance(agreement, 1e-14, 300));
    for soft in [false, true] {
        let case = Case { net: Net::irregular(), solver, width: 1.5, ..grid(1.6, true) };
        assert_implicit(&case, soft, false);
    }
}

#[test]
fn the_implicit_adjoint_follows_multipliers_carried_between_iterations() {
    let solver: Solver = |_, agreement, eta| {
        let (method, stop) = (EdgeMethod::Descent { eta: 10.0 * eta, momentum: 0.0 }, Stop::Steps(3));
        ZUpdate::EdgeSpace(EdgeSpace { agreement, method, stop, warm: true })
    };
    let case = Case { net: Net::irregular(), solver, has_eta: true, width: 1.5, ..grid(1.0, true) };
    assert_implicit(&case, true, false);
}
