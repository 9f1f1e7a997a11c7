//! Pictures of Sudoku boards: givens bold, the agents' digits blue, violated cells red.
//!
//! | renderer | gives |
//! | --- | --- |
//! | [`terminal`] | boards side by side as text, with or without colours |
//! | [`canvas`] | a picture of palette colours, for PNG and GIF |
//! | [`svg`] | vectors, animated if there are several boards |
//! | [`write()`] | a file whose format its extension selects |

pub mod canvas;
pub mod svg;
pub mod terminal;

use std::path::Path;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::write_whole;
use sheaf_tasks::sudoku::solver::conflicts;
use sheaf_tasks::sudoku::{BLANK, CELLS, Grid};

use super::export::{Kind, kind};
use super::gif::{self, Timing};
use super::png;

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// No digit.
    Blank,
    /// A given.
    Given,
    /// A digit without a conflict.
    Found,
    /// A digit that repeats in a unit or differs from the given.
    Violated,
}

/// What every cell of a board shows.
pub fn marks(givens: &Grid, board: &Grid) -> [Mark; CELLS] {
    let twice = conflicts(board);
    std::array::from_fn(|cell| match (givens[cell], board[cell]) {
        (_, BLANK) => Mark::Blank,
        (given, digit) if twice[cell] || (given != BLANK && given != digit) => Mark::Violated,
        (BLANK, _) => Mark::Found,
        _ => Mark::Given,
    })
}

/// Writes boards to a `.png` (the last), `.gif` or `.svg` (all of them) file, through a temporary file.
pub fn write(path: &Path, givens: &Grid, boards: &[Grid]) -> Result<()> {
    let Some(last) = boards.last() else {
        return Err(Error::new(ErrorKind::Shape, "picture", "one or more boards", "none"));
    };
    let timing = Timing::for_frames(boards.len());
    let bytes = match kind(path)? {
        Kind::Png => png::encode_with(&canvas::draw(givens, last, None)?, canvas::table())?,
        Kind::Gif => {
            let progress = |i: usize| Some((i + 1) as f32 / boards.len() as f32);
            let frames = boards.iter().enumerate().map(|(i, b)| canvas::draw(givens, b, progress(i)));
            gif::encode(frames, boards.len(), &canvas::table(), timing)?
        }
        Kind::Svg => {
            let seconds = f32::from(timing.step) * boards.len() as f32 / 100.0;
            svg::render(givens, boards, seconds).into_bytes()
        }
    };
    write_whole(path, &bytes)
}
