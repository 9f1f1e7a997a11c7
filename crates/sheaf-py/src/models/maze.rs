//! Mazes: tokens in, tokens with the path out.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::sheaf::Connectivity;
use sheaf_admm::{ErrorKind, Result};
use sheaf_learn::model::evaluate::{SolveOptions, Solved};
use sheaf_tasks::maze::data::MazeSet;
use sheaf_tasks::maze::task::{MazeReader, MazeSamples, MazeWeights, board, solve, summarise};

use super::common::{self, Images, block};
use crate::arrays::array;
use crate::errors::{Raised, wrong};
use crate::run::{Stop, run};

/// Tokens of mazes: 1 wall, 2 empty, 3 start, 4 goal, 5 path.
const TOKENS: std::ops::RangeInclusive<u8> = 1..=5;

fn read<'py>(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Images<'py, u8>> {
    let images = Images::<u8>::read(name, object)?;
    match images.values()?.iter().position(|token| !TOKENS.contains(token)) {
        None => Ok(images),
        Some(i) => {
            let place = format!("{name}: pixel {i}");
            let expected = "1 (wall), 2 (empty), 3 (start), 4 (goal) or 5 (path)";
            Err(wrong(ErrorKind::OutOfRange, &place, expected, images.values()?[i]))
        }
    }
}

/// Solves all mazes, some at a time.
fn answers(
    w: &MazeWeights,
    set: &MazeSet,
    options: &SolveOptions,
    stop: &Stop,
) -> Result<Vec<Solved<Vec<u8>>>> {
    let (size, mut all) = (set.pixels(), Vec::with_capacity(set.len()));
    let block = block(options, size / 4) * size;
    for (inputs, labels) in set.inputs.chunks(block).zip(set.labels.chunks(block)) {
        stop.check()?;
        let part = MazeSet { inputs: inputs.to_vec(), labels: labels.to_vec(), ..*set };
        all.extend(solve(&w.experiment.model, &w.model, &w.params, &part, options, &|_| {})?);
    }
    Ok(all)
}

fn set(inputs: &Images<'_, u8>, labels: &Images<'_, u8>) -> PyResult<MazeSet> {
    let shape = |images: &Images<'_, u8>| [images.count, images.height, images.width];
    if shape(inputs) != shape(labels) {
        let (expected, got) = (format!("{:?}", shape(inputs)), format!("{:?}", shape(labels)));
        return Err(wrong(ErrorKind::Shape, "labels", expected, got));
    }
    let (inputs, labels) = (inputs, labels.values()?.to_vec());
    Ok(MazeSet { height: inputs.height, width: inputs.width, inputs: inputs.values()?.to_vec(), labels })
}

pub fn predict<'py>(
    py: Python<'py>,
    w: &MazeWeights,
    inputs: &Bound<'py, PyAny>,
    options: SolveOptions,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let images = read("mazes", inputs)?;
    let set = set(&images, &images)?;
    let solved = run(py, threads, |stop| answers(w, &set, &options, stop))?;
    let tokens = solved.into_iter().flat_map(|s| s.answer).collect();
    array(py, &images.shape(&[images.height, images.width]), tokens)
}

pub fn score(
    py: Python<'_>,
    w: &MazeWeights,
    inputs: &Bound<'_, PyAny>,
    labels: &Bound<'_, PyAny>,
    options: SolveOptions,
    threads: Option<usize>,
) -> PyResult<Vec<(&'static str, f64)>> {
    let set = set(&read("mazes", inputs)?, &read("labels", labels)?)?;
    let solved = run(py, threads, |stop| answers(w, &set, &options, stop))?;
    let summary = summarise(&set, &solved);
    let iterations = solved.iter().map(|s| s.iterations).sum::<usize>() as f64 / solved.len() as f64;
    Ok(vec![
        ("solved", summary.solved_rate()),
        ("valid", summary.valid_rate()),
        ("connected", summary.connected_rate()),
        ("cell_accuracy", summary.cell_accuracy()),
        ("iterations", iterations),
    ])
}

/// One maze as the model takes it.
struct One<'py> {
    images: Images<'py, u8>,
    board: sheaf_tasks::maze::task::MazeBoard,
}

impl<'py> One<'py> {
    fn read(w: &MazeWeights, input: &Bound<'py, PyAny>) -> PyResult<Self> {
        let images = read("maze", input)?;
        images.need_one("maze")?;
        let board = board(&w.experiment.model, images.height, images.width).raised()?;
        Ok(Self { images, board })
    }

    fn samples(&self) -> PyResult<MazeSamples<'_>> {
        Ok(MazeSamples { grid: self.board.layout, inputs: self.images.values()?, labels: &[] })
    }
}

pub fn trace<'py>(
    py: Python<'py>,
    w: &MazeWeights,
    input: &Bound<'py, PyAny>,
    iterations: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let one = One::read(w, input)?;
    let (samples, k) = (one.samples()?, iterations.unwrap_or(w.experiment.iterations.eval));
    let (height, width) = (one.images.height, one.images.width);
    let predicted = |answers: Vec<Vec<u8>>| array(py, &[answers.len(), height, width], answers.concat());
    let reader = MazeReader(samples);
    common::trace(py, &w.model, &w.params, &one.board.sheaf, &samples, &reader, k, predicted)
}

pub fn problem<'py>(
    py: Python<'py>,
    w: &MazeWeights,
    input: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let one = One::read(w, input)?;
    let (arrays, options) = common::problem(py, &w.model, &w.params, &one.board.sheaf, &one.samples()?)?;
    let grid = one.board.layout;
    options.set_item("graph", common::grid(grid.rows(), grid.columns(), Connectivity::Eight).raised()?)?;
    Ok((arrays, options))
}

pub fn decode<'py>(
    py: Python<'py>,
    w: &MazeWeights,
    input: &Bound<'py, PyAny>,
    x: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let one = One::read(w, input)?;
    let samples = one.samples()?;
    let reader = MazeReader(samples);
    let tokens = common::decode(py, &w.model, &w.params, &one.board.sheaf, &samples, &reader, x)?;
    array(py, &[one.images.height, one.images.width], tokens)
}

/// Where the agents of a maze of this size stand: rows and columns of their centres.
#[pyfunction]
#[pyo3(signature = (height, width))]
pub fn maze_centres<'py>(py: Python<'py>, height: usize, width: usize) -> PyResult<Bound<'py, PyAny>> {
    let experiment = <sheaf_tasks::maze::task::Maze as sheaf_learn::task::Task>::published();
    let grid = board(&experiment.model, height, width).raised()?.layout;
    let centres: Vec<i64> = (0..grid.agents())
        .flat_map(|agent| {
            let (row, column) = grid.centre(agent);
            [row as i64, column as i64]
        })
        .collect();
    array(py, &[grid.agents(), 2], centres)
}
