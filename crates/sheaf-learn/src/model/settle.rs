//! When a sample has settled, so that further iterations would not help.
//!
//! A sample settles at the first of these events:
//!
//! * **The answer is stable and complete.** At two checks `patience` iterations apart the decoded answer is the same,
//!   and it is complete by the rules of the task (a path from start to goal, a valid board). The label is not used.
//!   Tasks without such rules never end this way.
//! * **The states are stable.** For `patience` iterations in a row, every agent's agreed state z moved less than
//!   `fraction` of the fastest that any agent has moved so far. The fastest agent counts, not the mean, because in a
//!   large sample an answer that still grows moves few agents at a time. Where answers can be checked, this ends only
//!   the samples that have no complete answer yet, and the smaller `fraction_with_rules` applies: in a maze of 73×73,
//!   agents at a hundredth of their first speed are still about to close dead ends.
//!
//! A check decodes, which costs more than an iteration, so it happens only every `patience` iterations.

use sheaf_admm::Real;

/// The thresholds of the module documentation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settling {
    /// Speed limit, relative to the fastest movement, for tasks without rules that complete an answer.
    pub fraction: f64,
    /// The same for tasks with such rules.
    pub fraction_with_rules: f64,
    /// Number of iterations in a row.
    pub patience: usize,
}

impl Default for Settling {
    fn default() -> Self {
        Self { fraction: 0.01, fraction_with_rules: 0.001, patience: 5 }
    }
}

impl Settling {
    /// One speed limit for every task.
    pub fn at(fraction: f64, patience: usize) -> Self {
        Self { fraction, fraction_with_rules: fraction, patience }
    }
}

/// Monitors the solve of one sample.
#[derive(Clone, Debug)]
pub struct Settler<A> {
    settling: Option<Settling>,
    rules: bool,
    fastest: f64,
    slow: usize,
    shown: Option<A>, // the answer of the last check, if it was complete
}

impl<A: PartialEq> Settler<A> {
    /// Without `settling`, a sample never settles. `rules` says whether the task has rules that complete an answer.
    pub fn new(settling: Option<Settling>, rules: bool) -> Self {
        Self { settling, rules, fastest: 0.0, slow: 0, shown: None }
    }

    /// Whether to check after iteration `k` (from 0).
    pub fn looks(&self, k: usize) -> bool {
        self.settling.is_some_and(|settling| (k + 1).is_multiple_of(settling.patience.max(1)))
    }

    /// Whether the answer is complete and equal to that of the previous check.
    pub fn stands(&mut self, answer: A, complete: bool) -> bool {
        let same = complete && self.shown.as_ref() == Some(&answer);
        self.shown = complete.then_some(answer);
        same
    }

    /// Whether the states have been stable for long enough; called after every iteration with the old and the new z.
    pub fn quiet<T: Real>(&mut self, offsets: &[usize], z_prev: &[T], z: &[T]) -> bool {
        if self.settling.is_none() {
            return false;
        }
        self.slow_for_long(speed(offsets, z_prev, z))
    }

    /// The same with the speed of the fastest agent.
    pub fn slow_for_long(&mut self, speed: f64) -> bool {
        let Some(settling) = self.settling else { return false };
        self.fastest = self.fastest.max(speed);
        let fraction = if self.rules { settling.fraction_with_rules } else { settling.fraction };
        self.slow = if speed < fraction * self.fastest { self.slow + 1 } else { 0 };
        self.slow >= settling.patience
    }
}

/// How far the fastest agent moved.
pub fn speed<T: Real>(offsets: &[usize], z_prev: &[T], z: &[T]) -> f64 {
    let square = |k: usize| ((z[k] - z_prev[k]) * (z[k] - z_prev[k])).to_f64();
    let agents = offsets.windows(2);
    agents.map(|a| (a[0]..a[1]).map(square).sum::<f64>()).fold(0.0, f64::max).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_when_it_is_complete_and_seen_twice_in_a_row() {
        let mut settler = Settler::new(Some(Settling::default()), true);
        let looks =
            [("a", false), ("a", false), ("b", true), ("a", true), ("a", true), ("a", false), ("a", true)];
        let stands: Vec<bool> =
            looks.iter().map(|&(answer, complete)| settler.stands(answer, complete)).collect();
        assert_eq!(stands, [false, false, false, false, true, false, false]);
    }

    #[test]
    fn looks_come_every_patience_iterations_and_never_without_settling() {
        let settler = Settler::<u8>::new(Some(Settling::at(0.01, 5)), false);
        assert_eq!((0..20).filter(|&k| settler.looks(k)).collect::<Vec<_>>(), [4, 9, 14, 19]);
        assert!((0..20).all(|k| !Settler::<u8>::new(None, false).looks(k)));
    }

    #[test]
    fn the_fastest_agent_decides_whether_all_is_quiet() {
        let mut settler = Settler::<u8>::new(Some(Settling::at(0.1, 2)), false);
        let offsets = [0, 1, 2];
        let moves = [[1.0, 0.0], [0.05, 0.0], [0.05, 0.5], [0.05, 0.01], [0.0, 0.09], [0.0, 0.0]];
        let quiet: Vec<bool> = moves.iter().map(|z| settler.quiet(&offsets, &[0.0, 0.0], z)).collect();
        assert_eq!(quiet, [false, false, false, false, true, true]);
    }
    #[test]
    fn where_answers_can_be_checked_states_must_be_slower() {
        let moves = [1.0, 0.005, 0.005, 0.0005, 0.0005];
        let quiet = |rules: bool| -> Vec<bool> {
            let settling = Settling { fraction: 0.01, fraction_with_rules: 0.001, patience: 2 };
            let mut settler = Settler::<u8>::new(Some(settling), rules);
            moves.iter().map(|&speed| settler.slow_for_long(speed)).collect()
        };
        assert_eq!(quiet(false), [false, false, true, true, true]);
        assert_eq!(quiet(true), [false, false, false, false, true]);
    }
}
