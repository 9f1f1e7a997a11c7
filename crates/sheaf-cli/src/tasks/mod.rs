//! What the commands need to know about a task.
//!
//! A task is one folder here, one entry in [`ALL`], and one variant where a command has arguments of its own for
//! each task ([`SolveTask`](crate::args::SolveTask) and [`DataTask`](crate::args::DataTask), with their jobs in
//! `commands/`). Everything else goes through the trait.

pub mod maze;
pub mod mnist;
pub mod sudoku;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::{TrainOptions, Trainable, WeightsFile};
use sheaf_tasks::mnist::data::Split;
use sheaf_tasks::mnist::shifts::Shift;

use crate::args::BenchKind;
use crate::report::Report;

/// All tasks.
pub const ALL: [&dyn Task; 4] = [&maze::Maze, &sudoku::Sudoku, &mnist::Mnist, &mnist::MnistCnn];

/// One task, as the commands see it.
pub trait Task: Sync {
    /// Its name in experiments, weights and arguments.
    fn name(&self) -> &'static str;

    /// The weights that ship with the program.
    fn builtin(&self) -> Option<&'static [u8]>;

    /// A run of the experiment `text`, which errors call `place`.
    fn prepare(&self, place: &str, text: &str, overrides: &[String]) -> Result<Prepared>;

    /// The experiment `text`, which errors call `place`, with keys changed, and the parameters its model has.
    fn change(&self, place: &str, text: &str, overrides: &[String]) -> Result<(String, ParamLayout)>;

    /// How well weights solve the samples of a file.
    fn evaluate(&self, weights: &WeightsFile, request: &EvalRequest) -> Result<Report>;

    /// Every iteration of one solve.
    fn trace(&self, weights: &WeightsFile, request: &TraceRequest) -> Result<TraceArrays>;

    /// The model of an experiment (the published one without) with the authors' names of its parameters.
    fn authors_model(&self, experiment: Option<&Path>) -> Result<AuthorsModel>;

    /// Something to run again and again while its time is taken.
    fn workload(&self, kind: BenchKind, request: &BenchRequest) -> Result<Workload>;

    /// Sizes that `bench scaling` goes through.
    fn scaling_sizes(&self) -> &'static [usize];

    /// Kinds that `bench` measures beside training, evaluating and solving.
    fn hot_paths(&self) -> &'static [BenchKind] {
        &[]
    }
}

/// What a task says that is asked for a hot path it does not measure.
pub(crate) fn no_hot_path(task: &str) -> Error {
    Error::new(ErrorKind::Unsupported, "bench", "a task with hot paths of its own: maze", task)
        .hint("`sheaf bench train`, `eval` and `solve` measure every task")
}

impl std::fmt::Debug for dyn Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A run that is ready to start.
pub struct Prepared {
    /// Model and data.
    pub model: Box<dyn Trainable>,
    /// The experiment with every default written out.
    pub config: String,
    /// How to train.
    pub options: TrainOptions,
    /// The seed of the run.
    pub seed: u64,
}

/// What to evaluate, and how.
#[derive(Clone, Debug)]
pub struct EvalRequest {
    /// The samples.
    pub data: PathBuf,
    /// Iterations of every sample; the experiment's if not given.
    pub iterations: Option<usize>,
    /// Stop when settled, after at most so many.
    pub settle_within: Option<usize>,
    /// Rounds of negotiation, at most; the experiment's if not given.
    pub rounds: Option<usize>,
    /// Look for the first solving iteration.
    pub first_solve: bool,
    /// What only pictures have.
    pub pictures: PictureRequest,
}

/// What to evaluate of a set of pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureRequest {
    /// Which part of the set; the test part if not given.
    pub split: Option<Split>,
    /// Only the first so many pictures.
    pub count: Option<usize>,
    /// What is done to the pictures, one evaluation each; nothing if empty.
    pub shifts: Vec<Shift>,
    /// How often a random shift is drawn.
    pub draws: Option<usize>,
}

