//! Mazes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::at_most;
use sheaf_learn::model::Samples;
use sheaf_learn::model::evaluate::Reader;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::metrics::argmax;
use sheaf_tasks::maze::solve::Solver;
use sheaf_tasks::maze::task::{DIRECTIONS, Maze, MazeBoard, MazeConfig, MazeReader, MazeSamples, board};
use sheaf_tasks::maze::text::{self, TRAINED_SIZE};
use sheaf_tasks::maze::{CLASSES, EMPTY, GOAL, START, WALL};

use super::{Answer, Explorable, Field, Geometry, byte};
use crate::script::{self, Limits};

/// A maze of a script: drawn from a seed or typed, then changed. Rows and columns count from 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MazeInput {
    /// Seed of a fresh maze; 0 if nothing is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Rows and columns of a fresh maze.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<usize>,
    /// A typed maze.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Moves the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<[usize; 2]>,
    /// Moves the goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<[usize; 2]>,
    /// Walls to open.
    pub open: Vec<[usize; 2]>,
    /// Cells to close.
    pub close: Vec<[usize; 2]>,
}

impl MazeInput {
    /// Tokens, height and width; `first` is the maze to change if none is given.
    fn tokens(&self, place: &str, first: Option<&Pixels>, limits: &Limits) -> Result<Pixels> {
        let mut maze = match (&self.text, self.seed, first) {
            (Some(_), Some(_), _) => {
                return Err(Error::new(ErrorKind::Malformed, place, "`seed` or `text`", "both"));
            }
            (Some(text), None, _) => {
                at_most(&format!("{place}.text"), "bytes", 4 * limits.cells, text.len())?;
                let (tokens, height, width) = text::tokens(text, place)?;
                Pixels { tokens, height, width }
            }
            (None, None, Some(first)) if self.size.is_none() => first.clone(),
            (None, seed, _) => {
                let size = self.size.unwrap_or(TRAINED_SIZE);
                at_most(&format!("{place}.size"), "pixels a side", limits.cells.isqrt(), size)?;
                // The shortest path of `sheaf solve maze`: a seed names the same maze there and here.
                let shape = MazeShape::new(size, size, size.saturating_sub(1))?;
                let set = generate(&shape, seed.unwrap_or(0), 1)?;
                Pixels { tokens: set.inputs, height: size, width: size }
            }
        };
        at_most(place, "cells", limits.cells, maze.tokens.len())?;
        for (name, cells, token) in [("open", &self.open, EMPTY), ("close", &self.close, WALL)] {
            for cell in cells {
                let at = maze.place(&format!("{place}.{name}"), cell)?;
                maze.tokens[at] = token;
            }
        }
        for (name, cell, token) in [("start", self.start, START), ("goal", self.goal, GOAL)] {
            if let Some(cell) = cell {
                let at = maze.place(&format!("{place}.{name}"), &cell)?;
                maze.tokens.iter_mut().filter(|t| **t == token).for_each(|t| *t = EMPTY);
                maze.tokens[at] = token;
            }
        }
        text::check_marks(&maze.tokens, maze.height, maze.width, place)?;
        Ok(maze)
    }
}

#[derive(Clone, Debug)]
struct Pixels {
    tokens: Vec<u8>,
    height: usize,
    width: usize,
}

impl Pixels {
    fn place(&self, place: &str, &[row, column]: &[usize; 2]) -> Result<usize> {
        if row < self.height && column < self.width {
            return Ok(row * self.width + column);
        }
        let expected = format!("a row below {} and a column below {}", self.height, self.width);
        Err(Error::new(ErrorKind::OutOfRange, place, expected, format_args!("[{row}, {column}]")))
    }
}

struct Mazes {
    board: MazeBoard,
    inputs: Vec<u8>,           // [inputs, height, width]
    labels: Vec<u8>,           // [inputs, height, width]
    steps: Vec<Option<usize>>, // [inputs], of the shortest path
}

