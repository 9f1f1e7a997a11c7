//! How many iterations run, and how far back gradients go.

use serde::{Deserialize, Serialize};
use sheaf_admm::admm::Adjoint;
use sheaf_admm::{Error, ErrorKind, Real, Result};

use super::section::{Choices, ConsensusKind, CoordinationKind};
use crate::config::word;
use crate::limits::{MAX_ITERATIONS, MAX_WIDTH, at_most, is_positive_f32};
use crate::rng::Stream;

/// The number of iterations, the number of final iterates that enter the loss, and how far back gradients go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Horizon {
    /// Iterations K.
    pub iterations: usize,
    /// Loss window W; clamped to K.
    pub window: usize,
    /// Gradients go back through this many of the last iterations; 0 for all. At least the window.
    pub gradient: usize,
    /// Differentiate the fixed point instead of the iterations.
    pub implicit: bool,
    /// Number of the training step, from 1: agents out of step draw other numbers in every step. 0 outside of training.
    pub draw: u64,
    /// What disturbs the states before the iterations that gradients go back through.
    pub disturbance: Disturbance,
}

/// A disturbance of the states of a training step, so that agents learn to return to the answer: the first iteration that
/// gradients go back through starts from states that no undisturbed solve would have reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// Share of the samples whose agents take over the states of other agents, all from the same distance.
    pub shift: f64,
    /// The largest share of the agents of a sample that start over: connected agents, whose share is drawn from 0 to this.
    pub restart: f64,
    /// Standard deviation of normal noise on z and u of all agents; every sample draws its own from 0 to this.
    pub noise: f64,
    /// Seed of the run.
    pub seed: u64,
}

impl Disturbance {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.shift == 0.0 && self.restart == 0.0 && self.noise == 0.0
    }
}

/// Relative size at which the series of the implicit adjoint ends, and its maximum number of terms.
const IMPLICIT: (f64, usize) = (1e-5, 500);

impl Horizon {
    /// Gradients go back through every iteration.
    pub fn whole(iterations: usize, window: usize) -> Self {
        let disturbance = Disturbance::default();
        Self { iterations, window, gradient: 0, implicit: false, draw: 0, disturbance }
    }

    /// The window, clamped.
    pub fn window(&self) -> usize {
        self.window.clamp(1, self.iterations.max(1))
    }

    /// Iterations that gradients go back through.
    pub fn taped(&self) -> usize {
        if self.gradient == 0 { self.iterations } else { self.gradient.clamp(self.window(), self.iterations) }
    }

    /// The iteration, from 0, whose states are disturbed before it starts: the first that gradients go back through, if
    /// there are others before it.
    pub fn disturbed_at(&self) -> Option<usize> {
        let at = self.iterations - self.taped();
        (at > 0 && !self.disturbance.is_none()).then_some(at)
    }

    /// How the solver differentiates.
    pub fn adjoint<T: Real>(&self) -> Adjoint<T> {
        if self.implicit {
            Adjoint::Implicit { tolerance: T::from_f64(IMPLICIT.0), max_terms: IMPLICIT.1 }
        } else if self.taped() == self.iterations {
            Adjoint::Unrolled
        } else {
            Adjoint::LastSteps(self.taped())
        }
    }
}

/// The `[iterations]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Iterations {
    /// Fewest iterations of a training step (`train_min` means the same).
    pub train: usize,
    /// Most iterations of a training step; every step draws its count between `train` and this. 0 means `train`.
    pub train_max: usize,
    /// Iterations at evaluation.
    pub eval: usize,
    /// Gradients flow through this many of the last iterations; 0 for all.
    pub gradient: usize,
    /// `unrolled` (through the iterations as they ran) or `implicit` (at the fixed point).
    pub adjoint: String,
    /// At evaluation, stop a sample when its residuals fall below this relative tolerance; 0 runs all iterations.
    pub tolerance: f64,
    /// Rounds of solving at evaluation, for tasks that commit to answers and start over; 1 for one solve.
    pub rounds: usize,
    /// Share of the training steps that are early ones: few iterations, drawn from `train` to `early_max`, and gradients
    /// through all of them, whatever `train_max` and `gradient` say of the others. Loss early and late at once.
    pub early_share: f64,
    /// Most iterations of an early step; 0 means `train`.
    pub early_max: usize,
    /// Share of the samples whose agents take over the states of other agents where gradients begin; 0 for none. Needs
    /// `gradient`.
    pub shift: f64,
    /// Largest share of the agents that start over where gradients begin; 0 for none. Needs `gradient`.
    pub restart: f64,
    /// Largest standard deviation of normal noise on the states there; 0 for none. Needs `gradient`.
    pub noise: f64,
    /// Fewest and most CG steps of a consensus step in training; every training step draws its count between them, and
    /// evaluation has `model.cg_steps`. What is learned then does not hang on how far a consensus step gets. 0 and 0
    /// for `model.cg_steps` everywhere.
    pub cg_steps_min: usize,
    /// See `cg_steps_min`.
    pub cg_steps_max: usize,
    /// Iterations of the first training step, when `ramp_steps` is not 0.
    pub ramp_from: usize,
    /// Training steps over which the iterations rise from `ramp_from` to `train`.
    pub ramp_steps: u64,
}

