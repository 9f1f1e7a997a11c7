//! How well a model solves a set of mazes.
//!
//! A maze runs a fixed number of iterations, or until it has *settled*: for `patience` iterations in a row, every
//! agent's agreed state z moved less than `fraction` of the fastest any agent has moved so far (an agent's speed is
//! ‖z − z_prev‖, its dual residual over ρ). This is free of units and needs nothing but the residuals. The fastest
//! agent counts and not all together, because in a large maze a path that still grows moves few agents at a time.

use rayon::prelude::*;
use sheaf_admm::admm::{Iteration, Mode, Options};
use sheaf_admm::{Real, Result};

use super::data::MazeSet;
use super::metrics::{Judge, Score, Summary, argmax, reassemble};
use super::model::{Batch, Board, MazeModel, Sample};
use super::{CLASSES, PATH};

/// Mazes encoded together.
const TILE: usize = 128;

/// When a maze has settled; see the module's introduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settling {
    /// How slow, relative to the fastest.
    pub fraction: f64,
    /// For how many iterations in a row.
    pub patience: usize,
}

impl Default for Settling {
    fn default() -> Self {
        Self { fraction: 0.01, patience: 5 }
    }
}

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
        let tables = batch.tables();
        let mut first = None;
        let mut pace = Pace::new(options.settling);
        let mut observer = |seen: &Iteration<'_, '_, T>| {
            if options.first_solve && first.is_none() {
                model.decode_states(params, tables, index, seen.x, look);
                reassemble(&board.grid, look.logits(agents), picture);
                argmax(picture, predicted);
                let same = label.iter().zip(predicted.iter()).all(|(&l, &p)| (l == PATH) == (p == PATH));
                first = same.then_some(seen.k + 1);
            }
            !pace.settled(seen)
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

/// Watches how fast z moves.
pub(super) struct Pace {
    settling: Option<Settling>,
    fastest: f64,
    slow: usize,
}

impl Pace {
    pub(super) fn new(settling: Option<Settling>) -> Self {
        Self { settling, fastest: 0.0, slow: 0 }
    }

    pub(super) fn settled<T: Real>(&mut self, seen: &Iteration<'_, '_, T>) -> bool {
        let Some(settling) = self.settling else { return false };
        let agents = seen.op.sheaf().state_offsets().windows(2);
        let square = |k: usize| ((seen.z[k] - seen.z_prev[k]) * (seen.z[k] - seen.z_prev[k])).to_f64();
        let speed = agents.map(|a| (a[0]..a[1]).map(square).sum::<f64>()).fold(0.0, f64::max).sqrt();
        self.fastest = self.fastest.max(speed);
        self.slow = if speed < settling.fraction * self.fastest { self.slow + 1 } else { 0 };
        self.slow >= settling.patience
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
