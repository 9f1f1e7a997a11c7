//! Files of puzzles, one per line.
//!
//! Output: `puzzle,solution`, 81 digits each, 0 for a blank; a third field `ambiguous` if there are more solutions.
//! Input: fields separated by comma, semicolon, tab or spaces, quoted or not; `.` or 0 for a blank; an optional header
//! line. The first field of 81 characters (or the one called `puzzle`, `quizzes`, …) is the puzzle, the next (or
//! `solution`, …) its solution; other fields are ignored. A missing solution is computed. Empty lines and lines that
//! begin with `#` count as lines but are skipped.

use std::fmt;
use std::io::Write;
use std::path::Path;

use rayon::prelude::*;
use sheaf_admm::{Error, ErrorKind, Result};

use super::data::SudokuSet;
use super::solver::{Verdict, conflicts, is_complete, solve};
use super::{CELLS, Grid};

/// A line that holds no usable puzzle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// The content of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CsvContents {
    /// The puzzles.
    pub set: SudokuSet,
    /// The line each came from, from 1.
    pub lines: Vec<usize>,
    /// The lines that were skipped.
    pub bad: Vec<BadLine>,
    /// Puzzles that came without a solution.
    pub completed: usize,
}

/// Reads a file. A bad line is an error that names the first one; with `skip_bad` bad lines are collected instead.
pub fn read(path: &Path, skip_bad: bool) -> Result<CsvContents> {
    let place = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Error::new(ErrorKind::Io, &place, "a readable file of puzzles", e).hint("check the path")
    })?;
    parse(&place, &text, skip_bad)
}

/// Parses a text; `place` names it in errors. See [`read`].
pub fn parse(place: &str, text: &str, skip_bad: bool) -> Result<CsvContents> {
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim().trim_start_matches('\u{feff}')))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let columns = lines.first().and_then(|(_, line)| Columns::of_header(line));
    let body = &lines[usize::from(columns.is_some())..];
    let parsed: Vec<_> = body.par_iter().map(|(_, line)| entry(line, columns)).collect();
    let mut contents = CsvContents::default();
    for (&(line, _), entry) in body.iter().zip(parsed) {
        match entry {
            Ok(Entry { puzzle, solution, ambiguous, completed }) => {
                contents.set.push(puzzle, solution, ambiguous);
                contents.completed += usize::from(completed);
                contents.lines.push(line);
            }
            Err(reason) => contents.bad.push(BadLine { line, reason }),
        }
    }
    match contents.bad.first() {
        Some(bad) if !skip_bad => {
            let more = match contents.bad.len() - 1 {
                0 => String::new(),
                n => format!(" ({n} more bad lines)"),
            };
            let place = format!("{place}, line {}", bad.line);
            let got = format!("{}{more}", bad.reason);
            Err(Error::new(ErrorKind::Malformed, place, "a puzzle, or a puzzle and its solution", got)
                .hint("81 digits each, `.` or 0 for a blank; `sheaf data sudoku --from FILE --skip-bad` leaves out the rest"))
        }
        bad if contents.set.is_empty() => {
            let why = bad.map_or(String::new(), |bad| format!("; {bad}"));
            let got = format!("none among {} lines{why}", text.lines().count());
            Err(Error::new(ErrorKind::Malformed, place, "at least one puzzle", got))
        }
        _ => Ok(contents),
    }
}

