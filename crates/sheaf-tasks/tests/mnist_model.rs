//! The model of pictures: its gradient by finite differences, the same bits on any number of threads, its experiment.

use std::path::Path;

use sheaf_admm::admm::Adjoint;
use sheaf_learn::config::strict;
use sheaf_learn::rng::Stream;
use sheaf_learn::train::Trainable;
use sheaf_tasks::mnist::batches::{Epochs, Pictures};
use sheaf_tasks::mnist::data::ImageSet;
use sheaf_tasks::mnist::evaluate::{EvalOptions, EvalReport, evaluate};
use sheaf_tasks::mnist::experiment::{Iterations, MnistEval, MnistExperiment, MnistTask};
use sheaf_tasks::mnist::model::{Batch, Horizon, MnistConfig, MnistModel};
use sheaf_tasks::mnist::shifts::Shift;
use sheaf_tasks::mnist::watch::{trace, watch};
use sheaf_testkit::finite_difference::GradientCheck;

/// Pictures of two classes: a bright bar across the upper or the lower half, with some noise; much is black.
fn bars(count: usize, size: usize, seed: u64) -> ImageSet {
    let stream = &mut Stream::new(seed, "pictures of a test", 0, 0);
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let class = stream.below(2);
        let row = class * size / 2 + stream.below(size / 2);
        images.extend((0..size * size).map(|p| {
            let lit = p / size == row;
            if lit { 150 + stream.below(100) as u8 } else { (stream.below(40) / 39 * 60) as u8 }
        }));
        labels.push(class as u8);
    }
    ImageSet { height: size, width: size, classes: 2, images, labels }
}

fn pixels<T: sheaf_admm::Real>(set: &ImageSet) -> Vec<T> {
    let mut images = vec![T::ZERO; set.images.len()];
    images.chunks_exact_mut(set.pixels()).enumerate().for_each(|(i, image)| set.write_image(i, image));
    images
}

fn small() -> MnistConfig {
    MnistConfig { classes: 2, d_v: 6, d_e: 4, hidden: 10, rank: 2, l1: 0.05, ..MnistConfig::default() }
}

#[test]
fn the_gradient_of_every_variant_meets_finite_differences() {
    let set = bars(3, 10, 1);
    let images = pixels::<f64>(&set);
    let horizon = Horizon { iterations: 4, window: 2 };
    let variants = [
        ("published", small()),
        ("overlapping views", MnistConfig { stride: 2, relaxation: 1.3, ..small() }),
        ("four neighbours", MnistConfig { neighbours: 4, l1: 0.0, rank: 3, ..small() }),
        ("the base alone, soft", MnistConfig { maps: "shared".into(), agreement: "soft".into(), ..small() }),
        ("from zeros", MnistConfig { start: "zeros".into(), ..small() }),
        ("rank 8", MnistConfig { rank: 8, ..small() }),
    ];
    for (name, config) in variants {
        let model = MnistModel::new(config).unwrap();
        let board = model.board(10, 10).unwrap();
        let stream = &mut Stream::new(9, "noise of a test", 0, 0);
        let params: Vec<f64> = model.init(5);
        // Away from the kink at zero factors B.
        let params: Vec<f64> = params.iter().map(|p| p + 0.05 * stream.normal()).collect();
        let mut batch = Batch::<f64>::default();
        let mut run = |params: &[f64], grad: &mut [f64]| {
            let labels = &set.labels;
            batch
                .loss_and_grad(&model, params, &board, &images, labels, horizon, Adjoint::Unrolled, grad)
                .unwrap()
                .loss
        };
        let mut grad = vec![0.0; params.len()];
        run(&params, &mut grad);
        let mut spare = grad.clone();
        let check = GradientCheck { step: 1e-6, ..GradientCheck::default() };
        check.assert(name, &mut |p| run(p, &mut spare), &params, &grad);
    }
}

#[test]
fn one_thread_and_three_give_the_same_bits() {
    let set = bars(37, 13, 2);
    let images = pixels::<f32>(&set);
    let model = MnistModel::new(MnistConfig { classes: 2, hidden: 24, ..MnistConfig::default() }).unwrap();
    let board = model.board(13, 13).unwrap();
    let params: Vec<f32> = model.init(1);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (mut grad, mut batch) = (vec![0f32; params.len()], Batch::<f32>::default());
        let horizon = Horizon { iterations: 5, window: 2 };
        pool.install(|| {
            let (labels, adjoint) = (&set.labels, Adjoint::Unrolled);
            // Twice: what a batch leaves in memory must not matter to the next.
            let mut step = |images: &[f32], labels: &[u8]| {
                batch.loss_and_grad(&model, &params, &board, images, labels, horizon, adjoint, &mut grad)
            };
            step(&images[..5 * 169], &labels[..5]).unwrap();
            let loss = step(&images, labels).unwrap().loss;
            let options = EvalOptions { iterations: 7, shift: Shift::Noise(0.2), draws: 2, seed: 3 };
            let told = evaluate(&model, &params, &set, &options, &|_| {}).unwrap();
            (loss.to_bits(), grad.iter().map(|g| g.to_bits()).collect::<Vec<_>>(), told)
        })
    };
    let one = run(1);
    assert!(one == run(2) && one == run(3));
}

