//! What an observer of samples sees after every iteration, whatever the agents do in it.

use sheaf_admm::Real;
use sheaf_admm::admm::{Iteration, Observer};

/// Some samples after one iteration.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'v, 'a, T> {
    /// The number of the iteration, from 0.
    pub k: usize,
    /// The states that the decoder reads.
    pub states: &'v [T], // [samples, states]
    /// The states whose movement decides whether a sample has settled, before and after the iteration.
    pub moved: (&'v [T], &'v [T]), // [samples, states]
    /// Which samples ran this iteration; the others keep their values.
    pub running: &'v [bool], // [samples]
    /// The iteration of ADMM, where the agents run it.
    pub admm: Option<Iteration<'v, 'a, T>>,
}

impl<'v, T> Seen<'v, '_, T> {
    /// The movement of sample `b`: its states before and after the iteration.
    pub fn moved_of(&self, b: usize) -> (&'v [T], &'v [T]) {
        let n = self.states.len() / self.running.len().max(1);
        (&self.moved.0[b * n..][..n], &self.moved.1[b * n..][..n])
    }
}

/// Receives some samples after every iteration. `()` does nothing and costs nothing.
pub trait Watcher<T> {
    /// Called after every iteration; return `false` to end all samples there.
    fn see(&mut self, seen: &Seen<'_, '_, T>) -> bool;

    /// Whether sample `b` continues; called after [`see`](Self::see) for every sample that ran the iteration.
    fn goes_on(&mut self, b: usize) -> bool {
        let _ = b;
        true
    }
}

impl<T> Watcher<T> for () {
    #[inline(always)]
    fn see(&mut self, _seen: &Seen<'_, '_, T>) -> bool {
        true
    }
}

impl<T, F: FnMut(&Seen<'_, '_, T>) -> bool> Watcher<T> for F {
    fn see(&mut self, seen: &Seen<'_, '_, T>) -> bool {
        self(seen)
    }
}

/// A watcher of samples as an observer of ADMM.
pub(super) struct OfAdmm<'w, W>(pub &'w mut W);

impl<T: Real, W: Watcher<T>> Observer<T> for OfAdmm<'_, W> {
    #[inline(always)]
    fn iteration(&mut self, view: &Iteration<'_, '_, T>) -> bool {
        let (k, states, moved, running) = (view.k, view.x, (view.z_prev, view.z), view.running);
        self.0.see(&Seen { k, states, moved, running, admm: Some(*view) })
    }

    #[inline(always)]
    fn goes_on(&mut self, b: usize) -> bool {
        self.0.goes_on(b)
    }
}
