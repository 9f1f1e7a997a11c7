//! Elementwise transcendental kernels over slices: `exp`, `tanh`, sigmoid, softplus, SiLU and GELU.
//!
//! | kernel | value | slope |
//! | --- | --- | --- |
//! | sigmoid | s(x) = 1/(1 + e^−x) | s·(1 − s) |
//! | softplus | ln(1 + e^x) | s |
//! | SiLU | x·s(x) | s + x·s·(1 − s) |
//! | GELU | x·s(2u), u = sqrt(2/π)·(x + 0.044715·x³) | s + x·s·(1 − s)·2u′ |
//!
//! The last line is the tanh approximation, ½·x·(1 + tanh u), by the identity 1 + tanh u = 2·s(2u).
//!
//! The `f32` kernels are plain loops over a branch-free exponential, so that the compiler vectorises them at every
//! [`Level`](super::simd::Level); their errors are a few units in the last place. The `f64` versions call the standard
//! library: they serve references and finite differences, where accuracy matters and speed does not.

use super::simd::{fma, kernel};

/// sqrt(2/π).
const GELU_SCALE: f64 = 0.797_884_560_802_865_4;
const GELU_CUBIC: f64 = 0.044_715;

/// Scalars with slice kernels for the activations. Slices have equal lengths.
pub trait Activations: Sized {
    /// `y = exp(x)`.
    fn exp_slice(x: &[Self], y: &mut [Self]);
    /// `y = tanh(x)`.
    fn tanh_slice(x: &[Self], y: &mut [Self]);
    /// `y = 1/(1 + exp(−x))`.
    fn sigmoid_slice(x: &[Self], y: &mut [Self]);
    /// `y = ln(1 + exp(x))`.
    fn softplus_slice(x: &[Self], y: &mut [Self]);
    /// `y = x·sigmoid(x)`.
    fn silu_slice(x: &[Self], y: &mut [Self]);
    /// `y = gelu(x)`, tanh approximation.
    fn gelu_slice(x: &[Self], y: &mut [Self]);
    /// `y = gelu(x)`; `x` itself is replaced by the slope `gelu′(x)`, which is all that the adjoint needs.
    fn gelu_slope_slice(x: &mut [Self], y: &mut [Self]);
}

impl Activations for f32 {
    #[inline]
    fn exp_slice(x: &[f32], y: &mut [f32]) {
        exp(x, y);
    }
    #[inline]
    fn tanh_slice(x: &[f32], y: &mut [f32]) {
        tanh(x, y);
    }
    #[inline]
    fn sigmoid_slice(x: &[f32], y: &mut [f32]) {
        sigmoid(x, y);
    }
    #[inline]
    fn softplus_slice(x: &[f32], y: &mut [f32]) {
        softplus(x, y);
    }
    #[inline]
    fn silu_slice(x: &[f32], y: &mut [f32]) {
        silu(x, y);
    }
    #[inline]
    fn gelu_slice(x: &[f32], y: &mut [f32]) {
        gelu(x, y);
    }
    #[inline]
    fn gelu_slope_slice(x: &mut [f32], y: &mut [f32]) {
        gelu_slope(x, y);
    }
}

kernel! { fn exp, exp_at(x: &[f32], y: &mut [f32]) = exp_body; }
kernel! { fn tanh, tanh_at(x: &[f32], y: &mut [f32]) = tanh_body; }
kernel! { fn sigmoid, sigmoid_at(x: &[f32], y: &mut [f32]) = sigmoid_body; }
kernel! { fn softplus, softplus_at(x: &[f32], y: &mut [f32]) = softplus_body; }
kernel! { fn silu, silu_at(x: &[f32], y: &mut [f32]) = silu_body; }
kernel! { fn gelu, gelu_at(x: &[f32], y: &mut [f32]) = gelu_body; }
kernel! { fn gelu_slope, gelu_slope_at(x: &mut [f32], y: &mut [f32]) = gelu_slope_body; }

#[inline(always)]
fn map(x: &[f32], y: &mut [f32], f: impl Fn(f32) -> f32) {
    debug_assert_eq!(x.len(), y.len());
    for (y, &x) in y.iter_mut().zip(x) {
        *y = f(x);
    }
}

#[inline(always)]
fn exp_body<const FMA: bool>(x: &[f32], y: &mut [f32]) {
    map(x, y, exp_f32::<FMA>);
}

