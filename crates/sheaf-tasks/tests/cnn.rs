//! The convolutional baseline: gradient, determinism, any picture size, and training.

use std::path::Path;
use std::sync::Arc;

use sheaf_admm::share::{Comm, threads};
use sheaf_learn::config::strict;
use sheaf_learn::model::Ranks;
use sheaf_learn::rng::Stream;
use sheaf_learn::train::{AdamW, Trainable};
use sheaf_tasks::baselines::cnn::experiment::{CnnExperiment, CnnTask};
use sheaf_tasks::baselines::cnn::{CnnBatch, CnnClassifier, CnnConfig, CnnModel, Net};
use sheaf_tasks::mnist::data::ImageSet;
use sheaf_tasks::mnist::evaluate::{Classifier, EvalOptions, evaluate_with};
use sheaf_tasks::mnist::shifts::Shift;
use sheaf_testkit::finite_difference::GradientCheck;

/// Pictures of two classes: a lit row in the upper or the lower half.
fn bars(count: usize, size: usize, seed: u64) -> ImageSet {
    let stream = &mut Stream::new(seed, "pictures of a test", 0, 0);
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let class = stream.below(2);
        let row = class * size / 2 + stream.below(size / 2);
        images.extend((0..size * size).map(|p| {
            let faint = stream.below(60) as u8;
            if p / size == row { 150 + faint } else { faint / 2 }
        }));
        labels.push(class as u8);
    }
    ImageSet { height: size, width: size, classes: 2, images, labels }
}

fn pixels(set: &ImageSet) -> Vec<f64> {
    set.images.iter().map(|&p| f64::from(p) / 255.0).collect()
}

fn small() -> CnnConfig {
    CnnConfig {
        classes: 2,
        kernels: vec![3, 5, 3],
        channels: vec![3, 4, 2],
        bins: 3,
        hidden: 5,
        ..CnnConfig::default()
    }
}

#[test]
fn the_gradient_meets_finite_differences_with_and_without_dropout() {
    let set = bars(3, 13, 1);
    let images = pixels(&set);
    let one = CnnConfig { kernels: vec![3], channels: vec![4], pools: 1, ..small() };
    for (config, dropout) in [(small(), None), (small(), Some((3, 7))), (one, None)] {
        let model = CnnModel::new(config).unwrap();
        let params: Vec<f64> = model.init(2);
        let mut batch = CnnBatch::default();
        let mut run = |params: &[f64], grad: &mut [f64]| {
            batch.loss_and_grad(&model, params, (13, 13), &images, &set.labels, dropout, grad).unwrap().loss
        };
        let mut grad = vec![0.0; params.len()];
        run(&params, &mut grad);
        let mut spare = grad.clone();
        let check = GradientCheck { step: 1e-6, ..GradientCheck::default() };
        check.assert("cnn", &mut |p| run(p, &mut spare), &params, &grad);
    }
}

#[test]
fn one_thread_and_three_give_the_same_bits() {
    let set = bars(21, 12, 2);
    let images: Vec<f32> = pixels(&set).iter().map(|&p| p as f32).collect();
    let model = CnnModel::new(small()).unwrap();
    let params: Vec<f32> = model.init(1);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut grad = vec![0f32; params.len()];
        let batch = pool.install(|| {
            let (dropout, size) = (Some((1, 2)), (12, 12));
            CnnBatch::default().loss_and_grad(&model, &params, size, &images, &set.labels, dropout, &mut grad)
        });
        (batch.unwrap().loss.to_bits(), grad.iter().map(|g| g.to_bits()).collect::<Vec<_>>())
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn any_number_of_ranks_gives_the_bits_of_one_process() {
    let set = bars(21, 12, 2);
    let images: Vec<f32> = pixels(&set).iter().map(|&p| p as f32).collect();
    let model = CnnModel::new(small()).unwrap();
    let params: Vec<f32> = model.init(1);
    let run = |comm: Option<Arc<dyn Comm>>| {
        let (mut batch, mut grad) = (CnnBatch::default(), vec![0f32; params.len()]);
        batch.ranks = Ranks(comm);
        let loss = batch
            .loss_and_grad(&model, &params, (12, 12), &images, &set.labels, Some((1, 2)), &mut grad)
            .unwrap();
        (loss.loss.to_bits(), loss.bad, grad.iter().map(|g| g.to_bits()).collect::<Vec<_>>())
    };
    let one = run(None);
    for ranks in [1, 2, 4, 17] {
        std::thread::scope(|scope| {
            let all: Vec<_> =
                threads(ranks).into_iter().map(|comm| scope.spawn(|| run(Some(comm)))).collect();
            let mut all = all.into_iter().map(|rank| rank.join().unwrap());
            // Rank 0 has the sums; the others have passed theirs on.
            assert!(all.next().unwrap() == one, "{ranks} ranks");
        });
    }
}

#[test]
fn the_network_of_the_experiment_is_an_ordinary_small_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/mnist-cnn.toml");
    let read: CnnExperiment = strict::read(&path, &[]).unwrap();
    let mut expected = CnnExperiment::default();
    expected.train.eval_every = 500;
    expected.train.checkpoint_every = 500;
    expected.data.validation_count = 2_000;
    assert_eq!(read, expected);
    read.check().unwrap();
    assert_eq!(CnnModel::new(read.model).unwrap().layout().len(), 358_378);
}

