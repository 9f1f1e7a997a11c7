//! Trained maze models: the one that ships with the program, and those in files.

use sheaf_admm::Result;
use sheaf_learn::train::WeightsFile;

use super::experiment::MazeExperiment;
use super::model::MazeModel;
use sheaf_learn::config::strict;

/// The weights that ship: a file as `sheaf train` writes it.
pub const BUILTIN: &[u8] = include_bytes!("../../../../weights/maze.safetensors");

/// A model with its numbers and where they come from.
#[derive(Clone, Debug)]
pub struct MazeWeights {
    /// The experiment that made them.
    pub experiment: MazeExperiment,
    /// The model.
    pub model: MazeModel,
    /// Its numbers.
    pub params: Vec<f32>, // [model.layout().len()]
}

impl MazeWeights {
    /// The model in a weights file; every tensor is checked.
    pub fn load(file: &WeightsFile) -> Result<Self> {
        let experiment: MazeExperiment = strict::of_weights(file, "maze")?;
        let model = MazeModel::new(experiment.model.clone())?;
        let params = file.params(model.layout())?;
        Ok(Self { experiment, model, params })
    }

    /// The model that ships.
    pub fn builtin() -> Result<Self> {
        Self::load(&WeightsFile::parse("builtin:maze", BUILTIN)?)
    }
}
