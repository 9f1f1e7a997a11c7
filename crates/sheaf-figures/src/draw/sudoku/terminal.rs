//! Boards as text, side by side.
//!
//! ```text
//! 5 3 . | . 7 . | . . .
//! 6 . . | 1 9 5 | . . .
//! . 9 8 | . . . | . 6 .
//! ------+-------+------
//! ```
//!
//! With colours, givens are bold and violated digits red; without, a violated digit is followed by `!`.

use std::io::IsTerminal;

use sheaf_tasks::sudoku::Grid;

use super::{Mark, marks};

/// Columns of a board.
pub const WIDTH: usize = 22;
/// Lines of a board, its title included.
pub const HEIGHT: usize = 12;
const GAP: &str = "   ";

/// Whether standard output is a terminal that supports colours.
pub fn coloured() -> bool {
    crate::terminal::colours(std::io::stdout().is_terminal())
}

/// Boards with their titles, as many in a row as `columns` hold.
pub fn render(givens: &Grid, boards: &[(String, Grid)], colours: bool, columns: usize) -> String {
    let per_row = ((columns + GAP.len()) / (WIDTH + GAP.len())).max(1);
    let mut out = String::new();
    for row in boards.chunks(per_row) {
        let drawn: Vec<Vec<String>> = row.iter().map(|(t, b)| lines(givens, t, b, colours)).collect();
        for line in 0..HEIGHT {
            let parts: Vec<&str> = drawn.iter().map(|board| board[line].as_str()).collect();
            out.push_str(parts.join(GAP).trim_end_matches(' '));
            out.push('\n');
        }
    }
    out
}

/// One board: [`HEIGHT`] lines, each [`WIDTH`] columns wide.
fn lines(givens: &Grid, title: &str, board: &Grid, colours: bool) -> Vec<String> {
    let marks = marks(givens, board);
    let mut lines = vec![format!("{title:<WIDTH$}")];
    for row in 0..9 {
        if row == 3 || row == 6 {
            lines.push(format!("{:<WIDTH$}", "------+-------+------"));
        }
        let mut line = String::new();
        for column in 0..9 {
            if column == 3 || column == 6 {
                line.push_str("| ");
            }
            let cell = 9 * row + column;
            line.push_str(&shown(board[cell], marks[cell], colours));
        }
        lines.push(line);
    }
    lines
}

/// A cell, two columns wide.
fn shown(digit: u8, mark: Mark, colours: bool) -> String {
    match (mark, colours) {
        (Mark::Blank, true) => "\x1b[2m.\x1b[0m ".into(),
        (Mark::Blank, false) => ". ".into(),
        (Mark::Given, true) => format!("\x1b[1m{digit}\x1b[0m "),
        (Mark::Violated, true) => format!("\x1b[31m{digit}\x1b[0m "),
        (Mark::Violated, false) => format!("{digit}!"),
        _ => format!("{digit} "),
    }
}
