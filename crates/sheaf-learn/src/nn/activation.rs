//! Activations over slices, and their adjoints.
//!
//! | forward | adjoint, added into d_x | saves |
//! | --- | --- | --- |
//! | gelu: y = ½·x·(1 + tanh(sqrt(2/π)(x + 0.044715·x³))) | d_y·slope | slope (in place of x) |
//! | silu: y = x·s(x) | d_y·(s + x·s·(1 − s)) | x |
//! | swiglu: y = silu(gate)·up | gate: d_y·up·silu′(gate); up: d_y·silu(gate) | gate, up |
//! | softplus: y = ln(1 + eˣ) | d_y·s(x) | x |
//! | sigmoid: y = s(x) = 1/(1 + e⁻ˣ) | d_y·y·(1 − y) | y |
//! | tanh | d_y·(1 − y²) | y |
//!
//! Slices are flat and of equal length, except that swiglu takes rows of width 2·hidden, gate first, to rows of
//! width hidden.

use sheaf_admm::Real;
use sheaf_kernels::simd::kernel;

/// Block size of kernels that need a small buffer.
const BLOCK: usize = 128;

/// y = gelu(x), tanh approximation. For inference: nothing is saved.
pub fn gelu<T: Real>(x: &[T], y: &mut [T]) {
    T::gelu_slice(x, y);
}

/// y = gelu(x); replaces `x` by the slope gelu′(x).
///
/// Saves: the slope.
pub fn gelu_keeping_slope<T: Real>(x: &mut [T], y: &mut [T]) {
    T::gelu_slope_slice(x, y);
}

/// Adjoint of [`gelu_keeping_slope`].
pub fn gelu_vjp<T: Real>(slope: &[T], d_y: &[T], d_x: &mut [T]) {
    zip2(slope, d_y, d_x, |slope, d_y| d_y * slope);
}

/// y = x·sigmoid(x).
///
/// Saves: x.
pub fn silu<T: Real>(x: &[T], y: &mut [T]) {
    T::silu_slice(x, y);
}

/// Adjoint of [`silu`].
pub fn silu_vjp<T: Real>(x: &[T], d_y: &[T], d_x: &mut [T]) {
    debug_assert!(x.len() == d_y.len() && x.len() == d_x.len());
    let mut room = [T::ZERO; BLOCK];
    for ((x, d_y), d_x) in x.chunks(BLOCK).zip(d_y.chunks(BLOCK)).zip(d_x.chunks_mut(BLOCK)) {
        let s = &mut room[..x.len()];
        T::sigmoid_slice(x, s);
        for (((d_x, &d_y), &x), &s) in d_x.iter_mut().zip(d_y).zip(x).zip(&*s) {
            *d_x += d_y * silu_slope(x, s);
        }
    }
}

/// y = silu(gate)·up, row by row.
///
/// Saves: `gate_up`.
pub fn swiglu<T: Real>(
    gate_up: &[T], // [rows, 2, hidden], gate first
    hidden: usize,
    y: &mut [T], // [rows, hidden]
) {
    debug_assert_eq!(gate_up.len(), 2 * y.len());
    for (pair, y) in gate_up.chunks_exact((2 * hidden).max(1)).zip(y.chunks_exact_mut(hidden.max(1))) {
        let (gate, up) = pair.split_at(hidden);
        T::silu_slice(gate, y);
        multiply(y, up);
    }
}

#[inline(always)]
fn multiply_body<T: Real, const FMA: bool>(y: &mut [T], by: &[T]) {
    y.iter_mut().zip(by).for_each(|(y, &by)| *y *= by);
}

kernel! {
    /// y·by, in place.
    pub fn multiply, multiply_at<T>(y: &mut [T], by: &[T]) = multiply_body;
}

/// Adjoint of [`swiglu`].
pub fn swiglu_vjp<T: Real>(
    gate_up: &[T], // [rows, 2, hidden], gate first
    hidden: usize,
    d_y: &[T],           // [rows, hidden]
    d_gate_up: &mut [T], // [rows, 2, hidden]
) {
    debug_assert!(gate_up.len() == 2 * d_y.len() && d_gate_up.len() == gate_up.len());
    let wide = (2 * hidden).max(1);
    let rows = gate_up.chunks_exact(wide).zip(d_y.chunks_exact(hidden.max(1)));
    for ((pair, d_y), d_pair) in rows.zip(d_gate_up.chunks_exact_mut(wide)) {
        let (gate, up) = pair.split_at(hidden);
        let (d_gate, d_up) = d_pair.split_at_mut(hidden);
        swiglu_row_vjp(gate, up, d_y, d_gate, d_up);
    }
}

fn swiglu_row_vjp<T: Real>(gate: &[T], up: &[T], d_y: &[T], d_gate: &mut [T], d_up: &mut [T]) {
    let mut room = [T::ZERO; BLOCK];
    for start in (0..gate.len()).step_by(BLOCK) {
        let part = start..(start + BLOCK).min(gate.len());
        let (gate, up, d_y) = (&gate[part.clone()], &up[part.clone()], &d_y[part.clone()]);
        let (d_gate, d_up) = (&mut d_gate[part.clone()], &mut d_up[part.clone()]);
        let s = &mut room[..part.len()];
        T::sigmoid_slice(gate, s);
        gate_vjp(gate, up, s, d_y, d_gate, d_up);
    }
}

