//! Pictures and the agents' votes: the picture on the left; on the right each pixel in the colour of the class that its
//! agent votes for, brighter where the agent is more certain.
//!
//! | renderer | takes | gives |
//! | --- | --- | --- |
//! | [`text`] | one frame | lines for a terminal, with or without colours |
//! | [`write()`] | all frames | a `.png` (the last) or `.gif` file |

use std::path::Path;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::ViewGrid;
use sheaf_learn::train::file::write_whole;

use super::canvas::Canvas;
use super::export::{Kind, kind, wrong_ending};
use super::gif::{self, Timing};
use super::maze_terminal::{Depth, Style, code, switch};
use super::palette::{self, Colour, mix};
use super::png;

/// A picture and the agents that see it.
#[derive(Clone, Debug)]
pub struct Scene<'a> {
    image: &'a [u8], // [height, width]
    height: usize,
    width: usize,
    classes: usize,
    owner: Vec<Option<u32>>, // [height, width]: the agent that owns a pixel
}

/// The agents' votes at one iteration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// The number of the iteration.
    pub iteration: usize,
    /// The class each agent votes for.
    pub class: Vec<u8>, // [agents]
    /// How certain each agent is, from 0 (uniform over the classes) to 1.
    pub sure: Vec<f32>, // [agents]
}

/// Columns of pixels between the panels.
const GAP: usize = 2;
/// Grey levels of the palette.
const GREYS: usize = 32;
/// Colours of the palette before the greys: paper, track and bar.
const FIRST: usize = 3;

impl<'a> Scene<'a> {
    /// A picture seen by the agents of a grid. A pixel that several agents see belongs to the one with the nearest
    /// centre.
    pub fn new(image: &'a [u8], grid: &ViewGrid, classes: usize) -> Self {
        let mut owner = vec![None; grid.pixels()];
        let mut nearest = vec![usize::MAX; grid.pixels()];
        for agent in 0..grid.agents() {
            let (row, column) = grid.centre(agent);
            for pixel in grid.view(agent).flatten() {
                let away = (pixel / grid.width()).abs_diff(row).pow(2)
                    + (pixel % grid.width()).abs_diff(column).pow(2);
                if away < nearest[pixel] {
                    (nearest[pixel], owner[pixel]) = (away, Some(agent as u32));
                }
            }
        }
        Self { image, height: grid.height(), width: grid.width(), classes, owner }
    }

    /// Columns of both panels in pixels.
    pub fn columns(&self) -> usize {
        2 * self.width + GAP
    }

    /// Rows of pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The vote at a pixel, if an agent owns it.
    fn vote(&self, frame: &Frame, pixel: usize) -> Option<(usize, f32)> {
        let agent = self.owner[pixel]? as usize;
        Some((frame.class[agent].into(), frame.sure[agent]))
    }

    /// What both panels show at a row and column of pixels.
    fn colour(&self, frame: &Frame, row: usize, column: usize) -> Colour {
        if column < self.width {
            return [self.image[row * self.width + column]; 3];
        }
        let Some(column) = column.checked_sub(self.width + GAP) else { return palette::PAPER };
        match self.vote(frame, row * self.width + column) {
            Some((class, sure)) => mix(palette::WALL, class_colour(class, self.classes), sure),
            None => palette::WALL,
        }
    }
}

/// The colour of a class.
pub fn class_colour(class: usize, classes: usize) -> Colour {
    const TEN: [Colour; 10] = [
        [230, 75, 75],
        [245, 150, 50],
        [250, 215, 70],
        [150, 205, 60],
        [50, 175, 100],
        [60, 205, 200],
        [70, 140, 250],
        [125, 100, 245],
        [205, 90, 225],
        [240, 120, 175],
    ];
    if classes <= TEN.len() {
        return TEN[class % TEN.len()];
    }
    // Around the circle of hues.
    let turn = 6.0 * class as f32 / classes as f32;
    let ramp = |shift: f32| (((turn + shift) % 6.0 - 3.0).abs() - 1.0).clamp(0.0, 1.0);
    [0.0, 4.0, 2.0].map(|shift| (60.0 + 190.0 * ramp(shift)) as u8)
}

/// One character for a class: digits, then lower-case letters, then upper-case ones.
pub fn class_character(class: usize) -> char {
    (b'0'..=b'9').chain(b'a'..=b'z').chain(b'A'..=b'Z').nth(class).map_or('?', char::from)
}

/// A frame as lines of text, each terminated.
pub fn text(scene: &Scene<'_>, frame: &Frame, style: Style) -> String {
    let mut out = String::new();
    let step = if matches!(style, Style::Half(_)) { 2 } else { 1 };
    for row in (0..scene.height).step_by(step) {
        match style {
            Style::Ascii => plain_line(&mut out, scene, frame, row),
            Style::Wide(depth) => coloured_line(&mut out, scene, frame, row, "  ", depth),
            Style::Half(depth) => coloured_line(&mut out, scene, frame, row, "▀", depth),
        }
        out.push('\n');
    }
    out
}

