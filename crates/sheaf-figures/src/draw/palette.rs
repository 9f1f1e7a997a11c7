//! The colours of all renderers, and the 256-colour table of images.
//!
//! Walls are dark, open pixels light, the start green and the goal red, so that a picture can be read back as a maze.
//! The path is blue, false path violet, missing path orange.

use super::Cell;

/// Red, green, blue.
pub type Colour = [u8; 3];

/// Walls.
pub const WALL: Colour = [32, 36, 52];
/// Open pixels where no path is expected.
pub const OPEN: Colour = [247, 244, 237];
/// A certain path.
pub const PATH: Colour = [52, 120, 246];
/// A certain path where there should be none.
pub const EXTRA: Colour = [160, 70, 220];
/// The mark on pixels where the path is missing.
pub const MISSED: Colour = [245, 140, 20];
/// The start.
pub const START: Colour = [38, 166, 91];
/// The goal.
pub const GOAL: Colour = [226, 58, 62];
/// The background around and between pictures.
pub const PAPER: Colour = [255, 255, 255];
/// The part of a progress bar that is not yet filled.
pub const TRACK: Colour = [222, 222, 226];

/// The scale from zero to the largest heat, evenly spaced.
const HEAT: [Colour; 6] =
    [[247, 244, 237], [253, 217, 140], [250, 155, 70], [225, 80, 75], [150, 35, 105], [60, 10, 90]];

/// A colour between two, at `part` of the way.
pub fn mix(from: Colour, to: Colour, part: f32) -> Colour {
    std::array::from_fn(|i| {
        let (a, b) = (f32::from(from[i]), f32::from(to[i]));
        (a + (b - a) * part.clamp(0.0, 1.0)).round() as u8
    })
}

/// The colour of a heat from 0 to 1.
pub fn heat(value: f32) -> Colour {
    let at = value.clamp(0.0, 1.0) * (HEAT.len() - 1) as f32;
    let below = (at as usize).min(HEAT.len() - 2);
    mix(HEAT[below], HEAT[below + 1], at - below as f32)
}

/// The colour of a pixel of the maze. The renderers mark a missing path on top of it.
pub fn cell(cell: Cell) -> Colour {
    match cell {
        Cell::Wall => WALL,
        Cell::Start => START,
        Cell::Goal => GOAL,
        Cell::Open(p) | Cell::Missed(p) => mix(OPEN, PATH, p),
        Cell::Extra(p) => mix(OPEN, EXTRA, 0.35 + 0.65 * p),
    }
}

/// Indices of the colours in [`table`].
pub(super) mod index {
    pub const PAPER: u8 = 0;
    pub const WALL: u8 = 1;
    pub const START: u8 = 2;
    pub const GOAL: u8 = 3;
    pub const MISSED: u8 = 4;
    pub const TRACK: u8 = 5;
    pub const PATH: u8 = 6;
    pub const OPEN_LEVELS: u8 = 8;
    pub const EXTRA_LEVELS: u8 = 72;
    pub const HEAT_LEVELS: u8 = 136;
}

/// The index of a level from 0 to 1 among the `count` that start at `first`.
fn level(first: u8, count: u8, value: f32) -> u8 {
    first + (value.clamp(0.0, 1.0) * f32::from(count - 1)).round() as u8
}

/// The index of a pixel's colour in [`table`].
pub(super) fn index_of(cell: Cell) -> u8 {
    match cell {
        Cell::Wall => index::WALL,
        Cell::Start => index::START,
        Cell::Goal => index::GOAL,
        Cell::Open(p) | Cell::Missed(p) => level(index::OPEN_LEVELS, 64, p),
        Cell::Extra(p) => level(index::EXTRA_LEVELS, 64, p),
    }
}

/// The index of a heat's colour in [`table`].
pub(super) fn index_of_heat(value: f32) -> u8 {
    level(index::HEAT_LEVELS, 120, value)
}

/// All colours of an image, 256 times three bytes.
pub fn table() -> Vec<u8> {
    let mut table = [PAPER; 256];
    for (place, colour) in [
        (index::WALL, WALL),
        (index::START, START),
        (index::GOAL, GOAL),
        (index::MISSED, MISSED),
        (index::TRACK, TRACK),
        (index::PATH, PATH),
    ] {
        table[usize::from(place)] = colour;
    }
    for i in 0..64u8 {
        let p = f32::from(i) / 63.0;
        table[usize::from(index::OPEN_LEVELS + i)] = cell(Cell::Open(p));
        table[usize::from(index::EXTRA_LEVELS + i)] = cell(Cell::Extra(p));
    }
    for i in 0..120u8 {
        table[usize::from(index::HEAT_LEVELS + i)] = heat(f32::from(i) / 119.0);
    }
    table.as_flattened().to_vec()
}
