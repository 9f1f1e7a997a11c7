//! How a solve ended, as data. A status is a statement about the residuals of the problem itself.

use std::fmt;

use super::{ResidualKind, Residuals};
use crate::Real;
use crate::z_update::InnerTotals;

/// How a solve ended.
///
/// | status | what is known |
/// | --- | --- |
/// | `Finished`, `Settled` | nothing about the solution: no check of the problem was asked for |
/// | `Solved` | every residual of the problem is below its goal |
/// | `Inexact` | x, z and u no longer move, but another residual stays above its goal |
/// | `PrimalInfeasible`, `Unbounded` | a certificate was found and checked against the problem |
/// | `Suspected…` | the iterates behave as if it were so, without a certificate |
/// | the others | the solve ended early |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// The fixed number of iterations ran.
    Finished,
    /// The iterates met the tolerances of a solve that compares iterates only ([`Scope::Iterates`](super::Scope)).
    Settled,
    /// All residuals fell below their goals.
    Solved,
    /// The iterates settled, but this residual, the one farthest above its goal, did not follow: the consensus solver
    /// is not accurate enough. [`Residuals::ratio`] says how far it is.
    Inexact(ResidualKind),
    /// The iteration limit was reached first.
    IterationLimit,
    /// The time limit was reached first.
    TimeLimit,
    /// No point satisfies all constraints: a separating multiplier of the edges was found.
    PrimalInfeasible,
    /// The objective falls without bound along a direction that was found.
    Unbounded,
    /// A limit was reached while the duals grew as they do for infeasible problems.
    SuspectedInfeasible,
    /// A limit was reached while the iterates grew as they do for unbounded problems.
    SuspectedUnbounded,
    /// The observer stopped the solve.
    Stopped,
    /// An iterate was not finite. The iterates of such a sample have no meaning.
    NumericalFailure,
}

impl Status {
    /// From the least to the most serious, to summarise a batch.
    fn severity(self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::Settled => 1,
            Self::Solved => 2,
            Self::Stopped => 3,
            Self::Inexact(_) => 4,
            Self::IterationLimit => 5,
            Self::TimeLimit => 6,
            Self::SuspectedUnbounded => 7,
            Self::SuspectedInfeasible => 8,
            Self::Unbounded => 9,
            Self::PrimalInfeasible => 10,
            Self::NumericalFailure => 11,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finished => "finished",
            Self::Settled => "settled",
            Self::Solved => "solved",
            Self::Inexact(_) => "inexact",
            Self::IterationLimit => "iteration limit",
            Self::TimeLimit => "time limit",
            Self::PrimalInfeasible => "infeasible",
            Self::Unbounded => "unbounded",
            Self::SuspectedInfeasible => "suspected infeasible",
            Self::SuspectedUnbounded => "suspected unbounded",
            Self::Stopped => "stopped",
            Self::NumericalFailure => "numerical failure",
        })
    }
}

/// How the solve of one sample ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleReport<T> {
    /// Why it ended.
    pub status: Status,
    /// Iterations that ran.
    pub iterations: usize,
    /// The last residuals; `None` without an iteration, or if the last iteration computed only x.
    pub residuals: Option<Residuals<T>>,
}

/// How a solve ended; for a batch, the worst over its samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveReport<T> {
    /// Why it ended: for a batch, the most serious status of any sample.
    pub status: Status,
    /// Iterations that ran, of the sample that ran longest.
    pub iterations: usize,
    /// The last residuals, each the largest of all samples; `None` if the last iteration computed only x.
    pub residuals: Option<Residuals<T>>,
    /// The final factor of the penalty (1 without balancing).
    pub rho_factor: T,
    /// How the inner solves ended.
    pub inner: InnerTotals,
}

impl<T: Real> SolveReport<T> {
    /// The report of a batch from those of its samples.
    pub(super) fn of(samples: &[SampleReport<T>], rho_factor: T, inner: InnerTotals) -> Self {
        let worst = samples.iter().map(|s| s.status).max_by_key(|s| s.severity());
        let status = worst.unwrap_or(Status::Finished);
        let iterations = samples.iter().map(|s| s.iterations).max().unwrap_or(0);
        let residuals = samples.iter().filter_map(|s| s.residuals).reduce(Residuals::worse);
        Self { status, iterations, residuals, rho_factor, inner }
    }
}

/// One line: the status, the iterations and the residuals with their goals.
impl<T: Real> fmt::Display for SolveReport<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {} iterations", self.status, self.iterations)?;
        let Some(residuals) = self.residuals else { return Ok(()) };
        for kind in ResidualKind::ALL {
            if let Some((value, goal)) = residuals.get(kind) {
                write!(f, ", {kind} {value:.1e}")?;
                if goal > T::ZERO {
                    write!(f, " (goal {goal:.1e})")?;
                }
            }
        }
        if residuals.inner_met { Ok(()) } else { write!(f, ", inner tolerance missed") }
    }
}
