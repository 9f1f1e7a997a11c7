//! A Sudoku experiment: what a TOML file says, and the run it describes.

use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_learn::train::{StepStats, Trainable};

use super::augment::{Shuffles, Transform};
use super::data::SudokuSet;
use super::evaluate::{EvalOptions, evaluate};
use super::model::{Batch, Horizon, SudokuConfig, SudokuModel};
pub use super::source::SudokuData;
use super::{CELLS, Grid};
use crate::maze::symmetry::Symmetry;
use sheaf_learn::config::{StrictConfig, TrainSection};

/// The `[iterations]` section: how long the agents negotiate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Iterations {
    /// In training.
    pub train: usize,
    /// When above `train`: every training step draws its iterations evenly from `train` to this.
    pub train_max: usize,
    /// Gradients go back through so many of the last iterations, cheaply teaching how to go on from any state; 0 for all.
    pub gradient: usize,
    /// At evaluation.
    pub eval: usize,
    /// Rounds of negotiation when solving and evaluating, at most; 1 to take the answer of the first. See
    /// [`rounds`](super::rounds).
    pub rounds: usize,
    /// At the first step of training, when `ramp_steps` is not 0.
    pub ramp_from: usize,
    /// Steps over which training goes from `ramp_from` to `train`: few iterations are cheap and teach what a unit can
    /// tell by itself.
    pub ramp_steps: u64,
}

impl Default for Iterations {
    fn default() -> Self {
        Self { train: 20, train_max: 0, gradient: 0, eval: 50, rounds: 1, ramp_from: 4, ramp_steps: 0 }
    }
}

impl Iterations {
    /// Iterations of a training step of a run with this seed.
    pub fn at(&self, seed: u64, step: u64) -> usize {
        if step >= self.ramp_steps {
            let more = self.train_max.saturating_sub(self.train);
            return self.train + Stream::new(seed, "iterations of a step", step, 0).below(more + 1);
        }
        let (from, to) = (self.ramp_from as f64, self.train as f64);
        (from + (to - from) * (step as f64 / self.ramp_steps as f64)).round() as usize
    }
}

/// The `[eval]` section: what is looked at during training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SudokuEval {
    /// Test puzzles looked at; 0 for all.
    pub test: usize,
}

impl Default for SudokuEval {
    fn default() -> Self {
        Self { test: 500 }
    }
}

/// A whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SudokuExperiment {
    /// Always `sudoku`.
    pub task: String,
    /// The puzzles.
    pub data: SudokuData,
    /// The model.
    pub model: SudokuConfig,
    /// How long the agents negotiate.
    pub iterations: Iterations,
    /// The optimiser and its schedule.
    pub train: TrainSection,
    /// What is looked at on the way.
    pub eval: SudokuEval,
}

impl Default for SudokuExperiment {
    fn default() -> Self {
        let train = TrainSection {
            learning_rate: 1.7e-3,
            weight_decay: 1e-7,
            loss_window: 2,
            ..TrainSection::default()
        };
        Self {
            task: "sudoku".into(),
            data: SudokuData::default(),
            model: SudokuConfig::default(),
            iterations: Iterations::default(),
            train,
            eval: SudokuEval::default(),
        }
    }
}

impl StrictConfig for SudokuExperiment {}

impl SudokuExperiment {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<()> {
        let wrong = |place: &str, expected: &str, got: &dyn std::fmt::Display| {
            Err(Error::new(ErrorKind::Malformed, place, expected, got))
        };
        if self.task != "sudoku" {
            return wrong("task", "\"sudoku\"", &self.task);
        }
        self.model.check()?;
        self.train.options()?;
        for (place, value) in [
            ("iterations.train", self.iterations.train),
            ("iterations.eval", self.iterations.eval),
            ("iterations.rounds", self.iterations.rounds),
            ("iterations.ramp_from", self.iterations.ramp_from),
        ] {
            if value == 0 {
                return wrong(place, "at least 1", &value);
            }
        }
        if self.iterations.train_max != 0 && self.iterations.train_max < self.iterations.train {
            return wrong(
                "iterations.train_max",
                "0, or not less than iterations.train",
                &self.iterations.train_max,
            );
        }
        if self.iterations.gradient != 0 && self.iterations.gradient < self.train.loss_window {
            return wrong(
                "iterations.gradient",
                "0, or not less than train.loss_window",
                &self.iterations.gradient,
            );
        }
        if self.data.test_count == 0 {
            return wrong("data.test_count", "at least 1", &0);
        }
        let variants = self.data.variants();
        if !self.train.batch.is_multiple_of(variants) {
            return wrong(
                "train.batch",
                "a multiple of 8, one puzzle in all its symmetries",
                &self.train.batch,
            );
        }
        if self.data.source == "generate" && self.data.count * variants < self.train.batch {
            return wrong("data.count", "puzzles enough for one batch", &self.data.count);
        }
        Ok(())
    }
}

