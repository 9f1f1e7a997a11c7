//! The learning rate of each update: linear from 0 over `warmup` updates, then constant or decaying to a floor.
//!
//! ```text
//! lr(s) = peak · s / warmup                                    s < warmup     (the very first update has lr 0)
//!       = peak                                                 no decay
//!       = floor + (peak − floor) · shape((s − warmup) / (end − warmup))       shape(0) = 1, shape(1) = 0
//! ```

use std::f64::consts::PI;

use sheaf_admm::error::check_positive;
use sheaf_admm::{Error, ErrorKind, Result};

/// What the learning rate does after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Decay {
    /// It stays at its peak.
    #[default]
    None,
    /// It falls linearly to `floor`, reached at update `end`.
    Linear {
        /// The update at which the floor is reached.
        end: u64,
        /// The learning rate from there on.
        floor: f64,
    },
    /// It falls along half a cosine to `floor`, reached at update `end`.
    Cosine {
        /// The update at which the floor is reached.
        end: u64,
        /// The learning rate from there on.
        floor: f64,
    },
}

/// Learning rate as a function of the number of updates already made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    /// The learning rate after the warm-up.
    pub peak: f64,
    /// Length of the warm-up in updates; 0 starts at the peak.
    pub warmup: u64,
    /// The decay after the warm-up.
    pub decay: Decay,
}

impl Schedule {
    /// Checks that the values are valid.
    pub fn check(&self) -> Result<()> {
        check_positive("learning rate", self.peak)?;
        if let Decay::Linear { end, floor } | Decay::Cosine { end, floor } = self.decay {
            if end <= self.warmup {
                let want = format!("an update after the warm-up of {}", self.warmup);
                return Err(Error::new(ErrorKind::OutOfRange, "end of the decay", want, end));
            }
            if !(0.0..=self.peak).contains(&floor) {
                let want = format!("a number between 0 and the learning rate {}", self.peak);
                return Err(Error::new(ErrorKind::OutOfRange, "floor of the decay", want, floor));
            }
        }
        Ok(())
    }

    /// The learning rate of the update after `done` others.
    pub fn at(&self, done: u64) -> f64 {
        if done < self.warmup {
            return self.peak * (done as f64 / self.warmup as f64);
        }
        let fraction =
            |end: u64| ((done - self.warmup) as f64 / end.saturating_sub(self.warmup).max(1) as f64).min(1.0);
        match self.decay {
            Decay::None => self.peak,
            Decay::Linear { end, floor } => self.peak + (floor - self.peak) * fraction(end),
            Decay::Cosine { end, floor } => {
                floor + (self.peak - floor) * 0.5 * (1.0 + (PI * fraction(end)).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_update_has_rate_zero_and_the_peak_comes_after_the_warm_up() {
        let s = Schedule { peak: 3e-4, warmup: 200, decay: Decay::None };
        assert_eq!(s.at(0), 0.0);
        assert!((s.at(1) - 1.5e-6).abs() < 1e-18);
        assert!(s.at(199) < 3e-4);
        assert_eq!([s.at(200), s.at(31_250)], [3e-4; 2]);
    }

    #[test]
    fn without_warm_up_the_first_update_has_the_peak() {
        assert_eq!(Schedule { peak: 0.1, warmup: 0, decay: Decay::None }.at(0), 0.1);
    }

    #[test]
    fn decays_start_at_the_peak_pass_their_middle_and_stay_on_the_floor() {
        for decay in [Decay::Linear { end: 110, floor: 0.2 }, Decay::Cosine { end: 110, floor: 0.2 }] {
            let s = Schedule { peak: 1.0, warmup: 10, decay };
            s.check().unwrap();
            for (done, want) in [(10, 1.0), (60, 0.6), (110, 0.2), (500, 0.2)] {
                assert!((s.at(done) - want).abs() < 1e-12, "{decay:?} at {done}: {}", s.at(done));
            }
        }
        let cosine = Schedule { peak: 1.0, warmup: 0, decay: Decay::Cosine { end: 4, floor: 0.0 } };
        assert!((cosine.at(1) - (0.5 + 0.125f64.sqrt())).abs() < 1e-12);
    }

    #[test]
    fn nonsense_is_an_error() {
        let s = Schedule { peak: 1.0, warmup: 10, decay: Decay::None };
        assert_eq!(Schedule { peak: -1.0, ..s }.check().unwrap_err().kind(), ErrorKind::NotPositive);
        assert_eq!(Schedule { peak: f64::NAN, ..s }.check().unwrap_err().kind(), ErrorKind::NotPositive);
        for decay in [Decay::Linear { end: 10, floor: 0.0 }, Decay::Cosine { end: 99, floor: 2.0 }] {
            assert_eq!(Schedule { decay, ..s }.check().unwrap_err().kind(), ErrorKind::OutOfRange);
        }
    }
}
