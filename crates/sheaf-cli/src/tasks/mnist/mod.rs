//! Pictures of digits and other classes, as the commands see them: the agents, and the network they are compared with.

mod bench;
pub mod data;
mod eval;
pub mod solve;
mod story;

use std::path::Path;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::config::strict;
use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::WeightsFile;
use sheaf_tasks::baselines::cnn::CnnModel;
use sheaf_tasks::baselines::cnn::experiment::{self as cnn, CnnExperiment, CnnTask, CnnWeights};
use sheaf_tasks::mnist::experiment::{MnistExperiment, MnistTask};
use sheaf_tasks::mnist::model::MnistModel;
use sheaf_tasks::mnist::weights::{self, MnistWeights};

use super::{AuthorsModel, BenchRequest, EvalRequest, Prepared, Task, TraceArrays, TraceRequest, Workload};
use crate::args::BenchKind;
use crate::report::Report;

/// The agents.
#[derive(Debug)]
pub struct Mnist;

/// The convolutional network.
#[derive(Debug)]
pub struct MnistCnn;

impl Task for Mnist {
    fn name(&self) -> &'static str {
        "mnist"
    }

    fn builtin(&self) -> Option<&'static [u8]> {
        Some(weights::BUILTIN)
    }

    fn prepare(&self, place: &str, text: &str, overrides: &[String]) -> Result<Prepared> {
        let experiment: MnistExperiment = strict::parse(place, text, overrides)?;
        let config = strict::to_toml(&experiment)?;
        let (options, seed) = (experiment.train.options()?, experiment.train.seed);
        Ok(Prepared { model: Box::new(MnistTask::new(experiment)?), config, options, seed })
    }

    fn change(&self, place: &str, text: &str, overrides: &[String]) -> Result<(String, ParamLayout)> {
        let experiment: MnistExperiment = strict::parse(place, text, overrides)?;
        Ok((strict::to_toml(&experiment)?, MnistModel::new(experiment.model)?.layout().clone()))
    }

    fn evaluate(&self, weights: &WeightsFile, request: &EvalRequest) -> Result<Report> {
        eval::agents(&MnistWeights::load(weights)?, request)
    }

    fn trace(&self, weights: &WeightsFile, request: &TraceRequest) -> Result<TraceArrays> {
        eval::trace(&MnistWeights::load(weights)?, request)
    }

    fn authors_model(&self, experiment: Option<&Path>) -> Result<AuthorsModel> {
        let experiment: MnistExperiment = strict::read_or_default(experiment)?;
        let config = strict::to_toml(&experiment)?;
        let model = MnistModel::new(experiment.model)?;
        AuthorsModel::new(model.layout(), config, |ours| model.authors_name(ours))
    }

    fn workload(&self, kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
        bench::agents(kind, request)
    }

    fn scaling_sizes(&self) -> &'static [usize] {
        &[28, 56, 112, 224, 448, 896]
    }
}

impl Task for MnistCnn {
    fn name(&self) -> &'static str {
        "mnist-cnn"
    }

    fn builtin(&self) -> Option<&'static [u8]> {
        Some(cnn::BUILTIN)
    }

    fn prepare(&self, place: &str, text: &str, overrides: &[String]) -> Result<Prepared> {
        let experiment: CnnExperiment = strict::parse(place, text, overrides)?;
        let config = strict::to_toml(&experiment)?;
        let (options, seed) = (experiment.train.options()?, experiment.train.seed);
        Ok(Prepared { model: Box::new(CnnTask::new(experiment)?), config, options, seed })
    }

    fn change(&self, place: &str, text: &str, overrides: &[String]) -> Result<(String, ParamLayout)> {
        let experiment: CnnExperiment = strict::parse(place, text, overrides)?;
        Ok((strict::to_toml(&experiment)?, CnnModel::new(experiment.model)?.layout().clone()))
    }

    fn evaluate(&self, weights: &WeightsFile, request: &EvalRequest) -> Result<Report> {
        eval::network(&CnnWeights::load(weights)?, request)
    }

    fn trace(&self, _: &WeightsFile, _: &TraceRequest) -> Result<TraceArrays> {
        Err(no_agents("weights to trace"))
    }

    fn authors_model(&self, _: Option<&Path>) -> Result<AuthorsModel> {
        Err(no_agents("--task"))
    }

    fn workload(&self, kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
        bench::network(kind, request)
    }

    fn scaling_sizes(&self) -> &'static [usize] {
        &[28, 56, 112, 224]
    }
}

/// What is asked of the network though only agents have it.
fn no_agents(place: &str) -> Error {
    Error::new(ErrorKind::Unsupported, place, "a model of agents", "mnist-cnn, a convolutional network")
}
