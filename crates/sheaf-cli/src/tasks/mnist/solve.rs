//! `sheaf solve mnist`: classifies a digit that is painted, drawn or taken from a set, with agents that each see 3 × 3
//! pixels of it.

use std::path::{Path, PathBuf};

use clap::Args;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::read_at_most;
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::task::{Mnist, MnistWeights, PictureSamples, VoteReader, board};
use sheaf_tasks::mnist::{fit, pen};

use super::eval::SplitArg;
use super::story::Film;
use crate::commands::{Ending, Job, without_effect};
use crate::draw::{png, votes};
use crate::progress::Waiting;
use crate::tasks::fresh_seed;
use crate::tasks::verbs::Arguments;
use crate::tasks::watch::{Plan, WatchArgs};

const EXAMPLES: &str = "\
Examples:
  sheaf solve mnist                           a digit drawn by a pen
  sheaf solve mnist --animate                 the vote forming, iteration by iteration
  sheaf solve mnist digit.png --out vote.png  your own
  sheaf solve mnist 7 --data data/mnist       picture 7 of the test set
  sheaf solve mnist 7 --out vote.gif          an animation

The picture stands on the left. On the right each pixel has the colour of the class its agent votes
for, the brighter the surer the agent is; in plain text the class itself, a dot where it is unsure.";

/// The usual output folder of `sheaf data mnist`.
const USUAL_DATA: &str = "data/mnist";

/// Classify a picture of a digit
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SolveArgs {
    /// A PNG picture, or which picture of the set in --data, from 0; without one a digit is drawn
    #[arg(value_name = "FILE.png|INDEX")]
    pub what: Option<String>,
    /// Folder of the set that INDEX counts in [default: data/mnist]
    #[arg(long, value_name = "DIR", requires = "what")]
    pub data: Option<PathBuf>,
    /// Part of the set that INDEX counts in [default: test]
    #[arg(long, value_enum, requires = "what")]
    pub split: Option<SplitArg>,
    /// Do not scale and centre a PNG picture of other than 28 × 28 pixels
    #[arg(long, requires = "what")]
    pub as_it_is: bool,
    /// Which digit to draw; any if not given
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..10), conflicts_with = "what")]
    pub digit: Option<u8>,
    /// Seed of the drawing; a new one each time if not given
    #[arg(long, conflicts_with = "what")]
    pub seed: Option<u64>,
    /// Options of every task.
    #[command(flatten)]
    pub watch: WatchArgs,
}

/// The error for an option that belongs to another kind of input.
/// A picture to classify.
#[derive(Debug)]
struct Solve {
    from: From,
    plan: Plan,
}

#[derive(Debug)]
enum From {
    Pen { digit: u8, seed: u64 },
    Set { dir: PathBuf, split: Split, index: usize },
    File { path: PathBuf, as_it_is: bool },
}

/// A picture and its metadata.
pub(super) struct Picture {
    pub title: String,
    pub image: Vec<u8>, // [height, width]
    pub height: usize,
    pub width: usize,
    pub label: Option<u8>,
}

impl Arguments for SolveArgs {
    fn check(self, json: bool) -> Result<Box<dyn Job>> {
        let from = match self.what {
            None if self.data.is_some() => {
                return Err(without_effect("--data", "the number of a picture in it", "none"));
            }
            None => {
                let seed = self.seed.unwrap_or_else(fresh_seed);
                From::Pen { digit: self.digit.unwrap_or((seed % 10) as u8), seed }
            }
            Some(what) => match what.parse() {
                Ok(index) => {
                    if self.as_it_is {
                        return Err(without_effect("--as-it-is", "a PNG picture", "the number of a picture"));
                    }
                    let dir = self.data.unwrap_or_else(|| USUAL_DATA.into());
                    From::Set { dir, split: self.split.unwrap_or(SplitArg::Test).into(), index }
                }
                Err(_) if self.data.is_some() => {
                    let expected = "the number of a picture, as --data is given";
                    return Err(Error::new(ErrorKind::Malformed, "FILE.png|INDEX", expected, what));
                }
                Err(_) if self.split.is_some() => {
                    return Err(without_effect("--split", "the number of a picture", "a file"));
                }
                Err(_) => From::File { path: what.into(), as_it_is: self.as_it_is },
            },
        };
        let input = match &from {
            From::File { path, .. } => Some(path.as_path()),
            _ => None,
        };
        let plan = self.watch.check::<Mnist>(json, input, votes::check_name)?;
        Ok(Box::new(Solve { from, plan }))
    }
}

