//! Pictures of mazes and of the agents' predictions.
//!
//! A [`Scene`] is the fixed part, a [`Frame`] the part that changes from iteration to iteration; both borrow plain
//! arrays. [`Scene::cell`] decides what a pixel shows; the renderers differ only in how they draw it.
//!
//! | renderer | takes | gives |
//! | --- | --- | --- |
//! | [`maze_terminal`] | one frame | text, with or without colours |
//! | [`png`] | one frame | an image; also reads images |
//! | [`gif`] | all frames | an animation |
//! | [`svg`] | one or all frames | vectors, animated if there are several |
//! | [`export`] | all frames | a file whose format its extension selects |
//!
//! Sudoku boards have their own renderers in [`sudoku`], votes on pictures in [`votes`].

pub mod canvas;
pub mod export;
pub mod gif;
pub mod maze_terminal;
pub mod palette;
pub mod png;
pub mod sudoku;
pub mod svg;
pub mod votes;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::ViewGrid;
use sheaf_tasks::maze::{GOAL, PATH, START, WALL};

/// A maze, and its true path where it is known.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    tokens: &'a [u8], // [height, width]
    height: usize,
    width: usize,
    label: Option<&'a [u8]>, // [height, width]
}

/// The agents' outputs at one iteration.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Probability of the path at each pixel.
    pub probability: &'a [f32], // [height, width]
    /// The predicted tokens; without them a pixel counts as path where its probability is one half or more.
    pub predicted: Option<&'a [u8]>, // [height, width]
    /// A second quantity to show beside the maze, such as residuals: any scale, the largest is drawn brightest.
    pub heat: Option<&'a [f32]>, // [height, width]
}

/// What one pixel shows; the numbers are probabilities of the path, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    /// A wall.
    Wall,
    /// The start.
    Start,
    /// The goal.
    Goal,
    /// An open pixel, predicted correctly or without a known path to compare with.
    Open(f32),
    /// Predicted as path, but not on the true path.
    Extra(f32),
    /// On the true path, but not predicted.
    Missed(f32),
}

impl<'a> Scene<'a> {
    /// A maze of `height × width` pixels; `label` marks the true path as in a label of the task.
    pub fn new(tokens: &'a [u8], height: usize, width: usize, label: Option<&'a [u8]>) -> Result<Self> {
        let pixels = height.checked_mul(width).filter(|&n| n > 0);
        let Some(pixels) = pixels else {
            let got = format!("{height} × {width}");
            return Err(Error::new(ErrorKind::Shape, "picture", "one or more pixels", got));
        };
        check_len("tokens of the picture", pixels, tokens.len())?;
        check_len("true path of the picture", pixels, label.map_or(pixels, <[u8]>::len))?;
        Ok(Self { tokens, height, width, label })
    }

    /// Rows of pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns of pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Heat of every pixel relative to the largest, 0 to 1; none on walls.
    fn relative_heat(&self, heat: &[f32]) -> impl Iterator<Item = Option<f32>> {
        let largest = heat.iter().copied().filter(|h| h.is_finite()).fold(0.0f32, f32::max);
        heat.iter().zip(self.tokens).map(move |(&value, &token)| {
            let known = largest > 0.0 && value.is_finite();
            (token != WALL).then_some(if known { value / largest } else { 0.0 })
        })
    }

    /// Whether a frame has the size of the scene.
    pub fn check(&self, frame: &Frame) -> Result<()> {
        let pixels = self.tokens.len();
        check_len("path probabilities", pixels, frame.probability.len())?;
        check_len("predicted tokens", pixels, frame.predicted.map_or(pixels, <[u8]>::len))?;
        check_len("heat", pixels, frame.heat.map_or(pixels, <[f32]>::len))
    }

    /// What a pixel shows in a frame that has been [checked](Self::check).
    pub fn cell(&self, frame: &Frame, pixel: usize) -> Cell {
        // A NaN is drawn as no path.
        let probability = frame.probability[pixel].clamp(0.0, 1.0);
        let probability = if probability.is_nan() { 0.0 } else { probability };
        let on_path = frame.predicted.map_or(probability >= 0.5, |p| p[pixel] == PATH);
        let truth = self.label.map(|l| l[pixel] == PATH);
        match self.tokens[pixel] {
            START => Cell::Start,
            GOAL => Cell::Goal,
            WALL if on_path && truth.is_some() => Cell::Extra(probability),
            WALL => Cell::Wall,
            _ => match truth {
                Some(false) if on_path => Cell::Extra(probability),
                Some(true) if !on_path => Cell::Missed(probability),
                _ => Cell::Open(probability),
            },
        }
    }
}

fn check_len(place: &str, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Shape, place, format_args!("{expected} pixels"), got))
}

/// Converts one number per agent to one per pixel: the mean over the agents that see the pixel.
pub fn agents_to_pixels(
    grid: &ViewGrid,
    agents: &[f32],     // [agents]
    pixels: &mut [f32], // [height, width]
) {
    debug_assert!(agents.len() == grid.agents() && pixels.len() == grid.pixels());
    pixels.fill(0.0);
    for (agent, &value) in agents.iter().enumerate() {
        grid.view(agent).flatten().for_each(|pixel| pixels[pixel] += value);
    }
    for (pixel, value) in pixels.iter_mut().enumerate() {
        *value /= grid.coverage(pixel / grid.width(), pixel % grid.width()).max(1) as f32;
    }
}
