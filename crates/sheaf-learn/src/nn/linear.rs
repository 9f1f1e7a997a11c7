//! Linear layer.
//!
//! Forward: y = x W + b. Adjoint: d_x += d_y Wᵀ, d_W += xᵀ d_y, d_b += column sums of d_y.
//!
//! | name | shape | |
//! | --- | --- | --- |
//! | x | rows, input | |
//! | W | input, output | `name/kernel` |
//! | b | output | `name/bias`, optional |
//! | y | rows, output | |
//!
//! The `…_along` pair applies the same layer to the middle axis of [rows, axis, cols], which is Y = Wᵀ X + b·1ᵀ for
//! every row: mixing over cells then needs no transposed copy.

use std::ops::Range;

use crate::nn::{Init, check_params, check_rows, product};
use crate::params::ParamLayout;
use crate::rng::Stream;
use sheaf_admm::error::check_len;
use sheaf_admm::{Real, Result};
use sheaf_kernels::Precision;
use sheaf_kernels::gemm::{Mat, gemm_in};
use sheaf_kernels::reduce::sum;
use sheaf_kernels::simd::kernel;
use sheaf_kernels::vector::add;

/// y = x W + b.
///
/// Saves: `x`, kept by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linear {
    w: Range<usize>,
    b: Option<Range<usize>>,
    input: usize,
    output: usize,
    precision: Precision,
}

impl Linear {
    /// Declares `name/kernel` and, with `bias`, `name/bias`.
    pub fn new(layout: &mut ParamLayout, name: &str, input: usize, output: usize, bias: bool) -> Self {
        let w = layout.add(format!("{name}/kernel"), &[input, output]);
        let b = bias.then(|| layout.add(format!("{name}/bias"), &[output]));
        Self { w, b, input, output, precision: Precision::Full }
    }

    /// Sets the precision of the products, forward and adjoint.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// The precision of the products.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Width of a row of `x`.
    pub fn input(&self) -> usize {
        self.input
    }

    /// Width of a row of `y`.
    pub fn output(&self) -> usize {
        self.output
    }

    /// The range of W in the parameter vector.
    pub fn weight(&self) -> Range<usize> {
        self.w.clone()
    }

    /// The range of b in the parameter vector.
    pub fn bias(&self) -> Option<Range<usize>> {
        self.b.clone()
    }