#[inline(always)]
fn tanh_body<const FMA: bool>(x: &[f32], y: &mut [f32]) {
    map(x, y, tanh_f32::<FMA>);
}

#[inline(always)]
fn sigmoid_body<const FMA: bool>(x: &[f32], y: &mut [f32]) {
    map(x, y, sigmoid_f32::<FMA>);
}

#[inline(always)]
fn softplus_body<const FMA: bool>(x: &[f32], y: &mut [f32]) {
    map(x, y, softplus_f32::<FMA>);
}

#[inline(always)]
fn silu_body<const FMA: bool>(x: &[f32], y: &mut [f32]) {
    map(x, y, |x| x * sigmoid_f32::<FMA>(x));
}

#[inline(always)]
fn gelu_body<const FMA: bool>(x: &[f32], y: &mut [f32]) {
    map(x, y, |x| gelu_f32::<FMA>(x).0);
}

#[inline(always)]
fn gelu_slope_body<const FMA: bool>(x: &mut [f32], y: &mut [f32]) {
    debug_assert_eq!(x.len(), y.len());
    for (x, y) in x.iter_mut().zip(y) {
        (*y, *x) = gelu_f32::<FMA>(*x);
    }
}

/// Splits x = k·ln 2 + r with |r| ≤ ½·ln 2 and returns (k, exp(r) − 1).
#[inline(always)]
fn reduce<const FMA: bool>(x: f32) -> (i32, f32) {
    // Adding 1.5·2²³ leaves the nearest whole number in the low bits: no rounding instruction, no conversion.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts; the first has so few bits that k times it is exact.
    const LN2_HI: f32 = 0.693_145_75;
    const LN2_LO: f32 = 1.428_606_8e-6;
    let t = fma::<f32, FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let k = t - ROUND;
    let r = fma::<f32, FMA>(k, -LN2_LO, fma::<f32, FMA>(k, -LN2_HI, x));
    // (exp(r) − 1 − r)/r² interpolated at Chebyshev nodes; relative error of exp(r) 1.1e-8.
    let p = fma::<f32, FMA>(r, 1.392_621_3e-3, 8.363_203e-3);
    let p = fma::<f32, FMA>(r, p, 4.166_655_4e-2);
    let p = fma::<f32, FMA>(r, p, 1.666_657_7e-1);
    let p = fma::<f32, FMA>(r, p, 0.5);
    let k = (t.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    (k, fma::<f32, FMA>(r * r, p, r))
}

/// 2^k for −126 ≤ k ≤ 127.
#[inline(always)]
fn power_of_two(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127) as u32) << 23)
}

/// x clamped to [lo, hi]. Comparisons instead of `min` and `max`, so that NaN stays NaN.
#[inline(always)]
fn hold(x: f32, lo: f32, hi: f32) -> f32 {
    let x = if x > hi { hi } else { x };
    if x < lo { lo } else { x }
}

/// e^x over the whole range: subnormals, 0 and infinity included; NaN stays NaN.
#[inline(always)]
fn exp_f32<const FMA: bool>(x: f32) -> f32 {
    let (k, m) = reduce::<FMA>(hold(x, -104.0, 89.0));
    // 2^k in two factors: k runs from −150 to 128, beyond what one exponent field holds.
    let half = k >> 1;
    (1.0 + m) * power_of_two(half) * power_of_two(k - half)
}

#[inline(always)]
fn sigmoid_f32<const FMA: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp_of_minus::<FMA>(x))
}

/// max(x, 0) + ln(1 + e), e = exp(−|x|). With s = e/(2 + e) ≤ ⅓ the logarithm is 2·artanh s, a series in s².
#[inline(always)]
fn softplus_f32<const FMA: bool>(x: f32) -> f32 {
    let e = exp_f32::<FMA>(-x.abs());
    let s = e / (2.0 + e);
    let square = s * s;
    let mut series = 1.0 / 15.0;
    for odd in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = fma::<f32, FMA>(series, square, 1.0 / odd);
    }
    let above = if x > 0.0 { x } else { 0.0 };
    fma::<f32, FMA>(2.0 * s, series, above)
}

/// e^−x with x clamped to ±87: the sigmoid is within 2e-38 of 0 or 1 there, and 2^k fits one factor.
#[inline(always)]
fn exp_of_minus<const FMA: bool>(x: f32) -> f32 {
    let (k, m) = reduce::<FMA>(hold(-x, -87.0, 87.0));
    let scale = power_of_two(k);
    fma::<f32, FMA>(m, scale, scale)
}

