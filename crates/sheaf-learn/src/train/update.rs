//! One update of the parameters, shared by the trainer and `sheaf bench train`.

use super::checkpoint::TrainState;
use super::clip::{clip_global_norm, global_norm};
use super::ema::ema_update;
use super::muon::{Muon, MuonScratch};
use super::options::TrainOptions;
use super::{StepStats, Trainable};
use sheaf_admm::Result;

/// The outcome of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Updated {
    /// The batch it used.
    pub batch: u64,
    /// Loss and number of samples.
    pub stats: StepStats,
    /// Norm of the gradient before clipping.
    pub grad_norm: f64,
    /// The learning rate; `None` if the loss or the gradient was not finite and nothing was updated.
    pub rate: Option<f64>,
}

/// Buffers of an update.
#[derive(Clone, Debug, Default)]
pub struct UpdateScratch {
    grad: Vec<f32>, // [n]
    muon: MuonScratch,
}

impl TrainState {
    /// Gradient, clipping, AdamW or Muon, running average, uniform mean. If the loss or the gradient is not finite, the state is
    /// unchanged.
    pub fn update(
        &mut self,
        model: &mut (impl Trainable + ?Sized),
        options: &TrainOptions,
        scratch: &mut UpdateScratch,
    ) -> Result<Updated> {
        let Self { params, ema, adam_m, adam_v, mean, counters } = self;
        let UpdateScratch { grad, muon: muon_scratch } = scratch;
        grad.resize(params.len(), 0.0);
        let batch = counters.step + counters.skipped;
        let stats = model.loss_and_grad(params, counters.seed, batch, grad)?;
        let grad_norm = match options.clip {
            Some(max) => clip_global_norm(max, grad),
            None => global_norm(grad),
        };
        if !(stats.loss.is_finite() && grad_norm.is_finite() && stats.bad_sample.is_none()) {
            return Ok(Updated { batch, stats, grad_norm, rate: None });
        }
        let rate = options.schedule.at(counters.step);
        let t = counters.step + 1;
        match &options.muon {
            None => options.adamw.update(rate, t, grad, params, adam_m, adam_v)?,
            Some(muon) => {
                for entry in model.layout().entries() {
                    let of = entry.range.clone();
                    let (g, p, m) = (&grad[of.clone()], &mut params[of.clone()], &mut adam_m[of.clone()]);
                    match Muon::matrices(entry) {
                        Some(shape) => muon.update(rate, shape, g, p, m, muon_scratch)?,
                        None => options.adamw.update(rate, t, g, p, m, &mut adam_v[of])?,
                    }
                }
            }
        }
        ema_update(options.ema, params, ema)?;
        counters.step += 1;
        if options.mean.is_some_and(|of| of.has(counters.step, options.steps)) {
            counters.mean_members += 1;
            add_member(mean, params, counters.mean_members);
        }
        counters.samples += stats.samples as u64;
        counters.window_loss = (f64::from_bits(counters.window_loss) + stats.loss).to_bits();
        counters.window_steps += 1;
        Ok(Updated { batch, stats, grad_norm, rate: Some(rate) })
    }
}

/// Adds member number `count` (from 1) to a uniform mean: m ← m + (p − m) / count.
fn add_member(mean: &mut Vec<f32>, params: &[f32], count: u64) {
    if count == 1 {
        mean.clear();
        mean.extend_from_slice(params);
        return;
    }
    let share = 1.0 / count as f32;
    mean.iter_mut().zip(params).for_each(|(m, p)| *m += share * (p - *m));
}
