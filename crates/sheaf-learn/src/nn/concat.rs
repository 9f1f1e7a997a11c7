//! The first layer of a decoder that reads a view and a state: Linear(RMSNorm(concat(view, x))).
//!
//! Many agents share few distinct views, and RMSNorm only scales a row. So the view's part of the product is computed
//! once per distinct view (a table), and each row adds its own small state part:
//!
//! ```text
//! out = inv·(table[view] + (x∘g_x) W_x) + b,     inv = 1/√((‖view‖² + ‖x‖²)/dim + 1e-6)
//! table = (view∘g_v) W_v
//! ```
//!
//! Adjoint, with ē = d_out and t̄ = ē W_xᵀ: d_table\[view\] += inv·ē, d_b += ē, d_W_x += (inv·x∘g_x)ᵀ ē,
//! d_inv = ē·table\[view\] + (x∘g_x)·t̄, d_x += inv·g_x∘t̄ − d_inv·inv³·x/dim, d_g_x += inv·x∘t̄.
//!
//! | name | shape |
//! | --- | --- |
//! | view | `[views, view_len]` |
//! | x | `[rows, state_len]` |
//! | table | `[views, output]` |
//! | out | `[rows, output]` |

use std::ops::Range;

use crate::nn::{Init, check_params, product};
use crate::params::ParamLayout;
use crate::rng::Stream;
use sheaf_admm::error::check_len;
use sheaf_admm::{Error, ErrorKind, Real, Result};
use sheaf_kernels::Precision;
use sheaf_kernels::gemm::{Mat, gemm_in};
use sheaf_kernels::simd::{fma, kernel};
use sheaf_kernels::vector::{axpy, dot};

/// RMSNorm and linear layer over a view and a state side by side.
///
/// Saves: x, x∘g_x, inv and the table, kept by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConcatDense {
    scale: Range<usize>, // [view_len + state_len]
    w: Range<usize>,     // [view_len + state_len, output]
    b: Range<usize>,     // [output]
    view_len: usize,
    state_len: usize,
    output: usize,
    precision: Precision,
}

impl ConcatDense {
    /// Declares `norm/scale`, `dense/kernel` and `dense/bias`.
    pub fn new(
        layout: &mut ParamLayout,
        norm: &str,
        dense: &str,
        view_len: usize,
        state_len: usize,
        output: usize,
    ) -> Self {
        let input = view_len.saturating_add(state_len);
        Self {
            scale: layout.add(format!("{norm}/scale"), &[input]),
            w: layout.add(format!("{dense}/kernel"), &[input, output]),
            b: layout.add(format!("{dense}/bias"), &[output]),
            view_len,
            state_len,
            output,
            precision: Precision::Full,
        }
    }

    /// Sets the precision of the products, forward and adjoint.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// Width of a row of `out`.
    pub fn output(&self) -> usize {
        self.output
    }

