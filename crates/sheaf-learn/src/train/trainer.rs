//! A run from its start, or from its latest checkpoint, to its end.
//!
//! **Same bits.** Everything an update reads is in the checkpoint or a function of (seed, batch number). A run that was
//! interrupted, or killed and resumed from its latest checkpoint, ends with the same parameters, averages, moments and
//! metrics as an uninterrupted one.
//!
//! **Rollback.** Update `step` uses batch `step + skipped`. When batch b gives a loss or gradient that is not finite,
//! the state returns to the newest checkpoint before that update; a checkpoint at the failing step itself is used only
//! if there is no older one. `skipped` is set so that the next batch is b + 1: the batches between the checkpoint and b
//! are not used again, and no batch is used twice in the same state. The learning rate continues from the checkpoint's
//! step, and the run still makes all its updates. With checkpoints by time, the newest checkpoint, and so the run after
//! a rollback, depends on the machine's speed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::Trainable;
use super::checkpoint::{Checkpoint, CheckpointFile, TrainState};
use super::file::write_whole;
use super::observer::{Outcome, TrainEvent, TrainObserver};
use super::options::TrainOptions;
use super::origin::Origin;
use super::run_dir::RunDir;
use super::same_config::check_same_config;
use super::session::Session;
use super::weights::WeightsFile;
use sheaf_admm::error::{check_finite, check_len};
use sheaf_admm::{Error, ErrorKind, Result};

/// What to train, where, and how.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The directory of the run.
    pub dir: &'a Path,
    /// The name of the task, for the weights.
    pub task: &'a str,
    /// The whole configuration with every default filled in, TOML.
    pub config: &'a str,
    /// The seed of the initial parameters, batches and noise.
    pub seed: u64,
    /// The options.
    pub options: &'a TrainOptions,
    /// Continue the run in `dir` instead of starting one.
    pub resume: bool,
    /// With `resume`, the checkpoint to continue from; `None` takes the newest that is not damaged.
    pub checkpoint: Option<&'a Path>,
    /// Dotted configuration keys that a resumed run may change, because they do not affect the results.
    pub may_change: &'a [&'a str],
    /// Initial weights of a new run, instead of random parameters. A resumed run has its parameters in the checkpoint.
    pub init: Option<Init<'a>>,
    /// The program and the recipe, for the record of the weights.
    pub origin: Origin<'a>,
}

/// Weights that a run starts from.
#[derive(Clone, Copy, Debug)]
pub struct Init<'a> {
    /// Their name in the record of the run.
    pub name: &'a str,
    /// The weights.
    pub weights: &'a WeightsFile,
}

/// Trains until all updates are made, `stop` is set, or a loss or gradient is not finite.
pub fn train(
    model: &mut dyn Trainable,
    run: &Run<'_>,
    observer: &mut dyn TrainObserver,
    stop: &AtomicBool,
) -> Result<Outcome> {
    run.options.check()?;
    model.layout().check()?;
    let (dir, at) = if run.resume { resume(model, run, observer)? } else { start(model, run)? };
    let mut session = Session::open(model, run, observer, dir, at)?;
    while session.step() < run.options.steps {
        if stop.load(Ordering::Relaxed) {
            let checkpoint = session.save()?;
            return Ok(Outcome::Interrupted { step: session.step(), checkpoint });
        }
        // After a rollback there is nothing new to evaluate or save.
        if session.update()? && session.evaluate_if_due()? {
            session.save_if_due()?;
        }
    }
    session.save()?;
    Ok(Outcome::Finished { weights: session.finish()? })
}

fn start(model: &dyn Trainable, run: &Run<'_>) -> Result<(RunDir, Checkpoint)> {
    let (params, history) = match run.init {
        Some(init) => (init.weights.params(model.layout())?, init.history(run.task)?),
        None => (model.initial(run.seed), String::new()),
    };
    let history = history + &run.origin.started(model.split());
    check_len("initial parameters", model.layout().len(), params.len())?;
    check_finite("initial parameters", &params)?;
    let dir = RunDir::create(run.dir, run.config)?;
    let state = TrainState::new(params, run.seed);
    Ok((dir, Checkpoint { state, task: run.task.into(), config: run.config.into(), history }))
}

