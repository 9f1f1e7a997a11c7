//! How far agents are out of step, as numbers and as text.

use std::fmt;
use std::str::FromStr;

use crate::{Error, ErrorKind, Result};

/// The longest delay of a message, in rounds: the messages of as many rounds are kept.
pub const MAX_DELAY: usize = 1024;

/// How far agents are out of step.
///
/// As text it is a list of `key=value`: `delay=4,loss=0.1,activity=0.9,seed=7`. What is left out is in step, and the seed 0.
///
/// ```
/// use sheaf_admm::z_update::OutOfStep;
/// let lag: OutOfStep = "delay=4,loss=0.1".parse()?;
/// assert_eq!((lag.delay, lag.activity), (4, 1.0));
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutOfStep {
    /// The longest delay of a message in rounds (descent steps); each message draws its own from 0 to this.
    pub delay: usize,
    /// Probability that a message is lost.
    pub loss: f64,
    /// Probability that an agent is awake in an iteration.
    pub activity: f64,
    /// Seed of the draws.
    pub seed: u64,
}

impl OutOfStep {
    /// No delay, no loss, every agent awake.
    pub const NONE: Self = Self { delay: 0, loss: 0.0, activity: 1.0, seed: 0 };

    /// Whether nothing is late, lost or asleep.
    pub fn is_in_step(&self) -> bool {
        Self { seed: 0, ..*self } == Self::NONE
    }

    /// Checks the ranges.
    pub fn validate(&self) -> Result<()> {
        let wrong = |place: &str, expected: &str, got: &dyn fmt::Display| {
            Err(Error::new(ErrorKind::OutOfRange, format!("asynchronous: {place}"), expected, got))
        };
        if self.delay > MAX_DELAY {
            return wrong("delay", &format!("0 to {MAX_DELAY} rounds"), &self.delay);
        }
        if !(0.0..1.0).contains(&self.loss) {
            let hint = "a loss of 1 is no communication at all; model.coordination = \"none\" is that model";
            return wrong("loss", "a probability from 0 to below 1", &self.loss).map_err(|e| e.hint(hint));
        }
        if !(self.activity > 0.0 && self.activity <= 1.0) {
            return wrong("activity", "a probability above 0, at most 1", &self.activity);
        }
        Ok(())
    }
}

impl Default for OutOfStep {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Display for OutOfStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { delay, loss, activity, seed } = self;
        write!(f, "delay={delay},loss={loss},activity={activity}")?;
        if *seed != 0 { write!(f, ",seed={seed}") } else { Ok(()) }
    }
}

impl FromStr for OutOfStep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const EXAMPLE: &str =
            "for example delay=4,loss=0.1,activity=0.9,seed=7; each of them may be left out";
        let mut lag = Self::NONE;
        let mut seen = Vec::new();
        for part in text.split(',') {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (key, value) = (key.trim(), value.trim());
            let wrong = |expected: &str| {
                let got = format!("{:?}", part.trim());
                Error::new(ErrorKind::Malformed, "asynchronous", expected, got).hint(EXAMPLE)
            };
            if seen.contains(&key) {
                return Err(wrong("every key once"));
            }
            seen.push(key);
            match key {
                "delay" => lag.delay = value.parse().map_err(|_| wrong("delay=ROUNDS, a whole number"))?,
                "loss" => lag.loss = value.parse().map_err(|_| wrong("loss=PROBABILITY"))?,
                "activity" => lag.activity = value.parse().map_err(|_| wrong("activity=PROBABILITY"))?,
                "seed" => lag.seed = value.parse().map_err(|_| wrong("seed=NUMBER"))?,
                _ => return Err(wrong("delay=…, loss=…, activity=… or seed=…")),
            }
        }
        lag.validate()?;
        Ok(lag)
    }
}
