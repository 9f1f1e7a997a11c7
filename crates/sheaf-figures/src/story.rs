//! One sample solved by some weights, with every iteration: what most figures show.

use std::path::PathBuf;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::{check_memory, product};
use sheaf_learn::model::evaluate::Single;
use sheaf_learn::model::{Decoder, ViewGrid, Worker};
use sheaf_learn::task::{Task, Weights};
use sheaf_learn::train::WeightsFile;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{MazeSet, generate};
use sheaf_tasks::maze::metrics::{argmax, path_probability};
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::maze::{CLASSES, PATH, suite};
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::metrics::agent_votes;
use sheaf_tasks::mnist::pen;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::data::SudokuSet;
use sheaf_tasks::sudoku::generate::{Kind, generate as puzzles};
use sheaf_tasks::sudoku::rounds::Reading;
use sheaf_tasks::sudoku::task::Sudoku;
use sheaf_tasks::sudoku::{Grid, csv};

/// Which sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// One of a file, as `sheaf data` writes them.
    File {
        /// The file or folder.
        path: PathBuf,
        /// Which of its samples, from 0.
        index: usize,
    },
    /// A fresh one of this seed; mazes and pictures of this many pixels along a side.
    Fresh {
        /// The seed.
        seed: u64,
        /// The size; the usual one if not given.
        size: Option<usize>,
    },
}

/// A sample and every iteration of its solve.
#[derive(Clone, Debug)]
pub struct Story {
    /// The sample.
    pub scene: Scene,
    /// Iterations that ran; 0 without coordination, which has the outputs of one.
    pub iterations: usize,
    /// Numbers of a state.
    pub d_v: usize,
    /// Agents.
    pub agents: usize,
    /// States that the decoder reads: x of ADMM, the state of message passing.
    pub x: Vec<f32>, // [iterations, agents, d_v]
    /// Agreed states; empty without ADMM.
    pub z: Vec<f32>, // [iterations, agents, d_v]
    /// Residuals ‖x − z‖; empty without ADMM.
    pub primal: Vec<f32>, // [iterations, agents]
    /// Residuals ρ‖z − z_prev‖; empty without ADMM.
    pub dual: Vec<f32>, // [iterations, agents]
    /// Outputs after every iteration.
    pub outputs: Vec<f32>, // [iterations, agents, outputs]
    /// Outputs before anything was communicated.
    pub first: Vec<f32>, // [agents, outputs]
}

/// What the agents look at.
#[derive(Clone, Debug)]
pub enum Scene {
    /// A maze.
    Maze {
        /// Tokens.
        tokens: Vec<u8>, // [height, width]
        /// Tokens with the path.
        label: Vec<u8>, // [height, width]
        /// The views.
        grid: ViewGrid,
    },
    /// A picture.
    Picture {
        /// Pixels.
        image: Vec<u8>, // [height, width]
        /// Its class.
        label: u8,
        /// Number of classes.
        classes: usize,
        /// The views.
        grid: ViewGrid,
    },
    /// A Sudoku puzzle.
    Sudoku {
        /// The givens.
        givens: Grid,
        /// The solution.
        solution: Grid,
    },
}

impl Scene {
    /// The name of the task.
    pub fn task(&self) -> &'static str {
        match self {
            Self::Maze { .. } => "maze",
            Self::Picture { .. } => "mnist",
            Self::Sudoku { .. } => "sudoku",
        }
    }
}