impl Init<'_> {
    /// The first line of the run's history: how the weights it starts from were trained.
    fn history(&self, task: &str) -> Result<String> {
        let (place, about) = (self.weights.tensors().place(), self.weights.about());
        self.weights.need_task(task, "a run can start only from weights of its own task")?;
        let malformed = |e| Error::new(ErrorKind::Malformed, format!("record of {place}"), "JSON", e);
        let record: serde_json::Value = match about.record.as_str() {
            "" => serde_json::Value::Null,
            text => serde_json::from_str(text).map_err(malformed)?,
        };
        Ok(format!("{}\n", serde_json::json!({ "step": 0, "init": self.name, "record": record })))
    }
}

fn resume(
    model: &dyn Trainable,
    run: &Run<'_>,
    observer: &mut dyn TrainObserver,
) -> Result<(RunDir, Checkpoint)> {
    let (dir, found) = RunDir::resume(run.dir)?;
    let (path, file) = match run.checkpoint {
        Some(path) => (path.to_path_buf(), CheckpointFile::read(path)?),
        None => newest_good(found, observer)?,
    };
    if let Some(text) = file.note() {
        observer.event(&TrainEvent::Note { text: &text });
    }
    let place = path.display().to_string();
    // Configuration before tensors: an error about a changed key is clearer than one about a shape.
    let stored = |place: &str, text: &str| model.present_config(place, text);
    check_config(&place, &file, run.config, run.may_change, &stored)?;
    let mut at = file.load(model.layout())?;
    for (what, expected, got) in [
        ("task", at.task.clone(), run.task.to_string()),
        ("seed", at.state.counters.seed.to_string(), run.seed.to_string()),
    ] {
        if expected != got {
            let expected = format!("{expected}, as in {place}");
            return Err(Error::new(ErrorKind::Unsupported, format!("{what} of the run"), expected, got)
                .hint("resume with what the run was started with, or start a new run"));
        }
    }
    at.history.extend(run.origin.resumed(at.state.counters.step, &at.history));
    // Later checkpoints are damaged, or belong to what this run now does again.
    dir.set_aside_after(at.state.counters.step)?;
    if at.config != run.config {
        at.config = run.config.into();
        write_whole(&dir.config(), run.config.as_bytes())?;
    }
    Ok((dir, at))
}

/// Checks, before samples are generated, that a run can be resumed with this configuration. `stored` brings an older
/// configuration to its present form.
pub fn check_resume(
    dir: &Path,
    checkpoint: Option<&Path>,
    config: &str,
    may_change: &[&str],
    stored: &dyn Fn(&str, &str) -> Result<String>,
) -> Result<()> {
    let (_dir, found) = RunDir::resume(dir)?;
    let (path, file) = match checkpoint {
        Some(path) => (path.to_path_buf(), CheckpointFile::read(path)?),
        None => newest_good(found, &mut ())?,
    };
    check_config(&path.display().to_string(), &file, config, may_change, stored)
}

fn check_config(
    place: &str,
    file: &CheckpointFile,
    config: &str,
    may_change: &[&str],
    stored: &dyn Fn(&str, &str) -> Result<String>,
) -> Result<()> {
    let stored = stored(&format!("configuration in {place}"), file.config()?)?;
    check_same_config(place, &stored, config, may_change)?;
    let (table, done): (toml::Table, _) = (config.parse().unwrap_or_default(), file.counters()?.step);
    let steps = table.get("train").and_then(|train| train.get("steps")?.as_integer());
    match steps.filter(|&steps| (steps as u64) < done) {
        None => Ok(()),
        Some(steps) => {
            let expected = format!("at least {done}, the steps that {place} has behind it");
            Err(Error::new(ErrorKind::Unsupported, "configuration key `train.steps`", expected, steps)
                .hint("--checkpoint FILE continues from an earlier checkpoint"))
        }
    }
}

/// The newest checkpoint that is not damaged; the observer gets a note of each that is.
fn newest_good(
    mut found: Vec<(u64, PathBuf)>,
    observer: &mut dyn TrainObserver,
) -> Result<(PathBuf, CheckpointFile)> {
    let mut newest = None;
    while let Some((step, path)) = found.pop() {
        match CheckpointFile::read(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == ErrorKind::Malformed => {
                let text = format!(
                    "the checkpoint of step {step} is damaged and passed over: expected {}, got {}",
                    error.expected(),
                    error.got()
                );
                observer.event(&TrainEvent::Note { text: &text });
                newest.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    let none = || Error::new(ErrorKind::Malformed, "checkpoints", "one that is not damaged", "none");
    Err(newest.unwrap_or_else(none))
}
