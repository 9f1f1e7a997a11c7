//! Proximal maps: optimality of each, every VJP against finite differences, and the errors of a map without methods.

use std::sync::Arc;

use sheaf_admm::x_update::{
    Ball, Huber, Logistic, Norm, Objective, ObjectiveGrad, Penalty, ProxGrad, Proximal, SecondOrderCone,
    Simplex,
};
use sheaf_admm::{ErrorKind, Result};
use sheaf_testkit::{GradientCheck, TestRng};

/// x = prox(v) of a map, prepared on scratch that holds nothing.
pub fn prox(map: &dyn Proximal<f64>, rho: f64, v: &[f64]) -> Vec<f64> {
    map.validate().unwrap();
    let (mut x, mut scratch) = (vec![f64::NAN; v.len()], vec![f64::NAN; map.scratch_len()]);
    map.prepare(rho, &mut scratch).unwrap();
    map.prox(rho, v, &mut x, &mut scratch).unwrap();
    x
}

/// Makes a map of its parameters.
pub type Make<'a> = &'a dyn Fn(&[f64]) -> Box<dyn Proximal<f64>>;

/// Compares the gradients of v, ρ and all parameters with finite differences of ⟨c, prox(v)⟩.
pub fn check_vjp(name: &str, make: Make<'_>, params: &[f64], rho: f64, v: &[f64]) {
    let map = make(params);
    assert_eq!(map.param_len(), params.len(), "{name}: parameters");
    let c = TestRng::new(77).normals(v.len());
    let x = prox(map.as_ref(), rho, v);
    let mut scratch = vec![f64::NAN; map.scratch_len()];
    map.prepare(rho, &mut scratch).unwrap();
    map.prox(rho, v, &mut vec![0.0; v.len()], &mut scratch).unwrap();
    let (mut d_v, mut d_rho, mut d_params) = (vec![0.5; v.len()], 0.5, vec![0.5; params.len()]);
    let mut grad = ProxGrad { v: &mut d_v, rho: &mut d_rho, params: &mut d_params };
    map.vjp(rho, v, &x, &c, &mut grad, &mut scratch).unwrap();
    let claimed: Vec<f64> = d_v.iter().chain([&d_rho]).chain(&d_params).map(|g| g - 0.5).collect();
    let point: Vec<f64> = v.iter().chain([&rho]).chain(params).copied().collect();
    let mut f = |p: &[f64]| {
        let (v, rest) = p.split_at(v.len());
        let x = prox(make(&rest[1..]).as_ref(), rest[0], v);
        x.iter().zip(&c).map(|(x, c)| x * c).sum()
    };
    GradientCheck::default().assert(name, &mut f, &point, &claimed);
}

/// No point nearby has a smaller f(x) + ρ/2‖x − v‖² (`feasible` brings a point into the domain).
fn check_minimum(map: &dyn Proximal<f64>, rho: f64, v: &[f64], feasible: &dyn Fn(&mut [f64])) {
    let x = prox(map, rho, v);
    let merit = |x: &[f64]| {
        map.value(x).unwrap() + 0.5 * rho * x.iter().zip(v).map(|(x, v)| (x - v) * (x - v)).sum::<f64>()
    };
    let (best, mut rng) = (merit(&x), TestRng::new(5));
    for size in [1.0, 0.1, 1e-3] {
        for _ in 0..200 {
            let mut y: Vec<f64> = x.iter().map(|x| x + size * rng.normal()).collect();
            feasible(&mut y);
            assert!(merit(&y) >= best - 1e-12 * (1.0 + best.abs()), "{map:?}: {} below {best}", merit(&y));
        }
    }
}

#[test]
fn huber_minimises_and_its_vjp_is_the_derivative_inside_and_beyond() {
    let make = |p: &[f64]| -> Box<dyn Proximal<f64>> {
        Box::new(Huber { weight: p[0], delta: p[1], centre: p[2..].to_vec() })
    };
    let (params, v) = ([1.3, 0.4, 0.1, -0.2, 0.3, 0.0], [0.2, 2.0, -3.0, 0.5]);
    check_minimum(make(&params).as_ref(), 0.7, &v, &|_| {});
    check_vjp("huber", &make, &params, 0.7, &v);
}

#[test]
fn balls_project_and_their_vjps_are_the_derivatives_inside_and_outside() {
    let centre = [0.5, -0.1, 0.2, 0.0];
    for norm in [Norm::L1, Norm::L2, Norm::LInf] {
        let make = move |p: &[f64]| -> Box<dyn Proximal<f64>> {
            Box::new(Ball { norm, radius: p[0], centre: p[1..].to_vec() })
        };
        let params: Vec<f64> = [0.8].iter().chain(&centre).copied().collect();
        for v in [[1.4, -2.0, 0.25, 0.6], [0.6, -0.1, 0.3, 0.1]] {
            check_vjp(&format!("{norm:?}"), &make, &params, 2.0, &v);
            let length = |y: &[f64]| {
                let gaps = y.iter().zip(&centre).map(|(y, c)| (y - c).abs());
                match norm {
                    Norm::L1 => gaps.sum::<f64>(),
                    Norm::L2 => gaps.map(|g| g * g).sum::<f64>().sqrt(),
                    Norm::LInf => gaps.fold(0.0, f64::max),
                }
            };
            let x = prox(make(&params).as_ref(), 2.0, &v);
            assert!(length(&x) <= 0.8 + 1e-14);
            check_minimum(make(&params).as_ref(), 2.0, &v, &|y| {
                let shrink = (0.8 / length(y)).min(1.0);
                y.iter_mut().zip(&centre).for_each(|(y, c)| *y = c + shrink * (*y - c));
            });
        }
    }
}

