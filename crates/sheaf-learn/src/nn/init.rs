//! Initial values of parameters.
//!
//! | name | distribution |
//! | --- | --- |
//! | LeCun-normal | normal truncated at ±2 standard deviations, rescaled so that the variance is 1/fan_in |
//! | Glorot normal | the same with variance 2/(fan_in + fan_out) |
//! | Glorot uniform | uniform in ±sqrt(6/(fan_in + fan_out)) |
//! | normal | plain normal of a given standard deviation |

use crate::nn::activation::inverse_softplus;
use crate::rng::Stream;
use sheaf_admm::Real;

/// Standard deviation of a standard normal truncated at ±2.
const CUT_STD: f64 = 0.879_625_661_034_239_8;

/// The initial distribution of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// All this value.
    Constant(f64),
    /// All softplus⁻¹ of this positive value: a head that passes through softplus then starts at this value.
    InverseSoftplus(f64),
    /// Normal with this standard deviation.
    Normal(f64),
    /// Truncated normal of variance 1/fan_in.
    LecunNormal,
    /// Truncated normal of variance 2/(fan_in + fan_out).
    GlorotNormal,
    /// Uniform of variance 2/(fan_in + fan_out).
    GlorotUniform,
}

impl Init {
    /// Fills `out` with initial values of a tensor of these fans, in element order.
    pub fn fill<T: Real>(self, out: &mut [T], fan_in: usize, fan_out: usize, stream: &mut Stream) {
        let fans = (fan_in + fan_out) as f64;
        match self {
            Init::Zeros => out.fill(T::ZERO),
            Init::Ones => out.fill(T::ONE),
            Init::Constant(value) => out.fill(T::from_f64(value)),
            Init::InverseSoftplus(value) => out.fill(T::from_f64(inverse_softplus(value))),
            Init::Normal(std) => draw(out, || std * stream.normal()),
            Init::LecunNormal => cut_normal(out, 1.0 / fan_in as f64, stream),
            Init::GlorotNormal => cut_normal(out, 2.0 / fans, stream),
            Init::GlorotUniform => {
                let bound = (6.0 / fans).sqrt();
                draw(out, || bound * (2.0 * stream.uniform() - 1.0));
            }
        }
    }
}

fn cut_normal<T: Real>(out: &mut [T], variance: f64, stream: &mut Stream) {
    let std = variance.sqrt() / CUT_STD;
    draw(out, || std * stream.truncated_normal(2.0));
}

fn draw<T: Real>(out: &mut [T], mut next: impl FnMut() -> f64) {
    out.fill_with(|| T::from_f64(next()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::activation::softplus_of;

    fn filled(init: Init, fan_in: usize, fan_out: usize) -> Vec<f64> {
        let mut out = vec![f64::NAN; 40_000];
        init.fill(&mut out, fan_in, fan_out, &mut Stream::new(7, "init test", 0, 0));
        out
    }

    #[test]
    fn random_starts_have_the_variance_and_bound_they_promise() {
        for (init, variance, bound) in [
            (Init::LecunNormal, 1.0 / 30.0, 2.0 / CUT_STD * (1.0f64 / 30.0).sqrt()),
            (Init::GlorotNormal, 0.05, 2.0 / CUT_STD * 0.05f64.sqrt()),
            (Init::GlorotUniform, 0.05, 0.15f64.sqrt()),
            (Init::Normal(0.3), 0.09, 0.3 * 6.0),
        ] {
            let values = filled(init, 30, 10);
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            let var = values.iter().map(|v| v * v).sum::<f64>() / n;
            let max = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            // Four standard errors of the mean, and of the variance of a normal.
            assert!(mean.abs() < 4.0 * (variance / n).sqrt(), "{init:?}: mean {mean}");
            assert!((var / variance - 1.0).abs() < 4.0 * (2.0 / n).sqrt(), "{init:?}: variance {var}");
            assert!(max <= bound && max > 0.9 * bound.min(4.0 * variance.sqrt()), "{init:?}: largest {max}");
        }
    }

    #[test]
    fn fixed_starts_hold_their_value() {
        assert!(filled(Init::Zeros, 1, 1).iter().all(|&v| v == 0.0));
        assert!(filled(Init::Ones, 1, 1).iter().all(|&v| v == 1.0));
        assert!(filled(Init::Constant(0.25), 1, 1).iter().all(|&v| v == 0.25));
        assert!((softplus_of(filled(Init::InverseSoftplus(0.01), 1, 1)[0]) - 0.01).abs() < 1e-15);
    }

    #[test]
    fn a_stream_gives_both_precisions_the_same_numbers() {
        let mut single = [0.0f32; 8];
        let mut double = [0.0f64; 8];
        Init::LecunNormal.fill(&mut single, 4, 2, &mut Stream::new(1, "init test", 0, 0));
        Init::LecunNormal.fill(&mut double, 4, 2, &mut Stream::new(1, "init test", 0, 0));
        assert_eq!(single, double.map(|v| v as f32));
    }
}
