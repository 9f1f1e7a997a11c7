//! The simplex: shares of a total.
//!
//! ```text
//! f(x) = 0 for x ≥ 0, Σ x = r, else ∞
//! x = max(v − θ, 0), θ such that the sum is r
//! ```
//!
//! Adjoint, with S the coordinates above 0: d_v += g_S − (Σ_S g)/|S|, d_r += (Σ_S g)/|S|; d_ρ is 0.
//!
//! Parameters in gradients: r; `[1]`.

use super::proximal::{ProxGrad, Proximal};
use crate::error::check_positive;
use crate::{Error, ErrorKind, Real, Result};

/// x ≥ 0 with Σ x = `total`. Parameters in gradients: `total`; `[1]`.
///
/// ```
/// use sheaf_admm::x_update::{Proximal, Simplex};
///
/// let simplex = Simplex { dim: 3, total: 1.0 };
/// let mut x = [0.0; 3];
/// simplex.prox(1.0, &[0.75, 0.75, -1.0], &mut x, &mut vec![0.0; simplex.scratch_len()])?;
/// assert_eq!(x, [0.5, 0.5, 0.0]);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simplex<T> {
    /// The size of x, at least 1.
    pub dim: usize,
    /// r, the sum, above 0.
    pub total: T,
}

impl<T: Real> Proximal<T> for Simplex<T> {
    fn dim(&self) -> usize {
        self.dim
    }

    fn validate(&self) -> Result<()> {
        if self.dim == 0 {
            return Err(Error::new(ErrorKind::Shape, "simplex: dim", "at least 1", 0));
        }
        check_positive("simplex: total", self.total.to_f64())
    }

    /// v, sorted.
    fn scratch_len(&self) -> usize {
        self.dim
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn prox(&self, _rho: T, v: &[T], x: &mut [T], scratch: &mut [T]) -> Result<()> {
        scratch.copy_from_slice(v);
        let theta = threshold(scratch, self.total);
        x.iter_mut().zip(v).for_each(|(x, &v)| *x = (v - theta).max(T::ZERO));
        Ok(())
    }

    fn value(&self, _x: &[T]) -> Option<T> {
        Some(T::ZERO)
    }

    fn param_len(&self) -> usize {
        1
    }

    fn vjp(
        &self,
        _rho: T,
        _v: &[T],
        x: &[T],
        d_x: &[T],
        grad: &mut ProxGrad<'_, T>,
        _scratch: &mut [T],
    ) -> Result<()> {
        let support = || x.iter().zip(d_x).filter(|(x, _)| **x > T::ZERO);
        let count = T::from_f64(support().count().max(1) as f64);
        let mean = support().map(|(_, &g)| g).sum::<T>() / count;
        for k in (0..x.len()).filter(|&k| x[k] > T::ZERO) {
            grad.v[k] += d_x[k] - mean;
        }
        if let [d_total] = &mut *grad.params {
            *d_total += mean;
        }
        Ok(())
    }
}

/// θ with Σ max(s − θ, 0) = total. Sorts `s`; never allocates.
pub(super) fn threshold<T: Real>(s: &mut [T], total: T) -> T {
    s.sort_unstable_by(|a, b| b.partial_cmp(a).unwrap_or(std::cmp::Ordering::Equal));
    let (mut sum, mut theta) = (T::ZERO, T::ZERO);
    for (k, &value) in s.iter().enumerate() {
        sum += value;
        let here = (sum - total) / T::from_f64((k + 1) as f64);
        if value <= here {
            break;
        }
        theta = here;
    }
    theta
}
