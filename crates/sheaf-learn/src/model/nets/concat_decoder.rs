//! A decoder that reads the view and the state: outputs = out(gelu(dense(rms(concat(one-hot view, x))))).
//!
//! The view's part of the first product is computed once per distinct view; see [`ConcatDense`].

use sheaf_admm::Real;
use sheaf_kernels::Precision;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::multiply;

use super::token_mlp::one_hot;
use crate::model::net::{Decoder, DecoderGrad, Rows};
use crate::nn::{ConcatDense, Linear, activation};
use crate::params::ParamLayout;
use crate::rng::Stream;

/// The layers.
#[derive(Clone, Debug)]
pub struct ConcatDecoder {
    dense: ConcatDense,
    out: Linear,
    tokens: usize,
    classes: usize,
}

/// What depends on a view.
#[derive(Clone, Debug, Default)]
pub struct ConcatTable<T: Copy + Default> {
    one_hot: AlignedVec<T>, // [views, tokens·classes]
    scaled: AlignedVec<T>,  // [views, tokens·classes]
    dense: AlignedVec<T>,   // [views, hidden]
    squares: AlignedVec<T>, // [views], ‖view‖²
}

/// Outputs of some rows, and what the adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct ConcatWork<T: Copy + Default> {
    scaled: AlignedVec<T>,   // [rows, d_v]
    d_scaled: AlignedVec<T>, // [rows, d_v]
    inv: AlignedVec<T>,      // [rows]
    slope: AlignedVec<T>,    // [rows, hidden]
    act: AlignedVec<T>,      // [rows, hidden]
    outputs: AlignedVec<T>,  // [rows, outputs]
}

impl ConcatDecoder {
    /// Declares `decoder/input_norm`, `decoder/dense` and `decoder/out`, for views of this many tokens.
    pub fn new(
        layout: &mut ParamLayout,
        tokens: usize,
        classes: usize,
        d_v: usize,
        hidden: usize,
        outputs: usize,
    ) -> Self {
        let input = tokens * classes;
        Self {
            dense: ConcatDense::new(layout, "decoder/input_norm", "decoder/dense", input, d_v, hidden),
            out: Linear::new(layout, "decoder/out", hidden, outputs, true),
            tokens,
            classes,
        }
    }

    fn input(&self) -> usize {
        self.tokens * self.classes
    }
}

impl Decoder for ConcatDecoder {
    type Prepared<T: Real> = ();
    type Table<T: Real> = ConcatTable<T>;
    type Work<T: Real> = ConcatWork<T>;

    fn set_precision(&mut self, precision: Precision) {
        self.dense.set_precision(precision);
        self.out.set_precision(precision);
    }

    fn outputs(&self) -> usize {
        self.out.output()
    }

    fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.dense.init(params, stream);
        self.out.init(params, stream);
    }

    fn tabulate<T: Real>(&self, params: &[T], views: &[f32], t: &mut ConcatTable<T>) {
        let (count, input) = (views.len() / self.tokens, self.input());
        t.one_hot.ensure(count * input);
        t.scaled.ensure(count * input);
        t.squares.ensure(count);
        t.dense.ensure(count * self.dense.output());
        let one_hot_view = &mut t.one_hot[..count * input];
        one_hot(views, self.classes, one_hot_view);
        for (square, view) in t.squares.iter_mut().zip(one_hot_view.chunks_exact(input)) {
            *square = view.iter().map(|&v| v * v).sum();
        }
        let (table, scaled) = (&mut t.dense[..count * self.dense.output()], &mut t.scaled[..count * input]);
        self.dense.view_table(params, one_hot_view, table, scaled);
    }

    fn table_grad_len(&self, views: usize) -> usize {
        views * self.dense.output()
    }

    fn tabulate_vjp<T: Real>(
        &self,
        params: &[T],
        views: &[f32],
        d_table: &[T],
        t: &mut ConcatTable<T>,
        d_params: &mut [T],
    ) {
        let len = views.len() / self.tokens * self.input();
        self.dense.view_table_vjp(params, &t.one_hot[..len], d_table, d_params, &mut t.scaled[..len]);
    }

    fn forward<T: Real>(&self, rows: &Rows<'_, T, Self>, w: &mut ConcatWork<T>) {
        let Rows { params, table: t, index, x, .. } = *rows;
        let (rows, hidden) = (index.len(), index.len() * self.dense.output());
        w.scaled.ensure(x.len());
        w.inv.ensure(rows);
        w.slope.ensure(hidden);
        w.act.ensure(hidden);
        w.outputs.ensure(rows * self.outputs());
        let (slope, act) = (&mut w.slope[..hidden], &mut w.act[..hidden]);
        let scaled = &mut w.scaled[..x.len()];
        self.dense.forward(params, &t.dense, &t.squares, index, x, scaled, &mut w.inv, slope);
        activation::gelu_keeping_slope(slope, act);
        self.out.forward(params, act, &mut w.outputs[..rows * self.out.output()]);
    }

    fn outputs_of<'w, T: Real>(&self, work: &'w mut ConcatWork<T>, rows: usize) -> &'w mut [T] {
        &mut work.outputs[..rows * self.outputs()]
    }

    fn vjp<T: Real>(&self, rows: &Rows<'_, T, Self>, w: &mut ConcatWork<T>, grad: DecoderGrad<'_, T>) {
        let Rows { params, table: t, index, x, .. } = *rows;
        let hidden = index.len() * self.dense.output();
        let d_outputs = &w.outputs[..index.len() * self.out.output()];
        let (slope, act) = (&mut w.slope[..hidden], &mut w.act[..hidden]);
        self.out.vjp_weights(act, d_outputs, grad.params);
        // The activation is no longer needed: its buffer holds its gradient from here.
        self.out.vjp_input(params, d_outputs, act);
        multiply(slope, act);
        w.d_scaled.ensure(x.len());
        self.dense.vjp(
            params,
            &t.dense,
            index,
            x,
            &mut w.scaled[..x.len()],
            &w.inv,
            slope,
            grad.x,
            grad.table,
            grad.params,
            &mut w.d_scaled[..x.len()],
        );
    }
}
