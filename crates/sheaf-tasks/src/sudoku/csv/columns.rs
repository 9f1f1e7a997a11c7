//! Which fields of a line hold puzzle and solution.

use super::super::{BLANK, CELLS};
use super::parse_board;

/// Where the boards of every line are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    puzzle: usize,
    solution: Option<usize>,
}

const PUZZLE_NAMES: [&str; 6] = ["puzzle", "puzzles", "quiz", "quizzes", "question", "sudoku"];
const SOLUTION_NAMES: [&str; 4] = ["solution", "solutions", "answer", "answers"];

/// Digits and blanks of at least this length are meant as a board; numbers and ratings are shorter.
const NEARLY: usize = 27;

impl Columns {
    /// The columns of a header line; `None` if the line is data, or names two columns for the same board.
    pub(super) fn of_header(line: &str) -> Option<Self> {
        let named = |names: &[&str]| -> Vec<usize> {
            let is_name = |f: &str| names.iter().any(|name| f.eq_ignore_ascii_case(name));
            fields(line).enumerate().filter(|(_, f)| is_name(f)).map(|(at, _)| at).collect()
        };
        match (&named(&PUZZLE_NAMES)[..], &named(&SOLUTION_NAMES)[..]) {
            (&[puzzle], []) => Some(Self { puzzle, solution: None }),
            (&[puzzle], &[solution]) => Some(Self { puzzle, solution: Some(solution) }),
            _ => None,
        }
    }

    /// The columns of a line of data; `None` unless all its boards have 81 cells, and there is one or two.
    pub(super) fn of_boards(line: &str) -> Option<Self> {
        let found: Vec<(usize, &str)> =
            fields(line).enumerate().filter(|(_, f)| is_nearly_board(f)).collect();
        if found.iter().any(|(_, field)| field.len() != CELLS) {
            return None;
        }
        match found[..] {
            // One complete board alone is a solution whose puzzle is missing.
            [(puzzle, board)] => board.contains(['0', '.']).then_some(Self { puzzle, solution: None }),
            [(first, a), (second, b)] if leads_to(b, a) => {
                Some(Self { puzzle: second, solution: Some(first) })
            }
            [(first, _), (second, _)] => Some(Self { puzzle: first, solution: Some(second) }),
            _ => None,
        }
    }
}

/// Whether `puzzle` has blanks and is part of the complete board `solution`.
fn leads_to(puzzle: &str, solution: &str) -> bool {
    let (Ok(puzzle), Ok(solution)) = (parse_board(puzzle), parse_board(solution)) else { return false };
    let fits = puzzle.iter().zip(&solution).all(|(&p, &s)| s != BLANK && (p == BLANK || p == s));
    fits && puzzle.contains(&BLANK)
}

/// Whether a field is meant as a board, whatever its length.
fn is_nearly_board(field: &str) -> bool {
    field.len() >= NEARLY && field.bytes().all(|c| c.is_ascii_digit() || c == b'.')
}

/// Whether a field of this line is meant as a board.
pub(super) fn has_board(line: &str) -> bool {
    fields(line).any(is_nearly_board)
}

/// Puzzle and solution of a line. Without columns, the field to report is a board of the wrong length, or else the
/// longest.
pub(super) fn boards(line: &str, columns: Option<Columns>) -> (&str, Option<&str>) {
    match columns {
        Some(Columns { puzzle, solution }) => {
            // A line without the solution's column may have its board elsewhere: that is a wrong line, not a shorter one.
            let misplaced = || {
                let taken = |at: usize| at == puzzle || Some(at) == solution;
                fields(line)
                    .enumerate()
                    .find(|(at, field)| !taken(*at) && is_nearly_board(field))
                    .map(|(_, f)| f)
            };
            let own = solution.and_then(|at| fields(line).nth(at)).filter(|field| !field.is_empty());
            (fields(line).nth(puzzle).unwrap_or(""), own.or_else(misplaced))
        }
        None => {
            let wrong = fields(line).find(|field| is_nearly_board(field) && field.len() != CELLS);
            let longest = || fields(line).max_by_key(|field| field.chars().count());
            (wrong.or_else(longest).unwrap_or(""), None)
        }
    }
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    let comma = line.contains([',', ';', '\t']);
    line.split(move |c| if comma { matches!(c, ',' | ';' | '\t') } else { c == ' ' })
        .map(|f| f.trim().trim_matches('"'))
        .filter(move |f| comma || !f.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_names_two_puzzles_or_two_solutions_is_none() {
        let columns = |line: &str| Columns::of_header(line).map(|c| (c.puzzle, c.solution));
        assert_eq!(columns("id,Puzzle,rating,Solution"), Some((1, Some(3))));
        assert_eq!(columns("solution;puzzle"), Some((1, Some(0))));
        assert_eq!(columns("puzzle,puzzle"), None);
        assert_eq!(columns("puzzle,solution,answers"), None);
    }

    #[test]
    fn numbers_and_ratings_are_no_boards_but_a_board_that_lost_cells_is_one() {
        assert!(!has_board("17,3.14159,0.5"));
        assert!(has_board(&format!("17,{}", "0".repeat(80))));
        let (puzzle, solution) = ("0".repeat(81), "1".repeat(81));
        let columns = |line: String| Columns::of_boards(&line).map(|c| (c.puzzle, c.solution));
        assert_eq!(columns(format!("9,{puzzle},{solution}")), Some((1, Some(2))));
        assert_eq!(columns(format!("{solution},9,{puzzle}")), Some((2, Some(0))));
        assert_eq!(columns(format!("{},{solution}", &puzzle[1..])), None);
        assert_eq!(columns(format!("{puzzle},{puzzle},{puzzle}")), None);
    }
}
