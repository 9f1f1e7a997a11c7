//! Sets of mazes as `.npz` files: arrays `inputs` and `labels`, uint8 `[mazes, height, width]`.

use std::path::Path;

use rayon::prelude::*;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::product;

use super::data::{MAX_PIXELS, MazeSet};
use super::metrics::Judge;
use super::solve::Solver;
use super::{EMPTY, GOAL, PATH, START, WALL};
use crate::npz::{self, Array, Npz, Values};

impl MazeSet {
    /// Reads a set and checks every maze: known tokens, one start, one goal, and a label that equals the input with
    /// the cells of one unbroken path from start to goal marked.
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_npz(&Npz::read(path)?)
    }

    /// The set in an opened file; see [`MazeSet::read`].
    pub fn from_npz(file: &Npz) -> Result<Self> {
        let ([count, height, width], inputs) = tokens(file, "inputs")?;
        let (label_shape, labels) = tokens(file, "labels")?;
        if label_shape != [count, height, width] {
            let expected = format!("the shape of `inputs`, {:?}", [count, height, width]);
            let place = format!("{}, array `labels`", file.place());
            return Err(Error::new(ErrorKind::Shape, place, expected, format_args!("{label_shape:?}")));
        }
        if product(&[height, width], MAX_PIXELS).is_none() {
            let (place, want) =
                (format!("{}, array `inputs`", file.place()), format!("at most {MAX_PIXELS} pixels a maze"));
            return Err(Error::new(ErrorKind::OutOfRange, place, want, format_args!("{height} × {width}")));
        }
        let set = Self { height, width, inputs, labels };
        for i in 0..set.len() {
            check(set.input(i), set.label(i)).map_err(|(expected, got)| {
                Error::new(ErrorKind::Malformed, format!("{}, maze {i}", file.place()), expected, got).hint(
                    "tokens are 1 wall, 2 empty, 3 start, 4 goal, and in labels 5 for the cells between them",
                )
            })?;
        }
        set.check_paths(file.place())?;
        Ok(set)
    }

    /// Checks that every label marks a path from start to goal and nothing else; the error lists the mazes.
    fn check_paths(&self, place: &str) -> Result<()> {
        const TOLD: usize = 10;
        let wrong: Vec<usize> = (0..self.len())
            .into_par_iter()
            .map_init(Judge::default, |judge, i| judge.valid(self.input(i), self.label(i), self.width))
            .enumerate()
            .filter_map(|(i, valid)| (!valid).then_some(i))
            .collect();
        let Some(&first) = wrong.first() else { return Ok(()) };
        let mut label = vec![0; self.pixels()];
        let walled = Solver::default().label(self.input(first), self.width, &mut label).is_none();
        let why = if walled { "walls between start and goal" } else { "a label that is no such path" };
        let mut list: Vec<String> = wrong.iter().take(TOLD).map(ToString::to_string).collect();
        if wrong.len() > TOLD {
            list.push(format!("and {} more", wrong.len() - TOLD));
        }
        let got = format!("none in {} of {} mazes: {}", wrong.len(), self.len(), list.join(", "));
        let place = format!("{place}, maze {first} ({why})");
        Err(Error::new(
            ErrorKind::Infeasible,
            place,
            "one unbroken path from start to goal in each label",
            got,
        )
        .hint("leave these mazes out, or make labels with `sheaf data maze`"))
    }

    /// Writes the set, through a temporary file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let shape = vec![self.len(), self.height, self.width];
        let inputs = Array::new(shape.clone(), Values::U8(self.inputs.clone()))?;
        let labels = Array::new(shape, Values::U8(self.labels.clone()))?;
        npz::write(path, &[("inputs", &inputs), ("labels", &labels)])
    }
}

/// An array of token pictures.
fn tokens(file: &Npz, name: &str) -> Result<([usize; 3], Vec<u8>)> {
    let array = file.array(name)?;
    let place = format!("{}, array `{name}`", file.place());
    let got = format!("{} {:?}", array.values().dtype(), array.shape());
    let shape = <[usize; 3]>::try_from(array.shape()).ok().filter(|s| !s.contains(&0));
    let Some(shape) = shape else {
        return Err(Error::new(ErrorKind::Shape, place, "uint8 [mazes, height, width], none of them 0", got)
            .hint("one picture of tokens per maze, as `sheaf data maze` writes them"));
    };
    match array.into_values() {
        Values::U8(values) => Ok((shape, values)),
        _ => Err(Error::new(ErrorKind::Malformed, place, "uint8 [mazes, height, width]", got)
            .hint(format!("in Python: {name}.astype(numpy.uint8) before saving"))),
    }
}

/// What is wrong with a maze, as (expected, got).
fn check(input: &[u8], label: &[u8]) -> Result<(), (String, String)> {
    if let Some(&token) = input.iter().find(|t| !(WALL..=GOAL).contains(t)) {
        return Err(("input tokens from 1 to 4".into(), token.to_string()));
    }
    for (name, token) in [("start", START), ("goal", GOAL)] {
        let count = input.iter().filter(|&&t| t == token).count();
        if count != 1 {
            return Err((format!("one {name}"), count.to_string()));
        }
    }
    let differs = |(&i, &l): (&u8, &u8)| l != i && !(i == EMPTY && l == PATH);
    match input.iter().zip(label).position(differs) {
        None => Ok(()),
        Some(p) => Err((
            "a label that differs from its input only where empty cells become path".into(),
            format!("input {} and label {} at pixel {p}", input[p], label[p]),
        )),
    }
}
