use crate::support::{Case, check_gradients, solve};
use sheaf_admm::ErrorKind;
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{Agreement, Descent, EdgePotential, Potential, Stop, ZUpdate};
use sheaf_testkit::{TestRng, assert_gradient};

const ALL: [EdgePotential<f64>; 3] = [
    EdgePotential::Quadratic,
    EdgePotential::Huber { delta: 0.4 },
    EdgePotential::SmoothedL1 { epsilon: 0.3 },
];

fn solver(potential: EdgePotential<f64>, gamma: f64, eta: f64, stop: Stop<f64>) -> ZUpdate<f64> {
    ZUpdate::Potential(Potential { potential, gamma, eta, momentum: 0.8, stop })
}

#[test]
fn slope_and_curvature_are_derivatives_of_the_value() {
    let mut rng = TestRng::new(9);
    for potential in ALL {
        for r in rng.normals_away_from(20, &[-0.4, 0.4], 0.01) {
            let check = |name: &str, f: &dyn Fn(f64) -> f64, slope: f64| {
                assert_gradient(name, &mut |r| f(r[0]), &[r], &[slope]);
            };
            check("slope", &|r| potential.value(r), potential.slope(r));
            check("curvature", &|r| potential.slope(r), potential.curvature(r));
        }
    }
}

#[test]
fn at_the_kink_of_huber_the_curvature_is_that_of_the_inner_side() {
    let huber = EdgePotential::Huber { delta: 0.4 };
    assert_eq!((huber.curvature(0.4), huber.curvature(-0.4), huber.curvature(0.41)), (1.0, 1.0, 0.0));
    assert_eq!((huber.slope(0.4), huber.slope(7.0), huber.slope(-7.0)), (0.4, 0.4, -0.4));
}

#[test]
fn the_quadratic_potential_is_soft_descent_bit_for_bit() {
    for case in Case::all(6) {
        let w = TestRng::new(6).normals(case.sheaf.state_len());
        let rho: Vec<f64> = TestRng::new(7).ranges(case.sheaf.agents(), 0.5, 2.0);
        let stop = Stop::Steps(9);
        let descent = Descent { agreement: Agreement::Soft { gamma: 1.4 }, eta: 0.05, momentum: 0.8, stop };
        for rho in [Penalty::Scalar(0.9), Penalty::PerAgent(&rho)] {
            let (z, _) = solve(&solver(EdgePotential::Quadratic, 1.4, 0.05, stop), &case, &rho, &w);
            assert_eq!(z, solve(&ZUpdate::Descent(descent), &case, &rho, &w).0);
        }
    }
}

#[test]
fn a_converged_solve_meets_the_optimality_condition() {
    let stop = Stop::Tolerance { absolute: 1e-12, relative: 0.0, max_steps: 5000 };
    for seed in 0..3 {
        let case = Case::mixed(seed);
        let w = TestRng::new(seed).normals(case.sheaf.state_len());
        let f = case.dense().coboundary();
        for potential in ALL {
            let rho = Penalty::PerAgent(&[0.5, 1.5, 0.8, 2.0, 1.1]);
            let (z, report) = solve(&solver(potential, 1.5, 0.02, stop), &case, &rho, &w);
            assert!(report.converged);
            let pull: Vec<f64> = f.mul_vec(&z).iter().map(|&r| potential.slope(r)).collect();
            let (force, rho) = (f.transpose().mul_vec(&pull), case.spread(&rho));
            for k in 0..z.len() {
                assert!((1.5 * force[k] + rho[k] * (z[k] - w[k])).abs() < 1e-11);
            }
            let energy = |z: &[f64]| {
                let price: f64 = f.mul_vec(z).iter().map(|&r| potential.value(r)).sum();
                1.5 * price + (0..z.len()).map(|k| 0.5 * rho[k] * (z[k] - w[k]).powi(2)).sum::<f64>()
            };
            for around in 0..20 {
                let step = TestRng::new(around).normals(z.len());
                let other: Vec<f64> = z.iter().zip(step).map(|(z, s)| z + 0.01 * s).collect();
                assert!(energy(&other) > energy(&z));
            }
        }
    }
}

#[test]
fn gradients_agree_with_differences() {
    for case in Case::all(8) {
        for potential in ALL {
            check_gradients(&format!("{potential:?}"), &case, 1.2, 0.06, &|gamma, eta| {
                solver(potential, gamma, eta, Stop::Steps(5))
            });
        }
        // The solution does not depend on the step size.
        let stop = Stop::Tolerance { absolute: 0.0, relative: 1e-13, max_steps: 20_000 };
        for potential in if case.name == "mixed" { &ALL[..] } else { &ALL[2..] } {
            let potential = *potential;
            check_gradients(&format!("tolerance, {potential:?}"), &case, 1.2, 0.06, &|gamma, _| {
                solver(potential, gamma, 0.02, stop)
            });
        }
    }
}

#[test]
fn nonsense_options_are_refused() {
    let case = Case::shared(0);
    let kind = |p, gamma, eta| solver(p, gamma, eta, Stop::Steps(1)).validate(&case.op()).unwrap_err().kind();
    assert_eq!(kind(EdgePotential::Huber { delta: 0.0 }, 1.0, 0.1), ErrorKind::NotPositive);
    assert_eq!(kind(EdgePotential::SmoothedL1 { epsilon: -1.0 }, 1.0, 0.1), ErrorKind::NotPositive);
    assert_eq!(kind(EdgePotential::Quadratic, 0.0, 0.1), ErrorKind::NotPositive);
    assert_eq!(kind(EdgePotential::Quadratic, 1.0, f64::INFINITY), ErrorKind::NotPositive);
}

#[test]
fn agreement_costs_nothing_and_disagreement_what_its_slope_adds_up_to() {
    for potential in ALL {
        assert_eq!(potential.value(0.0), 0.0, "{potential:?}");
        let steps = 20_000;
        let slopes = (0..steps).map(|i| potential.slope(1.5 * (f64::from(i) + 0.5) / f64::from(steps)));
        let sum = slopes.sum::<f64>() * 1.5 / f64::from(steps);
        assert!((potential.value(1.5) - sum).abs() < 1e-7, "{potential:?}: {sum}");
    }
}
