//! Pictures of digits.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sheaf_admm::error::check_positive;
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::at_most;
use sheaf_learn::model::Samples;
use sheaf_learn::rng::Stream;
use sheaf_tasks::maze::task::DIRECTIONS;
use sheaf_tasks::mnist::metrics::{agent_votes, vote};
use sheaf_tasks::mnist::shifts::{Draw, Shift};
use sheaf_tasks::mnist::task::{Mnist, MnistBoard, MnistConfig, PictureSamples, board};
use sheaf_tasks::mnist::{fit, pen};

use super::{Answer, Explorable, Field, Geometry, byte};
use crate::script::{self, Limits};

/// A picture of a script: drawn by a pen from a seed or given as pixels, then changed. Rows and columns count from 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PictureInput {
    /// Seed of the pen; 0 if nothing is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The digit to draw; the last of the seed if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digit: Option<u8>,
    /// Pixels row by row, 0 black to 255 white.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pixels: Option<Vec<u8>>,
    /// Columns of `pixels`; 28 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<usize>,
    /// The class, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<u8>,
    /// Black pixels to add on every side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pad: Option<usize>,
    /// Deviation of normal noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// Seed of the noise.
    pub noise_seed: u64,
    /// Pixels to make black.
    pub erase: Vec<[usize; 2]>,
    /// Agents that see black.
    pub blank: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Picture {
    pixels: Vec<f32>,
    height: usize,
    width: usize,
    label: Option<u8>,
}

impl PictureInput {
    fn picture(&self, place: &str, first: Option<&Picture>, limits: &Limits) -> Result<Picture> {
        let mut picture = self.source(place, first, limits)?;
        if let Some(pad) = self.pad {
            at_most(&format!("{place}.pad"), "pixels", 64, pad)?;
            let shift = Shift::Pad(pad);
            let (height, width) = shift.size(picture.height, picture.width);
            picture = picture.shifted(shift, 0, height, width);
        }
        if let Some(deviation) = self.noise {
            check_positive(&format!("{place}.noise"), deviation)?;
            let (height, width) = (picture.height, picture.width);
            picture = picture.shifted(Shift::Noise(deviation), self.noise_seed, height, width);
        }
        at_most(place, "pixels", limits.cells, picture.pixels.len())?;
        for &[row, column] in &self.erase {
            if row >= picture.height || column >= picture.width {
                let expected = format!("a row below {}, a column below {}", picture.height, picture.width);
                let got = format!("[{row}, {column}]");
                return Err(Error::new(ErrorKind::OutOfRange, format!("{place}.erase"), expected, got));
            }
            picture.pixels[row * picture.width + column] = 0.0;
        }
        Ok(picture)
    }

    fn source(&self, place: &str, first: Option<&Picture>, limits: &Limits) -> Result<Picture> {
        let fresh = self.seed.is_some() || self.digit.is_some();
        match (&self.pixels, fresh, first) {
            (Some(_), true, _) => Err(Error::new(ErrorKind::Malformed, place, "`seed` or `pixels`", "both")),
            (Some(pixels), false, _) => {
                let width = self.width.unwrap_or(fit::SIDE);
                at_most(&format!("{place}.pixels"), "of them", limits.cells, pixels.len())?;
                if width == 0 || pixels.is_empty() || pixels.len() % width != 0 {
                    let (expected, got) = (format!("whole rows of {width}"), pixels.len());
                    return Err(Error::new(ErrorKind::Shape, format!("{place}.pixels"), expected, got));
                }
                let height = pixels.len() / width;
                let pixels = pixels.iter().map(|&p| f32::from(p) / 255.0).collect();
                Ok(Picture { pixels, height, width, label: self.label })
            }
            (None, false, Some(first)) => Ok(first.clone()),
            (None, ..) => {
                let seed = self.seed.unwrap_or(0);
                let digit = self.digit.unwrap_or((seed % 10) as u8);
                if digit > 9 {
                    let place = format!("{place}.digit");
                    return Err(Error::new(ErrorKind::OutOfRange, place, "0 to 9", digit));
                }
                let (side, mut drawn) = (fit::SIDE, vec![0; fit::SIDE * fit::SIDE]);
                pen::draw(digit, side, &mut Stream::new(seed, "a drawn digit", 0, 0), &mut drawn);
                let pixels = drawn.iter().map(|&p| f32::from(p) / 255.0).collect();
                Ok(Picture { pixels, height: side, width: side, label: Some(self.label.unwrap_or(digit)) })
            }
        }
    }
}

