//! A run of an experiment, as the trainer takes it; and single updates for benchmarks.

use std::sync::Arc;

use sheaf_admm::share::Comm;
use sheaf_admm::{Error, ErrorKind, Result};

use super::{BoardOf, Epochs, Experiment, Loaded, ModelOf, Task};
use crate::config::strict;
use crate::limits::{check_memory, product};
use crate::model::Batch;
use crate::params::ParamLayout;
use crate::rng::Stream;
use crate::train::{StepStats, TrainOptions, TrainState, Trainable, UpdateScratch, Updated};

/// Model, data and buffers of a run.
#[derive(Debug)]
pub struct Training<K: Task> {
    experiment: Experiment<K>,
    model: ModelOf<K>,
    board: BoardOf<K>,
    data: Loaded<K::Set>,
    batch: Batch<f32, K::Encoder, K::Decoder>,
    samples: K::Set,
    chosen: Vec<u32>, // training samples of the batch, before variants
    noisy: Vec<f32>,  // parameters with noise, if there is any
    epochs: Epochs,
    order_stream: String,
}

impl<K: Task> Training<K> {
    /// Checks the experiment and generates or reads its samples.
    pub fn new(experiment: Experiment<K>) -> Result<Self> {
        experiment.check()?;
        let data = K::load(&experiment)?;
        Self::with_data(experiment, data)
    }

    /// The same with given samples.
    pub fn with_data(experiment: Experiment<K>, data: Loaded<K::Set>) -> Result<Self> {
        experiment.check()?;
        let need = experiment.train.batch / K::variants(&experiment.data);
        let got = K::len(&data.train);
        if got < need {
            let want = format!("the {need} {} of a batch, at least", K::SAMPLES);
            let place = format!("training {}", K::SAMPLES);
            return Err(Error::new(ErrorKind::Malformed, place, want, got)
                .hint("lower train.batch, or take more samples"));
        }
        let model = experiment.model()?;
        let board = K::board(&experiment.model, &data.train)?;
        // Every thread keeps x, z and u of the iterations that gradients go back through, and scratch of that size.
        let horizon = &experiment.iterations;
        let late = if horizon.gradient > 0 { horizon.gradient } else { horizon.train.max(horizon.train_max) };
        let taped =
            late.max(if horizon.early_share > 0.0 { horizon.train.max(horizon.early_max) } else { 0 });
        let state = board.sheaf.agents() * K::section(&experiment.model).d_v;
        let threads = rayon::current_num_threads();
        let bytes = product(&[taped, state, 3 * size_of::<f32>(), threads], u64::MAX).unwrap_or(u64::MAX);
        check_memory("iterations.train", "iterations kept for gradients", bytes)?;
        Ok(Self {
            experiment,
            model,
            board,
            data,
            batch: Batch::default(),
            samples: K::Set::default(),
            chosen: Vec::new(),
            noisy: Vec::new(),
            epochs: Epochs::default(),
            order_stream: format!("order of the {}", K::SAMPLES),
        })
    }

    /// The experiment.
    pub fn experiment(&self) -> &Experiment<K> {
        &self.experiment
    }

    /// The model.
    pub fn model(&self) -> &ModelOf<K> {
        &self.model
    }

    /// The agents.
    pub fn board(&self) -> &BoardOf<K> {
        &self.board
    }

    /// Training and held-out samples.
    pub fn data(&self) -> &Loaded<K::Set> {
        &self.data
    }

    /// The samples of a training step.
    pub fn batch_of(&mut self, seed: u64, step: u64) -> &K::Set {
        let data = &self.experiment.data;
        let variants = K::variants(data);
        let (count, items) = (self.experiment.train.batch, self.experiment.train.batch / variants);
        K::begin_batch(&self.data.train, count, &mut self.samples);
        self.chosen.clear();
        for item in 0..items {
            let place = step * items as u64 + item as u64;
            let i = self.epochs.sample(&self.order_stream, seed, place, K::len(&self.data.train));
            self.chosen.push(i);
            for variant in 0..variants {
                let place = item * variants + variant;
                let stream = &mut Stream::new(seed, "variant of a sample", step, place as u64);
                K::put(data, &self.data.train, i as usize, variant, stream, place, &mut self.samples);
            }
        }
        &self.samples
    }
}

/// Writes the parameters with normal noise, in units of the root mean square of each tensor, to `noisy`. The numbers depend
/// only on (seed of the run, training step, tensor).
fn disturb(layout: &ParamLayout, params: &[f32], noise: f64, seed: u64, step: u64, noisy: &mut Vec<f32>) {
    noisy.clear();
    noisy.extend_from_slice(params);
    for (k, entry) in layout.entries().iter().enumerate() {
        let own = &mut noisy[entry.range.clone()];
        let squares: f64 = own.iter().map(|&p| f64::from(p) * f64::from(p)).sum();
        let deviation = noise * (squares / own.len().max(1) as f64).sqrt();
        let stream = &mut Stream::new(seed, "noise of parameters", step, k as u64);
        for p in own {
            *p += (deviation * stream.normal()) as f32;
        }
    }
}

