//! Pictures: pixels in, classes out.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::sheaf::Connectivity;
use sheaf_admm::{ErrorKind, Result};
use sheaf_learn::model::evaluate::{SolveOptions, Solved, solve_all};
use sheaf_tasks::mnist::task::{MnistBoard, MnistWeights, PictureSamples, VoteReader, board};

use super::common::{self, Images, block};
use crate::arrays::{Held, array};
use crate::errors::{Raised, wrong};
use crate::run::{Stop, run};

/// Pictures as numbers in [0, 1].
pub struct Pictures {
    pub values: Vec<f32>,
    pub count: usize,
    pub height: usize,
    pub width: usize,
    pub single: bool,
}

impl Pictures {
    /// float32 in [0, 1], or uint8.
    pub fn read(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(images) = Images::<u8>::read(name, object) {
            let values = images.values()?.iter().map(|&pixel| f32::from(pixel) / 255.0).collect();
            let Images { count, height, width, single, .. } = images;
            return Ok(Self { values, count, height, width, single });
        }
        let images = Images::<f32>::read(name, object)?;
        let values = images.values()?.to_vec();
        sheaf_admm::error::check_finite(name, &values).raised()?;
        let Images { count, height, width, single, .. } = images;
        Ok(Self { values, count, height, width, single })
    }

    fn board(&self, w: &MnistWeights) -> PyResult<MnistBoard> {
        board(&w.experiment.model, self.height, self.width).raised()
    }
}

fn answers(
    w: &MnistWeights,
    board: &MnistBoard,
    pictures: &Pictures,
    dropped: Option<&[bool]>,
    options: &SolveOptions,
    stop: &Stop,
) -> Result<Vec<Solved<u8>>> {
    let (pixels, agents) = (board.layout.pixels(), board.layout.agents());
    let reader = VoteReader { classes: w.experiment.model.classes };
    let mut all = Vec::with_capacity(pictures.count);
    let block = block(options, agents);
    for (k, images) in pictures.values.chunks(block * pixels).enumerate() {
        stop.check()?;
        let count = images.len() / pixels;
        let dropped = dropped.map(|all| &all[k * block * agents..][..count * agents]);
        let samples = PictureSamples { grid: board.layout, images, dropped };
        all.extend(solve_all(&w.model, &w.params, &board.sheaf, &samples, &reader, options, &|_| {})?);
    }
    Ok(all)
}

pub fn predict<'py>(
    py: Python<'py>,
    w: &MnistWeights,
    inputs: &Bound<'py, PyAny>,
    dropped: Option<&Bound<'py, PyAny>>,
    options: SolveOptions,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let pictures = Pictures::read("pictures", inputs)?;
    let board = pictures.board(w)?;
    let mask = dropped.map(|mask| Held::<bool>::read("dropped", mask)).transpose()?;
    let mask = mask.as_ref().map(Held::values).transpose()?;
    let expected = pictures.count * board.layout.agents();
    if let Some(mask) = mask.filter(|mask| mask.len() != expected) {
        let expected = format!("[{}, {}]", pictures.count, board.layout.agents());
        return Err(wrong(ErrorKind::Shape, "dropped", expected, format!("{} numbers", mask.len())));
    }
    let solved = run(py, threads, |stop| answers(w, &board, &pictures, mask, &options, stop))?;
    let classes: Vec<i64> = solved.iter().map(|s| i64::from(s.answer)).collect();
    let shape = if pictures.single { vec![] } else { vec![pictures.count] };
    array(py, &shape, classes)
}

pub fn score(
    py: Python<'_>,
    w: &MnistWeights,
    inputs: &Bound<'_, PyAny>,
    labels: &Bound<'_, PyAny>,
    options: SolveOptions,
    threads: Option<usize>,
) -> PyResult<Vec<(&'static str, f64)>> {
    let pictures = Pictures::read("pictures", inputs)?;
    let board = pictures.board(w)?;
    let numpy = py.import("numpy")?;
    let labels = Held::<i64>::read("labels", &numpy.call_method1("ascontiguousarray", (labels, "int64"))?)?;
    if labels.shape() != [pictures.count] {
        let got = format!("{:?}", labels.shape());
        return Err(wrong(ErrorKind::Shape, "labels", format!("[{}]", pictures.count), got));
    }
    let solved = run(py, threads, |stop| answers(w, &board, &pictures, None, &options, stop))?;
    let right = solved.iter().zip(labels.values()?).filter(|(s, l)| i64::from(s.answer) == **l).count();
    let iterations = solved.iter().map(|s| s.iterations).sum::<usize>() as f64 / solved.len() as f64;
    Ok(vec![("accuracy", right as f64 / solved.len() as f64), ("iterations", iterations)])
}

/// One picture with its agents.
fn one(w: &MnistWeights, input: &Bound<'_, PyAny>) -> PyResult<(Pictures, MnistBoard)> {
    let pictures = Pictures::read("picture", input)?;
    if pictures.count != 1 {
        return Err(wrong(ErrorKind::Shape, "picture", "one sample", format!("{} samples", pictures.count)));
    }
    let board = pictures.board(w)?;
    Ok((pictures, board))
}

fn samples<'a>(pictures: &'a Pictures, board: &MnistBoard) -> PictureSamples<'a> {
    PictureSamples { grid: board.layout, images: &pictures.values, dropped: None }
}

pub fn trace<'py>(
    py: Python<'py>,
    w: &MnistWeights,
    input: &Bound<'py, PyAny>,
    iterations: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let (pictures, board) = one(w, input)?;
    let k = iterations.unwrap_or(w.experiment.iterations.eval);
    let reader = VoteReader { classes: w.experiment.model.classes };
    let samples = samples(&pictures, &board);
    common::trace(py, &w.model, &w.params, &board.sheaf, &samples, &reader, k, |answers| {
        array(py, &[answers.len()], answers.into_iter().map(i64::from).collect())
    })
}

pub fn problem<'py>(
    py: Python<'py>,
    w: &MnistWeights,
    input: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let (pictures, board) = one(w, input)?;
    let samples = samples(&pictures, &board);
    let (arrays, options) = common::problem(py, &w.model, &w.params, &board.sheaf, &samples)?;
    let (grid, four) = (board.layout, w.experiment.model.neighbours == 4);
    let connectivity = if four { Connectivity::Four } else { Connectivity::Eight };
    options.set_item("graph", common::grid(grid.rows(), grid.columns(), connectivity).raised()?)?;
    Ok((arrays, options))
}

pub fn decode<'py>(
    py: Python<'py>,
    w: &MnistWeights,
    input: &Bound<'py, PyAny>,
    x: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (pictures, board) = one(w, input)?;
    let reader = VoteReader { classes: w.experiment.model.classes };
    let samples = samples(&pictures, &board);
    let class = common::decode(py, &w.model, &w.params, &board.sheaf, &samples, &reader, x)?;
    array(py, &[], vec![i64::from(class)])
}
