//! A maze as a panel of a figure.

use sheaf_admm::Result;
use sheaf_tasks::maze::{GOAL, START, WALL};

use crate::colour::{self, Colour, FAINT, GREEN, PAPER, VERMILLION};
use crate::sheet::Sheet;

/// The colour of a token that is not open.
pub fn fixed(token: u8) -> Option<Colour> {
    match token {
        WALL => Some(colour::WALL),
        START => Some(GREEN),
        GOAL => Some(VERMILLION),
        _ => None,
    }
}

/// Draws the maze with a colour for every open pixel, at most `side` pixels of the page along its longer side.
pub fn panel(
    sheet: &Sheet<'_>,
    (x, y, side): (f64, f64, f64),
    (tokens, width): (&[u8], usize),
    open: impl Fn(usize) -> Colour,
) -> Result<()> {
    let height = tokens.len() / width;
    let cell = cell(side, width.max(height));
    let colours: Vec<Colour> =
        tokens.iter().enumerate().map(|(p, &t)| fixed(t).unwrap_or_else(|| open(p))).collect();
    sheet.rect(x, y, cell * width as f64, cell * height as f64, PAPER)?;
    sheet.cells(x, y, cell, width, &colours)?;
    sheet.frame(x, y, cell * width as f64, cell * height as f64, FAINT, 0.4)
}

/// The side of one cell if `count` of them take `side`.
pub fn cell(side: f64, count: usize) -> f64 {
    side / count.max(1) as f64
}
