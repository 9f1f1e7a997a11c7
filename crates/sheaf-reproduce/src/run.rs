//! One run: train or resume, evaluate what is missing, record.
//!
//! Everything is written whole or not at all, and in an order that a kill at any moment leaves in a state from which
//! the same command goes on: checkpoints, then the final weights, then one evaluation after the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use sheaf_admm::{ErrorKind, Result};
use sheaf_learn::config::RESUME_MAY_CHANGE;
use sheaf_learn::train::{
    CheckpointFile, Counters, Origin, Outcome, Progress, Run, TrainEvent, TrainObserver, WeightsFile, train,
};

use crate::machine;
use crate::plan::{Plan, Planned, newest};
use crate::record::{CURVE, Record, Status, keep};

/// How a run ended, if not with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All results are there.
    Finished,
    /// It was asked to stop; what was done is saved.
    Interrupted,
}

/// Where a run is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Now {
    /// Name of the run.
    pub run: String,
    /// What it does: `training`, or an evaluation.
    pub doing: String,
    /// Updates made.
    pub step: u64,
    /// All updates.
    pub steps: u64,
    /// The last loss.
    pub loss: Option<f64>,
    /// The last evaluation during training.
    pub metrics: Vec<(String, f64)>,
    /// Seconds until the training ends.
    pub seconds_left: Option<f64>,
}

/// Told where a run is, after every update.
pub type Watch<'a> = dyn FnMut(&Now) + 'a;

/// Makes a run; an error is recorded too, so that reports show it.
pub fn run(plan: &Plan, planned: &Planned, stop: &AtomicBool, watch: &mut Watch<'_>) -> Result<Ended> {
    let ended = attempt(plan, planned, stop, watch);
    if let Err(error) = &ended {
        let folder = plan.result_folder(planned);
        let mut record = begin(plan, planned)?;
        let said = error.to_string().replace("\nhint: ", "; ").replace('\n', " ");
        (record.status, record.error) = (Status::Failed, said);
        if record.commit.is_empty() {
            record.commit.clone_from(&plan.request.commit);
        }
        if record.steps == 0
            && let Ok(Some(counters)) = counters(plan, planned)
        {
            record.train_seconds = counters.elapsed_seconds;
        }
        record.write(&folder)?;
    }
    ended
}

/// The record of a run as far as it is.
fn begin(plan: &Plan, planned: &Planned) -> Result<Record> {
    let before = Record::read(&plan.result_folder(planned))?.unwrap_or_default();
    Ok(Record {
        version: 1,
        run: planned.name.clone(),
        experiment: planned.variant.file.into(),
        set: planned.variant.set.clone(),
        seed: planned.seed,
        scale: plan.request.scale.name().into(),
        published_steps: planned.published_steps,
        batch: planned.prepared.train.batch,
        parameters: planned.prepared.parameters,
        machine: machine::processor(),
        command: plan.request.command.clone(),
        status: Status::Unfinished,
        error: String::new(),
        ..before
    })
}

fn attempt(plan: &Plan, planned: &Planned, stop: &AtomicBool, watch: &mut Watch<'_>) -> Result<Ended> {
    let (folder, results) = (plan.run_folder(planned), plan.result_folder(planned));
    let mut record = begin(plan, planned)?;
    if !folder.join("final.safetensors").is_file() {
        record.write(&results)?;
        if training(plan, planned, stop, watch)? == Ended::Interrupted {
            return Ok(Ended::Interrupted);
        }
    }
    // Before the record that counts the steps: a kill between the two must not cost the learning curve.
    if record.steps == 0 || !results.join(CURVE).is_file() {
        keep(&folder, &results)?;
    }
    if record.steps == 0 {
        record.steps = planned.prepared.train.steps;
        if let Some(counters) = counters(plan, planned)? {
            (record.train_seconds, record.left_out) = (counters.elapsed_seconds, counters.skipped);
        }
        record.commit.clone_from(&plan.request.commit);
        record.write(&results)?;
    }
    let weights = WeightsFile::read(&folder.join("final.safetensors"))?;
    for eval in &planned.evals {
        if record.evals.contains_key(eval) {
            continue;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(Ended::Interrupted);
        }
        let (steps, start) = (record.steps, Instant::now());
        let doing = format!("evaluating {eval}");
        watch(&Now { run: planned.name.clone(), doing, step: steps, steps, ..Now::default() });
        planned.variant.task().check_data(&plan.request.places)?;
        let values = planned.prepared.evaluate(&weights, eval, plan.request.scale, &|_| {})?;
        record.eval_seconds += start.elapsed().as_secs_f64();
        record.evals.insert(eval.clone(), values);
        record.write(&results)?;
    }
    record.status = Status::Finished;
    record.write(&results)?;
    Ok(Ended::Finished)
}

/// Starts the training, or continues it from its newest checkpoint.
fn training(plan: &Plan, planned: &Planned, stop: &AtomicBool, watch: &mut Watch<'_>) -> Result<Ended> {
    let (folder, prepared) = (plan.run_folder(planned), &planned.prepared);
    let options = prepared.train.options()?;
    let steps = options.steps;
    let now = Now { run: planned.name.clone(), doing: "preparing".into(), steps, ..Now::default() };
    watch(&now);
    planned.variant.task().check_data(&plan.request.places)?;
    let mut model = prepared.training()?;
    let run = Run {
        dir: &folder,
        task: prepared.task.name(),
        config: &prepared.config,
        seed: planned.seed,
        options: &options,
        resume: newest(&folder).is_some(),
        checkpoint: None,
        may_change: RESUME_MAY_CHANGE,
        init: None,
        origin: Origin { commit: &plan.request.commit, stage: None },
    };
    let mut observer = Observer { now: Now { doing: "training".into(), ..now }, watch };
    let outcome = train(&mut *model, &run, &mut observer, stop).map_err(|error| match error.kind() {
        // The same seed loses the same numbers again.
        ErrorKind::NotFinite if !plan.request.rollback => error
            .hint("--on-nan rollback returns to the last good checkpoint and continues after the bad batch"),
        _ => error,
    });
    match outcome? {
        Outcome::Finished { .. } => Ok(Ended::Finished),
        Outcome::Interrupted { .. } => Ok(Ended::Interrupted),
    }
}

/// What the newest checkpoint counted: seconds over all sessions, batches that rollbacks skipped.
fn counters(plan: &Plan, planned: &Planned) -> Result<Option<Counters>> {
    let folder = plan.run_folder(planned);
    let Some(step) = newest(&folder) else { return Ok(None) };
    let path = folder.join(format!("checkpoints/step-{step:08}.safetensors"));
    CheckpointFile::read(&path)?.counters().map(Some)
}

struct Observer<'a, 'w> {
    now: Now,
    watch: &'a mut Watch<'w>,
}

impl TrainObserver for Observer<'_, '_> {
    fn progress(&mut self, progress: &Progress) {
        (self.now.step, self.now.loss) = (progress.step, Some(progress.loss));
        self.now.seconds_left = Some(progress.seconds_left);
        (self.watch)(&self.now);
    }

    fn event(&mut self, event: &TrainEvent<'_>) {
        if let TrainEvent::Evaluated { metrics, .. } = event {
            self.now.metrics = metrics.to_vec();
            (self.watch)(&self.now);
        }
    }
}
