//! Conjugate gradients on the edge-space system, and their adjoint through the steps that ran.
//!
//! One step, with guard e: q = A p, s = p·q + e, a = c/s (c = r·r), λ += a p, r −= a q, c' = r·r, b = c'/(c + e),
//! p' = r' + b p. Its adjoint, primes being values after the step:
//!
//! ```text
//! r̄' += p̄';  b̄ = p̄'·p;  p̄ = b p̄';  c̄' += b̄/(c + e);  c̄ = −b̄ c'/(c + e)²;  r̄' += 2 c̄' r'
//! ā = λ̄·p − r̄'·q;  p̄ += a λ̄;  q̄ = −a r̄';  c̄ += ā/s;  s̄ = −ā c/s²;  p̄ += s̄ q;  q̄ += s̄ p;  p̄ += A q̄
//! ```
//!
//! At the start p = r = b − A λ: r̄ += p̄ + 2 c̄ r;  b̄ += r̄;  λ̄ −= A r̄.

use super::system::EdgeSystem;
use crate::Real;
use crate::linalg::scratch::Scratch;
use crate::z_update::{InnerReport, Stop};
use sheaf_kernels::vector::{add, axpy, cg_update, dot, norm, xpby};

/// Scalars kept of a step: a, b, c, c', s.
const SCALARS: usize = 5;

pub(super) struct EdgeCg<T> {
    pub guard: T,
    pub stop: Stop<T>,
    /// Whether λ starts elsewhere than at 0; at 0 the residual needs no product.
    pub warm: bool,
}

/// What a run keeps for its adjoint, for every step: p, q, r (before the first step and after each) and the scalars.
pub(super) struct EdgeCgHistory<'s, T> {
    p: &'s mut [T],       // [steps, edges]
    q: &'s mut [T],       // [steps, edges]
    r: &'s mut [T],       // [steps + 1, edges]
    scalars: &'s mut [T], // [steps, SCALARS]
}

impl<'s, T: Real> EdgeCgHistory<'s, T> {
    pub(super) fn len(steps: usize, edges: usize) -> usize {
        steps.saturating_mul(3 * edges + SCALARS).saturating_add(edges)
    }

    pub(super) fn carve(steps: usize, edges: usize, scratch: &mut Scratch<'s, T>) -> Self {
        let (p, q) = (scratch.take(steps * edges), scratch.take(steps * edges));
        Self { p, q, r: scratch.take((steps + 1) * edges), scalars: scratch.take(steps * SCALARS) }
    }

    fn keep(&mut self, t: usize, p: &[T], q: &[T], r: &[T], scalars: [T; SCALARS]) {
        let len = p.len();
        self.p[t * len..][..len].copy_from_slice(p);
        self.q[t * len..][..len].copy_from_slice(q);
        self.r[(t + 1) * len..][..len].copy_from_slice(r);
        self.scalars[t * SCALARS..][..SCALARS].copy_from_slice(&scalars);
    }
}

impl<T: Real> EdgeCg<T> {
    /// How many products a run may ask for.
    pub(super) fn products(&self) -> usize {
        self.stop.max_steps().saturating_add(1)
    }

    /// Moves `lambda` from the start to the end. The tolerance is on ‖r‖, relative to ‖b‖. `work` is `[3, edges]`.
    pub(super) fn run(
        &self,
        system: &mut EdgeSystem<'_, T>,
        lambda: &mut [T],
        work: &mut [T],
        mut history: Option<&mut EdgeCgHistory<'_, T>>,
    ) -> InnerReport {
        let len = lambda.len();
        let (r, work) = work.split_at_mut(len);
        let (p, q) = work.split_at_mut(len);
        let q = &mut q[..len];
        let goal = self.stop.goal(norm(system.b));
        r.copy_from_slice(system.b);
        if self.warm {
            system.product(0, lambda, q);
            axpy(r, -T::ONE, q);
        }
        if let Some(history) = &mut history {
            history.r[..len].copy_from_slice(r);
        }
        p.copy_from_slice(r);
        let (mut c, mut steps) = (dot(r, r), 0);
        while steps < self.stop.max_steps() && goal.is_none_or(|goal| c.sqrt() > goal) {
            system.product(steps + usize::from(self.warm), p, q);
            let s = dot(p, q) + self.guard;
            // Without a guard, an exactly solved system has nothing left to divide by.
            if s <= T::ZERO || c + self.guard <= T::ZERO {
                break;
            }
            let (a, mut c_next) = (c / s, T::ZERO);
            cg_update(lambda, r, p, q, a, &mut c_next);
            let b = c_next / (c + self.guard);
            if let Some(history) = &mut history {
                history.keep(steps, p, q, r, [a, b, c, c_next, s]);
            }
            xpby(p, r, b);
            c = c_next;
            steps += 1;
        }
        InnerReport { steps, converged: goal.is_none_or(|goal| c.sqrt() <= goal) }
    }

    /// Adjoint of [`run`](Self::run) through the `steps` that ran: `d_lambda` goes from the gradient of the end to that
    /// of the start, `start`, and the system collects the rest. `work` is `[3, edges]`.
    pub(super) fn run_vjp(
        &self,
        system: &mut EdgeSystem<'_, T>,
        steps: usize,
        start: &[T],
        history: &EdgeCgHistory<'_, T>,
        d_lambda: &mut [T],
        work: &mut [T],
    ) {
        let len = d_lambda.len();
        let (d_r, work) = work.split_at_mut(len);
        let (d_p, d_q) = work.split_at_mut(len);
        let d_q = &mut d_q[..len];
        d_r.fill(T::ZERO);
        d_p.fill(T::ZERO);
        let mut d_c = T::ZERO;
        let two = T::from_f64(2.0);
        system.count = steps + usize::from(self.warm);
        for t in (0..steps).rev() {
            let (p, q) = (&history.p[t * len..][..len], &history.q[t * len..][..len]);
            let r_next = &history.r[(t + 1) * len..][..len];
            let k = &history.scalars[t * SCALARS..][..SCALARS];
            let (a, b, c, c_next, s) = (k[0], k[1], k[2], k[3], k[4]);
            let below = c + self.guard;
            add(d_r, d_p);
            let d_b = dot(d_p, p);
            axpy(d_r, two * (d_c + d_b / below), r_next);
            let d_a = dot(d_lambda, p) - dot(d_r, q);
            let d_s = -d_a * c / (s * s);
            d_c = d_a / s - d_b * c_next / (below * below);
            for k in 0..len {
                d_p[k] = b * d_p[k] + a * d_lambda[k] + d_s * q[k];
                d_q[k] = d_s * p[k] - a * d_r[k];
            }
            system.product_vjp(t + usize::from(self.warm), p, d_q, d_p);
        }
        add(d_r, d_p);
        axpy(d_r, two * d_c, &history.r[..len]);
        add(system.d_b, d_r);
        if self.warm {
            d_r.iter_mut().for_each(|d| *d = -*d);
            system.product_vjp(0, start, d_r, d_lambda);
        }
    }
}
