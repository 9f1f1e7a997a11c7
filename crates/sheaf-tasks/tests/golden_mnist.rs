//! The model of pictures against arrays from the authors' code: encoder, iterates, logits, loss, every gradient.
#![cfg(feature = "goldens")]

use sheaf_admm::Real;
use sheaf_admm::admm::{Adjoint, Mode, Options, Trace};
use sheaf_tasks::mnist::metrics::vote;
use sheaf_tasks::mnist::model::{Batch, Horizon, MnistConfig, MnistModel, Sample};
use sheaf_testkit::golden::{Array, ENCODER, Golden, LOGITS, assert_close_max, assert_grad, assert_iterates};

const K: usize = 8;
const SAMPLES: usize = 2;
const CASE: &str = "mnist_sheaf";

fn model() -> MnistModel {
    MnistModel::new(MnistConfig::default()).unwrap()
}

fn params<T: Real>(model: &MnistModel) -> Vec<T> {
    let golden = Golden::open(CASE, "params");
    let mut params = vec![T::ZERO; model.layout().len()];
    assert_eq!(golden.names().len(), model.layout().entries().len());
    for entry in model.layout().entries() {
        let theirs = model.authors_name(&entry.name).unwrap();
        let array = golden.f64(&format!("param/{theirs}"));
        assert_eq!(array.shape, entry.shape, "{theirs}");
        for (to, from) in params[entry.range.clone()].iter_mut().zip(&array.data) {
            *to = T::from_f64(*from);
        }
    }
    params
}

fn images<T: Real>(inputs: &Golden) -> Vec<T> {
    inputs.f64("images").data.iter().map(|&p| T::from_f64(p)).collect()
}

fn f64s<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

fn of_sample(array: &Array<f64>, axis: usize, sample: usize) -> Vec<f64> {
    array.select(axis, sample).data
}

fn check_encoder<T: Real>(batch: &Batch<T>, index: &[u32], encoder: &Golden, sample: usize) {
    let (tables, d_v) = (batch.tables(), 32);
    for (k, name) in ["h", "q_diag", "q"].into_iter().enumerate() {
        let got: Vec<f64> = index.iter().flat_map(|&v| f64s(tables.heads(v, d_v)[k])).collect();
        assert_close_max(name, &got, &of_sample(&encoder.f64(&format!("enc/{name}")), 1, sample), ENCODER);
    }
    // A packed view is B [j, slot, k], A [slot, k, r] times 1/8, Aᵀ [slot, r, k] times 1/8, Bᵀ.
    let (a, b) = (encoder.f64("enc/A").select(1, sample), encoder.f64("enc/B").select(1, sample));
    let (wide_a, wide_b) = (8 * 24 * 8, 8 * 32 * 8);
    let view_len = 2 * (wide_a + wide_b);
    let (mut got_a, mut got_b) = (Vec::new(), Vec::new());
    for &view in index {
        let packed = f64s(&tables.packed()[view as usize * view_len..][..view_len]);
        got_a.extend(packed[wide_b + wide_a..][..wide_a].iter().map(|x| 8.0 * x));
        for slot in 0..8 {
            for j in 0..32 {
                got_b.extend_from_slice(&packed[j * 64 + slot * 8..][..8]);
            }
        }
    }
    assert_close_max("A", &got_a, &a.data, ENCODER);
    assert_close_max("B", &got_b, &b.data, ENCODER);
}

fn check_values<T: Real>() {
    let model = model();
    let params: Vec<T> = params(&model);
    let [inputs, encoder, trace] = ["inputs", "encoder", "trace"].map(|file| Golden::open(CASE, file));
    let board = model.board(28, 28).unwrap();
    let (agents, n) = (board.sheaf.agents(), board.sheaf.state_len());
    let mut batch = Batch::<T>::default();
    batch.encode(&model, &params, &board, &images(&inputs), None);
    let z_update = model.z_update();
    let mut sample = Sample::<T>::default();
    let rho: f64 = encoder.f64("rho").scalar();
    assert!((model.rho(&params).0.to_f64() - rho).abs() < 1e-6);
    for s in 0..SAMPLES {
        let index = &batch.views().index()[s * agents..][..agents];
        check_encoder(&batch, index, &encoder, s);
        let (tables, mut seen) = (batch.tables(), Trace::default());
        let options = Options::fixed(K);
        model
            .solve(&params, &board, tables, index, &z_update, &options, Mode::Solve, &mut sample, &mut seen)
            .unwrap();
        for (name, got) in [("x", &seen.x), ("z", &seen.z), ("y", &seen.u)] {
            assert_iterates(name, &f64s(got), &of_sample(&trace.f64(name), 2, s), K);
        }
        for (name, got) in [("primal_res", &seen.primal), ("dual_res", &seen.dual)] {
            assert_iterates(name, &f64s(got), &of_sample(&trace.f64(name), 2, s), K);
        }
        let want = of_sample(&trace.f64("consistency_rms"), 1, s);
        assert_iterates("consistency", &f64s(&seen.edge_rms), &want, K);
        for k in 0..K {
            model.decode_states(&params, &seen.x[k * n..][..n], &mut sample);
            let want = trace.f64("logits_per_iter").select(0, k).select(1, s);
            assert_close_max("logits", &f64s(sample.logits(&model, &board)), &want.data, LOGITS);
        }
        let mut votes = vec![T::ZERO; 10];
        let winner = vote(sample.logits(&model, &board), &mut votes);
        assert_close_max("votes", &f64s(&votes), &trace.f64("reassembled").select(0, s).data, LOGITS);
        assert_eq!(winner as i32, trace.i32("pred").data[s], "prediction of picture {s}");
    }
}

fn check_gradients<T: Real>() {
    let model = model();
    let params: Vec<T> = params(&model);
    let inputs = Golden::open(CASE, "inputs");
    let want = Golden::open(CASE, "loss_grads");
    let board = model.board(28, 28).unwrap();
    let labels: Vec<u8> = inputs.i32("labels").data.iter().map(|&l| l as u8).collect();
    let mut grad = vec![T::ZERO; params.len()];
    let horizon = Horizon { iterations: K, window: 2 };
    let loss = Batch::<T>::default()
        .loss_and_grad(
            &model,
            &params,
            &board,
            &images(&inputs),
            &labels,
            horizon,
            Adjoint::Unrolled,
            &mut grad,
        )
        .unwrap();
    let want_loss: f64 = want.f64("loss").scalar();
    assert!((loss.loss - want_loss).abs() <= 1e-5 * want_loss, "loss {} against {want_loss}", loss.loss);
    let largest = want.largest_grad_norm();
    for entry in model.layout().entries() {
        let theirs = model.authors_name(&entry.name).unwrap();
        let got = f64s(&grad[entry.range.clone()]);
        assert_grad(&theirs, &got, &want.f64(&format!("grad/{theirs}")).data, largest);
    }
}

#[test]
fn the_published_model_has_the_published_number_of_parameters() {
    assert_eq!(model().layout().len(), 1_081_835);
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
