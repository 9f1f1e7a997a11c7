//! The dense reference agrees with results derived by hand.

use sheaf_testkit::dense::kernel_projector;
use sheaf_testkit::{DenseEdge, DenseSheaf, Matrix, TestRng, assert_close_max};

/// Three agents with stalks 2, 3 and 1, two edges with stalks 2 and 1.
fn uneven() -> DenseSheaf {
    let mut rng = TestRng::new(9);
    let edges = vec![
        DenseEdge { u: 0, v: 1, map_u: rng.normals(4), map_v: rng.normals(6) },
        DenseEdge { u: 2, v: 1, map_u: rng.normals(1), map_v: rng.normals(3) },
    ];
    DenseSheaf::new(&[2, 3, 1], edges)
}

#[test]
fn elimination_solves_a_system_that_needs_pivoting() {
    let matrix = Matrix::from_rows(3, 3, &[0.0, 2.0, 1.0, 1.0, 0.0, 0.0, 3.0, 0.0, 1.0]);
    let x = [1.5, -2.0, 0.25];
    assert_close_max("x", &matrix.solve(&matrix.mul_vec(&x)), &x, 1e-14);
}

#[test]
#[should_panic(expected = "singular")]
fn elimination_refuses_a_singular_matrix() {
    Matrix::from_rows(2, 2, &[1.0, 2.0, 2.0, 4.0]).solve(&[1.0, 1.0]);
}

#[test]
fn eigenvectors_rebuild_a_random_symmetric_matrix() {
    let n = 8;
    let root = Matrix::from_rows(n, n, &TestRng::new(2).normals(n * n));
    let matrix = Matrix::from_fn(n, n, |i, j| root.get(i, j) + root.get(j, i));
    let (values, vectors) = matrix.symmetric_eigen();
    let diagonal = Matrix::from_fn(n, n, |i, j| if i == j { values[i] } else { 0.0 });
    let rebuilt = vectors.mul(&diagonal).mul(&vectors.transpose());
    assert_close_max("V Λ Vᵀ", rebuilt.as_slice(), matrix.as_slice(), 1e-13);
    let identity = vectors.mul(&vectors.transpose());
    assert_close_max("V Vᵀ", identity.as_slice(), Matrix::identity(n).as_slice(), 1e-13);
}

#[test]
fn the_coboundary_of_one_edge_is_the_difference_of_the_mapped_states() {
    let sheaf = uneven();
    let z = TestRng::new(5).normals(6);
    let edge = &sheaf.edges[1];
    let mapped_v: f64 = edge.map_v.iter().zip(&z[2..5]).map(|(m, z)| m * z).sum();
    let got = sheaf.coboundary().mul_vec(&z);
    assert_eq!(got.len(), 3);
    assert_close_max("residual", &got[2..], &[edge.map_u[0] * z[5] - mapped_v], 1e-14);
}

#[test]
fn with_identity_maps_consensus_is_the_mean() {
    let edge = |u, v| DenseEdge { u, v, map_u: vec![1.0], map_v: vec![1.0] };
    let sheaf = DenseSheaf::new(&[1, 1, 1], vec![edge(0, 1), edge(1, 2)]);
    let w = [1.0, 2.0, 6.0];
    assert_close_max("mean", &sheaf.project(&w), &[3.0; 3], 1e-12);
    let weighted = sheaf.project_weighted(&w, &[2.0, 1.0, 1.0]);
    assert_close_max("weighted mean", &weighted, &[2.5; 3], 1e-12);
    assert_close_max("soft tends to hard", &sheaf.soft(&w, 1e9, 1.0), &[3.0; 3], 1e-8);
}

#[test]
fn the_projector_is_idempotent_symmetric_and_lands_in_the_kernel() {
    let coboundary = uneven().coboundary();
    let projector = kernel_projector(&coboundary);
    assert_close_max("P²", projector.mul(&projector).as_slice(), projector.as_slice(), 1e-12);
    assert_close_max("Pᵀ", projector.transpose().as_slice(), projector.as_slice(), 1e-12);
    let trace: f64 = (0..6).map(|i| projector.get(i, i)).sum();
    assert!(
        (trace - 3.0).abs() < 1e-12,
        "6 coordinates under 3 independent constraints leave 3, not {trace}"
    );
    assert!(coboundary.mul(&projector).as_slice().iter().all(|x| x.abs() < 1e-12));
}

#[test]
fn the_soft_answer_makes_the_gradient_of_its_objective_vanish() {
    let sheaf = uneven();
    let mut rng = TestRng::new(6);
    let (w, rho, gamma) = (rng.normals(6), rng.ranges(6, 0.2, 2.0), 1.7);
    let z = sheaf.soft_weighted(&w, gamma, &rho);
    let pull: Vec<f64> = (0..6).map(|i| rho[i] * (w[i] - z[i])).collect();
    let push: Vec<f64> = sheaf.laplacian().mul_vec(&z).iter().map(|x| gamma * x).collect();
    assert_close_max("γ L z = ρ (w − z)", &push, &pull, 1e-12);
}
