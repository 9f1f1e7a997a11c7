use crate::support::{Case, assert_near, check_gradients, solve};
use sheaf_admm::ErrorKind;
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{Agreement, EdgeMethod, EdgeSpace, Exact, Stop, ZUpdate};
use sheaf_testkit::TestRng;

const CG: EdgeMethod<f64> = EdgeMethod::Cg { guard: 0.0 };
const GUARDED: EdgeMethod<f64> = EdgeMethod::Cg { guard: 1e-8 };
const TIGHT: Stop<f64> = Stop::Tolerance { absolute: 1e-13, relative: 0.0, max_steps: 20_000 };
const SOFT: Agreement<f64> = Agreement::Soft { gamma: 1.6 };

fn descent(eta: f64, momentum: f64) -> EdgeMethod<f64> {
    EdgeMethod::Descent { eta, momentum }
}

fn edge(agreement: Agreement<f64>, method: EdgeMethod<f64>, stop: Stop<f64>) -> EdgeSpace<f64> {
    EdgeSpace { agreement, method, stop, warm: true }
}

/// Cases, some of them with linearly dependent rows of F.
fn cases() -> Vec<Case> {
    (0..3).flat_map(|s| [Case::mixed(s), Case::repeated(s), Case::shared(s), Case::low_rank(s)]).collect()
}

#[test]
fn a_converged_solve_is_the_exact_one() {
    for case in cases() {
        let w = TestRng::new(1).normals(case.sheaf.state_len());
        let each = TestRng::new(2).ranges(case.sheaf.agents(), 0.5, 2.0);
        for agreement in [Agreement::Hard, SOFT] {
            for rho in [Penalty::Scalar(1.4), Penalty::PerAgent(&each)] {
                let (expected, _) =
                    solve(&ZUpdate::Exact(Exact::new(&case.sheaf, agreement)), &case, &rho, &w);
                for method in [CG, descent(0.08, 0.9)] {
                    let z_update = ZUpdate::EdgeSpace(edge(agreement, method, TIGHT));
                    let (z, report) = solve(&z_update, &case, &rho, &w);
                    assert!(report.converged, "{} {method:?}", case.name);
                    assert_near(&z, &expected, 1e-9);
                }
            }
        }
    }
}

#[test]
fn the_soft_multipliers_are_gamma_times_the_residuals() {
    let case = Case::mixed(4);
    let (op, rho) = (case.op(), Penalty::PerAgent(&[0.5, 1.5, 0.8, 2.0, 1.1]));
    let w = TestRng::new(4).normals(case.sheaf.state_len());
    let solver = ZUpdate::EdgeSpace(edge(SOFT, CG, TIGHT));
    let mut carry = vec![0.0; solver.carry_len(&op)];
    let (mut z, mut scratch) = (w.clone(), vec![f64::NAN; solver.scratch_len(&op)]);
    solver.forward(&op, &rho, &w, &w, &mut carry, &mut z, &mut scratch).unwrap();
    let residual = case.dense().coboundary().mul_vec(&z);
    assert_near(&carry, &residual.iter().map(|r| 1.6 * r).collect::<Vec<_>>(), 1e-11);
}

#[test]
fn a_warm_start_at_the_solution_has_nothing_left_to_do_even_when_the_penalty_has_changed() {
    let case = Case::mixed(5);
    let op = case.op();
    let w = TestRng::new(5).normals(case.sheaf.state_len());
    for method in [CG, descent(0.08, 0.9)] {
        let solver = ZUpdate::EdgeSpace(edge(Agreement::Hard, method, TIGHT));
        let mut carry = vec![0.0; solver.carry_len(&op)];
        let (mut z, mut scratch) = (w.clone(), vec![f64::NAN; solver.scratch_len(&op)]);
        let rho = Penalty::Scalar(2.0);
        let cold = solver.forward(&op, &rho, &w, &w, &mut carry, &mut z, &mut scratch).unwrap();
        let near = Stop::Tolerance { absolute: 1e-10, relative: 0.0, max_steps: 100 };
        let near = ZUpdate::EdgeSpace(edge(Agreement::Hard, method, near));
        let warm = near.forward(&op, &rho, &w, &w, &mut carry, &mut z, &mut scratch).unwrap();
        assert!(cold.steps > 3 && warm.steps == 0 && warm.converged);
        // With half the penalty the scaled dual, w − z, is twice as large and the multipliers are the same.
        let moved: Vec<f64> = w.iter().zip(&z).map(|(w, z)| z + 2.0 * (w - z)).collect();
        let rho = Penalty::Scalar(1.0);
        let other = near.forward(&op, &rho, &moved, &w, &mut carry, &mut z, &mut scratch).unwrap();
        assert_eq!(other.steps, 0);
    }
}

