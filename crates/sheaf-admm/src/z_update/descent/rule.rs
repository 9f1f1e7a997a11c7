//! Descent with momentum on any energy E, and its adjoint.
//!
//! One step from (x, m), with slope g = ∇E(x), momentum μ and step η:
//!
//! ```text
//! m' = μ m + g;   v = μ m' + g;   x' = x − η v
//! ```
//!
//! This is Nesterov's method, the iterate being the extrapolated point; μ = 0 is plain gradient descent. Adjoint, bars
//! being gradients and H the Hessian of E at x:
//!
//! ```text
//! e = −η x̄';   η̄ −= x̄'·v;   m̄' += μ e;   ḡ = e + m̄';   m̄ = μ m̄';   x̄ = x̄' + H ḡ
//! ```
//!
//! and E's own parameters receive the contribution of ḡ·∇E(x).

use crate::error::check_positive;
use crate::z_update::{InnerReport, Stop};
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::vector::axpy;

/// An energy, given by its slope.
pub(crate) trait Slope<T> {
    /// a·b, over all that the energy couples.
    fn dot(&self, a: &[T], b: &[T]) -> T;

    /// g = ∇E(x); `t` counts the slopes, so that each can keep what its adjoint needs.
    fn slope(&mut self, t: usize, x: &[T], g: &mut [T]);

    /// Adjoint of [`slope`](Self::slope) number `t`: d_x += H d_g, and the gradients of E's parameters. `d_g` may be
    /// overwritten.
    fn slope_vjp(&mut self, t: usize, x: &[T], d_g: &mut [T], d_x: &mut [T]);
}

/// The options of a descent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<T> {
    pub eta: T,
    pub momentum: T,
    pub stop: Stop<T>,
}

impl<T: Real> Rule<T> {
    pub(crate) fn validate(&self) -> Result<()> {
        check_positive("step size eta", self.eta.to_f64())?;
        if !(self.momentum >= T::ZERO && self.momentum < T::ONE) {
            return Err(Error::new(
                ErrorKind::OutOfRange,
                "momentum",
                "a number of at least 0 and below 1",
                self.momentum,
            ));
        }
        self.stop.validate("descent")
    }

    /// The most slopes that a run may need: one per step, and with a tolerance one more at the end.
    pub(crate) fn slopes(&self) -> usize {
        self.stop.max_steps().saturating_add(usize::from(matches!(self.stop, Stop::Tolerance { .. })))
    }

    /// Moves `x` from the start to the end. The tolerance is on ‖g‖, relative to `reference` or else to the first ‖g‖.
    /// With a `history` of (x before each step, v of each step), `[max_steps, len]` each, it keeps these for the
    /// adjoint.
    pub(crate) fn run(
        &self,
        energy: &mut impl Slope<T>,
        reference: Option<T>,
        x: &mut [T], // [len]
        m: &mut [T], // [len]
        g: &mut [T], // [len]
        mut history: Option<(&mut [T], &mut [T])>,
    ) -> InnerReport {
        let len = x.len();
        let mut goal = None;
        m.fill(T::ZERO);
        for t in 0..self.slopes() {
            energy.slope(t, x, g);
            if t == 0 {
                goal = self.stop.goal(reference.unwrap_or_else(|| energy.dot(g, g).sqrt()));
            }
            let converged = goal.is_some_and(|goal| energy.dot(g, g).sqrt() <= goal);
            if converged || t == self.stop.max_steps() {
                return InnerReport { steps: t, converged };
            }
            for (m, g) in m.iter_mut().zip(g.iter_mut()) {
                *m = self.momentum * *m + *g;
                *g += self.momentum * *m;
            }
            if let Some((xs, vs)) = &mut history {
                xs[t * len..][..len].copy_from_slice(x);
                vs[t * len..][..len].copy_from_slice(g);
            }
            axpy(x, -self.eta, g);
        }
        InnerReport { steps: self.stop.max_steps(), converged: true }
    }

    /// Adjoint of [`run`](Self::run) through the `steps` that ran. `d_x` goes from the gradient of the end to that of
    /// the start; `d_gs` `[steps, len]` receives the gradient of each slope; returns the gradient of η.
    pub(crate) fn run_vjp(
        &self,
        energy: &mut impl Slope<T>,
        steps: usize,
        xs: &[T], // [steps, len]
        vs: &[T], // [steps, len]
        d_x: &mut [T],
        d_m: &mut [T],
        d_gs: &mut [T],
    ) -> T {
        let len = d_x.len();
        let mut d_eta = T::ZERO;
        d_m.fill(T::ZERO);
        for t in (0..steps).rev() {
            let here = t * len..(t + 1) * len;
            let d_g = &mut d_gs[here.clone()];
            d_eta -= energy.dot(d_x, &vs[here.clone()]);
            for ((d_g, d_m), d_x) in d_g.iter_mut().zip(d_m.iter_mut()).zip(d_x.iter()) {
                let e = -self.eta * *d_x;
                let d_next = *d_m + self.momentum * e;
                *d_g = e + d_next;
                *d_m = self.momentum * d_next;
            }
            energy.slope_vjp(t, &xs[here], d_g, d_x);
        }
        d_eta
    }
}
