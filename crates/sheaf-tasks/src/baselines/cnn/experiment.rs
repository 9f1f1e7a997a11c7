//! An experiment with the network: the TOML file, and the run it describes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sheaf_admm::share::Comm;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::Ranks;
use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::{StepStats, Trainable, WeightsFile};

use super::{CnnBatch, CnnClassifier, CnnConfig, CnnModel};
use crate::mnist::batches::Pictures;
use crate::mnist::data::ImageSet;
use crate::mnist::evaluate::{EvalOptions, EvalReport, evaluate_with};
use crate::mnist::shifts::Shift;
use crate::mnist::task::ImageData;
use sheaf_learn::config::{DecayKind, PrecisionKind, StrictConfig, TrainSection, strict};
use sheaf_learn::task::{Epochs, Loaded};

/// The `[eval]` section: what is evaluated during training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CnnEval {
    /// Test pictures evaluated; 0 for all.
    pub test: usize,
}

/// A whole experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CnnExperiment {
    /// Always `mnist-cnn`.
    pub task: String,
    /// The pictures.
    pub data: ImageData,
    /// The network.
    pub model: CnnConfig,
    /// The optimiser and its schedule.
    pub train: TrainSection,
    /// What is evaluated during training.
    pub eval: CnnEval,
}

impl Default for CnnExperiment {
    fn default() -> Self {
        Self {
            task: "mnist-cnn".into(),
            data: ImageData::default(),
            model: CnnConfig::default(),
            train: TrainSection {
                steps: 9_375,
                learning_rate: 1e-3,
                weight_decay: 1e-2,
                decay: DecayKind::Cosine,
                decay_floor: 1e-5,
                best_metric: "accuracy".into(),
                ..TrainSection::default()
            },
            eval: CnnEval::default(),
        }
    }
}

impl StrictConfig for CnnExperiment {}

impl CnnExperiment {
    /// Rejects invalid values.
    pub fn check(&self) -> Result<()> {
        if self.task != "mnist-cnn" {
            return Err(Error::new(ErrorKind::Malformed, "task", "\"mnist-cnn\"", &self.task));
        }
        self.model.check()?;
        let best = &self.train.best_metric;
        if !["", "accuracy"].contains(&best.as_str()) {
            return Err(Error::new(ErrorKind::Malformed, "train.best_metric", "one of accuracy", best));
        }
        // The layout holds only names and sizes; a network beyond the limit is refused here.
        CnnModel::new(self.model.clone())?.layout().check()?;
        if self.train.precision != PrecisionKind::F32 {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "train.precision",
                "\"f32\" for mnist-cnn",
                "\"bf16\"",
            )
            .hint("the network is a baseline and its convolutions have no bf16 products"));
        }
        self.train.options().map(drop)
    }
}

/// Model, pictures and buffers of a run.
#[derive(Debug)]
pub struct CnnTask {
    experiment: CnnExperiment,
    model: CnnModel,
    train: ImageSet,
    test: ImageSet,
    batch: CnnBatch<f32>,
    epochs: Epochs,
    pictures: Pictures<f32>,
}

impl CnnTask {
    /// Checks the experiment and reads its pictures.
    pub fn new(experiment: CnnExperiment) -> Result<Self> {
        experiment.check()?;
        let Loaded { train, test, .. } = experiment.data.read(experiment.model.classes)?;
        Self::with_sets(experiment, train, test)
    }

    /// The same with given pictures.
    pub fn with_sets(experiment: CnnExperiment, train: ImageSet, test: ImageSet) -> Result<Self> {
        experiment.check()?;
        let model = CnnModel::new(experiment.model.clone())?;
        model.check_size((train.height, train.width))?;
        let (batch, epochs, pictures) = (CnnBatch::default(), Epochs::default(), Pictures::default());
        Ok(Self { experiment, model, train, test, batch, epochs, pictures })
    }

    /// The network.
    pub fn model(&self) -> &CnnModel {
        &self.model
    }
}

impl Trainable for CnnTask {
    fn layout(&self) -> &ParamLayout {
        self.model.layout()
    }

    fn initial(&self, seed: u64) -> Vec<f32> {
        self.model.init(seed)
    }

    fn loss_and_grad(&mut self, params: &[f32], seed: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        let batch = self.experiment.train.batch;
        self.pictures.fill(&mut self.epochs, &self.train, seed, step, batch);
        let Pictures { chosen, images, labels } = &self.pictures;
        let (size, dropout) = ((self.train.height, self.train.width), Some((seed, step)));
        let batch = self.batch.loss_and_grad(&self.model, params, size, images, labels, dropout, grad)?;
        let bad_sample = batch.bad.map(|sample| u64::from(chosen[sample]));
        Ok(StepStats { loss: batch.loss, samples: chosen.len(), bad_sample })
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        let test = match self.experiment.eval.test {
            0 => self.test.clone(),
            count => self.test.first(count),
        };
        let options = EvalOptions { iterations: 0, shift: Shift::None, draws: 1, seed: 0 };
        let batch = evaluate_with(&mut CnnClassifier::new(&self.model, params), &test, &options, &|_| {})?;
        Ok(vec![("accuracy".to_string(), batch.accuracy())])
    }

    fn share_batches(&mut self, comm: Arc<dyn Comm>) -> bool {
        self.batch.ranks = Ranks(Some(comm));
        true
    }

    fn split(&self) -> &str {
        self.experiment.data.split()
    }

    fn present_config(&self, place: &str, config: &str) -> Result<String> {
        strict::to_toml(&strict::parse::<CnnExperiment>(place, config, &[])?)
    }
}

/// The built-in weights: a file as `sheaf train` writes it, in half precision.
pub const BUILTIN: &[u8] = include_bytes!("../../../weights/mnist-cnn.safetensors");

/// A network with its parameters and their experiment.
#[derive(Clone, Debug)]
pub struct CnnWeights {
    /// The experiment that produced them.
    pub experiment: CnnExperiment,
    /// The network.
    pub model: CnnModel,
    /// Its parameters.
    pub params: Vec<f32>, // [model.layout().len()]
}

impl CnnWeights {
    /// Loads the network from a weights file; every tensor is checked.
    pub fn load(file: &WeightsFile) -> Result<Self> {
        let experiment: CnnExperiment = strict::of_weights(file, "mnist-cnn")?;
        experiment.check()?;
        let model = CnnModel::new(experiment.model.clone())?;
        let params = file.params(model.layout())?;
        Ok(Self { experiment, model, params })
    }

    /// Accuracy on a set, unchanged or shifted.
    pub fn evaluate(
        &self,
        set: &ImageSet,
        options: &EvalOptions,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<EvalReport> {
        evaluate_with(&mut CnnClassifier::new(&self.model, &self.params), set, options, progress)
    }
}
