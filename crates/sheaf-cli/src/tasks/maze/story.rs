//! How a maze was solved: frames and a report.

use std::fmt::Write;
use std::path::Path;

use sheaf_admm::Result;
use sheaf_learn::model::ViewGrid;
use sheaf_learn::model::evaluate::{Moment, Watched};
use sheaf_tasks::maze::metrics::{Judge, Score, argmax, path_probability};
use sheaf_tasks::maze::text::MazeInput;
use sheaf_tasks::maze::{CLASSES, PATH};

use crate::draw::maze_terminal::{self, Style};
use crate::draw::{Frame, Scene, agents_to_pixels, export};
use crate::report::{Report, count, rounded};
use crate::tasks::watch::{Plan, Solve, draw, play};

/// Limit on the bytes of stored frames; beyond it, a long solve of a large maze keeps only every n-th frame.
const FILM_BYTES: usize = 1 << 28;

/// Frames of a solve.
#[derive(Debug)]
pub(super) struct Film<'a> {
    maze: &'a MazeInput,
    grid: &'a ViewGrid,
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
    fn frame(&self) -> Frame<'_> {
        Frame { probability: &self.probability, predicted: Some(&self.predicted), heat: self.heat.as_deref() }
    }
}

impl<'a> Film<'a> {
    pub(super) fn new(maze: &'a MazeInput, grid: &'a ViewGrid, iterations: usize, heat: bool) -> Self {
        let every = (9 * grid.pixels() * iterations).div_ceil(FILM_BYTES).max(1);
        Self { maze, grid, frames: Vec::new(), every, heat: heat.then(|| vec![0.0; grid.pixels()]) }
    }

    /// Stores the frame of one iteration, if it was decoded.
    pub(super) fn record(&mut self, moment: &Moment<'_>) {
        if let Some(heat) = &mut self.heat {
            agents_to_pixels(self.grid, moment.residual, heat);
        }
        if let Some(outputs) = moment.outputs.filter(|_| moment.iteration.is_multiple_of(self.every)) {
            self.keep(moment.iteration, outputs);
        }
    }

    /// Stores the last iteration, unless it is already stored.
    pub(super) fn finish(&mut self, watched: &Watched<Vec<u8>>) {
        if self.frames.last().is_none_or(|f| f.iteration != watched.iterations) {
            self.keep(watched.iterations, &watched.outputs);
        }
    }

    fn keep(&mut self, iteration: usize, outputs: &[f32]) {
        let pixels = self.grid.pixels();
        let mut logits = vec![0.0; pixels * CLASSES];
        let (mut probability, mut predicted) = (vec![0.0; pixels], vec![0; pixels]);
        self.grid.average(CLASSES, outputs, &mut logits);
        path_probability(&logits, &mut probability);
        argmax(&logits, &mut predicted);
        self.frames.push(Picture { iteration, probability, predicted, heat: self.heat.clone() });
    }

    /// Writes a file whose format its extension selects.
    pub(super) fn write(&self, path: &Path, plan: &Plan) -> Result<()> {
        let first = plan.first_frame(self.frames.len());
        let frames: Vec<Frame<'_>> = self.frames[first..].iter().map(Picture::frame).collect();
        export::write(path, &self.scene(Some(&self.maze.label))?, &frames)
    }

    /// Shows the frames in place, one after the other.
    pub(super) fn play(&self) -> Result<()> {
        let (style, scene) = (Style::detect(self.maze.width), self.scene(None)?);
        let lines = style.lines(self.maze.height) + 1;
        play(self.frames.len(), self.maze.width, lines, |k| {
            let picture = &self.frames[k];
            let drawn = maze_terminal::render(&scene, &picture.frame(), style)?;
            Ok(format!("{drawn}iteration {:<6}\n", picture.iteration))
        })
    }

    fn scene<'s>(&'s self, label: Option<&'s [u8]>) -> Result<Scene<'s>> {
        Scene::new(&self.maze.tokens, self.maze.height, self.maze.width, label)
    }
}

/// The data of the report.
pub(super) struct Story<'a> {
    pub title: String,
    pub maze: &'a MazeInput,
    pub plan: &'a Plan,
    pub solve: &'a Solve<Vec<u8>>,
}

impl Story<'_> {
    pub(super) fn report(&self, film: &Film<'_>) -> Result<Report> {
        let (maze, watched) = (self.maze, &self.solve.watched);
        let score = Judge::default().score(&maze.tokens, &maze.label, &watched.answer, maze.width);
        let mut report = Report::new();
        let style = Style::detect(maze.width);
        if let Some(last) = film.frames.last() {
            let scene = film.scene(Some(&maze.label))?;
            draw(&mut report, maze.width, || maze_terminal::render(&scene, &last.frame(), style))?;
        }
        report.line("maze", format!("{}, {} × {} pixels", self.title, maze.height, maze.width));
        report.add("solved", "path", score.solved, self.verdict(&score));
        report.value("valid", score.valid).value("connected", score.connected);
        report.value("accuracy", f64::from(u8::from(score.solved)));
        report.value("cell_accuracy", rounded(score.right_cells as f64 / score.cells as f64, 6));
        report.value("path_steps", maze.steps).value("path", cells(&watched.answer, maze.width));
        let agents = film.grid.agents();
        report.add("agents", "agents", agents, format!("{}, each sees 3 × 3 pixels", count(agents)));
        let text = self.plan.ended(watched.iterations, watched.settled);
        report.add("iterations", "iterations", watched.iterations, text).value("settled", watched.settled);
        report.value("height", maze.height).value("width", maze.width);
        let notes = maze.notes.iter().map(ToString::to_string).collect();
        self.plan.finish(&mut report, &self.solve.course, self.solve.seconds, notes);
        Ok(report)
    }

    fn verdict(&self, score: &Score) -> String {
        let (predicted, steps) = (&self.solve.watched.answer, self.maze.steps);
        let pairs = || self.maze.label.iter().zip(predicted);
        let extra = pairs().filter(|&(&l, &p)| p == PATH && l != PATH).count();
        let missed = pairs().filter(|&(&l, &p)| l == PATH && p != PATH).count();
        match (score.solved, score.valid) {
            (true, _) => format!("solved: the path found by search, {steps} steps, cell for cell"),
            (_, true) => format!(
                "valid: another path, {} steps; the shortest has {steps}",
                predicted.iter().filter(|&&p| p == PATH).count() + 1
            ),
            _ => {
                let mut text = format!("not solved: the path has {steps} steps");
                // Writing to a string cannot fail.
                let _ = write!(text, "; {missed} of its cells missed (o), {extra} predicted beside it (x)");
                text
            }
        }
    }
}

/// Rows and columns of the predicted path, from 0, row by row.
fn cells(predicted: &[u8], width: usize) -> Vec<[usize; 2]> {
    let on_path = predicted.iter().enumerate().filter(|&(_, &t)| t == PATH);
    on_path.map(|(p, _)| [p / width, p % width]).collect()
}
