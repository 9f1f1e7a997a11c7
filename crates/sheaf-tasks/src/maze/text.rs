//! Mazes from users: typed as text, or [painted](super::image).
//!
//! | character | meaning |
//! | --- | --- |
//! | `#` or `█` | wall |
//! | space or `.` | open |
//! | `S`, `G` | start, goal |
//! | `:` `*` `x` `o` | open: marks of a drawing on open pixels, so that a drawing can be read back |
//!
//! Blank lines around the maze and indentation common to all lines are dropped. If lines differ in length, the short
//! ones are assumed to be trimmed by an editor and padded with open pixels.

use std::fmt;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::product;

use super::data::MAX_PIXELS;
use super::solve::Solver;
use super::{EMPTY, GOAL, START, WALL};

/// Side of the training mazes of the published models.
pub const TRAINED_SIZE: usize = 19;

/// A maze to solve, checked: odd sizes, one start, one goal, and a path between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MazeInput {
    /// Rows of pixels.
    pub height: usize,
    /// Columns of pixels.
    pub width: usize,
    /// The agents' input.
    pub tokens: Vec<u8>, // [height, width]
    /// The same with a shortest path marked.
    pub label: Vec<u8>, // [height, width]
    /// Steps of that path.
    pub steps: usize,
    /// Unusual properties.
    pub notes: Vec<Note>,
}

/// A property that the training mazes do not have. The maze can be solved all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// Some lines of a text were shorter than others and were padded.
    ShortLines {
        /// Line number of the first, from 1.
        first: usize,
        /// How many.
        count: usize,
    },
    /// There are this many loops, so the shortest path may not be the only one.
    Loops(usize),
    /// There are this many connected components of open pixels.
    Pieces(usize),
    /// This many pixels of the border are open; beyond it the agents see walls.
    OpenBorder(usize),
    /// This many pixels do not fit the lattice of walls on even and cells on odd rows and columns.
    OffLattice(usize),
    /// The maze is larger than the training mazes.
    Large {
        /// Rows of pixels.
        height: usize,
        /// Columns of pixels.
        width: usize,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |n: &usize| if *n == 1 { "" } else { "s" };
        match self {
            Self::ShortLines { first, count } => {
                write!(f, "{count} short line{} from line {first} on, filled up with open pixels", s(count))
            }
            Self::Loops(n) => write!(f, "not a perfect maze: {n} loop{}, so other paths may exist", s(n)),
            Self::Pieces(n) => write!(f, "not a perfect maze: {n} parts without a way between them"),
            Self::OpenBorder(n) => {
                write!(f, "{n} open pixel{} on the border; agents see walls beyond it", s(n))
            }
            Self::OffLattice(n) => {
                write!(
                    f,
                    "{n} pixel{} off the lattice (cells at odd rows and columns, walls at even ones)",
                    s(n)
                )
            }
            Self::Large { height, width } => {
                write!(f, "{height} × {width} pixels; training mazes have {TRAINED_SIZE} × {TRAINED_SIZE}")
            }
        }
    }
}

/// Reads a maze from text; `place` names the text in errors.
pub fn parse(text: &str, place: &str) -> Result<MazeInput> {
    let (tokens, height, width, short) = read(text, place)?;
    let mut input = check(tokens, height, width, place)?;
    if let Some(note) = short {
        input.notes.insert(0, note);
    }
    Ok(input)
}

/// The tokens of a typed maze, its height and width; nothing is asked of them.
pub fn tokens(text: &str, place: &str) -> Result<(Vec<u8>, usize, usize)> {
    read(text, place).map(|(tokens, height, width, _)| (tokens, height, width))
}

fn read(text: &str, place: &str) -> Result<(Vec<u8>, usize, usize, Option<Note>)> {
    let all: Vec<&str> = text.lines().map(|l| l.strip_suffix('\r').unwrap_or(l)).collect();
    let blank = |l: &&str| l.trim().is_empty();
    let first = all.iter().position(|l| !blank(l));
    let Some((first, last)) = first.zip(all.iter().rposition(|l| !blank(l))) else {
        return Err(Error::new(ErrorKind::Malformed, place, "a maze", "no text")
            .hint("# for walls, spaces or dots for open pixels, S for the start, G for the goal"));
    };
    let lines = &all[first..=last];
    // Blank lines inside are rows of open pixels that an editor has trimmed.
    let indent =
        lines.iter().filter(|l| !blank(l)).map(|l| l.chars().take_while(|&c| c == ' ').count()).min();
    let indent = indent.unwrap_or(0);
    let length = |l: &&str| l.chars().count();
    let even = lines.iter().all(|l| length(l) == length(&lines[0]));
    let rows: Vec<Vec<char>> =
        lines.iter().map(|l| if even { l } else { l.trim_end() }.chars().skip(indent).collect()).collect();
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    check_pixels(rows.len(), width, place)?;
    let mut tokens = Vec::with_capacity(rows.len() * width);
    for (row, characters) in rows.iter().enumerate() {
        for (column, &c) in characters.iter().enumerate() {
            tokens.push(token(c).ok_or_else(|| {
                let place = format!("{place}, line {}, column {}", first + row + 1, indent + column + 1);
                Error::new(ErrorKind::Malformed, place, "#, space, ., S or G", format_args!("{c:?}"))
                    .hint("# for walls, spaces or dots for open pixels, S for the start, G for the goal")
            })?);
        }
        tokens.resize((row + 1) * width, EMPTY);
    }
    let mut short = (0..rows.len()).filter(|&r| rows[r].len() < width);
    let short = short.next().map(|row| Note::ShortLines { first: first + row + 1, count: 1 + short.count() });
    Ok((tokens, rows.len(), width, short))
}