impl Explorable for Maze {
    fn field(config: &MazeConfig, input: &Value, more: &[Value], limits: &Limits) -> Result<Box<dyn Field>> {
        let first = script::input::<MazeInput>("input", input)?.tokens("input", None, limits)?;
        let (mut inputs, mut labels, mut steps) = (Vec::new(), Vec::new(), Vec::new());
        let mut solver = Solver::default();
        let mut add = |maze: &Pixels| {
            let at = labels.len();
            inputs.extend_from_slice(&maze.tokens);
            labels.resize(at + maze.tokens.len(), 0);
            steps.push(solver.label(&maze.tokens, maze.width, &mut labels[at..]));
        };
        add(&first);
        for (i, value) in more.iter().enumerate() {
            let place = format!("inputs[{i}]");
            let maze = script::input::<MazeInput>(&place, value)?.tokens(&place, Some(&first), limits)?;
            if (maze.height, maze.width) != (first.height, first.width) {
                let expected = format!("{} × {} pixels, as the first input", first.height, first.width);
                let got = format!("{} × {}", maze.height, maze.width);
                return Err(Error::new(ErrorKind::Shape, place, expected, got));
            }
            add(&maze);
        }
        let board = board(config, first.height, first.width)?;
        Ok(Box::new(Mazes { board, inputs, labels, steps }))
    }
}

impl Mazes {
    fn of<'a>(&self, all: &'a [u8], input: usize) -> &'a [u8] {
        let pixels = self.board.layout.pixels();
        &all[input * pixels..][..pixels]
    }

    fn reader(&self) -> MazeReader<'_> {
        let (grid, inputs, labels) = (self.board.layout, &self.inputs, &self.labels);
        MazeReader(MazeSamples { grid, inputs, labels })
    }
}

/// Samples that own their board.
impl Samples for Mazes {
    fn len(&self) -> usize {
        self.steps.len()
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        self.reader().0.views(i, out);
    }

    fn targets(&self, i: usize, out: &mut sheaf_learn::model::Targets) {
        self.reader().0.targets(i, out);
    }
}

impl Field for Mazes {
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
        self.of(&self.inputs, input).to_vec()
    }

    fn label(&self, input: usize) -> Option<Vec<u8>> {
        self.steps[input].map(|_| self.of(&self.labels, input).to_vec())
    }

    fn read(&self, input: usize, outputs: &[f32]) -> Answer {
        let grid = &self.board.layout;
        let mut picture = vec![0.0; grid.pixels() * CLASSES];
        let mut classes = vec![0; grid.pixels()];
        grid.average(CLASSES, outputs, &mut picture);
        argmax(&picture, &mut classes);
        let sure = picture.chunks_exact(CLASSES).zip(&classes).map(|(logits, &class)| {
            let chosen = logits[class as usize];
            byte(1.0 / logits.iter().map(|l| (l - chosen).exp()).sum::<f32>())
        });
        let sure = sure.collect();
        let right = self.steps[input].is_some() && self.reader().right(input, &classes);
        Answer { classes, sure, votes: Vec::new(), right }
    }

    fn tell(&self, input: usize, answer: &Answer) -> String {
        let path = answer.classes.iter().filter(|&&c| c == sheaf_tasks::maze::PATH).count();
        let complete = self.reader().complete(input, &answer.classes);
        match (answer.right, complete, self.steps[input]) {
            (true, _, Some(steps)) => format!("solved: the shortest path, {steps} steps"),
            (false, true, Some(steps)) => format!("a path of {} steps; the shortest has {steps}", path + 1),
            (_, _, None) => format!("{path} cells marked; there is no path"),
            (_, _, Some(steps)) => format!("not solved: {path} cells marked; the path has {steps} steps"),
        }
    }

    fn slots(&self) -> Vec<String> {
        DIRECTIONS.map(String::from).to_vec()
    }

    fn notes(&self) -> Vec<String> {
        if self.steps[0].is_some() { Vec::new() } else { vec!["walls separate start and goal".into()] }
    }
}
