//! Sets of mazes: generated in parallel, deterministic in the seed, with disjoint train and test sets.
//!
//! Maze `i` of a set depends on (seed, shape, i) alone, so the number of threads does not matter and a longer set
//! begins with the shorter one.
//!
//! | name | shape |
//! | --- | --- |
//! | [`MazeSet::inputs`], [`MazeSet::labels`] | `[mazes, height, width]` |

use std::collections::HashSet;

use rayon::prelude::*;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::{MAX_SET_BYTES, check_memory, product};

use super::carve::{Carver, MazeShape};
use super::symmetry::{Symmetry, canonical_key};

/// Most pixels of a maze: 2047 × 2047, about a million agents.
pub const MAX_PIXELS: u64 = 1 << 22;

/// Numbers of training mazes start here, those of test mazes at 0: the two never use the same stream.
const FIRST_TRAINING_MAZE: u64 = 1 << 40;

/// Numbers of validation mazes start here.
const FIRST_VALIDATION_MAZE: u64 = 1 << 41;

/// Mazes of one size with their solutions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MazeSet {
    /// Rows of pixels.
    pub height: usize,
    /// Columns of pixels.
    pub width: usize,
    /// Tokens the agents see.
    pub inputs: Vec<u8>, // [mazes, height, width]
    /// Tokens with the path marked.
    pub labels: Vec<u8>, // [mazes, height, width]
}

impl MazeSet {
    /// A set without mazes.
    pub fn empty(height: usize, width: usize) -> Self {
        Self { height, width, inputs: Vec::new(), labels: Vec::new() }
    }

    /// Pixels of one maze.
    pub fn pixels(&self) -> usize {
        self.height * self.width
    }

