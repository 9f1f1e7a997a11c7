//! The factors of one agent's update, as the products of [`updates`](super::updates) read them.

use super::updates::{ROOM, UpdateDims};
use crate::Real;
use sheaf_kernels::thin::{block_axpy, block_dot};

/// The factors of one agent, or of some of its slots.
pub(super) struct Update<'a, T> {
    pub dims: UpdateDims,
    pub a: &'a [T], // [q, d_e]
    pub b: &'a [T], // [q, d_v]
    pub h: &'a [T], // [q, m]
}

/// The factors of consecutive slots of one agent: as many as [`ROOM`] can hold.
pub(super) struct Part<'a, T> {
    dims: UpdateDims,
    start: usize, // of the first slot within a projection
    a: &'a [T],
    pub b: &'a [T],
    pub h: &'a [T],
}

impl<'a, T: Real> Update<'a, T> {
    /// All slots, in parts.
    #[inline]
    pub(super) fn parts(self) -> impl Iterator<Item = Part<'a, T>> {
        let UpdateDims { slots, d_v, d_e, rank } = self.dims;
        let (each, m) = ((ROOM / rank).max(1), slots * d_e);
        (0..slots).step_by(each).map(move |slot| {
            let own = slot * rank..(slot + each).min(slots) * rank;
            let cut = |v: &'a [T], width: usize| &v[own.start * width..own.end * width];
            let (a, b, h) = (cut(self.a, d_e), cut(self.b, d_v), cut(self.h, m));
            Part { dims: self.dims, start: slot * d_e, a, b, h }
        })
    }

    /// The part of a projection that column l touches.
    #[inline]
    pub(super) fn slot<'r>(&self, l: usize, row: &'r [T]) -> &'r [T] {
        &row[l / self.dims.rank * self.dims.d_e..][..self.dims.d_e]
    }

    /// out = Aᵀ row.
    pub(super) fn dot_a(&self, row: &[T], out: &mut [T]) {
        block_dot(self.a, self.dims.rank, self.dims.d_e, row, out);
    }
}

impl<T: Real> Part<'_, T> {
    pub(super) fn q(&self) -> usize {
        self.a.len() / self.dims.d_e
    }

    /// out = Aᵀ row.
    #[inline]
    pub(super) fn dot_a(&self, row: &[T], out: &mut [T]) {
        block_dot(self.a, self.dims.rank, self.dims.d_e, &row[self.start..], out);
    }

    /// row += A coefs.
    #[inline]
    pub(super) fn add_a(&self, coefs: &[T], row: &mut [T]) {
        block_axpy(self.a, self.dims.rank, self.dims.d_e, coefs, &mut row[self.start..]);
    }
}

/// `[slots, len, rank]` → `[slots·rank, len]`, scaled.
pub(super) fn transpose_slots<T: Real>(from: &[T], len: usize, rank: usize, scale: T, to: &mut [T]) {
    for (from, to) in from.chunks_exact(len * rank).zip(to.chunks_exact_mut(len * rank)) {
        for (k, to) in to.chunks_exact_mut(len).enumerate() {
            for (to, from) in to.iter_mut().zip(from.chunks_exact(rank)) {
                *to = scale * from[k];
            }
        }
    }
}

/// The adjoint of [`transpose_slots`], overwriting.
pub(super) fn restore_slots<T: Real>(from: &[T], len: usize, rank: usize, scale: T, to: &mut [T]) {
    for (from, to) in from.chunks_exact(len * rank).zip(to.chunks_exact_mut(len * rank)) {
        for (k, from) in from.chunks_exact(len).enumerate() {
            for (&from, to) in from.iter().zip(to.chunks_exact_mut(rank)) {
                to[k] = scale * from;
            }
        }
    }
}
