//! How a puzzle was solved: boards to look at and a report to read.

use std::io::IsTerminal;
use std::time::Duration;

use serde_json::json;
use sheaf_admm::Result;
use sheaf_tasks::sudoku::data::blanks;
use sheaf_tasks::sudoku::metrics::{Score, score};
use sheaf_tasks::sudoku::model::SudokuTrace;
use sheaf_tasks::sudoku::text::Puzzle;
use sheaf_tasks::sudoku::{CELLS, Grid, UNITS};

use crate::draw::maze_terminal::rewind;
use crate::draw::sudoku::{Mark, marks, terminal};
use crate::report::{self, Report, duration, rounded, sparkline};

/// Boards printed besides the puzzle.
const SHOWN: usize = 5;

/// What there is to tell.
pub(super) struct Story<'a> {
    pub title: String,
    pub puzzle: &'a Puzzle,
    pub trace: &'a SudokuTrace<f32>,
    /// How many iterations count; at least one.
    pub iterations: usize,
    /// Rounds they were run in.
    pub rounds: usize,
    /// Whether somebody asked for so many.
    pub asked: bool,
    pub settled: bool,
}

impl Story<'_> {
    fn boards(&self) -> &[Grid] {
        &self.trace.boards[..self.iterations]
    }

    fn answer(&self) -> &Grid {
        &self.trace.boards[self.iterations - 1]
    }

    /// Shows the boards one over the other, in about six seconds.
    pub(super) fn play(&self) -> Result<()> {
        let fits = columns_and_rows().is_some_and(|(c, r)| c >= terminal::WIDTH && r > terminal::HEIGHT);
        if !std::io::stdout().is_terminal() || !fits {
            eprintln!("note: no terminal large enough to animate here; --out FILE.gif writes an animation");
            return Ok(());
        }
        let step = Duration::from_millis((6000 / self.iterations).clamp(30, 400) as u64);
        for (k, board) in self.boards().iter().enumerate() {
            let frame = [(format!("iteration {}", k + 1), *board)];
            let colours = terminal::coloured();
            report::print(&terminal::render(&self.puzzle.givens, &frame, colours, terminal::WIDTH))?;
            std::thread::sleep(step);
            report::print(&rewind(terminal::HEIGHT))?;
        }
        report::print("\x1b[J")
    }

    pub(super) fn report(&self, seconds: f64) -> Report {
        let (puzzle, k) = (self.puzzle, self.iterations);
        let score = score(&puzzle.givens, &puzzle.solution, self.answer());
        let unique = puzzle.other.is_none();
        let solved = unique && score.solved;
        let mut report = Report::new();
        report.above(self.strip()).above("\n");
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
        report.add("iterations", "iterations", k, self.ended()).value("settled", self.settled);
        report.value("rounds", self.rounds);
        let violated: Vec<usize> = self.boards().iter().map(|b| violated(&puzzle.givens, b)).collect();
        let (primal, dual) = (self.curve(&self.trace.primal), self.curve(&self.trace.dual));
        let consistency = &self.trace.consistency[..k];
        let last = (primal[k - 1], dual[k - 1], consistency[k - 1]);
        let text = format!("primal {:.4}, dual {:.4}, consistency {:.4}", last.0, last.1, last.2);
        report.add("primal", "residuals", rounded(last.0.into(), 7), text);
        report.value("dual", rounded(last.1.into(), 7)).value("consistency", rounded(last.2.into(), 7));
        report.line("", format!("primal {}", sparkline(&primal, 48)));
        report.line("", format!("dual   {}", sparkline(&dual, 48)));
        report.value("violated", violated);
        report.value("residuals", json!({ "primal": primal, "dual": dual, "consistency": consistency }));
        report.line("time", duration(seconds)).value("seconds", rounded(seconds, 6));
        report.value("samples_per_s", rounded(1.0 / seconds, 3));
        report.value("peak_rss_mb", report::peak_rss_mb().map(|mb| rounded(mb, 1)));
        let notes: Vec<String> = self.notes();
        for note in &notes {
            report.line("note", note);
        }
        report.value("notes", notes);
        report
    }

    /// The puzzle and how it fills in.
    fn strip(&self) -> String {
        let mut boards = vec![("puzzle".to_string(), self.puzzle.givens)];
        let chosen = chosen(self.boards(), SHOWN);
        boards.extend(chosen.into_iter().map(|k| (format!("iteration {}", k + 1), self.trace.boards[k])));
        let columns = columns_and_rows().map_or(80, |(columns, _)| columns);
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

    fn ended(&self) -> String {
        let k = self.iterations;
        if self.rounds > 1 {
            return format!("{k} in {} rounds", self.rounds);
        }
        match (self.asked, self.settled) {
            (true, _) => format!("{k}, as asked"),
            (false, true) => format!("{k}, then settled"),
            (false, false) => format!("{k}, the limit"),
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

    /// Root mean squares over the agents, iteration by iteration.
    fn curve(&self, values: &[f32]) -> Vec<f32> {
        let rms = |agents: &[f32]| (agents.iter().map(|v| v * v).sum::<f32>() / agents.len() as f32).sqrt();
        values.chunks_exact(UNITS).take(self.iterations).map(rms).collect()
    }
}

/// Cells that violate a rule or a given.
fn violated(givens: &Grid, board: &Grid) -> usize {
    marks(givens, board).iter().filter(|&&m| m == Mark::Violated).count()
}

fn digits(board: &Grid) -> String {
    board.iter().map(|d| char::from(b'0' + d.min(&9))).collect()
}

/// At most `most` iterations at which the board changed, evenly among them; always the first and the last.
fn chosen(boards: &[Grid], most: usize) -> Vec<usize> {
    let changed = |&k: &usize| k == 0 || boards[k] != boards[k - 1];
    let changes: Vec<usize> = (0..boards.len()).filter(changed).collect();
    let n = changes.len().min(most);
    (0..n).map(|i| changes[i * (changes.len() - 1) / (n - 1).max(1)]).collect()
}

/// Columns and rows of the terminal, if there is one.
fn columns_and_rows() -> Option<(usize, usize)> {
    terminal_size::terminal_size().map(|(columns, rows)| (columns.0.into(), rows.0.into()))
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
