//! Configuration: TOML → raw sections → checked options.
//!
//! A section is raw: it holds the values of the file, unchecked. `TrainSection::options` converts it to checked types;
//! an error names the offending key.

pub mod nearest;
pub mod stages;
pub mod strict;
mod words;

pub use nearest::nearest;
pub use stages::{Recipe, Stage, recipe};
pub use strict::StrictConfig;
pub use words::in_words;

use crate::limits::{MAX_BATCH, MAX_ITERATIONS, at_most};
use crate::train::{AdamW, Decay, MeanOf, Muon, OnNan, Schedule, TrainOptions};
use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Precision, Result};

/// Keys that a resumed run may change: they control when to save and how to handle non-finite losses or gradients.
/// They do not change a run without non-finite values.
pub const RESUME_MAY_CHANGE: &[&str] = &[
    "train.checkpoint_every",
    "train.checkpoint_minutes",
    "train.keep_checkpoints",
    "train.max_rollbacks",
    "train.on_nan",
];

/// Keys that a resumed run with this configuration may change. Where nothing before the last step depends on the number
/// of steps (no decay of the rate, no mean of the last checkpoints), a run can be made longer or shorter: it ends in the
/// bits of a run that was started so.
pub fn resume_may_change(config: &str) -> Vec<&'static str> {
    let config: toml::Table = config.parse().unwrap_or_default();
    let of = |key: &str| config.get("train").and_then(|train| train.get(key));
    let constant = of("decay").is_none_or(|decay| decay.as_str() == Some("none"));
    let no_mean = of("average_last").is_none_or(|count| count.as_integer() == Some(0));
    let steps: &[&str] = if constant && no_mean { &["train.steps"] } else { &[] };
    [RESUME_MAY_CHANGE, steps].concat()
}

/// The choice of that name.
pub fn word<C: Copy>(place: &str, got: &str, choices: &[(&str, C)]) -> Result<C> {
    choices.iter().find(|(name, _)| *name == got).map(|&(_, choice)| choice).ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        Error::new(ErrorKind::Malformed, place, names.join(" or "), format_args!("\"{got}\""))
    })
}

/// What the learning rate does after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecayKind {
    /// It stays constant.
    #[default]
    None,
    /// A straight line to `decay_floor` at the last step.
    Linear,
    /// Half a cosine to `decay_floor` at the last step.
    Cosine,
}

/// The reaction to a loss or gradient that is not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnNanKind {
    /// The run stops with an error.
    #[default]
    Stop,
    /// The run returns to the last good checkpoint and skips the bad batch.
    Rollback,
}

/// The rule that updates parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OptimiserKind {
    /// AdamW, for all of them.
    #[default]
    AdamW,
    /// Muon for matrices, AdamW for everything else.
    Muon,
}

/// Precision of the operands of matrix products; sums are always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrecisionKind {
    /// As they are.
    #[default]
    F32,
    /// Rounded to bfloat16.
    Bf16,
}

impl From<PrecisionKind> for Precision {
    fn from(kind: PrecisionKind) -> Self {
        match kind {
            PrecisionKind::F32 => Self::Full,
            PrecisionKind::Bf16 => Self::Bf16,
        }
    }
}

/// The `[train]` section of an experiment. The defaults are those of the published Maze run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrainSection {
    /// Number of updates.
    pub steps: u64,
    /// Samples per batch.
    pub batch: usize,
    /// The rule that updates parameters: `adamw` or `muon`.
    pub optimiser: OptimiserKind,
    /// Learning rate after the warm-up.
    pub learning_rate: f64,
    /// Weight decay per unit of learning rate.
    pub weight_decay: f64,
    /// Added to the root of AdamW's second moment. Gradients well below it move the parameters the less, the smaller they
    /// are, instead of as far as large ones.
    pub epsilon: f64,
    /// Standard deviation of normal noise on the parameters at which a step takes its gradient, in units of the root mean
    /// square of each tensor; 0 for none. What is learned then does not hang on exact values.
    pub noise: f64,
    /// Updates over which the learning rate rises from 0.
    pub warmup: u64,
    /// What it does after that.
    pub decay: DecayKind,
    /// The learning rate at the last step, if it decays.
    pub decay_floor: f64,
    /// Maximum gradient norm; 0 for no limit.
    pub clip: f64,
    /// Decay of the running average of the parameters.
    pub ema: f64,
    /// The weights are the uniform mean of this many checkpoints' parameters, the last at the end of the run, instead of
    /// the running average; 0 takes the running average.
    pub average_last: u64,
    /// Updates between these checkpoints; 0 takes `checkpoint_every`.
    pub average_every: u64,
    /// Number of final iterates that enter the loss.
    pub loss_window: usize,
    /// Precision of the products, in training and wherever the weights are used: `f32` or `bf16`.
    pub precision: PrecisionKind,
    /// Weights that the run starts from instead of random ones: a file, or `builtin:TASK`. Later stages start from the
    /// one before.
    pub init: String,
    /// Seed of the initial parameters, batches and noise.
    pub seed: u64,
    /// Updates between evaluations; 0 evaluates only at the end.
    pub eval_every: u64,
    /// Updates between checkpoints; 0 saves only by time and at the end.
    pub checkpoint_every: u64,
    /// Minutes between checkpoints; 0 saves only by updates and at the end.
    pub checkpoint_minutes: f64,
    /// Updates between lines of metrics.
    pub log_every: u64,
    /// Checkpoints kept.
    pub keep_checkpoints: usize,
    /// The metric that selects the best weights (larger is better); empty takes the first.
    pub best_metric: String,
    /// The reaction to a loss or gradient that is not finite.
    pub on_nan: OnNanKind,
    /// Rollbacks before the run gives up.
    pub max_rollbacks: u32,
}

