//! Every iteration of both runs, side by side, as an animation.

use gif::{Encoder, Frame, Repeat};
use sheaf_admm::{Error, ErrorKind, Result};

use super::shapes::{BLUE, Colour, LINE, ORANGE, PAPER, Shape, board};
use crate::subject::Outcome;

/// Largest side of a board in pixels.
const SIDE: usize = 380;
/// Most frames; longer runs show every second, third … iteration.
const FRAMES: usize = 120;
const BAR: usize = 6;

/// The animation of an experiment.
pub fn to_gif(task: &str, outcome: &Outcome) -> Result<Vec<u8>> {
    let geometry = outcome.field.geometry();
    let scale = (SIDE / geometry.width.max(geometry.height).max(1)).max(1);
    let (gap, count) = (scale.max(8), outcome.run.iterations);
    let (wide, tall) = (geometry.width * scale, geometry.height * scale);
    let (width, height) = (2 * wide + 3 * gap, tall + 3 * gap + BAR);
    let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Io, "animation", "a GIF file", e);
    let mut bytes = Vec::new();
    {
        let mut encoder =
            Encoder::new(&mut bytes, width as u16, height as u16, &[]).map_err(|e| failed(&e))?;
        encoder.set_repeat(Repeat::Infinite).map_err(|e| failed(&e))?;
        let every = count.div_ceil(FRAMES).max(1);
        for k in (0..count).filter(|k| (k + 1) % every == 0 || k + 1 == count) {
            let mut canvas = Canvas::new(width, height);
            for (i, (record, other)) in
                [(outcome.base.as_ref(), None), (Some(&outcome.run), outcome.base.as_ref())]
                    .into_iter()
                    .enumerate()
            {
                let Some(record) = record.filter(|record| record.iterations > k) else { continue };
                canvas.at = [gap + i * (wide + gap), gap];
                canvas.scale = scale as f32;
                board(task, &*outcome.field, record, k, other).iter().for_each(|shape| canvas.draw(shape));
            }
            (canvas.at, canvas.scale) = ([gap, tall + 2 * gap], 1.0);
            canvas.fill([0.0, 0.0, (width - 2 * gap) as f32, BAR as f32], LINE);
            let bar = (width - 2 * gap) as f32;
            canvas.fill([0.0, 0.0, bar * (k + 1) as f32 / count as f32, BAR as f32], BLUE);
            if let Some(first) = outcome.comparison.as_ref().and_then(|c| c.first) {
                canvas.fill([bar * first as f32 / count as f32 - 1.0, -3.0, 3.0, 12.0], ORANGE);
            }
            let mut frame = Frame::from_rgb_speed(width as u16, height as u16, &canvas.rgb, 20);
            frame.delay = if k + 1 == count { 200 } else { 8 };
            encoder.write_frame(&frame).map_err(|e| failed(&e))?;
        }
    }
    Ok(bytes)
}

struct Canvas {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
    at: [usize; 2],
    scale: f32,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        Self { width, height, rgb: PAPER.repeat(width * height), at: [0, 0], scale: 1.0 }
    }

    fn fill(&mut self, [x, y, w, h]: [f32; 4], colour: Colour) {
        let end = |origin: usize, from: f32, len: f32, limit: usize| {
            let start = (origin as f32 + from * self.scale).round().max(0.0) as usize;
            let size = (len * self.scale).round().max(1.0) as usize;
            start.min(limit)..(start + size).min(limit)
        };
        let (columns, rows) = (end(self.at[0], x, w, self.width), end(self.at[1], y, h, self.height));
        for row in rows {
            for column in columns.clone() {
                self.rgb[3 * (row * self.width + column)..][..3].copy_from_slice(&colour);
            }
        }
    }

    fn draw(&mut self, shape: &Shape) {
        match *shape {
            Shape::Box(place, colour) => self.fill(place, colour),
            Shape::Frame([x, y, w, h], colour) => {
                let t = 0.14;
                for side in [[x, y, w, t], [x, y + h - t, w, t], [x, y, t, h], [x + w - t, y, t, h]] {
                    self.fill(side, colour);
                }
            }
            Shape::Digit([x, y, side], digit, colour) => {
                let dot = side / 5.0;
                for (row, bits) in FONT[usize::from(digit.min(9))].iter().enumerate() {
                    for column in (0..3).filter(|column| bits >> (2 - column) & 1 == 1) {
                        self.fill([x + dot * (column as f32 + 1.0), y + dot * row as f32, dot, dot], colour);
                    }
                }
            }
        }
    }
}

/// Digits, three by five dots.
const FONT: [[u8; 5]; 10] = [
    [7, 5, 5, 5, 7],
    [2, 6, 2, 2, 7],
    [7, 1, 7, 4, 7],
    [7, 1, 7, 1, 7],
    [5, 5, 7, 1, 1],
    [7, 4, 7, 1, 7],
    [7, 4, 7, 5, 7],
    [7, 1, 2, 2, 2],
    [7, 5, 7, 5, 7],
    [7, 5, 7, 1, 7],
];
