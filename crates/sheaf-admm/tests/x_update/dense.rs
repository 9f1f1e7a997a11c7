use sheaf_admm::x_update::{Dense, DenseGrad, Objective, ObjectiveGrad};

use crate::support::{Family, Setup, dot, normals, offsets, penalty, psd_blocks, symmetrise};

const DIMS: [usize; 4] = [3, 1, 6, 20];

/// Parameters: Q, q.
struct Quadratic;

impl Family for Quadratic {
    fn objective<'a>(&'a self, params: &'a [Vec<f64>]) -> Objective<'a, f64> {
        Objective::Dense(Dense { quad: &params[0], q: &params[1] })
    }
    fn grad<'a>(&'a self, grads: &'a mut [Vec<f64>]) -> ObjectiveGrad<'a, f64> {
        let [quad, q] = grads else { panic!("two parameters") };
        ObjectiveGrad::Dense(DenseGrad { quad: Some(quad), q: Some(q) })
    }
    fn direction(&self, k: usize, direction: &mut [f64]) {
        if k == 0 {
            symmetrise(&DIMS, direction);
        }
    }
}

fn setup(rho: Vec<f64>) -> Setup<Quadratic> {
    let n = DIMS.iter().sum();
    let params = vec![psd_blocks(1, &DIMS), normals(2, "q", n)];
    Setup { family: Quadratic, offsets: offsets(&DIMS), rho, v: normals(3, "v", n), params }
}

#[test]
fn the_dense_prox_is_stationary() {
    let setup = setup(vec![0.7, 1.3, 0.4, 2.0]);
    let x = setup.x();
    let mut at = 0;
    for (agent, &d) in DIMS.iter().enumerate() {
        let first = setup.offsets[agent];
        for i in 0..d {
            let row = &setup.params[0][at + i * d..][..d];
            let pull = setup.rho[agent] * (x[first + i] - setup.v[first + i]);
            let slope = dot(row, &x[first..first + d]) + setup.params[1][first + i] + pull;
            assert!(slope.abs() < 1e-12, "agent {agent}, row {i}: {slope}");
        }
        at += d * d;
    }
}

#[test]
fn the_dense_vjp_matches_finite_differences() {
    setup(vec![0.7]).check_vjp();
    setup(vec![0.7, 1.3, 0.4, 2.0]).check_vjp();
}

#[test]
fn the_gradient_of_q_treats_every_entry_as_free() {
    let setup = setup(vec![0.7]);
    let (x, c) = (setup.x(), normals(5, "c", 30));
    let (_, _, d) = setup.vjp(&c);
    // d_q = −λ and d_Q = −λxᵀ, so that each entry of d_Q is d_q_i · x_j.
    let (mut at, mut first) = (0, 0);
    for &d_i in &DIMS {
        for i in 0..d_i {
            for j in 0..d_i {
                let expected = d[1][first + i] * x[first + j];
                assert!((d[0][at + i * d_i + j] - expected).abs() < 1e-12);
            }
        }
        (at, first) = (at + d_i * d_i, first + d_i);
    }
}

#[test]
fn the_factor_is_made_once_and_used_in_every_iteration() {
    let (setup, other) = (setup(vec![0.7]), psd_blocks(9, &DIMS));
    let objective = setup.family.objective(&setup.params);
    let rho = penalty(&setup.rho);
    let mut scratch = vec![f64::NAN; objective.scratch_len(&setup.offsets)];
    objective.prepare(&setup.offsets, &rho, &mut scratch).unwrap();
    // A different Q after the preparation changes nothing: iterations do not read it.
    let changed = Objective::Dense(Dense { quad: &other, q: &setup.params[1] });
    let mut x = vec![f64::NAN; setup.v.len()];
    for _ in 0..3 {
        changed.prox(&setup.offsets, &rho, &setup.v, &mut x, &mut scratch).unwrap();
        assert_eq!(x, setup.x());
    }
}

#[test]
fn a_semidefinite_q_is_welcome() {
    let mut setup = setup(vec![0.7]);
    setup.params[0].fill(0.0);
    // Q = 1·1ᵀ for the last agent: rank one.
    let at = setup.params[0].len() - 400;
    setup.params[0][at..].fill(1.0);
    let x = setup.x();
    let expected = setup.v[0] - setup.params[1][0] / 0.7;
    assert!((x[0] - expected).abs() < 1e-12, "with Q = 0 the answer is v − q/ρ");
}