impl Default for TrainSection {
    fn default() -> Self {
        Self {
            steps: 31_250,
            batch: 128,
            optimiser: OptimiserKind::AdamW,
            learning_rate: 3e-4,
            weight_decay: 1e-6,
            epsilon: 1e-8,
            noise: 0.0,
            warmup: 200,
            decay: DecayKind::None,
            decay_floor: 0.0,
            clip: 1.0,
            ema: 0.999,
            average_last: 0,
            average_every: 0,
            loss_window: 4,
            precision: PrecisionKind::F32,
            init: String::new(),
            seed: 42,
            eval_every: 1000,
            checkpoint_every: 1000,
            checkpoint_minutes: 10.0,
            log_every: 50,
            keep_checkpoints: 3,
            best_metric: String::new(),
            on_nan: OnNanKind::Stop,
            max_rollbacks: 5,
        }
    }
}

impl StrictConfig for TrainSection {}

impl TrainSection {
    /// The checked options of the trainer; errors name the key as written in the file.
    pub fn options(&self) -> Result<TrainOptions> {
        self.check()?;
        let (end, floor) = (self.steps, self.decay_floor);
        let decay = match self.decay {
            DecayKind::None => Decay::None,
            DecayKind::Linear => Decay::Linear { end, floor },
            DecayKind::Cosine => Decay::Cosine { end, floor },
        };
        let options = TrainOptions {
            steps: self.steps,
            schedule: Schedule { peak: self.learning_rate, warmup: self.warmup, decay },
            adamw: AdamW { weight_decay: self.weight_decay, eps: self.epsilon, ..AdamW::default() },
            muon: match self.optimiser {
                OptimiserKind::AdamW => None,
                OptimiserKind::Muon => Some(Muon { weight_decay: self.weight_decay, ..Muon::default() }),
            },
            clip: (self.clip > 0.0).then_some(self.clip),
            ema: self.ema,
            mean: self.mean(),
            eval_every: self.eval_every,
            checkpoint_every: self.checkpoint_every,
            checkpoint_minutes: self.checkpoint_minutes,
            log_every: self.log_every,
            keep: self.keep_checkpoints,
            best_metric: (!self.best_metric.is_empty()).then(|| self.best_metric.clone()),
            on_nan: match self.on_nan {
                OnNanKind::Stop => OnNan::Stop,
                OnNanKind::Rollback => OnNan::Rollback,
            },
            max_rollbacks: self.max_rollbacks,
        };
        options.check()?;
        Ok(options)
    }

    fn mean(&self) -> Option<MeanOf> {
        let every = if self.average_every == 0 { self.checkpoint_every } else { self.average_every };
        (self.average_last > 0).then_some(MeanOf { members: self.average_last, every })
    }

    fn check(&self) -> Result<()> {
        positive("steps", self.steps)?;
        if self.average_last == 0 && self.average_every > 0 {
            let want = "0 where no mean is taken (train.average_last = 0)";
            return Err(Error::new(ErrorKind::Malformed, "train.average_every", want, self.average_every)
                .hint("set train.average_last to the number of checkpoints"));
        }
        positive("batch", self.batch as u64)?;
        at_most("train.batch", "samples", MAX_BATCH, self.batch)?;
        positive("loss_window", self.loss_window as u64)?;
        at_most("train.loss_window", "iterations", MAX_ITERATIONS, self.loss_window)?;
        positive("log_every", self.log_every)?;
        positive("keep_checkpoints", self.keep_checkpoints as u64)?;
        holds("learning_rate", self.learning_rate > 0.0, "a number above 0", self.learning_rate)?;
        holds("weight_decay", self.weight_decay >= 0.0, "a number ≥ 0", self.weight_decay)?;
        holds("epsilon", self.epsilon > 0.0, "a number above 0", self.epsilon)?;
        holds("noise", (0.0..1.0).contains(&self.noise), "0 ≤ noise < 1", self.noise)?;
        holds("clip", self.clip >= 0.0, "a number above 0, or 0 for no limit", self.clip)?;
        holds("ema", (0.0..1.0).contains(&self.ema), "0 ≤ ema < 1", self.ema)?;
        holds("checkpoint_minutes", self.checkpoint_minutes >= 0.0, "a number ≥ 0", self.checkpoint_minutes)?;
        if self.decay != DecayKind::None {
            let inside = (0.0..=self.learning_rate).contains(&self.decay_floor);
            holds("decay_floor", inside, "a number between 0 and learning_rate", self.decay_floor)?;
            if self.warmup >= self.steps {
                let want = format!("fewer than the {} steps, so that something is left to decay", self.steps);
                return Err(Error::new(ErrorKind::OutOfRange, "train.warmup", want, self.warmup));
            }
        }
        if i64::try_from(self.seed).is_err() {
            let want = format!("at most {}, the largest integer of TOML", i64::MAX);
            return Err(Error::new(ErrorKind::OutOfRange, "train.seed", want, self.seed));
        }
        Ok(())
    }
}

fn positive(key: &str, value: u64) -> Result<()> {
    if value > 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotPositive, format!("train.{key}"), "1 or more", value))
}

fn holds(key: &str, condition: bool, expected: &str, value: f64) -> Result<()> {
    if condition && value.is_finite() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::OutOfRange, format!("train.{key}"), expected, value))
}
