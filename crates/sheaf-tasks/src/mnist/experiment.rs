//! An experiment on pictures: what a TOML file says, and the run it describes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sheaf_admm::admm::Adjoint;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::{StepStats, Trainable};

use super::batches::{Epochs, Pictures};
use super::data::{ImageSet, Split};
use super::evaluate::{EvalOptions, evaluate};
use super::model::{Batch, Board, Horizon, MnistConfig, MnistModel};
use super::shifts::Shift;
use sheaf_learn::config::{StrictConfig, TrainSection};

/// The `[data]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageData {
    /// Folder with the IDX files of both splits.
    pub dir: PathBuf,
    /// Training pictures, the first so many; 0 for all.
    pub count: usize,
}

impl Default for ImageData {
    fn default() -> Self {
        Self { dir: "data/mnist".into(), count: 0 }
    }
}

impl ImageData {
    /// Reads both splits: (training, test).
    pub fn read(&self, classes: usize) -> Result<(ImageSet, ImageSet)> {
        let mut train = ImageSet::read(&self.dir, Split::Train)?;
        let test = ImageSet::read(&self.dir, Split::Test)?;
        for set in [&train, &test] {
            if set.classes > classes {
                let place = format!("labels in {}", self.dir.display());
                let expected = format!("at most {}, as model.classes = {classes} says", classes - 1);
                return Err(Error::new(ErrorKind::OutOfRange, place, expected, set.classes - 1)
                    .hint(format!("set model.classes = {}", set.classes)));
            }
        }
        if (train.height, train.width) != (test.height, test.width) {
            let expected = format!("{} × {} pixels, as in training", train.height, train.width);
            let got = format!("{} × {}", test.height, test.width);
            return Err(Error::new(ErrorKind::Shape, "test pictures", expected, got));
        }
        if self.count > 0 {
            train = train.first(self.count);
        }
        Ok((train, test))
    }
}

/// The `[iterations]` section: how long the agents negotiate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Iterations {
    /// In training.
    pub train: usize,
    /// At evaluation.
    pub eval: usize,
    /// Gradients flow through the last so many; 0 for all.
    pub gradient: usize,
}

impl Default for Iterations {
    fn default() -> Self {
        Self { train: 20, eval: 100, gradient: 0 }
    }
}

/// The `[eval]` section: what is looked at during training. Looking shall cost little beside learning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MnistEval {
    /// Test pictures solved with the iterations of training; 0 for all.
    pub test: usize,
    /// Test pictures solved with the iterations of evaluation, to see whether the answer holds; 0 for none.
    pub long: usize,
}

impl Default for MnistEval {
    fn default() -> Self {
        Self { test: 2_000, long: 500 }
    }
}

/// A whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MnistExperiment {
    /// Always `mnist`.
    pub task: String,
    /// The pictures.
    pub data: ImageData,
    /// The model.
    pub model: MnistConfig,
    /// How long the agents negotiate.
    pub iterations: Iterations,
    /// The optimiser and its schedule.
    pub train: TrainSection,
    /// What is looked at on the way.
    pub eval: MnistEval,
}

/// The `[train]` section of the published run; twenty epochs of 60,000 are 9,375 steps of 128.
pub(crate) fn published_training() -> TrainSection {
    TrainSection {
        steps: 9_375,
        learning_rate: 1e-3,
        weight_decay: 1e-7,
        loss_window: 2,
        best_metric: "accuracy".into(),
        ..TrainSection::default()
    }
}

impl Default for MnistExperiment {
    fn default() -> Self {
        Self {
            task: "mnist".into(),
            data: ImageData::default(),
            model: MnistConfig::default(),
            iterations: Iterations::default(),
            train: published_training(),
            eval: MnistEval::default(),
        }
    }
}

impl StrictConfig for MnistExperiment {}

impl MnistExperiment {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<()> {
        if self.task != "mnist" {
            return Err(Error::new(ErrorKind::Malformed, "task", "\"mnist\"", &self.task));
        }
        self.model.check()?;
        self.train.options()?;
        for (name, value) in [("train", self.iterations.train), ("eval", self.iterations.eval)] {
            if value == 0 {
                return Err(Error::new(
                    ErrorKind::Malformed,
                    format!("iterations.{name}"),
                    "at least 1",
                    value,
                ));
            }
        }
        Ok(())
    }
}

/// Model, pictures and memory of a run.
#[derive(Debug)]
pub struct MnistTask {
    experiment: MnistExperiment,
    model: MnistModel,
    board: Board,
    train: ImageSet,
    test: ImageSet,
    batch: Batch<f32>,
    epochs: Epochs,
    pictures: Pictures<f32>,
}

impl MnistTask {
    /// Checks the experiment and reads its pictures.
    pub fn new(experiment: MnistExperiment) -> Result<Self> {
        experiment.check()?;
        let (train, test) = experiment.data.read(experiment.model.classes)?;
        Self::with_sets(experiment, train, test)
    }

    /// The same with pictures that are at hand.
    pub fn with_sets(experiment: MnistExperiment, train: ImageSet, test: ImageSet) -> Result<Self> {
        experiment.check()?;
        let model = MnistModel::new(experiment.model.clone())?;
        let board = model.board(train.height, train.width)?;
        let (batch, epochs, pictures) = (Batch::default(), Epochs::default(), Pictures::default());
        Ok(Self { experiment, model, board, train, test, batch, epochs, pictures })
    }

    /// The model.
    pub fn model(&self) -> &MnistModel {
        &self.model
    }

    /// Training pictures.
    pub fn train_set(&self) -> &ImageSet {
        &self.train
    }

    /// Test pictures.
    pub fn test_set(&self) -> &ImageSet {
        &self.test
    }
}

impl Trainable for MnistTask {
    fn layout(&self) -> &ParamLayout {
        self.model.layout()
    }

    fn initial(&self, seed: u64) -> Vec<f32> {
        self.model.init(seed)
    }

    fn loss_and_grad(&mut self, params: &[f32], seed: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        let MnistExperiment { train, iterations, .. } = &self.experiment;
        self.epochs.fill(&self.train, seed, step, train.batch, &mut self.pictures);
        let adjoint = match iterations.gradient {
            0 => Adjoint::Unrolled,
            steps => Adjoint::LastSteps(steps),
        };
        let horizon = Horizon { iterations: iterations.train, window: train.loss_window };
        let Pictures { chosen, images, labels } = &self.pictures;
        let (model, board) = (&self.model, &self.board);
        let told = self.batch.loss_and_grad(model, params, board, images, labels, horizon, adjoint, grad)?;
        let bad_sample = told.bad.map(|sample| u64::from(chosen[sample]));
        Ok(StepStats { loss: told.loss, samples: chosen.len(), bad_sample })
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        let MnistExperiment { iterations, eval, .. } = &self.experiment;
        let all = |count| if count == 0 { self.test.len() } else { count };
        let mut looks = vec![("accuracy", iterations.train, all(eval.test))];
        if eval.long > 0 {
            looks.push(("accuracy_long", iterations.eval, eval.long));
        }
        let look = |(name, iterations, count): (&str, usize, usize)| {
            let options = EvalOptions { iterations, shift: Shift::None, draws: 1, seed: 0 };
            let told = evaluate(&self.model, params, &self.test.first(count), &options, &|_| {})?;
            Ok((name.to_string(), told.accuracy()))
        };
        looks.into_iter().map(look).collect()
    }
}
