//! What a running solve of [`cg`](super) works in, and where it leaves its steps for the adjoint.

use std::slice::ChunksExactMut;

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
    pub rows: Option<ChunksExactMut<'s, T>>, // of [rows]: e(start), then e(p) of each step
    pub ps: ChunksExactMut<'s, T>,           // of [states]
    pub qs: ChunksExactMut<'s, T>,           // of [states]
    pub scalars: ChunksExactMut<'s, T>,      // of 5
}

impl<'s, T: Real> Places<'s, T> {
    /// The next residuals take their place, where they are kept.
    pub(super) fn install_rows(&mut self, work: &mut Work<'s, T>) {
        if let Some(s) = self.rows.as_mut().and_then(Iterator::next) {
            work.s = s;
        }
    }

    /// The next step's vectors take their places.
    pub(super) fn install(&mut self, work: &mut Work<'s, T>) {
        if let (Some(p), Some(q)) = (self.ps.next(), self.qs.next()) {
            (work.p, work.q) = (p, q);
            self.install_rows(work);
        }
    }
}

/// What a running solve keeps.
#[derive(Clone, Copy)]
pub(super) struct Keep {
    pub steps: bool,
    /// The exchanged residuals too.
    pub rows: bool,
}

impl Keep {
    pub(super) fn of<T>(places: Option<&Places<'_, T>>) -> Self {
        Self { steps: places.is_some(), rows: places.is_some_and(|places| places.rows.is_some()) }
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
