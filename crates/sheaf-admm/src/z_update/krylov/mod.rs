//! Conjugate gradients and their adjoint, written once for every space in which the consensus step is solved.
//!
//! The system is A x = h. C is symmetric and positive semidefinite, and A is self-adjoint in the inner product u·C v;
//! A = B + M C. One step t, with guard ε:
//!
//! ```text
//! s = C r      c = r·s      b = c/(c_prev + ε) (none at first)      p = r + b p_prev      e = s + b e_prev
//! k = B p + M e      δ = e·k + ε      a = c/δ      x += a p      r_next = r − a k
//! ```
//!
//! The direction is carried twice, as p and as e = C p: then a step takes one product with C, and k = A p needs none.
//! States and edge multipliers have C = I, so that s is r, e is p and k = A p. In the space of projections C is the
//! Gram matrix of the maps. c is the squared norm of the residual in that inner product; a tolerance is on √c.
//!
//! Adjoint, t from the last step to the first, d_ marking gradients. d_x is the same for all steps:
//!
//! ```text
//! advance_vjp        d_a = d_x·p − d_r·k      d_c += d_a/δ      d_δ = −d_a c/δ²
//! turn_vjp           d_k = d_δ e − a d_r      d_p += a d_x + Bᵀ d_k      d_e += d_δ k + Mᵀ d_k
//!                    B receives the pair (d_k, p), M the pair (d_k, e)
//!                    d_b = d_p·p_prev + d_e·e_prev      d_c += d_b/(c_prev + ε)      d_c_prev = −d_b c/(c_prev + ε)²
//! residual_vjp       d_r += d_p + d_c s      d_s = d_e + d_c r      d_p_prev = b d_p      d_e_prev = b d_e
//! precondition_vjp   d_r += C d_s      C receives the pair (d_s, r)
//! ```
//!
//! With C = I: d_p stands for d_p + d_e, and d_r += d_p + 2 d_c r.
//!
//! | item | owns |
//! | --- | --- |
//! | [`run`], [`run_vjp`] | order of operations, a, b, c, δ and their gradients, guards, when a sample stops |
//! | [`Tape`] | the scalars of every step |
//! | [`Steps`], [`StepsVjp`] | vectors and operations on them, one implementation for each space |
//! | [`Plain`], [`PlainVjp`] | these operations for C = I, given a [`LinearMap`] |
//!
//! Samples are solved side by side. Each has its own scalars and stops on its own; products with C take all samples at
//! once, everything else one sample after the other.

mod plain;
mod run;
mod tape;
#[cfg(test)]
mod tests;

pub(crate) use plain::{Direction, LinearMap, LinearMapVjp, Pair, Plain, PlainVjp};
pub(crate) use run::{Rule, run, run_vjp};
pub(crate) use tape::{PerStep, REPORT, Reports, SCALARS, Tape, steps_of};

/// The vectors of a running solve and the operations on them. At the start, r holds the residual of the start.
pub(crate) trait Steps<T> {
    /// s = C r for every sample, before step `t`. Does nothing if C = I.
    fn precondition(&mut self, _t: usize) {}

    /// r·s of a sample; called once before each of its steps.
    fn measure(&mut self, sample: usize) -> T;

    /// p = r + b p, e = s + b e (r and s themselves in the first step), k = B p + M e; returns e·k.
    fn turn(&mut self, t: usize, sample: usize, b: Option<T>) -> T;

    /// x += a p, r −= a k. After the `last` step of a fixed number, the solver does not read r again.
    fn advance(&mut self, t: usize, sample: usize, a: T, last: bool);
}

/// The gradients of a solve in reverse and the operations on them. At the start, d_x and d_r hold the gradients of
/// the solution and of the last residual, and d_p = d_e = 0; at the end d_r holds the gradient of the first
/// residual. The start itself has the gradient d_x, apart from its effect on that residual.
pub(crate) trait StepsVjp<T> {
    /// Returns d_x·p − d_r·k. `alone` means that d_r is 0: the step is the last, and nothing read its residual.
    fn advance_vjp(&mut self, t: usize, sample: usize, alone: bool) -> T;

    /// d_k = d_δ e − a d_r, d_p += a d_x + Bᵀ d_k, d_e += d_δ k + Mᵀ d_k, and the gradients of B and M; returns
    /// d_p·p_prev + d_e·e_prev, which is ignored in the first step. If `alone`, d_k = d_δ e.
    fn turn_vjp(&mut self, t: usize, sample: usize, a: T, d_delta: T, alone: bool) -> T;

    /// d_r += d_p + d_c s, d_s = d_e + d_c r, d_p = b d_p, d_e = b d_e. Where C = I: d_r += d_p + 2 d_c r.
    fn residual_vjp(&mut self, t: usize, sample: usize, b: T, d_c: T);

    /// The sample did not run step `t`: where its d_s is read by the product of all samples, it is 0.
    fn idle_vjp(&mut self, _t: usize, _sample: usize) {}

    /// d_r += C d_s for every sample, and the gradient of C.
    fn precondition_vjp(&mut self, _t: usize) {}
}
