//! How well a model completes a set of puzzles.
//!
//! A board runs a fixed number of iterations, or until it has *settled*: for `patience` iterations in a row, the agreed
//! state z moved less than `fraction` of the fastest it has moved so far. A board that has settled keeps the answer it
//! had then, while its tile goes on for the others.
//!
//! With several rounds ([`rounds`](super::rounds)) the boards that are not done yet go on together.

use rayon::prelude::*;
use sheaf_admm::Real;

use super::data::SudokuSet;
use super::metrics::{Score, Summary, score};
use super::model::{Prepared, Seen, SudokuModel, Tile, Workers};
use super::rounds::Reading;
use super::views::VIEWS;
use super::{BLANK, CELLS, CLASSES, Grid};
pub use crate::maze::evaluate::Settling;

/// How to evaluate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvalOptions {
    /// Iterations, or the limit when settling.
    pub iterations: usize,
    /// Stop each board when it has settled.
    pub settling: Option<Settling>,
    /// Rounds of negotiation, at most; 1 to take the answer of the first.
    pub rounds: usize,
}

impl EvalOptions {
    /// Exactly `iterations` iterations.
    pub fn fixed(iterations: usize) -> Self {
        Self { iterations, settling: None, rounds: 1 }
    }
}

/// What the model made of one puzzle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The predicted board.
    pub predicted: Grid,
    /// Iterations until it was taken, of all rounds.
    pub iterations: usize,
    /// Rounds it took.
    pub rounds: usize,
}

/// What an evaluation found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvalReport {
    /// Solved, valid, cells, blanks.
    pub summary: Summary,
    /// The same of the puzzles with one solution.
    pub unique: Summary,
    /// Iterations until the answers were taken, summed over boards.
    pub iterations: usize,
    /// Rounds they took, summed over boards.
    pub rounds: usize,
}

impl EvalReport {
    /// Mean iterations of a board.
    pub fn mean_iterations(&self) -> f64 {
        self.iterations as f64 / self.summary.boards.max(1) as f64
    }

    /// Mean rounds of a board.
    pub fn mean_rounds(&self) -> f64 {
        self.rounds as f64 / self.summary.boards.max(1) as f64
    }
}

/// Answers to `puzzles`, in order, found on all cores. They do not depend on the number of cores. `progress` is told
/// how many boards are done, some at a time.
pub fn answer<T: Real>(
    model: &SudokuModel,
    params: &[T],
    puzzles: &[Grid],
    options: &EvalOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> Vec<Answer> {
    let (mut prepared, workers) = (Prepared::default(), Workers::default());
    model.prepare(params, &mut prepared);
    let mut boards: Vec<Grid> = puzzles.to_vec();
    let mut answers = vec![Answer { predicted: [BLANK; CELLS], iterations: 0, rounds: 0 }; puzzles.len()];
    let mut open: Vec<usize> = (0..puzzles.len()).collect();
    for left in (0..options.rounds).rev() {
        let asked: Vec<Grid> = open.iter().map(|&i| boards[i]).collect();
        let read = |puzzles: &[Grid]| {
            let readings = workers.with(|tile| read_tile(model, params, &prepared, puzzles, options, tile));
            let last = readings.iter().zip(puzzles).filter(|((r, _), board)| left == 0 || r.completes(board));
            progress(last.count());
            readings
        };
        let readings: Vec<(Reading, usize)> =
            asked.par_chunks(model.tile()).with_max_len(1).flat_map_iter(read).collect();
        let mut readings = readings.iter();
        open.retain(|&i| {
            let (reading, iterations) = readings.next().expect("a reading of every open board");
            answers[i].predicted = reading.predicted;
            answers[i].iterations += iterations;
            answers[i].rounds += 1;
            let goes_on = left > 0 && !reading.completes(&boards[i]);
            if goes_on {
                reading.commit(&mut boards[i], left);
            }
            goes_on
        });
    }
    answers
}

/// One round: what the agents say of every board, and after how many iterations.
fn read_tile<T: Real>(
    model: &SudokuModel,
    params: &[T],
    prepared: &Prepared<T>,
    puzzles: &[Grid],
    options: &EvalOptions,
    tile: &mut Tile<T>,
) -> Vec<(Reading, usize)> {
    model.encode(params, prepared, puzzles, tile);
    let iterations = match options.settling {
        None => vec![model.iterate(prepared, options.iterations, tile, None); puzzles.len()],
        Some(settling) => {
            let mut paces = vec![Pace::new(settling); puzzles.len()];
            let n = model.state_len();
            let mut held: Vec<T> = Vec::new();
            let mut observer = |seen: Seen<'_, T>| {
                held.resize(seen.x.len(), T::ZERO);
                for (board, pace) in paces.iter_mut().enumerate() {
                    let own = board * n..(board + 1) * n;
                    if !pace.settled() {
                        held[own.clone()].copy_from_slice(&seen.x[own.clone()]);
                        let z = seen.w[own.clone()].iter().zip(&seen.g[own]);
                        pace.look(z.map(|(&w, &g)| (w + g).to_f64()));
                    }
                }
                !paces.iter().all(Pace::settled)
            };
            model.iterate(prepared, options.iterations, tile, Some(&mut observer));
            tile.set_x(&held);
            paces.iter().map(|pace| pace.seen).collect()
        }
    };
    model.decode_last(params, prepared, tile);
    let logits = tile.logits().chunks_exact(VIEWS * CLASSES);
    logits.zip(iterations).map(|(logits, iterations)| (Reading::of(logits), iterations)).collect()
}

/// The number of iterations after which a board with these agreed states has settled, if it has.
pub fn settled_after<T: Real>(
    z: &[T], // [K, 27, d_v]
    state_len: usize,
    settling: Settling,
) -> Option<usize> {
    let mut pace = Pace::new(settling);
    z.chunks_exact(state_len)
        .position(|z| {
            pace.look(z.iter().map(|z| z.to_f64()));
            pace.settled()
        })
        .map(|last| last + 1)
}

/// Watches how fast z moves.
#[derive(Clone, Debug)]
struct Pace {
    settling: Settling,
    z: Vec<f64>, // [27, d_v]
    fastest: f64,
    slow: usize,
    seen: usize,
}

impl Pace {
    fn new(settling: Settling) -> Self {
        Self { settling, z: Vec::new(), fastest: 0.0, slow: 0, seen: 0 }
    }

    fn settled(&self) -> bool {
        self.slow >= self.settling.patience
    }

    fn look(&mut self, z: impl Iterator<Item = f64>) {
        self.seen += 1;
        if self.z.is_empty() {
            self.z.extend(z);
            return;
        }
        let mut square = 0.0;
        for (old, new) in self.z.iter_mut().zip(z) {
            square += (new - *old) * (new - *old);
            *old = new;
        }
        let speed = square.sqrt();
        self.fastest = self.fastest.max(speed);
        self.slow = if speed < self.settling.fraction * self.fastest { self.slow + 1 } else { 0 };
    }
}

/// Evaluates all puzzles of a set on all cores.
pub fn evaluate<T: Real>(
    model: &SudokuModel,
    params: &[T],
    set: &SudokuSet,
    options: &EvalOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> EvalReport {
    let mut report = EvalReport::default();
    for (i, answer) in answer(model, params, &set.puzzles, options, progress).iter().enumerate() {
        let score: Score = score(&set.puzzles[i], &set.solutions[i], &answer.predicted);
        report.summary.add(&score);
        if !set.ambiguous[i] {
            report.unique.add(&score);
        }
        report.iterations += answer.iterations;
        report.rounds += answer.rounds;
    }
    report
}
