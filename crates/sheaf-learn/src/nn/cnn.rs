//! A small convolutional classifier of pictures.
//!
//! ```text
//! picture → [conv k × k → relu → max pool 2 × 2] … → conv → relu → average pool to bins × bins
//!         → dropout → dense → relu → dense → logits
//! ```
//!
//! The first `pools` convolutions are pooled. Pictures of 28 × 28 reach the average pool at 7 × 7, where it changes
//! nothing; larger ones are averaged down to 7 × 7, so that the network accepts pictures of any size. A digit on a
//! larger canvas then covers fewer bins than the dense layer was trained on: this is how padding hurts such a network.
//!
//! | array | shape |
//! | --- | --- |
//! | picture | `[height, width]` |
//! | stage i | `[height / 2ⁱ, width / 2ⁱ, channels i]` |
//! | features | `[bins, bins, channels]` |

use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Real, Result};
use sheaf_kernels::aligned::AlignedVec;

use super::conv::{Conv2d, MaxPool2, Size, average_pool, average_pool_vjp, relu, relu_vjp};
use super::{Init, Linear};
use crate::limits::{MAX_WIDTH, at_most, check_width};
use crate::params::ParamLayout;
use crate::rng::Stream;

/// The `[model]` section of an experiment with the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CnnConfig {
    /// Number of classes.
    pub classes: usize,
    /// Side of each convolution's kernel; odd.
    pub kernels: Vec<usize>,
    /// Channels of each convolution.
    pub channels: Vec<usize>,
    /// How many of the first convolutions are pooled.
    pub pools: usize,
    /// Side of the input of the dense layer.
    pub bins: usize,
    /// Width of the dense layer.
    pub hidden: usize,
    /// Probability that a feature is dropped in a training step.
    pub dropout: f64,
}

impl Default for CnnConfig {
    fn default() -> Self {
        Self {
            classes: 10,
            kernels: vec![5, 3, 3],
            channels: vec![32, 64, 64],
            pools: 2,
            bins: 7,
            hidden: 96,
            dropout: 0.5,
        }
    }
}

impl CnnConfig {
    /// Rejects invalid values.
    pub fn check(&self) -> Result<()> {
        let wrong = |name: &str, expected: &str, got: &dyn std::fmt::Display| {
            Err(Error::new(ErrorKind::Malformed, format!("model.{name}"), expected, got))
        };
        if !(1..=255).contains(&self.classes) {
            return wrong("classes", "1 to 255", &self.classes);
        }
        let lists = self
            .channels
            .iter()
            .map(|&n| ("channels", n))
            .chain(self.kernels.iter().map(|&n| ("kernels", n)));
        for (name, value) in lists {
            at_most(&format!("model.{name}"), "numbers", MAX_WIDTH, value)?;
        }
        if self.channels.is_empty() || self.channels.contains(&0) {
            return wrong("channels", "a list of positive numbers", &format!("{:?}", self.channels));
        }
        if self.kernels.len() != self.channels.len() || self.kernels.iter().any(|k| k % 2 == 0) {
            return wrong(
                "kernels",
                "an odd number for each of model.channels",
                &format!("{:?}", self.kernels),
            );
        }
        if self.pools > self.channels.len() {
            return wrong("pools", "at most one for each of model.channels", &self.pools);
        }
        for (name, value) in [("bins", self.bins), ("hidden", self.hidden)] {
            check_width(&format!("model.{name}"), value)?;
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return wrong("dropout", "a probability below 1", &self.dropout);
        }
        Ok(())
    }
}

/// Layers and parameter layout; no parameter values.
#[derive(Clone, Debug)]
pub struct CnnModel {
    config: CnnConfig,
    layout: ParamLayout,
    convs: Vec<Conv2d>,
    dense: Linear,
    out: Linear,
}

/// Buffers for one picture at a time: what the adjoint needs, and the gradients in flight.
#[derive(Clone, Debug, Default)]
pub struct Net<T: Copy + Default> {
    stages: Vec<Stage<T>>,
    features: AlignedVec<T>, // [bins, bins, channels], after dropout
    keep: Vec<T>,            // like features: 0 where dropped
    hidden: AlignedVec<T>,   // [hidden]
    logits: AlignedVec<T>,   // [classes]
    d_in: AlignedVec<T>,     // the incoming gradient
    d_out: AlignedVec<T>,    // the outgoing gradient
    d_hidden: AlignedVec<T>, // [hidden]
    scratch: AlignedVec<T>,  // of the convolutions
}

