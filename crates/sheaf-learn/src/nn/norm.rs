//! Normalisation of every row.
//!
//! RMSNorm: y = x·r·g with r = 1/sqrt(mean(x²) + ε). Adjoint, with e = g·d_y and n the width:
//! d_x += r·e − x·r³·⟨e, x⟩/n, d_g += Σ_rows d_y·x·r.
//!
//! LayerNorm: y = c·r·g + b with c = x − mean(x), v = max(0, mean(x²) − mean(x)²), r = 1/sqrt(v + ε). Adjoint:
//! d_x += r·(e − mean(e)) − c·r³·⟨e, c⟩/n, d_g += Σ_rows d_y·c·r, d_b += Σ_rows d_y. The last term of d_x comes
//! through v and is absent where the max holds v at 0 (rounding can make the difference 0 or negative).
//!
//! | name | shape | |
//! | --- | --- | --- |
//! | x, y | rows, dim | |
//! | g | dim | `name/scale` |
//! | b | dim | `name/bias` |

use std::ops::Range;

use crate::nn::{check_params, check_rows};
use crate::params::ParamLayout;
use sheaf_admm::{Real, Result};
use sheaf_kernels::reduce::{dot, dot3, sum};
use sheaf_kernels::simd::{fma, kernel};

/// ε of both norms.
pub const EPSILON: f64 = 1e-6;

/// y = x/sqrt(mean(x²) + ε)·g.
///
/// Saves: `x`, kept by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RmsNorm {
    scale: Range<usize>,
}

impl RmsNorm {
    /// Declares `name/scale`.
    pub fn new(layout: &mut ParamLayout, name: &str, dim: usize) -> Self {
        Self { scale: layout.add(format!("{name}/scale"), &[dim]) }
    }

    /// Width of a row.
    pub fn dim(&self) -> usize {
        self.scale.len()
    }

    /// Scale 1.
    pub fn init<T: Real>(&self, params: &mut [T]) {
        params[self.scale.clone()].fill(T::ONE);
    }

    /// Checks the requirements of the other calls; returns the number of rows.
    pub fn check<T>(&self, params: &[T], x: &[T], y: &[T]) -> Result<usize> {
        check_params(params, [&self.scale])?;
        check_rows(x, self.dim(), y, self.dim())
    }

    /// y = x·r·g.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        x: &[T],     // [rows, dim]
        y: &mut [T], // [rows, dim]
    ) {
        debug_assert!(x.len() == y.len() && x.len().is_multiple_of(self.dim().max(1)));
        rms_forward(&params[self.scale.clone()], x, y);
    }

    /// Adjoint of [`RmsNorm::forward`]; `d_x` is optional.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        x: &[T],               // [rows, dim]
        d_y: &[T],             // [rows, dim]
        d_x: Option<&mut [T]>, // [rows, dim]
        d_params: &mut [T],
    ) {
        debug_assert!(x.len() == d_y.len() && x.len().is_multiple_of(self.dim().max(1)));
        rms_vjp(&params[self.scale.clone()], x, d_y, d_x, &mut d_params[self.scale.clone()]);
    }
}

kernel! { fn rms_forward, rms_forward_at<T>(scale: &[T], x: &[T], y: &mut [T]) = rms_forward_body; }

#[inline(always)]
fn rms_forward_body<T: Real, const FMA: bool>(scale: &[T], x: &[T], y: &mut [T]) {
    let n = scale.len().max(1);
    for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)) {
        let r = inverse_root(dot::<T, FMA>(x, x) / width(n));
        for ((y, &x), &g) in y.iter_mut().zip(x).zip(scale) {
            *y = x * r * g;
        }
    }
}

kernel! {
    fn rms_vjp, rms_vjp_at<T>(scale: &[T], x: &[T], d_y: &[T], d_x: Option<&mut [T]>, d_scale: &mut [T])
        = rms_vjp_body;
}

