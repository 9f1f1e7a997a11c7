//! The parts of a run's loop: update, log, evaluate, save, roll back.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::checkpoint::Checkpoint;
use super::metrics::{self, MetricsWriter};
use super::observer::{Progress, TrainEvent, TrainObserver};
use super::options::OnNan;
use super::run_dir::RunDir;
use super::tensorboard::EventWriter;
use super::tensors::Precision;
use super::trainer::Run;
use super::update::{UpdateScratch, Updated};
use super::weights::{WeightsMeta, save_weights};
use super::{StepStats, Trainable};
use sheaf_admm::error::check_finite;
use sheaf_admm::{Error, ErrorKind, Result};

/// One session of a run: from its start, or from a checkpoint, to its end or interruption.
pub(super) struct Session<'a> {
    model: &'a mut dyn Trainable,
    run: &'a Run<'a>,
    observer: &'a mut dyn TrainObserver,
    dir: RunDir,
    at: Checkpoint,
    scratch: UpdateScratch,
    metrics: MetricsWriter,
    events: EventWriter,
    /// The step of the last written checkpoint, if it equals `at`.
    saved: Option<u64>,
    clock: Clock,
}

struct Clock {
    start: Instant,
    elapsed_before: f64,
    first_step: u64,
    last_save: Instant,
    samples_per_s: Option<f64>,
}

impl<'a> Session<'a> {
    pub(super) fn open(
        model: &'a mut dyn Trainable,
        run: &'a Run<'a>,
        observer: &'a mut dyn TrainObserver,
        dir: RunDir,
        at: Checkpoint,
    ) -> Result<Self> {
        let counters = &at.state.counters;
        let metrics = MetricsWriter::open(&dir.metrics(), counters.step)?;
        let events = EventWriter::create(dir.root(), counters.step)?;
        let now = Instant::now();
        let clock = Clock {
            start: now,
            elapsed_before: counters.elapsed_seconds,
            first_step: counters.step,
            last_save: now,
            samples_per_s: None,
        };
        // A checkpoint that was chosen may lie elsewhere: the run keeps its own copy.
        let saved = (run.resume && run.checkpoint.is_none()).then_some(counters.step);
        let scratch = UpdateScratch::default();
        let mut session = Self { model, run, observer, dir, at, scratch, metrics, events, saved, clock };
        session.observer.event(&TrainEvent::Started { step: session.step() });
        // A new run saves its initial state, so that there is always a checkpoint to return to.
        session.save()?;
        Ok(session)
    }

    /// Updates made.
    pub(super) fn step(&self) -> u64 {
        self.at.state.counters.step
    }

    /// The batch of the next update.
    fn batch(&self) -> u64 {
        self.at.state.counters.step + self.at.state.counters.skipped
    }

    fn seconds(&self) -> f64 {
        self.clock.elapsed_before + self.clock.start.elapsed().as_secs_f64()
    }

    /// Makes one update; returns false if it ended in a rollback instead.
    pub(super) fn update(&mut self) -> Result<bool> {
        let begin = Instant::now();
        let options = self.run.options;
        let Updated { batch, stats, grad_norm: norm, rate } =
            match self.at.state.update(self.model, options, &mut self.scratch) {
                Err(error) if is_numeric(&error) => {
                    return self.lost(self.batch(), None, &described(&error)).map(|()| false);
                }
                other => other?,
            };
        let Some(rate) = rate else {
            let got = format!("loss {}, gradient norm {norm}", stats.loss);
            return self.lost(batch, stats.bad_sample, &got).map(|()| false);
        };
        self.report(&stats, norm, begin.elapsed().as_secs_f64());
        if self.due(options.log_every) {
            self.log(norm, rate)?;
        }
        Ok(true)
    }

    /// True every `interval` updates (0: never) and at the end.
    fn due(&self, interval: u64) -> bool {
        let step = self.step();
        step == self.run.options.steps || (interval > 0 && step.is_multiple_of(interval))
    }

