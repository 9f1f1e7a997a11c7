//! A task is a declaration: its data, the two networks, the agents' views, and when an answer is correct.
//!
//! | file | holds |
//! | --- | --- |
//! | `experiment` | the TOML file: common sections and those of the task |
//! | `epochs` | which samples each training step sees |
//! | `training` | a run of an experiment, as the trainer takes it |
//! | `weights` | a trained model with the experiment that made it |

mod epochs;
mod experiment;
mod training;
mod weights;

pub use epochs::Epochs;
pub use experiment::Experiment;
pub use training::{Training, Update};
pub use weights::Weights;

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sheaf_admm::Result;
use sheaf_admm::sheaf::Sheaf;

use crate::model::{Decoder, Encoder, Model, ModelSection, Samples};
use crate::params::ParamLayout;
use crate::rng::Stream;

/// A section of an experiment file.
pub trait Section: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<S: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static> Section for S {}

/// A section without keys, for tasks that need none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoKeys {}

/// The agents of samples of one size.
#[derive(Clone, Debug)]
pub struct Board<L> {
    /// The graph of the agents and their stalks.
    pub sheaf: Sheaf,
    /// The geometry of the agents' views.
    pub layout: L,
}

/// Data of a run, for training and evaluation.
#[derive(Clone, Debug)]
pub struct Loaded<S> {
    /// Training samples.
    pub train: S,
    /// Held-out samples that a run evaluates: the validation split, if the experiment has one, else the test samples.
    pub test: S,
    /// Further held-out samples for evaluation, such as larger ones.
    pub more: Option<S>,
}

/// Model of a task.
pub type ModelOf<K> = Model<<K as Task>::Encoder, <K as Task>::Decoder>;

/// Board of a task.
pub type BoardOf<K> = Board<<K as Task>::Layout>;

/// A task.
pub trait Task: Clone + Debug + Send + Sync + Sized + 'static {
    /// Its name in experiments, weights and arguments.
    const NAME: &'static str;
    /// What its samples are called, plural.
    const SAMPLES: &'static str;

    /// The `[data]` section.
    type Data: Section;
    /// The `[model]` section: keys of the task in addition to those of [`ModelSection`].
    type Config: Section;
    /// The `[eval]` section.
    type Eval: Section;
    /// The encoder.
    type Encoder: Encoder;
    /// The decoder.
    type Decoder: Decoder;
    /// The geometry of the agents' views.
    type Layout: Clone + Debug + Send + Sync;
    /// Some samples of one size.
    type Set: Clone + Debug + Default + Send + Sync;

    /// The published experiment: the defaults of every key.
    fn published() -> Experiment<Self>;

    /// The common part of the `[model]` section.
    fn section(config: &Self::Config) -> &ModelSection;

    /// The model of an experiment.
    fn model(config: &Self::Config) -> Result<ModelOf<Self>>;

    /// Rejects invalid values beyond the common sections.
    fn check(_experiment: &Experiment<Self>) -> Result<()> {
        Ok(())
    }

    /// The authors' name of our parameter `name` of a model with this layout; `None` if their code has no such parameter,
    /// as for every task that the authors do not have.
    fn authors_name(_layout: &ParamLayout, _name: &str) -> Option<String> {
        None
    }

    /// Generates or reads the samples of a run.
    fn load(experiment: &Experiment<Self>) -> Result<Loaded<Self::Set>>;

    /// The agents for the samples of a set.
    fn board(config: &Self::Config, set: &Self::Set) -> Result<BoardOf<Self>>;

    /// The name of the held-out samples that a run evaluates: `validation` or `test`.
    fn split(_data: &Self::Data) -> &'static str {
        "test"
    }

    /// Number of samples in a set.
    fn len(set: &Self::Set) -> usize;

    /// The samples of a set, as the model takes them.
    fn samples<'a>(board: &'a BoardOf<Self>, set: &'a Self::Set) -> impl Samples + 'a;

    /// Variants of a training sample in one batch, such as symmetries.
    fn variants(_data: &Self::Data) -> usize {
        1
    }

    /// Clears a batch and reserves space for `count` samples like those of `train`.
    fn begin_batch(train: &Self::Set, count: usize, batch: &mut Self::Set);

    /// Writes variant `variant` of training sample `i` to position `place` of the batch.
    fn put(
        data: &Self::Data,
        train: &Self::Set,
        i: usize,
        variant: usize,
        stream: &mut Stream,
        place: usize,
        batch: &mut Self::Set,
    );

    /// Metrics on held-out samples, the most important first.
    fn evaluate(
        experiment: &Experiment<Self>,
        model: &ModelOf<Self>,
        params: &[f32],
        held_out: &Loaded<Self::Set>,
    ) -> Result<Vec<(String, f64)>>;

    /// Names of the metrics, in order.
    fn metrics(experiment: &Experiment<Self>) -> Vec<&'static str>;
}

/// The authors' name of our parameter `name`, from a list of modules; tensors below a module have the same names in
/// both. The penalty, the maps and the layers of message passing have the same name in every task.
pub fn authors_name(modules: &[(&str, &str)], name: &str) -> Option<String> {
    match name {
        "rho" => return Some("rho_raw".into()),
        "beta" => {
            let (_, h) = modules.iter().find(|(ours, _)| *ours == "encoder/h")?;
            return Some(h.replace("comm_head/comm_dense", "objective_heads/beta_raw"));
        }
        "messages/kernel" => return Some("ggnn/cell/dir_kernel".into()),
        "messages/bias" => return Some("ggnn/cell/dir_bias".into()),
        "maps" => return Some("rm/R_indices".into()),
        "maps/base" => return Some("rm/R_shared".into()),
        "maps/skew" | "maps/scale" => return None,
        _ => {}
    }
    if let Some(slot) = name.strip_prefix("maps/") {
        return Some(format!("rm/R_{slot}"));
    }
    if let Some(layer) = name.strip_prefix("messages/") {
        let renamed = [("own", "self_message_to_edge"), ("to_state", "message_to_hidden")];
        let (module, tensor) = layer.split_once('/')?;
        let theirs = renamed.iter().find(|(ours, _)| *ours == module).map_or(module, |(_, theirs)| theirs);
        return Some(match theirs {
            "start" => format!("init_hidden/{tensor}"),
            _ => format!("ggnn/cell/{theirs}/{tensor}"),
        });
    }
    let module = |(ours, theirs): &(&str, &str)| {
        let tensor = name.strip_prefix(ours)?.strip_prefix('/')?;
        Some(format!("{theirs}/{tensor}"))
    };
    modules.iter().find_map(module)
}
