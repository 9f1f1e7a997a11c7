//! Mazes as text: two coloured blanks per pixel, half blocks where the terminal is too narrow for that, or plain
//! characters.
//!
//! | character | shows |
//! | --- | --- |
//! | `#` `S` `G` | wall, start, goal |
//! | space `.` `:` `*` | open: path less probable than 0.1, 0.3, 0.5, or more |
//! | `x` `o` | predicted but not on the true path; on the true path but not predicted |
//!
//! `sheaf solve maze` reads the plain characters.

use std::fmt::Write;
use std::io::IsTerminal;

use super::palette::{self, Colour};
use super::{Cell, Frame, Scene};
use crate::terminal;
use sheaf_admm::Result;

/// How many colours a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// 24 bits.
    True,
    /// The 256 colours of xterm.
    Xterm,
}

/// How a maze is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One plain character per pixel.
    Ascii,
    /// Two coloured blanks per pixel: square, with letters for start and goal.
    Wide(Depth),
    /// Two pixels, one above the other, in one character: four times smaller.
    Half(Depth),
}

impl Style {
    /// The style that suits standard output and the environment.
    pub fn detect(width: usize) -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let columns = terminal_size::terminal_size().map_or(80, |(columns, _)| columns.0.into());
        Self::choose(
            width,
            terminal::moves(std::io::stdout().is_terminal()),
            !terminal::colours(true),
            &variable("COLORTERM"),
            columns,
        )
    }

    /// Plain characters unless the terminal supports colours; then the largest style that fits into `columns`.
    pub fn choose(width: usize, terminal: bool, no_colour: bool, colour_term: &str, columns: usize) -> Self {
        if !terminal || no_colour {
            return Self::Ascii;
        }
        let depth = if ["truecolor", "24bit"].contains(&colour_term) { Depth::True } else { Depth::Xterm };
        if 2 * width <= columns { Self::Wide(depth) } else { Self::Half(depth) }
    }

    /// Lines that a maze of `height` rows takes.
    pub fn lines(self, height: usize) -> usize {
        if matches!(self, Self::Half(_)) { height.div_ceil(2) } else { height }
    }
}

/// A frame as lines of text, each terminated.
pub fn render(scene: &Scene, frame: &Frame, style: Style) -> Result<String> {
    scene.check(frame)?;
    let mut out = String::new();
    let mut row = 0;
    while row < scene.height() {
        match style {
            Style::Ascii => (0..scene.width()).for_each(|c| out.push(character(at(scene, frame, row, c)))),
            Style::Wide(depth) => wide_line(&mut out, scene, frame, row, depth),
            Style::Half(depth) => half_line(&mut out, scene, frame, row, depth),
        }
        out.push('\n');
        row += if matches!(style, Style::Half(_)) { 2 } else { 1 };
    }
    Ok(out)
}

/// Moves the cursor up, so that the next frame is written over this one.
pub fn rewind(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\r") }
}

fn at(scene: &Scene, frame: &Frame, row: usize, column: usize) -> Cell {
    scene.cell(frame, row * scene.width() + column)
}

fn character(cell: Cell) -> char {
    match cell {
        Cell::Wall => '#',
        Cell::Start => 'S',
        Cell::Goal => 'G',
        Cell::Extra(_) => 'x',
        Cell::Missed(_) => 'o',
        Cell::Open(p) if p < 0.1 => ' ',
        Cell::Open(p) if p < 0.3 => '.',
        Cell::Open(p) if p < 0.5 => ':',
        Cell::Open(_) => '*',
    }
}

fn wide_line(out: &mut String, scene: &Scene, frame: &Frame, row: usize, depth: Depth) {
    let mut current = None;
    for column in 0..scene.width() {
        let cell = at(scene, frame, row, column);
        let front = if matches!(cell, Cell::Missed(_)) { palette::MISSED } else { palette::PAPER };
        let text = match cell {
            Cell::Start => "S ",
            Cell::Goal => "G ",
            Cell::Missed(_) => "··",
            _ => "  ",
        };
        // Blanks have no foreground colour to change.
        let colours =
            (if text == "  " { current.map_or(front, |(f, _)| f) } else { front }, palette::cell(cell));
        switch(out, &mut current, colours, depth);
        out.push_str(text);
    }
    out.push_str("\x1b[0m");
}

fn half_line(out: &mut String, scene: &Scene, frame: &Frame, row: usize, depth: Depth) {
    let colour = |row, column| match at(scene, frame, row, column) {
        Cell::Missed(_) => palette::MISSED,
        cell => palette::cell(cell),
    };
    let mut current = None;
    for column in 0..scene.width() {
        let upper = colour(row, column);
        if row + 1 < scene.height() {
            switch(out, &mut current, (upper, colour(row + 1, column)), depth);
        } else {
            // Below the last row, if the number of rows is odd, the terminal keeps its own colour.
            let _ = write!(out, "\x1b[0;38;{}m", code(upper, depth));
        }
        out.push('▀');
    }
    out.push_str("\x1b[0m");
}

/// Changes the foreground and background colours where they differ from the current ones.
pub(super) fn switch(
    out: &mut String,
    current: &mut Option<(Colour, Colour)>,
    wanted: (Colour, Colour),
    depth: Depth,
) {
    // Writing to a string cannot fail.
    if current.is_none_or(|(front, _)| front != wanted.0) {
        let _ = write!(out, "\x1b[38;{}m", code(wanted.0, depth));
    }
    if current.is_none_or(|(_, back)| back != wanted.1) {
        let _ = write!(out, "\x1b[48;{}m", code(wanted.1, depth));
    }
    *current = Some(wanted);
}

pub(super) fn code([r, g, b]: Colour, depth: Depth) -> String {
    match depth {
        Depth::True => format!("2;{r};{g};{b}"),
        Depth::Xterm => format!("5;{}", xterm([r, g, b])),
    }
}

/// The nearest of xterm's 6 × 6 × 6 colours and 24 greys.
fn xterm(colour: Colour) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let distance = |other: Colour| -> u32 {
        colour.iter().zip(other).map(|(&a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
    };
    let cube = (0..216u8).map(|i| (16 + i, [i / 36, i / 6 % 6, i % 6].map(|s| STEPS[usize::from(s)])));
    let greys = (0..24u8).map(|i| (232 + i, [8 + 10 * i; 3]));
    cube.chain(greys).min_by_key(|&(_, c)| distance(c)).map_or(0, |(i, _)| i)
}
