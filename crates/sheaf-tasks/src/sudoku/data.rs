//! Sets of puzzles with their solutions, with disjoint train and test sets.
//!
//! | name | shape |
//! | --- | --- |
//! | [`SudokuSet::puzzles`], [`SudokuSet::solutions`] | `[count]` boards of 81 cells |
//! | [`SudokuSet::ambiguous`] | `[count]`: the stored solution is one of several |

use std::collections::HashSet;

use super::augment::canonical_key;
use super::{BLANK, Grid};

/// Puzzles and solutions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SudokuSet {
    /// Givens, 0 for a blank.
    pub puzzles: Vec<Grid>,
    /// A completion of each puzzle.
    pub solutions: Vec<Grid>,
    /// Whether a puzzle has completions other than the stored one.
    pub ambiguous: Vec<bool>,
}

impl SudokuSet {
    /// Number of puzzles.
    pub fn len(&self) -> usize {
        self.puzzles.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.puzzles.is_empty()
    }

    /// Appends a puzzle.
    pub fn push(&mut self, puzzle: Grid, solution: Grid, ambiguous: bool) {
        self.puzzles.push(puzzle);
        self.solutions.push(solution);
        self.ambiguous.push(ambiguous);
    }

    /// Appends all puzzles of another set.
    pub fn extend(&mut self, other: &Self) {
        self.puzzles.extend_from_slice(&other.puzzles);
        self.solutions.extend_from_slice(&other.solutions);
        self.ambiguous.extend_from_slice(&other.ambiguous);
    }

    /// Puzzles `range`, clamped to those that exist.
    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        let range = range.start.min(self.len())..range.end.min(self.len());
        Self {
            puzzles: self.puzzles[range.clone()].to_vec(),
            solutions: self.solutions[range.clone()].to_vec(),
            ambiguous: self.ambiguous[range].to_vec(),
        }
    }

    /// The first `count` puzzles, or all where there are fewer.
    pub fn first(&self, count: usize) -> Self {
        self.slice(0..count)
    }

    /// Splits off the last `test` puzzles: (train, test). Variants of a test puzzle under any symmetry of the square
    /// are removed from the training set.
    pub fn split_last(&self, test: usize) -> (Self, Self) {
        let cut = self.len() - test.min(self.len());
        let held_out = self.slice(cut..self.len());
        (self.slice(0..cut).without(&held_out.keys()), held_out)
    }

    /// A key shared by all eight variants of each puzzle; see [`canonical_key`].
    pub fn keys(&self) -> HashSet<u128> {
        self.puzzles.iter().map(canonical_key).collect()
    }

    /// The puzzles whose key is not in `taken`.
    pub fn without(&self, taken: &HashSet<u128>) -> Self {
        self.filter(|i| !taken.contains(&canonical_key(&self.puzzles[i])))
    }

    /// The puzzles with one completion.
    pub fn unique(&self) -> Self {
        self.filter(|i| !self.ambiguous[i])
    }

    fn filter(&self, keep: impl Fn(usize) -> bool) -> Self {
        let mut kept = Self::default();
        for i in (0..self.len()).filter(|&i| keep(i)) {
            kept.push(self.puzzles[i], self.solutions[i], self.ambiguous[i]);
        }
        kept
    }
}

/// Number of blanks.
pub fn blanks(puzzle: &Grid) -> usize {
    puzzle.iter().filter(|&&d| d == BLANK).count()
}
