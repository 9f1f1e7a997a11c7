//! What the products of a run keep for the gradient of the maps, laid out so that one call adds all of it.

use crate::Real;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{MapsGrad, SheafOp};

/// Rows and states of all products. The s_dk of the `count` products that have an adjoint end where the s_p begin; the
/// t_dk begin where the t_p of these products end.
pub(super) struct Products<'a, T> {
    rows: &'a mut [T],   // [2·most, rows]: s_dk, then s_p; a forward run has room for one s_p
    states: &'a mut [T], // [2·most, states]: t_p, then t_dk; a forward run has room for one t_p
    row_len: usize,
    state_len: usize,
    /// How many are kept: one in a forward run.
    most: usize,
    /// How many have an adjoint, known in the reverse sweep.
    pub count: usize,
}

/// What the adjoint of one product reads and writes.
pub(super) struct Rooms<'r, T> {
    pub s_p: &'r [T],
    pub t_p: &'r [T],
    pub s_dk: &'r mut [T],
    pub t_dk: &'r mut [T],
}

impl<'a, T: Real> Products<'a, T> {
    /// Length for `most` products with adjoint.
    pub(super) fn len(op: &SheafOp<'_, T>, most: usize) -> usize {
        most.saturating_mul(2 * (op.sheaf().row_len() + op.sheaf().state_len()))
    }

    /// For a forward run: all products share one place.
    pub(super) fn shared(op: &SheafOp<'_, T>, scratch: &mut Scratch<'a, T>) -> Self {
        let (row_len, state_len) = (op.sheaf().row_len(), op.sheaf().state_len());
        let (rows, states) = (scratch.take(row_len), scratch.take(state_len));
        Self { rows, states, row_len, state_len, most: 1, count: 0 }
    }

    /// For a run with adjoint.
    pub(super) fn carve(op: &SheafOp<'_, T>, most: usize, scratch: &mut Scratch<'a, T>) -> Self {
        let (row_len, state_len) = (op.sheaf().row_len(), op.sheaf().state_len());
        let (rows, states) = (scratch.take(2 * most * row_len), scratch.take(2 * most * state_len));
        Self { rows, states, row_len, state_len, most, count: 0 }
    }

    /// Room for s_p and t_p of a product.
    pub(super) fn kept(&mut self, number: usize) -> (&mut [T], &mut [T]) {
        let (m, n) = (self.row_len, self.state_len);
        let number = if self.most == 1 { 0 } else { number };
        let first = self.rows.len() - self.most * m;
        (&mut self.rows[first + number * m..][..m], &mut self.states[number * n..][..n])
    }

    /// Everything that belongs to a product with adjoint.
    pub(super) fn rooms(&mut self, number: usize) -> Rooms<'_, T> {
        let (m, n) = (self.row_len, self.state_len);
        let (of_dk, of_p) = self.rows.split_at_mut(self.most * m);
        let s_dk = &mut of_dk[(self.most - self.count + number) * m..][..m];
        let (front, back) = self.states.split_at_mut(self.count * n);
        let (t_p, t_dk) = (&front[number * n..][..n], &mut back[number * n..][..n]);
        Rooms { s_p: &of_p[number * m..][..m], t_p, s_dk, t_dk }
    }

    /// The states, in a forward run whose products are done.
    pub(super) fn into_states(self) -> &'a mut [T] {
        self.states
    }

    /// Adds the contributions of all products to the maps.
    pub(super) fn add_pairs(&self, op: &SheafOp<'_, T>, d_maps: &mut MapsGrad<'_, T>) {
        let terms = 2 * self.count;
        let rows = &self.rows[(self.most - self.count) * self.row_len..][..terms * self.row_len];
        let states = &self.states[..terms * self.state_len];
        d_maps.outers(op.sheaf(), op.maps(), T::ONE, terms, rows, states);
    }
}
