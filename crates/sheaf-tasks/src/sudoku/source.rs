//! Where the puzzles of an experiment come from.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Result};

use super::csv;
use super::data::SudokuSet;
use super::generate::{Kind, train_test_split, training_puzzles, validation_puzzles};
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
    /// Validation puzzles, which take the place of the test puzzles in all evaluations of a run; 0 for none. For a file,
    /// the number taken before the test puzzles.
    pub validation_count: usize,
    /// The kind of generated validation puzzles; empty for `kind`. What is learned from need not be what is wanted.
    pub validation_kind: String,
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
            validation_count: 0,
            validation_kind: String::new(),
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
    /// Generates or reads the puzzles: training puzzles and those that a run evaluates, of validation or test.
    pub fn load(&self) -> Result<(SudokuSet, SudokuSet)> {
        let (train, held_out) = match self.source.as_str() {
            "generate" => self.generate()?,
            _ => self.read()?,
        };
        Ok((if self.unique_only { train.unique() } else { train }, held_out))
    }

    fn generate(&self) -> Result<(SudokuSet, SudokuSet)> {
        let (count, validation) = (self.count + self.generated, self.validation_count);
        let (kind, seed) = (self.kind, self.seed);
        if validation == 0 {
            return Ok(train_test_split(kind, seed, count, self.test_count));
        }
        let wanted = self.validation_kind()?;
        let tests = |kind| train_test_split(kind, seed, 0, self.test_count).1.keys();
        let mut taken = tests(kind);
        if wanted != kind {
            taken.extend(tests(wanted));
        }
        let held_out = validation_puzzles(wanted, seed, validation, &mut taken);
        Ok((training_puzzles(kind, seed, count, &taken), held_out))
    }

    /// The kind of generated validation puzzles. Refuses one that nothing would be generated of.
    pub fn validation_kind(&self) -> Result<Kind> {
        let wrong = |expected: &str, got: &str| {
            Error::new(ErrorKind::Malformed, "data.validation_kind", expected, format_args!("`{got}`"))
        };
        let name = self.validation_kind.as_str();
        if name.is_empty() {
            return Ok(self.kind);
        }
        if self.source != "generate" || self.validation_count == 0 {
            return Err(wrong("empty where no validation puzzles are generated", name)
                .hint("set data.validation_kind=\"\" too, or have some generated: data.source = \"generate\" and data.validation_count above 0"));
        }
        name.parse().map_err(|e: Error| wrong(e.expected(), name))
    }

    fn read(&self) -> Result<(SudokuSet, SudokuSet)> {
        let (set, held_out) = (csv::read(Path::new(&self.source), self.skip_bad)?.set, self.held_out());
        if set.len() <= held_out {
            let want = format!("more than the {held_out} puzzles held out");
            return Err(Error::new(ErrorKind::Malformed, self.source.as_str(), want, set.len())
                .hint("lower data.test_count or data.validation_count"));
        }
        let (train, last) = set.split_last(held_out);
        let mut train = if self.count == 0 { train } else { train.first(self.count) };
        train.extend(&training_puzzles(self.kind, self.seed, self.generated, &last.keys()));
        let evaluated = if self.validation_count == 0 { last } else { last.first(self.validation_count) };
        Ok((train, evaluated))
    }

    /// Puzzles of a file that are not trained on.
    fn held_out(&self) -> usize {
        self.test_count.saturating_add(self.validation_count)
    }

    /// Variants of a puzzle in one batch.
    pub fn variants(&self) -> usize {
        if self.symmetries { Symmetry::ALL.len() } else { 1 }
    }
}
