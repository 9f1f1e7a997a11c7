//! Sudoku, as the commands see them.

mod bench;
pub mod data;
mod eval;
pub mod solve;
mod story;

use std::path::Path;

use sheaf_admm::Result;
use sheaf_learn::config::strict;
use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::WeightsFile;
use sheaf_tasks::sudoku::experiment::{SudokuExperiment, SudokuTask};
use sheaf_tasks::sudoku::model::SudokuModel;
use sheaf_tasks::sudoku::weights::{self, SudokuWeights};

use super::{AuthorsModel, BenchRequest, EvalRequest, Prepared, Task, TraceArrays, TraceRequest, Workload};
use crate::args::BenchKind;
use crate::report::Report;

/// The task.
#[derive(Debug)]
pub struct Sudoku;

impl Task for Sudoku {
    fn name(&self) -> &'static str {
        "sudoku"
    }

    fn builtin(&self) -> Option<&'static [u8]> {
        Some(weights::BUILTIN)
    }

    fn prepare(&self, place: &str, text: &str, overrides: &[String]) -> Result<Prepared> {
        let experiment: SudokuExperiment = strict::parse(place, text, overrides)?;
        let config = strict::to_toml(&experiment)?;
        let options = experiment.train.options()?;
        let seed = experiment.train.seed;
        Ok(Prepared { model: Box::new(SudokuTask::new(experiment)?), config, options, seed })
    }

    fn change(&self, place: &str, text: &str, overrides: &[String]) -> Result<(String, ParamLayout)> {
        let experiment: SudokuExperiment = strict::parse(place, text, overrides)?;
        Ok((strict::to_toml(&experiment)?, SudokuModel::new(experiment.model)?.layout().clone()))
    }

    fn evaluate(&self, weights: &WeightsFile, request: &EvalRequest) -> Result<Report> {
        request.no_pictures("sudoku")?;
        eval::evaluate_file(&SudokuWeights::load(weights)?, request)
    }

    fn trace(&self, weights: &WeightsFile, request: &TraceRequest) -> Result<TraceArrays> {
        eval::trace(&SudokuWeights::load(weights)?, request)
    }

    fn authors_model(&self, experiment: Option<&Path>) -> Result<AuthorsModel> {
        let experiment: SudokuExperiment = strict::read_or_default(experiment)?;
        let config = strict::to_toml(&experiment)?;
        let model = SudokuModel::new(experiment.model)?;
        AuthorsModel::new(model.layout(), config, |ours| model.authors_name(ours))
    }

    fn workload(&self, kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
        bench::workload(kind, request)
    }

    fn scaling_sizes(&self) -> &'static [usize] {
        &[9]
    }
}
