//! The published models on one core: `cargo bench -p sheaf-tasks --bench models`. Items are samples.
//!
//! | bench | is |
//! | --- | --- |
//! | `solve` | encoder, 50 iterations and decoder |
//! | `train` | encoder, 20 iterations, the loss of the last two, and all gradients |
//! | `draw_sudoku`, `search_sudoku` | puzzles of every kind; the exact search, on puzzles as in training |
#![allow(missing_docs)]

use divan::Bencher;
use divan::counter::ItemsCount;
use sheaf_learn::model::evaluate::{Reader, SolveOptions, solve_all};
use sheaf_learn::model::{Batch, Horizon};
use sheaf_learn::task::Task;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::MazeSet;
use sheaf_tasks::maze::task::{Maze, MazeReader, MazeSamples};
use sheaf_tasks::mnist::task::{Mnist, VoteReader};
use sheaf_tasks::sudoku::generate::{Kind, draw};
use sheaf_tasks::sudoku::solver::is_unique;
use sheaf_tasks::sudoku::task::{BoardReader, Sudoku, SudokuConfig};
use sheaf_tasks::{maze, mnist, sudoku};

/// Samples per batch, enough that tables of views are as large as in training.
const SAMPLES: usize = 64;

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one thread");
    pool.install(divan::main);
}

fn solve<K: Task, R: Reader>(bencher: Bencher<'_, '_>, config: &K::Config, set: &K::Set, reader: &R) {
    let (model, board) = (K::model(config).expect("a model"), K::board(config, set).expect("a board"));
    let params: Vec<f32> = model.init(42);
    let (samples, options) = (K::samples(&board, set), SolveOptions::fixed(50));
    bencher.counter(ItemsCount::new(SAMPLES)).bench_local(|| {
        solve_all(&model, &params, &board.sheaf, &samples, reader, &options, &|_| {}).expect("answers")
    });
}

fn train<K: Task>(bencher: Bencher<'_, '_>, config: &K::Config, set: &K::Set) {
    let (model, board) = (K::model(config).expect("a model"), K::board(config, set).expect("a board"));
    let params: Vec<f32> = model.init(42);
    let (samples, horizon) = (K::samples(&board, set), Horizon::whole(20, 2));
    let (mut batch, mut grad) = (Batch::default(), vec![0.0; params.len()]);
    bencher.counter(ItemsCount::new(SAMPLES)).bench_local(|| {
        batch.loss_and_grad(&model, &params, &board.sheaf, &samples, horizon, &mut grad).expect("a step")
    });
}

fn mazes() -> MazeSet {
    maze::data::generate(&MazeShape::new(19, 19, 18).expect("odd sizes"), 1, SAMPLES).expect("mazes")
}

fn sudoku_with(maps: &str) -> SudokuConfig {
    let mut config = SudokuConfig::default();
    config.common.maps = maps.into();
    config
}

const MAPS: [&str; 3] = ["slot", "low-rank", "orthonormal"];

#[divan::bench]
fn solve_maze(bencher: Bencher<'_, '_>) {
    let (set, config) = (mazes(), Maze::published().model);
    let grid = maze::task::board(&config, 19, 19).expect("a board").layout;
    let reader = MazeReader(MazeSamples { grid, inputs: &set.inputs, labels: &set.labels });
    solve::<Maze, _>(bencher, &config, &set, &reader);
}

#[divan::bench]
fn train_maze(bencher: Bencher<'_, '_>) {
    train::<Maze>(bencher, &Maze::published().model, &mazes());
}

#[divan::bench]
fn solve_mnist(bencher: Bencher<'_, '_>) {
    let set = mnist::pen::digits(SAMPLES, 28, 7).expect("drawings");
    solve::<Mnist, _>(bencher, &Mnist::published().model, &set, &VoteReader { classes: 10 });
}

#[divan::bench]
fn train_mnist(bencher: Bencher<'_, '_>) {
    let set = mnist::pen::digits(SAMPLES, 28, 7).expect("drawings");
    train::<Mnist>(bencher, &Mnist::published().model, &set);
}

#[divan::bench(args = MAPS)]
fn solve_sudoku(bencher: Bencher<'_, '_>, maps: &str) {
    let set = sudoku::generate::generate(Kind::Mixed, 1, SAMPLES);
    solve::<Sudoku, _>(bencher, &sudoku_with(maps), &set, &BoardReader(&set.puzzles));
}

#[divan::bench(args = MAPS)]
fn train_sudoku(bencher: Bencher<'_, '_>, maps: &str) {
    let set = sudoku::generate::generate(Kind::Mixed, 1, SAMPLES);
    train::<Sudoku>(bencher, &sudoku_with(maps), &set);
}

#[divan::bench(args = Kind::ALL)]
fn draw_sudoku(bencher: Bencher<'_, '_>, kind: Kind) {
    let mut index = 0;
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        index += 1;
        draw(kind, 1, index)
    });
}

#[divan::bench]
fn search_sudoku(bencher: Bencher<'_, '_>) {
    let set = sudoku::generate::generate(Kind::Mixed, 1, 100);
    bencher
        .counter(ItemsCount::new(set.len()))
        .bench_local(|| set.puzzles.iter().filter(|p| is_unique(divan::black_box(p))).count());
}
