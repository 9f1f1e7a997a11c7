//! The part of one sample in the vectors of a batch.

use std::ops::Range;

use super::ZUpdate;
use crate::Real;
use crate::sheaf::SheafOp;

/// Where the data of a sample lies in vectors of a batch.
pub(super) struct Cut {
    states: usize,
    edges: usize,
    carry: usize,
    kept: usize,
    /// Length of the scratch of each sample, if it is not shared.
    scratch: Option<usize>,
}

impl Cut {
    pub(super) fn new<T: Real>(solver: &ZUpdate<T>, op: &SheafOp<'_, T>, carry: usize, kept: usize) -> Self {
        let samples = op.samples();
        let own = matches!(solver, ZUpdate::Exact(_)) && samples > 1;
        let scratch = own.then(|| solver.scratch_each(op));
        let (states, edges) = (op.sheaf().state_len(), op.sheaf().edge_len());
        Self { states, edges, carry: carry / samples, kept: kept / samples, scratch }
    }

    pub(super) fn states(&self, b: usize) -> Range<usize> {
        b * self.states..(b + 1) * self.states
    }

    /// The gradient of the offsets of sample `b`; empty if none is needed.
    pub(super) fn offsets<'s, T>(&self, b: usize, all: &'s mut [T]) -> &'s mut [T] {
        if all.is_empty() { all } else { &mut all[b * self.edges..][..self.edges] }
    }

    pub(super) fn carry(&self, b: usize) -> Range<usize> {
        b * self.carry..(b + 1) * self.carry
    }

    pub(super) fn kept(&self, b: usize) -> Range<usize> {
        b * self.kept..(b + 1) * self.kept
    }

    pub(super) fn scratch<'s, T>(&self, b: usize, scratch: &'s mut [T]) -> &'s mut [T] {
        match self.scratch {
            Some(each) => &mut scratch[b * each..][..each],
            None => scratch,
        }
    }
}
