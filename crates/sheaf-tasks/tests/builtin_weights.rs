//! The built-in weights load, and their predictions are unchanged.
//!
//! A fingerprint is the SHA-256 of all predictions, computed once with the models that the weights were trained with.
//! Samples are generated, not read, so the test needs no files.

use sha2::{Digest, Sha256};
use sheaf_learn::model::evaluate::{Reader, SolveOptions, solve_all};
use sheaf_learn::task::{Task, Weights};
use sheaf_learn::train::WeightsFile;
use sheaf_tasks::baselines::cnn::CnnClassifier;
use sheaf_tasks::baselines::cnn::experiment::{self, CnnWeights};
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::task::{Maze, MazeReader, MazeSamples};
use sheaf_tasks::mnist::evaluate::Classifier;
use sheaf_tasks::mnist::pen;
use sheaf_tasks::mnist::task::{Mnist, VoteReader};
use sheaf_tasks::sudoku::generate::{Kind, generate};
use sheaf_tasks::sudoku::task::{BoardReader, Sudoku};
use sheaf_tasks::{maze, mnist, sudoku};

/// Samples of every task.
const COUNT: usize = 500;

fn fingerprint(predictions: &[u8]) -> String {
    Sha256::digest(predictions).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes the predictions to the path in SHEAF_PREDICTIONS, to compare them one by one with those of another release.
fn assert_fingerprint(task: &str, predictions: &[u8], expected: &str) {
    if let Some(folder) = std::env::var_os("SHEAF_PREDICTIONS") {
        std::fs::write(std::path::Path::new(&folder).join(format!("{task}.bin")), predictions).unwrap();
    }
    assert_eq!(fingerprint(predictions), expected, "{task}: {} predictions", predictions.len());
}

fn predict<K: Task, R: Reader>(
    bytes: &'static [u8],
    set: &K::Set,
    reader: &R,
    iterations: usize,
    predictions: impl Fn(&R::Answer) -> Vec<u8>,
) -> Vec<u8> {
    let Weights { experiment, model, params } = Weights::<K>::builtin(bytes).unwrap();
    let board = K::board(&experiment.model, set).unwrap();
    let (samples, options) = (K::samples(&board, set), SolveOptions::fixed(iterations));
    let solved = solve_all(&model, &params, &board.sheaf, &samples, reader, &options, &|_| {}).unwrap();
    assert_eq!(solved.len(), COUNT);
    solved.iter().flat_map(|s| predictions(&s.answer)).collect()
}

fn mazes(bytes: &'static [u8], iterations: usize) -> Vec<u8> {
    let set = maze::data::generate(&MazeShape::new(19, 19, 18).unwrap(), 1234, COUNT).unwrap();
    let grid = maze::task::board(&Maze::published().model, 19, 19).unwrap().layout;
    let reader = MazeReader(MazeSamples { grid, inputs: &set.inputs, labels: &set.labels });
    predict::<Maze, _>(bytes, &set, &reader, iterations, Vec::clone)
}

#[test]
fn mazes_are_predicted_as_when_the_weights_were_made() {
    let got = mazes(maze::task::BUILTIN, 40);
    assert_fingerprint("maze", &got, "053bd62c1fcca88cc9a8e18172261fdcec7580a090a998054b82d4f1516ec7df");
}

#[test]
fn mazes_are_predicted_after_many_iterations_as_when_the_weights_for_large_ones_were_made() {
    // The same fingerprint as above: both solve all of them.
    let got = mazes(maze::task::BUILTIN_FAR, 200);
    assert_fingerprint("maze-far", &got, "053bd62c1fcca88cc9a8e18172261fdcec7580a090a998054b82d4f1516ec7df");
}

#[test]
fn puzzles_are_predicted_as_when_the_weights_were_made() {
    let set = generate(Kind::Mixed, 1234, COUNT);
    let reader = BoardReader(&set.puzzles);
    let got = predict::<Sudoku, _>(sudoku::task::BUILTIN, &set, &reader, 20, |r| r.predicted.to_vec());
    assert_fingerprint("sudoku", &got, "46ca34a160be51b81b4d15088d11fd11345288e2435d58e9c9110a12501f5c99");
}

#[test]
fn pictures_are_predicted_as_when_the_weights_were_made() {
    let set = pen::digits(COUNT, 28, 7).unwrap();
    let reader = VoteReader { classes: 10 };
    let got = predict::<Mnist, _>(mnist::task::BUILTIN, &set, &reader, 20, |&class| vec![class]);
    assert_fingerprint("mnist", &got, "e6155d195e2569b55be159247d95fdfb250d520437a0f999c2b3cc25907c8000");
}

#[test]
fn pictures_are_predicted_by_the_network_as_when_its_weights_were_made() {
    let file = WeightsFile::parse("builtin:mnist-cnn", experiment::BUILTIN).unwrap();
    let CnnWeights { model, params, .. } = CnnWeights::load(&file).unwrap();
    let set = pen::digits(COUNT, 28, 7).unwrap();
    let images: Vec<f32> = set.images.iter().map(|&pixel| f32::from(pixel) / 255.0).collect();
    let (mut network, mut got) = (CnnClassifier::new(&model, &params), vec![0; COUNT]);
    let patches = network.patches(28, 28).unwrap();
    network.classify(&patches, &images, None, &mut got).unwrap();
    assert_fingerprint("mnist-cnn", &got, "e6155d195e2569b55be159247d95fdfb250d520437a0f999c2b3cc25907c8000");
}
