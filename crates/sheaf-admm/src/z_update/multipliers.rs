//! Multipliers of the edges from a slope d of the states: the λ for which Fᵀλ is closest to d.
//!
//! Conjugate gradients on the normal equations F Fᵀ λ = F d, in the form that keeps s = d − Fᵀλ (CGLS). ‖s‖ falls from
//! step to step; at the end it is the part of d that no multiplier explains, its projection onto ker F.

use crate::Real;
use crate::clock;
use crate::linalg::scratch::Scratch;
use crate::sheaf::SheafOp;
use sheaf_kernels::vector::{axpy, dot, norm, xpby};

/// The vectors of a search.
pub(crate) struct LeastSquares<'s, T> {
    /// λ, the result.
    pub lambda: &'s mut [T], // [edges]
    /// d − Fᵀλ, the rest.
    pub rest: &'s mut [T], // [states]
    rows: &'s mut [T], // [rows]
    q: &'s mut [T],    // [states]
    r: &'s mut [T],    // [edges]
    p: &'s mut [T],    // [edges]
}

impl<'s, T: Real> LeastSquares<'s, T> {
    /// Takes three edge vectors and one of states from `scratch`.
    pub(crate) fn carve(
        op: &SheafOp<'_, T>,
        rows: &'s mut [T],
        q: &'s mut [T],
        scratch: &mut Scratch<'s, T>,
    ) -> Self {
        let (n, e) = (op.sheaf().state_len(), op.sheaf().edge_len());
        let (lambda, r, p) = (scratch.take(e), scratch.take(e), scratch.take(e));
        Self { lambda, rest: scratch.take(n), rows, q, r, p }
    }
}

/// The most steps of a search: without rounding, the rank of F is enough.
const MOST_STEPS: usize = 20_000;

/// Sets the multipliers of soft edges to 0: theirs are known.
fn only_hard<T: Real>(op: &SheafOp<'_, T>, r: &mut [T]) {
    let Some(weights) = op.edge_weights() else { return };
    for (edge, &weight) in op.sheaf().edges().iter().zip(weights) {
        if weight != T::INFINITY {
            r[edge.start as usize..(edge.start + edge.dim) as usize].fill(T::ZERO);
        }
    }
}

/// Finds λ, of hard edges if some edges are soft, until ‖d − Fᵀλ‖ ≤ `goal`, no λ comes closer or time is up; returns that norm.
pub(crate) fn least_squares<T: Real>(
    op: &SheafOp<'_, T>,
    d: &[T], // [states]
    goal: T,
    work: &mut LeastSquares<'_, T>,
) -> T {
    let LeastSquares { lambda, rest, rows, q, r, p } = work;
    lambda.fill(T::ZERO);
    rest.copy_from_slice(d);
    op.raw().coboundary(rest, r, rows);
    only_hard(op, r);
    p.copy_from_slice(r);
    let mut c = dot(r, r);
    // At rounding level F s no longer tells the range of Fᵀ from its complement.
    let floor = c * T::EPSILON * T::EPSILON * T::from_f64(16.0);
    for _ in 0..MOST_STEPS.min(2 * lambda.len() + 10) {
        if norm(rest) <= goal || c <= floor || clock::late() {
            break;
        }
        op.raw().coboundary_t(p, q, rows);
        let length = dot(q, q);
        if !(length > T::ZERO && length.is_finite()) {
            break;
        }
        let a = c / length;
        axpy(lambda, a, p);
        axpy(rest, -a, q);
        op.raw().coboundary(rest, r, rows);
        only_hard(op, r);
        let next = dot(r, r);
        xpby(p, r, next / c);
        c = next;
    }
    norm(rest)
}
