//! The picture model: experiment, training, shifts, votes, observing and tracing.

mod common;

use std::path::Path;

use common::{Case, bars, experiment};
use sheaf_learn::config::strict;
use sheaf_learn::model::evaluate::{Reader, Single, SolveOptions, Traced, WatchOptions};
use sheaf_learn::model::{Iterations, Views};
use sheaf_learn::task::{Epochs, Loaded, Training};
use sheaf_learn::train::{AdamW, Trainable};
use sheaf_tasks::mnist::batches::Pictures;
use sheaf_tasks::mnist::data::ImageSet;
use sheaf_tasks::mnist::evaluate::{EvalOptions, EvalReport, evaluate};
use sheaf_tasks::mnist::metrics::{agent_votes, vote};
use sheaf_tasks::mnist::shifts::Shift;
use sheaf_tasks::mnist::task::{
    ImageData, Mnist, MnistEval, MnistExperiment, PictureSamples, VoteReader, board,
};

fn loaded(train: ImageSet, test: ImageSet) -> Loaded<ImageSet> {
    Loaded { train, test, more: None }
}

fn pixels(set: &ImageSet) -> Vec<f32> {
    set.images.iter().map(|&p| f32::from(p) / 255.0).collect()
}

#[test]
fn training_learns_to_tell_bars_apart() {
    let mut experiment = Case::<Mnist>::new(&["model.hidden=32", "train.batch=16"], 1).experiment;
    experiment.iterations = Iterations { train: 6, eval: 12, ..Iterations::default() };
    experiment.eval = MnistEval { test: 0, long: 100 };
    let mut task = Training::with_data(experiment, loaded(bars(200, 12, 4), bars(100, 12, 5))).unwrap();
    let mut params = task.initial(7);
    let mut grad = vec![0.0; params.len()];
    let (mut m, mut v) = (grad.clone(), grad.clone());
    let before = task.evaluate(&params).unwrap()[0].1;
    for step in 0..120 {
        let stats = task.loss_and_grad(&params, 7, step, &mut grad).unwrap();
        assert_eq!((stats.samples, stats.bad_sample), (16, None));
        AdamW::default().update(3e-3, step + 1, &grad, &mut params, &mut m, &mut v).unwrap();
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
        pictures.fill(&mut epochs, &set, 3, step, 4);
        assert!(pictures.chosen.iter().zip(&pictures.labels).all(|(&c, &l)| set.labels[c as usize] == l));
        seen.extend_from_slice(&pictures.chosen);
    }
    for epoch in seen.chunks_exact(10) {
        let mut sorted = epoch.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<u32>>());
    }
    assert_ne!(seen[..10], seen[10..]);
    pictures.fill(&mut Epochs::default(), &set, 3, 2, 4);
    assert_eq!(pictures.chosen, seen[8..12]);
}

#[test]
fn the_agents_and_the_network_meet_the_same_pictures_at_every_step() {
    let set = bars(10, 12, 6);
    let keys = &["train.batch=4", "model.classes=2"];
    let data = loaded(set.clone(), bars(2, 12, 1));
    let mut task = Training::<Mnist>::with_data(experiment(keys), data).unwrap();
    let (mut epochs, mut pictures) = (Epochs::default(), Pictures::<f32>::default());
    for step in [0, 1, 2, 7] {
        pictures.fill(&mut epochs, &set, 3, step, 4);
        let batch = task.batch_of(3, step);
        assert_eq!(pixels(batch), pictures.images);
        assert_eq!(batch.labels, pictures.labels);
    }
}

#[test]
fn the_published_file_says_what_the_defaults_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/mnist.toml");
    let read: MnistExperiment = strict::read(&path, &[]).unwrap();
    let mut published = MnistExperiment::default();
    published.train.eval_every = 500;
    published.train.checkpoint_every = 250;
    published.data.validation_count = 2_000;
    assert_eq!(read, published);
    read.check().unwrap();
}

#[test]
fn a_folder_without_pictures_is_named() {
    let data = ImageData { dir: "/nowhere".into(), ..ImageData::default() };
    let missing = Training::new(MnistExperiment { data, ..MnistExperiment::default() });
    assert!(missing.unwrap_err().to_string().contains("a folder with IDX files"));
}

#[test]
fn padding_adds_agents_and_a_set_with_more_classes_is_refused() {
    let case = Case::<Mnist>::new(&[], 1);
    let (config, set) = (&case.experiment.model, bars(6, 12, 8));
    let params: Vec<f32> = case.model.init(3);
    let run = |set: &ImageSet, shift, draws| {
        let options = EvalOptions { iterations: 3, shift, draws, seed: 1 };
        evaluate(config, &case.model, &params, set, &options, &|_| {})
    };
    assert_eq!(board(config, 12 + 32, 12 + 32).unwrap().layout.agents(), 15 * 15);
    for shift in Shift::published() {
        let score = run(&set, shift, 3).unwrap();
        assert_eq!(
            (score.images, score.correct.len()),
            (6, if shift.is_random() { 3 } else { 1 }),
            "{shift}"
        );
    }
    let error = run(&ImageSet { classes: 3, ..set }, Shift::None, 1).unwrap_err();
    assert!(error.to_string().contains("labels below 2"));
}

