//! The second-order cone: x = (t, y) with ‖y‖ ≤ t.
//!
//! ```text
//! v = (a, w), n = w/‖w‖:   x = v in the cone,   x = 0 for ‖w‖ ≤ −a,
//!                          else x = ½(a + ‖w‖)·(1, n)
//! ```
//!
//! Adjoint on the third piece, with g = (g_a, g_w) and s = nᵀg_w:
//!
//! ```text
//! d_a += ½(g_a + s)      d_w += ½(g_a n + (1 + a/‖w‖) g_w − (a/‖w‖) s n)
//! ```
//!
//! d_ρ is 0. There are no parameters.

use super::proximal::{ProxGrad, Proximal};
use crate::{Error, ErrorKind, Real, Result};

/// ‖(x₁, …)‖ ≤ x₀, in `dim` coordinates.
///
/// ```
/// use sheaf_admm::x_update::{Proximal, SecondOrderCone};
///
/// let mut x = [0.0; 3];
/// SecondOrderCone { dim: 3 }.prox(1.0, &[0.0, 3.0, 4.0], &mut x, &mut [])?;
/// assert_eq!(x, [2.5, 1.5, 2.0]);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecondOrderCone {
    /// The size of x, at least 1.
    pub dim: usize,
}

fn length<T: Real>(w: &[T]) -> T {
    w.iter().map(|&w| w * w).sum::<T>().sqrt()
}

impl<T: Real> Proximal<T> for SecondOrderCone {
    fn dim(&self) -> usize {
        self.dim
    }

    fn validate(&self) -> Result<()> {
        if self.dim > 0 {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Shape, "second-order cone: dim", "at least 1", 0))
        }
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }

    fn prox(&self, _rho: T, v: &[T], x: &mut [T], _scratch: &mut [T]) -> Result<()> {
        let Some((&a, w)) = v.split_first() else { return Ok(()) };
        let size = length(w);
        if size <= a {
            x.copy_from_slice(v);
        } else if size <= -a {
            x.fill(T::ZERO);
        } else {
            let top = T::from_f64(0.5) * (a + size);
            x[0] = top;
            x[1..].iter_mut().zip(w).for_each(|(x, &w)| *x = top * w / size);
        }
        Ok(())
    }

    fn value(&self, _x: &[T]) -> Option<T> {
        Some(T::ZERO)
    }

    fn vjp(
        &self,
        _rho: T,
        v: &[T],
        _x: &[T],
        d_x: &[T],
        grad: &mut ProxGrad<'_, T>,
        _scratch: &mut [T],
    ) -> Result<()> {
        let Some((&a, w)) = v.split_first() else { return Ok(()) };
        let size = length(w);
        if size <= a {
            grad.v.iter_mut().zip(d_x).for_each(|(d, &g)| *d += g);
        } else if size > -a {
            let (half, ratio) = (T::from_f64(0.5), a / size);
            let along = w.iter().zip(&d_x[1..]).map(|(&w, &g)| w * g).sum::<T>() / size;
            grad.v[0] += half * (d_x[0] + along);
            for ((d, &w), &g) in grad.v[1..].iter_mut().zip(w).zip(&d_x[1..]) {
                *d += half * ((d_x[0] - ratio * along) * w / size + (T::ONE + ratio) * g);
            }
        }
        Ok(())
    }
}
