//! The memory of CG in Gram space, split from one slice into named vectors.

use crate::Real;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{ROW_PAD, SheafOp};
use crate::z_update::krylov::{PerStep, REPORT, Reports, Tape};

/// What the forward pass of one consensus step keeps for its adjoint, or, if none follows, room for one step.
#[derive(Debug)]
pub(super) struct Kept<'k, T> {
    /// G w.
    pub y: &'k mut [T], // [n]
    s: &'k mut [T],       // [steps or 1, room(n)]
    scalars: &'k mut [T], // the tape's
    reports: &'k mut [T], // [samples, REPORT]
    n: usize,
    samples: usize,
}

impl<'k, T: Real> Kept<'k, T> {
    pub(super) fn len(n: usize, samples: usize, steps: usize) -> usize {
        let vectors = room(n).saturating_mul(steps.max(1).saturating_add(1));
        vectors
            .saturating_add(room(Tape::<T>::len(steps.max(1), samples)))
            .saturating_add(room(REPORT * samples))
    }

    /// Room for this many steps.
    pub(super) fn carve(n: usize, samples: usize, steps: usize, from: &'k mut [T]) -> Self {
        let (mut from, steps) = (Scratch::new(from), steps.max(1));
        let (y, s) = (&mut from.take(room(n))[..n], from.take(steps * room(n)));
        let scalars = cut(&mut from, Tape::<T>::len(steps, samples));
        let reports = cut(&mut from, REPORT * samples);
        Self { y, s, scalars, reports, n, samples }
    }

    /// y, s of every step, the scalars, the reports; all to write.
    pub(super) fn parts(&mut self) -> (&mut [T], PerStep<'_, T>, Tape<'_, T>, Reports<'_, T>) {
        let (tape, reports) = (Tape::new(self.scalars, self.samples), Reports::new(self.reports));
        (self.y, PerStep::new(self.s, room(self.n).max(1)), tape, reports)
    }

    /// How the solves ended.
    pub(super) fn reports(&mut self) -> Reports<'_, T> {
        Reports::new(self.reports)
    }
}

/// Vectors of a running solve.
#[derive(Debug)]
pub(super) struct Forward<'s, T> {
    pub r: &'s mut [T],     // [n]
    pub p: &'s mut [T],     // [n]
    pub e: &'s mut [T],     // [n]
    pub xi: &'s mut [T],    // [n]
    pub sums: &'s mut [T],  // [cliques, d_e]
    pub goals: &'s mut [T], // [samples]
}

impl<'s, T: Real> Forward<'s, T> {
    pub(super) fn len(n: usize, op: &SheafOp<'_, T>) -> usize {
        4 * room(n) + room(sums_len(op)) + room(op.samples())
    }

    /// The vectors and the rest of the slice.
    pub(super) fn carve(n: usize, op: &SheafOp<'_, T>, from: &'s mut [T]) -> (Self, &'s mut [T]) {
        let mut from = Scratch::new(from);
        let [r, p, e, xi] = [(); 4].map(|()| &mut from.take(room(n))[..n]);
        let (sums, goals) = (cut(&mut from, sums_len(op)), cut(&mut from, op.samples()));
        (Self { r, p, e, xi, sums, goals }, from.rest())
    }
}

/// Vectors of an adjoint.
#[derive(Debug)]
pub(super) struct Adjoint<'s, T> {
    pub r: &'s mut [T],    // [steps or 1, n]
    pub p: &'s mut [T],    // [steps, n]
    pub e: &'s mut [T],    // [steps, n]
    pub k: &'s mut [T],    // [steps, n]
    pub d_s: &'s mut [T],  // [steps, n]
    pub xi: &'s mut [T],   // [n]
    pub f: &'s mut [T],    // [n]
    pub d_r: &'s mut [T],  // [n]
    pub d_p: &'s mut [T],  // [n]
    pub d_e: &'s mut [T],  // [n]
    pub sums: &'s mut [T], // [cliques, d_e]
    pub d_c: &'s mut [T],  // [samples]
}

impl<'s, T: Real> Adjoint<'s, T> {
    pub(super) fn len(n: usize, op: &SheafOp<'_, T>, steps: usize) -> usize {
        let deep = room(n.saturating_mul(steps.max(1))).saturating_mul(5);
        deep.saturating_add(5 * room(n) + room(sums_len(op)) + room(op.samples()))
    }

    pub(super) fn carve(n: usize, op: &SheafOp<'_, T>, steps: usize, from: &'s mut [T]) -> Self {
        let mut from = Scratch::new(from);
        let [r, p, e, k, d_s] = [(); 5].map(|()| cut(&mut from, n * steps.max(1)));
        let [xi, f, d_r, d_p, d_e] = [(); 5].map(|()| cut(&mut from, n));
        let (sums, d_c) = (cut(&mut from, sums_len(op)), cut(&mut from, op.samples()));
        Self { r, p, e, k, d_s, xi, f, d_r, d_p, d_e, sums, d_c }
    }
}

/// One sum of a slot for every clique.
pub(super) fn sums_len<T: Real>(op: &SheafOp<'_, T>) -> usize {
    let width = op.sheaf().as_uniform().map_or(0, |u| u.d_e);
    op.sheaf().cliques().map_or(0, |cliques| cliques.groups().sizes.len() * width)
}

/// The next `len` numbers; what follows is aligned to a cache line if this is.
pub(super) fn cut<'s, T>(from: &mut Scratch<'s, T>, len: usize) -> &'s mut [T] {
    &mut from.take(room(len))[..len]
}

/// Rounds up to whole cache lines.
pub(in crate::z_update) fn room(len: usize) -> usize {
    len.div_ceil(ROW_PAD).saturating_mul(ROW_PAD)
}

/// `len` numbers from `from` to read and as many from `to`, further on, to write.
pub(super) fn pair<T>(v: &mut [T], from: usize, to: usize, len: usize) -> (&[T], &mut [T]) {
    let (front, back) = v.split_at_mut(to);
    (&front[from..][..len], &mut back[..len])
}
