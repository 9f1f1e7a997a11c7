//! The picture model as a declaration: pixels → a residual block; agents on a grid; a linear layer decodes every
//! agent's state, and the agents' votes are averaged.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Sheaf};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::config::{TrainSection, word};
use sheaf_learn::limits::check_width;
use sheaf_learn::model::nets::{ClassDecoder, ResidualMlp};
use sheaf_learn::model::{
    Iterations, LoraNorm, LoraStart, Loss, MapStart, Model, ModelSection, Samples, Scope, Spec, ViewGrid,
};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_learn::task::{self, Board, BoardOf, Experiment, Loaded, ModelOf, Weights};

use super::data::{ImageSet, Split};
use super::evaluate::{EvalOptions, evaluate};
use super::samples::ImageSamples;
pub use super::samples::{PictureSamples, VoteReader};
use super::shifts::Shift;
use crate::maze::task::DIRECTIONS;

/// The built-in weights, in half precision.
pub const BUILTIN: &[u8] = include_bytes!("../../weights/mnist.safetensors");

/// Names of the four slots of a grid without diagonals.
const FOUR: [&str; 4] = ["N", "E", "S", "W"];

/// Pictures to classify.
#[derive(Clone, Debug)]
pub struct Mnist;

/// Model of pictures.
pub type MnistModel = ModelOf<Mnist>;
/// Agents over pictures of one size.
pub type MnistBoard = BoardOf<Mnist>;
/// Experiment on pictures.
pub type MnistExperiment = Experiment<Mnist>;
/// Trained model of pictures.
pub type MnistWeights = Weights<Mnist>;

/// The `[data]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageData {
    /// Folder with the IDX files of both splits.
    pub dir: PathBuf,
    /// Number of training pictures, taken from the start; 0 for all.
    pub count: usize,
    /// Validation pictures, taken from the end of the training pictures, which take the place of the test pictures in all
    /// evaluations of a run; 0 for none.
    pub validation_count: usize,
}

impl Default for ImageData {
    fn default() -> Self {
        Self { dir: "data/mnist".into(), count: 0, validation_count: 0 }
    }
}

impl ImageData {
    /// Reads both splits.
    pub fn read(&self, classes: usize) -> Result<Loaded<ImageSet>> {
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
        let test = if self.validation_count > 0 { train.split_off(self.validation_count)? } else { test };
        if self.count > 0 {
            train = train.first(self.count);
        }
        Ok(Loaded { train, test, more: None })
    }

    /// The name of the pictures that a run evaluates.
    pub fn split(&self) -> &'static str {
        if self.validation_count > 0 { "validation" } else { "test" }
    }
}

/// The `[model]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MnistConfig {
    /// Number of classes.
    pub classes: usize,
    /// Side of a view in pixels.
    pub patch: usize,
    /// Distance between agents in pixels.
    pub stride: usize,
    /// Neighbours of an agent: 8 or 4.
    pub neighbours: usize,
    /// Width of the encoder.
    pub hidden: usize,
    /// `votes` (a linear layer reads every agent), `mean` (a small network reads the mean of all agents), or `auto`:
    /// the published one, `mean` with message passing and `votes` otherwise.
    pub readout: String,
    /// Width of the network of `mean`.
    pub readout_hidden: usize,
    /// Keys that every task has.
    #[serde(flatten)]
    pub common: ModelSection,
}

impl Default for MnistConfig {
    fn default() -> Self {
        let common = ModelSection {
            d_v: 32,
            d_e: 24,
            rank: 8,
            sharing: "global".into(),
            objective: "lasso".into(),
            l1: 0.006337180166370117,
            agreement: "hard".into(),
            gamma: 1.0,
            rho_init: 0.12,
            ..ModelSection::default()
        };
        let (readout, readout_hidden) = ("auto".into(), 128);
        Self { classes: 10, patch: 3, stride: 3, neighbours: 8, hidden: 256, readout, readout_hidden, common }
    }
}

impl MnistConfig {
    fn connectivity(&self) -> Result<Connectivity> {
        match self.neighbours {
            8 => Ok(Connectivity::Eight),
            4 => Ok(Connectivity::Four),
            other => Err(Error::new(ErrorKind::Malformed, "model.neighbours", "8 or 4", other)),
        }
    }

