//! A board of palette colours: digits as bitmaps, thin lines between cells, thick ones between boxes.

use sheaf_tasks::sudoku::{BLANK, Grid};

use super::{Mark, marks};
use crate::draw::canvas::Canvas;
use crate::draw::palette::index;

/// Pixels along the side of a cell, lines included.
const CELL: usize = 48;
const THIN: usize = 1;
const THICK: usize = 4;
/// Pixels along the side of one dot of a digit.
const DOT: usize = 4;
/// How much wider a dot is in a given.
const BOLD: usize = 2;
const BAR: usize = 8;

/// The digits 1 to 9, seven rows of five dots.
const DIGITS: [[u8; 7]; 9] = [
    [0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110],
    [0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111],
    [0b01110, 0b10001, 0b00001, 0b00110, 0b00001, 0b10001, 0b01110],
    [0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010],
    [0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110],
    [0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110],
    [0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000],
    [0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110],
    [0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100],
];

/// Draws a board; `progress` from 0 to 1 adds a bar below.
pub fn draw(givens: &Grid, board: &Grid, progress: Option<f32>) -> Canvas {
    let side = 9 * CELL + THICK;
    let height = side + if progress.is_some() { 2 * BAR } else { 0 };
    let mut canvas = Canvas { width: side, height, pixels: vec![index::PAPER; side * height] };
    for line in 0..10 {
        if line % 3 != 0 {
            canvas.fill(line * CELL + THICK / 2, 0, THIN, side, index::TRACK);
            canvas.fill(0, line * CELL + THICK / 2, side, THIN, index::TRACK);
        }
    }
    for line in [0, 3, 6, 9] {
        canvas.fill(line * CELL, 0, THICK, side, index::WALL);
        canvas.fill(0, line * CELL, side, THICK, index::WALL);
    }
    for (cell, mark) in marks(givens, board).into_iter().enumerate() {
        // A value above 9 is not a digit and is not drawn.
        let Some(dots) = board[cell].checked_sub(BLANK + 1).and_then(|d| DIGITS.get(usize::from(d))) else {
            continue;
        };
        let (colour, bold) = match mark {
            Mark::Blank => continue,
            Mark::Given => (index::WALL, BOLD),
            Mark::Found => (index::PATH, 0),
            Mark::Violated => (index::GOAL, if givens[cell] == board[cell] { BOLD } else { 0 }),
        };
        let left = cell % 9 * CELL + THICK + (CELL - THICK - 5 * DOT) / 2;
        let top = cell / 9 * CELL + THICK + (CELL - THICK - 7 * DOT) / 2;
        for (y, row) in dots.iter().enumerate() {
            for x in (0..5).filter(|x| row >> (4 - x) & 1 == 1) {
                canvas.fill(left + x * DOT, top + y * DOT, DOT + bold, DOT, colour);
            }
        }
    }
    if let Some(progress) = progress {
        canvas.bar(side + BAR, BAR, progress, (index::TRACK, index::PATH));
    }
    canvas
}
