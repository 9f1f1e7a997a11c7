//! The hot paths of the maze, one core: `cargo bench -p sheaf-tasks --bench maze`; `sheaf bench` reports the same.
//!
//! | bench | is | items |
//! | --- | --- | --- |
//! | `laplacians_100` | a hundred fused sheaf Laplacians, 81 agents, 40×10 stacks from a table | agents |
//! | `forward_100` | 100 iterations (five CG steps each) and the decoder, one 19×19 maze | mazes |
//! | `forward_and_reverse_27` | 27 iterations, the loss of the last four, and all gradients, 128 mazes | mazes |
#![allow(missing_docs)]

use divan::Bencher;
use divan::counter::ItemsCount;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::hot::HotPaths;
use sheaf_tasks::maze::model::{MazeConfig, MazeModel};

/// Mazes of a batch, so that the table of stacks is as large as in training.
const MAZES: usize = 128;

fn main() {
    divan::main();
}

fn paths() -> HotPaths {
    let model = MazeModel::new(MazeConfig::default()).expect("the published model");
    let params: Vec<f32> = model.init(42);
    let mazes = generate(&MazeShape::new(19, 19, 18).expect("odd sizes"), 1, MAZES).expect("mazes");
    HotPaths::new(model, params, mazes).expect("a batch")
}

#[divan::bench]
fn laplacians_100(bencher: Bencher<'_, '_>) {
    let mut paths = paths();
    bencher
        .counter(ItemsCount::new(100 * paths.agents()))
        .bench_local(|| paths.laplacians(100).expect("maps that fit"));
}

#[divan::bench]
fn forward_100(bencher: Bencher<'_, '_>) {
    let mut paths = paths();
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| paths.forward(100).expect("a solve"));
}

#[divan::bench]
fn forward_and_reverse_27(bencher: Bencher<'_, '_>) {
    let mut paths = paths();
    bencher.counter(ItemsCount::new(MAZES)).bench_local(|| paths.forward_and_reverse(27).expect("a step"));
}
