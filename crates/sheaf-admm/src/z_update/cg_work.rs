//! What a running solve of [`cg`](super::cg) works in, and where it leaves its steps for the adjoint.

use crate::Real;
use crate::sheaf::SheafOp;

/// Vectors of a running solve.
pub(super) struct Work<'s, T> {
    pub r: &'s mut [T],      // [states]
    pub p: &'s mut [T],      // [states]
    pub p_prev: &'s mut [T], // [states]
    pub q: &'s mut [T],      // [states]
    pub tmp: &'s mut [T],    // [states]
    pub y: &'s mut [T],      // [rows]
    pub s: &'s mut [T],      // [rows]
}

impl<'s, T: Real> Work<'s, T> {
    /// Takes the vectors, and the node scaling `[states]`, from the front of `scratch`. Rows come first: they start
    /// on a cache line when the scratch does.
    pub(super) fn carve(op: &SheafOp<'_, T>, scratch: &'s mut [T]) -> (Self, &'s mut [T]) {
        let (n, m) = (op.sheaf().state_len(), op.sheaf().row_len());
        let (y, rest) = scratch.split_at_mut(m);
        let (s, rest) = rest.split_at_mut(m);
        let (r, rest) = rest.split_at_mut(n);
        let (p, rest) = rest.split_at_mut(n);
        let (p_prev, rest) = rest.split_at_mut(n);
        let (q, rest) = rest.split_at_mut(n);
        let (tmp, rest) = rest.split_at_mut(n);
        (Self { r, p, p_prev, q, tmp, y, s }, &mut rest[..n])
    }
}

impl<T> Work<'_, T> {
    /// The same vectors for a shorter while.
    pub(super) fn reborrow(&mut self) -> Work<'_, T> {
        let Work { r, p, p_prev, q, tmp, y, s } = self;
        Work { r, p, p_prev, q, tmp, y, s }
    }
}

/// Places where the steps of a solve are written down for its adjoint: the vectors of [`Work`] move there one by one.
pub(super) struct Places<'s, T> {
    pub start: &'s mut [T], // [rows], the exchanged residuals of the start
    pub rows: std::slice::ChunksExactMut<'s, T>, // of [rows]: e(p) of each step
    pub ps: std::slice::ChunksExactMut<'s, T>, // of [states]
    pub qs: std::slice::ChunksExactMut<'s, T>, // of [states]
    pub scalars: std::slice::ChunksExactMut<'s, T>, // of 5
}

impl<'s, T: Real> Places<'s, T> {
    /// The next step's vectors take their places.
    pub(super) fn install(&mut self, work: &mut Work<'s, T>) {
        if let (Some(p), Some(q), Some(s)) = (self.ps.next(), self.qs.next(), self.rows.next()) {
            (work.p, work.q, work.s) = (p, q, s);
        }
    }
}

/// The scalars of one step.
#[derive(Clone, Copy)]
pub(super) struct Scalars<T> {
    pub a: T,
    pub b: T,
    pub c: T,
    pub c_next: T,
    pub s: T,
}
