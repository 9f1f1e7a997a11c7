//! A small model with every published option, driven by the configuration of a golden case.
//!
//! | part | file |
//! | --- | --- |
//! | views → h, objective, LoRA factors | `encoder.rs` |
//! | maps, penalty, ADMM and its reverse pass | `core.rs` |
//! | x → logits, loss | `decoder.rs` |
//!
//! Everything is generic over the scalar: goldens are f32, and an f64 run separates rounding from mistakes. Rows are
//! `[sample, agent]`; goldens store `[agent, sample]`.

pub mod core;
pub mod decoder;
mod dense_quadratic;
pub mod encoder;
pub mod head;

use std::collections::BTreeMap;

use serde_json::Value;
use sheaf_admm::Real;
use sheaf_learn::nn::activation::{inverse_softplus, sigmoid_of, softplus_of};
use sheaf_learn::params::ParamLayout;
use sheaf_testkit::{Array, Golden};

use self::core::{Core, CoreGrads, Coupling};
use self::decoder::Decoder;
use self::encoder::Encoder;

/// Named arrays `[samples · agents, width]`; scalars have one number.
pub type Named<T> = BTreeMap<String, Vec<T>>;

/// The options of a case, by their names in the manifest.
pub struct Config(Value);

impl Config {
    pub fn new(case: &Value) -> Self {
        Self(case.clone())
    }

    fn option(&self, name: &str) -> &Value {
        let option = self.0["model_config"].get(name);
        option.unwrap_or_else(|| panic!("the configuration has no option {name}"))
    }

    pub fn text(&self, name: &str) -> &str {
        self.option(name).as_str().unwrap_or_else(|| panic!("{name} is a text"))
    }

    pub fn number(&self, name: &str) -> f64 {
        self.maybe(name).unwrap_or_else(|| panic!("{name} is a number"))
    }

    pub fn maybe(&self, name: &str) -> Option<f64> {
        self.option(name).as_f64()
    }

    pub fn count(&self, name: &str) -> usize {
        self.option(name).as_u64().unwrap_or_else(|| panic!("{name} is a count")) as usize
    }

    pub fn flag(&self, name: &str) -> bool {
        self.option(name).as_bool().unwrap_or_else(|| panic!("{name} is true or false"))
    }

    pub fn iterations(&self) -> usize {
        self.0["K"].as_u64().expect("K is a count") as usize
    }

    pub fn window(&self) -> usize {
        self.0["loss_window"].as_u64().expect("loss_window is a count") as usize
    }

    pub fn grad_window(&self) -> Option<usize> {
        self.0["grad_window"].as_u64().map(|n| n as usize)
    }
}

/// Values of a golden array in the scalar type of the model.
pub fn cast<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&v| T::from_f64(v)).collect()
}

/// `[agent, sample, …]` → `[sample, agent, …]`.
pub fn by_sample(array: &Array<f64>) -> Vec<f64> {
    (0..array.shape[1]).flat_map(|sample| array.select(1, sample).data).collect()
}

/// The results of a run to compare.
pub struct Run<T> {
    /// Encoder outputs.
    pub encoded: Named<T>,
    /// At both ends of every edge.
    pub base_maps: Vec<T>,
    pub rho: T,
    pub eta: T,
    /// One per sample: x, z, u `[K, agents, d_v]`, residuals `[K, agents]`, consistency `[K]`.
    pub traces: Vec<sheaf_admm::admm::Trace<T>>,
    /// One per sample: `[K, agents, 54]`.
    pub logits: Vec<Vec<T>>,
    /// One per sample: the last logits as one image, and its tokens.
    pub images: Vec<(Vec<T>, Vec<i32>)>,
    pub loss: T,
    /// Gradients, like the parameters.
    pub grad: Vec<T>,
}

/// The model of one case.
pub struct Model {
    pub layout: ParamLayout,
    config: Config,
    encoder: Encoder,
    core: Core,
    decoder: Decoder,
}

impl Model {
    pub fn new(config: Config, inputs: &Golden) -> Self {
        let mut layout = ParamLayout::new();
        let encoder = Encoder::new(&config, &mut layout);
        let core = Core::new(&config, inputs, &mut layout);
        let decoder = Decoder::new(&config, inputs, &mut layout);
        Self { layout, config, encoder, core, decoder }
    }