impl<K: Task> Trainable for Training<K> {
    fn layout(&self) -> &ParamLayout {
        self.model.layout()
    }

    fn initial(&self, seed: u64) -> Vec<f32> {
        self.model.init(seed)
    }

    fn loss_and_grad(&mut self, params: &[f32], seed: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        self.batch_of(seed, step);
        let horizon = self.experiment.iterations.horizon(seed, step, self.experiment.train.loss_window);
        let samples = K::samples(&self.board, &self.samples);
        let params = match self.experiment.train.noise {
            0.0 => params,
            noise => {
                disturb(self.model.layout(), params, noise, seed, step, &mut self.noisy);
                &self.noisy
            }
        };
        let usual = self.model.section().cg_steps;
        let drawn = self.experiment.iterations.cg_steps(seed, step);
        self.model.set_cg_steps(drawn.unwrap_or(usual));
        let loss = self.batch.loss_and_grad(&self.model, params, &self.board.sheaf, &samples, horizon, grad);
        self.model.set_cg_steps(usual);
        let loss = loss?;
        drop(samples);
        let count = K::len(&self.samples);
        let variants = count / self.chosen.len().max(1);
        let bad_sample = loss.bad.map(|sample| u64::from(self.chosen[sample / variants]));
        Ok(StepStats { loss: loss.loss, samples: count, bad_sample })
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        K::evaluate(&self.experiment, &self.model, params, &self.data)
    }

    fn share_batches(&mut self, comm: Arc<dyn Comm>) -> bool {
        self.batch.share(comm);
        true
    }

    fn split(&self) -> &str {
        K::split(&self.experiment.data)
    }

    fn present_config(&self, place: &str, config: &str) -> Result<String> {
        strict::to_toml(&strict::parse::<Experiment<K>>(place, config, &[])?)
    }
}

/// Complete updates of a run, as the trainer makes them: gradient, clipping, AdamW or Muon, running average.
#[derive(Debug)]
pub struct Update<M> {
    model: M,
    options: TrainOptions,
    state: TrainState,
    scratch: UpdateScratch,
}

impl<M: Trainable> Update<M> {
    /// Starts at the initial parameters of a seed.
    pub fn new(model: M, options: TrainOptions, seed: u64) -> Self {
        let state = TrainState::new(model.initial(seed), seed);
        Self { model, options, state, scratch: UpdateScratch::default() }
    }

    /// Makes one update. A batch whose loss or gradient is not finite is an error, and changes nothing.
    pub fn step(&mut self) -> Result<StepStats> {
        let Updated { batch, stats, grad_norm, rate } =
            self.state.update(&mut self.model, &self.options, &mut self.scratch)?;
        if rate.is_some() {
            return Ok(stats);
        }
        let got = format!("loss {}, norm of the gradient {grad_norm}", stats.loss);
        let place = format!("batch {batch}");
        Err(Error::new(ErrorKind::NotFinite, place, "a finite loss and gradient", got)
            .hint("lower train.learning_rate or train.clip"))
    }

    /// The parameters.
    pub fn parameters(&self) -> &[f32] {
        &self.state.params
    }

    /// The running average of the parameters, which evaluation uses.
    pub fn average(&self) -> &[f32] {
        &self.state.ema
    }

    /// Metrics of the running average on held-out samples.
    pub fn evaluate(&mut self) -> Result<Vec<(String, f64)>> {
        self.model.evaluate(&self.state.ema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_relative_to_each_tensor_and_drawn_anew_in_every_step() {
        let mut layout = ParamLayout::new();
        layout.add("large", &[40, 50]);
        layout.add("zero", &[7]);
        layout.add("small", &[2000]);
        let params: Vec<f32> =
            (0..layout.len()).map(|i| if i < 2000 { 3.0 } else { f32::from(i >= 2007) * -0.01 }).collect();
        let noisy = |step| {
            let mut noisy = Vec::new();
            disturb(&layout, &params, 0.1, 42, step, &mut noisy);
            noisy
        };
        let first = noisy(1);
        assert_eq!(first, noisy(1));
        assert_ne!(first, noisy(2));
        for (range, size) in [(0..2000, 0.3), (2000..2007, 0.0), (2007..4007, 0.001)] {
            let squares: f32 = range.clone().map(|i| (first[i] - params[i]).powi(2)).sum();
            let deviation = (squares / range.len() as f32).sqrt();
            // 2,000 draws know their deviation to 1.6 %.
            assert!((deviation - size).abs() <= 0.08 * size, "{range:?}: {deviation}");
        }
    }
}
