//! What a conjugate-gradient solve leaves for its adjoint.
//!
//! | block | holds | numbers |
//! | --- | --- | --- |
//! | rows | e(start), e(p_0) … e(p_T−1); empty where the maps take pairs | (T + 1) × rows |
//! | ps | room for the start, p_0 … p_T−1 | (T + 1) × states |
//! | qs | q_0 … q_T−1; where the maps take pairs, after room for the start's q̄ | T or (T + 1) × states |
//! | scalars | a, b, c, c', s of each step | 5 T |
//! | marks | steps that ran, −1 once q is gone; which pairs (p, q̄) count: first, end | 3 |

use std::ops::Range;

use super::Cg;
use super::work::{Places, Scalars};
use crate::Real;
use crate::sheaf::{SheafOp, pad};
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

    /// Numbers of rows, ps, qs, scalars. A limit of steps may be beyond all memory as long as no adjoint runs.
    fn blocks(self) -> [usize; 4] {
        let (steps, all) = (self.max, self.max.saturating_add(1));
        let (rows, qs) = if self.deferred { (0, all) } else { (all, steps) };
        [(rows, self.m), (all, self.n), (qs, self.n), (steps, 5)]
            .map(|(count, one)| count.saturating_mul(one))
    }

    /// All numbers, in whole cache lines.
    pub(super) fn len(self) -> usize {
        pad(self.blocks().into_iter().fold(3, usize::saturating_add))
    }

    pub(super) fn carve<T: Real>(self, kept: &mut [T]) -> Steps<'_, T> {
        let [rows, ps, qs, scalars] = self.blocks();
        let (rows, rest) = kept.split_at_mut(rows);
        let (ps, rest) = rest.split_at_mut(ps);
        let (qs, rest) = rest.split_at_mut(qs);
        let (scalars, rest) = rest.split_at_mut(scalars);
        Steps { layout: self, rows, ps, qs, scalars, marks: &mut rest[..3] }
    }

    /// The pairs of all solves whose steps lie one after the other in `kept`, if they are left for later.
    pub(super) fn tape<T>(self, kept: &[T]) -> Option<PairTape<'_, T>> {
        let [rows, ps, qs, scalars] = self.blocks();
        let (p, q, span) = (rows, rows + ps, rows + ps + qs + scalars + 1);
        let (block, states, most) = (self.len(), self.n, self.max + 1);
        self.deferred.then_some(PairTape { numbers: kept, block, states, most, p, q, span })
    }
}

/// The steps of a solve.
pub(super) struct Steps<'s, T> {
    layout: Layout,
    pub rows: &'s mut [T],
    pub ps: &'s mut [T],
    qs: &'s mut [T],
    scalars: &'s mut [T],
    marks: &'s mut [T],
}

impl<'s, T: Real> Steps<'s, T> {
    /// Where a running solve writes them.
    pub(super) fn places(self) -> Places<'s, T> {
        let Layout { n, m, deferred, .. } = self.layout;
        let qs = if deferred { &mut self.qs[n..] } else { self.qs };
        Places {
            rows: (!deferred).then(|| self.rows.chunks_exact_mut(m.max(1))),
            ps: self.ps[n..].chunks_exact_mut(n.max(1)),
            qs: qs.chunks_exact_mut(n.max(1)),
            scalars: self.scalars.chunks_exact_mut(5),
        }
    }

    /// So many steps ran.
    pub(super) fn ran(&mut self, steps: usize) {
        self.marks[0] = T::from_f64(steps as f64);
        self.forget();
    }

    /// How many steps ran, while q is there.
    pub(super) fn count(&self) -> Option<usize> {
        let count = self.marks[0];
        (count >= T::ZERO).then(|| (count.to_f64() as usize).min(self.layout.max))
    }

    /// Whether the pairs are left for later.
    pub(super) fn deferred(&self) -> bool {
        self.layout.deferred
    }

    /// q of a step.
    pub(super) fn q(&self, t: usize) -> &[T] {
        let Layout { n, deferred, .. } = self.layout;
        &self.qs[(t + usize::from(deferred)) * n..][..n]
    }

    pub(super) fn scalars(&self, t: usize) -> Scalars<T> {
        let k = &self.scalars[5 * t..][..5];
        Scalars { a: k[0], b: k[1], c: k[2], c_next: k[3], s: k[4] }
    }

    /// Leaves q̄ in the place of q, and says which pairs count.
    pub(super) fn defer(&mut self, pairs: Range<usize>, d_qs: &[T]) {
        let numbers = pairs.start * self.layout.n..pairs.end * self.layout.n;
        self.qs[numbers.clone()].copy_from_slice(&d_qs[numbers]);
        self.marks[0] = -T::ONE;
        self.marks[1] = T::from_f64(pairs.start as f64);
        self.marks[2] = T::from_f64(pairs.end as f64);
    }

    /// No pairs count.
    pub(super) fn forget(&mut self) {
        self.marks[1..].fill(T::ZERO);
    }
}
