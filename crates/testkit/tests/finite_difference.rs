//! The gradient and adjoint checks accept correct results and reject wrong ones.

use sheaf_testkit::{GradientCheck, TestRng, assert_adjoint, assert_gradient, assert_vjp};

fn wavy(p: &[f64]) -> f64 {
    p.iter().enumerate().map(|(i, x)| (x * (1.0 + i as f64)).sin() + 0.5 * x * x * x).sum()
}

fn wavy_gradient(p: &[f64]) -> Vec<f64> {
    let term = |(i, x): (usize, &f64)| {
        let c = 1.0 + i as f64;
        c * (x * c).cos() + 1.5 * x * x
    };
    p.iter().enumerate().map(term).collect()
}

#[test]
fn a_right_gradient_passes() {
    let point = TestRng::new(3).normals(7);
    assert_gradient("wavy", &mut |p| wavy(p), &point, &wavy_gradient(&point));
}

#[test]
fn a_right_gradient_passes_far_below_the_tolerance() {
    let point = TestRng::new(4).normals(7);
    let check = GradientCheck { tolerance: 1e-9, ..Default::default() };
    check.assert("wavy", &mut |p| wavy(p), &point, &wavy_gradient(&point));
}

#[test]
#[should_panic(expected = "wavy: direction 0 of 5: the gradient says")]
fn a_gradient_slightly_wrong_in_one_entry_fails() {
    let point = TestRng::new(3).normals(7);
    let mut gradient = wavy_gradient(&point);
    gradient[2] += 1e-4;
    assert_gradient("wavy", &mut |p| wavy(p), &point, &gradient);
}

#[test]
#[should_panic(expected = "relative error")]
fn a_zero_gradient_of_a_function_that_moves_fails() {
    assert_gradient("wavy", &mut |p| wavy(p), &[0.3, 0.2], &[0.0, 0.0]);
}

#[test]
fn a_zero_gradient_of_a_constant_passes_despite_rounding() {
    assert_gradient("constant", &mut |p| (p[0] + 1e3) - p[0], &[0.3], &[0.0]);
}

#[test]
#[should_panic(expected = "gradient[1] is NaN")]
fn a_nan_in_the_gradient_fails() {
    assert_gradient("wavy", &mut |p| wavy(p), &[0.3, 0.2], &[1.0, f64::NAN]);
}

#[test]
#[should_panic(expected = "relative error")]
fn a_function_that_returns_nan_fails() {
    assert_gradient("nan", &mut |_| f64::NAN, &[0.3], &[1.0]);
}

#[test]
fn a_right_vjp_passes() {
    let mut forward = |p: &[f64]| vec![p[0] * p[1], p[0].exp()];
    let point = [0.4, -1.2];
    let mut vjp = |c: &[f64]| vec![c[0] * point[1] + c[1] * point[0].exp(), c[0] * point[0]];
    assert_vjp("product and exponential", &mut forward, &point, &mut vjp);
}

#[test]
#[should_panic(expected = "relative error")]
fn a_vjp_that_forgets_a_term_fails() {
    let mut forward = |p: &[f64]| vec![p[0] * p[1], p[0].exp()];
    let point = [0.4, -1.2];
    let mut vjp = |c: &[f64]| vec![c[0] * point[1], c[0] * point[0]];
    assert_vjp("product and exponential", &mut forward, &point, &mut vjp);
}

const MATRIX: [[f64; 3]; 2] = [[1.0, -2.0, 0.5], [3.0, 0.0, 4.0]];

fn apply(v: &[f64]) -> Vec<f64> {
    MATRIX.iter().map(|row| row.iter().zip(v).map(|(a, b)| a * b).sum()).collect()
}

#[test]
fn a_transpose_passes_as_adjoint() {
    let mut transpose = |w: &[f64]| (0..3).map(|j| MATRIX[0][j] * w[0] + MATRIX[1][j] * w[1]).collect();
    assert_adjoint("matrix", &mut |v| apply(v), &mut transpose, 3, 2);
}

#[test]
#[should_panic(expected = "matrix: trial 0")]
fn a_wrong_sign_in_the_transpose_fails() {
    let mut transpose = |w: &[f64]| (0..3).map(|j| MATRIX[0][j] * w[0] - MATRIX[1][j] * w[1]).collect();
    assert_adjoint("matrix", &mut |v| apply(v), &mut transpose, 3, 2);
}
