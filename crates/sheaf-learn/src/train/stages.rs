//! A recipe in several stages: runs one after the other, each from the weights of the one before.
//!
//! ```text
//! RUN_DIR/config.toml          the whole recipe with every default filled in
//!         stage-1/, stage-2/   the runs, each a directory as `run_dir` describes
//!         best.safetensors     those of the last stage, as soon as it is complete
//!         final.safetensors
//!         lock
//! ```
//!
//! **Same bits.** A stage is a run like any other and resumes like one. It is complete when its `final.safetensors`
//! exists, which is written whole, after its last checkpoint. So a recipe that was killed goes on in the first stage
//! that is not complete: from its newest checkpoint or, if it has none, from its start. One that was killed before the
//! first checkpoint of all starts again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::file::{io_error, read_at_most, read_text_at_most, write_whole};
use super::lock::{self, RunLock};
use super::observer::{Outcome, TrainEvent, TrainObserver};
use super::options::TrainOptions;
use super::origin::{Origin, StageOf};
use super::run_dir::{RunDir, check_creatable};
use super::same_config::check_same_config;
use super::trainer::{Init, Run, train};
use super::weights::WeightsFile;
use super::{CheckpointFile, Trainable};
use crate::config::{Recipe, Stage};
use crate::limits::{MAX_EXPERIMENT_BYTES, MAX_WEIGHTS_BYTES};
use sheaf_admm::{Error, ErrorKind, Result};

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

/// A recipe to train, and where.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The directory of the run.
    pub dir: &'a Path,
    /// The name of the task, for the weights.
    pub task: &'a str,
    /// The recipe.
    pub recipe: &'a Recipe,
    /// The commit of the program; empty if it is not known.
    pub commit: &'a str,
    /// Continue the recipe in `dir` instead of starting it.
    pub resume: bool,
    /// Dotted keys that a resumed run may change.
    pub may_change: &'a [&'a str],
    /// Weights that the first stage starts from.
    pub init: Option<Init<'a>>,
}

/// The directory of stage `number`, from 1.
pub fn stage_dir(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("stage-{number}"))
}

/// Checks, without writing anything, that a recipe can start in the directory or, with `resume`, continue there.
pub fn check_dir(dir: &Path, resume: bool) -> Result<()> {
    let place = || dir.display().to_string();
    if resume {
        // Before its first checkpoint there is nothing to resume, and the weights it began from may be known to its first
        // start alone.
        let first = stage_dir(dir, 1);
        if dir.join("config.toml").is_file()
            && (RunDir::has_run(&first) || first.join("final.safetensors").is_file())
        {
            return RunLock::take(dir).map(drop);
        }
        let (want, got) = ("a run of stages with a checkpoint to resume from", "a directory without one");
        return Err(
            Error::new(ErrorKind::Unsupported, place(), want, got).hint("start the run without --resume")
        );
    }
    if !dir.is_dir() {
        return check_creatable(dir);
    }
    // A start that was killed before its first checkpoint leaves nothing worth keeping. It locks the directory first:
    // without a lock, a configuration is somebody else's.
    let (first, begun) = (stage_dir(dir, 1), dir.join(lock::NAME).is_file());
    let entries = fs::read_dir(dir).map_err(|e| io_error(dir, "a readable directory", &e))?;
    let foreign = entries.flatten().map(|entry| entry.path()).find(|path| {
        let own = path.file_name().is_some_and(|name| name == lock::NAME || (begun && name == "config.toml"));
        let unfinished = path.extension().is_some_and(|e| e == "part");
        !(own || unfinished || (*path == first && RunDir::check_new_run(path).is_ok()))
    });
    let Some(found) = foreign else { return Ok(()) };
    let got = format!("one with `{}` in it", found.file_name().unwrap_or_default().display());
    Err(Error::new(ErrorKind::Unsupported, place(), "an empty directory for a new run", got)
        .hint("continue the run in it with --resume, or choose another directory"))
}

