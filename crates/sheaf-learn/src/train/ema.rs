//! Running average of the parameters, used at evaluation: e ← decay · e + (1 − decay) · p.
//!
//! It starts as a copy of the initial parameters, so it needs no bias correction. Computed as e + (1 − decay)(p − e):
//! in single precision 0.999 and 0.001 do not add up to 1, and the other form would settle at 1.000013 p.

use sheaf_admm::error::check_len;
use sheaf_admm::{Real, Result};

/// One update of the average, after the parameters have moved.
pub fn ema_update<T: Real>(
    decay: f64,
    params: &[T],  // [n]
    ema: &mut [T], // [n]
) -> Result<()> {
    check_len("running average", params.len(), ema.len())?;
    let take = T::from_f64(1.0 - decay);
    for (e, &p) in ema.iter_mut().zip(params) {
        *e += take * (p - *e);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_approached_geometrically() {
        let mut ema = [0.0f64];
        for _ in 0..50 {
            ema_update(0.999, &[1.0], &mut ema).unwrap();
        }
        assert!((ema[0] - (1.0 - 0.999f64.powi(50))).abs() < 1e-14);
    }

    #[test]
    fn the_average_of_equal_parameters_stays_for_ever() {
        let mut ema = [0.1f32, -3.7];
        for _ in 0..1000 {
            ema_update(0.999, &[0.1, -3.7], &mut ema).unwrap();
        }
        assert_eq!(ema, [0.1, -3.7]);
    }

    #[test]
    fn different_lengths_are_an_error() {
        assert!(ema_update(0.9, &[1.0f32], &mut [1.0, 2.0]).is_err());
    }
}
