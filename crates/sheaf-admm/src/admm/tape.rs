//! The iterates of a solve. While recording, every iteration writes its own row, and the reverse sweep reads the rows
//! again; otherwise two rows alternate.
//!
//! | array | rows while recording n iterations | else |
//! | --- | --- | --- |
//! | z | n + 1: the state before every iteration, and the last | 2 |
//! | u, carry | n + 1 | 1 |
//! | x | n | 2 |
//! | factor of the penalty | n + 1 | 0 |
//! | steps kept by the consensus solver | n, if requested | 0 |

use super::{Mode, Problem};
use crate::Real;
use crate::z_update::Draw;
use sheaf_kernels::aligned::AlignedVec;

/// The tape of a solve: the state before every iteration, x after it, and the factor of the penalty.
#[derive(Clone, Debug, Default)]
pub struct Tape<T: Copy + Default> {
    pub(super) x: AlignedVec<T>,
    pub(super) z: AlignedVec<T>,
    pub(super) u: AlignedVec<T>,
    pub(super) carry: AlignedVec<T>,
    pub(super) factor: AlignedVec<T>,
    pub(super) kept: AlignedVec<T>,
    pub(super) keeping: bool,
    pub(super) recording: bool,
    /// Iterations that ran, of the sample that ran longest; `None` after a solve that failed.
    pub(super) ran: Option<usize>,
    /// Iterations before the first one on the tape.
    pub(super) skip: usize,
    /// Whether the last iteration computed only x.
    pub(super) x_only: bool,
    /// Length of a row.
    pub(super) states: usize,
    pub(super) carries: usize,
    pub(super) samples: usize,
    /// The draw of agents out of step.
    pub(super) draw: Draw,
}

impl<T: Real> Tape<T> {
    /// Makes room; returns whether a recorded solve is still valid.
    pub(super) fn fit(&mut self, problem: &Problem<'_, T>, mode: Mode) -> bool {
        let (recording, keeping, iterations) = match mode {
            Mode::Solve => (false, false, 0),
            Mode::Differentiate { iterations } => (true, false, iterations),
            Mode::Keep { iterations } => (true, true, iterations),
        };
        let same = self.recording == recording && self.keeping == keeping;
        (self.recording, self.keeping) = (recording, keeping);
        let survives = same && self.room(problem) >= iterations.max(1);
        let (n, carry) = (problem.op.state_len(), problem.z_update.carry_len(&problem.op));
        // Sizes too large to allocate are not allocated; the solve then returns an error.
        let more = if recording { iterations.saturating_add(1) } else { 1 };
        self.x.ensure(iterations.max(2).saturating_mul(n));
        self.z.ensure(more.max(2).saturating_mul(n));
        self.u.ensure(more.saturating_mul(n));
        self.carry.ensure(more.saturating_mul(carry));
        if recording {
            self.factor.ensure(more);
            self.kept.ensure(iterations.saturating_mul(self.kept_len(problem)));
        }
        survives
    }

    /// Length of the inner steps kept from one iteration.
    pub(super) fn kept_len(&self, problem: &Problem<'_, T>) -> usize {
        if self.keeping { problem.z_update.kept_len(&problem.op) } else { 0 }
    }

    /// The most iterations of this problem that can be recorded; without recording, any number or none.
    pub(super) fn room(&self, problem: &Problem<'_, T>) -> usize {
        let n = problem.op.state_len();
        let carry = problem.z_update.carry_len(&problem.op);
        let fit = |len: usize, one: usize| len.checked_div(one).unwrap_or(usize::MAX);
        let (x, z, u) = (fit(self.x.len(), n), fit(self.z.len(), n), fit(self.u.len(), n));
        let carries = fit(self.carry.len(), carry);
        if !self.recording {
            let enough = x >= 2 && z >= 2 && u >= 1 && carries >= 1;
            return if enough { usize::MAX } else { 0 };
        }
        if x < 2 || z < 2 {
            return 0;
        }
        let kept = fit(self.kept.len(), self.kept_len(problem));
        [z, u, carries, self.factor.len()]
            .map(|rows| rows.saturating_sub(1))
            .into_iter()
            .fold(x.min(kept), usize::min)
    }

    /// The row of `z` that iteration `k` starts from.
    pub(super) fn z_row(&self, k: usize) -> usize {
        match (self.recording, k.checked_sub(self.skip)) {
            (true, Some(row)) => row,
            (true, None) => (self.skip - k) % 2,
            (false, _) => k % 2,
        }
    }

