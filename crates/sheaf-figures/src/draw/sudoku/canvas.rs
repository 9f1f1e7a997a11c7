//! A board of palette colours: digits in the font of all figures, thin lines between cells, thick ones between boxes.

use std::sync::OnceLock;

use sheaf_admm::Result;
use sheaf_tasks::sudoku::{BLANK, Grid};

use super::{Mark, marks};
use crate::draw::canvas::Canvas;
use crate::draw::palette::{self, Colour, mix};
use crate::file::pixels;

/// Pixels along the side of a cell, lines included.
const CELL: usize = 48;
const THIN: usize = 1;
const THICK: usize = 4;
/// Pixels along the side of the picture of a digit.
const GLYPH: usize = CELL - THICK;
const BAR: usize = 8;

/// Colours of the palette: paper and line, then the levels of each ink.
const PAPER: u8 = 0;
const TRACK: u8 = 1;
const INKS: [Colour; 3] = [palette::WALL, palette::PATH, palette::GOAL];
const FIRST: u8 = 2;
/// Levels between paper and ink, for smooth digits.
const LEVELS: u8 = 16;

/// How much ink each pixel of a digit has, 0 to [`LEVELS`].
type Glyph = Vec<u8>; // [GLYPH, GLYPH]

/// All colours, 256 times three bytes.
pub fn table() -> Vec<u8> {
    let mut table = [palette::PAPER; 256];
    table[usize::from(TRACK)] = palette::TRACK;
    for (ink, colour) in INKS.into_iter().enumerate() {
        for level in 1..=LEVELS {
            let part = f32::from(level) / f32::from(LEVELS);
            table[usize::from(ink_index(ink, level))] = mix(palette::PAPER, colour, part);
        }
    }
    table.as_flattened().to_vec()
}

/// The index of a level from 1 of an ink.
fn ink_index(ink: usize, level: u8) -> u8 {
    FIRST + ink as u8 * LEVELS + level - 1
}

/// The nine digits, plain and bold.
fn glyphs() -> Result<&'static [[Glyph; 9]; 2]> {
    static GLYPHS: OnceLock<[[Glyph; 9]; 2]> = OnceLock::new();
    if let Some(glyphs) = GLYPHS.get() {
        return Ok(glyphs);
    }
    let mut made: [[Glyph; 9]; 2] = Default::default();
    for (weight, digits) in ["normal", "bold"].iter().zip(&mut made) {
        for (digit, glyph) in digits.iter_mut().enumerate() {
            let svg = format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{GLYPH}\" height=\"{GLYPH}\"><text x=\"{}\" \
                 y=\"{}\" font-size=\"32\" font-weight=\"{weight}\" text-anchor=\"middle\">{}</text></svg>",
                GLYPH / 2,
                GLYPH / 2 + 12,
                digit + 1
            );
            let ink = |v: &[u8; 3]| ((255 - u32::from(v[0])) * u32::from(LEVELS) + 127) / 255;
            *glyph = pixels(&svg, 1.0)?.rgb.as_chunks::<3>().0.iter().map(|v| ink(v) as u8).collect();
        }
    }
    Ok(GLYPHS.get_or_init(|| made))
}

/// Draws a board; `progress` from 0 to 1 adds a bar below.
pub fn draw(givens: &Grid, board: &Grid, progress: Option<f32>) -> Result<Canvas> {
    let side = 9 * CELL + THICK;
    let height = side + if progress.is_some() { 2 * BAR } else { 0 };
    let mut canvas = Canvas { width: side, height, pixels: vec![PAPER; side * height] };
    let black = ink_index(0, LEVELS);
    for line in 0..10 {
        if line % 3 != 0 {
            canvas.fill(line * CELL + THICK / 2, 0, THIN, side, TRACK);
            canvas.fill(0, line * CELL + THICK / 2, side, THIN, TRACK);
        }
    }
    for line in [0, 3, 6, 9] {
        canvas.fill(line * CELL, 0, THICK, side, black);
        canvas.fill(0, line * CELL, side, THICK, black);
    }
    let glyphs = glyphs()?;
    for (cell, mark) in marks(givens, board).into_iter().enumerate() {
        // A value above 9 is not a digit and is not drawn.
        let Some(digit) = board[cell].checked_sub(BLANK + 1).filter(|&d| d < 9) else { continue };
        let (ink, bold) = match mark {
            Mark::Blank => continue,
            Mark::Given => (0, true),
            Mark::Found => (1, false),
            Mark::Violated => (2, givens[cell] == board[cell]),
        };
        let glyph = &glyphs[usize::from(bold)][usize::from(digit)];
        let (left, top) = (cell % 9 * CELL + THICK, cell / 9 * CELL + THICK);
        for (p, &level) in glyph.iter().enumerate().filter(|(_, level)| **level > 0) {
            canvas.pixels[(top + p / GLYPH) * side + left + p % GLYPH] = ink_index(ink, level);
        }
    }
    if let Some(progress) = progress {
        canvas.bar(side + BAR, BAR, progress, (TRACK, ink_index(1, LEVELS)));
    }
    Ok(canvas)
}
