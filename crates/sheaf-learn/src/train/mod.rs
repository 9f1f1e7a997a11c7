//! Training: from a gradient to a run that can be killed, resumed and trusted.
//!
//! ```text
//! g = grad of the mean loss of batch t          Trainable::loss_and_grad
//! g ← g · max / ‖g‖     where ‖g‖ ≥ max         clip
//! p ← p − lr(t) (m̂ / (sqrt(v̂) + eps) + wd p)    schedule, adamw
//! e ← decay e + (1 − decay) p                   ema: the weights used at evaluation
//! ```
//!
//! All vectors are flat and share one [`ParamLayout`]. The update is four plain loops on the calling thread: even
//! for two million parameters it takes a few milliseconds beside seconds of gradient, so there is nothing to gain
//! from threads, and the result is the same bits whatever their number.

pub mod adamw;
pub mod checkpoint;
pub mod clip;
pub mod ema;
pub mod file;
pub mod loss;
pub mod metrics;
pub mod observer;
pub mod options;
pub mod run_dir;
pub mod schedule;
mod session;
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
pub use observer::{Outcome, Progress, TrainEvent, TrainObserver};
pub use options::{OnNan, TrainOptions};
pub use run_dir::RunDir;
pub use schedule::{Decay, Schedule};
pub use tensors::{Precision, TensorFile};
pub use trainer::{Init, Run, train};
pub use update::Updated;
pub use weights::{WeightsFile, WeightsMeta, encode_weights, save_weights};

use crate::params::ParamLayout;
use sheaf_admm::Result;

/// What the trainer needs of a model and its data.
///
/// Batches, iteration counts and noise are functions of `(seed, step)` alone, so that a resumed run meets exactly
/// what an uninterrupted one would have met.
pub trait Trainable {
    /// Names and shapes of the parameters.
    fn layout(&self) -> &ParamLayout;

    /// The parameters a run with this seed starts from.
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

    /// A configuration that an earlier version wrote, in today's form: keys that are new since have their defaults, keys
    /// that were renamed have their present names. A resumed run compares configurations in this form. Errors call the
    /// configuration `place`.
    fn present_config(&self, _place: &str, config: &str) -> Result<String> {
        Ok(config.to_string())
    }
}

/// What one batch told about itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepStats {
    /// The mean loss of the batch.
    pub loss: f64,
    /// How many samples it had.
    pub samples: usize,
    /// The first sample with a non-finite loss or gradient, if any: its index in the training set.
    pub bad_sample: Option<u64>,
}
