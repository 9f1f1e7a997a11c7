//! Several rounds of solving: the agents predict the board, commit to the most certain cells, and start over.
//!
//! After a round, an equal share of the remaining blanks becomes givens, most probable digits first, so that the blanks
//! last for all rounds. A board is done as soon as every unit is complete, which each agent sees in its own nine cells.
//! No digit is retracted, and the digits come from the agents' predictions alone.

use sheaf_admm::{Real, Result};
use sheaf_learn::model::evaluate::Solved;

use super::metrics::completes;
use super::views::{argmax, reassemble};
use super::{BLANK, CELLS, CLASSES, Grid};

/// Rounds of `sheaf solve sudoku`, at most.
pub const USUAL: usize = 10;

/// The agents' prediction of a board. Two readings are equal if they have the same digits.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The most probable digits.
    pub predicted: Grid,
    /// Their probabilities, 0 to 1.
    pub sure: [f64; CELLS],
}

impl PartialEq for Reading {
    fn eq(&self, other: &Self) -> bool {
        self.predicted == other.predicted
    }
}

/// The answer to one puzzle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The predicted board.
    pub predicted: Grid,
    /// Total iterations of all rounds.
    pub iterations: usize,
    /// Number of rounds.
    pub rounds: usize,
}

/// Answers to `puzzles` in at most `rounds` rounds. `solve` runs one round of the boards that are not complete yet,
/// given the boards and a progress callback.
pub fn in_rounds(
    puzzles: &[Grid],
    rounds: usize,
    progress: &(dyn Fn(usize) + Sync),
    mut solve: impl FnMut(&[Grid], &(dyn Fn(usize) + Sync)) -> Result<Vec<Solved<Reading>>>,
) -> Result<Vec<Answer>> {
    let mut boards: Vec<Grid> = puzzles.to_vec();
    let mut answers = vec![Answer { predicted: [BLANK; CELLS], iterations: 0, rounds: 0 }; puzzles.len()];
    let mut open: Vec<usize> = (0..puzzles.len()).collect();
    for left in (0..rounds).rev() {
        if open.is_empty() {
            break;
        }
        let asked: Vec<Grid> = open.iter().map(|&i| boards[i]).collect();
        // A board is reported as done when no round follows: in the last round at once, before it when the board is
        // complete.
        let during: &(dyn Fn(usize) + Sync) = if left == 0 { progress } else { &|_| {} };
        let solved = solve(&asked, during)?;
        let (mut solved, before) = (solved.iter(), open.len());
        open.retain(|&i| {
            let Some(Solved { answer, iterations, .. }) = solved.next() else { return false };
            answers[i].predicted = answer.predicted;
            answers[i].iterations += iterations;
            answers[i].rounds += 1;
            if left == 0 || answer.completes(&boards[i]) {
                return false;
            }
            // No digit is retracted, so a board without blanks would not change any more.
            let open = boards[i].contains(&BLANK);
            answer.commit(&mut boards[i], left);
            open
        });
        if left > 0 {
            progress(before - open.len());
        }
    }
    Ok(answers)
}

impl Reading {
    /// The mean of the views, from logits `[27, 9, 10]`.
    pub fn of<T: Real>(logits: &[T]) -> Self {
        let mut board = vec![T::ZERO; CELLS * CLASSES];
        reassemble(logits, &mut board);
        let predicted = argmax(&board);
        let probability = |(logits, &digit): (&[T], &u8)| {
            let chosen = logits[digit as usize];
            1.0 / logits.iter().map(|&l| (l - chosen).to_f64().exp()).sum::<f64>()
        };
        let mut sure = [0.0; CELLS];
        for (sure, cell) in sure.iter_mut().zip(board.chunks_exact(CLASSES).zip(&predicted)) {
            *sure = probability(cell);
        }
        Self { predicted, sure }
    }

    /// Whether the prediction keeps the givens of a board and completes every unit.
    pub fn completes(&self, board: &Grid) -> bool {
        completes(board, &self.predicted)
    }

    /// Turns the most certain blanks of a board into givens and leaves equal shares for `rounds_left` further rounds.
    pub fn commit(&self, board: &mut Grid, rounds_left: usize) {
        let mut blanks: Vec<usize> = (0..CELLS).filter(|&cell| board[cell] == BLANK).collect();
        blanks.sort_by(|&a, &b| self.sure[b].total_cmp(&self.sure[a]));
        for &cell in &blanks[..blanks.len().div_ceil(rounds_left + 1)] {
            board[cell] = self.predicted[cell];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sudoku::generate::{Kind, draw};
    use crate::sudoku::views::{VIEWS, gather};

    /// Logits of views that all favour the digits of `board`, by a margin for each cell.
    fn logits(board: &Grid, margin: impl Fn(usize) -> f64) -> Vec<f64> {
        let (mut views, mut cells) = (vec![0; VIEWS], vec![0; VIEWS]);
        gather(board, &mut views);
        gather(&std::array::from_fn(|cell| cell as u8), &mut cells);
        let mut logits = vec![0.0; VIEWS * CLASSES];
        for (view, (&digit, &cell)) in views.iter().zip(&cells).enumerate() {
            logits[view * CLASSES + digit as usize] = margin(cell as usize);
        }
        logits
    }

    #[test]
    fn a_reading_is_the_digits_and_their_probabilities() {
        let solution = draw(Kind::Full, 3, 0).solution;
        let reading = Reading::of(&logits(&solution, |cell| 0.5 + cell as f64 / 20.0));
        assert_eq!(reading.predicted, solution);
        for (cell, sure) in reading.sure.iter().enumerate() {
            let odds = (0.5 + cell as f64 / 20.0).exp();
            assert!((sure - odds / (odds + 9.0)).abs() < 1e-12, "cell {cell}: {sure}");
        }
    }

    #[test]
    fn the_surest_blanks_are_committed_and_givens_stay() {
        let drawn = draw(Kind::Minimal, 4, 0);
        let reading = Reading::of(&logits(&drawn.solution, |cell| 1.0 + cell as f64 / 20.0));
        assert!(reading.completes(&drawn.puzzle));
        let blanks: Vec<usize> = (0..CELLS).filter(|&cell| drawn.puzzle[cell] == BLANK).collect();
        let mut board = drawn.puzzle;
        reading.commit(&mut board, 4);
        let filled: Vec<usize> = blanks.iter().copied().filter(|&cell| board[cell] != BLANK).collect();
        // A fifth of the blanks: the last ones, which are the most certain here.
        assert_eq!(filled, blanks[blanks.len() - blanks.len().div_ceil(5)..]);
        assert!((0..CELLS).all(|c| board[c] == BLANK || board[c] == drawn.solution[c]));
        for rounds_left in (0..4).rev() {
            reading.commit(&mut board, rounds_left);
        }
        assert_eq!(board, drawn.solution);
    }

    #[test]
    fn a_reading_that_breaks_a_rule_or_a_given_completes_nothing() {
        let drawn = draw(Kind::Full, 5, 0);
        let mut wrong = drawn.solution;
        wrong.swap(0, 1);
        assert!(!Reading::of(&logits(&wrong, |_| 1.0)).completes(&[BLANK; CELLS]));
        let renamed = drawn.solution.map(|d| d % 9 + 1);
        assert!(Reading::of(&logits(&renamed, |_| 1.0)).completes(&[BLANK; CELLS]));
        assert!(!Reading::of(&logits(&renamed, |_| 1.0)).completes(&drawn.puzzle));
    }
}
