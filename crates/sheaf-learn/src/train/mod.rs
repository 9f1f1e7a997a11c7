//! Training: from a gradient to a run that can be killed and resumed reproducibly.
//!
//! ```text
//! g = grad of the mean loss of batch t          Trainable::loss_and_grad
//! g ← g · max / ‖g‖     where ‖g‖ ≥ max         clip
//! p ← p − lr(t) (m̂ / (sqrt(v̂) + eps) + wd p)    schedule, adamw
//! e ← decay e + (1 − decay) p                   ema: the weights used at evaluation
//! ```
//!
//! All vectors are flat and share one [`ParamLayout`]. The update is four plain loops on the calling thread: even for
//! two million parameters it takes a few milliseconds, compared to seconds for the gradient, so threads would gain
//! nothing, and the result is bit-identical for any number of threads.

pub mod adamw;
pub mod checkpoint;
pub mod clip;
pub mod ema;
pub mod file;
mod lock;
pub mod loss;
pub mod metrics;
pub mod muon;
pub mod observer;
pub mod options;
pub mod origin;
pub mod provenance;
pub mod ranks;
pub mod run_dir;
mod same_config;
pub mod schedule;
mod session;
pub mod stages;
pub mod tensorboard;
pub mod tensors;
#[cfg(test)]
mod test_dir;
pub mod trainer;
pub mod update;
pub mod weights;

pub use adamw::AdamW;
pub use checkpoint::{Checkpoint, CheckpointFile, Counters, TrainState};
pub use clip::{clip_global_norm, global_norm};
pub use ema::ema_update;
pub use lock::RunLock;
pub use muon::Muon;
pub use observer::{Outcome, Progress, TrainEvent, TrainObserver};
pub use options::{MeanOf, OnNan, TrainOptions};
pub use origin::{Origin, StageOf};
pub use provenance::{Provenance, RunRecord};
pub use run_dir::RunDir;
pub use schedule::{Decay, Schedule};
pub use stages::{Plan, Prepared, train_stages};
pub use tensors::{Precision, TensorFile};
pub use trainer::{Init, Run, check_resume, train};
pub use update::{UpdateScratch, Updated};
pub use weights::{WeightsFile, WeightsMeta, encode_weights, save_weights};

use std::sync::Arc;

use crate::params::ParamLayout;
use sheaf_admm::Result;
use sheaf_admm::share::Comm;

/// What the trainer needs from a model and its data.
///
/// Batches, iteration counts and noise are functions of `(seed, step)` alone, so a resumed run sees exactly what an
/// uninterrupted one would have seen.
pub trait Trainable {
    /// Names and shapes of the parameters.
    fn layout(&self) -> &ParamLayout;

    /// The initial parameters of a run with this seed.
    fn initial(&self, seed: u64) -> Vec<f32>;

    /// Overwrites `grad` with the gradient of the mean loss of step `step`'s batch.
    fn loss_and_grad(
        &mut self,
        params: &[f32], // [layout.len()]
        seed: u64,
        step: u64,
        grad: &mut [f32], // [layout.len()]
    ) -> Result<StepStats>;

    /// Metrics of `params` (the running average) on held-out data; names like `solved`.
    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>>;

    /// Shares every batch with other ranks, which call [`loss_and_grad`](Self::loss_and_grad) with the same arguments: rank
    /// 0 gets the whole gradient, with the bits of one process. Returns whether the model can.
    fn share_batches(&mut self, comm: Arc<dyn Comm>) -> bool {
        let _ = comm;
        false
    }

    /// The name of the held-out samples that [`evaluate`](Self::evaluate) reads: `test` or `validation`.
    fn split(&self) -> &str {
        "test"
    }

    /// Converts a configuration of an earlier version to the current form: new keys have their defaults, renamed keys
    /// their current names. A resumed run compares configurations in this form. `place` names the configuration in
    /// errors.
    fn present_config(&self, _place: &str, config: &str) -> Result<String> {
        Ok(config.to_string())
    }
}

/// Statistics of one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepStats {
    /// The mean loss of the batch.
    pub loss: f64,
    /// Number of samples.
    pub samples: usize,
    /// The first sample with a non-finite loss or gradient, if any: its index in the training set.
    pub bad_sample: Option<u64>,
}