    /// Unit scales, LeCun-normal weights, zero bias.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        params[self.scale.clone()].fill(T::ONE);
        let input = self.view_len + self.state_len;
        Init::LecunNormal.fill(&mut params[self.w.clone()], input, self.output, stream);
        params[self.b.clone()].fill(T::ZERO);
    }

    fn parts<'p, T: Real>(&self, params: &'p [T]) -> Parts<'p, T> {
        let (g_v, g_x) = params[self.scale.clone()].split_at(self.view_len);
        let (w_v, w_x) = params[self.w.clone()].split_at(self.view_len * self.output);
        Parts { g_v, g_x, w_v, w_x, b: &params[self.b.clone()] }
    }

    /// Checks the requirements of [`forward`](Self::forward), including that every view has a row in the table; returns
    /// the number of rows.
    pub fn check<T>(&self, params: &[T], table: &[T], index: &[u32], x: &[T], out: &[T]) -> Result<usize> {
        check_params(params, [&self.scale, &self.w, &self.b])?;
        let input = self.view_len.saturating_add(self.state_len);
        check_len("layer: scale", input, self.scale.len())?;
        check_len("layer: kernel", product([input, self.output]), self.w.len())?;
        check_len("layer: x, a row for each view", index.len().saturating_mul(self.state_len), x.len())?;
        check_len("layer: out, a row for each view", index.len().saturating_mul(self.output), out.len())?;
        let views = table.len().checked_div(self.output).unwrap_or(0);
        match index.iter().position(|&view| view as usize >= views) {
            None => Ok(index.len()),
            Some(row) => {
                let (place, expected) = (format!("layer: view of row {row}"), format!("below {views}"));
                Err(Error::new(ErrorKind::OutOfRange, place, expected, index[row]))
            }
        }
    }

    /// table = (view∘g_v) W_v; `scaled` is scratch like `views`.
    pub fn view_table<T: Real>(&self, params: &[T], views: &[T], table: &mut [T], scaled: &mut [T]) {
        let p = self.parts(params);
        let rows = views.len().checked_div(self.view_len).unwrap_or(0);
        scale_rows(views, p.g_v, scaled);
        let w = Mat::new(p.w_v, self.view_len, self.output);
        gemm_in(self.precision, table, Mat::new(scaled, rows, self.view_len), w, T::ONE, T::ZERO);
    }

    /// Adjoint of [`view_table`](Self::view_table) for the parameters; `scaled` is scratch like `views`.
    pub fn view_table_vjp<T: Real>(
        &self,
        params: &[T],
        views: &[T],
        d_table: &[T],
        d_params: &mut [T],
        scaled: &mut [T],
    ) {
        let p = self.parts(params);
        let rows = views.len().checked_div(self.view_len).unwrap_or(0);
        scale_rows(views, p.g_v, scaled);
        let d_table = Mat::new(d_table, rows, self.output);
        let d_w = &mut d_params[self.w.start..][..self.view_len * self.output];
        gemm_in(self.precision, d_w, Mat::new(scaled, rows, self.view_len).t(), d_table, T::ONE, T::ONE);
        gemm_in(
            self.precision,
            scaled,
            d_table,
            Mat::new(p.w_v, self.view_len, self.output).t(),
            T::ONE,
            T::ZERO,
        );
        let d_g = &mut d_params[self.scale.start..][..self.view_len];
        for (view, d) in
            views.chunks_exact(self.view_len.max(1)).zip(scaled.chunks_exact(self.view_len.max(1)))
        {
            d_g.iter_mut().zip(view).zip(d).for_each(|((g, &v), &d)| *g += v * d);
        }
    }

    /// out = inv·(table\[view\] + (x∘g_x) W_x) + b. `squares[view]` is ‖view‖²; `index` names each row's view. Fills
    /// `scaled` (x∘g_x, like `x`) and `inv` `[rows]` for the adjoint.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        table: &[T],
        squares: &[T],
        index: &[u32],
        x: &[T],
        scaled: &mut [T],
        inv: &mut [T],
        out: &mut [T],
    ) {
        let p = self.parts(params);
        scale_rows(x, p.g_x, scaled);
        let (rows, dim) = (index.len(), T::from_f64((self.view_len + self.state_len) as f64));
        let w = Mat::new(p.w_x, self.state_len, self.output);
        gemm_in(self.precision, out, Mat::new(scaled, rows, self.state_len), w, T::ONE, T::ZERO);
        for ((inv, x), &view) in inv.iter_mut().zip(x.chunks_exact(self.state_len.max(1))).zip(index) {
            let square = squares[view as usize] + x.iter().map(|&x| x * x).sum::<T>();
            *inv = T::ONE / (square / dim + T::from_f64(1e-6)).sqrt();
        }
        affine_rows(table, index, inv, p.b, out);
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_x`, `d_table` and the state's part of `d_params`.
    /// `d_scaled` is scratch like `x`; `scaled` is overwritten.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        table: &[T],
        index: &[u32],
        x: &[T],
        scaled: &mut [T],
        inv: &[T],
        d_out: &[T],
        d_x: &mut [T],
        d_table: &mut [T],
        d_params: &mut [T],
        d_scaled: &mut [T],
    ) {
        let p = self.parts(params);
        let (rows, n, dim) = (index.len(), self.output, T::from_f64((self.view_len + self.state_len) as f64));
        let d_out_mat = Mat::new(d_out, rows, n);
        gemm_in(self.precision, d_scaled, d_out_mat, Mat::new(p.w_x, self.state_len, n).t(), T::ONE, T::ZERO);
        let (d_gx, s) = (self.scale.start + self.view_len, self.state_len);
        for (i, &view) in index.iter().enumerate() {
            let (row, place) = (&d_out[i * n..][..n], view as usize * n);
            let (x, d_s, xs) = (&x[i * s..][..s], &d_scaled[i * s..][..s], &mut scaled[i * s..][..s]);
            axpy(&mut d_table[place..][..n], inv[i], row);
            let along: T = xs.iter().zip(d_s).map(|(&a, &b)| a * b).sum();
            let d_inv = dot(row, &table[place..][..n]) + along;
            let pull = d_inv * inv[i] * inv[i] * inv[i] / dim;
            for k in 0..s {
                d_x[i * s + k] += inv[i] * p.g_x[k] * d_s[k] - pull * x[k];
                d_params[d_gx + k] += inv[i] * x[k] * d_s[k];
                xs[k] *= inv[i];
            }
        }
        let d_w = &mut d_params[self.w.start + self.view_len * n..self.w.end];
        gemm_in(self.precision, d_w, Mat::new(scaled, rows, s).t(), d_out_mat, T::ONE, T::ONE);
        let d_b = &mut d_params[self.b.clone()];
        d_out.chunks_exact(n.max(1)).for_each(|row| axpy(d_b, T::ONE, row));
    }
}

struct Parts<'p, T> {
    g_v: &'p [T],
    g_x: &'p [T],
    w_v: &'p [T],
    w_x: &'p [T],
    b: &'p [T],
}

fn scale_rows<T: Real>(x: &[T], g: &[T], out: &mut [T]) {
    let n = g.len().max(1);
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        out.iter_mut().zip(x).zip(g).for_each(|((o, &x), &g)| *o = x * g);
    }
}

#[inline(always)]
fn affine_rows_body<T: Real, const FMA: bool>(table: &[T], index: &[u32], inv: &[T], b: &[T], out: &mut [T]) {
    let n = b.len();
    for ((out, &view), &inv) in out.chunks_exact_mut(n.max(1)).zip(index).zip(inv) {
        let table = &table[view as usize * n..][..n];
        for ((o, &t), &b) in out.iter_mut().zip(table).zip(b) {
            *o = fma::<T, FMA>(inv, *o + t, b);
        }
    }
}

kernel! {
    /// out = inv·(out + table\[view\]) + b, row by row.
    fn affine_rows, affine_rows_at<T>(table: &[T], index: &[u32], inv: &[T], b: &[T], out: &mut [T])
        = affine_rows_body;
}
