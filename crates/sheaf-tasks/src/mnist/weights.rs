//! Trained models of pictures: the one that ships with the program, and those in files.

use sheaf_admm::Result;
use sheaf_learn::train::WeightsFile;

use super::experiment::MnistExperiment;
use super::model::MnistModel;
use sheaf_learn::config::strict;

/// The weights that ship: a file as `sheaf train` writes it, in half precision.
pub const BUILTIN: &[u8] = include_bytes!("../../../../weights/mnist.safetensors");

/// A model with its numbers and where they come from.
#[derive(Clone, Debug)]
pub struct MnistWeights {
    /// The experiment that made them.
    pub experiment: MnistExperiment,
    /// The model.
    pub model: MnistModel,
    /// Its numbers.
    pub params: Vec<f32>, // [model.layout().len()]
}

impl MnistWeights {
    /// The model in a weights file; every tensor is checked.
    pub fn load(file: &WeightsFile) -> Result<Self> {
        let experiment: MnistExperiment = strict::of_weights(file, "mnist")?;
        let model = MnistModel::new(experiment.model.clone())?;
        let params = file.params(model.layout())?;
        Ok(Self { experiment, model, params })
    }

    /// The model that ships.
    pub fn builtin() -> Result<Self> {
        Self::load(&WeightsFile::parse("builtin:mnist", BUILTIN)?)
    }
}