    /// Number of mazes.
    pub fn len(&self) -> usize {
        self.inputs.len() / self.pixels().max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Tokens of maze `i`, `[height, width]`.
    pub fn input(&self, i: usize) -> &[u8] {
        &self.inputs[i * self.pixels()..][..self.pixels()]
    }

    /// Solution of maze `i`, `[height, width]`.
    pub fn label(&self, i: usize) -> &[u8] {
        &self.labels[i * self.pixels()..][..self.pixels()]
    }

    /// Writes maze `i` and its solution, transformed by `symmetry`.
    pub fn write_variant(
        &self,
        i: usize,
        symmetry: Symmetry,
        input: &mut [u8], // [height, width], or transposed by the symmetry
        label: &mut [u8], // the same
    ) {
        symmetry.apply(self.input(i), self.height, self.width, input);
        symmetry.apply(self.label(i), self.height, self.width, label);
    }

    /// A key shared by all variants of each maze; see [`canonical_key`].
    pub fn keys(&self) -> HashSet<u128> {
        (0..self.len())
            .into_par_iter()
            .map(|i| canonical_key(self.input(i), self.height, self.width))
            .collect()
    }

    /// The first `count` mazes, or all where there are fewer.
    pub fn first(&self, count: usize) -> Self {
        let len = count.min(self.len()) * self.pixels();
        Self { inputs: self.inputs[..len].to_vec(), labels: self.labels[..len].to_vec(), ..*self }
    }

    /// Appends mazes of the same size.
    pub(super) fn append(&mut self, other: &Self) {
        debug_assert_eq!((self.height, self.width), (other.height, other.width));
        self.inputs.extend_from_slice(&other.inputs);
        self.labels.extend_from_slice(&other.labels);
    }

    fn push_from(&mut self, other: &Self, i: usize) {
        self.inputs.extend_from_slice(other.input(i));
        self.labels.extend_from_slice(other.label(i));
    }
}

/// `count` mazes of `seed`, numbers 0 to `count` − 1. Small mazes may repeat.
pub fn generate(shape: &MazeShape, seed: u64, count: usize) -> Result<MazeSet> {
    draw_range(shape, seed, 0, count)
}

/// `count` mazes of `seed`, none of them a variant of another or of a maze with a key in `taken`.
///
/// Keys of the new mazes are added to `taken`.
pub fn generate_distinct(
    shape: &MazeShape,
    seed: u64,
    count: usize,
    taken: &mut HashSet<u128>,
) -> Result<MazeSet> {
    draw_where(shape, seed, 0, count, |key| taken.insert(key))
}

/// `count` mazes of `seed` for validation: other numbers than those of [`generate`].
pub fn validation(shape: &MazeShape, seed: u64, count: usize) -> Result<MazeSet> {
    draw_range(shape, seed, FIRST_VALIDATION_MAZE, count)
}

/// A training and a validation set of `seed`: no maze of either is a variant of one of the first `test` mazes, which are
/// the test set, nor a training maze one of a validation maze.
pub fn train_validation_split(
    shape: &MazeShape,
    seed: u64,
    train: usize,
    test: usize,
    validation: usize,
) -> Result<(MazeSet, MazeSet)> {
    let mut held_out = HashSet::new();
    generate_distinct(shape, seed, test, &mut held_out)?;
    let validation = draw_where(shape, seed, FIRST_VALIDATION_MAZE, validation, |key| held_out.insert(key))?;
    Ok((training(shape, seed, train, &held_out)?, validation))
}

/// A training and a test set of `seed`: no test maze is a variant of another test maze or of a training maze.
///
/// The test set depends on nothing but seed, shape and its own size.
pub fn train_test_split(
    shape: &MazeShape,
    seed: u64,
    train: usize,
    test: usize,
) -> Result<(MazeSet, MazeSet)> {
    let mut held_out = HashSet::new();
    let test = generate_distinct(shape, seed, test, &mut held_out)?;
    Ok((training(shape, seed, train, &held_out)?, test))
}

/// `count` training mazes of `seed`, none of them a variant of a maze with a key in `held_out`.
pub fn training(shape: &MazeShape, seed: u64, count: usize, held_out: &HashSet<u128>) -> Result<MazeSet> {
    draw_where(shape, seed, FIRST_TRAINING_MAZE, count, |key| !held_out.contains(&key))
}

/// Checks that a set of so many mazes can be held in memory, and read again from a file.
pub fn check_count(shape: &MazeShape, count: usize) -> Result<()> {
    if let Some(bytes) = product(&[count, shape.pixels()], MAX_SET_BYTES) {
        // Inputs and labels.
        return check_memory("number of mazes", "mazes", 2 * bytes);
    }
    let most = MAX_SET_BYTES / shape.pixels() as u64;
    let want = format!("at most {most} mazes of {} × {} pixels", shape.height(), shape.width());
    Err(Error::new(ErrorKind::OutOfRange, "number of mazes", want, count).hint("make several smaller sets"))
}

/// Mazes `first` to `first + count` − 1.
fn draw_range(shape: &MazeShape, seed: u64, first: u64, count: usize) -> Result<MazeSet> {
    let pixels = shape.pixels();
    check_count(shape, count)?;
    let mut set = MazeSet::empty(shape.height(), shape.width());
    set.inputs.resize(count * pixels, 0);
    set.labels.resize(count * pixels, 0);
    set.inputs
        .par_chunks_exact_mut(pixels)
        .zip(set.labels.par_chunks_exact_mut(pixels))
        .enumerate()
        .try_for_each_init(Carver::default, |carver, (i, (input, label))| {
            carver.draw(shape, seed, first + i as u64, input, label).map(|_| ())
        })?;
    Ok(set)
}

/// The first `count` mazes from number `first` on whose key passes `keep`; keys are tested in order.
fn draw_where(
    shape: &MazeShape,
    seed: u64,
    first: u64,
    count: usize,
    mut keep: impl FnMut(u128) -> bool,
) -> Result<MazeSet> {
    let (height, width) = (shape.height(), shape.width());
    check_count(shape, count)?;
    let mut set = MazeSet::empty(height, width);
    let limit = 20 * count as u64 + 1_000;
    let mut drawn = 0;
    while set.len() < count {
        if drawn >= limit {
            return Err(Error::new(
                ErrorKind::Infeasible,
                format!("{height} × {width} mazes of seed {seed}"),
                format_args!("{count} that may be kept"),
                format_args!("{} among {drawn} drawn", set.len()),
            )
            .hint("there are too few different mazes of this size; take larger or fewer mazes"));
        }
        // At least 64 per round, so that the last few mazes do not cost a round each.
        let round = (count - set.len()).max(64);
        let more = draw_range(shape, seed, first + drawn, round)?;
        let keys: Vec<u128> =
            (0..round).into_par_iter().map(|i| canonical_key(more.input(i), height, width)).collect();
        for (i, key) in keys.into_iter().enumerate() {
            if set.len() < count && keep(key) {
                set.push_from(&more, i);
            }
        }
        drawn += round as u64;
    }
    Ok(set)
}
