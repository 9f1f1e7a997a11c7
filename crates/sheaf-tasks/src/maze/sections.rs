//! The sections of an experiment on mazes.

use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::ModelSection;

use super::carve::MazeShape;
use super::data::{
    MazeSet, check_count, generate_distinct, train_test_split, train_validation_split, training,
};

/// Salt that separates the seed of mazes with long paths from that of the other training mazes.
const LONG_SEED: u64 = 0x1093;

/// The `[data]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MazeData {
    /// Rows and columns of a training maze; odd.
    pub size: usize,
    /// Minimum number of steps of a path.
    pub min_path: usize,
    /// Share of the training mazes whose paths have at least `long_path` steps instead.
    pub long_share: f64,
    /// Minimum number of steps of these paths; 0 where `long_share` is 0.
    pub long_path: usize,
    /// Training mazes, before symmetries.
    pub count: usize,
    /// Test mazes.
    pub test_count: usize,
    /// Validation mazes, which take the place of the test mazes in all evaluations of a run; 0 for none.
    pub validation_count: usize,
    /// Seed of all sets. Separate from the run's seed, so that runs with other seeds see the same mazes.
    pub seed: u64,
    /// Whether a batch holds all eight symmetries of each of its mazes.
    pub symmetries: bool,
}

impl Default for MazeData {
    fn default() -> Self {
        Self {
            size: 19,
            min_path: 18,
            long_share: 0.0,
            long_path: 0,
            count: 10_000,
            test_count: 1_000,
            validation_count: 0,
            seed: 0,
            symmetries: true,
        }
    }
}

impl MazeData {
    /// The shape of the training mazes.
    pub(super) fn shape(&self) -> Result<MazeShape> {
        MazeShape::new(self.size, self.size, self.min_path)
    }

    /// The shape of those with long paths, and how many there are.
    pub(super) fn long(&self) -> Result<(MazeShape, usize)> {
        let shape = MazeShape::new(self.size, self.size, self.long_path.max(self.min_path))?;
        Ok((shape, (self.long_share * self.count as f64).round() as usize))
    }

    /// Rejects invalid values.
    pub(super) fn check(&self) -> Result<()> {
        let shape = self.shape()?;
        let counts = [self.count, self.test_count, self.validation_count];
        counts.into_iter().try_for_each(|count| check_count(&shape, count))?;
        self.long()?;
        let wrong = |place: &str, expected: &str, got: &dyn std::fmt::Display| {
            Err(Error::new(ErrorKind::Malformed, place, expected, got))
        };
        if self.test_count == 0 {
            return wrong("data.test_count", "at least 1", &0);
        }
        if !(0.0..=1.0).contains(&self.long_share) {
            return wrong("data.long_share", "a number from 0 to 1", &self.long_share);
        }
        if (self.long_share > 0.0) != (self.long_path > self.min_path) {
            let expected = "more than data.min_path where data.long_share is above 0, else 0";
            return wrong("data.long_path", expected, &self.long_path);
        }
        Ok(())
    }

    /// Training mazes, and those held out: validation mazes if there are any, else test mazes.
    pub(super) fn load(&self) -> Result<(MazeSet, MazeSet)> {
        let (shape, (long_shape, long)) = (self.shape()?, self.long()?);
        let (seed, tests, usual) = (self.seed, self.test_count, self.count - long);
        let (mut train, held_out) = match self.validation_count {
            0 => train_test_split(&shape, seed, usual, tests)?,
            count => train_validation_split(&shape, seed, usual, tests, count)?,
        };
        if long > 0 {
            let mut taken = held_out.keys();
            generate_distinct(&shape, seed, tests, &mut taken)?;
            train.append(&training(&long_shape, seed ^ LONG_SEED, long, &taken)?);
        }
        Ok((train, held_out))
    }
}

/// The `[model]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MazeConfig {
    /// Width of the hidden layers of encoder and decoder.
    pub hidden: usize,
    /// Keys that every task has.
    #[serde(flatten)]
    pub common: ModelSection,
}

impl Default for MazeConfig {
    fn default() -> Self {
        Self { hidden: 256, common: ModelSection::default() }
    }
}

/// The `[eval]` section: what is evaluated during training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MazeEval {
    /// Held-out mazes evaluated; 0 for all.
    pub test: usize,
    /// Additional larger mazes evaluated; 0 for none.
    pub larger: usize,
    /// Their rows and columns.
    pub larger_size: usize,
    /// Their iterations; 0 for as many as the others have.
    pub larger_iterations: usize,
}

impl Default for MazeEval {
    fn default() -> Self {
        Self { test: 0, larger: 100, larger_size: 37, larger_iterations: 0 }
    }
}

impl MazeEval {
    /// The shape of the larger mazes.
    pub(super) fn shape(&self) -> Result<MazeShape> {
        MazeShape::new(self.larger_size, self.larger_size, self.larger_size.saturating_sub(1))
    }
}
