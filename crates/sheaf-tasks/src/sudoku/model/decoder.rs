//! From an agent's state to the digits of its nine cells: every block of the state through the same small network.
//!
//! ```text
//! logits = (x Wₛ + bₛ + a W₂ + b₂) Wₒ + bₒ,      a = gelu(rms(x) W₁ + b₁)
//! ```
//!
//! Nothing stands between the sum and Wₒ, so the products are taken the other way round: with P = W₂ Wₒ, R = Wₛ Wₒ and
//! c = (bₛ + b₂) Wₒ + bₒ, computed once per optimiser step,
//!
//! ```text
//! logits = x R + a P + c
//! d_W₂ = d_P Wₒᵀ      d_Wₛ = d_R Wₒᵀ      d_b₂ = d_bₛ = d_c Wₒᵀ      d_bₒ = d_c
//! d_Wₒ = W₂ᵀ d_P + Wₛᵀ d_R + (bₛ + b₂)ᵀ d_c
//! ```
//!
//! which costs an eighth: Wₒ has ten columns, W₂ as many as the hidden layer. A row is one cell of one agent.
//!
//! | name | shape | parameter |
//! | --- | --- | --- |
//! | x | rows, d_v / 9 | |
//! | a | rows, hidden | W₁, b₁: `decoder/block/dense1` |
//! | W₂, b₂ | hidden, hidden | `decoder/block/dense2` |
//! | Wₛ, bₛ | d_v / 9, hidden | `decoder/block/residual_proj` |
//! | Wₒ, bₒ | hidden, 10 | `decoder/out` |
//! | P, R, c | hidden or d_v / 9 or 1, 10 | |

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::gemm::{Mat, gemm};
use sheaf_learn::nn::activation::{gelu_keeping_slope, multiply};
use sheaf_learn::nn::{Linear, RmsNorm};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;

use crate::sudoku::CLASSES;

/// The layers.
#[derive(Clone, Debug)]
pub struct Decoder {
    norm: RmsNorm,
    dense1: Linear,
    dense2: Linear,
    skip: Linear,
    out: Linear,
}

/// P, R, c, one after the other; their gradients likewise.
pub type Folded<T> = AlignedVec<T>;

/// What was decoded, and what the adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct Decoded<T: Copy + Default> {
    /// Logits; the adjoint expects their gradient here.
    pub logits: AlignedVec<T>,
    normed: AlignedVec<T>, // [rows, input]; its gradient in the adjoint
    slope: AlignedVec<T>,  // [rows, hidden]
    act: AlignedVec<T>,    // [rows, hidden]; its gradient in the adjoint
}

impl Decoder {
    /// Declares `decoder/block` and `decoder/out`.
    pub fn new(layout: &mut ParamLayout, input: usize, hidden: usize) -> Self {
        Self {
            norm: RmsNorm::new(layout, "decoder/block/norm", input),
            dense1: Linear::new(layout, "decoder/block/dense1", input, hidden, true),
            dense2: Linear::new(layout, "decoder/block/dense2", hidden, hidden, true),
            skip: Linear::new(layout, "decoder/block/residual_proj", input, hidden, true),
            out: Linear::new(layout, "decoder/out", hidden, CLASSES, true),
        }
    }

