use crate::support::{Case, assert_near, check_gradients, solve};
use sheaf_admm::ErrorKind;
use sheaf_admm::sheaf::{AgentGraph, Maps, Sheaf, SheafOp};
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{Agreement, Descent, Stop, ZUpdate};
use sheaf_testkit::TestRng;

const RHOS: [f64; 5] = [0.5, 1.5, 0.8, 2.0, 1.1];

fn converged(agreement: Agreement<f64>, momentum: f64) -> ZUpdate<f64> {
    let stop = Stop::Tolerance { absolute: 1e-12, relative: 0.0, max_steps: 60_000 };
    ZUpdate::Descent(Descent { agreement, eta: 0.05, momentum, stop })
}

#[test]
fn converged_hard_descent_is_the_projection() {
    for seed in 0..4 {
        let case = Case::mixed(seed);
        let w = TestRng::new(seed).normals(case.sheaf.state_len());
        for momentum in [0.0, 0.9] {
            let (z, report) = solve(&converged(Agreement::Hard, momentum), &case, &Penalty::Scalar(1.7), &w);
            assert!(report.converged && report.steps > 10);
            assert_near(&z, &case.dense().project(&w), 1e-9);
        }
    }
}

#[test]
fn converged_hard_descent_with_penalties_per_agent_is_the_weighted_projection() {
    for seed in 0..4 {
        let case = Case::mixed(seed);
        let (w, rho) = (TestRng::new(seed).normals(case.sheaf.state_len()), Penalty::PerAgent(&RHOS));
        let (z, report) = solve(&converged(Agreement::Hard, 0.9), &case, &rho, &w);
        assert!(report.converged);
        assert_near(&z, &case.dense().project_weighted(&w, &case.spread(&rho)), 1e-9);
    }
}

#[test]
fn converged_soft_descent_solves_the_soft_problem() {
    for (seed, rho) in [(0, Penalty::Scalar(0.7)), (1, Penalty::PerAgent(&RHOS))] {
        let case = Case::mixed(seed);
        let w = TestRng::new(seed).normals(case.sheaf.state_len());
        let (z, report) = solve(&converged(Agreement::Soft { gamma: 1.9 }, 0.9), &case, &rho, &w);
        assert!(report.converged);
        assert_near(&z, &case.dense().soft_weighted(&w, 1.9, &case.spread(&rho)), 1e-10);
    }
}

#[test]
fn equal_penalties_per_agent_take_the_steps_of_a_single_one() {
    let case = Case::mixed(2);
    let w = TestRng::new(2).normals(case.sheaf.state_len());
    for agreement in [Agreement::Hard, Agreement::Soft { gamma: 0.8 }] {
        let z_update = ZUpdate::Descent(Descent::nesterov(agreement, 0.03, 7));
        let (one, _) = solve(&z_update, &case, &Penalty::Scalar(2.5), &w);
        let (each, _) = solve(&z_update, &case, &Penalty::PerAgent(&[2.5; 5]), &w);
        assert_near(&each, &one, 1e-14);
    }
}

#[test]
fn nesterov_steps_follow_the_written_recurrence() {
    let case = Case::shared(5);
    let (l, w) = (case.dense().laplacian(), TestRng::new(5).normals(12));
    let (gamma, rho, eta) = (1.3, 0.6, 0.04);
    let (mut z, mut m) = (w.clone(), vec![0.0; 12]);
    for _ in 0..6 {
        let lz = l.mul_vec(&z);
        for k in 0..12 {
            let g = gamma * lz[k] + rho * (z[k] - w[k]);
            m[k] = 0.9 * m[k] + g;
            z[k] -= eta * (0.9 * m[k] + g);
        }
    }
    let z_update = ZUpdate::Descent(Descent::nesterov(Agreement::Soft { gamma }, eta, 6));
    let (got, report) = solve(&z_update, &case, &Penalty::Scalar(rho), &w);
    assert_eq!(report.steps, 6);
    assert_near(&got, &z, 1e-13);
}