/// A row as blanks, or two rows as half blocks.
fn coloured_line(out: &mut String, scene: &Scene<'_>, frame: &Frame, row: usize, block: &str, depth: Depth) {
    let mut current = None;
    for column in 0..scene.columns() {
        let upper = scene.colour(frame, row, column);
        if (scene.width..scene.width + GAP).contains(&column) {
            // Between the panels the terminal keeps its own colour.
            out.push_str("\x1b[0m");
            out.push_str(&" ".repeat(block.chars().count()));
            current = None;
            continue;
        }
        if block == "  " {
            switch(out, &mut current, (palette::PAPER, upper), depth);
        } else if row + 1 < scene.height {
            switch(out, &mut current, (upper, scene.colour(frame, row + 1, column)), depth);
        } else {
            // Likewise below the last row, if the number of rows is odd.
            out.push_str(&format!("\x1b[0;38;{}m", code(upper, depth)));
        }
        out.push_str(block);
    }
    out.push_str("\x1b[0m");
}

/// A row as plain characters: darker ones for the picture, the class for the vote, a dot where the agent is uncertain.
fn plain_line(out: &mut String, scene: &Scene<'_>, frame: &Frame, row: usize) {
    const INK: &[u8] = b" .:-=+*#%@";
    let line = row * scene.width..(row + 1) * scene.width;
    out.extend(scene.image[line.clone()].iter().map(|&v| char::from(INK[usize::from(v) * INK.len() / 256])));
    out.push_str(&" ".repeat(GAP));
    out.extend(line.map(|pixel| match scene.vote(frame, pixel) {
        Some((class, sure)) if sure >= 0.5 => class_character(class),
        Some(_) => '.',
        None => ' ',
    }));
    // No trailing blanks.
    out.truncate(out.trim_end_matches(' ').len());
}

/// Checks early that the extension is one of a supported format.
pub fn check_name(path: &Path) -> Result<()> {
    match kind(path) {
        Ok(Kind::Png | Kind::Gif) => Ok(()),
        _ => {
            Err(wrong_ending(path, "a name ending in .png or .gif")
                .hint(".png is a picture, .gif an animation"))
        }
    }
}

/// Whether a file of this format holds more than one frame.
pub fn moves(path: &Path) -> bool {
    matches!(kind(path), Ok(Kind::Gif))
}

/// Writes the last frame to a `.png` file or all of them to a `.gif` file.
pub fn write(path: &Path, scene: &Scene<'_>, frames: &[Frame]) -> Result<()> {
    let cell = (420 / scene.height.max(scene.width)).clamp(1, 15);
    let colours = table(scene.classes);
    let bytes = match (moves(path), frames.last()) {
        (_, None) => return Err(Error::new(ErrorKind::Shape, "picture", "one or more frames", "none")),
        (false, Some(last)) => png::encode_with(&draw(scene, last, cell, None)?, colours)?,
        (true, _) => {
            let timing = Timing::for_frames(frames.len());
            let progress = |i: usize| Some((i + 1) as f32 / frames.len() as f32);
            let drawn = frames.iter().enumerate().map(|(i, f)| draw(scene, f, cell, progress(i)));
            gif::encode(drawn, frames.len(), &colours, timing)?
        }
    };
    write_whole(path, &bytes)
}

/// Levels of a class's colour in the palette.
fn levels(classes: usize) -> usize {
    ((256 - FIRST - GREYS) / classes.max(1)).clamp(1, 24)
}

/// All colours, 256 times three bytes.
fn table(classes: usize) -> Vec<u8> {
    let mut table = [palette::PAPER; 256];
    (table[1], table[2]) = (palette::TRACK, palette::PATH);
    for (i, grey) in table[FIRST..FIRST + GREYS].iter_mut().enumerate() {
        *grey = [(i * 255 / (GREYS - 1)) as u8; 3];
    }
    let levels = levels(classes);
    for (i, colour) in table[FIRST + GREYS..].iter_mut().take(classes * levels).enumerate() {
        let part = (i % levels + 1) as f32 / levels as f32;
        *colour = mix(palette::WALL, class_colour(i / levels, classes), part);
    }
    table.as_flattened().to_vec()
}

fn draw(scene: &Scene<'_>, frame: &Frame, cell: usize, progress: Option<f32>) -> Result<Canvas> {
    let (wide, bar) = (scene.columns() * cell, if progress.is_some() { (cell / 3).max(2) } else { 0 });
    let height = scene.height * cell + 2 * bar;
    if wide > u16::MAX.into() || height > u16::MAX.into() {
        let got = format!("{} × {}", scene.height, scene.width);
        return Err(Error::new(ErrorKind::Shape, "picture", "at most 65,535 pixels along each side", got));
    }
    let mut canvas = Canvas { width: wide, height, pixels: vec![0; wide * height] };
    for pixel in 0..scene.image.len() {
        let (row, column) = (pixel / scene.width, pixel % scene.width);
        let grey = FIRST + usize::from(scene.image[pixel]) * (GREYS - 1) / 255;
        canvas.fill(column * cell, row * cell, cell, cell, grey as u8);
        let voted = match scene.vote(frame, pixel) {
            Some((class, sure)) => {
                let levels = levels(scene.classes);
                // A completely uncertain agent still shows a trace of colour.
                let level = (sure.clamp(0.0, 1.0) * levels as f32).ceil().max(1.0) as usize - 1;
                (FIRST + GREYS + class * levels + level).min(255)
            }
            None => FIRST,
        };
        canvas.fill((scene.width + GAP + column) * cell, row * cell, cell, cell, voted as u8);
    }
    if let Some(progress) = progress {
        canvas.bar(scene.height * cell + bar, bar, progress, (1, 2));
    }
    Ok(canvas)
}