impl EvalRequest {
    /// Refuses options that only pictures have; `task` is what the weights are of.
    pub fn no_pictures(&self, task: &str) -> Result<()> {
        let PictureRequest { split, count, shifts, draws } = &self.pictures;
        let given = [
            ("--split", split.is_some()),
            ("--count", count.is_some()),
            ("--shift", !shifts.is_empty()),
            ("--draws", draws.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((name, _)) => {
                let got = format!("weights of {task}");
                Err(Error::new(ErrorKind::Unsupported, *name, "weights of a task on pictures", got))
            }
            None => Ok(()),
        }
    }

    /// Refuses options that only puzzles have; `task` is what the weights are of.
    pub fn no_rounds(&self, task: &str) -> Result<()> {
        if self.rounds.is_none() {
            return Ok(());
        }
        let got = format!("weights of {task}");
        Err(Error::new(ErrorKind::Unsupported, "--rounds", "weights of sudoku", got))
    }

    /// Refuses options that only agents on a path have; `task` is what the weights are of.
    pub fn no_settling(&self, task: &str) -> Result<()> {
        if self.settle_within.is_none() {
            return Ok(());
        }
        let got = format!("weights of {task}");
        Err(Error::new(ErrorKind::Unsupported, "--until-settled", "weights of maze", got)
            .hint("--iterations K sets how long the agents negotiate"))
    }
}

/// What to trace.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// The samples.
    pub data: PathBuf,
    /// Which of them.
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
    /// What was found, for the report.
    pub report: Report,
}

/// A model and what the authors call its parameters.
#[derive(Debug)]
pub struct AuthorsModel {
    /// Names and shapes.
    pub layout: ParamLayout,
    /// The authors' name of every parameter, in the layout's order.
    pub names: Vec<String>,
    /// The experiment, TOML.
    pub config: String,
}

impl AuthorsModel {
    /// Of a model whose parameters the authors call as `authors_name` says; an error where they have none such.
    pub fn new<N: Into<String>>(
        layout: &ParamLayout,
        config: String,
        authors_name: impl Fn(&str) -> Option<N>,
    ) -> Result<Self> {
        let name = |ours: &str| {
            authors_name(ours).map(Into::into).ok_or_else(|| {
                let place = format!("parameter `{ours}`");
                Error::new(ErrorKind::Unsupported, place, "a parameter the authors' model has", "none")
                    .hint("choose an experiment with a model as published")
            })
        };
        let names = layout.entries().iter().map(|e| name(&e.name)).collect::<Result<_>>()?;
        Ok(Self { layout: layout.clone(), names, config })
    }
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
}

/// Something to run again and again while its time is taken.
pub struct Workload {
    /// Size of a sample.
    pub size: usize,
    /// Agents of a sample.
    pub agents: usize,
    /// Iterations of a sample.
    pub iterations: usize,
    /// Samples of a round.
    pub batch: usize,
    /// Threads it uses, where it does not use all.
    pub threads: Option<usize>,
    /// One round.
    pub round: Box<dyn FnMut() -> Result<()>>,
}

/// Names of all tasks.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|task| task.name()).collect()
}

/// The task of that name; `place` says where the name stands.
pub fn find(place: &str, name: &str) -> Result<&'static dyn Task> {
    ALL.into_iter().find(|task| task.name() == name).ok_or_else(|| {
        let known: Vec<String> = names().iter().map(|n| format!("`{n}`")).collect();
        Error::new(
            ErrorKind::Unsupported,
            place,
            format!("a task: {}", known.join(", ")),
            format!("`{name}`"),
        )
    })
}

/// Where weights come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Part of the program.
    Builtin(&'static dyn Task, &'static [u8]),
    /// A file.
    File(PathBuf),
}

impl Source {
    /// `builtin:TASK` or a path.
    pub fn parse(text: &str) -> Result<Self> {
        let Some(name) = text.strip_prefix("builtin:") else { return Ok(Self::File(text.into())) };
        let shipped = || ALL.into_iter().filter_map(|task| Some((task, task.builtin()?)));
        let found = shipped().find(|(task, _)| task.name() == name);
        found.map(|(task, bytes)| Self::Builtin(task, bytes)).ok_or_else(|| {
            let known: Vec<String> = shipped().map(|(task, _)| format!("builtin:{}", task.name())).collect();
            Error::new(ErrorKind::Unsupported, "built-in weights", known.join(" or "), text)
                .hint("weights in a file are named by its path")
        })
    }

    /// Reads the weights.
    pub fn open(&self) -> Result<WeightsFile> {
        match self {
            Self::Builtin(task, bytes) => WeightsFile::parse(&format!("builtin:{}", task.name()), *bytes),
            Self::File(path) => WeightsFile::read(path),
        }
    }

    /// Reads the weights and finds their task.
    pub fn open_with_task(&self) -> Result<(WeightsFile, &'static dyn Task)> {
        let weights = self.open()?;
        let task = find(&format!("task of {}", weights.tensors().place()), &weights.about().task)?;
        Ok((weights, task))
    }
}

/// Another number each time, short enough to type again.
pub(crate) fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64 ^ u64::from(std::process::id()) << 20) % 1_000_000
}