/// Trains the stages that are not complete. `prepare` makes model and data of a stage.
pub fn train_stages(
    plan: &Plan<'_>,
    prepare: &mut dyn FnMut(&Stage) -> Result<Prepared>,
    observer: &mut dyn TrainObserver,
    stop: &AtomicBool,
) -> Result<Outcome> {
    let _lock = open(plan)?;
    let (dir, recipe) = (plan.dir, plan.recipe);
    let count = recipe.stages.len();
    let mut before: Option<(String, WeightsFile)> = None;
    for (k, stage) in recipe.stages.iter().enumerate() {
        let number = k + 1;
        let own = stage_dir(dir, number);
        let weights = own.join("final.safetensors");
        if !weights.is_file() {
            let Prepared { mut model, config, options, seed } = prepare(stage)?;
            let event = TrainEvent::Stage { name: &stage.name, number, count, steps: options.steps };
            observer.event(&event);
            let init = match &before {
                Some((name, weights)) => Some(Init { name, weights }),
                None => plan.init,
            };
            let of = StageOf { recipe: &recipe.config, name: &stage.name, number, count };
            let resume = plan.resume && RunDir::has_run(&own);
            let run = Run {
                dir: &own,
                task: plan.task,
                config: &config,
                seed,
                options: &options,
                resume,
                checkpoint: None,
                may_change: plan.may_change,
                init: init.filter(|_| !resume),
                origin: Origin { commit: plan.commit, stage: Some(of) },
            };
            if let Outcome::Interrupted { step, checkpoint } = train(&mut *model, &run, observer, stop)? {
                return Ok(Outcome::Interrupted { step, checkpoint });
            }
        }
        before = Some((format!("stage {number}: {}", stage.name), WeightsFile::read(&weights)?));
    }
    finish(dir, &stage_dir(dir, count))
}

/// Creates or opens the directory and locks it.
fn open(plan: &Plan<'_>) -> Result<RunLock> {
    let (dir, config) = (plan.dir, plan.dir.join("config.toml"));
    check_dir(dir, plan.resume)?;
    if !plan.resume {
        fs::create_dir_all(dir).map_err(|e| io_error(dir, "to create the directory", &e))?;
        let lock = RunLock::take(dir)?;
        // Again, now that nobody else can change it.
        check_dir(dir, false)?;
        write_whole(&config, plan.recipe.config.as_bytes())?;
        return Ok(lock);
    }
    let lock = RunLock::take(dir)?;
    let entries = fs::read_dir(dir).map_err(|e| io_error(dir, "a readable directory", &e))?;
    let left = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "part"));
    left.for_each(|path| drop(fs::remove_file(path)));
    let stored = read_text_at_most(&config, MAX_EXPERIMENT_BYTES, "the recipe of the run")?;
    check_same_config(&config.display().to_string(), &stored, &plan.recipe.config, plan.may_change)?;
    write_whole(&config, plan.recipe.config.as_bytes())?;
    Ok(lock)
}

/// Copies the weights of the last stage to the directory of the recipe.
fn finish(dir: &Path, last: &Path) -> Result<Outcome> {
    for name in ["best.safetensors", "final.safetensors"] {
        let from = last.join(name);
        if from.is_file() {
            write_whole(&dir.join(name), &read_at_most(&from, MAX_WEIGHTS_BYTES, "a readable file")?)?;
        }
    }
    Ok(Outcome::Finished { weights: dir.join("final.safetensors") })
}

/// Hours that a run took, over all sessions and stages, from its newest checkpoints; `None` without any.
pub fn hours(dir: &Path) -> Option<f64> {
    let newest = |dir: &Path| -> Option<f64> {
        let (_, path) = RunDir::at(dir).checkpoints().ok()?.pop()?;
        Some(CheckpointFile::read(&path).ok()?.counters().ok()?.elapsed_seconds / 3600.0)
    };
    let stages: Vec<f64> = (1..).map_while(|number| newest(&stage_dir(dir, number))).collect();
    if stages.is_empty() { newest(dir) } else { Some(stages.iter().sum()) }
}