/// One convolution with its rectifier and pool.
#[derive(Clone, Debug, Default)]
struct Stage<T: Copy + Default> {
    size: Size,
    columns: AlignedVec<T>,
    y: AlignedVec<T>,      // rectified
    pooled: AlignedVec<T>, // empty without pooling
    from: Vec<u32>,
}

impl<T: Real> Net<T> {
    /// The most recent logits.
    pub fn logits(&self, model: &CnnModel) -> &[T] {
        &self.logits[..model.config.classes]
    }

    /// The same, to be replaced by their gradient before [`CnnModel::vjp`].
    pub fn logits_mut(&mut self, model: &CnnModel) -> &mut [T] {
        &mut self.logits[..model.config.classes]
    }
}

impl CnnModel {
    /// Checks the choices and declares all parameters.
    pub fn new(config: CnnConfig) -> Result<Self> {
        config.check()?;
        let mut layout = ParamLayout::new();
        let mut input = 1;
        let mut convs = Vec::new();
        for (i, (&kernel, &output)) in config.kernels.iter().zip(&config.channels).enumerate() {
            convs.push(Conv2d::new(&mut layout, &format!("conv{i}"), kernel, input, output)?);
            input = output;
        }
        let features = config.bins * config.bins * input;
        let dense = Linear::new(&mut layout, "dense", features, config.hidden, true);
        let out = Linear::new(&mut layout, "out", config.hidden, config.classes, true);
        Ok(Self { config, layout, convs, dense, out })
    }

    /// The choices.
    pub fn config(&self) -> &CnnConfig {
        &self.config
    }

    /// Names and shapes of the parameters.
    pub fn layout(&self) -> &ParamLayout {
        &self.layout
    }

    /// Initial values of a seed.
    pub fn init<T: Real>(&self, seed: u64) -> Vec<T> {
        let mut params = vec![T::ZERO; self.layout.len()];
        let stream = &mut Stream::new(seed, "cnn parameters", 0, 0);
        for conv in &self.convs {
            conv.init(&mut params, stream);
        }
        let std = (2.0 / self.dense.input() as f64).sqrt();
        self.dense.init_with(&mut params, Init::Normal(std), Init::Zeros, stream);
        self.out.init(&mut params, stream);
        params
    }

    /// Checks that pictures of this size are large enough for the pools.
    pub fn check_size(&self, (height, width): Size) -> Result<()> {
        let least = 1 << self.config.pools;
        if height >= least && width >= least {
            return Ok(());
        }
        let (expected, got) = (format!("at least {least} pixels each way"), format!("{height} × {width}"));
        Err(Error::new(ErrorKind::Shape, "picture for the network", expected, got))
    }

    fn fit<T: Real>(&self, mut size: Size, net: &mut Net<T>) {
        net.stages.resize_with(self.convs.len(), Stage::default);
        let mut widest = 0;
        for (i, (conv, stage)) in self.convs.iter().zip(&mut net.stages).enumerate() {
            let n = size.0 * size.1 * conv.output();
            stage.size = size;
            stage.columns.ensure(conv.columns_len(size));
            stage.y.ensure(n);
            net.scratch.ensure(conv.columns_len(size));
            widest = widest.max(n).max(size.0 * size.1 * conv.input());
            if i < self.config.pools {
                size = MaxPool2::size(size);
                stage.pooled.ensure(size.0 * size.1 * conv.output());
                stage.from.resize(size.0 * size.1 * conv.output(), 0);
            }
        }
        net.features.ensure(self.dense.input());
        net.hidden.ensure(self.config.hidden);
        net.d_hidden.ensure(self.config.hidden);
        net.logits.ensure(self.config.classes);
        net.d_in.ensure(widest.max(self.dense.input()));
        net.d_out.ensure(widest.max(self.dense.input()));
    }