    /// LeCun-normal weights, zero bias.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.init_with(params, Init::LecunNormal, Init::Zeros, stream);
    }

    /// Initial values from the given distribution.
    pub fn init_with<T: Real>(&self, params: &mut [T], weight: Init, bias: Init, stream: &mut Stream) {
        weight.fill(&mut params[self.w.clone()], self.input, self.output, stream);
        if let Some(b) = &self.b {
            bias.fill(&mut params[b.clone()], self.input, self.output, stream);
        }
    }

    /// Checks the requirements of the other calls; returns the number of rows.
    pub fn check<T>(&self, params: &[T], x: &[T], y: &[T]) -> Result<usize> {
        self.check_params(params)?;
        check_rows(x, self.input, y, self.output)
    }

    /// Checks that the parameters exist. A layout allocates nothing for a tensor that exceeds the address space.
    pub(super) fn check_params<T>(&self, params: &[T]) -> Result<()> {
        check_params(params, std::iter::once(&self.w).chain(&self.b))?;
        check_len("layer: kernel", product([self.input, self.output]), self.w.len())?;
        check_len("layer: bias", self.output, self.b.as_ref().map_or(self.output, |b| b.len()))
    }

    /// y = x W + b.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        x: &[T],     // [rows, input]
        y: &mut [T], // [rows, output]
    ) {
        let rows = self.rows(x, y);
        let beta = match &self.b {
            Some(b) => {
                let b = &params[b.clone()];
                y.chunks_exact_mut(self.output.max(1)).for_each(|row| row.copy_from_slice(b));
                T::ONE
            }
            None => T::ZERO,
        };
        let w = Mat::new(&params[self.w.clone()], self.input, self.output);
        gemm_in(self.precision, y, Mat::new(x, rows, self.input), w, T::ONE, beta);
    }

    /// y += x W + b, for the layer of a skip connection.
    pub fn forward_add<T: Real>(
        &self,
        params: &[T],
        x: &[T],     // [rows, input]
        y: &mut [T], // [rows, output]
    ) {
        let rows = self.rows(x, y);
        if let Some(b) = &self.b {
            let b = &params[b.clone()];
            y.chunks_exact_mut(self.output.max(1)).for_each(|row| add(row, b));
        }
        let w = Mat::new(&params[self.w.clone()], self.input, self.output);
        gemm_in(self.precision, y, Mat::new(x, rows, self.input), w, T::ONE, T::ONE);
    }

    /// Adjoint of [`Linear::forward`] and [`Linear::forward_add`]; `d_x` is optional.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        x: &[T],               // [rows, input]
        d_y: &[T],             // [rows, output]
        d_x: Option<&mut [T]>, // [rows, input]
        d_params: &mut [T],
    ) {
        if let Some(d_x) = d_x {
            let rows = self.rows(x, d_y);
            let w = Mat::new(&params[self.w.clone()], self.input, self.output);
            gemm_in(self.precision, d_x, Mat::new(d_y, rows, self.output), w.t(), T::ONE, T::ONE);
        }
        self.vjp_weights(x, d_y, d_params);
    }

    /// d_x = d_y Wᵀ, overwriting: for callers that reuse the buffer of `x` for its gradient.
    pub fn vjp_input<T: Real>(
        &self,
        params: &[T],
        d_y: &[T],     // [rows, output]
        d_x: &mut [T], // [rows, input]
    ) {
        let rows = self.rows(d_x, d_y);
        let w = Mat::new(&params[self.w.clone()], self.input, self.output);
        gemm_in(self.precision, d_x, Mat::new(d_y, rows, self.output), w.t(), T::ONE, T::ZERO);
    }

    /// The adjoint of the weights alone.
    pub fn vjp_weights<T: Real>(
        &self,
        x: &[T],   // [rows, input]
        d_y: &[T], // [rows, output]
        d_params: &mut [T],
    ) {
        let rows = self.rows(x, d_y);
        let d_y_mat = Mat::new(d_y, rows, self.output);
        let d_w = &mut d_params[self.w.clone()];
        gemm_in(self.precision, d_w, Mat::new(x, rows, self.input).t(), d_y_mat, T::ONE, T::ONE);
        if let Some(b) = &self.b {
            column_sums(d_y, &mut d_params[b.clone()]);
        }
    }

    /// Y = Wᵀ X + b·1ᵀ for every row: the layer along the middle axis.
    pub fn forward_along<T: Real>(
        &self,
        params: &[T],
        x: &[T], // [rows, input, cols]
        cols: usize,
        y: &mut [T], // [rows, output, cols]
    ) {
        if cols == 1 {
            return self.forward(params, x, y);
        }
        let w = Mat::new(&params[self.w.clone()], self.input, self.output);
        let (wide_in, wide_out) = ((self.input * cols).max(1), (self.output * cols).max(1));
        for (x, y) in x.chunks_exact(wide_in).zip(y.chunks_exact_mut(wide_out)) {
            let beta = match &self.b {
                Some(b) => {
                    let b = &params[b.clone()];
                    y.chunks_exact_mut(cols).zip(b).for_each(|(line, &b)| line.fill(b));
                    T::ONE
                }
                None => T::ZERO,
            };
            gemm_in(self.precision, y, w.t(), Mat::new(x, self.input, cols), T::ONE, beta);
        }
    }

    /// Adjoint of [`Linear::forward_along`]; `d_x` is optional.
    pub fn vjp_along<T: Real>(
        &self,
        params: &[T],
        x: &[T], // [rows, input, cols]
        cols: usize,
        d_y: &[T],                 // [rows, output, cols]
        mut d_x: Option<&mut [T]>, // [rows, input, cols]
        d_params: &mut [T],
    ) {
        if cols == 1 {
            return self.vjp(params, x, d_y, d_x, d_params);
        }
        let (wide_in, wide_out) = ((self.input * cols).max(1), (self.output * cols).max(1));
        for (r, (x, d_y)) in x.chunks_exact(wide_in).zip(d_y.chunks_exact(wide_out)).enumerate() {
            let d_y_mat = Mat::new(d_y, self.output, cols);
            if let Some(d_x) = d_x.as_deref_mut() {
                let w = Mat::new(&params[self.w.clone()], self.input, self.output);
                gemm_in(self.precision, &mut d_x[r * wide_in..(r + 1) * wide_in], w, d_y_mat, T::ONE, T::ONE);
            }
            let d_w = &mut d_params[self.w.clone()];
            gemm_in(self.precision, d_w, Mat::new(x, self.input, cols), d_y_mat.t(), T::ONE, T::ONE);
            if let Some(b) = &self.b {
                line_sums(d_y, &mut d_params[b.clone()]);
            }
        }
    }

    fn rows<T>(&self, x: &[T], y: &[T]) -> usize {
        let rows = x.len().checked_div(self.input).unwrap_or(0);
        debug_assert_eq!(x.len(), rows * self.input, "linear: x is not a whole number of rows");
        debug_assert_eq!(y.len(), rows * self.output, "linear: x and y differ in rows");
        rows
    }
}

kernel! {
    /// sums += the sum of all rows of `m`.
    pub(crate) fn column_sums, column_sums_at<T>(m: &[T], sums: &mut [T]) = column_sums_body;
}

#[inline(always)]
fn column_sums_body<T: Real, const FMA: bool>(m: &[T], sums: &mut [T]) {
    for row in m.chunks_exact(sums.len().max(1)) {
        for (sum, &v) in sums.iter_mut().zip(row) {
            *sum += v;
        }
    }
}

kernel! {
    /// sums += the sum of every line of `m`, [lines, cols].
    fn line_sums, line_sums_at<T>(m: &[T], sums: &mut [T]) = line_sums_body;
}

#[inline(always)]
fn line_sums_body<T: Real, const FMA: bool>(m: &[T], sums: &mut [T]) {
    let cols = m.len().checked_div(sums.len()).unwrap_or(0);
    for (line, total) in m.chunks_exact(cols.max(1)).zip(sums) {
        *total += sum(line);
    }
}
