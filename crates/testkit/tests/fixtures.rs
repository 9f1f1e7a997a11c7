//! Two independent references agree: the Python script that made the fixtures, and the dense sheaf here.

use std::path::Path;

use sheaf_testkit::{Array, DenseEdge, DenseSheaf, Golden, assert_close_max};

fn fixture(name: &str) -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sheaf-admm/tests/fixtures");
    Golden::read(&path.join(format!("{name}.safetensors")))
}

fn sizes(array: Array<i32>) -> Vec<usize> {
    array.data.iter().map(|&size| size as usize).collect()
}

/// The sheaf of a fixture with a map per edge end, or with maps shared by slot.
fn sheaf(golden: &Golden) -> DenseSheaf {
    let stalks = sizes(golden.i32("stalks"));
    let (ends, slots) = (golden.i32("edges"), golden.i32("slots"));
    let mut taken = [0, 0];
    let edges = sizes(golden.i32("edge_stalks")).into_iter().enumerate().map(|(e, d_e)| {
        let mut map = |side: usize, agent: usize| {
            let len = d_e * stalks[agent];
            let (array, start) = if golden.has("in/maps") {
                (golden.f64("in/maps"), slots.data[2 * e + side] as usize * len)
            } else {
                taken[side] += len;
                (golden.f64(["in/maps_u", "in/maps_v"][side]), taken[side] - len)
            };
            array.data[start..start + len].to_vec()
        };
        let (u, v) = (ends.data[2 * e] as usize, ends.data[2 * e + 1] as usize);
        DenseEdge { u, v, map_u: map(0, u), map_v: map(1, v) }
    });
    let edges = edges.collect();
    DenseSheaf::new(&stalks, edges)
}

/// Recomputes every z of a run from the stored x and u, with over-relaxation 1.6.
fn assert_consensus(name: &str, consensus: impl Fn(&Golden, &DenseSheaf, &[f64]) -> Vec<f64>) {
    let golden = fixture(name);
    let sheaf = sheaf(&golden);
    let (x, z, u) = (golden.f64("x"), golden.f64("z"), golden.f64("u"));
    let mut z_prev = golden.f64("in/z_start").data;
    let mut u_prev = vec![0.0; sheaf.state_len()];
    for k in 0..x.shape[0] {
        let x = x.select(0, k).data;
        let w: Vec<f64> = (0..x.len()).map(|i| 1.6 * x[i] - 0.6 * z_prev[i] + u_prev[i]).collect();
        z_prev = z.select(0, k).data;
        u_prev = u.select(0, k).data;
        assert_close_max(&format!("{name}: z {k}"), &consensus(&golden, &sheaf, &w), &z_prev, 1e-11);
        let step: Vec<f64> = (0..x.len()).map(|i| w[i] - z_prev[i]).collect();
        assert_close_max(&format!("{name}: u {k}"), &step, &u_prev, 1e-12);
    }
}

fn soft(golden: &Golden, sheaf: &DenseSheaf, w: &[f64]) -> Vec<f64> {
    sheaf.soft(w, golden.f64("in/gamma").scalar(), golden.f64("in/rho").scalar())
}

#[test]
fn soft_consensus_of_both_references_agrees() {
    assert_consensus("grid_shared_tether_exact_soft", soft);
    assert_consensus("irregular_edgewise_diagonal_exact_soft", soft);
}

#[test]
fn projection_of_both_references_agrees() {
    assert_consensus("grid_shared_dense_exact_hard", |_, sheaf, w| sheaf.project(w));
    assert_consensus("irregular_edgewise_dense_exact_hard", |_, sheaf, w| sheaf.project(w));
}