fn token(character: char) -> Option<u8> {
    match character {
        '#' | '█' => Some(WALL),
        ' ' | '.' | ':' | '*' | 'x' | 'o' => Some(EMPTY),
        'S' => Some(START),
        'G' => Some(GOAL),
        _ => None,
    }
}

/// Rejects sizes before anything of that size is allocated.
fn check_pixels(height: usize, width: usize, place: &str) -> Result<()> {
    if product(&[height, width], MAX_PIXELS).is_some() {
        return Ok(());
    }
    let got = format!("{height} rows of {width}");
    Err(Error::new(ErrorKind::OutOfRange, place, format_args!("a maze of at most {MAX_PIXELS} pixels"), got)
        .hint("a single long line widens all others"))
}

/// Checks that sizes are odd and that there is one start and one goal; a way between them may be missing.
pub fn check_marks(tokens: &[u8], height: usize, width: usize, place: &str) -> Result<()> {
    check_pixels(height, width, place)?;
    if height < 3 || width < 3 || height.is_multiple_of(2) || width.is_multiple_of(2) {
        let got = format!("{height} rows and {width} columns");
        return Err(Error::new(ErrorKind::Shape, place, "odd numbers of rows and columns, 3 or more", got)
            .hint("cells and walls alternate, and walls stand on both ends: 2·n + 1 pixels for n cells"));
    }
    for (name, letter, wanted) in [("start", 'S', START), ("goal", 'G', GOAL)] {
        let mut found = tokens.iter().enumerate().filter(|&(_, &t)| t == wanted).map(|(p, _)| p);
        let (first, second) = (found.next(), found.next());
        let at = |p: usize| format!("row {}, column {}", p / width + 1, p % width + 1);
        let got = match (first, second) {
            (None, _) => "none".to_string(),
            (Some(a), Some(b)) => format!("{}: {}; {}", 2 + found.count(), at(a), at(b)),
            (Some(_), None) => continue,
        };
        return Err(Error::new(ErrorKind::Malformed, place, format_args!("one {name}"), got).hint(format!(
            "mark one open pixel {letter} ({} in a picture)",
            if letter == 'S' { "green" } else { "red" }
        )));
    }
    Ok(())
}

/// Checks a picture and solves it; `place` names it in errors.
pub fn check(tokens: Vec<u8>, height: usize, width: usize, place: &str) -> Result<MazeInput> {
    check_marks(&tokens, height, width, place)?;
    let mut solver = Solver::default();
    let mut label = vec![WALL; tokens.len()];
    let Some(steps) = solver.label(&tokens, width, &mut label) else {
        return Err(Error::new(
            ErrorKind::Infeasible,
            place,
            "a way from start to goal",
            "walls between them",
        )
        .hint("open a wall, or move start or goal"));
    };
    let notes = notes(&tokens, height, width, &mut solver);
    Ok(MazeInput { height, width, tokens, label, steps, notes })
}

fn notes(tokens: &[u8], height: usize, width: usize, solver: &mut Solver) -> Vec<Note> {
    let structure = solver.examine(tokens, width);
    let off_lattice = tokens.iter().enumerate().filter(|&(p, &t)| {
        let (row, column) = (p / width % 2, p % width % 2);
        row == column && (t == WALL) == (row == 1)
    });
    let off_lattice = off_lattice.count();
    [
        (structure.loops > 0).then_some(Note::Loops(structure.loops)),
        (structure.pieces > 1).then_some(Note::Pieces(structure.pieces)),
        (structure.border_openings > 0).then_some(Note::OpenBorder(structure.border_openings)),
        (off_lattice > 0).then_some(Note::OffLattice(off_lattice)),
        (height > TRAINED_SIZE || width > TRAINED_SIZE).then_some(Note::Large { height, width }),
    ]
    .into_iter()
    .flatten()
    .collect()
}
