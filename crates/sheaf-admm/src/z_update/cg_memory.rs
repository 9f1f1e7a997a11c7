//! The memory of a conjugate-gradient solve: the vectors it works on, and the steps it writes down for its adjoint.
//!
//! | vector | shape |
//! | --- | --- |
//! | r, p, q, and one to spare | states |
//! | y, s | rows |

use super::cg::Cg;
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

/// The steps of a solve.
pub(super) struct Steps<'s, T> {
    pub rows: &'s mut [T],    // [max + 1, rows]: e(start), then e(p) of each step
    pub ps: &'s mut [T],      // [max + 1, states]: room for the start, then p of each step
    pub qs: &'s mut [T],      // [max, states]
    pub scalars: &'s mut [T], // [max, 5]
}

impl<'s, T: Real> Steps<'s, T> {
    /// The steps, and how many ran, in memory of [`Cg::kept_len`].
    pub(super) fn carve(cfg: &Cg<T>, op: &SheafOp<'_, T>, kept: &'s mut [T]) -> (Self, &'s mut T) {
        let (n, m, max) = (op.sheaf().state_len(), op.sheaf().row_len(), cfg.stop.max_steps());
        let (rows, rest) = kept.split_at_mut((max + 1) * m);
        let (ps, rest) = rest.split_at_mut((max + 1) * n);
        let (qs, rest) = rest.split_at_mut(max * n);
        let (scalars, rest) = rest.split_at_mut(5 * max);
        (Self { rows, ps, qs, scalars }, &mut rest[0])
    }

    /// Where a running solve writes them.
    pub(super) fn places(self, op: &SheafOp<'_, T>) -> Places<'s, T> {
        let (n, m) = (op.sheaf().state_len(), op.sheaf().row_len());
        let (start, rows) = self.rows.split_at_mut(m);
        Places {
            start,
            rows: rows.chunks_exact_mut(m.max(1)),
            ps: self.ps[n..].chunks_exact_mut(n.max(1)),
            qs: self.qs.chunks_exact_mut(n.max(1)),
            scalars: self.scalars.chunks_exact_mut(5),
        }
    }

    pub(super) fn scalars(&self, t: usize) -> Scalars<T> {
        let k = &self.scalars[5 * t..][..5];
        Scalars { a: k[0], b: k[1], c: k[2], c_next: k[3], s: k[4] }
    }
}

/// The pairs of all products, as the head of the module lays them out.
pub(super) struct Pairs<'s, T> {
    pub steps: Steps<'s, T>,
    pub count: usize,
    pub e_dq: &'s mut [T], // [max + 1, rows]
    pub d_qs: &'s mut [T], // [max + 1, states]
}
