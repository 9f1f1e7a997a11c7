//! `sheaf solve maze`: a maze typed, painted or drawn at random, solved by agents that each see 3 × 3 pixels of it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::io_error;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::evaluate::Settling;
use sheaf_tasks::maze::image;
use sheaf_tasks::maze::text::{self, MazeInput, TRAINED_SIZE};
use sheaf_tasks::maze::watch::{WatchOptions, watch};
use sheaf_tasks::maze::weights::MazeWeights;

use super::data::default_min_path;
use super::story::{Film, Story};
use crate::args::positive;
use crate::commands::check_out;
use crate::draw::{export, png};
use crate::progress::{Bar, Waiting};
use crate::report::Report;
use crate::tasks::{Source, fresh_seed};

const EXAMPLES: &str = "\
Examples:
  sheaf solve maze                          a fresh maze
  sheaf solve maze --size 37 --seed 5       a larger one, the same each time
  sheaf solve maze maze.txt --animate       your own, iteration by iteration
  sheaf solve maze maze.png --out path.png  a painted one: dark walls, green start, red goal
  sheaf solve maze --out maze.gif --heat    an animation, with residuals beside the maze

A maze as text:
  #######
  #S#   #
  # # # #
  #   #G#
  #######";

/// What can be typed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SolveArgs {
    /// A maze as text (# wall, space or . open, S start, G goal) or PNG picture; - reads standard input.
    /// Without one a fresh maze is drawn
    #[arg(value_name = "FILE|-")]
    pub file: Option<PathBuf>,
    /// Rows and columns of a fresh maze, an odd number
    #[arg(long, value_name = "N", default_value_t = TRAINED_SIZE, conflicts_with = "file")]
    pub size: usize,
    /// Seed of a fresh maze; a new one each time if not given
    #[arg(long, conflicts_with = "file")]
    pub seed: Option<u64>,
    /// Run exactly so many iterations instead of stopping when the agents have settled
    #[arg(long, value_name = "K", value_parser = positive)]
    pub iterations: Option<usize>,
    /// Show the path forming, iteration by iteration
    #[arg(long)]
    pub animate: bool,
    /// Also write a picture (.png), an animation (.gif) or vectors (.svg, moving with --animate)
    #[arg(long, value_name = "FILE.png|.gif|.svg")]
    pub out: Option<PathBuf>,
    /// Show in the picture also how far each agent is from agreement
    #[arg(long, requires = "out")]
    pub heat: bool,
    /// Weights to use
    #[arg(long, value_name = "FILE|builtin:maze", default_value = "builtin:maze")]
    pub weights: String,
}

/// A maze to solve.
#[derive(Debug)]
pub struct Solve {
    from: From,
    iterations: Option<usize>,
    animate: bool,
    out: Option<PathBuf>,
    heat: bool,
    weights: Source,
}

#[derive(Debug)]
enum From {
    Fresh { shape: MazeShape, seed: u64 },
    File(PathBuf),
    StandardInput,
}

impl Solve {
    /// Checks what was typed; with `json` nothing moves on the screen.
    pub fn check(args: SolveArgs, json: bool) -> Result<Self> {
        let from = match args.file {
            Some(path) if path == Path::new("-") => From::StandardInput,
            Some(path) => From::File(path),
            None => {
                let shape = MazeShape::new(args.size, args.size, default_min_path(args.size, args.size))?;
                From::Fresh { shape, seed: args.seed.unwrap_or_else(fresh_seed) }
            }
        };
        if let Some(out) = &args.out {
            export::check_name(out)?;
            check_out(out)?;
        }
        Ok(Self {
            from,
            iterations: args.iterations,
            animate: args.animate && !json,
            out: args.out,
            heat: args.heat,
            weights: Source::parse(&args.weights)?,
        })
    }

    /// Reads or draws the maze, solves it, draws the path.
    pub fn run(&self) -> Result<Report> {
        let MazeWeights { experiment, model, params } = MazeWeights::load(&self.weights.open()?)?;
        let (title, maze) = self.maze()?;
        let board = model.board(maze.height, maze.width)?;
        let options = WatchOptions {
            iterations: self.iterations.unwrap_or(limit(experiment.iterations.eval, &maze)),
            settling: self.iterations.is_none().then(Settling::default),
            pictures: self.wants_frames(),
        };
        let mut film = Film::new(&maze, &options, self.heat);
        let mut distances = Vec::new();
        let bar = Bar::new("solving", options.iterations as u64);
        let start = Instant::now();
        let watched = watch(&model, &params, &board, &maze.tokens, &maze.label, &options, &mut |moment| {
            distances.push(moment.distances);
            bar.add(1);
            film.record(&board.grid, moment);
        })?;
        let seconds = start.elapsed().as_secs_f64();
        bar.clear();
        film.finish(&watched);
        if let Some(out) = &self.out {
            let _waiting = Waiting::new("drawing");
            film.write(out, &maze, self.animate)?;
        }
        if self.animate {
            film.play(&maze)?;
        }
        let story = Story { title, maze: &maze, options: &options, watched: &watched, distances: &distances };
        let mut report = story.report(&film, seconds)?;
        if let From::Fresh { seed, .. } = self.from {
            report.value("seed", seed);
        }
        if let Some(out) = &self.out {
            report.written(out);
        }
        Ok(report)
    }

    fn wants_frames(&self) -> bool {
        let gif = |path: &PathBuf| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gif"));
        self.animate || self.out.as_ref().is_some_and(gif)
    }

    /// The maze and what to call it.
    fn maze(&self) -> Result<(String, MazeInput)> {
        match &self.from {
            From::Fresh { shape, seed } => {
                let set = generate(shape, *seed, 1)?;
                let title = format!("a fresh maze (--seed {seed})");
                let maze = text::check(set.inputs, set.height, set.width, &title)?;
                Ok((title, maze))
            }
            From::File(path) => {
                let bytes = std::fs::read(path).map_err(|e| io_error(path, "a readable file", &e))?;
                let title = path.display().to_string();
                Ok((title.clone(), read(&bytes, &title)?))
            }
            From::StandardInput => {
                let mut bytes = Vec::new();
                let title = "standard input";
                let told = std::io::stdin().lock().read_to_end(&mut bytes);
                told.map_err(|e| io_error(Path::new(title), "a maze that can be read", &e))?;
                Ok((title.into(), read(&bytes, title)?))
            }
        }
    }
}

/// Most iterations of a maze that does not settle: news travels a few pixels per iteration, so large mazes need more.
fn limit(trained: usize, maze: &MazeInput) -> usize {
    trained.max(trained * maze.height.max(maze.width) / TRAINED_SIZE / 2)
}

/// A picture or text.
fn read(bytes: &[u8], place: &str) -> Result<MazeInput> {
    if bytes.starts_with(b"\x89PNG") {
        let picture = png::decode(bytes, place)?;
        return image::from_pixels(&picture.rgb, picture.height, picture.width, place);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| {
        Error::new(ErrorKind::Malformed, place, "a maze as text or as PNG picture", "bytes that are neither")
            .hint("save pictures as PNG and texts as UTF-8")
    })?;
    text::parse(text, place)
}