    /// Whether one network reads the mean of all agents.
    fn reads_mean(&self) -> Result<bool> {
        let talks = self.common.coordination == "message-passing";
        word("model.readout", &self.readout, &[("auto", talks), ("votes", false), ("mean", true)])
    }

    fn check(&self) -> Result<()> {
        let wrong = |name: &str, expected: &str, got: usize| {
            Err(Error::new(ErrorKind::Malformed, format!("model.{name}"), expected, got))
        };
        let readout = ("readout_hidden", self.readout_hidden);
        for (name, value) in [("hidden", self.hidden), ("stride", self.stride), readout] {
            check_width(&format!("model.{name}"), value)?;
        }
        if !(1..=255).contains(&self.classes) {
            return wrong("classes", "1 to 255", self.classes);
        }
        if !(1..=6).contains(&self.patch) {
            return wrong("patch", "1 to 6", self.patch);
        }
        Ok(())
    }
}

/// The `[eval]` section: what is evaluated during training. Keep it cheap relative to training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MnistEval {
    /// Test pictures solved with the training iterations; 0 for all.
    pub test: usize,
    /// Test pictures solved with the evaluation iterations, to check that the answer is stable; 0 for none.
    pub long: usize,
}

impl Default for MnistEval {
    fn default() -> Self {
        Self { test: 2_000, long: 500 }
    }
}

impl task::Task for Mnist {
    const NAME: &'static str = "mnist";
    const SAMPLES: &'static str = "pictures";
    type Data = ImageData;
    type Config = MnistConfig;
    type Eval = MnistEval;
    type Encoder = ResidualMlp;
    type Decoder = ClassDecoder;
    type Layout = ViewGrid;
    type Set = ImageSet;

    fn published() -> MnistExperiment {
        Experiment {
            task: Self::NAME.into(),
            data: ImageData::default(),
            model: MnistConfig::default(),
            iterations: Iterations { train: 20, eval: 100, ..Iterations::default() },
            // Twenty epochs of 60,000 are 9,375 steps of 128.
            train: TrainSection {
                steps: 9_375,
                learning_rate: 1e-3,
                weight_decay: 1e-7,
                loss_window: 2,
                best_metric: "accuracy".into(),
                ..TrainSection::default()
            },
            eval: MnistEval::default(),
        }
    }

    fn section(config: &MnistConfig) -> &ModelSection {
        &config.common
    }

    fn model(config: &MnistConfig) -> Result<MnistModel> {
        config.check()?;
        let connectivity = config.connectivity()?;
        let spec = Spec {
            slots: connectivity.slots(),
            slot_names: if config.neighbours == 8 { &DIRECTIONS } else { &FOUR },
            map_start: MapStart::Orthonormal,
            lora_start: LoraStart::ZeroB,
            lora_norm: LoraNorm::Layer,
            tile: 1,
            // Two of three agents see only black; most other views belong to one agent alone.
            scope: Scope::Samples(8),
            stream: "mnist parameters",
        };
        let (view_len, hidden) = (config.patch * config.patch, config.hidden);
        let (d_v, classes, mean) = (config.common.d_v, config.classes, config.reads_mean()?);
        Model::new(
            config.common.clone(),
            spec,
            Loss::CrossEntropy { classes },
            |layout| ResidualMlp::new(layout, view_len, hidden),
            |layout| match mean {
                true => ClassDecoder::of_mean(layout, d_v, config.readout_hidden, classes),
                false => ClassDecoder::votes(layout, d_v, classes),
            },
        )
    }

    fn check(experiment: &MnistExperiment) -> Result<()> {
        // Reject sizes that the kernels do not support now, not at the first picture.
        let patch = experiment.model.patch;
        board(&experiment.model, patch, patch)?;
        if experiment.iterations.rounds != 1 {
            let (want, got) = ("1: pictures have no rounds", experiment.iterations.rounds);
            return Err(Error::new(ErrorKind::Malformed, "iterations.rounds", want, got));
        }
        Ok(())
    }

