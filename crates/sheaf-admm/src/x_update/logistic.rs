//! Logistic loss of an agent's own observations.
//!
//! ```text
//! f(x) = w Σ_k ln(1 + exp(−m_k)) + l2/2 ‖x‖²      m_k = y_k a_kᵀx
//! ∇f = −w Σ_k y_k s_k a_k + l2 x                  s_k = 1/(1 + exp(m_k))
//! H = w Σ_k y_k² s_k(1 − s_k) a_k a_kᵀ + l2 + ρ
//! ```
//!
//! The prox runs damped Newton steps until the gradient of f(x) + ρ/2‖x − v‖² is below 1e-12 of its terms, at most 50.
//!
//! Adjoint, with H λ = d_x and c_k = a_kᵀλ:
//!
//! ```text
//! d_v += ρλ   d_ρ += λᵀ(v − x)   d_w += Σ y s c   d_l2 −= λᵀx
//! d_a_k += w (y s λ − y² s(1 − s) c x)      d_y_k += w (s − y s(1 − s) aᵀx) c
//! ```
//!
//! Parameters in gradients: w, l2, y, a; `[2 + m + m·d]`.

use super::proximal::{ProxGrad, Proximal};
use crate::error::{check_finite, check_len, check_positive};
use crate::linalg::cholesky;
use crate::{Error, ErrorKind, Real, Result};

/// f(x) = w Σ_k ln(1 + exp(−y_k a_kᵀx)) + l2/2 ‖x‖² over an agent's observations, solved by damped Newton steps.
///
/// Parameters in gradients: w, l2, y, a; `[2 + m + m·d]`.
///
/// ```
/// use sheaf_admm::x_update::{Logistic, Proximal};
///
/// // One observation, a = 1, y = 1: at x = 0 the slope is −½, so v = −½ is answered by x = 0.
/// let loss = Logistic { dim: 1, features: vec![1.0], labels: vec![1.0], weight: 1.0, l2: 0.0 };
/// let (mut x, mut scratch) = ([0.0], vec![0.0; loss.scratch_len()]);
/// loss.prox(1.0, &[-0.5], &mut x, &mut scratch)?;
/// assert!(f64::abs(x[0]) < 1e-12);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Logistic<T> {
    /// The size of x.
    pub dim: usize,
    /// a, one row per observation.
    pub features: Vec<T>, // [m, d]
    /// y, −1 or 1.
    pub labels: Vec<T>, // [m]
    /// w, the weight of an observation, above 0.
    pub weight: T,
    /// l2, at least 0.
    pub l2: T,
}

/// Newton steps before the prox fails; quadratic convergence needs about ten.
const STEPS: usize = 50;

impl<T: Real> Logistic<T> {
    fn rows(&self) -> impl Iterator<Item = (&[T], T)> {
        self.features.chunks_exact(self.dim.max(1)).zip(self.labels.iter().copied())
    }

    /// f(x) + ρ/2 ‖x − v‖².
    fn merit(&self, rho: T, v: &[T], x: &[T]) -> T {
        let loss: T = self.rows().map(|(a, y)| softplus(-y * dot(a, x))).sum();
        let half = T::from_f64(0.5);
        let far: T = x.iter().zip(v).map(|(&x, &v)| (x - v) * (x - v)).sum();
        self.weight * loss + half * self.l2 * dot(x, x) + half * rho * far
    }

    /// The gradient of the merit, and the sizes of its terms.
    fn slope(&self, rho: T, v: &[T], x: &[T], slope: &mut [T]) -> (T, T) {
        let mut size = T::ZERO;
        for ((slope, &x), &v) in slope.iter_mut().zip(x).zip(v) {
            *slope = self.l2 * x + rho * (x - v);
            size = size.max(self.l2 * x.abs()).max(rho * x.abs()).max(rho * v.abs());
        }
        for (a, y) in self.rows() {
            let pull = self.weight * y * sigmoid(-y * dot(a, x));
            for (slope, &a) in slope.iter_mut().zip(a) {
                *slope -= pull * a;
                size = size.max((pull * a).abs());
            }
        }
        (slope.iter().fold(T::ZERO, |m, s| m.max(s.abs())), size)
    }

    /// The factor of H.
    fn factor(&self, rho: T, x: &[T], h: &mut [T]) -> Result<()> {
        let d = self.dim;
        h.fill(T::ZERO);
        for (a, y) in self.rows() {
            let s = sigmoid(-y * dot(a, x));
            let bend = self.weight * y * y * s * (T::ONE - s);
            for i in 0..d {
                for j in 0..=i {
                    h[i * d + j] += bend * a[i] * a[j];
                }
            }
        }
        (0..d).for_each(|i| h[i * d + i] += self.l2 + rho);
        cholesky::factor(h, d, T::ZERO).map_err(|bad| {
            let got = format!("pivot {:e} at row {}", bad.value, bad.row);
            Error::new(ErrorKind::NotPositiveDefinite, "logistic: Hessian", "a positive definite matrix", got)
                .hint("scale the features so that their entries are near 1")
        })
    }
}

