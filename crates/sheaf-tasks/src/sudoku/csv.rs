//! Files of puzzles, one per line.
//!
//! Output: `puzzle,solution`, 81 digits each, 0 for a blank; a third field `ambiguous` if there are more solutions.
//! Input: fields separated by comma, semicolon, tab or spaces, quoted or not; `.` or 0 for a blank; a byte order mark
//! is skipped. A header line names the columns (`puzzle`, `quizzes`, …; `solution`, `answers`, …). Without one, the
//! first line with boards of 81 cells says which columns they are, and every other line has its boards in the same
//! ones; of two boards the complete one that the other leads to is the solution, whichever comes first. Other fields
//! are ignored. A board of another length is an error in its line, never passed over for another field. A missing
//! solution is computed. Empty lines and lines that begin with `#` count as lines but are skipped.

mod columns;

use std::fmt;
use std::io::Write;
use std::path::Path;

use rayon::prelude::*;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::read_text_at_most;

use super::data::SudokuSet;
use super::solver::{Verdict, conflicts, is_complete, solve};
use super::{BLANK, CELLS, Grid};
use columns::Columns;

/// Largest file of puzzles, 512 MiB: about three million puzzles with their solutions.
pub const MAX_BYTES: u64 = 1 << 29;
/// Most puzzles that are generated for one file, so that it can be read again.
pub const MAX_PUZZLES: usize = 3_000_000;

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
    let text = read_text_at_most(path, MAX_BYTES, "a readable file of puzzles")?;
    parse(&path.display().to_string(), &text, skip_bad)
}

/// Parses a text; `place` names it in errors. See [`read`].
pub fn parse(place: &str, text: &str, skip_bad: bool) -> Result<CsvContents> {
    let rows = Rows::of(text);
    let parsed: Vec<_> = rows.body().par_iter().map(|(_, line)| entry(line, rows.columns)).collect();
    let mut contents = CsvContents::default();
    for (&(line, _), entry) in rows.body().iter().zip(parsed) {
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
        Some(bad) if !skip_bad => Err(bad_line(place, bad, contents.bad.len() - 1)),
        bad if contents.set.is_empty() => {
            let why = bad.map_or(String::new(), |bad| format!("; {bad}"));
            let got = format!("none among {} lines{why}", text.lines().count());
            Err(Error::new(ErrorKind::Malformed, place, "at least one puzzle", got))
        }
        _ => Ok(contents),
    }
}

/// Puzzle `index` of a text, from 0, and its line, from 1; lines that hold no puzzle count too. `None` if the text is
/// no file of puzzles: no field of any line is nearly a board.
pub fn nth(place: &str, text: &str, index: usize) -> Option<Result<(Grid, usize)>> {
    let rows = Rows::of(text);
    if rows.columns.is_none() && !rows.body().iter().any(|(_, line)| columns::has_board(line)) {
        return None;
    }
    if rows.body().is_empty() {
        return Some(Err(Error::new(ErrorKind::Malformed, place, "at least one puzzle", "none")));
    }
    let Some(&(line, row)) = rows.body().get(index) else {
        let want = match rows.body().len() {
            1 => "0, for the one puzzle there".to_string(),
            n => format!("0 to {}, for the {n} puzzles there", n - 1),
        };
        return Some(Err(Error::new(ErrorKind::OutOfRange, "--index", want, index)));
    };
    let found = entry(row, rows.columns).map(|entry| (entry.puzzle, line));
    Some(found.map_err(|reason| bad_line(place, &BadLine { line, reason }, 0)))
}

fn bad_line(place: &str, bad: &BadLine, others: usize) -> Error {
    let more = if others > 0 { format!(" ({others} more bad lines)") } else { String::new() };
    let (place, got) = (format!("{place}, line {}", bad.line), format!("{}{more}", bad.reason));
    Error::new(ErrorKind::Malformed, place, "a puzzle, or a puzzle and its solution", got).hint(
        "81 digits each, `.` or 0 for a blank; `sheaf data sudoku --from FILE --skip-bad` leaves out the rest",
    )
}

/// The lines of a text that count, with their numbers, and where their boards are.
struct Rows<'a> {
    lines: Vec<(usize, &'a str)>,
    header: bool,
    columns: Option<Columns>,
}

impl<'a> Rows<'a> {
    fn of(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines: Vec<(usize, &str)> = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
            .collect();
        let header = lines.first().and_then(|(_, line)| Columns::of_header(line));
        let columns = header.or_else(|| lines.iter().find_map(|(_, line)| Columns::of_boards(line)));
        Self { lines, header: header.is_some(), columns }
    }

    /// The lines after the header.
    fn body(&self) -> &[(usize, &'a str)] {
        &self.lines[usize::from(self.header)..]
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

struct Entry {
    puzzle: Grid,
    solution: Grid,
    ambiguous: bool,
    /// Whether the line had no solution.
    completed: bool,
}

fn entry(line: &str, columns: Option<Columns>) -> std::result::Result<Entry, String> {
    let (puzzle, solution) = columns::boards(line, columns);
    let puzzle = parse_board(puzzle).map_err(|e| format!("puzzle: {e}"))?;
    if let Some(cell) = conflicts(&puzzle).iter().position(|&c| c) {
        let (row, column) = (cell / 9 + 1, cell % 9 + 1);
        return Err(format!("puzzle: the {} at row {row}, column {column} is given twice", puzzle[cell]));
    }
    let stored = match solution.filter(|s| !s.is_empty()) {
        Some(text) => Some(check_solution(&puzzle, text).map_err(|e| format!("solution: {e}"))?),
        None => None,
    };
    if stored.is_none() && !puzzle.contains(&BLANK) {
        return Err("puzzle: it has no blanks; this is a solution without its puzzle".into());
    }
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
