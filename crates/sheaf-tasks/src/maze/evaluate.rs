//! How well a model solves a set of mazes.
//!
//! A maze runs a fixed number of iterations, or until it has [settled](super::settle).

use rayon::prelude::*;
use sheaf_admm::admm::{Iteration, Mode, Options};
use sheaf_admm::{Real, Result};

use super::data::MazeSet;
use super::metrics::{Judge, Score, Summary, argmax, reassemble};
use super::model::{Batch, Board, MazeModel, Sample};
use super::settle::Settler;
pub use super::settle::Settling;
use super::{CLASSES, PATH};

/// Mazes encoded together.
const TILE: usize = 128;

/// How to evaluate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvalOptions {
    /// Iterations, or the limit when settling.
    pub iterations: usize,
    /// Stop each maze when it has settled.
    pub settling: Option<Settling>,
    /// Decode after every iteration to find the first at which the maze is solved. About doubles the cost.
    pub first_solve: bool,
}

/// What an evaluation found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvalReport {
    /// Solved, valid, cells.
    pub summary: Summary,
    /// Iterations that ran, summed over mazes.
    pub iterations: usize,
    /// First solving iteration (from 1), summed over the mazes that were ever solved.
    pub first_solve: usize,
    /// Mazes that were solved at some iteration.
    pub ever_solved: usize,
}

impl EvalReport {
    /// Mean iterations of a maze.
    pub fn mean_iterations(&self) -> f64 {
        self.iterations as f64 / self.summary.mazes.max(1) as f64
    }

    /// Mean first solving iteration of the mazes that were ever solved.
    pub fn mean_first_solve(&self) -> Option<f64> {
        (self.ever_solved > 0).then(|| self.first_solve as f64 / self.ever_solved as f64)
    }

    /// Adds what was found elsewhere.
    pub fn merge(mut self, other: Self) -> Self {
        self.summary.merge(&other.summary);
        self.iterations += other.iterations;
        self.first_solve += other.first_solve;
        self.ever_solved += other.ever_solved;
        self
    }
}

/// Buffers of one worker.
#[derive(Debug, Default)]
pub struct Evaluator<T: Copy + Default> {
    solve: Sample<T>,
    look: Sample<T>,
    picture: Vec<T>,    // [height, width, CLASSES]
    predicted: Vec<u8>, // [height, width]
    judge: Judge,
    settler: Settler,
}

impl<T: Real> Evaluator<T> {
    /// The last prediction, `[height, width]`.
    pub fn predicted(&self) -> &[u8] {
        &self.predicted
    }

    /// The last averaged logits, `[height, width, CLASSES]`.
    pub fn picture(&self) -> &[T] {
        &self.picture
    }

    /// Solves and judges maze `i` of those in `batch`.
    pub fn run(
        &mut self,
        model: &MazeModel,
        params: &[T],
        board: &Board,
        batch: &Batch<T>,
        i: usize,
        input: &[u8],
        label: &[u8],
        options: &EvalOptions,
    ) -> Result<(Score, EvalReport)> {
        let agents = board.sheaf.agents();
        let index = &batch.views().index()[i * agents..][..agents];
        self.picture.resize(board.grid.pixels() * CLASSES, T::ZERO);
        self.predicted.resize(board.grid.pixels(), 0);
        let (look, picture, predicted) = (&mut self.look, &mut self.picture, &mut self.predicted);
        let (tables, settler) = (batch.tables(), &mut self.settler);
        let mut first = None;
        settler.reset(options.settling);
        let mut observer = |seen: &Iteration<'_, '_, T>| {
            let (searching, looking) = (options.first_solve && first.is_none(), settler.looks(seen.k));
            if searching || looking {
                model.decode_states(params, tables, index, seen.x, look);
                reassemble(&board.grid, look.logits(agents), picture);
                argmax(picture, predicted);
            }
            if searching {
                let same = label.iter().zip(predicted.iter()).all(|(&l, &p)| (l == PATH) == (p == PATH));
                first = same.then_some(seen.k + 1);
            }
            let stands = looking && settler.stands(input, predicted, board.grid.width());
            !(settler.quiet(seen) || stands)
        };
        let z_update = model.z_update();
        let fixed = Options::fixed(options.iterations);
        let solve = &mut self.solve;
        let report = model.solve(
            params,
            board,
            tables,
            index,
            &z_update,
            &fixed,
            Mode::Solve,
            solve,
            &mut observer,
        )?;
        model.decode(params, tables, index, solve);
        reassemble(&board.grid, solve.logits(agents), picture);
        argmax(picture, predicted);
        let score = self.judge.score(input, label, predicted, board.grid.width());
        let mut summary = Summary::default();
        summary.add(&score);
        let told = EvalReport {
            summary,
            iterations: report.iterations,
            first_solve: first.unwrap_or(0),
            ever_solved: usize::from(first.is_some()),
        };
        Ok((score, told))
    }
}

/// Evaluates all mazes of a set on all cores. The answer does not depend on their number.
pub fn evaluate<T: Real>(
    model: &MazeModel,
    params: &[T],
    set: &MazeSet,
    options: &EvalOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<EvalReport> {
    let each = evaluate_each(model, params, set, options, progress)?;
    Ok(each.into_iter().fold(EvalReport::default(), EvalReport::merge))
}

/// The same, maze by maze, in the order of the set.
pub fn evaluate_each<T: Real>(
    model: &MazeModel,
    params: &[T],
    set: &MazeSet,
    options: &EvalOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<EvalReport>> {
    let board = model.board(set.height, set.width)?;
    let mut batch = Batch::<T>::default();
    let mut all = Vec::with_capacity(set.len());
    for first in (0..set.len()).step_by(TILE) {
        let last = (first + TILE).min(set.len());
        batch.encode(model, params, &board, &set.inputs[first * set.pixels()..last * set.pixels()])?;
        let told: Result<Vec<_>> = (first..last)
            .into_par_iter()
            .with_max_len(1)
            .map_init(Evaluator::default, |worker, i| {
                let (input, label) = (set.input(i), set.label(i));
                let told = worker.run(model, params, &board, &batch, i - first, input, label, options)?.1;
                progress(1);
                Ok(told)
            })
            .collect();
        all.append(&mut told?);
    }
    Ok(all)
}
