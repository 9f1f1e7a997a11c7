//! Weights and bounds that are one number for all coordinates or one per coordinate, and the checks they share.

use super::agents::Agents;
use crate::error::check_len;
use crate::{Error, ErrorKind, Real, Result};

/// One number for all coordinates, or one per coordinate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coefficient<'a, T> {
    /// The same number everywhere.
    Scalar(T),
    /// Its own number for every coordinate of every agent.
    PerCoordinate(&'a [T]), // [Σ d_i]
}

impl<T: Real> Coefficient<'_, T> {
    #[inline]
    pub(super) fn at(&self, i: usize) -> T {
        match self {
            Self::Scalar(c) => *c,
            Self::PerCoordinate(c) => c[i],
        }
    }

    pub(super) fn check_len(&self, place: &str, width: usize) -> Result<()> {
        match self {
            Self::Scalar(_) => Ok(()),
            Self::PerCoordinate(c) => check_len(place, width, c.len()),
        }
    }

    pub(super) fn grad_len(&self, width: usize) -> usize {
        match self {
            Self::Scalar(_) => 1,
            Self::PerCoordinate(_) => width,
        }
    }
}

/// Checks that every weight is finite and at least 0.
pub(super) fn check_weights<T: Real>(
    name: &str,
    agents: Agents<'_>,
    weight: Coefficient<'_, T>,
) -> Result<()> {
    for i in 0..agents.width() {
        let w = weight.at(i);
        if !w.is_finite() || w < T::ZERO {
            let kind = if w.is_finite() { ErrorKind::NotPositive } else { ErrorKind::NotFinite };
            let place = format!("{name}[{i}] (agent {})", agents.owner(i));
            return Err(Error::new(kind, place, "a finite weight, at least 0", w));
        }
    }
    Ok(())
}

/// Checks the order of a box: lo ≤ hi, neither NaN, lo < +∞, hi > −∞.
pub(super) fn check_box<T: Real>(
    family: &str,
    agents: Agents<'_>,
    lo: Option<Coefficient<'_, T>>,
    hi: Option<Coefficient<'_, T>>,
) -> Result<()> {
    for i in 0..agents.width() {
        let (lo, hi) = (lo.map_or(-T::INFINITY, |b| b.at(i)), hi.map_or(T::INFINITY, |b| b.at(i)));
        let agent = agents.owner(i);
        if lo.partial_cmp(&hi).is_none() || lo == T::INFINITY || hi == -T::INFINITY {
            let place = format!("{family}: box of coordinate {i} (agent {agent})");
            let expected = "bounds that are numbers, lo below +inf, hi above -inf";
            return Err(Error::new(ErrorKind::NotFinite, place, expected, format_args!("[{lo}, {hi}]")));
        }
        if lo > hi {
            let place = format!("{family}: box of coordinate {i} (agent {agent})");
            return Err(Error::new(ErrorKind::Infeasible, place, "lo ≤ hi", format_args!("[{lo}, {hi}]")));
        }
    }
    Ok(())
}
