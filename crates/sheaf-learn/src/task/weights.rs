//! A trained model: its experiment, its layers, its numbers.

use sheaf_admm::Result;

use super::{Experiment, ModelOf, Task};
use crate::config::strict;
use crate::train::WeightsFile;

/// A model with its numbers and the experiment that made them.
#[derive(Clone, Debug)]
pub struct Weights<K: Task> {
    /// The experiment.
    pub experiment: Experiment<K>,
    /// The model.
    pub model: ModelOf<K>,
    /// Its numbers.
    pub params: Vec<f32>, // [model.layout().len()]
}

impl<K: Task> Weights<K> {
    /// The model in a weights file. The experiment and every tensor are checked.
    pub fn load(file: &WeightsFile) -> Result<Self> {
        let experiment: Experiment<K> = strict::of_weights(file, K::NAME)?;
        experiment.check()?;
        let model = K::model(&experiment.model)?;
        let params = file.params(model.layout())?;
        Ok(Self { experiment, model, params })
    }

    /// The same from the bytes of a file that ships with the program.
    pub fn builtin(bytes: &'static [u8]) -> Result<Self> {
        Self::load(&WeightsFile::parse(&format!("builtin:{}", K::NAME), bytes)?)
    }
}