    fn report(&mut self, stats: &StepStats, grad_norm: f64, seconds: f64) {
        let now = stats.samples as f64 / seconds.max(1e-9);
        let clock = &mut self.clock;
        let samples_per_s = clock.samples_per_s.map_or(now, |before| 0.95 * before + 0.05 * now);
        clock.samples_per_s = Some(samples_per_s);
        let (step, steps) = (self.at.state.counters.step, self.run.options.steps);
        let done = step.saturating_sub(clock.first_step).max(1);
        let seconds_left = clock.start.elapsed().as_secs_f64() / done as f64 * (steps - step) as f64;
        let loss = stats.loss;
        self.observer.progress(&Progress { step, steps, loss, grad_norm, samples_per_s, seconds_left });
    }

    /// The mean loss since the last line, and the last norm and learning rate.
    fn log(&mut self, norm: f64, rate: f64) -> Result<()> {
        let (step, seconds) = (self.step(), self.seconds());
        let counters = &mut self.at.state.counters;
        let loss = f64::from_bits(counters.window_loss) / counters.window_steps as f64;
        (counters.window_loss, counters.window_steps) = (0, 0);
        self.metrics.write(
            step,
            counters.samples,
            seconds,
            &[("loss", loss), ("grad_norm", norm), ("lr", rate)],
        )?;
        self.events.scalars(step, &[("train/loss", loss), ("train/grad_norm", norm), ("train/lr", rate)])
    }

    /// Evaluates the weights of this step; returns false if its numbers were lost and the run rolled back instead.
    pub(super) fn evaluate_if_due(&mut self) -> Result<bool> {
        if !self.due(self.run.options.eval_every) {
            return Ok(true);
        }
        let (step, samples) = (self.step(), self.at.state.counters.samples);
        self.observer.event(&TrainEvent::Evaluating { step });
        let finite = check_finite("parameters", &self.at.state.params)
            .and_then(|()| check_finite("running average", &self.at.state.ema));
        let metrics = match finite.and_then(|()| self.model.evaluate(self.at.state.weights())) {
            // The last update did it.
            Err(error) if is_numeric(&error) => {
                return self.lost(self.batch() - 1, None, &described(&error)).map(|()| false);
            }
            other => other?,
        };
        let names: Vec<String> = metrics.iter().map(|(name, _)| format!("eval/{name}")).collect();
        let values: Vec<(&str, f64)> =
            names.iter().zip(&metrics).map(|(name, (_, value))| (name.as_str(), *value)).collect();
        self.metrics.write(step, samples, self.seconds(), &values)?;
        self.events.scalars(step, &values)?;
        self.at.history.push_str(&metrics::line(step, samples, None, &values));
        let best = self.is_best(&metrics)?;
        if best {
            self.export(&self.dir.best())?;
        }
        self.observer.event(&TrainEvent::Evaluated { step, metrics: &metrics, best });
        Ok(true)
    }

    /// Compares with the best value so far and updates it.
    fn is_best(&mut self, metrics: &[(String, f64)]) -> Result<bool> {
        let value = match &self.run.options.best_metric {
            None => metrics.first().map_or(f64::NAN, |(_, value)| *value),
            Some(name) => {
                metrics.iter().find(|(n, _)| n == name).map(|(_, value)| *value).ok_or_else(|| {
                    let names: Vec<&str> = metrics.iter().map(|(n, _)| n.as_str()).collect();
                    let want = format!("one of {}", names.join(", "));
                    Error::new(
                        ErrorKind::Unsupported,
                        "metric of the best weights",
                        want,
                        format!("`{name}`"),
                    )
                })?
            }
        };
        let counters = &mut self.at.state.counters;
        let before = counters.best.map_or(f64::NEG_INFINITY, f64::from_bits);
        let best = value > before;
        if best {
            counters.best = Some(value.to_bits());
        }
        Ok(best)
    }

    pub(super) fn save_if_due(&mut self) -> Result<()> {
        let options = self.run.options;
        let minutes = self.clock.last_save.elapsed().as_secs_f64() / 60.0;
        let by_time = options.checkpoint_minutes > 0.0 && minutes >= options.checkpoint_minutes;
        if by_time || self.due(options.checkpoint_every) {
            self.save()?;
        }
        Ok(())
    }