#[test]
fn evaluation_under_noise_does_not_depend_on_threads() {
    let case = Case::<Mnist>::of(&["model.classes=2", "model.hidden=24"], bars(37, 13, 2));
    let params: Vec<f32> = case.model.init(1);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let options = EvalOptions { iterations: 7, shift: Shift::Noise(0.2), draws: 2, seed: 3 };
        let config = &case.experiment.model;
        pool.install(|| evaluate(config, &case.model, &params, &case.set, &options, &|_| {})).unwrap()
    };
    assert!(run(1) == run(2) && run(1) == run(3));
}

#[test]
fn agents_that_all_see_black_answer_as_on_a_black_picture() {
    let case = Case::<Mnist>::new(&[], 1);
    let grid = board(&case.experiment.model, 12, 12).unwrap().layout;
    let (lit, black) = (pixels(&bars(1, 12, 9)), vec![0.0; 144]);
    let (mut dropped, mut plain) = (Views::default(), Views::default());
    let all = vec![true; grid.agents()];
    let samples = PictureSamples { grid, images: &lit, dropped: Some(&all) };
    dropped.collect(&samples, 0..1, grid.agents(), 9);
    let samples = PictureSamples { grid, images: &black, dropped: None };
    plain.collect(&samples, 0..1, grid.agents(), 9);
    assert_eq!((dropped.index(), dropped.rows()), (plain.index(), plain.rows()));
    assert_eq!((dropped.len(), plain.len()), (1, 1));
    let samples = PictureSamples { grid, images: &lit, dropped: None };
    plain.collect(&samples, 0..1, grid.agents(), 9);
    assert!(plain.len() > 1);
}

#[test]
fn watching_shows_what_evaluation_decides_and_tracing_what_was_seen() {
    let case = Case::<Mnist>::of(&["model.classes=2", "model.hidden=10"], bars(3, 12, 10));
    let (config, set, sheaf) = (&case.experiment.model, &case.set, &case.board.sheaf);
    let params: Vec<f32> = case.model.init(3);
    let images = pixels(set);
    let samples = PictureSamples { grid: case.board.layout, images: &images, dropped: None };
    let (reader, mut right) = (VoteReader { classes: 2 }, 0);
    for (i, &label) in set.labels.iter().enumerate() {
        let single = Single::new(&case.model, &params, sheaf, &samples, i).unwrap();
        let (mut seen, options) = (Vec::new(), WatchOptions { solve: SolveOptions::fixed(5), every: true });
        let watched = single
            .watch(&reader, i, &options, &mut |m| seen.push((m.iteration, m.outputs.unwrap().to_vec())))
            .unwrap();
        assert_eq!(seen.iter().map(|s| s.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(seen[4].1, watched.outputs);
        assert_eq!(reader.read(i, &watched.outputs), watched.answer);
        right += usize::from(watched.answer == label);
        let Traced { admm: states, outputs, .. } = single.trace(5).unwrap();
        assert_eq!(outputs, seen.into_iter().flat_map(|s| s.1).collect::<Vec<_>>());
        assert_eq!(states.x.len(), 5 * sheaf.state_len());
    }
    let options = EvalOptions { iterations: 5, shift: Shift::None, draws: 1, seed: 0 };
    let score = evaluate(config, &case.model, &params, set, &options, &|_| {}).unwrap();
    assert_eq!(score.correct, [right]);
}

#[test]
fn the_vote_is_the_mean_of_the_agents_and_survives_large_logits() {
    let logits = [1000.0, 1000.0, -1000.0, 0.0, 0.0, 0.0, 3.0f64.ln(), 0.0, 0.0];
    let mut votes = [0.0; 3];
    assert_eq!(vote(&logits, &mut votes), 0);
    let want = [(0.5 + 1.0 / 3.0 + 0.6) / 3.0, (0.5 + 1.0 / 3.0 + 0.2) / 3.0, (0.0 + 1.0 / 3.0 + 0.2) / 3.0];
    assert!(votes.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12));
    let each: Vec<(usize, f64)> = agent_votes(&logits, 3).collect();
    assert_eq!(each.iter().map(|e| e.0).collect::<Vec<_>>(), [0, 0, 0]);
    assert!((each[0].1 - 0.5).abs() < 1e-12 && (each[2].1 - 0.6).abs() < 1e-12);
}

#[test]
fn the_spread_is_the_deviation_between_draws() {
    let report = EvalReport { images: 10, correct: vec![6, 8, 7] };
    assert!((report.accuracy() - 0.7).abs() < 1e-12 && (report.spread() - 0.1).abs() < 1e-12);
    assert_eq!(EvalReport { images: 10, correct: vec![6] }.spread(), 0.0);
}