impl<T: Real> Proximal<T> for Logistic<T> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn validate(&self) -> Result<()> {
        check_len("logistic: features", self.labels.len().saturating_mul(self.dim), self.features.len())?;
        check_finite("logistic: features", &self.features)?;
        check_finite("logistic: labels", &self.labels)?;
        check_positive("logistic: weight", self.weight.to_f64())?;
        if self.l2 >= T::ZERO && self.l2.is_finite() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NotPositive, "logistic: l2", "a finite number, at least 0", self.l2))
    }

    /// H, the slope, the step and the trial point.
    fn scratch_len(&self) -> usize {
        self.dim.saturating_mul(self.dim.saturating_add(3))
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn prox(&self, rho: T, v: &[T], x: &mut [T], scratch: &mut [T]) -> Result<()> {
        let d = self.dim;
        let (h, rest) = scratch.split_at_mut(d * d);
        let (slope, rest) = rest.split_at_mut(d);
        let (step, trial) = rest.split_at_mut(d);
        check_finite("logistic: v", v)?;
        x.copy_from_slice(v);
        for _ in 0..STEPS {
            let (largest, size) = self.slope(rho, v, x, slope);
            // f32 cannot do better than its own rounding.
            if largest <= size * T::from_f64(1e-12).max(T::from_f64(32.0) * T::EPSILON) {
                return Ok(());
            }
            self.factor(rho, x, h)?;
            step.copy_from_slice(slope);
            cholesky::solve(h, d, step);
            let (now, descent, mut t) = (self.merit(rho, v, x), dot(slope, step), T::ONE);
            // The merit is flat to rounding near the minimum: a full Newton step is right there.
            let flat = now.abs() * T::EPSILON * T::from_f64(64.0);
            loop {
                (0..d).for_each(|k| trial[k] = x[k] - t * step[k]);
                let enough = now - T::from_f64(0.25) * t * descent + flat;
                if self.merit(rho, v, trial) <= enough || t < T::from_f64(1e-10) {
                    break;
                }
                t *= T::from_f64(0.5);
            }
            x.copy_from_slice(trial);
        }
        let (largest, size) = self.slope(rho, v, x, slope);
        if largest <= size * T::EPSILON.sqrt() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::SolverFailed,
            "logistic: prox",
            "a zero slope",
            format_args!("{largest:e}"),
        )
        .hint("scale the features so that their entries are near 1"))
    }

    fn value(&self, x: &[T]) -> Option<T> {
        Some(self.merit(T::ZERO, x, x))
    }

    fn param_len(&self) -> usize {
        2 + self.labels.len() + self.features.len()
    }

    fn vjp(
        &self,
        rho: T,
        v: &[T],
        x: &[T],
        d_x: &[T],
        grad: &mut ProxGrad<'_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let (d, m) = (self.dim, self.labels.len());
        let (h, rest) = scratch.split_at_mut(d * d);
        let lambda = &mut rest[..d];
        self.factor(rho, x, h)?;
        lambda.copy_from_slice(d_x);
        cholesky::solve(h, d, lambda);
        grad.add_lambda(rho, lambda, v, x);
        let [d_weight, d_l2, rest @ ..] = &mut *grad.params else { return Ok(()) };
        let (d_labels, d_features) = rest.split_at_mut(m);
        *d_l2 -= dot(lambda, x);
        for ((a, y), (d_y, d_a)) in
            self.rows().zip(d_labels.iter_mut().zip(d_features.chunks_exact_mut(d.max(1))))
        {
            let (c, at, w) = (dot(a, lambda), dot(a, x), self.weight);
            let s = sigmoid(-y * at);
            let bend = s * (T::ONE - s);
            *d_weight += y * s * c;
            *d_y += w * (s - y * bend * at) * c;
            for j in 0..d {
                d_a[j] += w * (y * s * lambda[j] - y * y * bend * c * x[j]);
            }
        }
        Ok(())
    }
}

fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    super::curvature::dot(a, b)
}

/// ln(1 + eᵗ), without overflow.
fn softplus<T: Real>(t: T) -> T {
    t.max(T::ZERO) + (-t.abs()).exp().ln_1p()
}

/// 1/(1 + e⁻ᵗ), without overflow.
fn sigmoid<T: Real>(t: T) -> T {
    let e = (-t.abs()).exp();
    if t < T::ZERO { e / (T::ONE + e) } else { T::ONE / (T::ONE + e) }
}
