//! A run of an experiment, as the trainer takes it; and single updates without files, to measure or to learn by.

use sheaf_admm::{Error, ErrorKind, Result};

use super::{BoardOf, Epochs, Experiment, Loaded, ModelOf, Task};
use crate::model::Batch;
use crate::params::ParamLayout;
use crate::rng::Stream;
use crate::train::{AdamW, StepStats, TrainOptions, Trainable, clip_global_norm, ema_update, global_norm};

/// Model, data and memory of a run.
#[derive(Debug)]
pub struct Training<K: Task> {
    experiment: Experiment<K>,
    model: ModelOf<K>,
    board: BoardOf<K>,
    data: Loaded<K::Set>,
    batch: Batch<f32, K::Encoder, K::Decoder>,
    samples: K::Set,
    chosen: Vec<u32>, // training samples of the batch, before variants
    epochs: Epochs,
    order_stream: String,
}

impl<K: Task> Training<K> {
    /// Checks the experiment and draws or reads its samples.
    pub fn new(experiment: Experiment<K>) -> Result<Self> {
        experiment.check()?;
        let data = K::load(&experiment)?;
        Self::with_data(experiment, data)
    }

    /// The same with samples that are at hand.
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
        let model = K::model(&experiment.model)?;
        let board = K::board(&experiment.model, &data.train)?;
        Ok(Self {
            experiment,
            model,
            board,
            data,
            batch: Batch::default(),
            samples: K::Set::default(),
            chosen: Vec::new(),
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
        let told =
            self.batch.loss_and_grad(&self.model, params, &self.board.sheaf, &samples, horizon, grad)?;
        drop(samples);
        let count = K::len(&self.samples);
        let variants = count / self.chosen.len().max(1);
        let bad_sample = told.bad.map(|sample| u64::from(self.chosen[sample / variants]));
        Ok(StepStats { loss: told.loss, samples: count, bad_sample })
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        K::evaluate(&self.experiment, &self.model, params, &self.data)
    }
}

/// Whole updates of a run, one after the other: gradient, clipping, AdamW, running average, as the trainer makes them.
#[derive(Debug)]
pub struct Update<M> {
    model: M,
    options: TrainOptions,
    seed: u64,
    step: u64,
    params: Vec<f32>,
    ema: Vec<f32>,
    grad: Vec<f32>,
    adam_m: Vec<f32>,
    adam_v: Vec<f32>,
}

impl<M: Trainable> Update<M> {
    /// Starts at the initial parameters of a seed.
    pub fn new(model: M, options: TrainOptions, seed: u64) -> Self {
        let params = model.initial(seed);
        let zeros = || vec![0.0; params.len()];
        let (ema, grad, adam_m, adam_v) = (params.clone(), zeros(), zeros(), zeros());
        Self { model, options, seed, step: 0, params, ema, grad, adam_m, adam_v }
    }

    /// Makes one update. A batch whose loss or gradient is not finite is an error, and changes nothing.
    pub fn step(&mut self) -> Result<StepStats> {
        let stats = self.model.loss_and_grad(&self.params, self.seed, self.step, &mut self.grad)?;
        let norm = match self.options.clip {
            Some(clip) => clip_global_norm(clip, &mut self.grad),
            None => global_norm(&self.grad),
        };
        if !(stats.loss.is_finite() && norm.is_finite() && stats.bad_sample.is_none()) {
            let place = format!("update {}", self.step);
            let got = format!("loss {}, norm of the gradient {norm}", stats.loss);
            return Err(Error::new(ErrorKind::NotFinite, place, "a finite loss and gradient", got)
                .hint("lower train.learning_rate or train.clip"));
        }
        let rate = self.options.schedule.at(self.step);
        self.step += 1;
        let adamw: &AdamW = &self.options.adamw;
        adamw.update(rate, self.step, &self.grad, &mut self.params, &mut self.adam_m, &mut self.adam_v)?;
        ema_update(self.options.ema, &self.params, &mut self.ema)?;
        Ok(stats)
    }

    /// The running average of the parameters, which evaluation takes.
    pub fn average(&self) -> &[f32] {
        &self.ema
    }

    /// Metrics of the running average on held-out samples.
    pub fn evaluate(&mut self) -> Result<Vec<(String, f64)>> {
        self.model.evaluate(&self.ema)
    }
}