    /// Writes the checkpoint of this step, unless it exists, and removes the oldest.
    pub(super) fn save(&mut self) -> Result<PathBuf> {
        let (step, path) = (self.step(), self.dir.checkpoint(self.step()));
        if self.saved != Some(step) {
            self.at.state.counters.elapsed_seconds = self.seconds();
            self.at.save(&path, self.model.layout())?;
            self.saved = Some(step);
            self.clock.last_save = Instant::now();
            self.dir.prune(self.run.options.keep)?;
            self.observer.event(&TrainEvent::CheckpointWritten { step, path: &path });
        }
        Ok(path)
    }

    /// Writes the final weights.
    pub(super) fn finish(&mut self) -> Result<PathBuf> {
        let path = self.dir.last();
        self.export(&path)?;
        Ok(path)
    }

    /// Writes the running average, or the uniform mean, as weights, with the record of the training up to here.
    fn export(&self, path: &Path) -> Result<()> {
        let record = self.at.state.counters.record(&self.at.history);
        let about = WeightsMeta { task: self.at.task.clone(), config: self.at.config.clone(), record };
        save_weights(path, self.model.layout(), self.at.state.weights(), &about, Precision::F32)
    }

    /// Handles numbers that are lost, wherever they were lost: a loss or gradient that is not finite, a penalty that
    /// has become 0, a factorisation that fails. Stops with an error, or returns to the last good checkpoint.
    fn lost(&mut self, batch: u64, sample: Option<u64>, got: &dyn std::fmt::Display) -> Result<()> {
        let (from, options) = (self.step(), self.run.options);
        let (to, path) = self.good_checkpoint(from)?;
        let count = self.at.state.counters.rollbacks + 1;
        if options.on_nan == OnNan::Stop || count > options.max_rollbacks {
            let sample = sample.map_or(String::new(), |s| format!(", sample {s}"));
            let place = format!("step {from} (batch {batch}{sample})");
            let good = format!("the last good checkpoint is {}", path.display());
            return Err(Error::new(ErrorKind::NotFinite, place, "a finite loss and gradient", got).hint(
                match options.on_nan {
                    OnNan::Stop => format!(
                        "{good}; --resume --on-nan rollback returns to it and leaves the bad batch out"
                    ),
                    OnNan::Rollback => {
                        format!("{good}; {} rollbacks did not help: try a lower learning rate", count - 1)
                    }
                },
            ));
        }
        let best = self.at.state.counters.best;
        self.at = Checkpoint::load(&path, self.model.layout())?;
        self.at.config = self.run.config.into();
        let counters = &mut self.at.state.counters;
        counters.skipped = batch + 1 - to;
        counters.rollbacks = count;
        counters.best = best; // `best.safetensors` is not undone
        let sample_text = sample.map_or("null".into(), |s| s.to_string());
        self.at.history.push_str(&format!(
            "{{\"step\":{to},\"rollback_from\":{from},\"batch\":{batch},\"sample\":{sample_text}}}\n"
        ));
        // In this order, a kill at any point leaves a run that can resume: after this rollback, or by repeating it.
        self.saved = None;
        self.save()?;
        self.dir.remove_after(to)?;
        self.metrics = MetricsWriter::open(&self.dir.metrics(), to)?;
        self.events.restart(to)?;
        self.observer.event(&TrainEvent::RolledBack { from, to, batch, sample, count });
        Ok(())
    }

    /// The newest checkpoint before update `step`; one at this step only if there is no other.
    fn good_checkpoint(&self, step: u64) -> Result<(u64, PathBuf)> {
        let mut found = self.dir.checkpoints()?;
        found.retain(|(s, _)| *s <= step);
        let older = found.iter().rposition(|(s, _)| *s < step);
        older.or(found.len().checked_sub(1)).map(|k| found.swap_remove(k)).ok_or_else(|| {
            let place = self.dir.root().display().to_string();
            Error::new(ErrorKind::Io, place, "a checkpoint to return to", "none: they were removed")
        })
    }
}

/// Whether an error says that numbers were lost, rather than that something was asked for wrongly.
fn is_numeric(error: &Error) -> bool {
    use ErrorKind::{Infeasible, NotFinite, NotPositive, NotPositiveDefinite, SolverFailed};
    matches!(error.kind(), NotFinite | NotPositive | NotPositiveDefinite | Infeasible | SolverFailed)
}

/// An error without its hint, which would not fit what the run does next.
fn described(error: &Error) -> String {
    format!("{}: expected {}, got {}", error.place(), error.expected(), error.got())
}
