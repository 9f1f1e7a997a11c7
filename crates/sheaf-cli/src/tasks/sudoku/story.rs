//! How a puzzle was solved: boards and a report.

use sheaf_admm::Result;
use sheaf_learn::model::evaluate::Solved;
use sheaf_tasks::sudoku::data::blanks;
use sheaf_tasks::sudoku::metrics::{Score, score};
use sheaf_tasks::sudoku::rounds::Reading;
use sheaf_tasks::sudoku::text::Puzzle;
use sheaf_tasks::sudoku::{CELLS, Grid, UNITS};

use crate::draw::sudoku::{Mark, marks, terminal};
use crate::report::{Report, rounded};
use crate::tasks::watch::{self, Course, Plan, Solve};

/// Number of boards printed in addition to the puzzle.
const SHOWN: usize = 5;

/// The data of the report.
pub(super) struct Story {
    title: String,
    pub puzzle: Puzzle,
    /// The board after every iteration of every round.
    pub boards: Vec<Grid>,
    /// Number of rounds.
    pub rounds: usize,
    /// Iterations of all rounds.
    iterations: usize,
    course: Course,
    /// Whether every round settled.
    settled: bool,
    seconds: f64,
}

impl Story {
    pub(super) fn new(title: String, puzzle: Puzzle) -> Self {
        let (boards, course) = (Vec::new(), Course::default());
        Self { title, puzzle, boards, rounds: 0, iterations: 0, course, settled: true, seconds: 0.0 }
    }

    /// Adds a round; returns its answer.
    pub(super) fn round(&mut self, mut solve: Solve<Reading>) -> Solved<Reading> {
        self.course.append(&mut solve.course);
        self.settled &= solve.watched.settled;
        self.seconds += solve.seconds;
        let watched = solve.watched;
        self.iterations += watched.iterations;
        Solved { answer: watched.answer, iterations: watched.iterations, first_right: None }
    }

    /// The label of board `k`.
    fn label(&self, k: usize) -> String {
        if self.iterations == 0 { "answer".into() } else { format!("iteration {}", k + 1) }
    }

    fn answer(&self) -> &Grid {
        self.boards.last().unwrap_or(&self.puzzle.givens)
    }

    /// Shows the boards in place, one after the other.
    pub(super) fn play(&self) -> Result<()> {
        watch::play(self.boards.len(), terminal::WIDTH, terminal::HEIGHT, |k| {
            let frame = [(self.label(k), self.boards[k])];
            Ok(terminal::render(&self.puzzle.givens, &frame, terminal::coloured(), terminal::WIDTH))
        })
    }

    pub(super) fn report(&self, plan: &Plan) -> Result<Report> {
        let (puzzle, k) = (&self.puzzle, self.iterations);
        let score = score(&puzzle.givens, &puzzle.solution, self.answer());
        let unique = puzzle.other.is_none();
        let solved = unique && score.solved;
        let mut report = Report::new();
        watch::draw(&mut report, terminal::WIDTH, || Ok(self.strip()))?;
        report.line("puzzle", format!("{}, {} blanks", self.title, blanks(&puzzle.givens)));
        report.value("puzzle", digits(&puzzle.givens)).value("board", digits(self.answer()));
        report.value("solution", digits(&puzzle.solution)).value("unique", unique);
        report.add("solved", "answer", solved, self.verdict(&score));
        report.value("valid", score.valid).value("accuracy", f64::from(u8::from(solved)));
        let part = |right: usize, of: usize| rounded(right as f64 / of as f64, 6);
        report.value("cell_accuracy", part(score.right_cells, CELLS));
        report.value("blank_accuracy", part(score.right_blanks, score.blanks));
        report.value("blanks", score.blanks);
        report.add("agents", "agents", UNITS, "27: rows, columns and boxes; each sees its nine cells");
        let text = match self.rounds {
            1 => plan.ended(k, self.settled),
            rounds => format!("{k} in {rounds} rounds"),
        };
        report.add("iterations", "iterations", k, text).value("settled", self.settled);
        report.value("rounds", self.rounds);
        let violated: Vec<usize> = self.boards.iter().map(|b| violated(&puzzle.givens, b)).collect();
        report.value("violated", violated);
        plan.finish(&mut report, &self.course, self.seconds, self.notes());
        Ok(report)
    }

    /// The puzzle and the boards as they fill in.
    fn strip(&self) -> String {
        let mut boards = vec![("puzzle".to_string(), self.puzzle.givens)];
        let chosen = chosen(&self.boards, SHOWN);
        boards.extend(chosen.into_iter().map(|k| (self.label(k), self.boards[k])));
        let columns = watch::size().map_or(80, |(columns, _)| columns);
        terminal::render(&self.puzzle.givens, &boards, terminal::coloured(), columns)
    }

    fn verdict(&self, score: &Score) -> String {
        match (score.valid, &self.puzzle.other) {
            (true, None) => "solved: the only solution, and valid".into(),
            (true, Some(_)) => "valid: one of the solutions".into(),
            (false, other) => {
                let wrong = violated(&self.puzzle.givens, self.answer());
                let missing = self.answer().iter().filter(|&&d| d == 0).count();
                let mut text = format!("not valid: {wrong} cells violate a rule");
                if missing > 0 {
                    text += &format!(", {missing} have no digit");
                }
                if other.is_none() {
                    text += &format!("; {} of {} blanks are right", score.right_blanks, score.blanks);
                }
                text
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(other) = &self.puzzle.other {
            let apart = (0..CELLS).find(|&c| other[c] != self.puzzle.solution[c]).unwrap_or(0);
            let (a, b) = (self.puzzle.solution[apart], other[apart]);
            let (row, column) = (apart / 9 + 1, apart % 9 + 1);
            notes.push(format!(
                "the puzzle is not unique: row {row}, column {column} may be {a} or {b}, for example"
            ));
        }
        notes
    }
}

/// Cells that violate a rule or a given.
fn violated(givens: &Grid, board: &Grid) -> usize {
    marks(givens, board).iter().filter(|&&m| m == Mark::Violated).count()
}

fn digits(board: &Grid) -> String {
    board.iter().map(|d| char::from(b'0' + d.min(&9))).collect()
}

/// At most `most` iterations at which the board changed, evenly spaced; always the first and the last.
fn chosen(boards: &[Grid], most: usize) -> Vec<usize> {
    let changed = |&k: &usize| k == 0 || boards[k] != boards[k - 1];
    let changes: Vec<usize> = (0..boards.len()).filter(changed).collect();
    let n = changes.len().min(most);
    (0..n).map(|i| changes[i * (changes.len() - 1) / (n - 1).max(1)]).collect()
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn boards_are_chosen_among_those_that_differ() {
        let board = |d: u8| [d; 81];
        let boards: Vec<_> = [1, 1, 2, 3, 3, 4, 5, 6, 6].map(board).to_vec();
        assert_eq!(chosen(&boards, 3), [0, 3, 7]);
        assert_eq!(chosen(&boards[..2], 3), [0]);
        assert_eq!(chosen(&boards[..3], 1), [0]);
        assert_eq!(chosen(&boards, 9), [0, 2, 3, 5, 6, 7]);
    }
}