    /// The parameters of the golden; panics if it has others.
    pub fn params<T: Real>(&self, golden: &Golden) -> Vec<T> {
        let count = golden.names().iter().filter(|name| name.starts_with("param/")).count();
        assert_eq!(count, self.layout.entries().len(), "parameters of the golden and of the model");
        let of = |name: &str| cast::<T>(&golden.f64(&format!("param/{name}")).data);
        self.layout.entries().iter().flat_map(|entry| of(&entry.name)).collect()
    }

    /// softplus(raw + softplus⁻¹(init)), and its slope.
    fn learned<T: Real>(&self, params: &[T], raw: &str, init: f64) -> (T, T) {
        let range = self.layout.range(raw).expect("declared");
        let shifted = params[range.start] + inverse_softplus(T::from_f64(init));
        (softplus_of(shifted), sigmoid_of(shifted))
    }

    /// Forward and reverse pass. `composed` replaces LoRA maps by the equivalent dense stacks.
    pub fn run<T: Real>(&self, params: &[T], views: &[T], composed: bool) -> Run<T> {
        let config = &self.config;
        let saved = self.encoder.forward(params, views);
        let (rho, slope) = self.learned(params, "rho_raw", config.number("rho_init"));
        let d_rho_raw = if config.flag("rho_learnable") { slope } else { T::ZERO };
        let (eta, d_eta_raw) = self.eta(params);
        let coupling = Coupling { rho, eta, composed };

        let mut grads = CoreGrads::new(&saved.outputs, params.len());
        let mut grad = vec![T::ZERO; params.len()];
        let (mut traces, mut logits, mut images, mut loss) = (Vec::new(), Vec::new(), Vec::new(), T::ZERO);
        for sample in 0..self.decoder.samples() {
            let solved = self.core.solve(config, params, &saved.outputs, sample, coupling);
            let decoded = self.decoder.run(params, views, sample, &solved.trace.x, config, &mut grad);
            loss += decoded.loss;
            self.core.reverse(config, params, &saved.outputs, sample, solved.tape, &decoded.d_x, &mut grads);
            traces.push(solved.trace);
            let last = decoded.logits.len() / config.iterations() * (config.iterations() - 1);
            images.push(self.decoder.reassemble(&decoded.logits[last..]));
            logits.push(decoded.logits);
        }
        self.encoder.vjp(params, views, &saved, &grads.encoded, &mut grad);
        grad.iter_mut().zip(&grads.params).for_each(|(g, &d)| *g += d);
        let at = |name: &str| self.layout.range(name).expect("declared").start;
        grad[at("rho_raw")] += grads.rho * d_rho_raw;
        if self.layout.find("eta_raw").is_some() {
            grad[at("eta_raw")] += grads.eta * d_eta_raw;
        }
        let base_maps = self.core.base_maps(params);
        Run { encoded: saved.outputs, base_maps, rho, eta, traces, logits, images, loss, grad }
    }

    fn eta<T: Real>(&self, params: &[T]) -> (T, T) {
        if self.layout.find("eta_raw").is_none() {
            return (T::ONE, T::ZERO);
        }
        let init = self.config.number("eta_init");
        let (Some(min), Some(max)) = (self.config.maybe("eta_min"), self.config.maybe("eta_max")) else {
            return self.learned(params, "eta_raw", init);
        };
        let raw = params[self.layout.range("eta_raw").expect("declared").start];
        let [init, min, max] = [init, min, max].map(T::from_f64);
        let mut slope = T::ZERO;
        sheaf_admm::z_update::eta_bounded_vjp(raw, init, min, max, T::ONE, &mut slope);
        (sheaf_admm::z_update::eta_bounded(raw, init, min, max), slope)
    }

    /// Solves from given encoder outputs, without the networks.
    pub fn solve_from<T: Real>(
        &self,
        params: &[T],
        encoded: &Named<T>,
        rho: T,
        eta: T,
    ) -> Vec<sheaf_admm::admm::Trace<T>> {
        let coupling = Coupling { rho, eta, composed: false };
        let solve = |sample| self.core.solve(&self.config, params, encoded, sample, coupling).trace;
        (0..self.decoder.samples()).map(solve).collect()
    }
}
