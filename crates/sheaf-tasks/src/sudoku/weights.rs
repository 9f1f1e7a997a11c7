//! Trained Sudoku models: the one that ships with the program, and those in files.

use sheaf_admm::Result;
use sheaf_learn::train::WeightsFile;

use super::experiment::SudokuExperiment;
use super::model::SudokuModel;
use sheaf_learn::config::strict;

/// The weights that ship: a file as `sheaf export --half` writes it.
pub const BUILTIN: &[u8] = include_bytes!("../../../../weights/sudoku.safetensors");

/// A model with its numbers and where they come from.
#[derive(Clone, Debug)]
pub struct SudokuWeights {
    /// The experiment that made them.
    pub experiment: SudokuExperiment,
    /// The model.
    pub model: SudokuModel,
    /// Its numbers.
    pub params: Vec<f32>, // [model.layout().len()]
}

impl SudokuWeights {
    /// The model in a weights file; every tensor is checked.
    pub fn load(file: &WeightsFile) -> Result<Self> {
        let experiment: SudokuExperiment = strict::of_weights(file, "sudoku")?;
        let model = SudokuModel::new(experiment.model.clone())?;
        let params = file.params(model.layout())?;
        Ok(Self { experiment, model, params })
    }

    /// The model that ships.
    pub fn builtin() -> Result<Self> {
        Self::load(&WeightsFile::parse("builtin:sudoku", BUILTIN)?)
    }
}
