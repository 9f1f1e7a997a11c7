//! Training with a callback.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::config::{RESUME_MAY_CHANGE, strict};
use sheaf_learn::limits::MAX_EXPERIMENT_BYTES;
use sheaf_learn::task::{Experiment, Task, Training};
use sheaf_learn::train::file::read_text_at_most;
use sheaf_learn::train::{
    Init, Origin, Outcome, Progress, Run, TrainEvent, TrainObserver, TrainOptions, Trainable, WeightsFile,
    train as run_all,
};
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;

use crate::run::{Stop, run};

/// Passes progress and evaluations on to a function of Python, and stops where it says so.
struct Watcher<'a> {
    callback: Option<&'a Py<PyAny>>,
    stop: &'a Stop,
    failed: Option<PyErr>,
}

impl Watcher<'_> {
    /// Calls the function; `False` or an exception ends the run after the current step.
    fn tell(&mut self, fill: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) {
        let Some(callback) = self.callback.filter(|_| self.failed.is_none()) else { return };
        let told = Python::attach(|py| {
            let news = PyDict::new(py);
            fill(&news)?;
            let answer = callback.call1(py, (news,))?;
            Ok(answer.bind(py).is(pyo3::types::PyBool::new(py, false)))
        });
        match told {
            Ok(false) => {}
            Ok(true) => self.stop.set(),
            Err(error) => {
                self.failed = Some(error);
                self.stop.set();
            }
        }
    }
}

impl TrainObserver for Watcher<'_> {
    fn progress(&mut self, p: &Progress) {
        self.tell(|news| {
            news.set_item("event", "step")?;
            news.set_item("step", p.step)?;
            news.set_item("steps", p.steps)?;
            news.set_item("loss", p.loss)?;
            news.set_item("grad_norm", p.grad_norm)?;
            news.set_item("samples_per_s", p.samples_per_s)?;
            news.set_item("seconds_left", p.seconds_left)
        });
    }

    fn event(&mut self, event: &TrainEvent<'_>) {
        if let TrainEvent::Evaluated { step, metrics, best } = event {
            self.tell(|news| {
                news.set_item("event", "evaluated")?;
                news.set_item("step", *step)?;
                news.set_item("best", *best)?;
                metrics.iter().try_for_each(|(name, value)| news.set_item(name, *value))
            });
        }
    }
}

/// A run that is ready to start.
struct Prepared {
    model: Box<dyn Trainable>,
    task: &'static str,
    config: String,
    options: TrainOptions,
    seed: u64,
}

fn prepare<K: Task>(place: &str, text: &str, overrides: &[String]) -> Result<Prepared> {
    let experiment: Experiment<K> = strict::parse(place, text, overrides)?;
    experiment.check()?;
    let (config, options) = (strict::to_toml(&experiment)?, experiment.train.options()?);
    let seed = experiment.train.seed;
    Ok(Prepared { model: Box::new(Training::new(experiment)?), task: K::NAME, config, options, seed })
}

fn prepare_any(place: &str, text: &str, overrides: &[String]) -> Result<Prepared> {
    let malformed = |e| Error::new(ErrorKind::Malformed, place, "an experiment", e);
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| malformed(e.message().to_string()))?;
    match table.get("task").and_then(|task| task.as_str()) {
        Some(Maze::NAME) => prepare::<Maze>(place, text, overrides),
        Some(Sudoku::NAME) => prepare::<Sudoku>(place, text, overrides),
        Some(Mnist::NAME) => prepare::<Mnist>(place, text, overrides),
        other => {
            let got = other.map_or("none".into(), |task| format!("\"{task}\""));
            Err(Error::new(ErrorKind::Unsupported, format!("{place}: task"), "maze, sudoku or mnist", got))
        }
    }
}

/// Trains as an experiment says; see `sheaf_admm.train`.
#[pyfunction]
pub fn train<'py>(
    py: Python<'py>,
    experiment: &str,
    out: PathBuf,
    overrides: Vec<String>,
    callback: Option<Py<PyAny>>,
    resume: bool,
    init: Option<PathBuf>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let (outcome, failed) = run(py, threads, |stop| {
        let (place, text) = match experiment.contains('\n') {
            true => ("experiment", experiment.to_string()),
            false => (
                experiment,
                read_text_at_most(experiment.as_ref(), MAX_EXPERIMENT_BYTES, "a readable experiment")?,
            ),
        };
        let mut prepared = prepare_any(place, &text, &overrides)?;
        let weights = init.as_deref().map(weights).transpose()?;
        let name = init.as_ref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let run = Run {
            dir: &out,
            task: prepared.task,
            config: &prepared.config,
            seed: prepared.seed,
            options: &prepared.options,
            resume,
            checkpoint: None,
            may_change: RESUME_MAY_CHANGE,
            init: weights.as_ref().map(|weights| Init { name: &name, weights }),
            origin: Origin::default(),
        };
        let mut watcher = Watcher { callback: callback.as_ref(), stop, failed: None };
        let outcome = run_all(&mut *prepared.model, &run, &mut watcher, stop.flag())?;
        Ok((outcome, watcher.failed))
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let told = PyDict::new(py);
    match outcome {
        Outcome::Finished { weights } => {
            told.set_item("finished", true)?;
            told.set_item("weights", weights)?;
        }
        Outcome::Interrupted { step, checkpoint } => {
            told.set_item("finished", false)?;
            told.set_item("step", step)?;
            told.set_item("checkpoint", checkpoint)?;
        }
    }
    Ok(told)
}

fn weights(path: &std::path::Path) -> Result<WeightsFile> {
    let name = path.to_string_lossy();
    match super::BUILTIN.into_iter().find(|(known, _)| *known == name) {
        Some((name, bytes)) => WeightsFile::parse(name, bytes),
        None => WeightsFile::read(path),
    }
}
