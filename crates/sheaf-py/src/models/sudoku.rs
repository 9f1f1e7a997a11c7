//! Puzzles: givens in, boards out.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::sheaf::AgentGraph;
use sheaf_admm::{ErrorKind, Result};
use sheaf_learn::model::evaluate::{SolveOptions, solve_all};
use sheaf_tasks::sudoku::Grid;
use sheaf_tasks::sudoku::metrics;
use sheaf_tasks::sudoku::rounds::{Answer, in_rounds};
use sheaf_tasks::sudoku::task::{BoardReader, Boards, SudokuWeights, board};

use super::common::{self, Images, block};
use crate::arrays::array;
use crate::errors::{Raised, wrong};
use crate::graph::Graph;
use crate::run::{Stop, run};

/// Boards `[n, 9, 9]` or one `[9, 9]`, and whether it was one.
fn read(name: &str, object: &Bound<'_, PyAny>) -> PyResult<(Vec<Grid>, bool)> {
    let images = Images::<u8>::read(name, object)?;
    if (images.height, images.width) != (9, 9) {
        let got = format!("{} rows and {} columns", images.height, images.width);
        return Err(wrong(ErrorKind::Shape, name, "[n, 9, 9] or [9, 9]", got));
    }
    let values = images.values()?;
    if let Some(cell) = values.iter().position(|&digit| digit > 9) {
        let place = format!("{name}: cell {cell}");
        return Err(wrong(ErrorKind::OutOfRange, &place, "0 for a blank, or a digit", values[cell]));
    }
    let boards = values.chunks_exact(81).map(|cells| {
        let mut board: Grid = [0; 81];
        board.copy_from_slice(cells);
        board
    });
    Ok((boards.collect(), images.single))
}

fn answers(
    w: &SudokuWeights,
    puzzles: &[Grid],
    options: &SolveOptions,
    rounds: usize,
    stop: &Stop,
) -> Result<Vec<Answer>> {
    let sheaf = board(&w.experiment.model)?.sheaf;
    let mut all = Vec::with_capacity(puzzles.len());
    for part in puzzles.chunks(block(options, sheaf.agents())) {
        all.extend(in_rounds(part, rounds, &|_| {}, |puzzles, progress| {
            stop.check()?;
            let boards = Boards { puzzles, solutions: &[] };
            solve_all(&w.model, &w.params, &sheaf, &boards, &BoardReader(puzzles), options, progress)
        })?);
    }
    Ok(all)
}

pub fn predict<'py>(
    py: Python<'py>,
    w: &SudokuWeights,
    inputs: &Bound<'py, PyAny>,
    options: SolveOptions,
    rounds: usize,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let (puzzles, single) = read("puzzles", inputs)?;
    let answers = run(py, threads, |stop| answers(w, &puzzles, &options, rounds, stop))?;
    let digits: Vec<u8> = answers.iter().flat_map(|a| a.predicted).collect();
    let shape = if single { vec![9, 9] } else { vec![answers.len(), 9, 9] };
    array(py, &shape, digits)
}

pub fn score(
    py: Python<'_>,
    w: &SudokuWeights,
    inputs: &Bound<'_, PyAny>,
    labels: &Bound<'_, PyAny>,
    options: SolveOptions,
    rounds: usize,
    threads: Option<usize>,
) -> PyResult<Vec<(&'static str, f64)>> {
    let ((puzzles, _), (solutions, _)) = (read("puzzles", inputs)?, read("labels", labels)?);
    if puzzles.len() != solutions.len() {
        return Err(wrong(ErrorKind::Shape, "labels", format!("{} boards", puzzles.len()), solutions.len()));
    }
    let answers = run(py, threads, |stop| answers(w, &puzzles, &options, rounds, stop))?;
    let mut summary = metrics::Summary::default();
    for (i, answer) in answers.iter().enumerate() {
        summary.add(&metrics::score(&puzzles[i], &solutions[i], &answer.predicted));
    }
    let mean = |of: fn(&Answer) -> usize| answers.iter().map(of).sum::<usize>() as f64 / answers.len() as f64;
    Ok(vec![
        ("solved", summary.solved_rate()),
        ("valid", summary.valid_rate()),
        ("cell_accuracy", summary.cell_accuracy()),
        ("blank_accuracy", summary.blank_accuracy()),
        ("iterations", mean(|a| a.iterations)),
        ("rounds", mean(|a| a.rounds)),
    ])
}

fn one(input: &Bound<'_, PyAny>) -> PyResult<Vec<Grid>> {
    let (puzzles, _) = read("puzzle", input)?;
    if puzzles.len() == 1 {
        return Ok(puzzles);
    }
    Err(wrong(ErrorKind::Shape, "puzzle", "one sample", format!("{} samples", puzzles.len())))
}

pub fn trace<'py>(
    py: Python<'py>,
    w: &SudokuWeights,
    input: &Bound<'py, PyAny>,
    iterations: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let (puzzles, sheaf) = (one(input)?, board(&w.experiment.model).raised()?.sheaf);
    let (boards, k) =
        (Boards { puzzles: &puzzles, solutions: &[] }, iterations.unwrap_or(w.experiment.iterations.eval));
    common::trace(py, &w.model, &w.params, &sheaf, &boards, &BoardReader(&puzzles), k, |answers| {
        let digits = answers.iter().flat_map(|a| a.predicted).collect();
        array(py, &[answers.len(), 9, 9], digits)
    })
}

pub fn problem<'py>(
    py: Python<'py>,
    w: &SudokuWeights,
    input: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let (puzzles, sheaf) = (one(input)?, board(&w.experiment.model).raised()?.sheaf);
    let boards = Boards { puzzles: &puzzles, solutions: &[] };
    let (arrays, options) = common::problem(py, &w.model, &w.params, &sheaf, &boards)?;
    options.set_item("graph", Graph { inner: AgentGraph::sudoku() })?;
    Ok((arrays, options))
}

pub fn decode<'py>(
    py: Python<'py>,
    w: &SudokuWeights,
    input: &Bound<'py, PyAny>,
    x: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (puzzles, sheaf) = (one(input)?, board(&w.experiment.model).raised()?.sheaf);
    let boards = Boards { puzzles: &puzzles, solutions: &[] };
    let reader = BoardReader(&puzzles);
    let answer = common::decode(py, &w.model, &w.params, &sheaf, &boards, &reader, x)?;
    array(py, &[9, 9], answer.predicted.to_vec())
}