impl Default for Iterations {
    fn default() -> Self {
        Self {
            train: 20,
            train_max: 0,
            eval: 100,
            gradient: 0,
            adjoint: "unrolled".into(),
            tolerance: 0.0,
            rounds: 1,
            early_share: 0.0,
            early_max: 0,
            shift: 0.0,
            restart: 0.0,
            noise: 0.0,
            cg_steps_min: 0,
            cg_steps_max: 0,
            ramp_from: 4,
            ramp_steps: 0,
        }
    }
}

impl Iterations {
    /// Rejects invalid values, given a loss window of `window` iterates. Only a model without coordination may have no
    /// iterations.
    pub fn check(&self, window: usize, coordination: CoordinationKind) -> Result<()> {
        let wrong = |key: &str, expected: &str, got: &dyn std::fmt::Display| {
            Err(Error::new(ErrorKind::Malformed, format!("iterations.{key}"), expected, got))
        };
        for (key, value) in [("train", self.train), ("eval", self.eval)] {
            if value == 0 && coordination != CoordinationKind::None {
                return wrong(key, "at least 1", &value)
                    .map_err(|e| e.hint("model.coordination = \"none\" is the model without iterations"));
            }
            at_most(&format!("iterations.{key}"), "of them", MAX_ITERATIONS, value)?;
        }
        for (key, value) in [("rounds", self.rounds), ("ramp_from", self.ramp_from)] {
            if value == 0 {
                return wrong(key, "at least 1", &value);
            }
            at_most(&format!("iterations.{key}"), "of them", MAX_ITERATIONS, value)?;
        }
        at_most("iterations.train_max", "of them", MAX_ITERATIONS, self.train_max)?;
        if self.train_max != 0 && self.train_max < self.train {
            return wrong("train_max", "0, or not less than iterations.train", &self.train_max);
        }
        at_most("iterations.early_max", "of them", MAX_ITERATIONS, self.early_max)?;
        if self.early_max != 0 && self.early_max < self.train {
            return wrong("early_max", "0, or not less than iterations.train", &self.early_max);
        }
        if !(0.0..=1.0).contains(&self.early_share) {
            return wrong("early_share", "a number from 0 to 1", &self.early_share);
        }
        if self.early_share == 0.0 && self.early_max != 0 {
            return wrong("early_max", "0 where iterations.early_share is 0", &self.early_max);
        }
        if self.gradient != 0 && self.gradient < window {
            return wrong("gradient", "0, or not less than train.loss_window", &self.gradient);
        }
        if !(self.tolerance == 0.0 || is_positive_f32(self.tolerance)) {
            return wrong("tolerance", "a finite number above 0 that f32 can hold, or 0", &self.tolerance);
        }
        for (key, share) in [("shift", self.shift), ("restart", self.restart)] {
            if !(0.0..=1.0).contains(&share) {
                return wrong(key, "a number from 0 to 1", &share);
            }
        }
        if !(self.noise == 0.0 || is_positive_f32(self.noise)) {
            return wrong("noise", "a finite number above 0 that f32 can hold, or 0", &self.noise);
        }
        let disturbed = self.disturbances().into_iter().find(|&(_, v)| v > 0.0);
        if let Some((key, value)) = disturbed.filter(|_| self.gradient == 0) {
            return wrong(key, "0 where gradients go back through all iterations", &value)
                .map_err(|e| e.hint("iterations.gradient says through how many of the last ones they go"));
        }
        if coordination != CoordinationKind::Admm {
            self.check_without_admm()?;
        }
        if self.implicit()? && self.gradient != 0 {
            return wrong("gradient", "0 with the implicit adjoint", &self.gradient);
        }
        Ok(())
    }

