//! Products in bf16: how far loss and gradient are from those of f32, and where bf16 is refused.

mod common;

use common::{Case, Small};
use sheaf_admm::{ErrorKind, Precision};
use sheaf_learn::config::PrecisionKind;
use sheaf_learn::model::{Batch, Horizon};
use sheaf_learn::task::Experiment;
use sheaf_tasks::baselines::cnn::experiment::CnnExperiment;
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;

const BF16: &str = "train.precision=bf16";

/// Loss and gradient at the initial parameters.
fn gradient<K: Small>(keys: &[&str]) -> (f64, Vec<f64>) {
    let case = Case::<K>::new(keys, 8);
    let params: Vec<f32> = case.noisy(4).iter().map(|&p| p as f32).collect();
    let mut grad = vec![0f32; params.len()];
    let loss = case.run(&mut Batch::default(), &params, Horizon::whole(6, 2), &mut grad).loss;
    (loss, grad.into_iter().map(f64::from).collect())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// An operand is off by at most 2⁻⁹ of itself. The gradient is one of the products that ran, so it points where that of
/// f32 points, up to errors of this size; a reverse pass that belonged to another forward pass would not.
fn near_f32<K: Small>(keys: &[&str]) {
    let (full, half) = (gradient::<K>(keys), gradient::<K>(&[keys, &[BF16]].concat()));
    let name = format!("{} {keys:?}", K::NAME);
    assert_ne!(full, half, "{name}: bf16 did not reach the products");
    let norms = (dot(&full.1, &full.1).sqrt(), dot(&half.1, &half.1).sqrt());
    let cosine = dot(&full.1, &half.1) / (norms.0 * norms.1);
    assert!((full.0 - half.0).abs() < 0.01 * full.0, "{name}: loss {} and {}", full.0, half.0);
    assert!((norms.0 - norms.1).abs() < 0.05 * norms.0, "{name}: norms {norms:?}");
    assert!(cosine > 0.995, "{name}: cosine {cosine}");
}

#[test]
fn loss_and_gradient_are_those_of_f32_up_to_the_rounding_of_operands() {
    near_f32::<Maze>(&[]);
    near_f32::<Mnist>(&[]);
    near_f32::<Sudoku>(&[]);
    near_f32::<Sudoku>(&["model.maps=low-rank", "model.d_e=3"]);
    near_f32::<Sudoku>(&["model.maps=orthonormal"]);
}

#[test]
fn f32_is_the_default_and_setting_it_changes_no_bit() {
    assert_eq!(Experiment::<Sudoku>::default().train.precision, PrecisionKind::F32);
    assert_eq!(gradient::<Sudoku>(&[]), gradient::<Sudoku>(&["train.precision=f32"]));
}

#[test]
fn a_model_with_bf16_products_refuses_f64() {
    let case = Case::<Sudoku>::new(&[BF16], 2);
    assert_eq!(case.model.precision(), Precision::Bf16);
    let (params, mut grad) = (case.noisy(1), vec![0.0; case.model.layout().len()]);
    let samples = case.samples(&case.set);
    let mut batch = Batch::<f64, _, _>::default();
    let horizon = Horizon::whole(2, 1);
    let error = batch
        .loss_and_grad(&case.model, &params, &case.board.sheaf, &samples, horizon, &mut grad)
        .expect_err("f64 has no bf16 products");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("f64") && error.to_string().contains("hint:"), "{error}");
}

#[test]
fn bf16_is_refused_where_the_solver_promises_more_digits() {
    for keys in [
        &[BF16, "model.cg_tolerance=1e-4"][..],
        &[BF16, "model.consensus=exact"],
        &[BF16, "iterations.adjoint=implicit"],
    ] {
        let error = common::experiment::<Maze>(keys).check().expect_err("too few digits");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{keys:?}: {error}");
        assert!(error.place() == "train.precision" && error.to_string().contains("hint:"), "{error}");
    }
    let mut cnn = CnnExperiment::default();
    cnn.train.precision = PrecisionKind::Bf16;
    assert_eq!(cnn.check().expect_err("no such products").kind(), ErrorKind::Unsupported);
}
