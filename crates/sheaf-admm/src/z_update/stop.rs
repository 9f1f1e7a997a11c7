//! When an inner solve stops.

use crate::{Error, ErrorKind, Real, Result};

/// When an inner solve stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop<T> {
    /// After exactly this many steps, as published; the adjoint runs back through them.
    Steps(usize),
    /// When the residual has fallen to max(absolute, relative · its reference), or after `max_steps`. The adjoint is that
    /// of the solution, from one more solve with the same operator; the published hard start of
    /// [`CgStart`](super::CgStart), which moves the solution, is differentiated step by step.
    Tolerance {
        /// Absolute part.
        absolute: T,
        /// Relative part; each solver documents its reference.
        relative: T,
        /// Upper limit of steps.
        max_steps: usize,
    },
}

impl<T: Real> Stop<T> {
    /// The most steps that can run.
    pub fn max_steps(&self) -> usize {
        match self {
            Self::Steps(n) => *n,
            Self::Tolerance { max_steps, .. } => *max_steps,
        }
    }

    /// The residual to reach, given the reference of its relative part; `None` for a fixed number of steps.
    pub fn goal(&self, reference: T) -> Option<T> {
        match self {
            Self::Steps(_) => None,
            Self::Tolerance { absolute, relative, .. } => Some(absolute.max(*relative * reference)),
        }
    }

    /// Checks that a tolerance is finite, not negative, and above 0 in one of its parts.
    pub fn validate(&self, place: &str) -> Result<()> {
        let Self::Tolerance { absolute, relative, .. } = *self else { return Ok(()) };
        let fine = |t: T| t.is_finite() && t >= T::ZERO;
        if fine(absolute) && fine(relative) && absolute + relative > T::ZERO {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NotPositive,
            format!("{place} tolerance"),
            "finite parts, 0 or above, at least one above 0",
            format_args!("absolute {absolute}, relative {relative}"),
        ))
    }
}