#[test]
fn the_gradient_of_a_batch_is_the_mean_over_its_pictures() {
    let set = bars(19, 10, 3);
    let images = pixels::<f64>(&set);
    let model = MnistModel::new(small()).unwrap();
    let board = model.board(10, 10).unwrap();
    let params: Vec<f64> = model.init(2);
    let horizon = Horizon { iterations: 3, window: 2 };
    let mut batch = Batch::<f64>::default();
    let mut step = |images: &[f64], labels: &[u8]| {
        let mut grad = vec![0.0; params.len()];
        let adjoint = Adjoint::Unrolled;
        let told = batch
            .loss_and_grad(&model, &params, &board, images, labels, horizon, adjoint, &mut grad)
            .unwrap();
        (told.loss, grad)
    };
    let (loss, grad) = step(&images, &set.labels);
    let (mut mean_loss, mut mean) = (0.0, vec![0.0; params.len()]);
    for i in 0..set.len() {
        let (loss, grad) = step(&images[i * 100..][..100], &set.labels[i..=i]);
        mean_loss += loss / set.len() as f64;
        mean.iter_mut().zip(grad).for_each(|(m, g)| *m += g / set.len() as f64);
    }
    assert!((loss - mean_loss).abs() < 1e-13);
    let largest = mean.iter().fold(0.0f64, |m, g| m.max(g.abs()));
    assert!(grad.iter().zip(&mean).all(|(a, b)| (a - b).abs() <= 1e-12 * largest));
}

fn quick_experiment() -> MnistExperiment {
    let mut experiment = MnistExperiment { model: small(), ..MnistExperiment::default() };
    experiment.model.hidden = 32;
    experiment.iterations = Iterations { train: 6, eval: 12, gradient: 0 };
    experiment.train.batch = 16;
    experiment.eval = MnistEval { test: 0, long: 100 };
    experiment
}

#[test]
fn training_learns_to_tell_bars_apart() {
    let task = MnistTask::with_sets(quick_experiment(), bars(200, 12, 4), bars(100, 12, 5));
    let mut task = task.unwrap();
    let mut params = task.initial(7);
    let mut grad = vec![0.0; params.len()];
    let (mut m, mut v) = (grad.clone(), grad.clone());
    let before = task.evaluate(&params).unwrap()[0].1;
    for step in 0..120 {
        task.loss_and_grad(&params, 7, step, &mut grad).unwrap();
        let adamw = sheaf_learn::train::AdamW::default();
        adamw.update(3e-3, step + 1, &grad, &mut params, &mut m, &mut v).unwrap();
    }
    let metrics = task.evaluate(&params).unwrap();
    assert_eq!((metrics[0].0.as_str(), metrics[1].0.as_str()), ("accuracy", "accuracy_long"));
    assert!(metrics.iter().all(|m| m.1 > 0.95 && m.1 > before), "{before} → {metrics:?}");
}

#[test]
fn epochs_show_every_picture_once_and_resume_anywhere() {
    let set = bars(10, 6, 6);
    let (mut epochs, mut pictures) = (Epochs::default(), Pictures::<f32>::default());
    let mut seen = Vec::new();
    for step in 0..5 {
        epochs.fill(&set, 3, step, 4, &mut pictures);
        assert!(pictures.chosen.iter().zip(&pictures.labels).all(|(&c, &l)| set.labels[c as usize] == l));
        seen.extend_from_slice(&pictures.chosen);
    }
    for epoch in seen.chunks_exact(10) {
        let mut sorted = epoch.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<u32>>());
    }
    assert_ne!(seen[..10], seen[10..]);
    let mut again = Epochs::default();
    again.fill(&set, 3, 2, 4, &mut pictures);
    assert_eq!(pictures.chosen, seen[8..12]);
}

#[test]
fn the_published_file_says_what_the_defaults_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/mnist.toml");
    let read: MnistExperiment = strict::read(&path, &[]).unwrap();
    let mut published = MnistExperiment::default();
    published.train.eval_every = 500;
    published.train.checkpoint_every = 250;
    assert_eq!(read, published);
    read.check().unwrap();
}

