//! Proposals and views → logits, and the loss over the last window.

use sheaf_admm::Real;
use sheaf_learn::nn::activation::{gelu_keeping_slope, gelu_vjp};
use sheaf_learn::nn::{Linear, RmsNorm};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::loss::{IGNORE, cross_entropy_grad};
use sheaf_testkit::Golden;

use super::encoder::VIEW;
use super::{Config, by_sample};

pub struct Decoder {
    norm: RmsNorm,
    dense: Linear,
    output: Linear,
    labels: Vec<Vec<u8>>, // [samples][agents · 9]
    counted: usize,
    d_v: usize,
    centers: Vec<i32>, // [agents, 2], row and column
}

/// Height and width of the image that the views are cut from.
pub const SIDE: usize = 7;

pub struct Decoded<T> {
    pub logits: Vec<T>, // [K, agents, 54]
    pub loss: T,
    pub d_x: Vec<T>, // [W, agents, d_v]
}

impl Decoder {
    pub fn new(config: &Config, inputs: &Golden, layout: &mut ParamLayout) -> Self {
        assert_eq!(config.text("decoder_arch"), "mlp_concat_v2");
        let (width, d_v) = (config.count("dec_hidden_dim"), config.count("d_v"));
        let name = "ConcatMLPDecoderV2_0";
        let norm = RmsNorm::new(layout, &format!("{name}/input_norm"), VIEW + d_v);
        let dense = Linear::new(layout, &format!("{name}/dense"), VIEW + d_v, width, true);
        let output = Linear::new(layout, &format!("{name}/output_dense"), width, VIEW, true);
        let labels = inputs.i32("label_patches");
        let samples = labels.shape[1];
        let labels = sheaf_testkit::Array {
            shape: labels.shape,
            data: labels.data.iter().map(|&l| f64::from(l)).collect(),
        };
        let masked = by_sample(&labels).into_iter().zip(by_sample(&inputs.f64("masks")));
        let labels: Vec<u8> = masked.map(|(l, mask)| if mask > 0.0 { l as u8 } else { IGNORE }).collect();
        let counted = labels.iter().filter(|&&label| label != IGNORE).count();
        let labels = labels.chunks_exact(labels.len() / samples).map(<[u8]>::to_vec).collect();
        let centers = inputs.i32("centers").data;
        Self { norm, dense, output, labels, counted, d_v, centers }
    }

    /// The mean of all views' logits at every cell, `[SIDE, SIDE, 6]`, and the predicted token of each cell.
    pub fn reassemble<T: Real>(&self, logits: &[T]) -> (Vec<T>, Vec<i32>) {
        let (mut sums, mut counts) = (vec![T::ZERO; SIDE * SIDE * 6], vec![0usize; SIDE * SIDE]);
        for (view, center) in logits.chunks_exact(VIEW).zip(self.centers.chunks_exact(2)) {
            for (k, logits) in view.chunks_exact(6).enumerate() {
                let (row, col) = (center[0] - 1 + k as i32 / 3, center[1] - 1 + k as i32 % 3);
                if (0..SIDE as i32).contains(&row) && (0..SIDE as i32).contains(&col) {
                    let cell = row as usize * SIDE + col as usize;
                    counts[cell] += 1;
                    sums[cell * 6..][..6].iter_mut().zip(logits).for_each(|(s, &l)| *s += l);
                }
            }
        }
        for (cell, &count) in sums.chunks_exact_mut(6).zip(&counts) {
            cell.iter_mut().for_each(|s| *s /= T::from_f64(count as f64));
        }
        let best = |cell: &[T]| (0..6).fold(0, |best, k| if cell[k] > cell[best] { k } else { best }) as i32;
        let tokens = sums.chunks_exact(6).map(best).collect();
        (sums, tokens)
    }

    pub fn samples(&self) -> usize {
        self.labels.len()
    }

    /// Decodes every iterate of one sample; those of the window enter the loss and receive gradients.
    pub fn run<T: Real>(
        &self,
        params: &[T],
        views: &[T],
        sample: usize,
        x: &[T], // [K, agents, d_v]
        config: &Config,
        d_params: &mut [T],
    ) -> Decoded<T> {
        let labels = &self.labels[sample];
        let agents = labels.len() / 9;
        let views = &views[sample * agents * VIEW..][..agents * VIEW];
        let (iterations, window) = (config.iterations(), config.window());
        let weight = T::from_f64(1.0 / (self.counted * window) as f64);
        let mut decoded = Decoded { logits: Vec::new(), loss: T::ZERO, d_x: Vec::new() };
        for (k, x) in x.chunks_exact(agents * self.d_v).enumerate() {
            let rows = views.chunks_exact(VIEW).zip(x.chunks_exact(self.d_v));
            let input: Vec<T> = rows.flat_map(|(view, x)| view.iter().chain(x).copied()).collect();
            let mut normed = vec![T::ZERO; input.len()];
            self.norm.forward(params, &input, &mut normed);
            let mut slope = vec![T::ZERO; agents * self.dense.output()];
            self.dense.forward(params, &normed, &mut slope);
            let mut hidden = slope.clone();
            gelu_keeping_slope(&mut slope, &mut hidden);
            let mut logits = vec![T::ZERO; agents * VIEW];
            self.output.forward(params, &hidden, &mut logits);
            decoded.logits.extend_from_slice(&logits);
            if k + window < iterations {
                continue;
            }
            let mut exps = logits.clone();
            decoded.loss += cross_entropy_grad(&mut logits, labels, 6, weight, &mut exps);
            let (mut d_hidden, mut d_pre) = (vec![T::ZERO; hidden.len()], vec![T::ZERO; hidden.len()]);
            self.output.vjp(params, &hidden, &logits, Some(&mut d_hidden), d_params);
            gelu_vjp(&slope, &d_hidden, &mut d_pre);
            let (mut d_normed, mut d_input) = (vec![T::ZERO; input.len()], vec![T::ZERO; input.len()]);
            self.dense.vjp(params, &normed, &d_pre, Some(&mut d_normed), d_params);
            self.norm.vjp(params, &input, &d_normed, Some(&mut d_input), d_params);
            decoded.d_x.extend(d_input.chunks_exact(VIEW + self.d_v).flat_map(|row| row[VIEW..].to_vec()));
        }
        decoded
    }
}