    /// Computes the logits of one picture, in `net`. With a stream, features are dropped with probability `dropout`.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        size: Size,
        image: &[T], // [height, width]
        dropout: Option<&mut Stream>,
        net: &mut Net<T>,
    ) {
        self.fit(size, net);
        let (mut at, mut done): (Size, &mut [Stage<T>]) = (size, &mut []);
        let mut rest = &mut net.stages[..];
        for (i, conv) in self.convs.iter().enumerate() {
            let (stage, more) = rest.split_first_mut().expect("a stage for each convolution");
            let x = match done.first() {
                None => image,
                Some(before) => before.output(i - 1 < self.config.pools, self.convs[i - 1].output(), at),
            };
            let n = at.0 * at.1 * conv.output();
            conv.forward(params, at, x, &mut stage.y[..n], &mut stage.columns);
            relu(&mut stage.y[..n]);
            if i < self.config.pools {
                let half = MaxPool2::size(at);
                let m = half.0 * half.1 * conv.output();
                MaxPool2::forward(at, &stage.y[..n], &mut stage.pooled[..m], &mut stage.from[..m]);
                at = half;
            }
            (done, rest) = (std::slice::from_mut(stage), more);
        }
        let last = self.convs.len() - 1;
        let features = &mut net.features[..self.dense.input()];
        let x = done[0].output(last < self.config.pools, self.convs[last].output(), at);
        average_pool(at, self.config.bins, x, features);
        net.keep.clear();
        if let Some(stream) = dropout.filter(|_| self.config.dropout > 0.0) {
            let scale = T::from_f64(1.0 / (1.0 - self.config.dropout));
            let keep = |_| if stream.uniform() < self.config.dropout { T::ZERO } else { scale };
            net.keep.extend((0..features.len()).map(keep));
            features.iter_mut().zip(&net.keep).for_each(|(f, &k)| *f *= k);
        }
        let hidden = &mut net.hidden[..self.config.hidden];
        self.dense.forward(params, features, hidden);
        relu(hidden);
        self.out.forward(params, hidden, &mut net.logits[..self.config.classes]);
    }

    /// Adjoint of [`forward`](Self::forward), given the gradient of the logits in `net`. Adds to `d_params`.
    pub fn vjp<T: Real>(&self, params: &[T], net: &mut Net<T>, d_params: &mut [T]) {
        let Net { stages, features, keep, hidden, logits, d_in, d_out, d_hidden, scratch } = net;
        let (hidden, d_hidden) = (&hidden[..self.config.hidden], &mut d_hidden[..self.config.hidden]);
        let d_logits = &logits[..self.config.classes];
        self.out.vjp_weights(hidden, d_logits, d_params);
        self.out.vjp_input(params, d_logits, d_hidden);
        relu_vjp(hidden, d_hidden);
        let features = &features[..self.dense.input()];
        self.dense.vjp_weights(features, d_hidden, d_params);
        self.dense.vjp_input(params, d_hidden, &mut d_in[..features.len()]);
        d_in[..features.len()].iter_mut().zip(keep.iter()).for_each(|(d, &k)| *d *= k);

        for (i, (conv, stage)) in self.convs.iter().zip(stages.iter()).enumerate().rev() {
            let (size, channels, pooled) = (stage.size, conv.output(), i < self.config.pools);
            let half = if pooled { MaxPool2::size(size) } else { size };
            let (n, m) = (size.0 * size.1 * channels, half.0 * half.1 * channels);
            if i + 1 == self.convs.len() {
                let d = &mut d_out[..m];
                d.fill(T::ZERO);
                average_pool_vjp(half, self.config.bins, &d_in[..features.len()], d);
                std::mem::swap(d_in, d_out);
            }
            if pooled {
                let d = &mut d_out[..n];
                d.fill(T::ZERO);
                MaxPool2::vjp(&stage.from[..m], &d_in[..m], d);
                std::mem::swap(d_in, d_out);
            }
            relu_vjp(&stage.y[..n], &mut d_in[..n]);
            let d_x = (i > 0).then(|| {
                let d = &mut d_out[..size.0 * size.1 * conv.input()];
                d.fill(T::ZERO);
                d
            });
            conv.vjp(params, size, &stage.columns, &d_in[..n], d_x, d_params, scratch);
            std::mem::swap(d_in, d_out);
        }
    }
}

impl<T: Real> Stage<T> {
    /// The input of the next layer.
    fn output(&self, pooled: bool, channels: usize, (height, width): Size) -> &[T] {
        let n = height * width * channels;
        if pooled { &self.pooled[..n] } else { &self.y[..n] }
    }
}
