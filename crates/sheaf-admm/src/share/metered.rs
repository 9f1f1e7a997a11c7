//! Counts what a rank sends, and delays it, for measurements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Comm, Message};

/// What a rank has sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Exchanges of halo rows.
    pub swaps: u64,
    /// Messages with halo rows.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Sums that were gathered.
    pub sums: u64,
    /// Bytes that this rank contributed to them.
    pub sum_bytes: u64,
    /// Nanoseconds in which this rank waited for others.
    pub waited: u64,
}

/// A connection that counts, and that makes every exchange and every sum longer by `delay`.
#[derive(Debug)]
pub struct Metered {
    inner: Arc<dyn Comm>,
    delay: Duration,
    counts: [AtomicU64; 6],
}

impl Metered {
    /// Counts the messages of `inner`, each call of which takes `delay` longer.
    pub fn new(inner: Arc<dyn Comm>, delay: Duration) -> Self {
        Self { inner, delay, counts: Default::default() }
    }

    /// What was sent since the start.
    pub fn traffic(&self) -> Traffic {
        let [swaps, messages, bytes, sums, sum_bytes, waited] =
            self.counts.each_ref().map(|n| n.load(Relaxed));
        Traffic { swaps, messages, bytes, sums, sum_bytes, waited }
    }

    fn count<const N: usize>(&self, first: usize, by: [u64; N]) {
        for (n, by) in self.counts[first..].iter().zip(by) {
            n.fetch_add(by, Relaxed);
        }
    }

    fn waited(&self, since: Instant) {
        self.count(5, [since.elapsed().as_nanos() as u64]);
    }

    /// Waits without giving the core away: a sleep is longer than the delays of a network.
    fn hold(&self, since: Instant) {
        while since.elapsed() < self.delay {
            std::hint::spin_loop();
        }
    }
}

impl Comm for Metered {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn ranks(&self) -> usize {
        self.inner.ranks()
    }

    /// The delay runs while `during` does, as that of a network would.
    fn swap(&self, sends: &[Message], receives: &mut [Message], during: &mut dyn FnMut()) {
        let bytes = sends.iter().map(|message| message.bytes.len() as u64).sum();
        self.count(0, [1, sends.len() as u64, bytes]);
        let began = Instant::now();
        let mut worked = began;
        self.inner.swap(sends, receives, &mut || {
            during();
            worked = Instant::now();
        });
        self.hold(began);
        self.waited(worked);
    }

    fn gather(&self, own: &[u8], counts: &[usize], all: &mut [u8]) {
        self.count(3, [1, own.len() as u64]);
        let began = Instant::now();
        self.inner.gather(own, counts, all);
        self.hold(began);
        self.waited(began);
    }

    fn send(&self, to: usize, bytes: &[u8]) {
        self.inner.send(to, bytes);
    }

    fn receive(&self, from: usize, bytes: &mut [u8]) {
        let began = Instant::now();
        self.inner.receive(from, bytes);
        self.waited(began);
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        self.inner.broadcast(from, bytes);
    }

    fn await_bytes(&self, from: usize, bytes: &mut [u8]) {
        self.inner.await_bytes(from, bytes);
    }
}
