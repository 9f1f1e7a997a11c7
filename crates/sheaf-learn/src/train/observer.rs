//! What a run tells while it goes: a progress bar, a log or a test listens; `()` hears nothing.

use std::path::{Path, PathBuf};

/// Listens to a run.
pub trait TrainObserver {
    /// After every update.
    fn progress(&mut self, _progress: &Progress) {}
    /// Now and then.
    fn event(&mut self, _event: &TrainEvent<'_>) {}
}

impl TrainObserver for () {}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Updates made.
    pub step: u64,
    /// Updates to make.
    pub steps: u64,
    /// Loss of the last batch.
    pub loss: f64,
    /// Length of its gradient before clipping.
    pub grad_norm: f64,
    /// Samples per second over the last updates, without evaluation and saving.
    pub samples_per_s: f64,
    /// Seconds left at the pace of this session.
    pub seconds_left: f64,
}

/// Something that does not happen at every step.
#[derive(Clone, Debug, PartialEq)]
pub enum TrainEvent<'a> {
    /// The run begins or resumes after `step` updates.
    Started {
        /// Updates already made.
        step: u64,
    },
    /// An evaluation begins.
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
    /// A checkpoint is on the disk.
    CheckpointWritten {
        /// Updates made.
        step: u64,
        /// The file.
        path: &'a Path,
    },
    /// The run went back to an earlier checkpoint.
    RolledBack {
        /// Updates made when the number was lost.
        from: u64,
        /// Updates made at the checkpoint.
        to: u64,
        /// The batch that is now left out, and all between the checkpoint and it.
        batch: u64,
        /// The first bad sample, if the model could name it.
        sample: Option<u64>,
        /// Rollbacks so far.
        count: u32,
    },
}

/// How a run ended, when it did not end in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All updates were made.
    Finished {
        /// The weights: the running average after the last update.
        weights: PathBuf,
    },
    /// The stop flag was raised; the checkpoint resumes from here.
    Interrupted {
        /// Updates made.
        step: u64,
        /// The file.
        checkpoint: PathBuf,
    },
}
