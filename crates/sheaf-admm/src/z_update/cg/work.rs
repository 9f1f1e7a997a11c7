//! The vectors of a solve on the states and, for its adjoint, the buffers of its steps.

use crate::Real;
use crate::sheaf::SheafOp;
use crate::z_update::krylov::{PerStep, Tape};

/// Vectors of a running solve.
pub(super) struct Work<'s, T> {
    pub r: &'s mut [T],   // [states]
    pub p: &'s mut [T],   // [states]
    pub k: &'s mut [T],   // [states]
    pub tmp: &'s mut [T], // [states]
    pub y: &'s mut [T],   // [rows]
    pub s: &'s mut [T],   // [rows]
}

impl<'s, T: Real> Work<'s, T> {
    /// Length that [`carve`](Self::carve) takes.
    pub(super) fn len(op: &SheafOp<'_, T>) -> usize {
        2 * op.sheaf().row_len() + 5 * op.sheaf().state_len()
    }

    /// Takes the vectors, and the node scaling `[states]`, from the front of `scratch`. Rows come first: they are
    /// aligned to a cache line if the scratch is.
    pub(super) fn carve(op: &SheafOp<'_, T>, scratch: &'s mut [T]) -> (Self, &'s mut [T]) {
        let (n, m) = (op.sheaf().state_len(), op.sheaf().row_len());
        let (y, rest) = scratch.split_at_mut(m);
        let (s, rest) = rest.split_at_mut(m);
        let (r, rest) = rest.split_at_mut(n);
        let (p, rest) = rest.split_at_mut(n);
        let (k, rest) = rest.split_at_mut(n);
        let (tmp, rest) = rest.split_at_mut(n);
        (Self { r, p, k, tmp, y, s }, &mut rest[..n])
    }
}

/// The buffers in which a solve leaves its steps for the adjoint.
pub(super) struct Places<'s, T> {
    pub rows: Option<PerStep<'s, T>>, // [steps + 1, rows]: e(start), then e(p) of each step
    pub p: PerStep<'s, T>,            // [steps, states]
    pub k: PerStep<'s, T>,            // [steps, states]
    pub tape: Tape<'s, T>,
}
