//! Events of a run, for a progress bar, a log or a test; `()` ignores them.

use std::path::{Path, PathBuf};

/// Observes a run.
pub trait TrainObserver {
    /// Called after every update.
    fn progress(&mut self, _progress: &Progress) {}
    /// Called on events that do not occur at every update.
    fn event(&mut self, _event: &TrainEvent<'_>) {}
}

impl TrainObserver for () {}

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Updates made.
    pub step: u64,
    /// Total updates of the run.
    pub steps: u64,
    /// Loss of the last batch.
    pub loss: f64,
    /// Norm of its gradient before clipping.
    pub grad_norm: f64,
    /// Samples per second over the last updates, without evaluation and saving.
    pub samples_per_s: f64,
    /// Estimated seconds left at the pace of this session.
    pub seconds_left: f64,
}

/// An event that does not occur at every step.
#[derive(Clone, Debug, PartialEq)]
pub enum TrainEvent<'a> {
    /// The run starts, or resumes after `step` updates.
    Started {
        /// Updates already made.
        step: u64,
    },
    /// A stage of a recipe starts, or resumes.
    Stage {
        /// Its name.
        name: &'a str,
        /// Its number, from 1.
        number: usize,
        /// The number of stages.
        count: usize,
        /// Updates of the stage.
        steps: u64,
    },
    /// Something a user should know, such as a damaged checkpoint that was passed over.
    Note {
        /// What happened.
        text: &'a str,
    },
    /// An evaluation starts.
    Evaluating {
        /// Updates made.
        step: u64,
    },
    /// The running average was evaluated.
    Evaluated {
        /// Updates made.
        step: u64,
        /// Names and values.
        metrics: &'a [(String, f64)],
        /// These are the best weights so far, and have been written.
        best: bool,
    },
    /// A checkpoint has been written.
    CheckpointWritten {
        /// Updates made.
        step: u64,
        /// The file.
        path: &'a Path,
    },
    /// The run returned to an earlier checkpoint.
    RolledBack {
        /// Updates made when the loss or gradient was not finite.
        from: u64,
        /// Updates made at the checkpoint.
        to: u64,
        /// The bad batch; it and all batches since the checkpoint are skipped.
        batch: u64,
        /// The first bad sample, if the model identified it.
        sample: Option<u64>,
        /// Rollbacks so far.
        count: u32,
    },
}

/// How a run ended, if not with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All updates were made.
    Finished {
        /// The weights: the running average after the last update.
        weights: PathBuf,
    },
    /// The stop flag was set; the run can resume from the checkpoint.
    Interrupted {
        /// Updates made.
        step: u64,
        /// The file.
        checkpoint: PathBuf,
    },
}
