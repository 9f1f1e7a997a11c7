//! Proximal maps of one's own: a trait for the objective of one agent.
//!
//! ```text
//! x = argmin f(x) + ρ/2 ‖x − v‖²
//! ```
//!
//! | method | needed for |
//! | --- | --- |
//! | [`dim`](Proximal::dim), [`prox`](Proximal::prox) | every solve |
//! | [`value`](Proximal::value) | the objective in reports |
//! | [`vjp`](Proximal::vjp) | gradients of v and ρ; of the parameters too with [`param_len`](Proximal::param_len) |
//! | [`lowest`](Proximal::lowest), [`recession`](Proximal::recession) | certificates that there is no solution |
//! | [`scratch_len`](Proximal::scratch_len), [`prepare`](Proximal::prepare) | factorisations that all iterations share |

use std::fmt;

use crate::{Error, ErrorKind, Real, Result};

/// The objective of one agent, given by its proximal map. f must be convex, closed and proper; nothing here can check
/// that.
///
/// ```
/// use std::sync::Arc;
/// use sheaf_admm::Result;
/// use sheaf_admm::x_update::{Objective, Penalty, Proximal};
///
/// /// f(x) = −Σ ln x, the barrier of the positive numbers.
/// #[derive(Debug)]
/// struct Barrier(usize);
///
/// impl Proximal<f64> for Barrier {
///     fn dim(&self) -> usize {
///         self.0
///     }
///
///     fn prox(&self, rho: f64, v: &[f64], x: &mut [f64], _scratch: &mut [f64]) -> Result<()> {
///         // −1/x + ρ(x − v) = 0
///         x.iter_mut().zip(v).for_each(|(x, v)| *x = 0.5 * (v + (v * v + 4.0 / rho).sqrt()));
///         Ok(())
///     }
/// }
///
/// let each: [Arc<dyn Proximal<f64>>; 1] = [Arc::new(Barrier(2))];
/// let (objective, rho, mut x) = (Objective::Own(&each), Penalty::Scalar(1.0), [0.0; 2]);
/// objective.validate(&[0, 2])?;
/// let mut scratch = vec![0.0; objective.scratch_len(&[0, 2])];
/// objective.prepare(&[0, 2], &rho, &mut scratch)?;
/// objective.prox(&[0, 2], &rho, &[0.0, 1.5], &mut x, &mut scratch)?;
/// assert_eq!(x, [1.0, 2.0]);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
pub trait Proximal<T: Real>: fmt::Debug + Send + Sync {
    /// The size of x.
    fn dim(&self) -> usize;

    /// Checks the parameters; called once before a solve.
    fn validate(&self) -> Result<()> {
        Ok(())
    }

    /// Length of the scratch that `prepare`, `prox` and `vjp` share. It is the map's own from one iteration to the next.
    fn scratch_len(&self) -> usize {
        0
    }

    /// Fills the scratch with what all iterations at this penalty share.
    fn prepare(&self, _rho: T, _scratch: &mut [T]) -> Result<()> {
        Ok(())
    }

    /// x = argmin f(x) + ρ/2 ‖x − v‖². Overwrites `x`.
    fn prox(&self, rho: T, v: &[T], x: &mut [T], scratch: &mut [T]) -> Result<()>;

    /// f(x) of a feasible x; `None` if it is not known.
    fn value(&self, _x: &[T]) -> Option<T> {
        None
    }

    /// inf d·x over the points where f is finite, with the sum of the sizes of its terms; −∞ if there is no bound, `None`
    /// if it is not known. Numbers of d up to `zero` count as 0. Proves that a problem is infeasible.
    fn lowest(&self, _d: &[T], _zero: T) -> Option<(T, T)> {
        None
    }

    /// lim f(x + t d)/t for t → ∞, with the sum of the sizes of its terms; +∞ if f curves up along d or ends, `None` if
    /// it is not known. Proves that a problem is unbounded.
    fn recession(&self, _d: &[T], _zero: T) -> Option<(T, T)> {
        None
    }

    /// The quadratic, if this is one: a network scales and updates it in place.
    #[doc(hidden)]
    fn as_quadratic(&self) -> Option<&super::Quadratic> {
        None
    }

    #[doc(hidden)]
    fn as_quadratic_mut(&mut self) -> Option<&mut super::Quadratic> {
        None
    }

    /// The map itself, if it can be written to a file.
    #[doc(hidden)]
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        None
    }

    /// A copy, if the map can be updated in place.
    #[doc(hidden)]
    fn detached(&self) -> Option<std::sync::Arc<dyn Proximal<T>>> {
        None
    }

    /// The offset, if this is an edge of a network as an agent.
    #[doc(hidden)]
    fn offset_mut(&mut self) -> Option<&mut [f64]> {
        None
    }

    /// How many parameters have gradients.
    fn param_len(&self) -> usize {
        0
    }

    /// Adds the gradients of v, ρ and the parameters, given the gradient `d_x` of x = prox(v).
    fn vjp(
        &self,
        _rho: T,
        _v: &[T],
        _x: &[T],
        _d_x: &[T],
        _grad: &mut ProxGrad<'_, T>,
        _scratch: &mut [T],
    ) -> Result<()> {
        Err(Error::new(
            ErrorKind::Unsupported,
            "gradient of a proximal map",
            "Proximal::vjp",
            "no such method",
        )
        .hint("implement Proximal::vjp for this objective, or ask for no gradient"))
    }
}

/// The gradients of a proximal map, added to.
#[derive(Debug)]
pub struct ProxGrad<'g, T> {
    /// Gradient of v.
    pub v: &'g mut [T], // [d]
    /// Gradient of ρ.
    pub rho: &'g mut T,
    /// Gradient of the parameters, in the order that the map documents; empty if not needed.
    pub params: &'g mut [T], // [param_len] or []
}

impl<T: Real> ProxGrad<'_, T> {
    /// Adds the part that every smooth prox has: with (∇²f + ρ) λ = d_x, d_v += ρλ and d_ρ += λᵀ(v − x).
    pub(super) fn add_lambda(&mut self, rho: T, lambda: &[T], v: &[T], x: &[T]) {
        for k in 0..lambda.len() {
            self.v[k] += rho * lambda[k];
            *self.rho += lambda[k] * (v[k] - x[k]);
        }
    }
}
