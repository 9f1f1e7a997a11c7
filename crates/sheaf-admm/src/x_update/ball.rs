//! Balls of the norms l1, l2 and l∞: the prox is the projection, whatever ρ.
//!
//! ```text
//! f(x) = 0 for ‖x − c‖ ≤ r, else ∞            t = v − c
//! l2:  x = c + t·min(1, r/‖t‖)
//! l∞:  x = c + t clipped to [−r, r]
//! l1:  x = c + sign(t)·max(|t| − θ, 0), θ such that the norm is r (θ = 0 inside)
//! ```
//!
//! Adjoint: inside, d_v += g. Outside, with n = t/‖t‖, S the coordinates that are not cut to 0 and s their signs:
//!
//! ```text
//! l2:  d_v += (r/‖t‖)(g − n nᵀg)      d_r += nᵀg
//! l∞:  d_v += g where |t| ≤ r         d_r += Σ sign(t) g elsewhere
//! l1:  d_v += g_S − s (sᵀg)/|S|       d_r += (sᵀg)/|S|
//! ```
//!
//! Always d_c += g − d_v; d_ρ is 0. On the boundary the inner side is taken.
//!
//! Parameters in gradients: r, c; `[1 + d]`.

use super::proximal::{ProxGrad, Proximal};
use super::simplex::threshold;
use crate::error::{check_finite, check_positive};
use crate::{Real, Result};

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// Sum of absolute values.
    L1,
    /// Euclidean.
    L2,
    /// Largest absolute value.
    LInf,
}

/// ‖x − c‖ ≤ r. Parameters in gradients: r, c; `[1 + d]`.
///
/// ```
/// use sheaf_admm::x_update::{Ball, Norm, Proximal};
///
/// let ball = Ball { norm: Norm::L2, radius: 1.0, centre: vec![1.0, 0.0] };
/// let mut x = [0.0; 2];
/// ball.prox(1.0, &[1.0, 5.0], &mut x, &mut vec![0.0; ball.scratch_len()])?;
/// assert_eq!(x, [1.0, 1.0]);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Ball<T> {
    /// The norm.
    pub norm: Norm,
    /// r, above 0.
    pub radius: T,
    /// c.
    pub centre: Vec<T>, // [d]
}

impl<T: Real> Ball<T> {
    fn gap<'v>(&'v self, v: &'v [T]) -> impl Iterator<Item = T> + Clone + 'v {
        v.iter().zip(&self.centre).map(|(&v, &c)| v - c)
    }

    /// ‖v − c‖.
    fn length(&self, v: &[T]) -> T {
        match self.norm {
            Norm::L1 => self.gap(v).map(T::abs).sum(),
            Norm::L2 => self.gap(v).map(|t| t * t).sum::<T>().sqrt(),
            Norm::LInf => self.gap(v).fold(T::ZERO, |m, t| m.max(t.abs())),
        }
    }

    /// θ of the l1 ball for a point outside.
    fn cut(&self, v: &[T], scratch: &mut [T]) -> T {
        scratch.iter_mut().zip(self.gap(v)).for_each(|(s, t)| *s = t.abs());
        threshold(scratch, self.radius)
    }
}

impl<T: Real> Proximal<T> for Ball<T> {
    fn dim(&self) -> usize {
        self.centre.len()
    }

    fn validate(&self) -> Result<()> {
        check_positive("ball: radius", self.radius.to_f64())?;
        check_finite("ball: centre", &self.centre)
    }

    /// The absolute values, sorted, for the l1 ball.
    fn scratch_len(&self) -> usize {
        self.centre.len()
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn prox(&self, _rho: T, v: &[T], x: &mut [T], scratch: &mut [T]) -> Result<()> {
        let (r, length) = (self.radius, self.length(v));
        if length <= r {
            x.copy_from_slice(v);
            return Ok(());
        }
        let theta = if self.norm == Norm::L1 { self.cut(v, scratch) } else { T::ZERO };
        for ((x, t), &c) in x.iter_mut().zip(self.gap(v)).zip(&self.centre) {
            *x = c + match self.norm {
                Norm::L1 if t < T::ZERO => -(-t - theta).max(T::ZERO),
                Norm::L1 => (t - theta).max(T::ZERO),
                Norm::L2 => t * (r / length),
                Norm::LInf => t.max(-r).min(r),
            };
        }
        Ok(())
    }

    fn value(&self, _x: &[T]) -> Option<T> {
        Some(T::ZERO)
    }

    fn param_len(&self) -> usize {
        1 + self.centre.len()
    }

    fn vjp(
        &self,
        _rho: T,
        v: &[T],
        _x: &[T],
        d_x: &[T],
        grad: &mut ProxGrad<'_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let (r, length) = (self.radius, self.length(v));
        if length <= r {
            grad.v.iter_mut().zip(d_x).for_each(|(d, &g)| *d += g);
            return Ok(());
        }
        let theta = if self.norm == Norm::L1 { self.cut(v, scratch) } else { T::ZERO };
        let sign = |t: T| if t < T::ZERO { -T::ONE } else { T::ONE };
        // The direction whose step changes the radius, and how many of its coordinates move.
        let normal = |t: T| match self.norm {
            Norm::L1 if t.abs() <= theta => T::ZERO,
            Norm::LInf if t.abs() <= r => T::ZERO,
            Norm::L1 | Norm::LInf => sign(t),
            Norm::L2 => t / length,
        };
        let count = match self.norm {
            Norm::L1 => self.gap(v).map(|t| normal(t).abs()).sum(),
            _ => T::ONE,
        };
        let along = self.gap(v).zip(d_x).map(|(t, &g)| normal(t) * g).sum::<T>() / count;
        for (k, t) in self.gap(v).enumerate() {
            let (g, n) = (d_x[k], normal(t));
            let passed = match self.norm {
                Norm::L1 => n.abs() * g - n * along,
                Norm::L2 => (r / length) * (g - n * along),
                Norm::LInf => (T::ONE - n.abs()) * g,
            };
            grad.v[k] += passed;
            if let [_, d_centre @ ..] = &mut *grad.params {
                d_centre[k] += g - passed;
            }
        }
        if let [d_radius, ..] = &mut *grad.params {
            *d_radius += along;
        }
        Ok(())
    }
}
