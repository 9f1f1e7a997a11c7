//! What the commands need to know about a task.
//!
//! A task is one folder here and one entry in [`ALL`]; no command refers to a specific task. Learned models of agents
//! implement [`Learned`], from which [`Agents`] makes a [`Task`]; other models implement [`Task`] directly.
//!
//! | file | holds |
//! | --- | --- |
//! | `verbs` | arguments that a task declares for `solve`, `data` and `eval` |
//! | `learned`, `bench` | everything that is shared by all learned models |
//! | `watch` | what `sheaf solve` does for every task: options, iterations, residuals, animations |
//! | `source` | where weights come from |

mod bench;
pub mod learned;
pub mod maze;
pub mod mnist;
pub mod source;
pub mod sudoku;
pub mod verbs;
pub mod watch;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sheaf_admm::z_update::OutOfStep;
use sheaf_admm::{Error, ErrorKind, Precision, Result};
use sheaf_learn::config::{PrecisionKind, Recipe, StrictConfig, strict};
use sheaf_learn::model::Iterations;
use sheaf_learn::model::evaluate::SolveOptions;
use sheaf_learn::model::settle::Settling;
use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::{Prepared, WeightsFile};

use crate::args::BenchKind;
use crate::report::Report;
pub use learned::{Agents, Learned};
pub use source::Source;
use verbs::{TaskOptions, Verb};

/// All tasks.
pub static ALL: [&dyn Task; 4] = [
    &Agents::<sheaf_tasks::maze::task::Maze>::NEW,
    &Agents::<sheaf_tasks::sudoku::task::Sudoku>::NEW,
    &Agents::<sheaf_tasks::mnist::task::Mnist>::NEW,
    &mnist::cnn::MnistCnn,
];

/// One task, as the commands use it.
pub trait Task: Sync {
    /// Its name in experiments, weights and arguments.
    fn name(&self) -> &'static str;

    /// `sheaf solve` for this task, if single samples can be solved and drawn.
    fn solve(&self) -> Option<Verb> {
        None
    }

    /// `sheaf data` for this task, if it has its own data.
    fn data(&self) -> Option<Verb> {
        None
    }

    /// The options of `sheaf eval` that this task adds to the common ones, as a command with nothing else.
    fn eval_options(&self) -> clap::Command;

    /// Checks the values of these options.
    fn check_options(&self, options: &TaskOptions) -> Result<()>;

    /// The experiment file `text` with overridden keys, as stages; `place` names it in errors.
    fn recipe(&self, place: &str, text: &str, overrides: &[String]) -> Result<Recipe>;

    /// A run of the experiment `text`; `place` names it in errors.
    fn prepare(&self, place: &str, text: &str, overrides: &[String]) -> Result<Prepared>;

    /// The experiment `text` with overridden keys, and the parameters of its model; `place` names it in errors.
    fn change(&self, place: &str, text: &str, overrides: &[String]) -> Result<(String, ParamLayout)>;

    /// Adds to the report how well weights solve the samples of a file.
    fn evaluate(&self, weights: &WeightsFile, request: &EvalRequest, report: &mut Report) -> Result<()>;

    /// Every iteration of one solve.
    fn trace(&self, weights: &WeightsFile, request: &TraceRequest) -> Result<TraceArrays>;

    /// The model of an experiment (by default the published one) with the authors' names of its parameters.
    fn authors_model(&self, experiment: Option<&Path>) -> Result<AuthorsModel>;

    /// A workload to run repeatedly while it is timed.
    fn workload(&self, kind: BenchKind, request: &BenchRequest) -> Result<Workload>;

    /// Sizes that `bench scaling` measures; the first is the default.
    fn sizes(&self) -> &'static [usize];

    /// Kinds that `bench` measures in addition to training, evaluating and solving.
    fn hot_paths(&self) -> &'static [BenchKind] {
        &[]
    }
}

