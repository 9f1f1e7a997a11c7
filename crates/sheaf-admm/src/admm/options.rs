//! Where a solve starts and how long it runs.

use super::{Balancing, Problem, Tolerances, Workspace};
use crate::error::{check_finite, check_positive};
use crate::{Error, ErrorKind, Real, Result};

/// Where a solve starts; the duals always start at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start<'a, T> {
    /// z = 0.
    Zeros,
    /// z = h, an encoder's first guess.
    At(&'a [T]), // [samples, states]
}

/// How long to iterate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options<T> {
    /// The number of iterations, or the limit when `tolerances` are given.
    pub iterations: usize,
    /// Stop a sample early when both its residuals are below these.
    pub tolerances: Option<Tolerances<T>>,
    /// Adapt the penalty during the solve; for a single sample.
    pub balancing: Option<Balancing<T>>,
    /// Only x is read afterwards: the z- and u-update of the last iteration, which change no x, are skipped, and the
    /// report has no residuals. For a fixed number of iterations.
    pub x_only: bool,
    /// Record only this many of the last iterations; all of them if `None`.
    pub taped: Option<usize>,
}

impl<T> Options<T> {
    /// Exactly `iterations` iterations.
    pub const fn fixed(iterations: usize) -> Self {
        Self { iterations, tolerances: None, balancing: None, x_only: false, taped: None }
    }

    /// Until both residuals are below the tolerances, at most `iterations` times.
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
        self.rho.validate(self.op.sheaf().agents())?;
        self.z_update.validate(&self.op)?;
        self.z_update.validate_penalty(&self.rho)?;
        ws.check_solve(self, options.iterations - options.skip())
    }
}
