//! What a conjugate-gradient solve keeps for its adjoint.
//!
//! | block | holds | length |
//! | --- | --- | --- |
//! | rows | e(start), e(p_0) … e(p_T−1); empty if the maps support pairs | (T + 1) × rows |
//! | ps | room for the start, p_0 … p_T−1 | (T + 1) × states |
//! | ks | k_0 … k_T−1; if the maps support pairs, after room for the d_k of the start | T or (T + 1) × states |
//! | scalars | the tape of scalars | 4 T |
//! | marks | steps that ran, −1 once k is overwritten; range of valid pairs (p, d_k): first, end | 3 |

use std::ops::Range;

use super::Cg;
use super::work::Places;
use crate::Real;
use crate::sheaf::{SheafOp, pad};
use crate::z_update::krylov::{PerStep, Tape};
use sheaf_kernels::low_rank::PairTape;

/// The layout of the blocks.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    n: usize,
    m: usize,
    max: usize,
    /// Whether the maps take the pairs of all solves at once, after the reverse sweep.
    deferred: bool,
}

impl Layout {
    pub(super) fn new<T: Real>(cfg: &Cg<T>, op: &SheafOp<'_, T>, deferred: bool) -> Self {
        Self { n: op.sheaf().state_len(), m: op.sheaf().row_len(), max: cfg.stop.max_steps(), deferred }
    }

    /// Lengths of rows, ps, ks, scalars. The step limit may be too large to allocate as long as no adjoint runs.
    fn blocks<T: Real>(self) -> [usize; 4] {
        let (steps, all) = (self.max, self.max.saturating_add(1));
        let (rows, ks) = if self.deferred { (0, all) } else { (all, steps) };
        let [rows, ps, ks] =
            [(rows, self.m), (all, self.n), (ks, self.n)].map(|(count, one)| count.saturating_mul(one));
        [rows, ps, ks, Tape::<T>::len(steps, 1)]
    }

    /// Total length, in whole cache lines.
    pub(super) fn len<T: Real>(self) -> usize {
        pad(self.blocks::<T>().into_iter().fold(3, usize::saturating_add))
    }

    pub(super) fn carve<T: Real>(self, kept: &mut [T]) -> Kept<'_, T> {
        let [rows, ps, ks, scalars] = self.blocks::<T>();
        let (rows, rest) = kept.split_at_mut(rows);
        let (ps, rest) = rest.split_at_mut(ps);
        let (ks, rest) = rest.split_at_mut(ks);
        let (scalars, rest) = rest.split_at_mut(scalars);
        Kept { layout: self, rows, ps, ks, scalars, marks: &mut rest[..3] }
    }

    /// The pairs of all solves whose steps lie one after the other in `kept`, if they are deferred.
    pub(super) fn tape<T: Real>(self, kept: &[T]) -> Option<PairTape<'_, T>> {
        let [rows, ps, ks, scalars] = self.blocks::<T>();
        let (p, q, span) = (rows, rows + ps, rows + ps + ks + scalars + 1);
        let (block, states, most) = (self.len::<T>(), self.n, self.max + 1);
        self.deferred.then_some(PairTape { numbers: kept, block, states, most, p, q, span })
    }

    /// Offset of k_0.
    fn before_ks(self) -> usize {
        if self.deferred { self.n } else { 0 }
    }
}

/// The steps of a solve.
pub(super) struct Kept<'s, T> {
    layout: Layout,
    pub rows: &'s mut [T],
    pub ps: &'s mut [T],
    ks: &'s mut [T],
    scalars: &'s mut [T],
    marks: &'s mut [T],
}

impl<'s, T: Real> Kept<'s, T> {
    /// The buffers that a running solve writes to.
    pub(super) fn places(self) -> Places<'s, T> {
        let Layout { n, m, deferred, .. } = self.layout;
        Places {
            rows: (!deferred).then(|| PerStep::new(self.rows, m)),
            p: PerStep::new(&mut self.ps[n..], n),
            k: PerStep::new(&mut self.ks[self.layout.before_ks()..], n),
            tape: Tape::new(self.scalars, 1),
        }
    }

    /// p and k of all steps, and the tape.
    pub(super) fn steps(&mut self) -> (&[T], &[T], Tape<'_, T>) {
        let Layout { n, .. } = self.layout;
        (&self.ps[n..], &self.ks[self.layout.before_ks()..], Tape::new(self.scalars, 1))
    }

    /// Records that this many steps ran.
    pub(super) fn ran(&mut self, steps: usize) {
        self.marks[0] = T::from_f64(steps as f64);
        self.forget();
    }

    /// How many steps ran, unless k is overwritten.
    pub(super) fn count(&self) -> Option<usize> {
        let count = self.marks[0];
        (count >= T::ZERO).then(|| (count.to_f64() as usize).min(self.layout.max))
    }

    /// Whether the pairs are deferred.
    pub(super) fn deferred(&self) -> bool {
        self.layout.deferred
    }

    /// Stores d_k in the place of k, and records which pairs are valid.
    pub(super) fn defer(&mut self, pairs: Range<usize>, d_ks: &[T]) {
        let numbers = pairs.start * self.layout.n..pairs.end * self.layout.n;
        self.ks[numbers.clone()].copy_from_slice(&d_ks[numbers]);
        self.marks[0] = -T::ONE;
        self.marks[1] = T::from_f64(pairs.start as f64);
        self.marks[2] = T::from_f64(pairs.end as f64);
    }

    /// Marks no pair as valid.
    pub(super) fn forget(&mut self) {
        self.marks[1..].fill(T::ZERO);
    }
}