    /// The row of `u`, `carry` and `factor` that iteration `k` starts from.
    pub(super) fn row(&self, k: usize) -> usize {
        if self.recording { k.saturating_sub(self.skip) } else { 0 }
    }

    /// The row of x that iteration `k` writes. Iterations before the tape alternate rows with the next.
    pub(super) fn x_row(&self, k: usize) -> usize {
        self.z_row(k)
    }

    pub(super) fn z(&self, k: usize) -> &[T] {
        &self.z[self.z_row(k) * self.states..][..self.states]
    }

    pub(super) fn u(&self, k: usize) -> &[T] {
        &self.u[self.row(k) * self.states..][..self.states]
    }

    pub(super) fn x(&self, k: usize) -> &[T] {
        &self.x[self.x_row(k) * self.states..][..self.states]
    }

    /// (z, u, x) of iteration `k`, x to write.
    pub(super) fn proposal(&mut self, k: usize) -> (&[T], &[T], &mut [T]) {
        let (n, z, u, x) = (self.states, self.z_row(k), self.row(k), self.x_row(k));
        (&self.z[z * n..][..n], &self.u[u * n..][..n], &mut self.x[x * n..][..n])
    }

    /// (z before, z after, carry, kept) of iteration `k`; the carry is the one before, in the row of the one after.
    pub(super) fn agreement(&mut self, k: usize, kept: usize) -> (&[T], &mut [T], &mut [T], &mut [T]) {
        let (n, c) = (self.states, self.carries);
        let (from, to) = (self.row(k), self.row(k + 1));
        if from != to {
            self.carry.copy_within(from * c..(from + 1) * c, to * c);
        }
        let (z_row, next) = (self.z_row(k), self.z_row(k + 1));
        let (z, z_next) = rows(&mut self.z, n, z_row, next);
        let at = if kept > 0 { from * kept } else { 0 };
        // Iterations before the tape overwrite its first row.
        (z, z_next, &mut self.carry[to * c..][..c], &mut self.kept[at..][..kept])
    }

    /// (z, carry, kept) before iteration `k`, for its reverse.
    pub(super) fn before(&mut self, k: usize, kept: usize) -> (&[T], &[T], &mut [T]) {
        let (n, c, row, z) = (self.states, self.carries, self.row(k), self.z_row(k));
        (&self.z[z * n..][..n], &self.carry[row * c..][..c], &mut self.kept[row * kept..][..kept])
    }

    /// Records the factor of the penalty before iteration `k`.
    pub(super) fn record_factor(&mut self, k: usize, factor: T) {
        if self.recording {
            let row = self.row(k);
            self.factor[row] = factor;
        }
    }

    /// (z after, u after) of iteration `k`, u to write.
    pub(super) fn duals(&mut self, k: usize) -> (&[T], &mut [T]) {
        let (n, z, u) = (self.states, self.z_row(k + 1), self.row(k + 1));
        (&self.z[z * n..][..n], &mut self.u[u * n..][..n])
    }

    /// Copies x, z and u of a sample from the iteration before `k`.
    pub(super) fn hold(&mut self, k: usize, sample: usize, with_z: bool) {
        let (n, len) = (self.states, self.states / self.samples);
        let at = |row: usize| row * n + sample * len..row * n + (sample + 1) * len;
        let (from, to) = (self.x_row(k - 1), self.x_row(k));
        self.x.copy_within(at(from), at(to).start);
        if with_z {
            let (from, to) = (self.z_row(k), self.z_row(k + 1));
            self.z.copy_within(at(from), at(to).start);
            let (from, to) = (self.row(k), self.row(k + 1));
            if from != to {
                self.u.copy_within(at(from), at(to).start);
            }
        }
    }

    /// Iterations on the tape.
    pub(super) fn recorded(&self) -> usize {
        self.ran.filter(|_| self.recording).map_or(0, |ran| ran.saturating_sub(self.skip))
    }

    /// Total length of its buffers.
    pub(super) fn len(&self) -> usize {
        [&self.x, &self.z, &self.u, &self.carry, &self.factor, &self.kept].iter().map(|b| b.len()).sum()
    }
}

/// Row `from` to read and row `to` to write; they differ.
fn rows<T>(v: &mut [T], n: usize, from: usize, to: usize) -> (&[T], &mut [T]) {
    if from < to {
        let (front, back) = v.split_at_mut(to * n);
        (&front[from * n..][..n], &mut back[..n])
    } else {
        let (front, back) = v.split_at_mut(from * n);
        (&back[..n], &mut front[to * n..][..n])
    }
}
