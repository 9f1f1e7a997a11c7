//! How a solve ended, as data.

use super::Residuals;
use crate::Real;
use crate::z_update::InnerTotals;

/// How a solve ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The fixed number of iterations ran.
    Finished,
    /// Both residuals fell below their tolerances.
    Converged,
    /// The iteration limit was reached before the tolerances.
    IterationLimit,
    /// The observer stopped the solve.
    Stopped,
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
    /// Why it ended: [`Status::IterationLimit`] if any sample reached it, else [`Status::Stopped`] if any was stopped.
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
        let any = |status: Status| samples.iter().any(|s| s.status == status);
        let worst =
            [Status::IterationLimit, Status::Stopped, Status::Converged].into_iter().find(|&s| any(s));
        let status = worst.unwrap_or(Status::Finished);
        let iterations = samples.iter().map(|s| s.iterations).max().unwrap_or(0);
        let residuals = samples.iter().filter_map(|s| s.residuals).reduce(|a, b| Residuals {
            primal: a.primal.max(b.primal),
            dual: a.dual.max(b.dual),
            primal_goal: a.primal_goal.max(b.primal_goal),
            dual_goal: a.dual_goal.max(b.dual_goal),
        });
        Self { status, iterations, residuals, rho_factor, inner }
    }
}
