//! Where the puzzles of an experiment come from.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Result};

use super::csv;
use super::data::SudokuSet;
use super::generate::{Kind, train_test_split, training_puzzles};
use crate::maze::symmetry::Symmetry;

/// The `[data]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SudokuData {
    /// `generate`, or the path of a CSV file; see [`csv`].
    pub source: String,
    /// The kind of generated puzzles.
    pub kind: Kind,
    /// Training puzzles, before symmetries. For a file, the number taken from the start; 0 for all but the test
    /// puzzles.
    pub count: usize,
    /// Generated training puzzles in addition to those of a file.
    pub generated: usize,
    /// Test puzzles. For a file, the number taken from the end.
    pub test_count: usize,
    /// Seed of generated puzzles. Separate from the run's seed, so that runs with other seeds see the same puzzles.
    pub seed: u64,
    /// Whether a batch holds all eight symmetries of each of its puzzles.
    pub symmetries: bool,
    /// Whether digits are relabelled, drawn anew for every variant and every use.
    pub relabel: bool,
    /// Whether bands, stacks, the lines within them, and rows with columns are permuted, drawn anew for every variant
    /// and every use.
    pub permute: bool,
    /// Whether training omits puzzles with more than one solution.
    pub unique_only: bool,
    /// Whether malformed lines of a file are skipped.
    pub skip_bad: bool,
}

impl Default for SudokuData {
    fn default() -> Self {
        Self {
            source: "generate".into(),
            kind: Kind::Mixed,
            count: 50_000,
            generated: 0,
            test_count: 2_000,
            seed: 0,
            symmetries: true,
            relabel: false,
            permute: false,
            unique_only: false,
            skip_bad: false,
        }
    }
}

impl SudokuData {
    /// Generates or reads the puzzles: (train, test).
    pub fn load(&self) -> Result<(SudokuSet, SudokuSet)> {
        let (train, test) = if self.source == "generate" {
            train_test_split(self.kind, self.seed, self.count + self.generated, self.test_count)
        } else {
            let set = csv::read(Path::new(&self.source), self.skip_bad)?.set;
            if set.len() <= self.test_count {
                let want = format!("more than the {} test puzzles", self.test_count);
                return Err(Error::new(ErrorKind::Malformed, self.source.as_str(), want, set.len())
                    .hint("lower data.test_count"));
            }
            let (train, test) = set.split_last(self.test_count);
            let mut train = if self.count == 0 { train } else { train.first(self.count) };
            train.extend(&training_puzzles(self.kind, self.seed, self.generated, &test.keys()));
            (train, test)
        };
        Ok((if self.unique_only { train.unique() } else { train }, test))
    }

    /// Variants of a puzzle in one batch.
    pub fn variants(&self) -> usize {
        if self.symmetries { Symmetry::ALL.len() } else { 1 }
    }
}
