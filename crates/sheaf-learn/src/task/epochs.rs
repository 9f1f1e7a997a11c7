//! Which samples each training step sees.
//!
//! The steps pass through the set without gaps: step t sees samples t·n … (t + 1)·n − 1 of an endless sequence of
//! epochs, each with its own shuffle. The order depends only on (seed, step), so a resumed run sees the same batches as
//! an uninterrupted one. k epochs are exactly k·len / n steps, and no sample is left out.

use crate::rng::Stream;

/// The current shuffle, kept while it is in use.
#[derive(Clone, Debug, Default)]
pub struct Epochs {
    of: Option<(u64, u64)>,
    order: Vec<u32>, // [samples]
}

impl Epochs {
    /// The sample at `place` of the endless sequence over `count` samples. `stream` names the shuffles.
    pub fn sample(&mut self, stream: &str, seed: u64, place: u64, count: usize) -> u32 {
        let epoch = place / count as u64;
        if self.of != Some((seed, epoch)) {
            self.order.clear();
            self.order.extend(0..count as u32);
            Stream::new(seed, stream, epoch, 0).shuffle(&mut self.order);
            self.of = Some((seed, epoch));
        }
        self.order[(place % count as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_meets_every_sample_once_whatever_the_batch() {
        let mut epochs = Epochs::default();
        let mut seen: Vec<u32> = (0..10).map(|place| epochs.sample("test", 1, place, 10)).collect();
        let next: Vec<u32> = (10..20).map(|place| epochs.sample("test", 1, place, 10)).collect();
        assert_ne!(seen, next, "every epoch has a shuffle of its own");
        seen.sort_unstable();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_resumed_run_meets_what_an_uninterrupted_one_meets() {
        let all: Vec<u32> = (0..40).map(|p| Epochs::default().sample("test", 3, p, 7)).collect();
        let mut one = Epochs::default();
        assert_eq!(all, (0..40).map(|p| one.sample("test", 3, p, 7)).collect::<Vec<_>>());
    }
}
