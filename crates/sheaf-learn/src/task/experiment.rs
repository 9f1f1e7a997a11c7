//! The experiment file.

use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Precision, Result};

use super::{ModelOf, Task};
use crate::config::{StrictConfig, TrainSection};
use crate::model::{ConsensusKind, Iterations};

/// A whole experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, bound(serialize = "", deserialize = ""))]
pub struct Experiment<K: Task> {
    /// The name of the task.
    pub task: String,
    /// Where samples come from.
    pub data: K::Data,
    /// The model.
    pub model: K::Config,
    /// How long the agents iterate.
    pub iterations: Iterations,
    /// The optimiser and its schedule.
    pub train: TrainSection,
    /// What is evaluated during training.
    pub eval: K::Eval,
}

impl<K: Task> Default for Experiment<K> {
    fn default() -> Self {
        K::published()
    }
}

/// Compares the sections; tasks themselves are not compared.
impl<K: Task> PartialEq for Experiment<K> {
    fn eq(&self, other: &Self) -> bool {
        let common = self.task == other.task && self.iterations == other.iterations;
        common
            && self.train == other.train
            && self.data == other.data
            && self.model == other.model
            && self.eval == other.eval
    }
}

impl<K: Task> StrictConfig for Experiment<K> {
    fn aliases() -> &'static [(&'static str, &'static str)] {
        &[("iterations.train_min", "iterations.train")]
    }

    fn check_set(&self, key: &str, text: &str) -> Result<()> {
        K::section(&self.model).check_set(key, text)
    }
}

impl<K: Task> Experiment<K> {
    /// The model, with products in the precision of the experiment.
    pub fn model(&self) -> Result<ModelOf<K>> {
        K::model(&self.model)?.in_precision(self.train.precision.into())
    }

    /// Rejects invalid values, independent of the source: a file, `--set`, weights, a checkpoint.
    pub fn check(&self) -> Result<()> {
        let wrong = |place: &str, expected: String, got: &dyn std::fmt::Display| {
            Err(Error::new(ErrorKind::Malformed, place, expected, got))
        };
        if self.task != K::NAME {
            return wrong("task", format!("\"{}\"", K::NAME), &self.task);
        }
        self.train.options()?;
        let model = self.model()?;
        self.iterations.check(self.train.loss_window, model.choices().coordination)?;
        self.iterations.check_cg_steps(model.choices())?;
        let variants = K::variants(&self.data);
        if !self.train.batch.is_multiple_of(variants) {
            let want = format!("a multiple of {variants}, one sample in all its symmetries");
            return wrong("train.batch", want, &self.train.batch);
        }
        let metrics = K::metrics(self);
        let best = &self.train.best_metric;
        if !best.is_empty() && !metrics.contains(&best.as_str()) {
            return wrong("train.best_metric", format!("one of {}", metrics.join(", ")), best);
        }
        let implicit = self.iterations.adjoint == "implicit";
        if implicit && model.precision() != Precision::Full {
            let want =
                "\"f32\" with iterations.adjoint = \"implicit\", which differentiates an exact solution";
            return Err(Error::new(ErrorKind::Unsupported, "train.precision", want, "\"bf16\"")
                .hint("set iterations.adjoint = \"unrolled\", or train.precision = \"f32\""));
        }
        let lag = model.choices().lag;
        let needs_sums = [
            ("iterations.adjoint", implicit, "\"unrolled\" out of step"),
            ("iterations.tolerance", self.iterations.tolerance > 0.0, "0 out of step"),
        ];
        if let Some((place, _, want)) = needs_sums.into_iter().find(|&(_, set, _)| set && !lag.is_in_step()) {
            let got = format!("model.asynchronous = {:?}", lag.to_string());
            return Err(Error::new(ErrorKind::Unsupported, place, want, got)
                .hint("agents out of step have no step that repeats, and no sums over all agents"));
        }
        if implicit && model.choices().consensus == ConsensusKind::CgCarried {
            let want = "\"unrolled\" with consensus \"cg-carried\", which carries every perturbation on";
            return Err(Error::new(ErrorKind::Unsupported, "iterations.adjoint", want, "\"implicit\"")
                .hint("set model.consensus = \"exact\", or \"cg\" with a small model.cg_tolerance"));
        }
        K::check(self)
    }
}
