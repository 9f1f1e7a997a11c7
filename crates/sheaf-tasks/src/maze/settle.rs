//! When a maze has settled, so that iterating on would not help.
//!
//! Whichever comes first:
//!
//! * **A whole path stands.** At two looks `patience` iterations apart the decoded picture shows the same path, and it
//!   is valid: unbroken from start to goal through open pixels, nothing beside it. The label is not asked; in a perfect
//!   maze there is only one such path. Agents that go on past this point cannot improve the answer, and some weights
//!   let the path fade again.
//! * **All is quiet.** For `patience` iterations in a row, every agent's agreed state z moved less than `fraction` of
//!   the fastest any agent has moved so far (an agent's speed is ‖z − z_prev‖, its dual residual over ρ). This is free
//!   of units and needs nothing but the residuals. The fastest agent counts and not all together, because in a large
//!   maze a path that still grows moves few agents at a time.
//!
//! Looking means decoding, which costs more than an iteration: so it happens every `patience` iterations only.

use sheaf_admm::Real;
use sheaf_admm::admm::Iteration;

use super::PATH;
use super::metrics::Judge;

/// The numbers of the module's introduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settling {
    /// How slow, relative to the fastest.
    pub fraction: f64,
    /// For how many iterations in a row.
    pub patience: usize,
}

impl Default for Settling {
    fn default() -> Self {
        Self { fraction: 0.01, patience: 5 }
    }
}

/// Watches a solve; holds the memory for it.
#[derive(Debug, Default)]
pub(super) struct Settler {
    settling: Option<Settling>,
    fastest: f64,
    slow: usize,
    path: Vec<u8>, // [height, width], what the last look showed; empty if it was no whole path
    judge: Judge,
}

impl Settler {
    /// Starts anew; without `settling` it never calls anything settled.
    pub(super) fn reset(&mut self, settling: Option<Settling>) {
        (self.settling, self.fastest, self.slow) = (settling, 0.0, 0);
        self.path.clear();
    }

    /// Whether to look after iteration `k` (from 0).
    pub(super) fn looks(&self, k: usize) -> bool {
        self.settling.is_some_and(|settling| (k + 1).is_multiple_of(settling.patience.max(1)))
    }

    /// Whether what a look shows is the whole path that the look before has shown.
    pub(super) fn stands(&mut self, input: &[u8], predicted: &[u8], width: usize) -> bool {
        if !self.judge.valid(input, predicted, width) {
            self.path.clear();
            return false;
        }
        let same = self.path.len() == predicted.len()
            && self.path.iter().zip(predicted).all(|(&a, &b)| (a == PATH) == (b == PATH));
        self.path.clear();
        self.path.extend_from_slice(predicted);
        same
    }

    /// Whether all has been quiet for long enough; called after every iteration.
    pub(super) fn quiet<T: Real>(&mut self, seen: &Iteration<'_, '_, T>) -> bool {
        let Some(settling) = self.settling else { return false };
        let agents = seen.op.sheaf().state_offsets().windows(2);
        let square = |k: usize| ((seen.z[k] - seen.z_prev[k]) * (seen.z[k] - seen.z_prev[k])).to_f64();
        let speed = agents.map(|a| (a[0]..a[1]).map(square).sum::<f64>()).fold(0.0, f64::max).sqrt();
        self.fastest = self.fastest.max(speed);
        self.slow = if speed < settling.fraction * self.fastest { self.slow + 1 } else { 0 };
        self.slow >= settling.patience
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EMPTY, GOAL, START, WALL};
    use super::*;

    #[test]
    fn a_path_stands_when_it_is_whole_and_seen_twice_in_a_row() {
        // S . . G above a blind alley
        let input = [START, EMPTY, EMPTY, GOAL, WALL, EMPTY, WALL, WALL];
        let whole = [START, PATH, PATH, GOAL, WALL, EMPTY, WALL, WALL];
        let recoloured = [EMPTY, PATH, PATH, WALL, WALL, WALL, WALL, WALL];
        let broken = [START, PATH, EMPTY, GOAL, WALL, EMPTY, WALL, WALL];
        let more = [START, PATH, PATH, GOAL, WALL, PATH, WALL, WALL];
        let mut settler = Settler::default();
        settler.reset(Some(Settling::default()));
        let mut looks = |shown: &[[u8; 8]]| -> Vec<bool> {
            shown.iter().map(|predicted| settler.stands(&input, predicted, 4)).collect()
        };
        assert_eq!(looks(&[broken, broken, more, more]), [false; 4]);
        assert_eq!(looks(&[whole, broken, whole, recoloured]), [false, false, false, true]);
    }

    #[test]
    fn looks_come_every_patience_iterations_and_never_without_settling() {
        let mut settler = Settler::default();
        settler.reset(Some(Settling { fraction: 0.01, patience: 5 }));
        assert_eq!((0..20).filter(|&k| settler.looks(k)).collect::<Vec<_>>(), [4, 9, 14, 19]);
        settler.reset(None);
        assert!((0..20).all(|k| !settler.looks(k)));
    }
}
