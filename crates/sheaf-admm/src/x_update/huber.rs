//! Huber's function around a centre: quadratic near it, linear beyond, so that an outlier pulls with a bounded force.
//!
//! ```text
//! f(x) = w Σ_j U(x_j − c_j)      U(r) = r²/2 for |r| ≤ δ, δ(|r| − δ/2) beyond
//! t = v − c:   r = ρt/(ρ + w) for |t| ≤ δ(1 + w/ρ),   r = t − sign(t)·wδ/ρ beyond;   x = c + r
//! ```
//!
//! Adjoint, per coordinate: inside, d_v += ρg/(ρ + w) and d_w −= g r/(ρ + w); beyond, d_v += g, d_w −= g sign(t) δ/ρ,
//! d_δ −= g sign(t) w/ρ. Always d_c += g − d_v. At the kink the inner side is taken.
//!
//! Parameters in gradients: w, δ, c; `[2 + d]`.

use super::proximal::{ProxGrad, Proximal};
use crate::error::{check_finite, check_positive};
use crate::{Real, Result};

/// f(x) = w Σ U(x_j − c_j) with U(r) = r²/2 for |r| ≤ δ and δ(|r| − δ/2) beyond.
///
/// Parameters in gradients: w, δ, c; `[2 + d]`.
///
/// ```
/// use sheaf_admm::x_update::{Huber, Proximal};
///
/// let huber = Huber { weight: 1.0, delta: 0.5, centre: vec![0.0, 0.0] };
/// let mut x = [0.0; 2];
/// huber.prox(1.0, &[0.8, 10.0], &mut x, &mut [])?;
/// assert_eq!(x, [0.4, 9.5]);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Huber<T> {
    /// w, the weight, above 0.
    pub weight: T,
    /// δ, where the function becomes linear, above 0.
    pub delta: T,
    /// c, the centre.
    pub centre: Vec<T>, // [d]
}

impl<T: Real> Proximal<T> for Huber<T> {
    fn dim(&self) -> usize {
        self.centre.len()
    }

    fn validate(&self) -> Result<()> {
        check_positive("huber: weight", self.weight.to_f64())?;
        check_positive("huber: delta", self.delta.to_f64())?;
        check_finite("huber: centre", &self.centre)
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn prox(&self, rho: T, v: &[T], x: &mut [T], _scratch: &mut [T]) -> Result<()> {
        for ((x, &v), &c) in x.iter_mut().zip(v).zip(&self.centre) {
            *x = c + shrink(self.weight, self.delta, rho, v - c);
        }
        Ok(())
    }

    fn value(&self, x: &[T]) -> Option<T> {
        let each = x.iter().zip(&self.centre).map(|(&x, &c)| huber(self.delta, x - c));
        Some(self.weight * each.sum())
    }

    fn param_len(&self) -> usize {
        2 + self.centre.len()
    }

    fn vjp(
        &self,
        rho: T,
        v: &[T],
        x: &[T],
        d_x: &[T],
        grad: &mut ProxGrad<'_, T>,
        _scratch: &mut [T],
    ) -> Result<()> {
        let (w, delta) = (self.weight, self.delta);
        for k in 0..d_x.len() {
            let (g, t, r) = (d_x[k], v[k] - self.centre[k], x[k] - self.centre[k]);
            let inside = t.abs() <= delta * (T::ONE + w / rho);
            let sign = if t < T::ZERO { -T::ONE } else { T::ONE };
            let along = if inside { rho / (rho + w) } else { T::ONE };
            let (d_w, d_delta, d_rho) = if inside {
                (-r / (rho + w), T::ZERO, (t - r) / (rho + w))
            } else {
                (-sign * delta / rho, -sign * w / rho, sign * w * delta / (rho * rho))
            };
            grad.v[k] += along * g;
            *grad.rho += d_rho * g;
            if let [d_weight, d_delta_sum, d_centre @ ..] = &mut *grad.params {
                *d_weight += d_w * g;
                *d_delta_sum += d_delta * g;
                d_centre[k] += (T::ONE - along) * g;
            }
        }
        Ok(())
    }
}

/// U(r).
pub(crate) fn huber<T: Real>(delta: T, r: T) -> T {
    let half = T::from_f64(0.5);
    if r.abs() <= delta { half * r * r } else { delta * (r.abs() - half * delta) }
}

/// The prox of w·U at t.
pub(crate) fn shrink<T: Real>(w: T, delta: T, rho: T, t: T) -> T {
    if t.abs() <= delta * (T::ONE + w / rho) {
        rho * t / (rho + w)
    } else {
        let shift = w * delta / rho;
        if t < T::ZERO { t + shift } else { t - shift }
    }
}
