//! How a maze was solved: frames to look at and a report to read.

use std::fmt::Write;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use sheaf_admm::Result;
use sheaf_tasks::maze::metrics::{argmax, path_probability};
use sheaf_tasks::maze::text::MazeInput;
use sheaf_tasks::maze::views::ViewGrid;
use sheaf_tasks::maze::watch::{Distances, Moment, WatchOptions, Watched};
use sheaf_tasks::maze::{CLASSES, PATH};

use crate::draw::maze_terminal::{self, Style};
use crate::draw::{Frame, Scene, agents_to_pixels, export};
use crate::progress::say;
use crate::report::{self, Report, count, duration, rounded, sparkline};

/// Bytes of frames kept; of a long solve of a large maze only every n-th is.
const FILM_BYTES: usize = 1 << 28;

/// Frames of a solve.
#[derive(Debug)]
pub(super) struct Film {
    frames: Vec<Picture>,
    every: usize,
    heat: Option<Vec<f32>>, // [height, width]
}

#[derive(Debug)]
struct Picture {
    iteration: usize,
    probability: Vec<f32>,  // [height, width]
    predicted: Vec<u8>,     // [height, width]
    heat: Option<Vec<f32>>, // [height, width]
}

impl Picture {
    fn new(iteration: usize, logits: &[f32], heat: Option<&Vec<f32>>) -> Self {
        let pixels = logits.len() / CLASSES;
        let (mut probability, mut predicted) = (vec![0.0; pixels], vec![0; pixels]);
        path_probability(logits, &mut probability);
        argmax(logits, &mut predicted);
        Self { iteration, probability, predicted, heat: heat.cloned() }
    }

    fn frame(&self) -> Frame<'_> {
        Frame { probability: &self.probability, predicted: Some(&self.predicted), heat: self.heat.as_deref() }
    }
}

impl Film {
    pub(super) fn new(maze: &MazeInput, options: &WatchOptions, heat: bool) -> Self {
        let pixels = maze.tokens.len();
        let bytes = 9 * pixels * options.iterations;
        Self {
            frames: Vec::new(),
            every: bytes.div_ceil(FILM_BYTES).max(1),
            heat: heat.then(|| vec![0.0; pixels]),
        }
    }

    /// Keeps what one iteration looks like, where it is decoded.
    pub(super) fn record(&mut self, grid: &ViewGrid, moment: &Moment<'_>) {
        if let Some(heat) = &mut self.heat {
            agents_to_pixels(grid, moment.primal, heat);
        }
        if let Some(logits) = moment.picture.filter(|_| moment.iteration.is_multiple_of(self.every)) {
            self.frames.push(Picture::new(moment.iteration, logits, self.heat.as_ref()));
        }
    }

    /// Keeps the last iteration, unless it is there.
    pub(super) fn finish(&mut self, watched: &Watched) {
        if self.frames.last().is_none_or(|f| f.iteration != watched.iterations) {
            self.frames.push(Picture::new(watched.iterations, &watched.picture, self.heat.as_ref()));
        }
    }

    fn last(&self) -> Option<Frame<'_>> {
        self.frames.last().map(Picture::frame)
    }

    /// Writes a file of the kind its name says.
    pub(super) fn write(&self, path: &Path, maze: &MazeInput, all: bool) -> Result<()> {
        let still = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("svg")) && !all;
        let first = if still { self.frames.len().saturating_sub(1) } else { 0 };
        let frames: Vec<Frame<'_>> = self.frames[first..].iter().map(Picture::frame).collect();
        export::write(path, &scene(maze)?, &frames)
    }

    /// Shows the frames one over the other, in about six seconds; the last is left for the report.
    pub(super) fn play(&self, maze: &MazeInput) -> Result<()> {
        let style = style(maze.width);
        let lines = style.lines(maze.height) + 1;
        let fits = terminal().is_some_and(|(columns, rows)| maze.width <= columns && lines <= rows);
        if !std::io::stdout().is_terminal() || !fits {
            say("note: no terminal large enough to animate here; --out FILE.gif writes an animation");
            return Ok(());
        }
        let unjudged = Scene::new(&maze.tokens, maze.height, maze.width, None)?;
        let step = Duration::from_millis((6000 / self.frames.len().max(1)).clamp(30, 200) as u64);
        for picture in &self.frames {
            let drawn = maze_terminal::render(&unjudged, &picture.frame(), style)?;
            let now = picture.iteration;
            report::print(&format!("{drawn}iteration {now:<6}\n"))?;
            std::thread::sleep(step);
            report::print(&maze_terminal::rewind(lines))?;
        }
        // What is left of the last caption would stand below the final drawing.
        report::print("\x1b[J")
    }
}

fn scene(maze: &MazeInput) -> Result<Scene<'_>> {
    Scene::new(&maze.tokens, maze.height, maze.width, Some(&maze.label))
}

