//! Scores of predicted boards.
//!
//! | metric | meaning |
//! | --- | --- |
//! | solved | all 81 cells equal the stored solution |
//! | valid | every unit holds every digit once and all givens are kept: a solution, possibly not the stored one |
//! | cell accuracy | fraction of the 81 cells that are correct |
//! | blank accuracy | fraction of the blanks that are correct |

use super::solver::is_complete;
use super::{BLANK, Grid};

/// The score of one board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Score {
    /// Equal to the stored solution.
    pub solved: bool,
    /// A valid solution.
    pub valid: bool,
    /// Correct cells, of 81.
    pub right_cells: usize,
    /// Correct blanks.
    pub right_blanks: usize,
    /// Blanks.
    pub blanks: usize,
}

/// Whether a prediction keeps the givens and completes every unit.
pub fn completes(puzzle: &Grid, predicted: &Grid) -> bool {
    let kept = puzzle.iter().zip(predicted).all(|(&given, &p)| given == BLANK || given == p);
    kept && is_complete(predicted)
}

/// Scores a prediction.
pub fn score(puzzle: &Grid, solution: &Grid, predicted: &Grid) -> Score {
    let cells = || puzzle.iter().zip(solution.iter().zip(predicted));
    let right_cells = cells().filter(|(_, (s, p))| s == p).count();
    Score {
        solved: right_cells == puzzle.len(),
        valid: completes(puzzle, predicted),
        right_cells,
        right_blanks: cells().filter(|&(&given, (s, p))| given == BLANK && s == p).count(),
        blanks: cells().filter(|&(&given, _)| given == BLANK).count(),
    }
}

/// The scores of many boards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Boards scored.
    pub boards: usize,
    /// Boards solved.
    pub solved: usize,
    /// Boards validly completed.
    pub valid: usize,
    /// Correct cells.
    pub right_cells: usize,
    /// Correct blanks.
    pub right_blanks: usize,
    /// Blanks.
    pub blanks: usize,
}

impl Summary {
    /// Adds one board.
    pub fn add(&mut self, score: &Score) {
        self.boards += 1;
        self.solved += usize::from(score.solved);
        self.valid += usize::from(score.valid);
        self.right_cells += score.right_cells;
        self.right_blanks += score.right_blanks;
        self.blanks += score.blanks;
    }

    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: &Self) {
        self.boards += other.boards;
        self.solved += other.solved;
        self.valid += other.valid;
        self.right_cells += other.right_cells;
        self.right_blanks += other.right_blanks;
        self.blanks += other.blanks;
    }

    /// Fraction of boards solved, 0 to 1; NaN without boards.
    pub fn solved_rate(&self) -> f64 {
        self.solved as f64 / self.boards as f64
    }

    /// Fraction of boards validly completed, 0 to 1; NaN without boards.
    pub fn valid_rate(&self) -> f64 {
        self.valid as f64 / self.boards as f64
    }

    /// Fraction of correct cells, 0 to 1; NaN without boards.
    pub fn cell_accuracy(&self) -> f64 {
        self.right_cells as f64 / (super::CELLS * self.boards) as f64
    }

    /// Fraction of correct blanks, 0 to 1; NaN without blanks.
    pub fn blank_accuracy(&self) -> f64 {
        self.right_blanks as f64 / self.blanks as f64
    }
}