impl std::fmt::Debug for dyn Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What to evaluate, and how.
#[derive(Clone, Debug)]
pub struct EvalRequest {
    /// The samples.
    pub data: PathBuf,
    /// Iterations of every sample; the experiment's if not given.
    pub iterations: Option<usize>,
    /// Stop when settled, after at most this many iterations.
    pub settle_within: Option<usize>,
    /// Precision of the products; the experiment's if not given.
    pub precision: Option<PrecisionKind>,
    /// How far the agents are out of step; the experiment's if not given.
    pub asynchronous: Option<OutOfStep>,
    /// Options that only some tasks have.
    pub own: TaskOptions,
}

impl EvalRequest {
    /// How to solve, with `iterations` as the experiment's default.
    pub fn options(&self, iterations: &Iterations) -> SolveOptions {
        SolveOptions {
            settling: self.settle_within.map(|_| Settling::default()),
            tolerance: (iterations.tolerance > 0.0).then_some(iterations.tolerance),
            ..SolveOptions::fixed(self.settle_within.or(self.iterations).unwrap_or(iterations.eval))
        }
    }
}

/// What to trace.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// The samples.
    pub data: PathBuf,
    /// Index of the sample.
    pub index: usize,
    /// Iterations; the experiment's if not given.
    pub iterations: Option<usize>,
}

/// Named arrays of a trace.
#[derive(Debug, Default)]
pub struct TraceArrays {
    /// Numbers: name, shape, values.
    pub floats: Vec<(&'static str, Vec<usize>, Vec<f32>)>,
    /// Tokens: name, shape, values.
    pub bytes: Vec<(&'static str, Vec<usize>, Vec<u8>)>,
    /// Results for the report.
    pub report: Report,
}

/// A model and the authors' names of its parameters.
#[derive(Debug)]
pub struct AuthorsModel {
    /// Names and shapes.
    pub layout: ParamLayout,
    /// The authors' name of every parameter, in the layout's order.
    pub names: Vec<String>,
    /// The experiment, TOML.
    pub config: String,
}

/// The sizes of a measurement.
#[derive(Clone, Debug)]
pub struct BenchRequest {
    /// The experiment whose model is measured; the published one if not given.
    pub experiment: Option<PathBuf>,
    /// Iterations of a sample.
    pub iterations: Option<usize>,
    /// Samples in a batch.
    pub batch: Option<usize>,
    /// Size of a sample.
    pub size: Option<usize>,
    /// Precision of the products; the experiment's if not given.
    pub precision: Option<PrecisionKind>,
}

impl BenchRequest {
    /// The experiment, checked by `check`.
    fn experiment<E: StrictConfig>(&self, check: impl FnOnce(&E) -> Result<()>) -> Result<E> {
        let experiment = strict::read_or_default(self.experiment.as_deref())?;
        check(&experiment)?;
        Ok(experiment)
    }
}

/// A workload to run repeatedly while it is timed.
pub struct Workload {
    /// Size of a sample.
    pub size: usize,
    /// Agents of a sample.
    pub agents: usize,
    /// Iterations of a sample.
    pub iterations: usize,
    /// Samples per round.
    pub batch: usize,
    /// Precision of the products.
    pub precision: Precision,
    /// Threads it uses, if not all.
    pub threads: Option<usize>,
    /// Runs one round.
    pub round: Box<dyn FnMut() -> Result<()>>,
}

/// Seed of everything drawn for benchmarks.
const BENCH_SEED: u64 = 1;

/// Names of all tasks.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|task| task.name()).collect()
}

/// The task of that name; `place` is where the name was given.
pub fn find(place: &str, name: &str) -> Result<&'static dyn Task> {
    ALL.into_iter().find(|task| task.name() == name).ok_or_else(|| {
        let known: Vec<String> = names().iter().map(|n| format!("`{n}`")).collect();
        let (want, got) = (format!("a task: {}", known.join(", ")), format!("`{name}`"));
        Error::new(ErrorKind::Unsupported, place, want, got)
    })
}

/// A different seed each time, short enough to type again.
pub(crate) fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // All ranks of a job have that of rank 0.
    crate::ranks::told_number((now.as_nanos() as u64 ^ u64::from(std::process::id()) << 20) % 1_000_000)
}
