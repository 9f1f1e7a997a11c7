//! A picture of palette colours: the maze, the heat beside it if there is any, and a progress bar below.
//!
//! Cells are squares of `cell` pixels that start at the corner, without frames or smoothing, so that a plain picture
//! can be read again as a maze.

use sheaf_admm::{Error, ErrorKind, Result};

use super::palette::{index, index_of, index_of_heat};
use super::{Cell, Frame, Scene};

/// Pixels as indices into [`palette::table`](super::palette::table).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canvas {
    /// Columns of pixels.
    pub width: usize,
    /// Rows of pixels.
    pub height: usize,
    /// Colour of each pixel.
    pub pixels: Vec<u8>, // [height, width]
}

/// A cell size that gives pictures of about 760 pixels, at most 24.
pub fn default_cell(scene: &Scene) -> usize {
    (760 / scene.height().max(scene.width())).clamp(1, 24)
}

/// Draws a frame with cells of `cell` pixels; `progress` from 0 to 1 adds a bar below.
pub fn draw(scene: &Scene, frame: &Frame, cell: usize, progress: Option<f32>) -> Result<Canvas> {
    scene.check(frame)?;
    let (wide, high) = (scene.width() * cell, scene.height() * cell);
    let gap = 2 * cell;
    let panels = if frame.heat.is_some() { 2 * wide + gap } else { wide };
    let bar = if progress.is_some() { (cell / 3).max(2) } else { 0 };
    if cell == 0 || panels > u16::MAX.into() || high + 2 * bar > u16::MAX.into() {
        let got = format!("cells of {cell} for {} × {}", scene.height(), scene.width());
        return Err(Error::new(ErrorKind::Shape, "picture", "1 to 65,535 pixels along each side", got));
    }
    let height = high + 2 * bar;
    let mut canvas = Canvas { width: panels, height, pixels: vec![index::PAPER; panels * height] };
    for pixel in 0..scene.tokens.len() {
        let (row, column) = (pixel / scene.width(), pixel % scene.width());
        let shown = scene.cell(frame, pixel);
        canvas.fill(column * cell, row * cell, cell, cell, index_of(shown));
        if matches!(shown, Cell::Missed(_)) {
            // A dot in the middle; cells too small for one are filled.
            let margin = if cell >= 3 { cell / 3 } else { 0 };
            let side = cell - 2 * margin;
            canvas.fill(column * cell + margin, row * cell + margin, side, side, index::MISSED);
        }
    }
    if let Some(heat) = frame.heat {
        canvas.heat(scene, heat, cell, wide + gap);
    }
    if let Some(progress) = progress {
        canvas.bar(high + bar, bar, progress, (index::TRACK, index::PATH));
    }
    Ok(canvas)
}

impl Canvas {
    pub(super) fn fill(&mut self, left: usize, top: usize, width: usize, height: usize, colour: u8) {
        for row in top..top + height {
            self.pixels[row * self.width + left..][..width].fill(colour);
        }
    }

    /// The second panel: open pixels coloured by heat, relative to the largest.
    fn heat(&mut self, scene: &Scene, heat: &[f32], cell: usize, left: usize) {
        for (pixel, value) in scene.relative_heat(heat).enumerate() {
            let (row, column) = (pixel / scene.width(), pixel % scene.width());
            let colour = value.map_or(index::WALL, index_of_heat);
            self.fill(left + column * cell, row * cell, cell, cell, colour);
        }
    }

    /// A bar of `height` pixels at `top`, filled to `progress` from 0 to 1. `colours` are those of the whole bar and of
    /// the filled part.
    pub(super) fn bar(&mut self, top: usize, height: usize, progress: f32, colours: (u8, u8)) {
        let done = (progress.clamp(0.0, 1.0) * self.width as f32).round() as usize;
        self.fill(0, top, self.width, height, colours.0);
        self.fill(0, top, done, height, colours.1);
    }
}
