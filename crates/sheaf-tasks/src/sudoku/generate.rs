//! Random puzzles: puzzle `i` depends on (seed, kind, i) alone, so the number of threads does not matter and a longer
//! set begins with the shorter one.
//!
//! | kind | a solution grid of | from which digits are removed | givens |
//! | --- | --- | --- | --- |
//! | [`Kind::Full`] | random search | while the solution stays unique | 26 to 69, mostly 34 to 44 |
//! | [`Kind::Minimal`] | random search | until every further removal makes it ambiguous | mostly 23 to 25 |
//! | [`Kind::Graded`] | random search | as for minimal; then 0 to 14 blanks are filled again | mostly 24 to 38 |
//! | [`Kind::Hard`] | random search | as for minimal; then 0 to 4 blanks are filled again | mostly 23 to 29 |
//! | [`Kind::Singles`] | random search | while naked singles are enough | 31 to 35 |
//! | [`Kind::Any`] | | the mixture of the published data: 52.4 % full, 17.5 % minimal, 6.2 % singles and 23.9 % from one cyclic grid, shuffled, with digits removed blindly | 17 to 80 |
//! | [`Kind::Mixed`] | | the same, without the tenth that is ambiguous | 21 to 80 |
//!
//! The shares and the numbers of givens are those of the first 10,000 lines of the published data.

use std::collections::HashSet;
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::rng::Stream;

use super::augment::{Shuffles, Transform, canonical_key};
use super::data::SudokuSet;
use super::solver::{Ease, complete, ease, has_other, is_unique};
use super::{CELLS, Grid};
use crate::maze::symmetry::Symmetry;

/// Numbers of training puzzles start here, those of test puzzles at 0: the two never use the same stream.
const FIRST_TRAINING_PUZZLE: u64 = 1 << 40;

/// Numbers of validation puzzles start here.
const FIRST_VALIDATION_PUZZLE: u64 = 1 << 41;

/// Puzzles generated between two progress reports.
const ROUND: usize = 2_048;

/// Kinds of puzzles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// As the published data, unique ones only.
    #[default]
    Mixed,
    /// Unique, from hard to nearly complete.
    Full,
    /// Unique, and no given can be spared.
    Minimal,
    /// Unique, from minimal to easy, in even steps: to learn from.
    Graded,
    /// Unique, minimal or nearly so: what is left to learn when the graded ones are mostly solved.
    Hard,
    /// Unique, and solved by cells with one candidate.
    Singles,
    /// As the published data, ambiguous ones included.
    Any,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Mixed, Self::Full, Self::Minimal, Self::Graded, Self::Hard, Self::Singles, Self::Any];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Full => "full",
            Self::Minimal => "minimal",
            Self::Graded => "graded",
            Self::Hard => "hard",
            Self::Singles => "singles",
            Self::Any => "any",
        }
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::new(ErrorKind::Malformed, "kind of puzzles", names, format_args!("`{name}`"))
        })
    }
}

/// A puzzle and the grid it was made from; `ambiguous` where that is not the only solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Givens.
    pub puzzle: Grid,
    /// The grid.
    pub solution: Grid,
    /// Whether there are other solutions.
    pub ambiguous: bool,
}

/// Puzzle `index` of `seed`.
pub fn draw(kind: Kind, seed: u64, index: u64) -> Drawn {
    let stream = &mut Stream::new(seed, kind.name(), index, 0);
    match kind {
        Kind::Full => full(stream),
        Kind::Minimal => minimal(stream),
        Kind::Graded => refilled(stream, GRADES),
        Kind::Hard => refilled(stream, HARD_GRADES),
        Kind::Singles => singles(stream),
        Kind::Any => any(stream),
        Kind::Mixed => loop {
            let drawn = any(stream);
            if !drawn.ambiguous {
                return drawn;
            }
        },
    }
}

/// Puzzles 0 to `count` − 1 of `seed`, generated on all cores.
pub fn generate(kind: Kind, seed: u64, count: usize) -> SudokuSet {
    generate_with(kind, seed, count, &|_| {})
}

/// The same; `progress` receives the number of newly generated puzzles.
pub fn generate_with(kind: Kind, seed: u64, count: usize, progress: &dyn Fn(usize)) -> SudokuSet {
    let mut set = SudokuSet::default();
    while set.len() < count {
        let round = (count - set.len()).min(ROUND);
        set.extend(&collect(draw_range(kind, seed, set.len() as u64, round)));
        progress(round);
    }
    set
}

