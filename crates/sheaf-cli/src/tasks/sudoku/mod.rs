//! Sudoku, as the commands use it.

pub mod data;
mod eval;
pub mod solve;
mod story;

use std::path::Path;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::{MAX_BATCH, at_most};
use sheaf_learn::model::evaluate::SolveOptions;
use sheaf_learn::task::{Loaded, Task as _};
use sheaf_tasks::sudoku::data::SudokuSet;
use sheaf_tasks::sudoku::generate::{Kind, generate};
use sheaf_tasks::sudoku::metrics::score;
use sheaf_tasks::sudoku::rounds::Reading;
use sheaf_tasks::sudoku::task::{
    self, Sudoku, SudokuConfig, SudokuExperiment, SudokuModel, SudokuWeights, evaluate,
};
use sheaf_tasks::sudoku::views::{SLOTS, VIEWS};
use sheaf_tasks::sudoku::{CLASSES, csv};

use super::{BENCH_SEED, EvalRequest, Learned, TraceArrays};
use crate::report::Report;

/// Rows of a board, the only size.
const SIZE: usize = 9;

impl Learned for Sudoku {
    const BUILTIN: &'static [u8] = task::BUILTIN;
    const SIZES: &'static [usize] = &[SIZE];

    type Solve = solve::SolveArgs;
    type Draw = data::DataArgs;
    type Options = eval::Options;

    fn read(path: &Path) -> Result<SudokuSet> {
        Ok(csv::read(path, false)?.set)
    }

    fn evaluate_file(weights: &SudokuWeights, request: &EvalRequest, report: &mut Report) -> Result<()> {
        eval::evaluate_file(weights, request, report)
    }

    fn output_shape(_config: &SudokuConfig) -> Vec<usize> {
        vec![SLOTS, CLASSES]
    }

    fn traced(
        _weights: &SudokuWeights,
        set: &SudokuSet,
        index: usize,
        outputs: &[f32],
        trace: &mut TraceArrays,
    ) -> Result<()> {
        let (puzzle, solution) = (&set.puzzles[index], &set.solutions[index]);
        let boards: Vec<_> =
            outputs.chunks_exact(VIEWS * CLASSES).map(|o| Reading::of(o).predicted).collect();
        let predicted = boards.last().copied().unwrap_or(*puzzle);
        let score = score(puzzle, solution, &predicted);
        trace.report.solved(score.solved).value("valid", score.valid);
        for (name, board) in [("puzzle", puzzle), ("solution", solution), ("predicted", &predicted)] {
            trace.bytes.push((name, vec![SIZE, SIZE], board.to_vec()));
        }
        trace.bytes.push(("boards", vec![boards.len(), SIZE, SIZE], boards.as_flattened().to_vec()));
        Ok(())
    }

    fn bench_set(_config: &SudokuConfig, size: usize, count: usize) -> Result<SudokuSet> {
        check_size(size)?;
        at_most("--batch", "puzzles", MAX_BATCH, count)?;
        Ok(generate(Kind::Mixed, BENCH_SEED, count))
    }

    fn bench_data(experiment: &mut SudokuExperiment, size: usize) -> Result<Loaded<SudokuSet>> {
        check_size(size)?;
        let (data, batch) = (&mut experiment.data, experiment.train.batch);
        data.source = "generate".into();
        (data.count, data.test_count) = ((2 * batch).max(256), 1);
        data.symmetries &= batch.is_multiple_of(8);
        Self::load(experiment)
    }

    fn answer(
        config: &SudokuConfig,
        model: &SudokuModel,
        params: &[f32],
        set: &SudokuSet,
        options: &SolveOptions,
    ) -> Result<()> {
        evaluate(config, model, params, set, options, 1, &|_| {}).map(drop)
    }
}

fn check_size(size: usize) -> Result<()> {
    if size == SIZE {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Unsupported, "--size", "9, the only size of a Sudoku", size))
}