#[inline(always)]
fn gate_vjp_body<T: Real, const FMA: bool>(
    gate: &[T],
    up: &[T],
    s: &[T],
    d_y: &[T],
    d_gate: &mut [T],
    d_up: &mut [T],
) {
    let n = gate.len();
    let (up, s, d_y) = (&up[..n], &s[..n], &d_y[..n]);
    let (d_gate, d_up) = (&mut d_gate[..n], &mut d_up[..n]);
    for i in 0..n {
        d_gate[i] += d_y[i] * up[i] * silu_slope(gate[i], s[i]);
        d_up[i] += d_y[i] * gate[i] * s[i];
    }
}

kernel! {
    /// A block of [`swiglu_vjp`], given the sigmoids `s`.
    fn gate_vjp, gate_vjp_at<T>(
        gate: &[T], up: &[T], s: &[T], d_y: &[T], d_gate: &mut [T], d_up: &mut [T],
    ) = gate_vjp_body;
}

#[inline(always)]
fn silu_slope<T: Real>(x: T, s: T) -> T {
    s + x * s * (T::ONE - s)
}

/// y = ln(1 + eˣ).
///
/// Saves: x.
pub fn softplus<T: Real>(x: &[T], y: &mut [T]) {
    T::softplus_slice(x, y);
}

/// Adjoint of [`softplus`].
pub fn softplus_vjp<T: Real>(x: &[T], d_y: &[T], d_x: &mut [T]) {
    debug_assert!(x.len() == d_y.len() && x.len() == d_x.len());
    let mut room = [T::ZERO; BLOCK];
    for ((x, d_y), d_x) in x.chunks(BLOCK).zip(d_y.chunks(BLOCK)).zip(d_x.chunks_mut(BLOCK)) {
        let s = &mut room[..x.len()];
        T::sigmoid_slice(x, s);
        zip2(s, d_y, d_x, |s, d_y| d_y * s);
    }
}

/// y = 1/(1 + e⁻ˣ).
///
/// Saves: y.
pub fn sigmoid<T: Real>(x: &[T], y: &mut [T]) {
    T::sigmoid_slice(x, y);
}

/// Adjoint of [`sigmoid`].
pub fn sigmoid_vjp<T: Real>(y: &[T], d_y: &[T], d_x: &mut [T]) {
    zip2(y, d_y, d_x, |y, d_y| d_y * y * (T::ONE - y));
}

/// y = tanh(x).
///
/// Saves: y.
pub fn tanh<T: Real>(x: &[T], y: &mut [T]) {
    T::tanh_slice(x, y);
}

/// Adjoint of [`tanh`].
pub fn tanh_vjp<T: Real>(y: &[T], d_y: &[T], d_x: &mut [T]) {
    zip2(y, d_y, d_x, |y, d_y| d_y * (T::ONE - y * y));
}

/// ln(1 + eˣ) of one number, without overflow; its slope is [`sigmoid_of`].
pub fn softplus_of<T: Real>(x: T) -> T {
    x.max(T::ZERO) + (-x.abs()).exp().ln_1p()
}

/// 1/(1 + e⁻ˣ) of one number.
pub fn sigmoid_of<T: Real>(x: T) -> T {
    T::ONE / (T::ONE + (-x).exp())
}

/// The x with softplus(x) = y, for y > 0: ln(eʸ − 1), written so that large y do not overflow.
pub fn inverse_softplus<T: Real>(y: T) -> T {
    y + (-(-y).exp_m1()).ln()
}

fn zip2<T: Real>(a: &[T], d_y: &[T], d_x: &mut [T], f: impl Fn(T, T) -> T) {
    debug_assert!(a.len() == d_y.len() && a.len() == d_x.len());
    for ((d_x, &a), &d_y) in d_x.iter_mut().zip(a).zip(d_y) {
        *d_x += f(a, d_y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softplus_and_its_inverse_undo_each_other_over_many_magnitudes() {
        for y in [1e-12f64, 1e-4, 0.01, 0.25, 1.0, 5.0, 40.0, 800.0] {
            assert!((softplus_of(inverse_softplus(y)) / y - 1.0).abs() < 1e-12, "{y}");
        }
        assert_eq!(softplus_of(1000.0f32), 1000.0);
        assert_eq!(softplus_of(-1000.0f32), 0.0);
        assert!(softplus_of(f64::NAN).is_nan());
    }

    #[test]
    fn gelu_is_the_tanh_approximation() {
        let x = [-3.0f64, -1.0, 0.0, 0.5, 2.0];
        let mut y = [0.0; 5];
        gelu(&x, &mut y);
        let expected = x.map(|x: f64| {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
        });
        for (y, e) in y.iter().zip(expected) {
            assert!((y - e).abs() < 1e-15, "{y} {e}");
        }
    }
}
