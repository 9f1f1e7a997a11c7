//! The draws of delays, losses and sleep: functions of their keys, so that the reverse sweep draws the same again, and
//! nothing depends on threads or on how samples are grouped.
//!
//! | draw | key |
//! | --- | --- |
//! | loss and delay of a message | seed, "messages", training step, sample, round, end of an edge |
//! | sleep of an agent | seed, "activity", training step, sample, iteration, agent |

use super::OutOfStep;
use crate::admm::intervene::{mix, unit};

/// Which draw of the random streams a solve uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Draw {
    /// The training step, from 1; 0 outside of training.
    pub step: u64,
    /// The number of the first sample of the batch.
    pub sample: u64,
}

impl Draw {
    /// That of a solve on its own.
    pub const FIRST: Self = Self { step: 0, sample: 0 };
}

/// The iteration that a consensus step belongs to. Only agents out of step ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct When {
    /// The iteration, from 0.
    pub iteration: usize,
    /// The draw of its solve.
    pub draw: Draw,
}

impl When {
    /// The first iteration of a solve on its own.
    pub const FIRST: Self = Self { iteration: 0, draw: Draw::FIRST };

    /// The same for sample `b` of a batch.
    pub(crate) fn of_sample(mut self, b: usize) -> Self {
        self.draw.sample = self.draw.sample.wrapping_add(b as u64);
        self
    }
}

/// The draws of one sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    lag: OutOfStep,
    messages: u64,
    activity: u64,
}

impl Streams {
    pub(crate) fn new(lag: OutOfStep, draw: Draw) -> Self {
        let key = |purpose: &[u8; 8]| {
            let parts = [u64::from_le_bytes(*purpose), draw.step, draw.sample];
            parts.iter().fold(mix(lag.seed), |key, &part| mix(key ^ mix(part)))
        };
        Self { lag, messages: key(b"messages"), activity: key(b"activity") }
    }

    /// Whether an agent is awake in an iteration.
    pub(crate) fn awake(&self, iteration: usize, agent: usize) -> bool {
        self.lag.activity >= 1.0 || unit(draw(self.activity, iteration, agent)) < self.lag.activity
    }

    /// The delay of the message that is sent in `round` over a link (twice the edge, plus 1 towards its second end); `None`
    /// if it is lost.
    pub(super) fn delay(&self, round: usize, link: usize) -> Option<usize> {
        let bits = draw(self.messages, round, link);
        // The upper half decides about the loss, the lower one about the delay.
        let lost = ((bits >> 32) as f64) < self.lag.loss * (1u64 << 32) as f64;
        let delay = ((bits & u64::from(u32::MAX)) * (self.lag.delay as u64 + 1)) >> 32;
        (!lost).then_some(delay as usize)
    }

    /// The age in rounds of the newest message of a link that has arrived by `round`, among those of the last `delay`
    /// rounds and this one; `None` if none of them has. `sent` tells whether the sender was awake in a round.
    pub(super) fn newest(&self, round: usize, link: usize, sent: impl Fn(usize) -> bool) -> Option<usize> {
        if self.lag.is_in_step() {
            return Some(0);
        }
        (0..=self.lag.delay.min(round)).find(|&age| {
            let arrived = self.delay(round - age, link).is_some_and(|delay| delay <= age);
            arrived && sent(round - age)
        })
    }
}

fn draw(stream: u64, time: usize, place: usize) -> u64 {
    mix(mix(stream ^ mix(time as u64)) ^ mix(place as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG: OutOfStep = OutOfStep { delay: 3, loss: 0.2, activity: 0.6, seed: 9 };

    #[test]
    fn shares_of_lost_late_and_asleep_are_those_asked_for() {
        let streams = Streams::new(LAG, Draw::FIRST);
        let (rounds, links) = (200, 300);
        let all = || (0..rounds).flat_map(|r| (0..links).map(move |l| (r, l)));
        let count = (rounds * links) as f64;
        let share = |wanted: Option<usize>| {
            all().filter(|&(r, l)| streams.delay(r, l) == wanted).count() as f64 / count
        };
        assert!((share(None) - 0.2).abs() < 0.01, "{}", share(None));
        for delay in 0..=3 {
            assert!((share(Some(delay)) - 0.2).abs() < 0.01, "{delay}: {}", share(Some(delay)));
        }
        assert_eq!(share(Some(4)), 0.0);
        let awake = all().filter(|&(k, i)| streams.awake(k, i)).count() as f64 / count;
        assert!((awake - 0.6).abs() < 0.01, "{awake}");
    }

    #[test]
    fn the_newest_message_is_found_and_never_one_from_before_the_first_round() {
        let streams = Streams::new(LAG, Draw { step: 2, sample: 5 });
        for (round, link) in (0..40).flat_map(|r| (0..20).map(move |l| (r, l))) {
            let arrived = (0..=round).rev().find(|&sent| {
                streams.delay(sent, link).is_some_and(|delay| sent + delay <= round) && sent % 5 != 0
            });
            let newest = streams.newest(round, link, |sent| sent % 5 != 0);
            match arrived.map(|sent| round - sent).filter(|&age| age <= LAG.delay) {
                Some(age) => assert_eq!(newest, Some(age)),
                None => assert_eq!(newest, None),
            }
        }
    }

    #[test]
    fn every_part_of_a_key_changes_the_draws() {
        let of = |lag: OutOfStep, draw: Draw| {
            let streams = Streams::new(lag, draw);
            (0..64).map(|l| streams.delay(1, l)).collect::<Vec<_>>()
        };
        let one = of(LAG, Draw::FIRST);
        assert_eq!(one, of(LAG, Draw::FIRST));
        for other in [
            of(OutOfStep { seed: 10, ..LAG }, Draw::FIRST),
            of(LAG, Draw { step: 1, sample: 0 }),
            of(LAG, Draw { step: 0, sample: 1 }),
        ] {
            assert_ne!(one, other);
        }
    }
}
