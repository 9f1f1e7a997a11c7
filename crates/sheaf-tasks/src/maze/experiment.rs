//! A maze experiment: what a TOML file says, and the run it describes.

use serde::{Deserialize, Serialize};
use sheaf_admm::admm::Adjoint;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_learn::train::{StepStats, Trainable};

use super::carve::MazeShape;
use super::data::{MazeSet, generate, train_test_split};
use super::evaluate::{EvalOptions, evaluate};
use super::model::{Batch, Board, Horizon, MazeConfig, MazeModel};
use super::symmetry::Symmetry;
use sheaf_learn::config::{StrictConfig, TrainSection};

/// The `[data]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MazeData {
    /// Rows and columns of a training maze; odd.
    pub size: usize,
    /// Steps a path has at least.
    pub min_path: usize,
    /// Training mazes, before symmetries.
    pub count: usize,
    /// Test mazes.
    pub test_count: usize,
    /// Seed of both sets. Its own number, so that runs with other seeds see the same mazes.
    pub seed: u64,
    /// Whether a batch holds all eight symmetries of each of its mazes.
    pub symmetries: bool,
}

impl Default for MazeData {
    fn default() -> Self {
        Self { size: 19, min_path: 18, count: 10_000, test_count: 1_000, seed: 0, symmetries: true }
    }
}

/// The `[iterations]` section: how long the agents negotiate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Iterations {
    /// Fewest in training; every step draws its own number.
    pub train_min: usize,
    /// Most in training.
    pub train_max: usize,
    /// At evaluation.
    pub eval: usize,
    /// Gradients flow through the last so many; 0 for all.
    pub gradient: usize,
}

impl Default for Iterations {
    fn default() -> Self {
        Self { train_min: 15, train_max: 40, eval: 100, gradient: 0 }
    }
}

/// The `[eval]` section: what is looked at during training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MazeEval {
    /// Test mazes looked at; 0 for all.
    pub test: usize,
    /// Mazes of 37×37 looked at besides; 0 for none.
    pub larger: usize,
}

impl Default for MazeEval {
    fn default() -> Self {
        Self { test: 0, larger: 100 }
    }
}

/// A whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MazeExperiment {
    /// Always `maze`.
    pub task: String,
    /// The mazes.
    pub data: MazeData,
    /// The model.
    pub model: MazeConfig,
    /// How long the agents negotiate.
    pub iterations: Iterations,
    /// The optimiser and its schedule.
    pub train: TrainSection,
    /// What is looked at on the way.
    pub eval: MazeEval,
}

impl Default for MazeExperiment {
    fn default() -> Self {
        Self {
            task: "maze".into(),
            data: MazeData::default(),
            model: MazeConfig::default(),
            iterations: Iterations::default(),
            train: TrainSection::default(),
            eval: MazeEval::default(),
        }
    }
}

impl StrictConfig for MazeExperiment {}

/// Salt between the seed of the training mazes and that of the larger ones looked at on the way.
const LARGER_SEED: u64 = 0x37;

/// Model, mazes and memory of a run.
#[derive(Debug)]
pub struct MazeTask {
    experiment: MazeExperiment,
    model: MazeModel,
    board: Board,
    train: MazeSet,
    test: MazeSet,
    larger: MazeSet,
    batch: Batch<f32>,
    inputs: Vec<u8>,
    labels: Vec<u8>,
    order: Order,
}

/// The order of the mazes in one epoch, kept while the epoch lasts.
#[derive(Debug, Default)]
struct Order {
    of: Option<(u64, u64)>,
    mazes: Vec<u32>,
}

impl Order {
    fn of_epoch(&mut self, seed: u64, epoch: u64, count: usize) -> &[u32] {
        if self.of != Some((seed, epoch)) {
            self.mazes.clear();
            self.mazes.extend(0..count as u32);
            Stream::new(seed, "order of the mazes", epoch, 0).shuffle(&mut self.mazes);
            self.of = Some((seed, epoch));
        }
        &self.mazes
    }
}

impl MazeTask {
    /// Checks the experiment and draws its mazes.
    pub fn new(experiment: MazeExperiment) -> Result<Self> {
        experiment.check()?;
        let model = MazeModel::new(experiment.model.clone())?;
        let data = &experiment.data;
        let shape = MazeShape::new(data.size, data.size, data.min_path)?;
        let (train, test) = train_test_split(&shape, data.seed, data.count, data.test_count)?;
        let larger = generate(&MazeShape::new(37, 37, 36)?, data.seed ^ LARGER_SEED, experiment.eval.larger)?;
        let board = model.board(data.size, data.size)?;
        Ok(Self {
            experiment,
            model,
            board,
            train,
            test,
            larger,
            batch: Batch::default(),
            inputs: Vec::new(),
            labels: Vec::new(),
            order: Order::default(),
        })
    }