impl Picture {
    fn shifted(&self, shift: Shift, seed: u64, height: usize, width: usize) -> Self {
        let mut pixels = vec![0.0; height * width];
        shift.apply(Draw { seed, draw: 0, image: 0 }, &self.pixels, self.width, &mut pixels);
        Self { pixels, height, width, label: self.label }
    }
}

struct Pictures {
    board: MnistBoard,
    images: Vec<f32>,   // [inputs, height, width]
    dropped: Vec<bool>, // [inputs, agents]
    labels: Vec<Option<u8>>,
    classes: usize,
    slots: usize,
}

impl Explorable for Mnist {
    fn field(config: &MnistConfig, input: &Value, more: &[Value], limits: &Limits) -> Result<Box<dyn Field>> {
        let mut given = vec![("input".to_string(), script::input::<PictureInput>("input", input)?)];
        for (i, value) in more.iter().enumerate() {
            let place = format!("inputs[{i}]");
            given.push((place.clone(), script::input(&place, value)?));
        }
        let first = given[0].1.picture("input", None, limits)?;
        let board = board(config, first.height, first.width)?;
        let agents = board.layout.agents();
        let (mut images, mut dropped, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for (place, input) in &given {
            let picture = input.picture(place, (place != "input").then_some(&first), limits)?;
            if (picture.height, picture.width) != (first.height, first.width) {
                let expected = format!("{} × {} pixels, as the first input", first.height, first.width);
                let got = format!("{} × {}", picture.height, picture.width);
                return Err(Error::new(ErrorKind::Shape, place, expected, got));
            }
            if let Some(agent) = input.blank.iter().find(|&&agent| agent >= agents) {
                let expected = format!("agents below {agents}");
                return Err(Error::new(ErrorKind::OutOfRange, format!("{place}.blank"), expected, agent));
            }
            images.extend_from_slice(&picture.pixels);
            dropped.extend((0..agents).map(|agent| input.blank.contains(&agent)));
            labels.push(picture.label);
        }
        let (classes, slots) = (config.classes, config.neighbours);
        Ok(Box::new(Pictures { board, images, dropped, labels, classes, slots }))
    }
}

impl Pictures {
    fn inner(&self) -> PictureSamples<'_> {
        PictureSamples { grid: self.board.layout, images: &self.images, dropped: Some(&self.dropped) }
    }
}

impl Samples for Pictures {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        self.inner().views(i, out);
    }

    fn targets(&self, i: usize, out: &mut sheaf_learn::model::Targets) {
        self.inner().targets(i, out);
    }
}

impl Field for Pictures {
    fn sheaf(&self) -> &Sheaf {
        &self.board.sheaf
    }

    fn samples(&self) -> &dyn Samples {
        self
    }

    fn geometry(&self) -> Geometry {
        Geometry::of(&self.board.layout)
    }

    fn cells(&self, input: usize) -> Vec<u8> {
        let pixels = self.board.layout.pixels();
        self.images[input * pixels..][..pixels].iter().map(|&p| byte(p)).collect()
    }

    fn label(&self, input: usize) -> Option<Vec<u8>> {
        self.labels[input].map(|label| vec![label])
    }

    fn read(&self, input: usize, outputs: &[f32]) -> Answer {
        let mut votes = vec![0.0; self.classes];
        let class = vote(outputs, &mut votes) as u8;
        let (classes, sure) = agent_votes(outputs, self.classes).map(|(c, p)| (c as u8, byte(p))).unzip();
        Answer { classes, sure, votes, right: self.labels[input] == Some(class) }
    }

    fn tell(&self, _input: usize, answer: &Answer) -> String {
        let best = answer
            .votes
            .iter()
            .enumerate()
            .fold((0, 0.0), |best, (class, &vote)| if vote > best.1 { (class, vote) } else { best });
        format!("a {}, with {:.0} % of the votes", best.0, 100.0 * best.1)
    }

    fn slots(&self) -> Vec<String> {
        let step = 8 / self.slots.max(1);
        DIRECTIONS.iter().step_by(step.max(1)).map(|name| (*name).into()).collect()
    }
}
