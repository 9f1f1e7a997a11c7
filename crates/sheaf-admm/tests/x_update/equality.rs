use sheaf_admm::x_update::{Curvature, Equality, EqualityGrad, Objective, ObjectiveGrad};

use crate::support::{Family, Setup, dot, normals, offsets, psd_blocks, symmetrise, uniforms};

const DIMS: [usize; 4] = [3, 4, 6, 2];
const ROWS: [usize; 4] = [1, 0, 3, 2];

/// Parameters: Q, q, A, b.
struct Constrained {
    dense: bool,
}

impl Family for Constrained {
    fn objective<'a>(&'a self, params: &'a [Vec<f64>]) -> Objective<'a, f64> {
        let quad = if self.dense { Curvature::Dense(&params[0]) } else { Curvature::Diagonal(&params[0]) };
        Objective::Equality(Equality { quad, q: &params[1], rows: &ROWS, a: &params[2], b: &params[3] })
    }
    fn grad<'a>(&'a self, grads: &'a mut [Vec<f64>]) -> ObjectiveGrad<'a, f64> {
        let [quad, q, a, b] = grads else { panic!("four parameters") };
        ObjectiveGrad::Equality(EqualityGrad { quad: Some(quad), q: Some(q), a: Some(a), b: Some(b) })
    }
    fn direction(&self, k: usize, direction: &mut [f64]) {
        if k == 0 && self.dense {
            symmetrise(&DIMS, direction);
        }
    }
}

fn setup(rho: Vec<f64>, dense: bool) -> Setup<Constrained> {
    let n = DIMS.iter().sum();
    let quad = if dense { psd_blocks(1, &DIMS) } else { uniforms(1, "diag", n, 0.1, 2.0) };
    let entries = DIMS.iter().zip(ROWS).map(|(d, m)| d * m).sum();
    let params = vec![quad, normals(2, "q", n), normals(3, "a", entries), normals(4, "b", ROWS.iter().sum())];
    Setup { family: Constrained { dense }, offsets: offsets(&DIMS), rho, v: normals(5, "v", n), params }
}

#[test]
fn the_equalities_hold_and_the_slope_is_normal_to_them() {
    let setup = setup(vec![0.7, 1.3, 0.4, 2.0], true);
    let (x, p) = (setup.x(), &setup.params);
    let (mut quad_at, mut a_at, mut b_at) = (0, 0, 0);
    for (agent, (&d, m)) in DIMS.iter().zip(ROWS).enumerate() {
        let first = setup.offsets[agent];
        let own = &x[first..first + d];
        let rows: Vec<&[f64]> = (0..m).map(|k| &p[2][a_at + k * d..][..d]).collect();
        for (k, row) in rows.iter().enumerate() {
            assert!((dot(row, own) - p[3][b_at + k]).abs() < 1e-12, "agent {agent}, equality {k}");
        }
        let mut slope: Vec<f64> = (0..d)
            .map(|i| {
                let pull = setup.rho[agent] * (own[i] - setup.v[first + i]);
                dot(&p[0][quad_at + i * d..][..d], own) + p[1][first + i] + pull
            })
            .collect();
        // Remove the component in the span of the rows from the slope (Gram–Schmidt); nothing may remain.
        let mut basis: Vec<Vec<f64>> = Vec::new();
        for row in rows {
            let mut e = row.to_vec();
            basis.iter().for_each(|b| remove(&mut e, b));
            let norm = dot(&e, &e).sqrt();
            e.iter_mut().for_each(|e| *e /= norm);
            basis.push(e);
        }
        basis.iter().for_each(|b| remove(&mut slope, b));
        assert!(dot(&slope, &slope).sqrt() < 1e-11, "agent {agent}: {slope:?}");
        (quad_at, a_at, b_at) = (quad_at + d * d, a_at + m * d, b_at + m);
    }
}

fn remove(from: &mut [f64], unit: &[f64]) {
    let along = dot(from, unit);
    from.iter_mut().zip(unit).for_each(|(f, u)| *f -= along * u);
}

#[test]
fn the_equality_vjp_matches_finite_differences() {
    for dense in [false, true] {
        setup(vec![0.7], dense).check_vjp();
        setup(vec![0.7, 1.3, 0.4, 2.0], dense).check_vjp();
    }
}
