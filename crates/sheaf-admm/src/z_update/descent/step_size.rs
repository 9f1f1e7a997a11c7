//! Learned step sizes: η > 0 from an unbounded parameter that starts at 0.
//!
//! | form | η(raw), η(0) = init | dη/draw |
//! | --- | --- | --- |
//! | softplus | softplus(raw + softplus⁻¹(init)) | 1 − e^−η |
//! | bounded | exp(lo + (hi − lo) σ(raw + logit((ln init − lo)/(hi − lo)))), lo = ln min, hi = ln max | η (hi − lo) σ (1 − σ) |

use crate::error::check_positive;
use crate::{Error, ErrorKind, Real, Result};

/// softplus(raw + softplus⁻¹(init)), `init` above 0.
pub fn eta_softplus<T: Real>(raw: T, init: T) -> T {
    // softplus⁻¹(y) = ln(e^y − 1), written so that neither a small nor a large y loses digits.
    let shifted = raw + init + (-(-init).exp_m1()).ln();
    shifted.max(T::ZERO) + (-shifted.abs()).exp().ln_1p()
}

/// Adjoint of [`eta_softplus`]: adds to `d_raw`.
pub fn eta_softplus_vjp<T: Real>(raw: T, init: T, d_eta: T, d_raw: &mut T) {
    *d_raw -= d_eta * (-eta_softplus(raw, init)).exp_m1();
}

/// η between `min` and `max` in log space; the arguments satisfy [`check_eta_bounds`].
pub fn eta_bounded<T: Real>(raw: T, init: T, min: T, max: T) -> T {
    let (lo, hi) = (min.ln(), max.ln());
    (lo + (hi - lo) * share(raw, init, lo, hi)).exp()
}

/// Adjoint of [`eta_bounded`]: adds to `d_raw`.
pub fn eta_bounded_vjp<T: Real>(raw: T, init: T, min: T, max: T, d_eta: T, d_raw: &mut T) {
    let (lo, hi) = (min.ln(), max.ln());
    let share = share(raw, init, lo, hi);
    *d_raw += d_eta * eta_bounded(raw, init, min, max) * (hi - lo) * share * (T::ONE - share);
}

/// The position of ln η between lo and hi: σ(raw + logit of the initial position).
fn share<T: Real>(raw: T, init: T, lo: T, hi: T) -> T {
    let start = (init.ln() - lo) / (hi - lo);
    let x = raw + (start / (T::ONE - start)).ln();
    T::ONE / (T::ONE + (-x).exp())
}

/// Checks that 0 < min < init < max, all finite.
pub fn check_eta_bounds<T: Real>(init: T, min: T, max: T) -> Result<()> {
    check_positive("eta_min", min.to_f64())?;
    check_positive("eta_max", max.to_f64())?;
    check_positive("eta_init", init.to_f64())?;
    if min < init && init < max {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::OutOfRange,
        "eta_init",
        format_args!("a number between {min} and {max}, neither of them"),
        init,
    ))
}
