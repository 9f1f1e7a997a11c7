use sheaf_admm::x_update::{Objective, ObjectiveGrad, Tether, TetherGrad};

use crate::support::{Family, Setup, normals, offsets};

/// Parameters: β, h.
struct Pull;

impl Family for Pull {
    fn objective<'a>(&'a self, params: &'a [Vec<f64>]) -> Objective<'a, f64> {
        Objective::Tether(Tether { beta: params[0][0], anchor: &params[1] })
    }
    fn grad<'a>(&'a self, grads: &'a mut [Vec<f64>]) -> ObjectiveGrad<'a, f64> {
        let [beta, anchor] = grads else { panic!("two parameters") };
        ObjectiveGrad::Tether(TetherGrad { beta: Some(&mut beta[0]), anchor: Some(anchor) })
    }
}

fn setup(rho: Vec<f64>) -> Setup<Pull> {
    let params = vec![vec![0.8], normals(1, "anchor", 9)];
    Setup { family: Pull, offsets: offsets(&[2, 4, 3]), rho, v: normals(2, "v", 9), params }
}

#[test]
fn the_tether_balances_anchor_and_target() {
    let setup = setup(vec![0.5, 2.0, 1.1]);
    let x = setup.x();
    for (agent, &rho) in setup.rho.iter().enumerate() {
        for i in setup.offsets[agent]..setup.offsets[agent + 1] {
            let slope = 0.8 * (x[i] - setup.params[1][i]) + rho * (x[i] - setup.v[i]);
            assert!(slope.abs() < 1e-14, "agent {agent}: gradient {slope} at the minimum");
        }
    }
}

#[test]
fn the_tether_vjp_matches_finite_differences() {
    setup(vec![0.7]).check_vjp();
    setup(vec![0.5, 2.0, 1.1]).check_vjp();
}