/// With e = exp(−2|x|) − 1, free of cancellation near 0: tanh|x| = −e/(2 + e).
#[inline(always)]
fn tanh_f32<const FMA: bool>(x: f32) -> f32 {
    let (k, m) = reduce::<FMA>(hold(-2.0 * x.abs(), -40.0, 0.0));
    let scale = power_of_two(k);
    let e = fma::<f32, FMA>(m, scale, scale - 1.0);
    (-e / (2.0 + e)).copysign(x)
}

/// (gelu(x), gelu′(x)).
#[inline(always)]
fn gelu_f32<const FMA: bool>(x: f32) -> (f32, f32) {
    const TWICE: f32 = (2.0 * GELU_SCALE) as f32;
    const TWICE_CUBIC: f32 = (2.0 * GELU_SCALE * GELU_CUBIC) as f32;
    // Beyond ±12 the sigmoid is 0 or 1 to the last bit that matters; clamping keeps x² and x³ finite.
    let c = hold(x, -12.0, 12.0);
    let square = c * c;
    let e = exp_of_minus::<FMA>(c * fma::<f32, FMA>(square, TWICE_CUBIC, TWICE));
    let s = 1.0 / (1.0 + e);
    // x·2u′, multiplied by 1 − s = e·s, which does not cancel where s is close to 1.
    let inner = c * fma::<f32, FMA>(square, 3.0 * TWICE_CUBIC, TWICE);
    (x * s, fma::<f32, FMA>(e * s * s, inner, s))
}

impl Activations for f64 {
    fn exp_slice(x: &[f64], y: &mut [f64]) {
        map_f64(x, y, f64::exp);
    }
    fn tanh_slice(x: &[f64], y: &mut [f64]) {
        map_f64(x, y, f64::tanh);
    }
    fn sigmoid_slice(x: &[f64], y: &mut [f64]) {
        map_f64(x, y, sigmoid_f64);
    }
    fn softplus_slice(x: &[f64], y: &mut [f64]) {
        map_f64(x, y, softplus_f64);
    }
    fn silu_slice(x: &[f64], y: &mut [f64]) {
        map_f64(x, y, |x| x * sigmoid_f64(x));
    }
    fn gelu_slice(x: &[f64], y: &mut [f64]) {
        map_f64(x, y, |x| gelu_f64(x).0);
    }
    fn gelu_slope_slice(x: &mut [f64], y: &mut [f64]) {
        debug_assert_eq!(x.len(), y.len());
        for (x, y) in x.iter_mut().zip(y) {
            (*y, *x) = gelu_f64(*x);
        }
    }
}

fn map_f64(x: &[f64], y: &mut [f64], f: impl Fn(f64) -> f64) {
    debug_assert_eq!(x.len(), y.len());
    for (y, &x) in y.iter_mut().zip(x) {
        *y = f(x);
    }
}

