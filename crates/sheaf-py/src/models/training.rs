//! Training with a callback.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::config::{RESUME_MAY_CHANGE, Recipe, Stage, recipe, strict};
use sheaf_learn::limits::MAX_EXPERIMENT_BYTES;
use sheaf_learn::task::{Experiment, Task, Training};
use sheaf_learn::train::file::read_text_at_most;
use sheaf_learn::train::{
    Init, Origin, Outcome, Plan, Prepared, Progress, Run, TrainEvent, TrainObserver, stages,
    train as run_all, train_stages,
};
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;

use super::weights;
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
        let answer = Python::attach(|py| {
            let news = PyDict::new(py);
            fill(&news)?;
            let answer = callback.call1(py, (news,))?;
            Ok(answer.bind(py).is(pyo3::types::PyBool::new(py, false)))
        });
        match answer {
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
        match event {
            TrainEvent::Evaluated { step, metrics, best } => self.tell(|news| {
                news.set_item("event", "evaluated")?;
                news.set_item("step", *step)?;
                news.set_item("best", *best)?;
                metrics.iter().try_for_each(|(name, value)| news.set_item(name, *value))
            }),
            TrainEvent::Stage { name, number, count, steps } => self.tell(|news| {
                news.set_item("event", "stage")?;
                news.set_item("name", *name)?;
                news.set_item("number", *number)?;
                news.set_item("count", *count)?;
                news.set_item("steps", *steps)
            }),
            _ => {}
        }
    }
}

/// What a task makes of an experiment file.
struct Kind {
    name: &'static str,
    recipe: fn(&str, &str, &[String]) -> Result<Recipe>,
    prepare: fn(&str, &Stage) -> Result<Prepared>,
}

impl Kind {
    const fn of<K: Task>() -> Self {
        Self { name: K::NAME, recipe: recipe_of::<K>, prepare: prepare::<K> }
    }

    /// The task that an experiment names.
    fn find(place: &str, text: &str) -> Result<Self> {
        let malformed = |e| Error::new(ErrorKind::Malformed, place, "an experiment", e);
        let table: toml::Table =
            text.parse().map_err(|e: toml::de::Error| malformed(e.message().to_string()))?;
        let task = table.get("task").and_then(|task| task.as_str());
        let known = [Self::of::<Maze>(), Self::of::<Sudoku>(), Self::of::<Mnist>()];
        known.into_iter().find(|kind| Some(kind.name) == task).ok_or_else(|| {
            let got = task.map_or("none".into(), |task| format!("\"{task}\""));
            Error::new(ErrorKind::Unsupported, format!("{place}: task"), "maze, sudoku or mnist", got)
        })
    }
}

fn recipe_of<K: Task>(place: &str, text: &str, overrides: &[String]) -> Result<Recipe> {
    recipe::<Experiment<K>>(place, text, overrides, |experiment| {
        experiment.check()?;
        Ok(K::model(&experiment.model)?.layout().clone())
    })
}

fn prepare<K: Task>(place: &str, stage: &Stage) -> Result<Prepared> {
    let experiment: Experiment<K> = strict::parse(place, &stage.config, &[])?;
    let (options, seed) = (experiment.train.options()?, experiment.train.seed);
    Ok(Prepared { model: Box::new(Training::new(experiment)?), config: stage.config.clone(), options, seed })
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
        let kind = Kind::find(place, &text)?;
        let recipe = (kind.recipe)(place, &text, &overrides)?;
        let weights = init.as_deref().map(weights).transpose()?;
        let name = init.as_ref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
        let init = weights.as_ref().map(|weights| Init { name: &name, weights });
        let (dir, task, may_change) = (&*out, kind.name, RESUME_MAY_CHANGE);
        let mut watcher = Watcher { callback: callback.as_ref(), stop, failed: None };
        let outcome = if recipe.staged {
            stages::check_dir(dir, resume)?;
            let plan = Plan { dir, task, recipe: &recipe, commit: "", resume, may_change, init };
            let mut prepare = |stage: &Stage| (kind.prepare)(place, stage);
            train_stages(&plan, &mut prepare, &mut watcher, stop.flag())?
        } else {
            let Prepared { mut model, config, options, seed } = (kind.prepare)(place, &recipe.stages[0])?;
            let (config, options, origin) = (&*config, &options, Origin::default());
            let run =
                Run { dir, task, config, seed, options, resume, checkpoint: None, may_change, init, origin };
            run_all(&mut *model, &run, &mut watcher, stop.flag())?
        };
        Ok((outcome, watcher.failed))
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let ending = PyDict::new(py);
    match outcome {
        Outcome::Finished { weights } => {
            ending.set_item("finished", true)?;
            ending.set_item("weights", weights)?;
        }
        Outcome::Interrupted { step, checkpoint } => {
            ending.set_item("finished", false)?;
            ending.set_item("step", step)?;
            ending.set_item("checkpoint", checkpoint)?;
        }
    }
    Ok(ending)
}
