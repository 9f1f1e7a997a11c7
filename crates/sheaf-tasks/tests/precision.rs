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
/// The sizes of maps whose low-rank products have kernels in bf16.
const PUBLISHED_MAPS: &[&str] = &["model.d_v=32", "model.d_e=24", "model.rank=8"];

/// Loss and gradient at the initial parameters.
fn gradient<K: Small>(keys: &[&str]) -> (f64, Vec<f64>) {
    gradient_at::<K>(keys, |p| p)
}

/// The same with changed parameters.
fn gradient_at<K: Small>(keys: &[&str], change: impl Fn(f32) -> f32) -> (f64, Vec<f64>) {
    let case = Case::<K>::new(keys, 8);
    let params: Vec<f32> = case.noisy(4).iter().map(|&p| change(p as f32)).collect();
    let mut grad = vec![0f32; params.len()];
    let loss = case.run(&mut Batch::default(), &params, Horizon::whole(6, 2), &mut grad).loss;
    (loss, grad.into_iter().map(f64::from).collect())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// An operand is off by at most 2⁻⁹ of itself, so the gradient of the products that ran is near that of f32; that of
/// another forward pass would not be. How near depends on the model: undersolved hard consensus amplifies every
/// perturbation. The measure is the gradient of f32 at parameters rounded to bf16. Products round states as well, several
/// times, for which the bound allows three times the error, ten times in 1 − cosine.
fn near_f32<K: Small>(keys: &[&str]) {
    let (full, half) = (gradient::<K>(keys), gradient::<K>(&[keys, &[BF16]].concat()));
    let rounded = gradient_at::<K>(keys, |p| f32::from_bits((p.to_bits() + 0x8000) & 0xffff_0000));
    let name = format!("{} {keys:?}", K::NAME);
    assert_ne!(full, half, "{name}: bf16 did not reach the products");
    let (off, usual) = (1.0 - cosine(&full.1, &half.1), 1.0 - cosine(&full.1, &rounded.1));
    let norms = (dot(&full.1, &full.1).sqrt(), dot(&half.1, &half.1).sqrt());
    assert!((full.0 - half.0).abs() < 0.01 * full.0, "{name}: loss {} and {}", full.0, half.0);
    assert!((norms.0 - norms.1).abs() < 0.05 * norms.0, "{name}: norms {norms:?}");
    assert!(
        off < (10.0 * usual + 1e-4).min(0.05),
        "{name}: {off:e} from the direction of f32, rounded {usual:e}"
    );
}

#[test]
fn loss_and_gradient_are_those_of_f32_up_to_the_rounding_of_operands() {
    near_f32::<Maze>(&[]);
    near_f32::<Mnist>(&[]);
    near_f32::<Mnist>(PUBLISHED_MAPS);
    near_f32::<Sudoku>(&[]);
    near_f32::<Sudoku>(&["model.maps=low-rank", "model.d_e=3"]);
    near_f32::<Sudoku>(&["model.maps=orthonormal"]);
}

/// Sums of messages of the small Sudoku model are left out: rounding its parameters alone, in f32, changes the norm of its
/// gradient by 8 % and the direction by more than bf16 does.
#[test]
fn messages_have_bf16_products_too() {
    let talk = "model.coordination=message-passing";
    near_f32::<Maze>(&[talk, "model.aggregation=mean"]);
    near_f32::<Maze>(&[talk, "model.aggregation=max"]);
    near_f32::<Mnist>(&[talk, "model.aggregation=mean"]);
    near_f32::<Sudoku>(&[talk, "model.aggregation=max"]);
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