/// A training and a test set of `seed`: no test puzzle is a symmetric variant of another or of a training puzzle.
///
/// The test set depends on nothing but seed, kind and its own size.
pub fn train_test_split(kind: Kind, seed: u64, train: usize, test: usize) -> (SudokuSet, SudokuSet) {
    let mut held_out = HashSet::new();
    let test = draw_where(kind, seed, 0, test, |key| held_out.insert(key));
    (training_puzzles(kind, seed, train, &held_out), test)
}

/// `count` validation puzzles of `seed`, none a symmetric variant of another or of a board in `held_out`, to which their
/// keys are added.
pub fn validation_puzzles(kind: Kind, seed: u64, count: usize, held_out: &mut HashSet<u128>) -> SudokuSet {
    draw_where(kind, seed, FIRST_VALIDATION_PUZZLE, count, |key| held_out.insert(key))
}

/// The first `count` training puzzles of `seed` that are not symmetric variants of a board in `held_out`.
pub fn training_puzzles(kind: Kind, seed: u64, count: usize, held_out: &HashSet<u128>) -> SudokuSet {
    draw_where(kind, seed, FIRST_TRAINING_PUZZLE, count, |key| !held_out.contains(&key))
}

fn draw_range(kind: Kind, seed: u64, first: u64, count: usize) -> Vec<Drawn> {
    (0..count as u64).into_par_iter().map(|i| draw(kind, seed, first + i)).collect()
}

fn collect(drawn: impl IntoIterator<Item = Drawn>) -> SudokuSet {
    let mut set = SudokuSet::default();
    drawn.into_iter().for_each(|d| set.push(d.puzzle, d.solution, d.ambiguous));
    set
}

/// The first `count` puzzles from number `first` on whose key passes `keep`; keys are tested in order. There are so
/// many boards that almost none is rejected.
fn draw_where(
    kind: Kind,
    seed: u64,
    mut first: u64,
    count: usize,
    mut keep: impl FnMut(u128) -> bool,
) -> SudokuSet {
    let mut kept = Vec::with_capacity(count);
    while kept.len() < count {
        let round = count - kept.len();
        let drawn = draw_range(kind, seed, first, round);
        kept.extend(drawn.into_iter().filter(|d| keep(canonical_key(&d.puzzle))));
        first += round as u64;
    }
    collect(kept)
}

type Part = fn(&mut Stream) -> Drawn;

/// Number of each part among 10,000 lines of the published data.
const PARTS: [(u32, Part); 4] = [(5_239, full), (1_752, minimal), (618, singles), (2_391, cyclic)];

fn any(stream: &mut Stream) -> Drawn {
    PARTS[weighted(&PARTS.map(|p| p.0), stream)].1(stream)
}

/// Number of puzzles with 26, 27, … givens among 5,239 lines.
#[rustfmt::skip]
const FULL_GIVENS: [u32; 44] = [
    1, 15, 19, 82, 132, 185, 235, 285, 335, 375, 385, 399, 342, 322, 302, 271, 257, 218, 193, 163, 124, 108,
    84, 74, 74, 44, 44, 40, 33, 25, 13, 13, 16, 6, 5, 5, 3, 3, 3, 2, 0, 1, 1, 2,
];

/// Number of puzzles with 31, 32, … givens among 618 lines.
const SINGLES_GIVENS: [u32; 5] = [14, 50, 151, 279, 124];

fn full(stream: &mut Stream) -> Drawn {
    let givens = 26 + weighted(&FULL_GIVENS, stream);
    remove_to(givens, stream, |puzzle, cell, digit| !has_other(puzzle, cell, digit), is_unique)
}

/// Maximum number of blanks of a minimal puzzle that a graded one fills.
const GRADES: usize = 14;

/// The same of a hard one.
const HARD_GRADES: usize = 4;

/// A minimal puzzle of which 0 to `most` blanks are filled again.
fn refilled(stream: &mut Stream, most: usize) -> Drawn {
    let mut drawn = minimal(stream);
    let mut blanks: Vec<usize> = (0..CELLS).filter(|&cell| drawn.puzzle[cell] == 0).collect();
    stream.shuffle(&mut blanks);
    for &cell in &blanks[..stream.below(most + 1)] {
        drawn.puzzle[cell] = drawn.solution[cell];
    }
    drawn
}

fn singles(stream: &mut Stream) -> Drawn {
    let easy = |puzzle: &Grid| ease(puzzle) == Ease::NakedSingles;
    let easy_without = |puzzle: &Grid, cell: usize, _| {
        let mut without = *puzzle;
        without[cell] = 0;
        easy(&without)
    };
    let givens = 31 + weighted(&SINGLES_GIVENS, stream);
    remove_to(givens, stream, easy_without, easy)
}

