//! The hot paths of Sudoku, one core: `cargo bench -p sheaf-tasks --bench sudoku`. Items are boards.
//!
//! | bench | is |
//! | --- | --- |
//! | `draw_one` | puzzles of every kind |
//! | `solve` | the exact search, on puzzles as in training |
//! | `forward_50` | encoder, 50 iterations and decoder, one tile |
//! | `forward_and_reverse_20` | the same with 20 iterations, the loss of the last two, and all gradients |
#![allow(missing_docs)]

use divan::Bencher;
use divan::counter::ItemsCount;
use sheaf_tasks::sudoku::data::SudokuSet;
use sheaf_tasks::sudoku::generate::{Kind, draw, generate};
use sheaf_tasks::sudoku::model::{Horizon, Prepared, SudokuConfig, SudokuModel, Tile, TileGrad};
use sheaf_tasks::sudoku::solver::is_unique;

const MAPS: [&str; 3] = ["slot", "low-rank", "orthonormal"];

fn main() {
    divan::main();
}

struct Setting {
    model: SudokuModel,
    params: Vec<f32>,
    prepared: Prepared<f32>,
    boards: SudokuSet,
}

fn setting(maps: &str) -> Setting {
    let config = SudokuConfig { maps: maps.into(), ..SudokuConfig::default() };
    let model = SudokuModel::new(config).expect("a published model");
    let params: Vec<f32> = model.init(42);
    let mut prepared = Prepared::default();
    model.prepare(&params, &mut prepared);
    let boards = generate(Kind::Mixed, 1, model.tile());
    Setting { model, params, prepared, boards }
}

#[divan::bench(args = Kind::ALL)]
fn draw_one(bencher: Bencher<'_, '_>, kind: Kind) {
    let mut index = 0;
    bencher.counter(ItemsCount::new(1usize)).bench_local(|| {
        index += 1;
        draw(kind, 1, index)
    });
}

#[divan::bench]
fn solve(bencher: Bencher<'_, '_>) {
    let set = generate(Kind::Mixed, 1, 100);
    bencher
        .counter(ItemsCount::new(set.len()))
        .bench_local(|| set.puzzles.iter().filter(|p| is_unique(divan::black_box(p))).count());
}

#[divan::bench(args = MAPS)]
fn forward_50(bencher: Bencher<'_, '_>, maps: &str) {
    let (s, mut tile) = (setting(maps), Tile::default());
    bencher.counter(ItemsCount::new(s.boards.len())).bench_local(|| {
        s.model.encode(&s.params, &s.prepared, &s.boards.puzzles, &mut tile);
        s.model.iterate(&s.prepared, 50, &mut tile, None);
        s.model.decode_last(&s.params, &s.prepared, &mut tile);
    });
}

#[divan::bench(args = MAPS)]
fn forward_and_reverse_20(bencher: Bencher<'_, '_>, maps: &str) {
    let (s, mut tile, mut grad) = (setting(maps), Tile::default(), TileGrad::default());
    grad.reset(&s.model);
    let (horizon, weight) = (Horizon::whole(20, 2), 1e-3);
    bencher.counter(ItemsCount::new(s.boards.len())).bench_local(|| {
        let (puzzles, solutions) = (&s.boards.puzzles, &s.boards.solutions);
        s.model.tile_grad(
            &s.params,
            &s.prepared,
            puzzles,
            solutions,
            horizon,
            weight,
            0,
            &mut tile,
            &mut grad,
        );
    });
}
