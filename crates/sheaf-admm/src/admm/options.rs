//! Where a solve starts and how long it runs.

use std::time::Duration;

use super::{Balancing, Problem, Tolerances, Workspace};
use crate::error::{check_finite, check_positive};
use crate::z_update::{Draw, ZUpdate};
use crate::{Error, ErrorKind, Real, Result};

/// Where a solve starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start<'a, T> {
    /// z = 0, u = 0.
    Zeros,
    /// z = h, an encoder's first guess; u = 0.
    At(&'a [T]), // [samples, states]
    /// z and the scaled duals u of an earlier solve, for the penalty ρ of this problem: where the earlier solve ended with
    /// another penalty ρ', u' must be multiplied by ρ'/ρ, or ρ' be given.
    Warm {
        /// The agreed state.
        z: &'a [T], // [samples, states]
        /// The scaled duals.
        u: &'a [T], // [samples, states]
    },
}

/// What the tolerances of a solve apply to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// All residuals of the problem: a solve that ends by itself is [`Solved`](super::Status::Solved), or says why not.
    #[default]
    Problem,
    /// Only ‖x − z‖ and ρ‖Δz‖, for consensus solvers that are inexact on purpose, as in learned models: the solve ends
    /// when its iterates have [`Settled`](super::Status::Settled).
    Iterates,
}

/// How long to iterate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options<T> {
    /// The number of iterations, or the limit when `tolerances` are given.
    pub iterations: usize,
    /// Stop a sample early when its residuals are below these.
    pub tolerances: Option<Tolerances<T>>,
    /// Which residuals the tolerances apply to.
    pub scope: Scope,
    /// Stop after this much time. It is looked at between iterations, after the first.
    pub time_limit: Option<Duration>,
    /// Adapt the penalty during the solve; for a single sample.
    pub balancing: Option<Balancing<T>>,
    /// Only x is read afterwards: the z- and u-update of the last iteration, which change no x, are skipped, and the
    /// report has no residuals. For a fixed number of iterations.
    pub x_only: bool,
    /// Record only this many of the last iterations; all of them if `None`.
    pub taped: Option<usize>,
    /// Which random numbers agents out of step draw ([`Asynchronous`](crate::z_update::Asynchronous)); others draw none.
    pub draw: Draw,
}

impl<T> Options<T> {
    /// Exactly `iterations` iterations.
    pub const fn fixed(iterations: usize) -> Self {
        Self {
            iterations,
            tolerances: None,
            scope: Scope::Problem,
            time_limit: None,
            balancing: None,
            x_only: false,
            taped: None,
            draw: Draw::FIRST,
        }
    }

    /// Until all residuals are below the tolerances, at most `iterations` times.
    pub fn until(absolute: T, relative: T, iterations: usize) -> Self {
        Self { tolerances: Some(Tolerances { absolute, relative }), ..Self::fixed(iterations) }
    }

    /// Skips the updates that change no x.
    pub fn x_only(self) -> Self {
        Self { x_only: true, ..self }
    }

    /// Records only the last `count` iterations.
    pub fn taping(self, count: usize) -> Self {
        Self { taped: Some(count), ..self }
    }

    /// Stops after this much time.
    pub fn within(self, limit: Duration) -> Self {
        Self { time_limit: Some(limit), ..self }
    }

    /// Draws other random numbers.
    pub fn drawing(self, draw: Draw) -> Self {
        Self { draw, ..self }
    }

    /// Compares iterates only, see [`Scope::Iterates`].
    pub fn iterates_only(self) -> Self {
        Self { scope: Scope::Iterates, ..self }
    }

    /// The tolerances, if all residuals of the problem are checked against them.
    pub(super) fn goals(&self) -> Option<Tolerances<T>>
    where
        T: Copy,
    {
        self.tolerances.filter(|_| self.scope == Scope::Problem)
    }

    /// Iterations before the first recorded one.
    pub(super) fn skip(&self) -> usize {
        self.taped.map_or(0, |taped| self.iterations.saturating_sub(taped))
    }
}

impl<T: Real> Problem<'_, T> {
    pub(super) fn check_options(
        &self,
        start: Start<'_, T>,
        options: &Options<T>,
        ws: &Workspace<T>,
    ) -> Result<()> {
        if let Start::At(h) = start {
            self.op.check_state("start", h)?;
            check_finite("start", h)?;
        }
        if let Start::Warm { z, u } = start {
            for (place, v) in [("start of z", z), ("start of u", u)] {
                self.op.check_state(place, v)?;
                check_finite(place, v)?;
            }
        }
        if let ZUpdate::Asynchronous(s) = self.z_update {
            // What an agent that sleeps does not change would count as converged.
            let asked =
                [("tolerances", options.tolerances.is_some()), ("balancing", options.balancing.is_some())];
            if let Some((place, _)) = asked.into_iter().find(|&(_, asked)| asked && !s.lag.is_in_step()) {
                let expected = "a fixed number of iterations for agents out of step";
                return Err(Error::new(ErrorKind::Unsupported, place, expected, s.lag).hint(
                    "residuals are sums over all agents at one time, which agents out of step do not have",
                ));
            }
        }
        if let Some(t) = options.tolerances {
            for (place, value) in [("absolute tolerance", t.absolute), ("relative tolerance", t.relative)] {
                if !(value >= T::ZERO && value.is_finite()) {
                    let expected = "a finite number, 0 or above";
                    return Err(Error::new(ErrorKind::NotPositive, place, expected, value));
                }
            }
            check_positive("tolerance", t.absolute.max(t.relative).to_f64())?;
            if options.x_only {
                let expected = "a fixed number of iterations";
                return Err(Error::new(ErrorKind::Unsupported, "x_only", expected, "tolerances")
                    .hint("a solve to tolerances needs the last z; leave x_only away"));
            }
        }
        if let Some(balancing) = options.balancing {
            balancing.validate()?;
            if self.op.samples() > 1 {
                let got = format!("a batch of {}", self.op.samples());
                return Err(Error::new(ErrorKind::Unsupported, "balancing", "a single sample", got)
                    .hint("one penalty serves all samples of a batch; solve them one by one to balance it"));
            }
        }
        if options.taped == Some(0) && options.iterations > 0 {
            let place = "iterations to record";
            return Err(Error::new(ErrorKind::OutOfRange, place, "at least 1", 0)
                .hint("use a workspace made for Mode::Solve to record nothing"));
        }
        self.check_shared(options)?;
        self.rho.validate(self.op.sheaf().agents())?;
        self.z_update.validate(&self.op)?;
        self.z_update.validate_penalty(&self.rho)?;
        ws.check_solve(self, options.iterations - options.skip())
    }
}