/// Writes a set, one `puzzle,solution` per line.
pub fn write(set: &SudokuSet, out: &mut impl Write) -> std::io::Result<()> {
    let mut line = Vec::with_capacity(2 * CELLS + 12);
    for i in 0..set.len() {
        line.clear();
        line.extend(set.puzzles[i].iter().map(|d| b'0' + d));
        line.push(b',');
        line.extend(set.solutions[i].iter().map(|d| b'0' + d));
        if set.ambiguous[i] {
            line.extend_from_slice(b",ambiguous");
        }
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(())
}

/// Parses one board: 81 digits, `.` or 0 for a blank. The error describes what is wrong.
pub fn parse_board(text: &str) -> std::result::Result<Grid, String> {
    let mut grid = [0; CELLS];
    let mut count = 0;
    for c in text.chars() {
        let digit = match c {
            '.' => 0,
            '0'..='9' => c as u8 - b'0',
            _ => return Err(format!("`{c}` at position {} is no digit", count + 1)),
        };
        if let Some(cell) = grid.get_mut(count) {
            *cell = digit;
        }
        count += 1;
    }
    if count == CELLS { Ok(grid) } else { Err(format!("{count} cells instead of 81")) }
}

/// Which fields hold puzzle and solution.
#[derive(Clone, Copy, Debug)]
struct Columns {
    puzzle: usize,
    solution: Option<usize>,
}

const PUZZLE_NAMES: [&str; 6] = ["puzzle", "puzzles", "quiz", "quizzes", "question", "sudoku"];
const SOLUTION_NAMES: [&str; 4] = ["solution", "solutions", "answer", "answers"];

impl Columns {
    /// The columns of a header line; `None` if the line is data.
    fn of_header(line: &str) -> Option<Self> {
        let place =
            |names: &[&str]| fields(line).position(|f| names.iter().any(|name| f.eq_ignore_ascii_case(name)));
        place(&PUZZLE_NAMES).map(|puzzle| Self { puzzle, solution: place(&SOLUTION_NAMES) })
    }
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    let comma = line.contains([',', ';', '\t']);
    line.split(move |c| if comma { matches!(c, ',' | ';' | '\t') } else { c == ' ' })
        .map(|f| f.trim().trim_matches('"'))
        .filter(move |f| comma || !f.is_empty())
}

struct Entry {
    puzzle: Grid,
    solution: Grid,
    ambiguous: bool,
    /// Whether the line had no solution.
    completed: bool,
}

fn entry(line: &str, columns: Option<Columns>) -> std::result::Result<Entry, String> {
    let (puzzle, solution) = match columns {
        Some(c) => (fields(line).nth(c.puzzle), c.solution.and_then(|s| fields(line).nth(s))),
        None => {
            let mut boards = fields(line).filter(|f| f.chars().count() == CELLS);
            // Without a field of the right length, report the longest one.
            let longest = || fields(line).max_by_key(|f| f.chars().count());
            let puzzle = boards.next().or_else(longest);
            (puzzle, boards.next())
        }
    };
    let puzzle = parse_board(puzzle.unwrap_or("")).map_err(|e| format!("puzzle: {e}"))?;
    if let Some(cell) = conflicts(&puzzle).iter().position(|&c| c) {
        let (row, column) = (cell / 9 + 1, cell % 9 + 1);
        return Err(format!("puzzle: the {} at row {row}, column {column} is given twice", puzzle[cell]));
    }
    let stored = match solution.filter(|s| !s.is_empty()) {
        Some(text) => Some(check_solution(&puzzle, text).map_err(|e| format!("solution: {e}"))?),
        None => None,
    };
    match (solve(&puzzle), stored) {
        (Verdict::Contradictory, _) => Err("puzzle: it has no solution".into()),
        (Verdict::Unique(solution), stored) => {
            Ok(Entry { puzzle, solution, ambiguous: false, completed: stored.is_none() })
        }
        (Verdict::Ambiguous(found, _), stored) => {
            let solution = stored.unwrap_or(found);
            Ok(Entry { puzzle, solution, ambiguous: true, completed: stored.is_none() })
        }
    }
}

fn check_solution(puzzle: &Grid, text: &str) -> std::result::Result<Grid, String> {
    let grid = parse_board(text)?;
    if let Some(cell) = (0..CELLS).find(|&c| puzzle[c] != 0 && puzzle[c] != grid[c]) {
        let (row, column) = (cell / 9 + 1, cell % 9 + 1);
        return Err(format!(
            "it has {} where {} is given, at row {row}, column {column}",
            grid[cell], puzzle[cell]
        ));
    }
    if is_complete(&grid) { Ok(grid) } else { Err("it breaks the rules".into()) }
}