/// Removes digits in random order, each if `may_go`, until `givens` are left; starts over if the order ends first.
/// `holds` returns whether a whole board is allowed.
fn remove_to(
    givens: usize,
    stream: &mut Stream,
    may_go: impl Fn(&Grid, usize, u8) -> bool,
    holds: impl Fn(&Grid) -> bool,
) -> Drawn {
    loop {
        let (solution, order) = (random_grid(stream), random_order(stream));
        let puzzle = remove(&solution, &order, CELLS - givens, &may_go, &holds);
        if puzzle.iter().filter(|&&d| d != 0).count() == givens {
            return Drawn { puzzle, solution, ambiguous: false };
        }
    }
}

fn minimal(stream: &mut Stream) -> Drawn {
    let (solution, order) = (random_grid(stream), random_order(stream));
    let may_go = |puzzle: &Grid, cell: usize, digit: u8| !has_other(puzzle, cell, digit);
    let puzzle = remove(&solution, &order, CELLS, &may_go, &is_unique);
    Drawn { puzzle, solution, ambiguous: false }
}

/// Number of digits that are first removed together.
const LEAP: usize = 36;

/// Removes digits in `order` if `may_go`, at most `most`.
fn remove(
    solution: &Grid,
    order: &[u8; CELLS],
    most: usize,
    may_go: &impl Fn(&Grid, usize, u8) -> bool,
    holds: &impl Fn(&Grid) -> bool,
) -> Grid {
    // Fewer removals are always allowed: if a board without the first digits is allowed, so was every step towards it.
    let mut leap = LEAP.min(most);
    let mut puzzle = *solution;
    while leap > 0 {
        puzzle = *solution;
        order[..leap].iter().for_each(|&cell| puzzle[cell as usize] = 0);
        if holds(&puzzle) {
            break;
        }
        leap /= 2;
        puzzle = *solution;
    }
    let mut removed = leap;
    for &cell in &order[leap..] {
        if removed == most {
            break;
        }
        let cell = cell as usize;
        if may_go(&puzzle, cell, solution[cell]) {
            puzzle[cell] = 0;
            removed += 1;
        }
    }
    puzzle
}

/// The part of the published data with blind removal: one cyclic grid, shuffled; 17 to 80 givens, uniformly
/// distributed.
fn cyclic(stream: &mut Stream) -> Drawn {
    let mut pattern = [0; CELLS];
    for (cell, digit) in pattern.iter_mut().enumerate() {
        let (row, column) = (cell / 9, cell % 9);
        *digit = ((3 * (row % 3) + row / 3 + column) % 9 + 1) as u8;
    }
    let shuffles = Shuffles { digits: true, bands: true, transpose: false };
    let mut solution = [0; CELLS];
    Transform::draw(Symmetry::ALL[0], shuffles, stream).apply(&pattern, &mut solution);
    let mut puzzle = solution;
    let givens = 17 + stream.below(64);
    let order = random_order(stream);
    order[givens..].iter().for_each(|&cell| puzzle[cell as usize] = 0);
    Drawn { puzzle, solution, ambiguous: !is_unique(&puzzle) }
}

/// A complete grid: three random boxes, the rest by search with random choices.
fn random_grid(stream: &mut Stream) -> Grid {
    let mut grid = [0; CELLS];
    for corner in [0, 30, 60] {
        let mut digits = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        stream.shuffle(&mut digits);
        for (k, digit) in digits.into_iter().enumerate() {
            grid[corner + k / 3 * 9 + k % 3] = digit;
        }
    }
    complete(&grid, |count| stream.below(count as usize) as u32).expect("boxes on the diagonal share no unit")
}

fn random_order(stream: &mut Stream) -> [u8; CELLS] {
    let mut order = [0; CELLS];
    order.iter_mut().enumerate().for_each(|(i, o)| *o = i as u8);
    stream.shuffle(&mut order);
    order
}

/// An index, drawn in proportion to the weights.
fn weighted(weights: &[u32], stream: &mut Stream) -> usize {
    let mut left = stream.below(weights.iter().sum::<u32>() as usize);
    for (i, &weight) in weights.iter().enumerate() {
        match left.checked_sub(weight as usize) {
            None => return i,
            Some(rest) => left = rest,
        }
    }
    unreachable!("the draw is below the sum of the weights")
}