impl Story {
    /// Solves a sample in `iterations` iterations, by default those of the experiment.
    pub fn of(weights: &WeightsFile, chosen: &Chosen, iterations: Option<usize>) -> Result<Self> {
        match weights.about().task.as_str() {
            "maze" => {
                let weights = Weights::<Maze>::load(weights)?;
                let (set, index) = mazes(chosen)?;
                let grid = Maze::board(&weights.experiment.model, &set)?.layout;
                let (tokens, label) = (set.input(index).to_vec(), set.label(index).to_vec());
                solve(&weights, &set, index, iterations, Scene::Maze { tokens, label, grid })
            }
            "mnist" => {
                let weights = Weights::<Mnist>::load(weights)?;
                let (set, index) = pictures(chosen)?;
                let grid = Mnist::board(&weights.experiment.model, &set)?.layout;
                let (image, label) = (set.image(index).to_vec(), set.labels[index]);
                let classes = weights.experiment.model.classes;
                solve(&weights, &set, index, iterations, Scene::Picture { image, label, classes, grid })
            }
            "sudoku" => {
                let weights = Weights::<Sudoku>::load(weights)?;
                let (set, index) = boards(chosen)?;
                let (givens, solution) = (set.puzzles[index], set.solutions[index]);
                solve(&weights, &set, index, iterations, Scene::Sudoku { givens, solution })
            }
            other => Err(Error::new(ErrorKind::Unsupported, "--weights", "weights of agents", other)
                .hint("figures of a sample show agents; a network has none")),
        }
    }

    /// Iterations with outputs.
    pub fn frames(&self) -> usize {
        self.iterations.max(1)
    }

    /// The iterations among `asked` that ran, from 1, and the last one if that leaves none.
    pub fn among(&self, asked: &[usize]) -> Vec<usize> {
        let ran: Vec<usize> = asked.iter().copied().filter(|&k| k >= 1 && k <= self.frames()).collect();
        if ran.is_empty() { vec![self.frames()] } else { ran }
    }

    /// What a panel of iteration `k` is called.
    pub fn title(&self, k: usize) -> String {
        if self.iterations == 0 { "no iterations".into() } else { format!("k = {k}") }
    }

    /// Outputs after iteration `k`, from 1; those before anything was communicated for 0.
    pub fn outputs(&self, k: usize) -> &[f32] {
        let len = self.first.len();
        if k == 0 { &self.first } else { &self.outputs[(k - 1) * len..][..len] }
    }

    /// Residuals are there: the agents ran ADMM.
    pub fn need_residuals(&self, figure: &str) -> Result<()> {
        if !self.primal.is_empty() {
            return Ok(());
        }
        let want = "weights of ADMM, which has x, z and residuals";
        Err(Error::new(ErrorKind::Unsupported, figure, want, "another kind of coordination")
            .hint("`sheaf figure evolution` and `compare` show every kind of coordination"))
    }

    /// There are iterations: the agents coordinate.
    pub fn need_iterations(&self, figure: &str) -> Result<()> {
        if self.iterations > 0 {
            return Ok(());
        }
        let (want, got) = ("weights of agents that coordinate", "a model without coordination");
        Err(Error::new(ErrorKind::Unsupported, figure, want, got)
            .hint("`sheaf figure evolution` and `compare` show every kind of coordination"))
    }

    /// The share of what is to be found that is right after iteration `k`: pixels on or off the path, the class, cells.
    pub fn right(&self, k: usize) -> f64 {
        let outputs = self.outputs(k);
        match &self.scene {
            Scene::Maze { label, grid, .. } => {
                let (_, predicted) = maze_answer(grid, outputs);
                let on = |tokens: &[u8]| tokens.iter().map(|&t| t == PATH).collect::<Vec<_>>();
                let (is, should) = (on(&predicted), on(label));
                let both = is.iter().zip(&should).filter(|(a, b)| **a && **b).count();
                let either = is.iter().zip(&should).filter(|(a, b)| **a || **b).count();
                both as f64 / either.max(1) as f64
            }
            Scene::Picture { label, classes, .. } => {
                let right = agent_votes(outputs, *classes).filter(|(class, _)| class == &usize::from(*label));
                right.count() as f64 / self.agents as f64
            }
            Scene::Sudoku { solution, .. } => {
                let board = Reading::of(outputs).predicted;
                board.iter().zip(solution).filter(|(a, b)| a == b).count() as f64 / board.len() as f64
            }
        }
    }

    /// What [`right`](Self::right) counts.
    pub fn right_what(&self) -> &'static str {
        match self.scene {
            Scene::Maze { .. } => "path overlap",
            Scene::Picture { .. } => "agents right",
            Scene::Sudoku { .. } => "cells right",
        }
    }
}

