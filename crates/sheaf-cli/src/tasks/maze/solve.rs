//! `sheaf solve maze`: solves a typed, painted or generated maze with agents that each see 3 × 3 pixels of it.

use std::path::PathBuf;

use clap::Args;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::image;
use sheaf_tasks::maze::ranks::board_over;
use sheaf_tasks::maze::task::{Maze, MazeReader, MazeSamples, MazeWeights};
use sheaf_tasks::maze::text::{self, MazeInput, TRAINED_SIZE};

use super::data::default_min_path;
use super::story::{Film, Story};
use crate::commands::{Ending, Job};
use crate::draw::{export, png};
use crate::progress::Waiting;
use crate::ranks;
use crate::report::Report;
use crate::tasks::fresh_seed;
use crate::tasks::verbs::Arguments;
use crate::tasks::watch::{Plan, WatchArgs, read_input};

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

/// Find the path through a maze
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
    /// Options of every task.
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Also draw the primal residual of each agent
    #[arg(long, requires = "out")]
    pub heat: bool,
}

/// A maze to solve.
#[derive(Debug)]
struct Solve {
    from: From,
    plan: Plan,
    heat: bool,
}

#[derive(Debug)]
enum From {
    Fresh { shape: MazeShape, seed: u64 },
    File(PathBuf),
}

impl Arguments for SolveArgs {
    fn check(self, json: bool) -> Result<Box<dyn Job>> {
        let plan = self.watch.check::<Maze>(json, self.file.as_deref(), export::check_name)?;
        let from = match self.file {
            Some(path) => From::File(path),
            None => {
                let shape = MazeShape::new(self.size, self.size, default_min_path(self.size, self.size))?;
                From::Fresh { shape, seed: self.seed.unwrap_or_else(fresh_seed) }
            }
        };
        Ok(Box::new(Solve { from, plan, heat: self.heat }))
    }
}

impl Job for Solve {
    fn is_shared(&self) -> bool {
        true
    }

    /// Reads or generates the maze, solves it, and draws the path.
    fn run(&self) -> Result<Ending> {
        let weights: MazeWeights = self.plan.load()?;
        let (title, maze) = self.maze()?;
        let board = board_over(ranks::comm(), &weights.experiment.model, maze.height, maze.width)?;
        if self.heat && board.sheaf.share().is_some() {
            let (expected, got) = ("one process", format!("{} ranks", ranks::count()));
            return Err(Error::new(ErrorKind::Unsupported, "--heat", expected, got).hint("leave --heat out"));
        }
        let samples = MazeSamples { grid: board.layout, inputs: &maze.tokens, labels: &maze.label };
        let limit = self.plan.iterations.unwrap_or(limit(weights.experiment.iterations.eval, &maze));
        let mut film = Film::new(&maze, &board.layout, limit, self.heat);
        let (reader, every) = (MazeReader(samples), self.plan.moves());
        let solve =
            self.plan.watch_first(&weights, &board, &samples, &reader, limit, every, &mut |moment| {
                film.record(moment);
            })?;
        // Rank 0 has the answer.
        let Some(solve) = solve.filter(|_| ranks::is_first()) else { return Ok(Report::new().into()) };
        film.finish(&solve.watched);
        if let Some(out) = &self.plan.out {
            let _waiting = Waiting::new("drawing");
            film.write(out, &self.plan)?;
        }
        if self.plan.animate {
            film.play()?;
        }
        let mut report = Story { title, maze: &maze, plan: &self.plan, solve: &solve }.report(&film)?;
        if let From::Fresh { seed, .. } = self.from {
            report.value("seed", seed);
        }
        Ok(report.into())
    }
}

impl Solve {
    /// The maze and its name in the report.
    fn maze(&self) -> Result<(String, MazeInput)> {
        match &self.from {
            From::Fresh { shape, seed } => {
                let set = generate(shape, *seed, 1)?;
                let title = format!("a fresh maze (--seed {seed})");
                let maze = text::check(set.inputs, set.height, set.width, &title)?;
                Ok((title, maze))
            }
            From::File(path) => {
                let (title, bytes) = read_input(path, "a readable file")?;
                let maze = read(&bytes, &title)?;
                Ok((title, maze))
            }
        }
    }
}

/// Iteration limit for a maze that does not settle: information travels a few pixels per iteration, so large mazes need
/// more.
fn limit(trained: usize, maze: &MazeInput) -> usize {
    trained.max(trained * maze.height.max(maze.width) / TRAINED_SIZE / 2)
}

/// Reads a picture or text.
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