#[inline(always)]
fn rms_vjp_body<T: Real, const FMA: bool>(
    scale: &[T],
    x: &[T],
    d_y: &[T],
    mut d_x: Option<&mut [T]>,
    d_scale: &mut [T],
) {
    let n = scale.len().max(1);
    for (row, (x, d_y)) in x.chunks_exact(n).zip(d_y.chunks_exact(n)).enumerate() {
        let r = inverse_root(dot::<T, FMA>(x, x) / width(n));
        for ((d_g, &d_y), &x) in d_scale.iter_mut().zip(d_y).zip(x) {
            *d_g = fma::<T, FMA>(d_y, x * r, *d_g);
        }
        if let Some(d_x) = d_x.as_deref_mut() {
            let pull = r * r * r * dot3::<T, FMA>(scale, d_y, x, T::ZERO) / width(n);
            for (((d_x, &d_y), &x), &g) in d_x[row * n..][..n].iter_mut().zip(d_y).zip(x).zip(scale) {
                *d_x += fma::<T, FMA>(-pull, x, r * (g * d_y));
            }
        }
    }
}

/// y = (x − mean)/sqrt(v + ε)·g + b, where v is the variance, clamped to be non-negative.
///
/// Saves: `x`, kept by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerNorm {
    /// The scale, directly followed by the bias.
    both: Range<usize>,
}

impl LayerNorm {
    /// Declares `name/scale` and `name/bias`.
    pub fn new(layout: &mut ParamLayout, name: &str, dim: usize) -> Self {
        let scale = layout.add(format!("{name}/scale"), &[dim]);
        let bias = layout.add(format!("{name}/bias"), &[dim]);
        Self { both: scale.start..bias.end }
    }

    /// Width of a row.
    pub fn dim(&self) -> usize {
        self.both.len() / 2
    }

    /// Scale 1, bias 0.
    pub fn init<T: Real>(&self, params: &mut [T]) {
        self.init_with_scale(params, 1.0);
    }

    /// This scale, bias 0.
    pub fn init_with_scale<T: Real>(&self, params: &mut [T], scale: f64) {
        let (g, b) = params[self.both.clone()].split_at_mut(self.dim());
        g.fill(T::from_f64(scale));
        b.fill(T::ZERO);
    }

    /// Checks the requirements of the other calls; returns the number of rows.
    pub fn check<T>(&self, params: &[T], x: &[T], y: &[T]) -> Result<usize> {
        check_params(params, [&self.both])?;
        check_rows(x, self.dim(), y, self.dim())
    }

    /// y = c·r·g + b.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        x: &[T],     // [rows, dim]
        y: &mut [T], // [rows, dim]
    ) {
        debug_assert!(x.len() == y.len() && x.len().is_multiple_of(self.dim().max(1)));
        let (scale, bias) = params[self.both.clone()].split_at(self.dim());
        layer_forward(scale, bias, x, y);
    }

    /// Adjoint of [`LayerNorm::forward`]; `d_x` is optional.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        x: &[T],               // [rows, dim]
        d_y: &[T],             // [rows, dim]
        d_x: Option<&mut [T]>, // [rows, dim]
        d_params: &mut [T],
    ) {
        debug_assert!(x.len() == d_y.len() && x.len().is_multiple_of(self.dim().max(1)));
        let scale = &params[self.both.clone()][..self.dim()];
        let (d_scale, d_bias) = d_params[self.both.clone()].split_at_mut(self.dim());
        layer_vjp(scale, x, d_y, d_x, d_scale, d_bias);
    }
}

kernel! {
    fn layer_forward, layer_forward_at<T>(scale: &[T], bias: &[T], x: &[T], y: &mut [T]) = layer_forward_body;
}

#[inline(always)]
fn layer_forward_body<T: Real, const FMA: bool>(scale: &[T], bias: &[T], x: &[T], y: &mut [T]) {
    let n = scale.len().max(1);
    for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)) {
        let (mean, variance) = moments::<T, FMA>(x);
        let r = inverse_root(variance.max(T::ZERO));
        for (((y, &x), &g), &b) in y.iter_mut().zip(x).zip(scale).zip(bias) {
            *y = fma::<T, FMA>(x - mean, r * g, b);
        }
    }
}

