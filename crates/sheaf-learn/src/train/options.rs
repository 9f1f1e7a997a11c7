//! Options of a run: length, learning rate, evaluation and checkpoint intervals, and the reaction to non-finite values.

use super::adamw::AdamW;
use super::muon::Muon;
use super::schedule::Schedule;
use sheaf_admm::error::check_positive;
use sheaf_admm::{Error, ErrorKind, Result};

/// The reaction to a loss or gradient that is not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNan {
    /// The run stops with an error that names the step, the sample and the last good checkpoint.
    #[default]
    Stop,
    /// The run returns to the last good checkpoint and continues with the batches after the bad one.
    Rollback,
}

/// Which parameters a uniform mean has as its members: those after updates steps, steps − every, steps − 2·every, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeanOf {
    /// Number of members.
    pub members: u64,
    /// Updates between members.
    pub every: u64,
}

impl MeanOf {
    /// Whether the parameters after update `step` of `steps` are a member.
    pub fn has(&self, step: u64, steps: u64) -> bool {
        let left = steps.saturating_sub(step);
        step <= steps && left.is_multiple_of(self.every) && left / self.every < self.members
    }
}

/// The checked options of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOptions {
    /// Number of updates.
    pub steps: u64,
    /// Learning rate of each update.
    pub schedule: Schedule,
    /// The update rule.
    pub adamw: AdamW,
    /// The rule of matrices, if it is another one.
    pub muon: Option<Muon>,
    /// Maximum gradient norm; `None` for no clipping.
    pub clip: Option<f64>,
    /// Decay of the running average.
    pub ema: f64,
    /// The weights are the uniform mean of the parameters after so many updates, counted back from the last one; `None`
    /// takes the running average.
    pub mean: Option<MeanOf>,
    /// Updates between evaluations; 0 evaluates only at the end.
    pub eval_every: u64,
    /// Updates between checkpoints; 0 saves only by time and at the end.
    pub checkpoint_every: u64,
    /// Minutes between checkpoints; 0 saves only by updates and at the end.
    pub checkpoint_minutes: f64,
    /// Updates between lines of metrics.
    pub log_every: u64,
    /// Number of newest checkpoints kept. Two or more allow a rollback past a checkpoint that is itself bad.
    pub keep: usize,
    /// The metric that selects the best weights (larger is better); `None` takes the first one evaluated.
    pub best_metric: Option<String>,
    /// The reaction to a loss or gradient that is not finite.
    pub on_nan: OnNan,
    /// Rollbacks before the run gives up.
    pub max_rollbacks: u32,
}

impl TrainOptions {
    /// Checks that the values are valid.
    pub fn check(&self) -> Result<()> {
        self.schedule.check()?;
        self.adamw.check()?;
        self.muon.map_or(Ok(()), |muon| muon.check())?;
        self.clip.map_or(Ok(()), |max| check_positive("clip", max))?;
        for (place, value) in
            [("steps", self.steps), ("log_every", self.log_every), ("keep", self.keep as u64)]
        {
            if value == 0 {
                return Err(Error::new(ErrorKind::NotPositive, place, "1 or more", value));
            }
        }
        if !(0.0..1.0).contains(&self.ema) {
            return Err(Error::new(ErrorKind::OutOfRange, "ema", "0 ≤ decay < 1", self.ema));
        }
        if let Some(MeanOf { members, every }) = self.mean
            && (every == 0 || members == 0 || (members - 1).saturating_mul(every) >= self.steps)
        {
            let want =
                format!("members within the {} steps of the run, one or more updates apart", self.steps);
            let got = format!("{members} of them, {every} updates apart");
            return Err(Error::new(ErrorKind::OutOfRange, "mean of parameters", want, got));
        }
        if !(self.checkpoint_minutes.is_finite() && self.checkpoint_minutes >= 0.0) {
            let got = self.checkpoint_minutes;
            return Err(Error::new(ErrorKind::OutOfRange, "checkpoint_minutes", "a finite number ≥ 0", got));
        }
        Ok(())
    }
}