#[test]
fn pictures_of_any_size_have_logits_and_too_small_ones_are_refused() {
    let model = CnnModel::new(small()).unwrap();
    let params: Vec<f32> = model.init(1);
    let mut net = Net::default();
    for (h, w) in [(4, 4), (12, 12), (13, 29), (60, 60)] {
        model.check_size((h, w)).unwrap();
        model.forward(&params, (h, w), &vec![0.5; h * w], None, &mut net);
        assert!(net.logits(&model).iter().all(|l| l.is_finite()));
    }
    assert!(model.check_size((3, 12)).unwrap_err().to_string().contains("at least 4 pixels"));
    assert!(CnnClassifier::new(&model, &params).patches(12, 2).is_err());
}

#[test]
fn configurations_that_make_no_sense_are_refused_by_key() {
    for (config, place) in [
        (CnnConfig { kernels: vec![3, 4, 3], ..small() }, "model.kernels"),
        (CnnConfig { kernels: vec![3], ..small() }, "model.kernels"),
        (CnnConfig { channels: vec![], ..small() }, "model.channels"),
        (CnnConfig { pools: 4, ..small() }, "model.pools"),
        (CnnConfig { dropout: 1.0, ..small() }, "model.dropout"),
        (CnnConfig { classes: 0, ..small() }, "model.classes"),
        (CnnConfig { bins: 0, ..small() }, "model.bins"),
    ] {
        assert_eq!(CnnModel::new(config).unwrap_err().place(), place);
    }
}

#[test]
fn the_network_learns_and_is_evaluated_under_every_shift() {
    let mut experiment = CnnExperiment { model: small(), ..CnnExperiment::default() };
    experiment.model.dropout = 0.1;
    experiment.train.batch = 16;
    let mut task = CnnTask::with_sets(experiment, bars(200, 12, 4), bars(100, 12, 5)).unwrap();
    let mut params = task.initial(7);
    let mut grad = vec![0.0; params.len()];
    let (mut m, mut v) = (grad.clone(), grad.clone());
    for step in 0..150 {
        task.loss_and_grad(&params, 7, step, &mut grad).unwrap();
        AdamW::default().update(3e-3, step + 1, &grad, &mut params, &mut m, &mut v).unwrap();
    }
    let clean = task.evaluate(&params).unwrap()[0].1;
    assert!(clean > 0.95, "{clean}");
    let set = bars(30, 12, 6);
    for shift in Shift::published() {
        let options = EvalOptions { iterations: 0, shift, draws: 2, seed: 1 };
        let score =
            evaluate_with(&mut CnnClassifier::new(task.model(), &params), &set, &options, &|_| {}).unwrap();
        assert_eq!(score.images, 30);
        assert!(shift != Shift::None || score.accuracy() > 0.9);
    }
}

#[test]
fn a_white_picture_with_all_patches_dropped_is_told_as_a_black_one() {
    let model = CnnModel::new(small()).unwrap();
    // Weights that distinguish white from black.
    let params = (0..).map(|seed| model.init::<f32>(seed)).find(|params| {
        let mut network = CnnClassifier::new(&model, params);
        let (grid, mut classes) = (network.patches(12, 12).unwrap(), [0, 0]);
        let both: Vec<f32> = (0..288).map(|p| if p < 144 { 0.0 } else { 1.0 }).collect();
        network.classify(&grid, &both, None, &mut classes).unwrap();
        classes[0] != classes[1]
    });
    let params = params.unwrap();
    let mut network = CnnClassifier::new(&model, &params);
    let (grid, mut classes) = (network.patches(12, 12).unwrap(), [0; 3]);
    let pictures: Vec<f32> = (0..3 * 144).map(|p| if p < 144 { 0.0 } else { 1.0 }).collect();
    let dropped: Vec<bool> = (0..3 * 16).map(|k| (16..32).contains(&k)).collect();
    network.classify(&grid, &pictures, Some(&dropped), &mut classes).unwrap();
    assert!(classes[1] == classes[0] && classes[2] != classes[0], "{classes:?}");
}
