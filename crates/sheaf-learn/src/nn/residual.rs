//! Residual block.
//!
//! Forward: y = skip(x) + gelu(RMSNorm(x) W₁ + b₁) W₂ + b₂, where skip is the identity or a linear layer of its own.
//! Adjoint: the branch in reverse, and d_y through the skip.
//!
//! | name | shape | |
//! | --- | --- | --- |
//! | x | rows, input | |
//! | normed | rows, input | `name/norm/scale` |
//! | slope, act | rows, hidden | gelu and its slope; W₁, b₁ are `name/dense1/…` |
//! | y | rows, output | W₂, b₂ are `name/dense2/…`; a linear skip is `name/residual_proj/…` |
//! | saved | normed, slope, act | |
//! | scratch | d_act, d_normed | |

use crate::nn::activation::gelu_keeping_slope;
use crate::nn::{Linear, RmsNorm, check_hidden, check_rows, check_saved, product};
use crate::params::ParamLayout;
use crate::rng::Stream;
use sheaf_admm::{Real, Result};
use sheaf_kernels::Precision;
use sheaf_kernels::vector::add;

/// y = skip(x) + Linear(gelu(Linear(RMSNorm(x)))).
///
/// Saves: `x`, kept by the caller, and `saved`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residual {
    norm: RmsNorm,
    dense1: Linear,
    dense2: Linear,
    skip: Option<Linear>,
}

impl Residual {
    /// Declares a block whose skip is the identity.
    pub fn new(layout: &mut ParamLayout, name: &str, width: usize, hidden: usize) -> Self {
        Self {
            norm: RmsNorm::new(layout, &format!("{name}/norm"), width),
            dense1: Linear::new(layout, &format!("{name}/dense1"), width, hidden, true),
            dense2: Linear::new(layout, &format!("{name}/dense2"), hidden, width, true),
            skip: None,
        }
    }

    /// Declares a block whose skip is a linear layer, so that y may differ from x in width.
    pub fn projected(
        layout: &mut ParamLayout,
        name: &str,
        input: usize,
        hidden: usize,
        output: usize,
    ) -> Self {
        Self {
            norm: RmsNorm::new(layout, &format!("{name}/norm"), input),
            dense1: Linear::new(layout, &format!("{name}/dense1"), input, hidden, true),
            dense2: Linear::new(layout, &format!("{name}/dense2"), hidden, output, true),
            skip: Some(Linear::new(layout, &format!("{name}/residual_proj"), input, output, true)),
        }
    }

    /// Sets the precision of the products, forward and adjoint.
    pub fn set_precision(&mut self, precision: Precision) {
        for layer in [&mut self.dense1, &mut self.dense2].into_iter().chain(&mut self.skip) {
            layer.set_precision(precision);
        }
    }

    /// Width of a row of `x`.
    pub fn input(&self) -> usize {
        self.dense1.input()
    }

    /// Width of a row of `y`.
    pub fn output(&self) -> usize {
        self.dense2.output()
    }

    /// LeCun-normal weights, zero biases, scale 1.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.norm.init(params);
        self.dense1.init(params, stream);
        self.dense2.init(params, stream);
        if let Some(skip) = &self.skip {
            skip.init(params, stream);
        }
    }

    /// Length of `saved` for this many rows.
    pub fn saved_len(&self, rows: usize) -> usize {
        product([2, rows, self.dense1.output()]).saturating_add(product([rows, self.input()]))
    }

    /// Length of `scratch` for this many rows.
    pub fn scratch_len(&self, rows: usize) -> usize {
        product([rows, self.dense1.output()]).saturating_add(product([rows, self.input()]))
    }

    /// Checks the requirements of the other calls; returns the number of rows.
    pub fn check<T>(&self, params: &[T], x: &[T], y: &[T], saved: &[T]) -> Result<usize> {
        let mut layers = [&self.dense1, &self.dense2].into_iter().chain(&self.skip);
        layers.try_for_each(|layer| layer.check_params(params))?;
        self.norm.check(params, x, x)?;
        let rows = check_rows(x, self.input(), y, self.output())?;
        check_hidden(rows, self.dense2.input())?;
        check_saved(self.saved_len(rows), saved)?;
        Ok(rows)
    }

    /// Overwrites `y`.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        x: &[T],         // [rows, input]
        y: &mut [T],     // [rows, output]
        saved: &mut [T], // saved_len(rows)
    ) {
        let rows = x.len().checked_div(self.input()).unwrap_or(0);
        let (normed, rest) = saved[..self.saved_len(rows)].split_at_mut(x.len());
        let (slope, act) = rest.split_at_mut(rows * self.dense1.output());
        self.norm.forward(params, x, normed);
        self.dense1.forward(params, normed, slope);
        gelu_keeping_slope(slope, act);
        self.dense2.forward(params, act, y);
        match &self.skip {
            Some(skip) => skip.forward_add(params, x, y),
            None => add(y, x),
        }
    }

    /// Adjoint of [`Residual::forward`]; `d_x` is optional.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        x: &[T],                   // [rows, input]
        saved: &[T],               // saved_len(rows)
        d_y: &[T],                 // [rows, output]
        mut d_x: Option<&mut [T]>, // [rows, input]
        d_params: &mut [T],
        scratch: &mut [T], // scratch_len(rows)
    ) {
        let rows = x.len().checked_div(self.input()).unwrap_or(0);
        let (normed, rest) = saved[..self.saved_len(rows)].split_at(x.len());
        let (slope, act) = rest.split_at(rows * self.dense1.output());
        let scratch = &mut scratch[..self.scratch_len(rows)];
        scratch.fill(T::ZERO);
        let (d_act, d_normed) = scratch.split_at_mut(act.len());

        self.dense2.vjp(params, act, d_y, Some(d_act), d_params);
        // From here d_act is the gradient before the gelu.
        d_act.iter_mut().zip(slope).for_each(|(d, &slope)| *d *= slope);
        self.dense1.vjp(params, normed, d_act, Some(d_normed), d_params);
        self.norm.vjp(params, x, d_normed, d_x.as_deref_mut(), d_params);
        match (&self.skip, d_x) {
            (Some(skip), d_x) => skip.vjp(params, x, d_y, d_x, d_params),
            (None, Some(d_x)) => add(d_x, d_y),
            (None, None) => {}
        }
    }
}