    /// Rejects a range of CG steps that is empty or that nothing reads.
    pub fn check_cg_steps(&self, choices: &Choices) -> Result<()> {
        let (min, max) = (self.cg_steps_min, self.cg_steps_max);
        if (min, max) == (0, 0) {
            return Ok(());
        }
        use ConsensusKind::{Cg, CgCarried, CgWarm, Gram};
        if !choices.admm() || !matches!(choices.consensus, Cg | CgCarried | CgWarm | Gram) {
            let expected = "0 where consensus is not solved by CG steps";
            return Err(Error::new(ErrorKind::Unsupported, "iterations.cg_steps_max", expected, max)
                .hint("leave out iterations.cg_steps_min and iterations.cg_steps_max"));
        }
        if min == 0 || max < min {
            let got = format!("cg_steps_min = {min} and cg_steps_max = {max}");
            let expected = "at least 1, and not less than iterations.cg_steps_min, which is at least 1";
            return Err(Error::new(ErrorKind::Malformed, "iterations.cg_steps_max", expected, got)
                .hint("both keys go together: fewest and most steps"));
        }
        at_most("iterations.cg_steps_max", "of them", MAX_WIDTH, max)
    }

    /// CG steps of a training step of a run with this seed, where they are drawn.
    pub fn cg_steps(&self, seed: u64, step: u64) -> Option<usize> {
        let more = self.cg_steps_max.saturating_sub(self.cg_steps_min);
        let draw = || self.cg_steps_min + Stream::new(seed, "CG steps of a step", step, 0).below(more + 1);
        (self.cg_steps_max > 0).then(draw)
    }

    /// The keys that disturb states, and their values.
    fn disturbances(&self) -> [(&'static str, f64); 3] {
        [("shift", self.shift), ("restart", self.restart), ("noise", self.noise)]
    }

    /// Rejects what only ADMM has: residuals and a fixed point.
    fn check_without_admm(&self) -> Result<()> {
        let refused = |key: &str, expected: &str, got: &dyn std::fmt::Display| {
            Err(Error::new(ErrorKind::Unsupported, format!("iterations.{key}"), expected, got)
                .hint("model.coordination = \"admm\" has residuals and a fixed point"))
        };
        if self.tolerance > 0.0 {
            return refused("tolerance", "0 without residuals", &self.tolerance);
        }
        for (key, value) in self.disturbances() {
            if value > 0.0 {
                return refused(key, "0 without z and u", &value);
            }
        }
        if self.implicit()? {
            return refused("adjoint", "\"unrolled\" without a fixed point", &self.adjoint);
        }
        Ok(())
    }

    fn implicit(&self) -> Result<bool> {
        word("iterations.adjoint", &self.adjoint, &[("unrolled", false), ("implicit", true)])
    }

    /// The horizon of a training step of a run with this seed: equal for every sample of the batch.
    pub fn horizon(&self, seed: u64, step: u64, window: usize) -> Horizon {
        let (implicit, draw) = (self.adjoint == "implicit", step.wrapping_add(1));
        if self.is_early(seed, step) {
            let more = self.early_max.saturating_sub(self.train);
            let iterations = self.train + Stream::new(seed, "iterations of a step", step, 0).below(more + 1);
            return Horizon { implicit, draw, ..Horizon::whole(iterations, window) };
        }
        let disturbance = Disturbance { shift: self.shift, restart: self.restart, noise: self.noise, seed };
        let (iterations, gradient) = (self.at(seed, step), self.gradient);
        Horizon { iterations, window, gradient, implicit, draw, disturbance }
    }

    /// Whether a step is an early one. Without early steps nothing is drawn.
    fn is_early(&self, seed: u64, step: u64) -> bool {
        const PARTS: usize = 1 << 20;
        let drawn = || Stream::new(seed, "early step", step, 0).below(PARTS) as f64 / PARTS as f64;
        step >= self.ramp_steps && self.early_share > 0.0 && drawn() < self.early_share
    }

    fn at(&self, seed: u64, step: u64) -> usize {
        if step >= self.ramp_steps {
            let more = self.train_max.saturating_sub(self.train);
            return self.train + Stream::new(seed, "iterations of a step", step, 0).below(more + 1);
        }
        let (from, to) = (self.ramp_from as f64, self.train as f64);
        (from + (to - from) * (step as f64 / self.ramp_steps as f64)).round() as usize
    }
}
