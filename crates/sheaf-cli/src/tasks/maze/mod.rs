//! Mazes, as the commands see them.

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
use sheaf_tasks::maze::experiment::{MazeExperiment, MazeTask};
use sheaf_tasks::maze::model::MazeModel;
use sheaf_tasks::maze::weights::{self, MazeWeights};

use super::{AuthorsModel, BenchRequest, EvalRequest, Prepared, Task, TraceArrays, TraceRequest, Workload};
use crate::args::BenchKind;
use crate::report::Report;

/// The task.
#[derive(Debug)]
pub struct Maze;

impl Task for Maze {
    fn name(&self) -> &'static str {
        "maze"
    }

    fn builtin(&self) -> Option<&'static [u8]> {
        Some(weights::BUILTIN)
    }

    fn prepare(&self, place: &str, text: &str, overrides: &[String]) -> Result<Prepared> {
        let experiment: MazeExperiment = strict::parse(place, text, overrides)?;
        let config = strict::to_toml(&experiment)?;
        let options = experiment.train.options()?;
        let seed = experiment.train.seed;
        Ok(Prepared { model: Box::new(MazeTask::new(experiment)?), config, options, seed })
    }

    fn change(&self, place: &str, text: &str, overrides: &[String]) -> Result<(String, ParamLayout)> {
        let experiment: MazeExperiment = strict::parse(place, text, overrides)?;
        Ok((strict::to_toml(&experiment)?, MazeModel::new(experiment.model)?.layout().clone()))
    }

    fn evaluate(&self, weights: &WeightsFile, request: &EvalRequest) -> Result<Report> {
        request.no_pictures("maze")?;
        request.no_rounds("maze")?;
        eval::evaluate(&MazeWeights::load(weights)?, request)
    }

    fn trace(&self, weights: &WeightsFile, request: &TraceRequest) -> Result<TraceArrays> {
        eval::trace(&MazeWeights::load(weights)?, request)
    }

    fn authors_model(&self, experiment: Option<&Path>) -> Result<AuthorsModel> {
        let experiment: MazeExperiment = strict::read_or_default(experiment)?;
        let config = strict::to_toml(&experiment)?;
        let model = MazeModel::new(experiment.model)?;
        AuthorsModel::new(model.layout(), config, |ours| model.authors_name(ours))
    }

    fn workload(&self, kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
        bench::workload(kind, request)
    }

    fn scaling_sizes(&self) -> &'static [usize] {
        &[19, 37, 73, 145, 289, 501, 1001]
    }

    fn hot_paths(&self) -> &'static [BenchKind] {
        &[BenchKind::Laplacian, BenchKind::Forward, BenchKind::Reverse]
    }
}
