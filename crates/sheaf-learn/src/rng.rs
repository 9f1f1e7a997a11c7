//! Counter-based randomness: every stream is keyed by (seed, purpose, counters), so the random numbers of a sample
//! depend only on its key, not on threads, order or resumption.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng};

/// A stream of random numbers with the few distributions the project needs.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// The stream of `(seed, purpose, a, b)`. Different purposes never share numbers.
    pub fn new(seed: u64, purpose: &str, a: u64, b: u64) -> Self {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&fnv1a(purpose.as_bytes()).to_le_bytes());
        key[16..24].copy_from_slice(&a.to_le_bytes());
        key[24..].copy_from_slice(&b.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform integer in `0..n`, without bias; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let n = (n as u64).max(1);
        // Reject the top part of the range that would favour small numbers.
        let limit = u64::MAX - (u64::MAX % n + 1) % n;
        loop {
            let bits = self.next_u64();
            if bits <= limit {
                return (bits % n) as usize;
            }
        }
    }

    /// Standard normal (Box–Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Standard normal truncated at ±`cut` (by rejection; not rescaled). A cut that is not above 0 gives only 0.
    pub fn truncated_normal(&mut self, cut: f64) -> f64 {
        if cut.is_nan() || cut <= 0.0 {
            return 0.0;
        }
        loop {
            let x = self.normal();
            if x.abs() <= cut {
                return x;
            }
        }
    }

    /// Fisher–Yates shuffle.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}
