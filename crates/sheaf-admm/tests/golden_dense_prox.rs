//! The dense x-update against the reference solver: every x-iterate follows from the z and u before it.
#![cfg(feature = "goldens")]

use sheaf_admm::x_update::{Dense, Objective, Penalty};
use sheaf_testkit::{Golden, assert_close_max};

#[test]
fn every_dense_iterate_follows_from_the_state_before_it() {
    let golden = Golden::open("dense_quadratic", "all");
    let rho = Penalty::Scalar(golden.f32("rho").scalar());
    for sample in 0..2 {
        let quad = golden.f32("Q").select(1, sample);
        let q = golden.f32("q").select(1, sample);
        let (agents, d) = (q.shape[0], q.shape[1]);
        let offsets: Vec<usize> = (0..=agents).map(|i| i * d).collect();
        let objective = Objective::Dense(Dense { quad: &quad.data, q: &q.data });
        objective.validate(&offsets).unwrap();
        let mut scratch = vec![0.0f32; objective.scratch_len(&offsets)];
        objective.prepare(&offsets, &rho, &mut scratch).unwrap();

        let [xs, zs, us] = ["x", "z", "y"].map(|name| golden.f32(name).select(2, sample));
        let mut v = golden.f32("z_init").select(1, sample).data;
        for k in 0..xs.shape[0] {
            let mut x = vec![0.0f32; agents * d];
            objective.prox(&offsets, &rho, &v, &mut x, &mut scratch).unwrap();
            let at = k * agents * d..(k + 1) * agents * d;
            assert_close_max(&format!("sample {sample}, x of iteration {k}"), &x, &xs.data[at.clone()], 2e-5);
            v = zs.data[at.clone()].iter().zip(&us.data[at]).map(|(z, u)| z - u).collect();
        }
    }
}
