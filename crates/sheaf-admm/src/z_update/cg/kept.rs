//! What a conjugate-gradient solve leaves for its adjoint.
//!
//! | block | holds | numbers |
//! | --- | --- | --- |
//! | rows | e(start), e(p_0) … e(p_T−1); empty where the maps take pairs | (T + 1) × rows |
//! | ps | room for the start, p_0 … p_T−1 | (T + 1) × states |
//! | ks | k_0 … k_T−1; where the maps take pairs, after room for the d_k of the start | T or (T + 1) × states |
//! | scalars | the tape of scalars | 4 T |
//! | marks | steps that ran, −1 once k is overwritten; which pairs (p, d_k) count: first, end | 3 |

use std::ops::Range;

use super::Cg;
use super::work::Places;
use crate::Real;
use crate::sheaf::{SheafOp, pad};
use crate::z_update::krylov::{PerStep, Tape};
use sheaf_kernels::low_rank::PairTape;

/// How the blocks lie.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    n: usize,
    m: usize,
    max: usize,
    /// Whether the maps take the pairs of all solves at once, when the reverse sweep is done.
    deferred: bool,
}

impl Layout {
    pub(super) fn new<T: Real>(cfg: &Cg<T>, op: &SheafOp<'_, T>, deferred: bool) -> Self {
        Self { n: op.sheaf().state_len(), m: op.sheaf().row_len(), max: cfg.stop.max_steps(), deferred }
    }

    /// Numbers of rows, ps, ks, scalars. A limit of steps may be beyond all memory as long as no adjoint runs.
    fn blocks<T: Real>(self) -> [usize; 4] {
        let (steps, all) = (self.max, self.max.saturating_add(1));
        let (rows, ks) = if self.deferred { (0, all) } else { (all, steps) };
        let [rows, ps, ks] =
            [(rows, self.m), (all, self.n), (ks, self.n)].map(|(count, one)| count.saturating_mul(one));
        [rows, ps, ks, Tape::<T>::len(steps, 1)]
    }

    /// All numbers, in whole cache lines.
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

    /// The pairs of all solves whose steps lie one after the other in `kept`, if they are left for later.
    pub(super) fn tape<T: Real>(self, kept: &[T]) -> Option<PairTape<'_, T>> {
        let [rows, ps, ks, scalars] = self.blocks::<T>();
        let (p, q, span) = (rows, rows + ps, rows + ps + ks + scalars + 1);
        let (block, states, most) = (self.len::<T>(), self.n, self.max + 1);
        self.deferred.then_some(PairTape { numbers: kept, block, states, most, p, q, span })
    }

    /// Numbers before k_0.
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
    /// Where a running solve writes them.
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

    /// So many steps ran.
    pub(super) fn ran(&mut self, steps: usize) {
        self.marks[0] = T::from_f64(steps as f64);
        self.forget();
    }

    /// How many steps ran, unless k is overwritten.
    pub(super) fn count(&self) -> Option<usize> {
        let count = self.marks[0];
        (count >= T::ZERO).then(|| (count.to_f64() as usize).min(self.layout.max))
    }

    /// Whether the pairs are left for later.
    pub(super) fn deferred(&self) -> bool {
        self.layout.deferred
    }

    /// Leaves d_k in the place of k, and says which pairs count.
    pub(super) fn defer(&mut self, pairs: Range<usize>, d_ks: &[T]) {
        let numbers = pairs.start * self.layout.n..pairs.end * self.layout.n;
        self.ks[numbers.clone()].copy_from_slice(&d_ks[numbers]);
        self.marks[0] = -T::ONE;
        self.marks[1] = T::from_f64(pairs.start as f64);
        self.marks[2] = T::from_f64(pairs.end as f64);
    }

    /// No pairs count.
    pub(super) fn forget(&mut self) {
        self.marks[1..].fill(T::ZERO);
    }
}
