//! `sheaf solve mnist`: a digit painted, drawn or taken from a set, told by agents that each see 3 × 3 pixels of it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::io_error;
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::metrics::agent_votes;
use sheaf_tasks::mnist::watch::{Moment, watch};
use sheaf_tasks::mnist::weights::MnistWeights;
use sheaf_tasks::mnist::{fit, pen};

use super::story::{Film, Story};
use crate::args::{SplitArg, positive};
use crate::commands::check_out;
use crate::draw::{png, votes};
use crate::progress::{Bar, Waiting};
use crate::report::Report;
use crate::tasks::{Source, fresh_seed};

const EXAMPLES: &str = "\
Examples:
  sheaf solve mnist                           a digit drawn by a pen
  sheaf solve mnist --animate                 the vote forming, iteration by iteration
  sheaf solve mnist digit.png --out vote.png  your own
  sheaf solve mnist 7 --data data/mnist       picture 7 of the test set
  sheaf solve mnist 7 --out vote.gif          an animation

The picture stands on the left. On the right each pixel has the colour of the class its agent votes
for, the brighter the surer the agent is; in plain text the class itself, a dot where it is unsure.";

/// Where `sheaf data mnist` is usually asked to put the set.
const USUAL_DATA: &str = "data/mnist";

/// What can be typed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SolveArgs {
    /// A PNG picture, or which picture of the set in --data, from 0; without one a digit is drawn
    #[arg(value_name = "FILE.png|INDEX")]
    pub what: Option<String>,
    /// Folder of the set that INDEX counts in [default: data/mnist]
    #[arg(long, value_name = "DIR", requires = "what")]
    pub data: Option<PathBuf>,
    /// Part of the set that INDEX counts in
    #[arg(long, value_enum, default_value_t = SplitArg::Test, requires = "what")]
    pub split: SplitArg,
    /// Do not scale and centre a PNG picture of other than 28 × 28 pixels
    #[arg(long, requires = "what")]
    pub as_it_is: bool,
    /// Which digit to draw; any if not given
    #[arg(long, value_name = "0-9", value_parser = clap::value_parser!(u8).range(0..10), conflicts_with = "what")]
    pub digit: Option<u8>,
    /// Seed of the drawing; a new one each time if not given
    #[arg(long, conflicts_with = "what")]
    pub seed: Option<u64>,
    /// Iterations; the experiment's number if not given
    #[arg(long, value_name = "K", value_parser = positive)]
    pub iterations: Option<usize>,
    /// Show the vote forming, iteration by iteration
    #[arg(long)]
    pub animate: bool,
    /// Also write a picture (.png) or an animation (.gif)
    #[arg(long, value_name = "FILE.png|.gif")]
    pub out: Option<PathBuf>,
    /// Weights to use
    #[arg(long, value_name = "FILE|builtin:mnist", default_value = "builtin:mnist")]
    pub weights: String,
}

/// A picture to tell.
#[derive(Debug)]
pub struct Solve {
    from: From,
    iterations: Option<usize>,
    animate: bool,
    out: Option<PathBuf>,
    weights: Source,
}

#[derive(Debug)]
enum From {
    Pen { digit: u8, seed: u64 },
    Set { dir: PathBuf, split: Split, index: usize },
    File { path: PathBuf, as_it_is: bool },
}

/// A picture and what is known about it.
pub(super) struct Picture {
    pub title: String,
    pub image: Vec<u8>, // [height, width]
    pub height: usize,
    pub width: usize,
    pub label: Option<u8>,
}

impl Solve {
    /// Checks what was typed; with `json` nothing moves on the screen.
    pub fn check(args: SolveArgs, json: bool) -> Result<Self> {
        let from = match args.what {
            None => {
                let seed = args.seed.unwrap_or_else(fresh_seed);
                From::Pen { digit: args.digit.unwrap_or((seed % 10) as u8), seed }
            }
            Some(what) => match what.parse() {
                Ok(index) => {
                    let dir = args.data.unwrap_or_else(|| USUAL_DATA.into());
                    From::Set { dir, split: args.split.into(), index }
                }
                Err(_) if args.data.is_some() => {
                    let expected = "the number of a picture, as --data is given";
                    return Err(Error::new(ErrorKind::Malformed, "FILE.png|INDEX", expected, what));
                }
                Err(_) => From::File { path: what.into(), as_it_is: args.as_it_is },
            },
        };
        if let Some(out) = &args.out {
            votes::check_name(out)?;
            check_out(out)?;
        }
        Ok(Self {
            from,
            iterations: args.iterations,
            animate: args.animate && !json,
            out: args.out,
            weights: Source::parse(&args.weights)?,
        })
    }

    /// Reads or draws the picture, lets the agents vote, draws the vote.
    pub fn run(&self) -> Result<Report> {
        let MnistWeights { experiment, model, params } = MnistWeights::load(&self.weights.open()?)?;
        let picture = self.picture()?;
        let board = model.board(picture.height, picture.width)?;
        let iterations = self.iterations.unwrap_or(experiment.iterations.eval);
        let pixels: Vec<f32> = picture.image.iter().map(|&p| f32::from(p) / 255.0).collect();
        let every = self.animate || self.out.as_deref().is_some_and(votes::moves);
        let mut film = Film::new(&picture, &board.grid, model.classes());
        let bar = Bar::new("solving", iterations as u64);
        let start = Instant::now();
        watch(&model, &params, &board, &pixels, iterations, &mut |moment| {
            bar.add(1);
            film.record(moment, every || moment.iteration == iterations, frame(moment, model.classes()));
        })?;
        let seconds = start.elapsed().as_secs_f64();
        bar.clear();
        if let Some(out) = &self.out {
            let _waiting = Waiting::new("drawing");
            film.write(out)?;
        }
        if self.animate {
            film.play()?;
        }
        let story = Story { picture: &picture, grid: &board.grid, classes: model.classes() };
        let mut report = story.report(&film, seconds);
        if let From::Pen { seed, .. } = self.from {
            report.value("seed", seed);
        }
        if let Some(out) = &self.out {
            report.written(out);
        }
        Ok(report)
    }

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
    let bytes = std::fs::read(path).map_err(|e| {
        io_error(path, "a readable PNG picture", &e)
            .hint("a number names a picture of the set in --data; anything else is a file")
    })?;
    let place = path.display().to_string();
    let png = png::decode(&bytes, &place)?;
    let size = (png.height, png.width);
    let told = fit::from_pixels(&png.rgb, size, as_it_is, &place)?;
    let mut title = format!("{place}, {} × {} pixels", size.0, size.1);
    if told.inverted {
        title += ", dark on light: turned round";
    }
    if told.scaled {
        title += &format!("; scaled and centred in {} × {}", told.height, told.width);
    }
    Ok(Picture { title, image: told.image, height: told.height, width: told.width, label: None })
}

/// What the agents say, as a frame.
fn frame(moment: &Moment<'_>, classes: usize) -> votes::Frame {
    let none = 1.0 / classes as f32;
    let (class, sure) = agent_votes(moment.logits, classes)
        .map(|(class, sure)| (class as u8, ((sure - none) / (1.0 - none)).clamp(0.0, 1.0)))
        .unzip();
    votes::Frame { iteration: moment.iteration, class, sure }
}
