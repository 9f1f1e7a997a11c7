//! How fast the Sudoku models run: `cargo run --release --example sudoku_speed [MAPS] [TILE…]`.
//!
//! Tells CPU time of one core, the best of some rounds, because other work on the machine disturbs the clock on the wall.
//! TILE is the number of boards whose products are one; the model's own choice if not given.

use sheaf_tasks::sudoku::generate::{Kind, generate};
use sheaf_tasks::sudoku::model::{Horizon, Prepared, SudokuConfig, SudokuModel, Tile, TileGrad};

/// Boards of a round: the system counts CPU time in steps of some milliseconds.
const ROUND: usize = 24;
const ROUNDS: usize = 9;

/// Seconds of CPU time of this thread.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
}

/// Seconds of CPU time per board, of the best of some rounds: the one that other work disturbed least; and of the
/// middle one.
fn best(boards: usize, mut run: impl FnMut()) -> (f64, f64) {
    let runs = ROUND / boards;
    let round = |_| {
        let before = cpu();
        (0..runs).for_each(|_| run());
        (cpu() - before) / (runs * boards) as f64
    };
    let mut times: Vec<f64> = (0..ROUNDS).map(round).collect();
    times.sort_by(f64::total_cmp);
    (times[0], times[ROUNDS / 2])
}

fn told(what: &str, boards: usize, (best, middle): (f64, f64)) {
    println!(
        "{what}, tiles of {boards}: {:.2} ms of CPU per board ({:.2} in the middle), {:.0} boards/s on two free cores",
        best * 1e3,
        middle * 1e3,
        2.0 / best
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let maps = arguments.next().unwrap_or("slot".into());
    let config = SudokuConfig { maps: maps.clone(), ..SudokuConfig::default() };
    let model = SudokuModel::new(config).expect("slot, low-rank or orthonormal");
    let mut tiles: Vec<usize> = arguments.map(|t| t.parse().expect("a number of boards")).collect();
    if tiles.is_empty() {
        tiles.push(model.tile());
    }
    let params: Vec<f32> = model.init(42);
    let mut prepared = Prepared::default();
    model.prepare(&params, &mut prepared);
    let (mut tile, mut grad) = (Tile::default(), TileGrad::default());
    grad.reset(&model);
    for boards in tiles {
        let set = generate(Kind::Mixed, 1, boards);
        let horizon = Horizon::whole(20, 2);
        let train = best(boards, || {
            let (puzzles, solutions) = (&set.puzzles, &set.solutions);
            model.tile_grad(&params, &prepared, puzzles, solutions, horizon, 1e-3, 0, &mut tile, &mut grad);
        });
        told(&format!("{maps}, training, K = 20"), boards, train);
        let eval = best(boards, || {
            model.encode(&params, &prepared, &set.puzzles, &mut tile);
            model.iterate(&prepared, 50, &mut tile, None);
            model.decode_last(&params, &prepared, &mut tile);
        });
        told(&format!("{maps}, evaluation, K = 50"), boards, eval);
    }
}