#[test]
fn the_simplex_projects_and_its_vjp_is_the_derivative() {
    let make = |p: &[f64]| -> Box<dyn Proximal<f64>> { Box::new(Simplex { dim: 5, total: p[0] }) };
    let v = [0.7, -0.4, 0.5, 0.45, 0.1];
    let x = prox(make(&[1.0]).as_ref(), 1.0, &v);
    assert!((x.iter().sum::<f64>() - 1.0).abs() < 1e-15 && x.iter().all(|x| *x >= 0.0));
    check_minimum(make(&[1.0]).as_ref(), 1.0, &v, &|y| {
        y.iter_mut().for_each(|y| *y = y.abs());
        let sum: f64 = y.iter().sum();
        y.iter_mut().for_each(|y| *y /= sum);
    });
    check_vjp("simplex", &make, &[1.0], 1.0, &v);
}

#[test]
fn the_second_order_cone_projects_and_its_vjp_is_the_derivative_on_every_piece() {
    let make = |_: &[f64]| -> Box<dyn Proximal<f64>> { Box::new(SecondOrderCone { dim: 4 }) };
    for v in [[2.0, 0.5, -0.3, 0.1], [0.4, 1.0, -2.0, 0.5], [-0.3, 1.0, -2.0, 0.5], [-5.0, 0.5, 0.2, 0.1]] {
        check_vjp("second-order cone", &make, &[], 1.0, &v);
        check_minimum(make(&[]).as_ref(), 1.0, &v, &|y| {
            y[0] = y[0].max(y[1..].iter().map(|y| y * y).sum::<f64>().sqrt());
        });
    }
}

fn logistic(p: &[f64]) -> Logistic<f64> {
    Logistic { dim: 3, weight: p[0], l2: p[1], labels: p[2..7].to_vec(), features: p[7..].to_vec() }
}

fn logistic_params() -> Vec<f64> {
    let mut rng = TestRng::new(3);
    let labels = [1.0, -1.0, 1.0, 1.0, -1.0];
    [0.7, 0.1].into_iter().chain(labels).chain(rng.normals(15)).collect()
}

#[test]
fn the_logistic_loss_is_minimised_and_its_vjp_is_the_derivative() {
    let make = |p: &[f64]| -> Box<dyn Proximal<f64>> { Box::new(logistic(p)) };
    let (params, v) = (logistic_params(), [0.4, -1.0, 2.0]);
    check_minimum(&logistic(&params), 0.5, &v, &|_| {});
    check_vjp("logistic", &make, &params, 0.5, &v);
}

#[test]
fn the_logistic_prox_converges_far_from_the_solution() {
    let loss = Logistic { l2: 0.0, weight: 1e3, ..logistic(&logistic_params()) };
    for far in [1e3, -1e6] {
        check_minimum(&loss, 1e-3, &[far, -far, far], &|_| {});
    }
}

#[test]
fn invalid_parameters_are_errors() {
    let refused: [Box<dyn Proximal<f64>>; 7] = [
        Box::new(Huber { weight: 0.0, delta: 1.0, centre: vec![0.0] }),
        Box::new(Huber { weight: 1.0, delta: f64::NAN, centre: vec![0.0] }),
        Box::new(Ball { norm: Norm::L2, radius: -1.0, centre: vec![0.0] }),
        Box::new(Ball { norm: Norm::L2, radius: 1.0, centre: vec![f64::INFINITY] }),
        Box::new(Simplex { dim: 0, total: 1.0 }),
        Box::new(SecondOrderCone { dim: 0 }),
        Box::new(Logistic { labels: vec![1.0], ..logistic(&logistic_params()) }),
    ];
    for map in refused {
        assert!(map.validate().is_err(), "{map:?}");
    }
}

/// Only the two methods that are required.
#[derive(Debug)]
struct Keep;

impl Proximal<f64> for Keep {
    fn dim(&self) -> usize {
        1
    }

    fn prox(&self, _rho: f64, v: &[f64], x: &mut [f64], _scratch: &mut [f64]) -> Result<()> {
        x.copy_from_slice(v);
        Ok(())
    }
}

#[test]
fn a_map_without_value_or_vjp_solves_and_names_the_agent_in_errors() {
    let maps: [Arc<dyn Proximal<f64>>; 2] = [Arc::new(Simplex { dim: 1, total: 2.0 }), Arc::new(Keep)];
    let (objective, offsets, rho) = (Objective::Own(&maps), [0, 1, 2], Penalty::Scalar(1.0));
    objective.validate(&offsets).unwrap();
    let (mut x, mut scratch) = ([0.0; 2], vec![0.0; objective.scratch_len(&offsets)]);
    objective.prepare(&offsets, &rho, &mut scratch).unwrap();
    objective.prox(&offsets, &rho, &[5.0, 3.0], &mut x, &mut scratch).unwrap();
    assert_eq!(x, [2.0, 3.0]);
    let error = objective.value(&offsets, &x).unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.place().contains("agent 1"), "{error}");
    let (mut d_v, mut d_rho, mut none) = ([0.0; 2], [0.0], ObjectiveGrad::None);
    let error = objective
        .vjp(&offsets, &rho, &[5.0, 3.0], &x, &[1.0; 2], &mut d_v, &mut d_rho, &mut none, &mut scratch)
        .unwrap_err();
    assert!(error.place().starts_with("agent 1") && error.hint_text().is_some(), "{error}");
}

#[test]
fn maps_of_the_wrong_number_or_size_are_errors() {
    let maps: [Arc<dyn Proximal<f64>>; 1] = [Arc::new(Keep)];
    assert_eq!(Objective::Own(&maps).validate(&[0, 2]).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(Objective::Own(&maps).validate(&[0, 1, 2]).unwrap_err().kind(), ErrorKind::Shape);
}