#[test]
fn experiments_that_make_no_sense_are_refused_by_key() {
    for (set, place) in [
        ("task=\"maze\"", "task"),
        ("model.rank=0", "model.rank"),
        ("model.neighbours=6", "model.neighbours"),
        ("model.classes=0", "model.classes"),
        ("model.patch=9", "model.patch"),
        ("model.l1=-1.0", "model.l1"),
        ("model.maps=\"dense\"", "model.maps"),
        ("iterations.train=0", "iterations.train"),
        ("train.batch=0", "train.batch"),
    ] {
        let experiment: MnistExperiment = strict::parse("test", "", &[set.to_string()]).unwrap();
        assert_eq!(experiment.check().unwrap_err().place(), place, "{set}");
    }
    let missing = MnistExperiment { data: Default::default(), ..MnistExperiment::default() };
    let missing = MnistTask::new(MnistExperiment {
        data: sheaf_tasks::mnist::experiment::ImageData { dir: "/nowhere".into(), count: 0 },
        ..missing
    });
    assert!(missing.unwrap_err().to_string().contains("a folder with IDX files"));
}

#[test]
fn padding_adds_agents_and_a_set_with_more_classes_is_refused() {
    let set = bars(6, 12, 8);
    let model = MnistModel::new(small()).unwrap();
    let params: Vec<f32> = model.init(3);
    let run = |set: &ImageSet, shift, draws| {
        evaluate(&model, &params, set, &EvalOptions { iterations: 3, shift, draws, seed: 1 }, &|_| {})
    };
    assert_eq!(model.board(12 + 32, 12 + 32).unwrap().grid.agents(), 15 * 15);
    for shift in Shift::published() {
        let told = run(&set, shift, 3).unwrap();
        assert_eq!((told.images, told.correct.len()), (6, if shift.is_random() { 3 } else { 1 }), "{shift}");
    }
    let error = run(&ImageSet { classes: 3, ..set }, Shift::None, 1).unwrap_err();
    assert!(error.to_string().contains("labels below 2"));
}

#[test]
fn agents_that_all_see_black_answer_as_on_a_black_picture() {
    let set = bars(1, 12, 9);
    let black = ImageSet { images: vec![0; 144], ..set.clone() };
    let model = MnistModel::new(small()).unwrap();
    let params: Vec<f64> = model.init(3);
    let board = model.board(12, 12).unwrap();
    let (mut dropped, mut plain) = (Batch::<f64>::default(), Batch::<f64>::default());
    dropped.encode(&model, &params, &board, &pixels(&set), Some(&[true; 16]));
    plain.encode(&model, &params, &board, &pixels(&black), None);
    assert_eq!(dropped.views().index(), plain.views().index());
    assert_eq!((dropped.views().len(), plain.views().len()), (1, 1));
    assert_eq!(dropped.tables().packed(), plain.tables().packed());
}

#[test]
fn watching_shows_what_evaluation_decides_and_tracing_what_was_seen() {
    let set = bars(3, 12, 10);
    let model = MnistModel::new(small()).unwrap();
    let params: Vec<f32> = model.init(3);
    let board = model.board(12, 12).unwrap();
    let options = EvalOptions { iterations: 5, shift: Shift::None, draws: 1, seed: 0 };
    let mut right = 0;
    for (i, image) in pixels::<f32>(&set).chunks_exact(144).enumerate() {
        let mut seen = Vec::new();
        let watched = watch(&model, &params, &board, image, 5, &mut |moment| {
            assert!((moment.votes.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            seen.push((moment.iteration, moment.logits.to_vec()));
        })
        .unwrap();
        assert_eq!(seen.iter().map(|s| s.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(seen[4].1, watched.logits);
        right += usize::from(watched.class == usize::from(set.labels[i]));
        let (states, logits) = trace(&model, &params, &board, image, 5).unwrap();
        assert_eq!(logits, seen.into_iter().flat_map(|s| s.1).collect::<Vec<_>>());
        assert_eq!(states.x.len(), 5 * board.sheaf.state_len());
    }
    let told = evaluate(&model, &params, &set, &options, &|_| {}).unwrap();
    assert_eq!(told.correct, [right]);
}

#[test]
fn the_spread_is_the_deviation_between_draws() {
    let report = EvalReport { images: 10, correct: vec![6, 8, 7] };
    assert!((report.accuracy() - 0.7).abs() < 1e-12 && (report.spread() - 0.1).abs() < 1e-12);
    assert_eq!(EvalReport { images: 10, correct: vec![6] }.spread(), 0.0);
}
