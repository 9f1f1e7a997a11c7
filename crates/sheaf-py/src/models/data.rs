//! Samples: generated mazes and puzzles, pictures, and shifts of pictures.

use std::collections::HashSet;
use std::path::PathBuf;

use pyo3::prelude::*;
use sheaf_admm::ErrorKind;
use sheaf_learn::limits::{MAX_SET_BYTES, product};
use sheaf_learn::task::Task;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{check_count, generate, generate_distinct};
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::pen::digits;
use sheaf_tasks::mnist::shifts::{Draw, Shift};
use sheaf_tasks::mnist::task::{Mnist, board};
use sheaf_tasks::sudoku::generate as puzzles;

use super::mnist::Pictures;
use crate::arrays::array;
use crate::errors::{Raised, wrong};
use crate::run::run;

/// Two arrays.
type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Mazes and their solutions; see `sheaf_admm.maze.generate`.
#[pyfunction]
pub fn maze_generate(
    py: Python<'_>,
    count: usize,
    height: usize,
    width: usize,
    min_path: usize,
    seed: u64,
    distinct: bool,
) -> PyResult<Pair<'_>> {
    let set = run(py, None, |_| {
        let shape = MazeShape::new(height, width, min_path)?;
        if distinct {
            check_count(&shape, count)?;
            generate_distinct(&shape, seed, count, &mut HashSet::new())
        } else {
            generate(&shape, seed, count)
        }
    })?;
    let shape = [set.len(), set.height, set.width];
    Ok((array(py, &shape, set.inputs)?, array(py, &shape, set.labels)?))
}

/// Puzzles and their solutions; see `sheaf_admm.sudoku.generate`.
#[pyfunction]
pub fn sudoku_generate<'py>(py: Python<'py>, count: usize, kind: &str, seed: u64) -> PyResult<Pair<'py>> {
    let kind: puzzles::Kind = kind.parse().raised()?;
    if product(&[count, 81, 2], MAX_SET_BYTES).is_none() {
        return Err(wrong(ErrorKind::OutOfRange, "count", "puzzles that memory can hold", count));
    }
    let set = run(py, None, |_| Ok(puzzles::generate(kind, seed, count)))?;
    let (shape, flat) = ([set.len(), 9, 9], |boards: Vec<[u8; 81]>| boards.into_iter().flatten().collect());
    Ok((array(py, &shape, flat(set.puzzles))?, array(py, &shape, flat(set.solutions))?))
}

fn pictures<'py>(py: Python<'py>, set: ImageSet) -> PyResult<Pair<'py>> {
    let shape = [set.len(), set.height, set.width];
    let labels: Vec<i64> = set.labels.iter().map(|&l| i64::from(l)).collect();
    Ok((array(py, &shape, set.images)?, array(py, &[labels.len()], labels)?))
}

/// Pictures and labels of a folder; see `sheaf_admm.mnist.read`.
#[pyfunction]
pub fn mnist_read(py: Python<'_>, folder: PathBuf, test: bool) -> PyResult<Pair<'_>> {
    let split = if test { Split::Test } else { Split::Train };
    let set = run(py, None, |_| ImageSet::read(&folder, split))?;
    pictures(py, set)
}

/// Drawn digits; see `sheaf_admm.mnist.digits`.
#[pyfunction]
pub fn mnist_digits(py: Python<'_>, count: usize, size: usize, seed: u64) -> PyResult<Pair<'_>> {
    let set = run(py, None, |_| digits(count, size, seed))?;
    pictures(py, set)
}

/// Shifted pictures and agents that see black; see `sheaf_admm.mnist.shift`.
#[pyfunction]
pub fn mnist_shift<'py>(
    py: Python<'py>,
    images: &Bound<'py, PyAny>,
    shift: &str,
    seed: u64,
    draw: u64,
) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)> {
    let shift: Shift = shift.parse().raised()?;
    let given = Pictures::read("images", images)?;
    let (height, width) = shift.size(given.height, given.width);
    if product(&[given.count, height, width, 4], MAX_SET_BYTES).is_none() {
        let got = format!("{} of {height} × {width}", given.count);
        return Err(wrong(ErrorKind::OutOfRange, "images", "pictures that memory can hold", got));
    }
    let agents = board(&Mnist::published().model, height, width).raised()?.layout.agents();
    let mut out = vec![0.0; given.count * height * width];
    let mut dropped = vec![false; given.count * agents];
    let pixels = given.height * given.width;
    for i in 0..given.count {
        let key = Draw { seed, draw, image: i as u64 };
        let to = &mut out[i * height * width..][..height * width];
        shift.apply(key, &given.values[i * pixels..][..pixels], given.width, to);
        shift.dropped(key, &mut dropped[i * agents..][..agents]);
    }
    let lead = if given.single { vec![] } else { vec![given.count] };
    let mask = match shift {
        Shift::Drop(_) => Some(array(py, &[lead.clone(), vec![agents]].concat(), dropped)?),
        _ => None,
    };
    Ok((array(py, &[lead, vec![height, width]].concat(), out)?, mask))
}