impl Job for Solve {
    /// Reads or draws the picture, lets the agents vote, and draws the votes.
    fn run(&self) -> Result<Ending> {
        let weights: MnistWeights = self.plan.load()?;
        let MnistWeights { experiment, .. } = &weights;
        let (picture, classes) = (self.picture()?, experiment.model.classes);
        let board = board(&experiment.model, picture.height, picture.width)?;
        let pixels: Vec<f32> = picture.image.iter().map(|&p| f32::from(p) / 255.0).collect();
        let samples = PictureSamples { grid: board.layout, images: &pixels, dropped: None };
        let mut film = Film::new(&picture, &board.layout, classes, self.plan.moves());
        let (reader, limit) = (VoteReader { classes }, experiment.iterations.eval);
        let solve = self.plan.watch(&weights, &board, &samples, &reader, limit, true, &mut |moment| {
            film.record(moment);
        })?;
        if let Some(out) = &self.plan.out {
            let _waiting = Waiting::new("drawing");
            film.write(out)?;
        }
        if self.plan.animate {
            film.play()?;
        }
        let mut report = film.report(&picture, &board.layout, &self.plan, &solve)?;
        if let From::Pen { seed, .. } = self.from {
            report.value("seed", seed);
        }
        Ok(report.into())
    }
}

impl Solve {
    fn picture(&self) -> Result<Picture> {
        match &self.from {
            From::Pen { digit, seed } => {
                let (mut set, label) = (pen::digits(1, fit::SIDE, *seed)?, Some(*digit));
                let stream = &mut sheaf_learn::rng::Stream::new(*seed, "a drawn digit", 0, 0);
                pen::draw(*digit, fit::SIDE, stream, &mut set.images);
                let title = format!("a {digit} drawn by a pen (--digit {digit} --seed {seed})");
                Ok(Picture { title, image: set.images, height: fit::SIDE, width: fit::SIDE, label })
            }
            From::Set { dir, split, index } => {
                let set = ImageSet::read(dir, *split)?;
                if *index >= set.len() {
                    let want = format!("0 to {}, for the {} pictures of the set", set.len() - 1, set.len());
                    return Err(Error::new(ErrorKind::OutOfRange, "INDEX", want, index));
                }
                let title = format!("picture {index} of {}, {}", dir.display(), split.name());
                let (image, label) = (set.image(*index).to_vec(), Some(set.labels[*index]));
                Ok(Picture { title, image, height: set.height, width: set.width, label })
            }
            From::File { path, as_it_is } => painted(path, *as_it_is),
        }
    }
}

fn painted(path: &Path, as_it_is: bool) -> Result<Picture> {
    let hint = "a number names a picture of the set in --data; anything else is a file";
    let bytes =
        read_at_most(path, png::MAX_FILE_BYTES, "a readable PNG picture").map_err(|e| e.hint(hint))?;
    let place = path.display().to_string();
    let png = png::decode(&bytes, &place)?;
    let size = (png.height, png.width);
    let fitted = fit::from_pixels(&png.rgb, size, as_it_is, &place)?;
    let mut title = format!("{place}, {} × {} pixels", size.0, size.1);
    if fitted.inverted {
        title += ", dark on light: turned round";
    }
    if fitted.scaled {
        title += &format!("; scaled and centred in {} × {}", fitted.height, fitted.width);
    }
    Ok(Picture { title, image: fitted.image, height: fitted.height, width: fitted.width, label: None })
}