/// Path probability and predicted tokens of every pixel.
pub(crate) fn maze_answer(grid: &ViewGrid, outputs: &[f32]) -> (Vec<f32>, Vec<u8>) {
    let mut logits = vec![0.0; grid.pixels() * CLASSES];
    let (mut probability, mut predicted) = (vec![0.0; grid.pixels()], vec![0; grid.pixels()]);
    grid.average(CLASSES, outputs, &mut logits);
    path_probability(&logits, &mut probability);
    argmax(&logits, &mut predicted);
    (probability, predicted)
}

fn solve<K: Task>(
    weights: &Weights<K>,
    set: &K::Set,
    index: usize,
    iterations: Option<usize>,
    scene: Scene,
) -> Result<Story> {
    let (config, model) = (&weights.experiment.model, &weights.model);
    let asked = iterations.unwrap_or(weights.experiment.iterations.eval);
    let board = K::board(config, set)?;
    let (agents, d_v) = (board.sheaf.agents(), K::section(config).d_v);
    let of_agent = 4 * d_v + model.decoder().outputs() + 2;
    let bytes = product(&[size_of::<f32>(), asked, agents, of_agent], u64::MAX).unwrap_or(u64::MAX);
    check_memory("--iterations", "iterations of a figure", bytes)?;
    let single = Single::new(model, &weights.params, &board.sheaf, &K::samples(&board, set), index)?;
    let traced = single.trace(asked)?;
    let len = agents * model.decoder().outputs();
    // The first x-update comes before anything is communicated; other states are decoded as they begin.
    let first = if traced.admm.primal.is_empty() {
        let ((at, views), mut worker) = (single.setting(), Worker::default());
        worker.decode(&at, views, &traced.h0);
        worker.outputs()[..len].to_vec()
    } else {
        traced.outputs[..len].to_vec()
    };
    let (x, admm) = (traced.states, traced.admm);
    Ok(Story {
        scene,
        iterations: x.len() / (agents * d_v),
        d_v,
        agents,
        x,
        z: admm.z,
        primal: admm.primal,
        dual: admm.dual,
        outputs: traced.outputs,
        first,
    })
}

/// The index, if there is such a sample.
fn within(index: usize, len: usize) -> Result<usize> {
    if index < len {
        return Ok(index);
    }
    let want = format!("0 to {}, for the {len} samples of --data", len.saturating_sub(1));
    Err(Error::new(ErrorKind::OutOfRange, "--index", want, index))
}

fn mazes(chosen: &Chosen) -> Result<(MazeSet, usize)> {
    match chosen {
        Chosen::File { path, index } => {
            let set = MazeSet::read(path)?;
            let index = within(*index, set.len())?;
            Ok((set, index))
        }
        Chosen::Fresh { seed, size } => {
            let size = size.unwrap_or(19);
            let steps = if size == 19 { 18 } else { suite::sweep_min_path(size) };
            Ok((generate(&MazeShape::new(size, size, steps)?, *seed, 1)?, 0))
        }
    }
}

fn pictures(chosen: &Chosen) -> Result<(ImageSet, usize)> {
    match chosen {
        Chosen::File { path, index } => {
            let set = ImageSet::read(path, Split::Test)?;
            let index = within(*index, set.len())?;
            Ok((set, index))
        }
        Chosen::Fresh { seed, size } => Ok((pen::digits(1, size.unwrap_or(28), *seed)?, 0)),
    }
}

fn boards(chosen: &Chosen) -> Result<(SudokuSet, usize)> {
    match chosen {
        Chosen::File { path, index } => {
            let set = csv::read(path, false)?.set;
            let index = within(*index, set.len())?;
            Ok((set, index))
        }
        Chosen::Fresh { size: Some(size), .. } if *size != 9 => {
            Err(Error::new(ErrorKind::Unsupported, "--size", "9: boards have one size", size))
        }
        Chosen::Fresh { seed, .. } => Ok((puzzles(Kind::Mixed, *seed, 1), 0)),
    }
}
