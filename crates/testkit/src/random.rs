//! Reproducible numbers for tests: SplitMix64, one `u64` of state, the same numbers on every machine.

/// A small deterministic generator, for tests only.
#[derive(Clone, Debug)]
pub struct TestRng(u64);

impl TestRng {
    /// The generator of `seed`; every seed gives its own stream.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// A whole number in `0..n` (the bias of at most n/2⁶⁴ does not matter in tests).
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "below(0) has no answer");
        (self.next_u64() % n as u64) as usize
    }

    /// Standard normal (Box–Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// `n` standard normals.
    pub fn normals(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.normal()).collect()
    }

    /// `n` standard normals, rounded to `f32`.
    pub fn normals_f32(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.normal() as f32).collect()
    }

    /// `n` numbers uniform in [low, high).
    pub fn ranges(&mut self, n: usize, low: f64, high: f64) -> Vec<f64> {
        (0..n).map(|_| self.range(low, high)).collect()
    }

    /// `n` standard normals, each at least `margin` away from all `kinks`: finite differences are only meaningful where
    /// the function is smooth.
    pub fn normals_away_from(&mut self, n: usize, kinks: &[f64], margin: f64) -> Vec<f64> {
        let mut out = Vec::with_capacity(n);
        while out.len() < n {
            let x = self.normal();
            if kinks.iter().all(|kink| (x - kink).abs() >= margin) {
                out.push(x);
            }
        }
        out
    }

    /// Fisher–Yates shuffle.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}