/// Model, puzzles and memory of a run.
#[derive(Debug)]
pub struct SudokuTask {
    experiment: SudokuExperiment,
    model: SudokuModel,
    train: SudokuSet,
    test: SudokuSet,
    batch: Batch<f32>,
    puzzles: Vec<Grid>,
    solutions: Vec<Grid>,
    order: Order,
}

/// The order of the puzzles in one epoch, kept while the epoch lasts.
#[derive(Debug, Default)]
struct Order {
    of: Option<(u64, u64)>,
    puzzles: Vec<u32>,
}

impl Order {
    fn of_epoch(&mut self, seed: u64, epoch: u64, count: usize) -> &[u32] {
        if self.of != Some((seed, epoch)) {
            self.puzzles.clear();
            self.puzzles.extend(0..count as u32);
            Stream::new(seed, "order of the puzzles", epoch, 0).shuffle(&mut self.puzzles);
            self.of = Some((seed, epoch));
        }
        &self.puzzles
    }
}

impl SudokuTask {
    /// Checks the experiment and draws or reads its puzzles.
    pub fn new(experiment: SudokuExperiment) -> Result<Self> {
        experiment.check()?;
        let (train, test) = experiment.data.load()?;
        let need = experiment.train.batch / experiment.data.variants();
        if train.len() < need {
            let want = format!("the {need} puzzles of a batch, at least");
            return Err(Error::new(ErrorKind::Malformed, "training puzzles", want, train.len())
                .hint("lower train.batch, or take more puzzles"));
        }
        let model = SudokuModel::new(experiment.model.clone())?;
        Ok(Self {
            experiment,
            model,
            train,
            test,
            batch: Batch::default(),
            puzzles: Vec::new(),
            solutions: Vec::new(),
            order: Order::default(),
        })
    }

    /// The model.
    pub fn model(&self) -> &SudokuModel {
        &self.model
    }

    /// Training puzzles.
    pub fn train_set(&self) -> &SudokuSet {
        &self.train
    }

    /// Test puzzles.
    pub fn test_set(&self) -> &SudokuSet {
        &self.test
    }

    /// The puzzles and solutions of a step, as the model sees them.
    pub fn batch_of(&mut self, seed: u64, step: u64) -> (&[Grid], &[Grid]) {
        self.fill_batch(seed, step);
        (&self.puzzles, &self.solutions)
    }

    /// Fills `puzzles` and `solutions` for a step; returns the training index of each puzzle, before variants.
    fn fill_batch(&mut self, seed: u64, step: u64) -> Vec<u32> {
        let data = &self.experiment.data;
        let variants = data.variants();
        let per_batch = (self.experiment.train.batch / variants).max(1);
        let per_epoch = (self.train.len() / per_batch).max(1) as u64;
        let order = self.order.of_epoch(seed, step / per_epoch, self.train.len());
        let first = (step % per_epoch) as usize * per_batch;
        let chosen = order[first..first + per_batch].to_vec();
        let shuffles = Shuffles { digits: data.relabel, bands: data.permute, transpose: data.permute };
        self.puzzles.clear();
        self.solutions.clear();
        for k in 0..chosen.len() * variants {
            let mut stream = Stream::new(seed, "variant of a puzzle", step, k as u64);
            let variant = Transform::draw(Symmetry::ALL[k % variants], shuffles, &mut stream);
            let i = chosen[k / variants] as usize;
            let (mut puzzle, mut solution) = ([0; CELLS], [0; CELLS]);
            variant.apply(&self.train.puzzles[i], &mut puzzle);
            variant.apply(&self.train.solutions[i], &mut solution);
            self.puzzles.push(puzzle);
            self.solutions.push(solution);
        }
        chosen
    }
}

impl Trainable for SudokuTask {
    fn layout(&self) -> &ParamLayout {
        self.model.layout()
    }

    fn initial(&self, seed: u64) -> Vec<f32> {
        self.model.init(seed)
    }

    fn loss_and_grad(&mut self, params: &[f32], seed: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        let chosen = self.fill_batch(seed, step);
        let horizon = Horizon {
            iterations: self.experiment.iterations.at(seed, step),
            window: self.experiment.train.loss_window,
            gradient: self.experiment.iterations.gradient,
        };
        let told =
            self.batch.loss_and_grad(&self.model, params, &self.puzzles, &self.solutions, horizon, grad);
        let variants = self.puzzles.len() / chosen.len();
        Ok(StepStats {
            loss: told.loss,
            samples: self.puzzles.len(),
            bad_sample: told.bad.map(|board| u64::from(chosen[board / variants])),
        })
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        let Iterations { eval, rounds, .. } = self.experiment.iterations;
        let options = EvalOptions { rounds, ..EvalOptions::fixed(eval) };
        let test = match self.experiment.eval.test {
            0 => self.test.clone(),
            count => self.test.first(count),
        };
        let told = evaluate(&self.model, params, &test, &options, &|_| {}).summary;
        Ok(vec![
            ("solved".into(), told.solved_rate()),
            ("valid".into(), told.valid_rate()),
            ("cell_accuracy".into(), told.cell_accuracy()),
            ("blank_accuracy".into(), told.blank_accuracy()),
        ])
    }
}