    fn authors_name(layout: &ParamLayout, name: &str) -> Option<String> {
        /// (our name, the authors' name) of every module; tensors below a module have the same names in both.
        const MODULES: [(&str, &str); 11] = [
            ("encoder/input", "MLPEncoder_0/input_proj"),
            ("encoder/block", "MLPEncoder_0/block_0"),
            ("encoder/h", "MLPEncoder_0/comm_head/comm_dense"),
            ("encoder/h_norm", "MLPEncoder_0/comm_head/comm_norm"),
            ("encoder/diag", "MLPEncoder_0/objective_heads/q_diag_dense"),
            ("encoder/q", "MLPEncoder_0/objective_heads/q_dense"),
            ("encoder/low_rank_norm", "MLPEncoder_0/lora_pre_ln"),
            ("encoder/low_rank_a", "MLPEncoder_0/lora_A_dense"),
            ("encoder/low_rank_b", "MLPEncoder_0/lora_B_dense"),
            ("encoder/low_rank_gate", "MLPEncoder_0/lora_gate_dense"),
            ("decoder/out", "ClassificationDecoder_0/cls_output"),
        ];
        /// Of the network that reads the mean of all agents.
        const MEAN: [(&str, &str); 3] = [
            ("decoder/input", "GraphClassificationHead_0/input_proj"),
            ("decoder/block", "GraphClassificationHead_0/block_0"),
            ("decoder/out", "GraphClassificationHead_0/cls_output"),
        ];
        let mean = layout.entries().iter().any(|entry| entry.name.starts_with("decoder/block/"));
        if mean && name.starts_with("decoder/") {
            return task::authors_name(&MEAN, name);
        }
        task::authors_name(&MODULES, name)
    }

    fn load(experiment: &MnistExperiment) -> Result<Loaded<ImageSet>> {
        experiment.data.read(experiment.model.classes)
    }

    fn board(config: &MnistConfig, set: &ImageSet) -> Result<MnistBoard> {
        board(config, set.height, set.width)
    }

    fn len(set: &ImageSet) -> usize {
        set.len()
    }

    fn samples<'a>(board: &'a MnistBoard, set: &'a ImageSet) -> impl Samples + 'a {
        ImageSamples { grid: board.layout, set }
    }

    fn split(data: &ImageData) -> &'static str {
        data.split()
    }

    fn begin_batch(train: &ImageSet, count: usize, batch: &mut ImageSet) {
        (batch.height, batch.width, batch.classes) = (train.height, train.width, train.classes);
        batch.images.resize(count * train.pixels(), 0);
        batch.labels.resize(count, 0);
    }

    fn put(
        _data: &ImageData,
        train: &ImageSet,
        i: usize,
        _variant: usize,
        _stream: &mut Stream,
        place: usize,
        batch: &mut ImageSet,
    ) {
        batch.images[place * train.pixels()..][..train.pixels()].copy_from_slice(train.image(i));
        batch.labels[place] = train.labels[i];
    }

    fn evaluate(
        experiment: &MnistExperiment,
        model: &MnistModel,
        params: &[f32],
        held_out: &Loaded<ImageSet>,
    ) -> Result<Vec<(String, f64)>> {
        let (iterations, eval, test) = (&experiment.iterations, &experiment.eval, &held_out.test);
        let all = |count| if count == 0 { test.len() } else { count };
        let looks = [(iterations.train, all(eval.test)), (iterations.eval, eval.long)];
        let look = |(name, (iterations, count)): (&'static str, (usize, usize))| {
            let options = EvalOptions { iterations, shift: Shift::None, draws: 1, seed: 0 };
            let score = evaluate(&experiment.model, model, params, &test.first(count), &options, &|_| {})?;
            Ok((name.to_string(), score.accuracy()))
        };
        Self::metrics(experiment).into_iter().zip(looks).map(look).collect()
    }

    fn metrics(experiment: &MnistExperiment) -> Vec<&'static str> {
        if experiment.eval.long > 0 { vec!["accuracy", "accuracy_long"] } else { vec!["accuracy"] }
    }
}

/// Agents over pictures of this size.
pub fn board(config: &MnistConfig, height: usize, width: usize) -> Result<MnistBoard> {
    let layout = ViewGrid::new(height, width, config.patch, config.stride)?;
    let graph = AgentGraph::grid(layout.rows(), layout.columns(), config.connectivity()?)?;
    let sheaf = Sheaf::uniform(&graph, config.common.d_v, config.common.d_e)?;
    Ok(Board { sheaf, layout })
}