#[test]
fn a_limit_of_steps_ends_an_unfinished_solve_and_is_reported() {
    let case = Case::table(1);
    let w = TestRng::new(1).normals(case.sheaf.state_len());
    let stop = Stop::Tolerance { absolute: 0.0, relative: 1e-12, max_steps: 3 };
    let short = Descent { agreement: Agreement::Hard, eta: 0.05, momentum: 0.0, stop };
    let (z, report) = solve(&ZUpdate::Descent(short), &case, &Penalty::Scalar(1.0), &w);
    assert_eq!((report.steps, report.converged), (3, false));
    let fixed = ZUpdate::Descent(Descent { stop: Stop::Steps(3), ..short });
    assert_eq!(z, solve(&fixed, &case, &Penalty::Scalar(1.0), &w).0);
}

#[test]
fn zero_steps_return_the_target() {
    let case = Case::shared(1);
    let w = TestRng::new(1).normals(12);
    let z_update = ZUpdate::Descent(Descent::nesterov(Agreement::Hard, 0.1, 0));
    assert_eq!(solve(&z_update, &case, &Penalty::Scalar(1.0), &w).0, w);
    check_gradients("zero steps", &case, 1.0, 0.1, &|_, eta| {
        ZUpdate::Descent(Descent::nesterov(Agreement::Hard, eta, 0))
    });
}

#[test]
fn gradients_of_fixed_steps_agree_with_differences() {
    for case in Case::all(3) {
        for momentum in [0.0, 0.9] {
            for steps in [1, 6] {
                let stop = Stop::Steps(steps);
                check_gradients("hard", &case, 1.3, 0.07, &|_, eta| {
                    ZUpdate::Descent(Descent { agreement: Agreement::Hard, eta, momentum, stop })
                });
                check_gradients("soft", &case, 1.3, 0.07, &|gamma, eta| {
                    ZUpdate::Descent(Descent { agreement: Agreement::Soft { gamma }, eta, momentum, stop })
                });
            }
        }
    }
}

#[test]
fn gradients_of_a_solve_to_a_tolerance_are_those_of_the_solution() {
    let stop = Stop::Tolerance { absolute: 0.0, relative: 1e-13, max_steps: 5000 };
    for case in Case::all(4) {
        check_gradients("tolerance", &case, 1.1, 0.06, &|gamma, _| {
            // The solution does not depend on the step size.
            let agreement = Agreement::Soft { gamma };
            ZUpdate::Descent(Descent { agreement, eta: 0.06, momentum: 0.5, stop })
        });
    }
}

#[test]
fn nonsense_options_are_refused() {
    let case = Case::shared(0);
    let good = Descent::nesterov(Agreement::Soft { gamma: 1.0 }, 0.1, 3);
    let kind = |d: Descent<f64>| ZUpdate::Descent(d).validate(&case.op()).unwrap_err().kind();
    assert!(ZUpdate::Descent(good).validate(&case.op()).is_ok());
    assert_eq!(kind(Descent { eta: 0.0, ..good }), ErrorKind::NotPositive);
    assert_eq!(kind(Descent { eta: f64::NAN, ..good }), ErrorKind::NotPositive);
    assert_eq!(kind(Descent { momentum: 1.0, ..good }), ErrorKind::OutOfRange);
    assert_eq!(kind(Descent { momentum: f64::NAN, ..good }), ErrorKind::OutOfRange);
    assert_eq!(kind(Descent { agreement: Agreement::Soft { gamma: -1.0 }, ..good }), ErrorKind::NotPositive);
    for (absolute, relative) in [(0.0, 0.0), (-1.0, 2.0), (f64::INFINITY, 0.0), (0.0, f64::NAN)] {
        let stop = Stop::Tolerance { absolute, relative, max_steps: 3 };
        assert_eq!(kind(Descent { stop, ..good }), ErrorKind::NotPositive);
    }
}

#[test]
fn agents_without_any_edge_keep_their_targets() {
    let graph = AgentGraph::from_edges(3, &[]).unwrap();
    let sheaf = Sheaf::uniform(&graph, 2, 1).unwrap();
    let w = TestRng::new(1).normals(6);
    for maps in [Maps::Stack(&[]), Maps::PerAgent(&[])] {
        let op = SheafOp::new(&sheaf, maps).unwrap();
        let z_update = ZUpdate::Descent(Descent::nesterov(Agreement::Hard, 0.1, 3));
        let (mut z, mut scratch) = (vec![f64::NAN; 6], vec![f64::NAN; z_update.scratch_len(&op)]);
        z_update.forward(&op, &Penalty::Scalar(1.0), &w, &w, &mut [], &mut z, &mut scratch).unwrap();
        assert_eq!(z, w);
    }
}
