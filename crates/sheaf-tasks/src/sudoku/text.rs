//! Typed boards.
//!
//! Digits for givens; `.`, `0`, `_`, `*` or `?` for blanks; frame characters (`|`, `+`, `-`, `=`, spaces, line breaks)
//! are ignored. 81 cells must remain.

use sheaf_admm::{Error, ErrorKind, Result};

use super::solver::{Verdict, conflicts, solve};
use super::{CELLS, Grid};

/// A typed board and its completions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Puzzle {
    /// Givens.
    pub givens: Grid,
    /// A completion.
    pub solution: Grid,
    /// Another completion, if there is one.
    pub other: Option<Grid>,
}

/// Parses a board; `place` names it in errors.
pub fn parse(text: &str, place: &str) -> Result<Grid> {
    let (mut grid, mut count) = ([0; CELLS], 0);
    for c in text.chars() {
        let digit = match c {
            '0'..='9' => c as u8 - b'0',
            '.' | '_' | '*' | '?' => 0,
            '|' | '+' | '-' | '=' | '\u{feff}' => continue,
            c if c.is_whitespace() => continue,
            c => {
                let got = format!("`{c}` after {count} cells");
                return Err(Error::new(ErrorKind::Malformed, place, "digits, and `.` or 0 for blanks", got)
                    .hint(HINT));
            }
        };
        if let Some(cell) = grid.get_mut(count) {
            *cell = digit;
        }
        count += 1;
    }
    if count == CELLS {
        return Ok(grid);
    }
    Err(Error::new(ErrorKind::Malformed, place, "81 cells", count).hint(HINT))
}

const HINT: &str = "nine lines of nine cells, or all 81 in one; `.` or 0 for a blank";

/// Completes a board; if it has no completion, the error gives the reason.
pub fn check(givens: Grid, place: &str) -> Result<Puzzle> {
    if let Some(cell) = conflicts(&givens).iter().position(|&c| c) {
        let got = format!(
            "a contradictory one: the {} at row {}, column {} is given twice in a unit",
            givens[cell],
            cell / 9 + 1,
            cell % 9 + 1
        );
        return Err(contradictory(place, &got));
    }
    match solve(&givens) {
        Verdict::Contradictory => {
            Err(contradictory(place, "a contradictory one: no digits for its blanks satisfy all rules"))
        }
        Verdict::Unique(solution) => Ok(Puzzle { givens, solution, other: None }),
        Verdict::Ambiguous(solution, other) => Ok(Puzzle { givens, solution, other: Some(other) }),
    }
}

fn contradictory(place: &str, got: &str) -> Error {
    Error::new(ErrorKind::Malformed, place, "a puzzle with a solution", got)
        .hint("look for a given that was copied wrongly")
}

/// Whether a text can only be a board: digits and blanks, many of them.
pub fn looks_like_board(text: &str) -> bool {
    text.len() > 40 && text.chars().all(|c| c.is_ascii_digit() || ". _*?|".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EASY: &str = "530070000600195000098000060800060003400803001700020006060000280000419005000080079";

    #[test]
    fn boards_in_frames_are_the_same_as_in_one_line() {
        let rows: Vec<String> = (0..9)
            .map(|r| {
                let row: Vec<String> = EASY[9 * r..9 * r + 9].chars().map(|c| c.to_string()).collect();
                [row[..3].join(" "), row[3..6].join(" "), row[6..].join(" ")].join(" | ").replace('0', ".")
            })
            .collect();
        let framed = [rows[..3].join("\n"), rows[3..6].join("\n"), rows[6..].join("\n")]
            .join("\n------+-------+------\n");
        assert_eq!(parse(&framed, "framed").unwrap(), parse(EASY, "line").unwrap());
    }

    #[test]
    fn what_is_no_board_is_told_apart() {
        let got = |text: &str| parse(text, "here").unwrap_err().got().to_string();
        assert_eq!(got(&EASY[1..]), "80");
        assert_eq!(got("53x"), "`x` after 2 cells");
        assert!(looks_like_board(&EASY[1..]) && !looks_like_board("puzzles/of/today.txt"));
    }

    #[test]
    fn puzzles_without_one_solution_are_named() {
        let twice = check(parse(&EASY.replacen("53", "55", 1), "here").unwrap(), "here").unwrap_err();
        assert!(twice.got().contains("row 1, column 1 is given twice"), "{twice}");
        // The last cell of the first row has no digit left: 1 to 8 beside it, 9 below.
        let mut stuck = [0; CELLS];
        (0..8).for_each(|i| stuck[i] = i as u8 + 1);
        stuck[17] = 9;
        assert!(check(stuck, "here").unwrap_err().got().contains("no digits"));
        assert!(check([0; CELLS], "here").unwrap().other.is_some());
        assert_eq!(check(parse(EASY, "here").unwrap(), "here").unwrap().other, None);
    }
}