    /// Starting values.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.norm.init(params);
        for layer in [&self.dense1, &self.dense2, &self.skip, &self.out] {
            layer.init(params, stream);
        }
    }

    fn input(&self) -> usize {
        self.dense1.input()
    }

    fn hidden(&self) -> usize {
        self.dense1.output()
    }

    /// Numbers of P, R and c together.
    pub fn folded_len(&self) -> usize {
        (self.hidden() + self.input() + 1) * CLASSES
    }

    /// P, R and c.
    pub fn fold<T: Real>(&self, params: &[T], folded: &mut [T]) {
        let (h, i) = (self.hidden(), self.input());
        let w_out = Mat::new(&params[self.out.weight()], h, CLASSES);
        let (p, rest) = folded.split_at_mut(h * CLASSES);
        let (r, c) = rest.split_at_mut(i * CLASSES);
        gemm(p, Mat::new(&params[self.dense2.weight()], h, h), w_out, T::ONE, T::ZERO);
        gemm(r, Mat::new(&params[self.skip.weight()], i, h), w_out, T::ONE, T::ZERO);
        c.copy_from_slice(&params[bias(&self.out)]);
        for layer in [&self.dense2, &self.skip] {
            gemm(c, Mat::new(&params[bias(layer)], 1, h), w_out, T::ONE, T::ONE);
        }
    }

    /// Adjoint of [`fold`](Self::fold): adds to `d_params`.
    pub fn fold_vjp<T: Real>(&self, params: &[T], d_folded: &[T], d_params: &mut [T]) {
        let (h, i) = (self.hidden(), self.input());
        let w_out = Mat::new(&params[self.out.weight()], h, CLASSES).t();
        let (d_p, rest) = d_folded.split_at(h * CLASSES);
        let (d_r, d_c) = rest.split_at(i * CLASSES);
        let (d_p, d_r) = (Mat::new(d_p, h, CLASSES), Mat::new(d_r, i, CLASSES));
        gemm(&mut d_params[self.dense2.weight()], d_p, w_out, T::ONE, T::ONE);
        gemm(&mut d_params[self.skip.weight()], d_r, w_out, T::ONE, T::ONE);
        let d_w_out = self.out.weight();
        let w2 = Mat::new(&params[self.dense2.weight()], h, h);
        gemm(&mut d_params[d_w_out.clone()], w2.t(), d_p, T::ONE, T::ONE);
        let w_skip = Mat::new(&params[self.skip.weight()], i, h);
        gemm(&mut d_params[d_w_out.clone()], w_skip.t(), d_r, T::ONE, T::ONE);
        let d_c_row = Mat::new(d_c, 1, CLASSES);
        for layer in [&self.dense2, &self.skip] {
            gemm(&mut d_params[bias(layer)], d_c_row, w_out, T::ONE, T::ONE);
            let b = Mat::new(&params[bias(layer)], h, 1);
            gemm(&mut d_params[d_w_out.clone()], b, d_c_row, T::ONE, T::ONE);
        }
        d_params[bias(&self.out)].iter_mut().zip(d_c).for_each(|(d, &c)| *d += c);
    }

    /// Decodes states into `d.logits`. Saves: the rest of `d`.
    pub fn forward<T: Real>(&self, params: &[T], folded: &[T], x: &[T], d: &mut Decoded<T>) {
        let (h, i) = (self.hidden(), self.input());
        let rows = x.len() / i;
        d.logits.ensure(rows * CLASSES);
        d.normed.ensure(rows * i);
        d.slope.ensure(rows * h);
        d.act.ensure(rows * h);
        let (normed, slope) = (&mut d.normed[..rows * i], &mut d.slope[..rows * h]);
        let (act, logits) = (&mut d.act[..rows * h], &mut d.logits[..rows * CLASSES]);
        self.norm.forward(params, x, normed);
        self.dense1.forward(params, normed, slope);
        gelu_keeping_slope(slope, act);
        let (p, rest) = folded.split_at(h * CLASSES);
        let (r, c) = rest.split_at(i * CLASSES);
        logits.chunks_exact_mut(CLASSES).for_each(|row| row.copy_from_slice(&c[..CLASSES]));
        gemm(logits, Mat::new(act, rows, h), Mat::new(p, h, CLASSES), T::ONE, T::ONE);
        gemm(logits, Mat::new(x, rows, i), Mat::new(r, i, CLASSES), T::ONE, T::ONE);
    }

    /// Adjoint of [`forward`](Self::forward), the gradient of the logits being in `d.logits`: adds to `d_x`,
    /// `d_folded` and `d_params`.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        folded: &[T],
        x: &[T],
        d: &mut Decoded<T>,
        d_x: &mut [T],
        d_folded: &mut [T],
        d_params: &mut [T],
    ) {
        let (h, i) = (self.hidden(), self.input());
        let rows = x.len() / i;
        let (act, slope) = (&mut d.act[..rows * h], &d.slope[..rows * h]);
        let d_logits = Mat::new(&d.logits, rows, CLASSES);
        let (d_p, rest) = d_folded.split_at_mut(h * CLASSES);
        let (d_r, d_c) = rest.split_at_mut(i * CLASSES);
        gemm(d_p, Mat::new(act, rows, h).t(), d_logits, T::ONE, T::ONE);
        gemm(d_r, Mat::new(x, rows, i).t(), d_logits, T::ONE, T::ONE);
        for row in d.logits[..rows * CLASSES].chunks_exact(CLASSES) {
            d_c.iter_mut().zip(row).for_each(|(d, &r)| *d += r);
        }
        let (p, rest) = folded.split_at(h * CLASSES);
        gemm(d_x, d_logits, Mat::new(rest, i, CLASSES).t(), T::ONE, T::ONE);
        // The activation is no longer needed: its buffer takes its gradient, then that before the gelu.
        gemm(act, d_logits, Mat::new(p, h, CLASSES).t(), T::ONE, T::ZERO);
        multiply(act, slope);
        let normed = &mut d.normed[..rows * i];
        self.dense1.vjp_weights(normed, act, d_params);
        self.dense1.vjp_input(params, act, normed);
        self.norm.vjp(params, x, normed, Some(d_x), d_params);
    }
}

fn bias(layer: &Linear) -> std::ops::Range<usize> {
    layer.bias().expect("declared with a bias")
}