fn sigmoid_f64(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus_f64(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn gelu_f64(x: f64) -> (f64, f64) {
    let c = x.clamp(-40.0, 40.0);
    let s = sigmoid_f64(2.0 * GELU_SCALE * (c + GELU_CUBIC * c * c * c));
    let slope = 2.0 * GELU_SCALE * (1.0 + 3.0 * GELU_CUBIC * c * c);
    (x * s, s + c * s * (1.0 - s) * slope)
}

#[cfg(test)]
mod tests {
    use super::super::simd::Level;
    use super::*;

    const LEVELS: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

    /// Odd length, so that the remainder loops run too.
    fn grid(lo: f64, hi: f64) -> Vec<f32> {
        (0..40_001).map(|i| (lo + (hi - lo) * i as f64 / 40_000.0) as f32).collect()
    }

    /// The largest error of `kernel` at any level, each divided by `unit(x, truth)`.
    fn worst(
        kernel: fn(Level, &[f32], &mut [f32]),
        truth: fn(f64) -> f64,
        x: &[f32],
        unit: fn(f64, f64) -> f64,
    ) -> f64 {
        let mut y = vec![0.0; x.len()];
        let mut worst = 0.0f64;
        for level in LEVELS {
            kernel(level, x, &mut y);
            for (&x, &y) in x.iter().zip(&y) {
                let t = truth(x as f64);
                let error = (y as f64 - t).abs() / unit(x as f64, t);
                assert!(!error.is_nan(), "NaN at {x}");
                worst = worst.max(error);
            }
        }
        worst
    }

    #[test]
    fn the_exponential_is_accurate_over_its_normal_range() {
        let worst = worst(exp_at, f64::exp, &grid(-87.3, 88.7), |_, t| t);
        assert!(worst < 2e-7, "{worst:e}");
    }

    #[test]
    fn the_exponential_keeps_its_limits() {
        for level in LEVELS {
            let x = [f32::NEG_INFINITY, -1e30, -104.0, -100.0, 0.0, 88.73, 1e30, f32::INFINITY, f32::NAN];
            let mut y = [0.0; 9];
            exp_at(level, &x, &mut y);
            assert_eq!(y[..2], [0.0, 0.0]);
            assert!(y[2] <= 1.5e-45, "{:e}", y[2]);
            assert!((y[3] / (-100f32).exp() - 1.0).abs() < 0.05, "{:e}", y[3]);
            assert_eq!(y[4..8], [1.0, f32::INFINITY, f32::INFINITY, f32::INFINITY]);
            assert!(y[8].is_nan());
        }
    }

    #[test]
    fn tanh_and_sigmoid_are_accurate_relative_to_their_value() {
        let t = worst(tanh_at, f64::tanh, &grid(-12.0, 12.0), |_, t| t.abs().max(1e-30));
        assert!(t < 3e-7, "tanh {t:e}");
        let t = worst(tanh_at, f64::tanh, &grid(-1e-3, 1e-3), |_, t| t.abs().max(1e-30));
        assert!(t < 3e-7, "tanh near 0 {t:e}");
        let s = worst(sigmoid_at, sigmoid_f64, &grid(-86.0, 86.0), |_, t| t);
        assert!(s < 3e-7, "sigmoid {s:e}");
        let s = worst(silu_at, |x| x * sigmoid_f64(x), &grid(-86.0, 86.0), |_, t| t.abs().max(1e-30));
        assert!(s < 3e-7, "silu {s:e}");
    }

    #[test]
    fn softplus_is_accurate_relative_to_its_value_and_keeps_its_limits() {
        for (lo, hi) in [(-80.0, 80.0), (-2.0, 2.0), (-1e-3, 1e-3)] {
            let s = worst(softplus_at, softplus_f64, &grid(lo, hi), |_, t| t);
            assert!(s < 3e-7, "{s:e} from {lo} to {hi}");
        }
        for level in LEVELS {
            let mut y = [9.0; 4];
            softplus_at(level, &[-1000.0, 1000.0, f32::INFINITY, f32::NEG_INFINITY], &mut y);
            assert_eq!(y, [0.0, 1000.0, f32::INFINITY, 0.0]);
        }
    }

    #[test]
    fn gelu_and_its_slope_agree_with_double_precision() {
        let truth = |x: f64| 0.5 * x * (1.0 + (GELU_SCALE * (x + GELU_CUBIC * x * x * x)).tanh());
        for range in [(-3.0, 3.0), (-30.0, 30.0), (-1e6, 1e6)] {
            let value = worst(gelu_at, truth, &grid(range.0, range.1), |x, _| x.abs().max(1e-30));
            assert!(value < 3e-7, "value {value:e} on {range:?}");
            let slope = |level, x: &[f32], y: &mut [f32]| {
                let (mut slope, mut value) = (x.to_vec(), x.to_vec());
                gelu_slope_at(level, &mut slope, &mut value);
                let mut plain = x.to_vec();
                gelu_at(level, x, &mut plain);
                assert_eq!(value, plain);
                y.copy_from_slice(&slope);
            };
            let slope = worst(slope, |x| gelu_f64(x).1, &grid(range.0, range.1), |_, _| 1.0);
            assert!(slope < 1e-6, "slope {slope:e} on {range:?}");
        }
    }

    #[test]
    fn nan_comes_out_where_nan_goes_in() {
        for kernel in [exp_at, tanh_at, sigmoid_at, softplus_at, silu_at, gelu_at] {
            for level in LEVELS {
                let mut y = [0.0; 33];
                kernel(level, &[f32::NAN; 33], &mut y);
                assert!(y.iter().all(|y| y.is_nan()));
            }
        }
    }
}
