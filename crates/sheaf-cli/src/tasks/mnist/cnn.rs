//! The convolutional network, as the commands use it.

use std::path::Path;

use clap::{Args, Command};
use sheaf_admm::{Error, ErrorKind, Precision, Result};
use sheaf_learn::config::{PrecisionKind, Recipe, recipe, strict};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::task::{Loaded, Update};
use sheaf_learn::train::{Prepared, WeightsFile};
use sheaf_tasks::baselines::cnn::experiment::{CnnExperiment, CnnTask, CnnWeights};
use sheaf_tasks::baselines::cnn::{CnnClassifier, CnnModel};
use sheaf_tasks::mnist::evaluate::evaluate_with;

use super::{PLAIN, bench_data, eval, pictures};
use crate::args::BenchKind;
use crate::report::Report;
use crate::tasks::verbs::{EvalOptions, TaskOptions};
use crate::tasks::{
    AuthorsModel, BENCH_SEED, BenchRequest, EvalRequest, Task, TraceArrays, TraceRequest, Workload,
};

/// The convolutional network.
#[derive(Debug)]
pub struct MnistCnn;

/// The experiment `text` with overridden keys, checked.
fn experiment(place: &str, text: &str, overrides: &[String]) -> Result<CnnExperiment> {
    let experiment: CnnExperiment = strict::parse(place, text, overrides)?;
    experiment.check()?;
    Ok(experiment)
}

impl Task for MnistCnn {
    fn name(&self) -> &'static str {
        "mnist-cnn"
    }

    fn eval_options(&self) -> Command {
        eval::Options::augment_args(Command::new(self.name()))
    }

    fn check_options(&self, options: &TaskOptions) -> Result<()> {
        options.of::<eval::Options>()?.check()
    }

    fn recipe(&self, place: &str, text: &str, overrides: &[String]) -> Result<Recipe> {
        recipe::<CnnExperiment>(place, text, overrides, |experiment| {
            experiment.check()?;
            Ok(CnnModel::new(experiment.model.clone())?.layout().clone())
        })
    }

    fn prepare(&self, place: &str, text: &str, overrides: &[String]) -> Result<Prepared> {
        let experiment = experiment(place, text, overrides)?;
        let config = strict::to_toml(&experiment)?;
        let (options, seed) = (experiment.train.options()?, experiment.train.seed);
        Ok(Prepared { model: Box::new(CnnTask::new(experiment)?), config, options, seed })
    }

    fn change(&self, place: &str, text: &str, overrides: &[String]) -> Result<(String, ParamLayout)> {
        let experiment = experiment(place, text, overrides)?;
        Ok((strict::to_toml(&experiment)?, CnnModel::new(experiment.model)?.layout().clone()))
    }

    fn evaluate(&self, weights: &WeightsFile, request: &EvalRequest, report: &mut Report) -> Result<()> {
        let given = [
            ("--iterations", request.iterations.is_some()),
            ("--until-settled", request.settle_within.is_some()),
            ("--asynchronous", request.asynchronous.is_some()),
        ];
        if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
            return Err(Error::new(ErrorKind::Unsupported, *option, "weights of agents", "a network")
                .hint("a convolutional network has no iterations; leave the option out"));
        }
        full_precision(request.precision)?;
        let weights = CnnWeights::load(weights)?;
        let mut network = CnnClassifier::new(&weights.model, &weights.params);
        let rows = eval::evaluate(&mut network, request, report)?;
        report.value("iterations", None::<usize>);
        rows.add_to(report);
        Ok(())
    }

    fn trace(&self, _: &WeightsFile, _: &TraceRequest) -> Result<TraceArrays> {
        Err(no_agents("weights to trace"))
    }

    fn authors_model(&self, _: Option<&Path>) -> Result<AuthorsModel> {
        Err(no_agents("--task"))
    }

    /// Measures the network, which has no agents and no iterations.
    fn workload(&self, kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
        if let BenchKind::Laplacian | BenchKind::Forward | BenchKind::Reverse = kind {
            return Err(
                no_agents("--task").hint("`sheaf bench train`, `eval` and `solve` measure every task")
            );
        }
        if request.iterations.is_some() {
            return Err(no_agents("--iterations").hint("leave the option out"));
        }
        full_precision(request.precision)?;
        let (batch, size) = (request.batch.unwrap_or(128), request.size.unwrap_or(self.sizes()[0]));
        let mut experiment = request.experiment(CnnExperiment::check)?;
        let classes = experiment.model.classes;
        let round: Box<dyn FnMut() -> Result<()>> = if kind == BenchKind::Train {
            experiment.train.batch = batch;
            let options = experiment.train.options()?;
            let Loaded { train, test, .. } = bench_data(batch, size, classes)?;
            let mut update = Update::new(CnnTask::with_sets(experiment, train, test)?, options, BENCH_SEED);
            Box::new(move || update.step().map(drop))
        } else {
            let model = CnnModel::new(experiment.model)?;
            let (params, set) = (model.init::<f32>(BENCH_SEED), pictures(batch, size, classes)?);
            Box::new(move || {
                let mut network = CnnClassifier::new(&model, &params);
                evaluate_with(&mut network, &set, &PLAIN, &|_| {}).map(drop)
            })
        };
        Ok(Workload {
            size,
            agents: 0,
            iterations: 0,
            batch,
            precision: Precision::Full,
            threads: None,
            round,
        })
    }

    fn sizes(&self) -> &'static [usize] {
        &[28, 56, 112, 224]
    }
}

/// Refuses bf16, which the network does not have.
fn full_precision(precision: Option<PrecisionKind>) -> Result<()> {
    if precision.is_none_or(|precision| precision == PrecisionKind::F32) {
        return Ok(());
    }
    Err(no_agents("--precision bf16").hint("leave the option out; the network has no bf16 products"))
}

/// The error for requests that apply only to agents.
fn no_agents(place: &str) -> Error {
    Error::new(ErrorKind::Unsupported, place, "a model of agents", "mnist-cnn, a convolutional network")
}
