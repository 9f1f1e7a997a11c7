//! The maze model against arrays from the authors' code: encoder, iterates, logits, loss, every gradient.
#![cfg(feature = "goldens")]

use sheaf_admm::Real;
use sheaf_admm::admm::{Adjoint, Mode, Options, Trace};
use sheaf_tasks::maze::metrics::{argmax, reassemble};
use sheaf_tasks::maze::model::{Batch, Horizon, MazeConfig, MazeModel, Sample};
use sheaf_tasks::maze::{CLASSES, views::ViewGrid};
use sheaf_testkit::golden::{Array, Golden, assert_close_max, assert_grad, assert_iterates};

const K: usize = 8;
const SAMPLES: usize = 2;

fn model() -> MazeModel {
    MazeModel::new(MazeConfig::default()).unwrap()
}

fn params<T: Real>(model: &MazeModel, golden: &Golden, prefix: &str) -> Vec<T> {
    let mut params = vec![T::ZERO; model.layout().len()];
    for entry in model.layout().entries() {
        let theirs = model.authors_name(&entry.name).unwrap();
        let array = golden.f64(&format!("{prefix}{theirs}"));
        assert_eq!(array.data.len(), entry.range.len(), "{theirs}");
        for (to, from) in params[entry.range.clone()].iter_mut().zip(&array.data) {
            *to = T::from_f64(*from);
        }
    }
    params
}

fn bytes(array: &Array<i32>) -> Vec<u8> {
    array.data.iter().map(|&t| t as u8).collect()
}

/// [agents, samples, d] of one sample.
fn of_sample(array: &Array<f64>, axis: usize, sample: usize) -> Vec<f64> {
    array.select(axis, sample).data
}

fn check_values<T: Real>() {
    let model = model();
    let params: Vec<T> = params(&model, &Golden::open("maze_sheaf", "params.safetensors"), "param/");
    let inputs = Golden::open("maze_sheaf", "inputs.safetensors");
    let encoder = Golden::open("maze_sheaf", "encoder.safetensors");
    let trace = Golden::open("maze_sheaf", "trace.safetensors");
    let board = model.board(19, 19).unwrap();
    let (agents, n) = (board.sheaf.agents(), board.sheaf.state_len());
    let mut batch = Batch::<T>::default();
    batch.encode(&model, &params, &board, &bytes(&inputs.i32("tokens"))).unwrap();
    let z_update = model.z_update();
    let mut sample = Sample::<T>::default();
    let rho: f64 = encoder.f64("rho").scalar();
    assert!((model.rho(&params).0.to_f64() - rho).abs() < 1e-6);
    for s in 0..SAMPLES {
        let index = &batch.views().index()[s * agents..][..agents];
        let tables = batch.tables();
        let of_views = |table: &[T]| -> Vec<f64> {
            index.iter().flat_map(|&v| table[v as usize * 10..][..10].iter().map(|x| x.to_f64())).collect()
        };
        let t = &tables.views;
        for (name, table) in
            [("h", &t.h), ("q", &t.q), ("q_diag", &t.diag), ("l1_weight", &t.l1), ("upper", &t.hi)]
        {
            let want = of_sample(&encoder.f64(&format!("enc/{name}")), 1, s);
            assert_close_max(name, &of_views(table), &want, 1e-5);
        }
        let mut seen = Trace::default();
        let options = Options::fixed(K);
        model
            .solve(&params, &board, tables, index, &z_update, &options, Mode::Solve, &mut sample, &mut seen)
            .unwrap();
        let f64s = |v: &[T]| -> Vec<f64> { v.iter().map(|x| x.to_f64()).collect() };
        for (name, got) in [("x", &seen.x), ("z", &seen.z), ("y", &seen.u)] {
            assert_iterates(name, &f64s(got), &of_sample(&trace.f64(name), 2, s), K);
        }
        for (name, got) in [("primal_res", &seen.primal), ("dual_res", &seen.dual)] {
            assert_iterates(name, &f64s(got), &of_sample(&trace.f64(name), 2, s), K);
        }
        assert_iterates(
            "consistency",
            &f64s(&seen.edge_rms),
            &of_sample(&trace.f64("consistency_rms"), 1, s),
            K,
        );
        for k in 0..K {
            model.decode_states(&params, tables, index, &seen.x[k * n..][..n], &mut sample);
            let want = trace.f64("logits_per_iter").select(0, k).select(1, s);
            assert_close_max("logits", &f64s(sample.logits(agents)), &want.data, 2e-4);
        }
        let grid = ViewGrid::maze(19, 19).unwrap();
        let mut picture = vec![T::ZERO; 361 * CLASSES];
        reassemble(&grid, sample.logits(agents), &mut picture);
        let mut predicted = vec![0u8; 361];
        argmax(&picture, &mut predicted);
        assert_eq!(predicted, bytes(&trace.i32("pred").select(0, s)), "prediction of maze {s}");
    }
}

fn check_gradients<T: Real>() {
    let model = model();
    let params: Vec<T> = params(&model, &Golden::open("maze_sheaf", "params.safetensors"), "param/");
    let inputs = Golden::open("maze_sheaf", "inputs.safetensors");
    let want = Golden::open("maze_sheaf", "loss_grads.safetensors");
    let board = model.board(19, 19).unwrap();
    let mut grad = vec![T::ZERO; params.len()];
    let loss = Batch::<T>::default()
        .loss_and_grad(
            &model,
            &params,
            &board,
            &bytes(&inputs.i32("tokens")),
            &bytes(&inputs.i32("labels")),
            Horizon { iterations: K, window: 4 },
            Adjoint::Unrolled,
            &mut grad,
        )
        .unwrap();
    let want_loss: f64 = want.f64("loss").scalar();
    assert!((loss.loss - want_loss).abs() <= 1e-5 * want_loss, "loss {} against {want_loss}", loss.loss);
    let largest = want.largest_grad_norm();
    for entry in model.layout().entries() {
        let theirs = model.authors_name(&entry.name).unwrap();
        let got: Vec<f64> = grad[entry.range.clone()].iter().map(|g| g.to_f64()).collect();
        assert_grad(&theirs, &got, &want.f64(&format!("grad/{theirs}")).data, largest);
    }
}

#[test]
fn encoder_iterates_and_logits_agree_in_single_precision() {
    check_values::<f32>();
}

#[test]
fn encoder_iterates_and_logits_agree_in_double_precision() {
    check_values::<f64>();
}

#[test]
fn loss_and_every_gradient_agree_in_single_precision() {
    check_gradients::<f32>();
}

#[test]
fn loss_and_every_gradient_agree_in_double_precision() {
    check_gradients::<f64>();
}