    /// The model.
    pub fn model(&self) -> &MazeModel {
        &self.model
    }

    /// Training mazes.
    pub fn train_set(&self) -> &MazeSet {
        &self.train
    }

    /// Test mazes.
    pub fn test_set(&self) -> &MazeSet {
        &self.test
    }

    /// Iterations of a step: the same for every sample of its batch.
    fn horizon(&self, seed: u64, step: u64) -> Horizon {
        let Iterations { train_min, train_max, .. } = self.experiment.iterations;
        let more = Stream::new(seed, "iterations of a step", step, 0).below(train_max - train_min + 1);
        Horizon { iterations: train_min + more, window: self.experiment.train.loss_window }
    }

    /// Writes the batch of a step into `inputs` and `labels`; returns the training index of each sample's maze.
    fn fill_batch(&mut self, seed: u64, step: u64) -> Vec<u32> {
        let variants = if self.experiment.data.symmetries { 8 } else { 1 };
        let mazes = (self.experiment.train.batch / variants).max(1);
        let per_epoch = (self.train.len() / mazes).max(1) as u64;
        let order = self.order.of_epoch(seed, step / per_epoch, self.train.len());
        let first = (step % per_epoch) as usize * mazes;
        let chosen = order[first..(first + mazes).min(order.len())].to_vec();
        let pixels = self.train.pixels();
        self.inputs.resize(chosen.len() * variants * pixels, 0);
        self.labels.resize(chosen.len() * variants * pixels, 0);
        let inputs = self.inputs.chunks_exact_mut(pixels);
        for (k, (input, label)) in inputs.zip(self.labels.chunks_exact_mut(pixels)).enumerate() {
            self.train.write_variant(
                chosen[k / variants] as usize,
                Symmetry::ALL[k % variants],
                input,
                label,
            );
        }
        chosen
    }
}

impl MazeExperiment {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<()> {
        let wrong = |place: &str, expected: &str, got: &dyn std::fmt::Display| {
            Err(Error::new(ErrorKind::Malformed, place, expected, got))
        };
        if self.task != "maze" {
            return wrong("task", "\"maze\"", &self.task);
        }
        self.model.check()?;
        self.train.options()?;
        let it = &self.iterations;
        if it.train_min == 0 || it.train_min > it.train_max {
            return wrong(
                "iterations.train_min",
                "at least 1 and at most iterations.train_max",
                &it.train_min,
            );
        }
        let variants = if self.data.symmetries { 8 } else { 1 };
        if !self.train.batch.is_multiple_of(variants) {
            return wrong(
                "train.batch",
                "a multiple of 8, one maze in all its symmetries",
                &self.train.batch,
            );
        }
        if self.data.count * variants < self.train.batch {
            return wrong("data.count", "mazes enough for one batch", &self.data.count);
        }
        if self.data.test_count == 0 {
            return wrong("data.test_count", "at least 1", &0);
        }
        Ok(())
    }
}

impl Trainable for MazeTask {
    fn layout(&self) -> &ParamLayout {
        self.model.layout()
    }

    fn initial(&self, seed: u64) -> Vec<f32> {
        self.model.init(seed)
    }

    fn loss_and_grad(&mut self, params: &[f32], seed: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        let mazes = self.fill_batch(seed, step);
        let horizon = self.horizon(seed, step);
        let adjoint = match self.experiment.iterations.gradient {
            0 => Adjoint::Unrolled,
            steps => Adjoint::LastSteps(steps),
        };
        let (inputs, labels) = (&self.inputs, &self.labels);
        let (model, board) = (&self.model, &self.board);
        let told = self.batch.loss_and_grad(model, params, board, inputs, labels, horizon, adjoint, grad)?;
        let samples = self.inputs.len() / self.train.pixels();
        let variants = samples / mazes.len();
        Ok(StepStats {
            loss: told.loss,
            samples,
            bad_sample: told.bad.map(|sample| u64::from(mazes[sample / variants])),
        })
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        let iterations = self.experiment.iterations.eval;
        let options = EvalOptions { iterations, settling: None, first_solve: false };
        let test = match self.experiment.eval.test {
            0 => self.test.clone(),
            count => self.test.first(count),
        };
        let told = evaluate(&self.model, params, &test, &options, &|_| {})?;
        let mut metrics = vec![
            ("solved".to_string(), told.summary.solved_rate()),
            ("cell_accuracy".to_string(), told.summary.cell_accuracy()),
        ];
        if !self.larger.is_empty() {
            let told = evaluate(&self.model, params, &self.larger, &options, &|_| {})?;
            metrics.push(("solved_37x37".to_string(), told.summary.solved_rate()));
        }
        Ok(metrics)
    }
}
