//! AdamW: Adam with decoupled weight decay, on every parameter.
//!
//! ```text
//! m ← b1 m + (1 − b1) g          v ← b2 v + (1 − b2) g²
//! m̂ = m / (1 − b1ᵗ)              v̂ = v / (1 − b2ᵗ)            t = 1, 2, …
//! p ← p − lr (m̂ / (sqrt(v̂) + eps) + wd p)
//! ```
//!
//! | name | shape |
//! | --- | --- |
//! | params, grad, m, v | `[n]`, the flat layout |
//!
//! The decay is multiplied by the learning rate, so it vanishes with it, and it reads the parameter from before the
//! update.

use sheaf_admm::Real;
use sheaf_admm::error::{check_len, check_positive};
use sheaf_admm::{Error, ErrorKind, Result};

/// The constants of the rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Decay rate of the mean gradient, b1.
    pub beta1: f64,
    /// Decay rate of the mean square, b2.
    pub beta2: f64,
    /// Keeps the division finite.
    pub eps: f64,
    /// Decay per unit of learning rate, wd.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 }
    }
}

impl AdamW {
    /// Checks that the constants are valid.
    pub fn check(&self) -> Result<()> {
        for (place, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&beta) {
                return Err(Error::new(ErrorKind::OutOfRange, place, "0 ≤ beta < 1", beta));
            }
        }
        check_positive("eps", self.eps)?;
        if !(self.weight_decay.is_finite() && self.weight_decay >= 0.0) {
            return Err(Error::new(
                ErrorKind::OutOfRange,
                "weight_decay",
                "a finite number ≥ 0",
                self.weight_decay,
            ));
        }
        Ok(())
    }

    /// Update number `t` (from 1) with learning rate `lr`.
    pub fn update<T: Real>(
        &self,
        lr: f64,
        t: u64,
        grad: &[T],       // [n]
        params: &mut [T], // [n]
        m: &mut [T],      // [n]
        v: &mut [T],      // [n]
    ) -> Result<()> {
        let n = params.len();
        check_len("AdamW gradient", n, grad.len())?;
        check_len("AdamW first moment", n, m.len())?;
        check_len("AdamW second moment", n, v.len())?;
        if t == 0 {
            return Err(Error::new(ErrorKind::OutOfRange, "AdamW update number", "1 or more", t));
        }
        let [b1, b2] = [self.beta1, self.beta2].map(T::from_f64);
        let [c1, c2] = [1.0 - self.beta1, 1.0 - self.beta2].map(T::from_f64);
        // The corrections are powers of numbers near 1: computed in f64 for every T.
        let [fix1, fix2] = [self.beta1, self.beta2].map(|b| T::from_f64(1.0 - b.powf(t as f64)));
        let [eps, decay, rate] = [self.eps, self.weight_decay, -lr].map(T::from_f64);
        for (((p, &g), m), v) in params.iter_mut().zip(grad).zip(m.iter_mut()).zip(v.iter_mut()) {
            *m = b1 * *m + c1 * g;
            *v = b2 * *v + c2 * (g * g);
            let direction = (*m / fix1) / ((*v / fix2).sqrt() + eps);
            *p += rate * (direction + decay * *p);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same rule written from the sums, without recursions: m̂ and v̂ as weighted means of all gradients.
    fn reference(gradients: &[f64], start: f64, lr: &[f64], wd: f64) -> f64 {
        let mut p = start;
        for t in 1..=gradients.len() {
            let (mut m, mut v, mut weight_m, mut weight_v) = (0.0, 0.0, 0.0, 0.0);
            for (k, g) in gradients[..t].iter().enumerate() {
                let age = (t - 1 - k) as i32;
                m += 0.9f64.powi(age) * g;
                weight_m += 0.9f64.powi(age);
                v += 0.999f64.powi(age) * g * g;
                weight_v += 0.999f64.powi(age);
            }
            p -= lr[t - 1] * ((m / weight_m) / ((v / weight_v).sqrt() + 1e-8) + wd * p);
        }
        p
    }

    fn run<T: Real>(gradients: &[f64], start: f64, lr: &[f64], wd: f64) -> f64 {
        let rule = AdamW { weight_decay: wd, ..AdamW::default() };
        let (mut p, mut m, mut v) = ([T::from_f64(start)], [T::ZERO], [T::ZERO]);
        for (k, &g) in gradients.iter().enumerate() {
            rule.update(lr[k], k as u64 + 1, &[T::from_f64(g)], &mut p, &mut m, &mut v).unwrap();
        }
        p[0].to_f64()
    }

    #[test]
    fn ten_updates_equal_the_rule_written_as_weighted_means() {
        let gradients: Vec<f64> = (0..10).map(|k| (1.3 * k as f64).sin() - 0.2).collect();
        let lr: Vec<f64> = (0..10).map(|k| 0.01 * k as f64).collect();
        let want = reference(&gradients, 0.7, &lr, 0.1);
        assert!((run::<f64>(&gradients, 0.7, &lr, 0.1) - want).abs() < 1e-13);
        assert!((run::<f32>(&gradients, 0.7, &lr, 0.1) - want).abs() < 2e-6);
    }

    #[test]
    fn the_first_update_is_one_learning_rate_against_the_sign_of_the_gradient() {
        for g in [-3e-3, 5.0] {
            let moved = run::<f64>(&[g], 1.0, &[0.01], 0.0) - 1.0;
            assert!((moved + 0.01 * g.signum()).abs() < 1e-7, "{moved}");
        }
    }

    #[test]
    fn decay_is_decoupled_and_scales_with_the_learning_rate() {
        // With a zero gradient only the decay moves the parameter: p (1 − lr wd).
        assert!((run::<f64>(&[0.0], 2.0, &[0.5], 0.1) - 1.9).abs() < 1e-15);
        assert_eq!(run::<f64>(&[0.0], 2.0, &[0.0], 0.1), 2.0);
    }

    #[test]
    fn a_rate_of_zero_leaves_the_parameters_but_feeds_the_moments() {
        let (mut p, mut m, mut v) = ([1.0f32], [0.0f32], [0.0f32]);
        AdamW::default().update(0.0, 1, &[2.0], &mut p, &mut m, &mut v).unwrap();
        assert_eq!(p, [1.0]);
        assert!((m[0] - 0.2).abs() < 1e-7 && (v[0] - 0.004).abs() < 1e-7);
    }

    #[test]
    fn wrong_lengths_and_constants_are_errors() {
        let (mut p, mut m, mut v) = ([1.0f32; 2], [0.0f32; 2], [0.0f32; 2]);
        let kind = |r: Result<()>| r.unwrap_err().kind();
        let rule = AdamW::default();
        assert_eq!(kind(rule.update(0.1, 1, &[1.0], &mut p, &mut m, &mut v)), ErrorKind::Shape);
        assert_eq!(kind(rule.update(0.1, 0, &[1.0, 1.0], &mut p, &mut m, &mut v)), ErrorKind::OutOfRange);
        assert_eq!(kind(AdamW { beta1: 1.0, ..rule }.check()), ErrorKind::OutOfRange);
        assert_eq!(kind(AdamW { eps: 0.0, ..rule }.check()), ErrorKind::NotPositive);
        assert_eq!(kind(AdamW { weight_decay: -1.0, ..rule }.check()), ErrorKind::OutOfRange);
    }
}
