//! All rounds of some samples, the tape, and the reverse sweep.
//!
//! The tape holds the state before every recorded round and what the round saved; the norms of concatenated vectors are
//! computed again in the reverse sweep, the products are not.

use sheaf_admm::{Error, ErrorKind, Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::add;

use super::cell::{Saved, Scratch};
use super::{Links, Messages};
use crate::model::worker::{Seen, Watcher};

/// Buffers for the rounds of some samples, kept by a worker.
#[derive(Debug)]
pub struct Rounds<T: Copy + Default> {
    states: AlignedVec<T>, // [recorded + 1, samples, agents, d_v]
    next: AlignedVec<T>,   // the state after a round that is not recorded
    saved: [AlignedVec<T>; SAVED],
    marks: Vec<u32>,
    normed: AlignedVec<T>,  // rms(h)
    context: AlignedVec<T>, // the part of the update's input that no round changes
    d_context: AlignedVec<T>,
    d: [AlignedVec<T>; 2], // gradients of the states after and before a round
    scratch: Scratch<T>,
    running: Vec<bool>, // [samples]
    len: usize,         // of the states of all samples
    ran: usize,
    skip: usize, // rounds before the recorded ones
}

/// Arrays that a round saves: a, p, v, r, z, t.
const SAVED: usize = 6;

impl<T: Copy + Default> Default for Rounds<T> {
    fn default() -> Self {
        let (states, next, saved, marks, normed, context) = Default::default();
        let (d_context, d) = Default::default();
        let (scratch, running) = Default::default();
        let (len, ran, skip) = (0, 0, 0);
        Self { states, next, saved, marks, normed, context, d_context, d, scratch, running, len, ran, skip }
    }
}

impl<T: Real> Rounds<T> {
    /// Runs this many rounds on the samples whose encoder outputs are `h`, the last `taped` of them recorded.
    /// `iterations` receives the rounds that each sample ran.
    pub fn run(
        &mut self,
        cell: &Messages,
        params: &[T],
        links: &Links,
        h: &[T], // [samples, agents, d_v]
        rounds: usize,
        taped: usize,
        iterations: &mut Vec<usize>,
        watcher: &mut impl Watcher<T>,
    ) -> Result<()> {
        let one = links.agents() * cell.d_v;
        self.fit(cell, links, h.len(), taped);
        (self.len, self.ran, self.skip) = (h.len(), 0, rounds - taped);
        self.running.clear();
        self.running.resize(h.len() / one.max(1), true);
        iterations.clear();
        iterations.resize(self.running.len(), 0);
        let n = self.len;
        cell.context(params, h, &mut self.normed[..n], &mut self.context[..n]);
        cell.begin(params, h, &mut self.states[..n]);
        for k in 0..rounds {
            self.round(cell, params, links, k);
            let (before, after) = self.around(k);
            let seen = Seen { k, states: after, moved: (before, after), running: &self.running, admm: None };
            let go_on = watcher.see(&seen);
            self.commit(k);
            for (b, running) in self.running.iter_mut().enumerate().filter(|(_, running)| **running) {
                iterations[b] = k + 1;
                *running = go_on && watcher.goes_on(b);
            }
            self.ran = k + 1;
            if !self.running.contains(&true) {
                break;
            }
        }
        self.check_finite(one)
    }

    /// Prepares rounds that run one at a time, from the state that `h` starts with.
    pub fn begin(&mut self, cell: &Messages, params: &[T], links: &Links, h: &[T]) {
        self.fit(cell, links, h.len(), 0);
        (self.len, self.ran, self.skip) = (h.len(), 0, usize::MAX);
        self.running.clear();
        self.running.push(true);
        cell.begin(params, h, &mut self.states[..h.len()]);
    }

    /// Sets the encoder outputs that the next rounds read.
    pub fn listen_to(&mut self, cell: &Messages, params: &[T], h: &[T]) {
        cell.context(params, h, &mut self.normed[..h.len()], &mut self.context[..h.len()]);
    }

    /// One round of a sample that [`begin`](Self::begin) has prepared, over these links.
    pub fn advance(&mut self, cell: &Messages, params: &[T], links: &Links) {
        self.round(cell, params, links, 0);
        self.commit(0);
        self.ran += 1;
    }

    /// The states after the last round, to change.
    pub fn state_mut(&mut self) -> &mut [T] {
        &mut self.states[..self.len]
    }

    /// Grows the buffers.
    fn fit(&mut self, cell: &Messages, links: &Links, n: usize, taped: usize) {
        let (rows, slots) = (n / cell.d_v, taped.max(1));
        self.states.ensure((taped + 1) * n);
        for buffer in [&mut self.next, &mut self.normed, &mut self.context] {
            buffer.ensure(n);
        }
        let widths = saved_widths(cell);
        self.saved.iter_mut().zip(widths).for_each(|(buffer, width)| buffer.ensure(slots * rows * width));
        let marks = slots * rows * cell.marks_len(links);
        self.marks.resize(marks.max(self.marks.len()), 0);
        self.scratch.fit(cell, rows, taped > 0);
        if taped > 0 {
            self.d_context.ensure(n);
            self.d.iter_mut().for_each(|d| d.ensure(n));
        }
    }

    /// Where the state before round `k` lies.
    fn place(&self, k: usize) -> usize {
        k.saturating_sub(self.skip) * self.len
    }

    /// Whether round `k` is recorded.
    fn records(&self, k: usize) -> bool {
        k >= self.skip && self.states.len() >= self.place(k + 1) + self.len
    }

    fn round(&mut self, cell: &Messages, params: &[T], links: &Links, k: usize) {
        let (n, at, recorded) = (self.len, self.place(k), self.records(k));
        let (rows, slot) = (n / cell.d_v, if recorded { k - self.skip } else { 0 });
        let marks_len = rows * cell.marks_len(links);
        let (before, after) = self.states.split_at_mut(at + n);
        let s = &before[at..];
        let next = if recorded { &mut after[..n] } else { &mut self.next[..n] };
        let mut saved = saved_of(&mut self.saved, cell, rows, slot);
        let marks = &mut self.marks[slot * marks_len..][..marks_len];
        let context = &self.context[..n];
        cell.round(params, links, context, s, next, &mut saved, marks, &mut self.scratch);
        let one = n / self.running.len().max(1);
        for (b, _) in self.running.iter().enumerate().filter(|(_, running)| !**running) {
            next[b * one..][..one].copy_from_slice(&s[b * one..][..one]);
        }
    }

    /// The states before and after round `k`, which has just run.
    fn around(&self, k: usize) -> (&[T], &[T]) {
        let (n, at) = (self.len, self.place(k));
        let after = if self.records(k) { &self.states[at + n..][..n] } else { &self.next[..n] };
        (&self.states[at..][..n], after)
    }

    /// Keeps the state after round `k` for the next one.
    fn commit(&mut self, k: usize) {
        if !self.records(k) {
            let (n, at) = (self.len, self.place(k + 1));
            self.states[at..at + n].copy_from_slice(&self.next[..n]);
        }
    }

    /// Values that are not finite persist.
    fn check_finite(&self, one: usize) -> Result<()> {
        let states = self.last(1).chunks_exact(one.max(1));
        for (b, state) in states.enumerate() {
            let sum: T = state.iter().copied().sum();
            if !sum.is_finite() {
                let place = format!("message passing, sample {b}, by round {}", self.ran);
                return Err(Error::new(ErrorKind::NotFinite, place, "finite states", sum)
                    .hint("a parameter or a view may not be finite"));
            }
        }
        Ok(())
    }

    /// The states after the last `count` rounds, oldest first, `[count, samples, agents, d_v]`; all of them recorded,
    /// or one.
    pub fn last(&self, count: usize) -> &[T] {
        let end = self.place(self.ran) + self.len;
        &self.states[end - count * self.len..end]
    }

    /// The reverse sweep: from the gradients `d_last` of the last states to those of `h` and the parameters, which it
    /// adds to.
    pub fn reverse(
        &mut self,
        cell: &Messages,
        params: &[T],
        links: &Links,
        h: &[T],
        d_last: &[T], // [count, samples, agents, d_v]
        d_h: &mut [T],
        d_params: &mut [T],
    ) {
        let (n, rows) = (self.len, self.len / cell.d_v);
        let marks_len = rows * cell.marks_len(links);
        let window = d_last.len() / n.max(1);
        let [d, d_before] = &mut self.d;
        let d_context = &mut self.d_context[..n];
        d[..n].fill(T::ZERO);
        d_context.fill(T::ZERO);
        for k in (self.skip..self.ran).rev() {
            if let Some(back) = (k + 1 + window).checked_sub(self.ran + 1) {
                add(&mut d[..n], &d_last[back * n..][..n]);
            }
            let slot = k - self.skip;
            let s = &self.states[slot * n..][..n];
            let saved = saved_of(&mut self.saved, cell, rows, slot);
            let marks = &self.marks[slot * marks_len..][..marks_len];
            let (from, to) = (&d[..n], &mut d_before[..n]);
            cell.round_vjp(params, links, s, &saved, marks, from, to, d_context, d_params, &mut self.scratch);
            std::mem::swap(d, d_before);
        }
        if self.skip == 0 {
            cell.begin_vjp(params, h, &d[..n], d_h, d_params);
        }
        cell.context_vjp(params, h, &mut self.normed[..n], d_context, d_h, d_params);
    }
}

/// Widths of the saved arrays.
fn saved_widths(cell: &Messages) -> [usize; SAVED] {
    let d_v = cell.d_v;
    [cell.width, if cell.to_state.is_some() { d_v } else { 0 }, d_v, d_v, d_v, d_v]
}

/// What the round at `slot` of the tape saved.
fn saved_of<'t, T: Real>(
    saved: &'t mut [AlignedVec<T>; SAVED],
    cell: &Messages,
    rows: usize,
    slot: usize,
) -> Saved<'t, T> {
    let widths = saved_widths(cell);
    let mut k = 0;
    let [a, p, v, r, z, t] = saved.each_mut().map(|buffer| {
        let len = rows * widths[k];
        k += 1;
        &mut buffer[slot * len..][..len]
    });
    Saved { a, p, v, r, z, t }
}