/// Columns and rows of the terminal, if there is one.
fn terminal() -> Option<(usize, usize)> {
    terminal_size::terminal_size().map(|(columns, rows)| (columns.0.into(), rows.0.into()))
}

fn style(width: usize) -> Style {
    Style::detect(width)
}

/// What there is to tell.
pub(super) struct Story<'a> {
    pub title: String,
    pub maze: &'a MazeInput,
    pub options: &'a WatchOptions,
    pub watched: &'a Watched,
    pub distances: &'a [Distances],
}

impl Story<'_> {
    pub(super) fn report(&self, film: &Film, seconds: f64) -> Result<Report> {
        let (maze, watched) = (self.maze, self.watched);
        let mut report = Report::new();
        let (style, columns) = (style(maze.width), terminal().map_or(usize::MAX, |(columns, _)| columns));
        match film.last() {
            Some(_) if style != Style::Ascii && maze.width > columns => {
                report.line("drawing", "too wide for this terminal; --out FILE.png writes a picture");
            }
            Some(frame) => {
                report.above(maze_terminal::render(&scene(maze)?, &frame, style)?).above("\n");
            }
            None => {}
        }
        report.line("maze", format!("{}, {} × {} pixels", self.title, maze.height, maze.width));
        let (score, d) = (&watched.score, &watched.distances);
        report.add("solved", "path", score.solved, self.verdict());
        report.value("valid", score.valid).value("connected", score.connected);
        report.value("accuracy", f64::from(u8::from(score.solved)));
        report.value("cell_accuracy", rounded(score.right_cells as f64 / score.cells as f64, 6));
        report.value("path_steps", maze.steps).value("path", cells(&watched.predicted, maze.width));
        report.add(
            "agents",
            "agents",
            watched.agents,
            format!("{}, each sees 3 × 3 pixels", count(watched.agents)),
        );
        report.add("iterations", "iterations", watched.iterations, self.ended());
        report.value("settled", watched.settled);
        let text = format!("primal {:.4}, dual {:.4}, consistency {:.4}", d.primal, d.dual, d.consistency);
        report.add("primal", "residuals", rounded(d.primal.into(), 7), text);
        report
            .value("dual", rounded(d.dual.into(), 7))
            .value("consistency", rounded(d.consistency.into(), 7));
        let curve = |of: fn(&Distances) -> f32| self.distances.iter().map(of).collect::<Vec<f32>>();
        let [primal, dual] = [curve(|d| d.primal), curve(|d| d.dual)];
        report.line("", format!("primal {}", sparkline(&primal, 48)));
        report.line("", format!("dual   {}", sparkline(&dual, 48)));
        report.value(
            "residuals",
            json!({ "primal": primal, "dual": dual, "consistency": curve(|d| d.consistency) }),
        );
        report.value("height", maze.height).value("width", maze.width);
        report.line("time", duration(seconds));
        report.value("seconds", rounded(seconds, 6));
        report.value("samples_per_s", rounded(1.0 / seconds, 3));
        report.value("peak_rss_mb", report::peak_rss_mb().map(|mb| rounded(mb, 1)));
        let notes: Vec<String> = maze.notes.iter().map(ToString::to_string).collect();
        for note in &notes {
            report.line("note", note);
        }
        report.value("notes", notes);
        Ok(report)
    }

    fn verdict(&self) -> String {
        let (score, steps) = (&self.watched.score, self.maze.steps);
        let pairs = || self.maze.label.iter().zip(&self.watched.predicted);
        let extra = pairs().filter(|&(&l, &p)| p == PATH && l != PATH).count();
        let missed = pairs().filter(|&(&l, &p)| l == PATH && p != PATH).count();
        match (score.solved, score.valid) {
            (true, _) => format!("solved: the path found by search, {steps} steps, cell for cell"),
            (_, true) => format!(
                "valid: another path, {} steps; the shortest has {steps}",
                self.watched.predicted.iter().filter(|&&p| p == PATH).count() + 1
            ),
            _ => {
                let mut text = format!("not solved: the path has {steps} steps");
                // Writing to a string cannot fail.
                let _ = write!(text, "; {missed} of its cells missed (o), {extra} predicted beside it (x)");
                text
            }
        }
    }

    fn ended(&self) -> String {
        let Watched { iterations, settled, .. } = *self.watched;
        match (self.options.settling.is_some(), settled) {
            (false, _) => format!("{iterations}, as asked"),
            (true, true) => format!("{iterations}, then settled"),
            (true, false) => format!("{iterations}, the limit; not settled"),
        }
    }
}

/// Rows and columns of the predicted path, from 0, row by row.
fn cells(predicted: &[u8], width: usize) -> Vec<[usize; 2]> {
    let on_path = predicted.iter().enumerate().filter(|&(_, &t)| t == PATH);
    on_path.map(|(p, _)| [p / width, p % width]).collect()
}