#[test]
fn a_cold_solver_carries_nothing_and_starts_at_zero() {
    let case = Case::table(6);
    let w = TestRng::new(6).normals(case.sheaf.state_len());
    for method in [GUARDED, descent(0.1, 0.5)] {
        let warm = edge(SOFT, method, Stop::Steps(4));
        let cold = EdgeSpace { warm: false, ..warm };
        assert_eq!(ZUpdate::EdgeSpace(cold).carry_len(&case.op()), 0);
        let rho = Penalty::Scalar(0.8);
        let [(a, _), (b, _)] = [warm, cold].map(|s| solve(&ZUpdate::EdgeSpace(s), &case, &rho, &w));
        assert_near(&a, &b, 1e-14);
    }
}

#[test]
fn gradients_agree_with_differences() {
    for case in Case::all(7) {
        // The shared triangle has three distinct eigenvalues: a third step of CG would remove all dependence on the
        // start.
        for steps in [1, if case.name == "shared" { 2 } else { 4 }] {
            let stop = Stop::Steps(steps);
            check_gradients("hard cg", &case, 1.3, 0.1, &|_, _| {
                ZUpdate::EdgeSpace(edge(Agreement::Hard, GUARDED, stop))
            });
            check_gradients("soft cg", &case, 1.3, 0.1, &|gamma, _| {
                ZUpdate::EdgeSpace(edge(Agreement::Soft { gamma }, GUARDED, stop))
            });
            check_gradients("hard descent", &case, 1.3, 0.1, &|_, eta| {
                ZUpdate::EdgeSpace(edge(Agreement::Hard, descent(eta, 0.9), stop))
            });
            check_gradients("soft descent", &case, 1.3, 0.1, &|gamma, eta| {
                ZUpdate::EdgeSpace(edge(Agreement::Soft { gamma }, descent(eta, 0.0), stop))
            });
        }
    }
}

#[test]
fn gradients_of_cold_solves_and_of_solves_to_a_tolerance_agree_with_differences() {
    let stop = Stop::Tolerance { absolute: 0.0, relative: 1e-13, max_steps: 5000 };
    for case in [Case::mixed(8), Case::table(8)] {
        for method in [CG, descent(0.1, 0.5)] {
            check_gradients("tolerance", &case, 1.3, 0.1, &|gamma, _| {
                let method = if let CG = method { CG } else { descent(0.1, 0.5) };
                // The carry of a solve to a tolerance is only a start: it passes no gradient.
                let warm = edge(Agreement::Soft { gamma }, method, stop);
                ZUpdate::EdgeSpace(EdgeSpace { warm: false, ..warm })
            });
            check_gradients("cold", &case, 1.3, 0.1, &|_, eta| {
                let method = if let CG = method { GUARDED } else { descent(eta, 0.5) };
                let warm = edge(Agreement::Hard, method, Stop::Steps(3));
                ZUpdate::EdgeSpace(EdgeSpace { warm: false, ..warm })
            });
        }
    }
}

#[test]
fn a_solved_system_without_guard_stops_instead_of_dividing_by_zero() {
    let case = Case::shared(9);
    let zero = vec![0.0; case.sheaf.state_len()];
    let z_update = ZUpdate::EdgeSpace(edge(Agreement::Hard, CG, Stop::Steps(5)));
    let (z, report) = solve(&z_update, &case, &Penalty::Scalar(1.0), &zero);
    assert_eq!((z, report.steps), (zero, 0));
}

#[test]
fn nonsense_options_are_refused() {
    let case = Case::shared(0);
    let kind = |s: EdgeSpace<f64>| ZUpdate::EdgeSpace(s).validate(&case.op()).unwrap_err().kind();
    let stop = Stop::Steps(2);
    assert_eq!(kind(edge(SOFT, EdgeMethod::Cg { guard: -1.0 }, stop)), ErrorKind::NotPositive);
    assert_eq!(kind(edge(SOFT, EdgeMethod::Cg { guard: f64::NAN }, stop)), ErrorKind::NotPositive);
    assert_eq!(kind(edge(SOFT, descent(-0.1, 0.0), stop)), ErrorKind::NotPositive);
    assert_eq!(kind(edge(SOFT, descent(0.1, 1.5), stop)), ErrorKind::OutOfRange);
    assert_eq!(kind(edge(Agreement::Soft { gamma: 0.0 }, CG, stop)), ErrorKind::NotPositive);
    let never = Stop::Tolerance { absolute: 0.0, relative: 0.0, max_steps: 9 };
    assert_eq!(kind(edge(SOFT, CG, never)), ErrorKind::NotPositive);
}
