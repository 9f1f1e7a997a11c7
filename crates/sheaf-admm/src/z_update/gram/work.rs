//! The memory of CG in Gram space, cut from one slice into named vectors.

use crate::Real;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{ROW_PAD, SheafOp};

/// The scalars of one step of one sample. δ = 0 marks a step that did not run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scalars<T> {
    pub a: T,
    pub b: T,
    pub c: T,
    pub delta: T,
}

impl<T> Scalars<T> {
    /// Numbers of all steps of all samples.
    pub(super) fn len(samples: usize, steps: usize) -> usize {
        room(steps.saturating_mul(4 * samples))
    }
}

/// The scalars of a solve.
#[derive(Debug)]
pub(super) struct AllScalars<'s, T> {
    numbers: &'s mut [T], // [steps, samples, 4]
    samples: usize,
}

impl<T: Real> AllScalars<'_, T> {
    pub(super) fn fill(&mut self, with: Scalars<T>) {
        let Scalars { a, b, c, delta } = with;
        self.numbers.chunks_exact_mut(4).for_each(|to| to.copy_from_slice(&[a, b, c, delta]));
    }

    pub(super) fn get(&self, t: usize, sample: usize) -> Scalars<T> {
        let at = 4 * (t * self.samples + sample);
        let [a, b, c, delta] = [0, 1, 2, 3].map(|i| self.numbers[at + i]);
        Scalars { a, b, c, delta }
    }

    pub(super) fn set(&mut self, t: usize, sample: usize, to: Scalars<T>) {
        let Scalars { a, b, c, delta } = to;
        self.numbers[4 * (t * self.samples + sample)..][..4].copy_from_slice(&[a, b, c, delta]);
    }

    /// Whether a sample took step t.
    pub(super) fn ran(&self, t: usize, sample: usize) -> bool {
        self.get(t, sample).delta != T::ZERO
    }
}

/// What the forward of one consensus step leaves for its adjoint.
#[derive(Debug)]
pub(super) struct Kept<'k, T> {
    /// G w.
    pub y: &'k mut [T], // [n]
    s: &'k mut [T], // [steps, n], or [n] where nothing is kept
    pub scalars: AllScalars<'k, T>,
    n: usize,
}

impl<'k, T: Real> Kept<'k, T> {
    pub(super) fn len(n: usize, samples: usize, steps: usize) -> usize {
        room(n).saturating_mul(steps.saturating_add(1)).saturating_add(Scalars::<T>::len(samples, steps))
    }

    /// Room for all steps.
    pub(super) fn carve(n: usize, samples: usize, steps: usize, from: &'k mut [T]) -> Self {
        Self::of(n, samples, steps, steps, from)
    }

    /// Room for one step: every s takes the place of the one before.
    pub(super) fn single(n: usize, samples: usize, steps: usize, from: &'k mut [T]) -> Self {
        Self::of(n, samples, steps, steps.min(1), from)
    }

    fn of(n: usize, samples: usize, steps: usize, depth: usize, from: &'k mut [T]) -> Self {
        let mut from = Scratch::new(from);
        let (y, s) = (&mut from.take(room(n))[..n], from.take(depth * room(n)));
        let numbers = &mut from.take(Scalars::<T>::len(samples, steps))[..4 * samples * steps];
        Self { y, s, scalars: AllScalars { numbers, samples }, n }
    }

    fn place(&self, t: usize) -> usize {
        if self.s.len() > room(self.n) { t * room(self.n) } else { 0 }
    }

    /// C r of step t, to write.
    pub(super) fn s(&mut self, t: usize) -> &mut [T] {
        let at = self.place(t);
        &mut self.s[at..][..self.n]
    }

    /// C r of step t.
    pub(super) fn s_at(&self, t: usize) -> &[T] {
        &self.s[self.place(t)..][..self.n]
    }

    /// The most steps that a sample took.
    pub(super) fn steps_run(&self) -> usize {
        let AllScalars { numbers, samples } = &self.scalars;
        let steps = numbers.len() / (4 * samples).max(1);
        (0..steps).find(|&t| !(0..*samples).any(|b| self.scalars.ran(t, b))).unwrap_or(steps)
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

    /// The vectors and what is left of the slice.
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

/// The next `len` numbers; what follows starts on a cache line if this does.
pub(super) fn cut<'s, T>(from: &mut Scratch<'s, T>, len: usize) -> &'s mut [T] {
    &mut from.take(room(len))[..len]
}

/// Whole cache lines.
pub(in crate::z_update) fn room(len: usize) -> usize {
    len.div_ceil(ROW_PAD).saturating_mul(ROW_PAD)
}

/// `len` numbers from `from` to read and as many from `to`, further on, to write.
pub(super) fn pair<T>(v: &mut [T], from: usize, to: usize, len: usize) -> (&[T], &mut [T]) {
    let (front, back) = v.split_at_mut(to);
    (&front[from..][..len], &mut back[..len])
}
