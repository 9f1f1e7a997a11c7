//! From an agent's state to the digits of its nine cells: the same small network is applied to every block of the
//! state.
//!
//! ```text
//! logits = (x Wₛ + bₛ + a W₂ + b₂) Wₒ + bₒ,      a = gelu(rms(x) W₁ + b₁)
//! ```
//!
//! There is no nonlinearity between the sum and Wₒ, so the products are reassociated: with P = W₂ Wₒ, R = Wₛ Wₒ and c =
//! (bₛ + b₂) Wₒ + bₒ, computed once per optimiser step,
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
use sheaf_kernels::Precision;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::gemm::{Mat, gemm, gemm_in};
use sheaf_learn::model::{Decoder, DecoderGrad, Rows};
use sheaf_learn::nn::activation::{gelu_keeping_slope, multiply};
use sheaf_learn::nn::{Linear, RmsNorm};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;

use super::CLASSES;
use super::views::SLOTS;

/// The layers.
#[derive(Clone, Debug)]
pub struct CellDecoder {
    norm: RmsNorm,
    dense1: Linear,
    dense2: Linear,
    skip: Linear,
    out: Linear,
}

/// The outputs, and what the adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct CellWork<T: Copy + Default> {
    /// Logits; the adjoint expects their gradient here.
    pub logits: AlignedVec<T>,
    normed: AlignedVec<T>, // [rows, input]; its gradient in the adjoint
    slope: AlignedVec<T>,  // [rows, hidden]
    act: AlignedVec<T>,    // [rows, hidden]; its gradient in the adjoint
}

impl CellDecoder {
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

    fn input(&self) -> usize {
        self.dense1.input()
    }

    fn hidden(&self) -> usize {
        self.dense1.output()
    }
}

impl Decoder for CellDecoder {
    /// P, R, c, concatenated.
    type Prepared<T: Real> = AlignedVec<T>;
    type Table<T: Real> = ();
    type Work<T: Real> = CellWork<T>;

    fn set_precision(&mut self, precision: Precision) {
        for layer in [&mut self.dense1, &mut self.dense2, &mut self.skip, &mut self.out] {
            layer.set_precision(precision);
        }
    }

    fn outputs(&self) -> usize {
        SLOTS * CLASSES
    }

    fn rows_at_once(&self) -> usize {
        // Two boards: their hidden layers just fit the cache.
        54
    }

    fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.norm.init(params);
        for layer in [&self.dense1, &self.dense2, &self.skip, &self.out] {
            layer.init(params, stream);
        }
    }

    fn prepare<T: Real>(&self, params: &[T], folded: &mut AlignedVec<T>) {
        folded.ensure(self.prepared_grad_len());
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

    fn prepared_grad_len(&self) -> usize {
        (self.hidden() + self.input() + 1) * CLASSES
    }

    fn prepare_vjp<T: Real>(&self, params: &[T], d_folded: &[T], d_params: &mut [T]) {
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

    fn forward<T: Real>(&self, rows: &Rows<'_, T, Self>, w: &mut CellWork<T>) {
        let Rows { params, prepared: folded, x, .. } = *rows;
        let (h, i) = (self.hidden(), self.input());
        let rows = x.len() / i;
        w.logits.ensure(rows * CLASSES);
        w.normed.ensure(rows * i);
        w.slope.ensure(rows * h);
        w.act.ensure(rows * h);
        let (normed, slope) = (&mut w.normed[..rows * i], &mut w.slope[..rows * h]);
        let (act, logits) = (&mut w.act[..rows * h], &mut w.logits[..rows * CLASSES]);
        self.norm.forward(params, x, normed);
        self.dense1.forward(params, normed, slope);
        gelu_keeping_slope(slope, act);
        let (p, rest) = folded.split_at(h * CLASSES);
        let (r, c) = rest.split_at(i * CLASSES);
        logits.chunks_exact_mut(CLASSES).for_each(|row| row.copy_from_slice(&c[..CLASSES]));
        gemm_in(
            self.out.precision(),
            logits,
            Mat::new(act, rows, h),
            Mat::new(p, h, CLASSES),
            T::ONE,
            T::ONE,
        );
        gemm_in(self.out.precision(), logits, Mat::new(x, rows, i), Mat::new(r, i, CLASSES), T::ONE, T::ONE);
    }

    fn outputs_of<'w, T: Real>(&self, work: &'w mut CellWork<T>, rows: usize) -> &'w mut [T] {
        &mut work.logits[..rows * SLOTS * CLASSES]
    }

    fn vjp<T: Real>(&self, rows: &Rows<'_, T, Self>, w: &mut CellWork<T>, grad: DecoderGrad<'_, T>) {
        let Rows { params, prepared: folded, x, .. } = *rows;
        let (h, i) = (self.hidden(), self.input());
        let rows = x.len() / i;
        let (act, slope) = (&mut w.act[..rows * h], &w.slope[..rows * h]);
        let d_logits = Mat::new(&w.logits, rows, CLASSES);
        let (d_p, rest) = grad.prepared.split_at_mut(h * CLASSES);
        let (d_r, d_c) = rest.split_at_mut(i * CLASSES);
        gemm_in(self.out.precision(), d_p, Mat::new(act, rows, h).t(), d_logits, T::ONE, T::ONE);
        gemm_in(self.out.precision(), d_r, Mat::new(x, rows, i).t(), d_logits, T::ONE, T::ONE);
        for row in w.logits[..rows * CLASSES].chunks_exact(CLASSES) {
            d_c.iter_mut().zip(row).for_each(|(d, &r)| *d += r);
        }
        let (p, rest) = folded.split_at(h * CLASSES);
        gemm_in(self.out.precision(), grad.x, d_logits, Mat::new(rest, i, CLASSES).t(), T::ONE, T::ONE);
        // The activation is no longer needed: its buffer holds its gradient, then the gradient before the gelu.
        gemm_in(self.out.precision(), act, d_logits, Mat::new(p, h, CLASSES).t(), T::ONE, T::ZERO);
        multiply(act, slope);
        let normed = &mut w.normed[..rows * i];
        self.dense1.vjp_weights(normed, act, grad.params);
        self.dense1.vjp_input(params, act, normed);
        self.norm.vjp(params, x, normed, Some(grad.x), grad.params);
    }
}

fn bias(layer: &Linear) -> std::ops::Range<usize> {
    layer.bias().expect("declared with a bias")
}