kernel! {
    fn layer_vjp, layer_vjp_at<T>(
        scale: &[T], x: &[T], d_y: &[T], d_x: Option<&mut [T]>, d_scale: &mut [T], d_bias: &mut [T],
    ) = layer_vjp_body;
}

#[inline(always)]
fn layer_vjp_body<T: Real, const FMA: bool>(
    scale: &[T],
    x: &[T],
    d_y: &[T],
    mut d_x: Option<&mut [T]>,
    d_scale: &mut [T],
    d_bias: &mut [T],
) {
    let n = scale.len().max(1);
    for (row, (x, d_y)) in x.chunks_exact(n).zip(d_y.chunks_exact(n)).enumerate() {
        let (mean, variance) = moments::<T, FMA>(x);
        let r = inverse_root(variance.max(T::ZERO));
        for (((d_g, d_b), &d_y), &x) in d_scale.iter_mut().zip(d_bias.iter_mut()).zip(d_y).zip(x) {
            *d_g = fma::<T, FMA>(d_y, (x - mean) * r, *d_g);
            *d_b += d_y;
        }
        if let Some(d_x) = d_x.as_deref_mut() {
            let e_mean = dot::<T, FMA>(scale, d_y) / width(n);
            let e_c = dot3::<T, FMA>(scale, d_y, x, mean);
            let pull = if variance > T::ZERO { r * r * r * e_c / width(n) } else { T::ZERO };
            for (((d_x, &d_y), &x), &g) in d_x[row * n..][..n].iter_mut().zip(d_y).zip(x).zip(scale) {
                *d_x += fma::<T, FMA>(-pull, x - mean, r * fma::<T, FMA>(g, d_y, -e_mean));
            }
        }
    }
}

/// Mean and mean(x²) − mean², which rounding can make slightly negative.
#[inline(always)]
fn moments<T: Real, const FMA: bool>(x: &[T]) -> (T, T) {
    let n = width::<T>(x.len());
    let mean = sum(x) / n;
    (mean, dot::<T, FMA>(x, x) / n - mean * mean)
}

#[inline(always)]
fn inverse_root<T: Real>(mean_square: T) -> T {
    T::ONE / (mean_square + T::from_f64(EPSILON)).sqrt()
}

#[inline(always)]
fn width<T: Real>(n: usize) -> T {
    T::from_f64(n as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;
    use sheaf_kernels::simd::Level;

    /// All results of both norms on `rows` random rows of width `n`, at most at `limit`.
    fn results(limit: Level, rows: usize, n: usize) -> Vec<f32> {
        let mut stream = Stream::new(3, "norm test", 0, 0);
        let mut draw = |len: usize| (0..len).map(|_| stream.normal() as f32).collect::<Vec<_>>();
        let (g, b, x, d_y) = (draw(n), draw(n), draw(rows * n), draw(rows * n));
        let (mut y, mut d_x, mut d_g) = (x.clone(), x.clone(), g.clone());
        rms_forward_at(limit, &g, &x, &mut y);
        rms_vjp_at(limit, &g, &x, &d_y, Some(&mut d_x), &mut d_g);
        let (mut ly, mut ld_x, mut ld_g, mut ld_b) = (x.clone(), x.clone(), g.clone(), b.clone());
        layer_forward_at(limit, &g, &b, &x, &mut ly);
        layer_vjp_at(limit, &g, &x, &d_y, Some(&mut ld_x), &mut ld_g, &mut ld_b);
        [y, d_x, d_g, ly, ld_x, ld_g, ld_b].concat()
    }

    #[test]
    fn every_vector_level_agrees_with_the_portable_twin() {
        for (rows, n) in [(1, 3), (5, 10), (3, 54), (4, 256), (2, 288)] {
            let plain = results(Level::Portable, rows, n);
            for level in [Level::Avx2, Level::Avx512] {
                for (a, b) in results(level, rows, n).iter().zip(&plain) {
                    assert!((a - b).abs() <= 4e-6 * b.abs().max(1.0), "{level:?} {rows}x{n}: {a} {b}");
                }
            }
        }
    }
}
