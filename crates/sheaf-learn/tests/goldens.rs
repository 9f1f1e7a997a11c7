//! The arrays of the authors' code: a small model in 33 variants, and the dense quadratic.
#![cfg(feature = "goldens")]

mod golden_model;

use golden_model::{Config, Model, Named, Run, by_sample, cast};
use sheaf_admm::Real;
use sheaf_admm::admm::Trace;
use sheaf_testkit::golden::{ENCODER, LOGITS, LOSS, iterate_tolerance};
use sheaf_testkit::{Golden, assert_close_max, assert_grad, assert_iterates};

fn to_f64<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}

/// One sample of an array `[K, agent, sample, …]` or `[K, sample]`.
fn of_sample(golden: &Golden, name: &str, sample: usize) -> Vec<f64> {
    let array = golden.f64(name);
    array.select(if array.shape.len() > 2 { 2 } else { 1 }, sample).data
}

/// Residuals are small differences of large states and shrink from iteration to iteration, so their error is measured
/// relative to the largest over all iterations, as the tolerances are stated.
fn assert_residuals(case: &str, golden: &Golden, name: &str, sample: usize, got: &[f64], iterations: usize) {
    let (all, want) = (golden.f64(name), of_sample(golden, name, sample));
    let largest = all.data.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    assert_eq!(got.len(), want.len(), "{case}: {name}");
    let len = want.len();
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        let tolerance = iterate_tolerance(i * iterations / len, iterations);
        let error = (got - want).abs() / largest;
        assert!(
            error <= tolerance,
            "{case}: {name}[{i}], sample {sample}: off by {error:.2e} of {largest:.3e}"
        );
    }
}

fn assert_traces<T: Real>(case: &str, golden: &Golden, iterations: usize, traces: &[Trace<T>]) {
    for (sample, trace) in traces.iter().enumerate() {
        for (name, got) in [("x", &trace.x), ("z", &trace.z), ("y", &trace.u)] {
            let want = of_sample(golden, name, sample);
            assert_iterates(&format!("{case}: {name}, sample {sample}"), &to_f64(got), &want, iterations);
        }
        let parts =
            [("primal_res", &trace.primal), ("dual_res", &trace.dual), ("consistency_rms", &trace.edge_rms)];
        for (name, got) in parts {
            assert_residuals(case, golden, name, sample, &to_f64(got), iterations);
        }
    }
}

fn assert_run<T: Real>(case: &str, golden: &Golden, model: &Model, iterations: usize, run: &Run<T>) {
    for (name, got) in &run.encoded {
        let array = golden.f64(&format!("enc/{name}"));
        let want = if array.shape.len() > 1 { by_sample(&array) } else { array.data };
        assert_close_max(&format!("{case}: {name}"), &to_f64(got), &want, ENCODER);
    }
    assert_eq!(to_f64(&run.base_maps), golden.f64("base_maps").data, "{case}: base maps");
    assert_close_max(&format!("{case}: rho"), &[run.rho.to_f64()], &golden.f64("rho").data, ENCODER);
    if golden.has("eta") {
        assert_close_max(&format!("{case}: eta"), &[run.eta.to_f64()], &golden.f64("eta").data, ENCODER);
    }
    assert_traces(case, golden, iterations, &run.traces);
    for (sample, logits) in run.logits.iter().enumerate() {
        let want = of_sample(golden, "logits_per_iter", sample);
        assert_close_max(&format!("{case}: logits, sample {sample}"), &to_f64(logits), &want, LOGITS);
    }
    for (sample, (image, tokens)) in run.images.iter().enumerate() {
        let want = golden.f64("reassembled").select(0, sample).data;
        assert_close_max(&format!("{case}: image, sample {sample}"), &to_f64(image), &want, LOGITS);
        assert_eq!(*tokens, golden.i32("pred").select(0, sample).data, "{case}: prediction, sample {sample}");
    }
    assert_close_max(&format!("{case}: loss"), &[run.loss.to_f64()], &golden.f64("loss").data, LOSS);
    let largest = golden.largest_grad_norm();
    for entry in model.layout.entries() {
        let got = to_f64(&run.grad[entry.range.clone()]);
        let want = golden.f64(&format!("grad/{}", entry.name)).data;
        assert_grad(&format!("{case}: {}", entry.name), &got, &want, largest);
    }
}

struct Case {
    name: String,
    golden: Golden,
    model: Model,
    iterations: usize,
    low_rank: bool,
}

/// Every case that the manifest lists.
fn cases() -> Vec<Case> {
    let manifest = Golden::manifest("solver_matrix");
    let cases = manifest["cases"].as_object().expect("the manifest lists its cases");
    assert_eq!(cases.len(), 33, "the solver matrix has 33 cases");
    let inputs = Golden::open("solver_matrix", "inputs");
    let build = |(name, case): (&String, &serde_json::Value)| {
        let config = Config::new(case);
        let (iterations, low_rank) = (config.iterations(), config.text("rm_mode") == "context");
        let model = Model::new(config, &inputs);
        Case { name: name.clone(), golden: Golden::open("solver_matrix", name), model, iterations, low_rank }
    };
    cases.iter().map(build).collect()
}

fn views<T: Real>() -> Vec<T> {
    cast(&by_sample(&Golden::open("solver_matrix", "inputs").f64("patches")))
}

/// The solver alone, on the authors' encoder outputs.
fn assert_core<T: Real>(case: &Case) {
    let golden = &case.golden;
    let of = |name: &String| {
        let array = golden.f64(name);
        let values = if array.shape.len() > 1 { by_sample(&array) } else { array.data };
        (name.trim_start_matches("enc/").to_owned(), cast::<T>(&values))
    };
    let encoded: Named<T> = golden.names().iter().filter(|name| name.starts_with("enc/")).map(of).collect();
    let scalar = |name: &str| T::from_f64(golden.f64(name).scalar());
    let eta = if golden.has("eta") { scalar("eta") } else { T::ONE };
    let traces = case.model.solve_from(&case.model.params(golden), &encoded, scalar("rho"), eta);
    assert_traces(&format!("{}, core", case.name), golden, case.iterations, &traces);
}

#[test]
fn the_solver_repeats_the_iterates_of_all_33_cases_from_their_encoder_outputs() {
    for case in cases() {
        assert_core::<f32>(&case);
        assert_core::<f64>(&case);
    }
}

fn assert_model<T: Real>(case: &Case) {
    let (params, views) = (case.model.params::<T>(&case.golden), views::<T>());
    for composed in [false, true] {
        if composed && !case.low_rank {
            continue;
        }
        let run = case.model.run(&params, &views, composed);
        let name =
            format!("{}, {}{}", case.name, size_of::<T>() * 8, if composed { ", composed" } else { "" });
        assert_run(&name, &case.golden, &case.model, case.iterations, &run);
    }
}

#[test]
fn the_model_repeats_values_loss_and_gradients_of_all_33_cases() {
    for case in cases() {
        assert_model::<f32>(&case);
        assert_model::<f64>(&case);
    }
}
