//! ADMM on a sheaf: each agent solves (x), neighbours agree (z), disagreement is remembered (u).
//!
//! ```text
//! x = prox_f(z − u)                      x̃ = α x + (1 − α) z
//! z' = consensus(x̃ + u, z)               u' = u + x̃ − z'
//! ```
//!
//! | letter | is | shape |
//! | --- | --- | --- |
//! | x | local proposals | `[states]` |
//! | z | the agreed state | `[states]` |
//! | u | scaled duals, the memory of disagreement | `[states]` |
//! | w | x̃ + u, what the consensus step aims at | `[states]` |
//!
//! [`Problem`] says what to solve, [`Options`] how long, [`Workspace`] holds all memory; [`Problem::solve`] runs and
//! [`Problem::reverse`] differentiates what ran.

mod adapt;
mod residuals;
mod reverse;
mod solve;
mod step;
mod trace;
mod workspace;

pub use adapt::Balancing;
pub use residuals::{Residuals, Tolerances};
pub use reverse::{Adjoint, Gradients, Seeds};
pub use solve::{Options, SolveReport, Start, Status};
pub use trace::{Iteration, Observer, Trace};
pub use workspace::{Mode, Workspace};

use crate::error::check_positive;
use crate::sheaf::SheafOp;
use crate::x_update::{Objective, Penalty};
use crate::z_update::ZUpdate;
use crate::{Error, ErrorKind, Real, Result};

/// What one sample asks of its agents.
#[derive(Clone, Debug)]
pub struct Problem<'a, T> {
    /// Who must agree with whom, and on what.
    pub op: SheafOp<'a, T>,
    /// What each agent wants.
    pub objective: Objective<'a, T>,
    /// How agreement is found.
    pub z_update: &'a ZUpdate<T>,
    /// The penalty that couples proposals and agreement.
    pub rho: Penalty<'a, T>,
    /// Over-relaxation α; 1 is plain ADMM.
    pub relax: T,
}

impl<T: Real> Problem<'_, T> {
    /// Checks everything a solve relies on. Costs one pass over the parameters; call it when they arrive.
    pub fn validate(&self) -> Result<()> {
        self.objective.validate(self.op.sheaf().state_offsets())?;
        self.op.maps().check_finite(self.op.sheaf())?;
        self.rho.validate(self.op.sheaf().agents())?;
        self.z_update.validate(&self.op)?;
        check_positive("relaxation", self.relax.to_f64())?;
        if self.relax >= T::from_f64(2.0) {
            return Err(Error::new(ErrorKind::Unsupported, "relaxation", "a number below 2", self.relax)
                .hint("1 is plain ADMM, 1.5 to 1.8 often converges faster"));
        }
        Ok(())
    }
}
