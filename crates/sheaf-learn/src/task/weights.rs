//! A trained model: its experiment, layers and parameters.

use sheaf_admm::Result;
use sheaf_admm::z_update::OutOfStep;

use super::{Experiment, ModelOf, Task};
use crate::config::strict;
use crate::train::WeightsFile;

/// A model with its parameters and the experiment that produced them.
#[derive(Clone, Debug)]
pub struct Weights<K: Task> {
    /// The experiment.
    pub experiment: Experiment<K>,
    /// The model.
    pub model: ModelOf<K>,
    /// Its parameters.
    pub params: Vec<f32>, // [model.layout().len()]
}

impl<K: Task> Weights<K> {
    /// Loads the model from a weights file. The experiment and every tensor are checked. Products are in full precision,
    /// whatever the training used: bf16 is slow on many CPUs, and not all of them sum it in the same order.
    pub fn load(file: &WeightsFile) -> Result<Self> {
        let experiment: Experiment<K> = strict::of_weights(file, K::NAME)?;
        experiment.check()?;
        let model = K::model(&experiment.model)?;
        let params = file.params(model.layout())?;
        Ok(Self { experiment, model, params })
    }

    /// The same weights used by agents that are out of step. Refused if their consensus needs sums over all agents.
    pub fn out_of_step(self, lag: OutOfStep) -> Result<Self> {
        let (text, set) = (strict::to_toml(&self.experiment)?, format!("model.asynchronous={lag}"));
        let experiment: Experiment<K> = strict::parse("configuration of the weights", &text, &[set])?;
        experiment.check()?;
        let model = experiment.model()?.in_precision(self.model.precision())?;
        Ok(Self { experiment, model, params: self.params })
    }

    /// The same from the bytes of a file that ships with the program.
    pub fn builtin(bytes: &'static [u8]) -> Result<Self> {
        Self::load(&WeightsFile::parse(&format!("builtin:{}", K::NAME), bytes)?)
    }
}
