//! Gated two-layer perceptron.
//!
//! Forward: (gate, up) = x W₁ + b₁, y = (silu(gate)·up) W₂ + b₂, along the middle axis of [rows, axis, cols]
//! (cols = 1: along the rows' own axis). Adjoint: the three steps in reverse.
//!
//! | name | shape | |
//! | --- | --- | --- |
//! | x, y | rows, input, cols | |
//! | gate, up | rows, 2·hidden, cols | gate first; W₁, b₁ are `name/gate_up/…` |
//! | product | rows, hidden, cols | W₂, b₂ are `name/down/…` |
//! | saved | gate and up, then product | |
//! | scratch | d_product, then d_gate and d_up | |

use crate::nn::activation::{swiglu, swiglu_vjp};
use crate::nn::{Linear, check_hidden, check_rows, check_saved, product};
use crate::params::ParamLayout;
use crate::rng::Stream;
use sheaf_admm::{Real, Result};
use sheaf_kernels::Precision;

/// y = (silu(gate)·up) W₂ + b₂ with (gate, up) = x W₁ + b₁; y is as wide as x.
///
/// Saves: `x`, kept by the caller, and `saved`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwiGlu {
    gate_up: Linear,
    down: Linear,
}

impl SwiGlu {
    /// Declares `name/gate_up` and `name/down`, both with bias.
    pub fn new(layout: &mut ParamLayout, name: &str, width: usize, hidden: usize) -> Self {
        let gate_up = Linear::new(layout, &format!("{name}/gate_up"), width, hidden.saturating_mul(2), true);
        let down = Linear::new(layout, &format!("{name}/down"), hidden, width, true);
        Self { gate_up, down }
    }

    /// Sets the precision of the products, forward and adjoint.
    pub fn set_precision(&mut self, precision: Precision) {
        self.gate_up.set_precision(precision);
        self.down.set_precision(precision);
    }

    /// LeCun-normal weights, zero biases.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.gate_up.init(params, stream);
        self.down.init(params, stream);
    }

    /// Length of `saved` for `lines` = rows·cols.
    pub fn saved_len(&self, lines: usize) -> usize {
        product([3, self.down.input(), lines])
    }

    /// Length of `scratch` for `lines` = rows·cols.
    pub fn scratch_len(&self, lines: usize) -> usize {
        product([3, self.down.input(), lines])
    }

    /// Checks the requirements of the other calls; returns the number of lines, rows·cols.
    pub fn check<T>(&self, params: &[T], x: &[T], cols: usize, y: &[T], saved: &[T]) -> Result<usize> {
        let width = self.gate_up.input();
        self.gate_up.check_params(params)?;
        self.down.check_params(params)?;
        check_rows(x, width.saturating_mul(cols), y, width.saturating_mul(cols))?;
        let lines = x.len().checked_div(width).unwrap_or(0);
        check_hidden(lines, self.down.input())?;
        check_saved(self.saved_len(lines), saved)?;
        Ok(lines)
    }

    /// Overwrites `y`.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        x: &[T], // [rows, width, cols]
        cols: usize,
        y: &mut [T],     // [rows, width, cols]
        saved: &mut [T], // saved_len(rows·cols)
    ) {
        let lines = x.len().checked_div(self.gate_up.input()).unwrap_or(0);
        let (gate_up, product) = saved[..self.saved_len(lines)].split_at_mut(self.gate_up.output() * lines);
        self.gate_up.forward_along(params, x, cols, gate_up);
        swiglu(gate_up, self.down.input() * cols, product);
        self.down.forward_along(params, product, cols, y);
    }

    /// Adjoint of [`SwiGlu::forward`]; `d_x` is optional.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        x: &[T], // [rows, width, cols]
        cols: usize,
        saved: &[T],           // saved_len(rows·cols)
        d_y: &[T],             // [rows, width, cols]
        d_x: Option<&mut [T]>, // [rows, width, cols]
        d_params: &mut [T],
        scratch: &mut [T], // scratch_len(rows·cols)
    ) {
        let lines = x.len().checked_div(self.gate_up.input()).unwrap_or(0);
        let (gate_up, product) = saved[..self.saved_len(lines)].split_at(self.gate_up.output() * lines);
        let scratch = &mut scratch[..self.scratch_len(lines)];
        scratch.fill(T::ZERO);
        let (d_product, d_gate_up) = scratch.split_at_mut(product.len());
        self.down.vjp_along(params, product, cols, d_y, Some(d_product), d_params);
        swiglu_vjp(gate_up, self.down.input() * cols, d_product, d_gate_up);
        self.gate_up.vjp_along(params, x, cols, d_gate_up, d_x, d_params);
    }
}
