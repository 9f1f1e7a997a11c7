//! ADMM on a sheaf: each agent solves (x), neighbours agree (z), disagreement is remembered (u).
//!
//! ```text
//! x = prox_f(z − u)                      x̃ = α x + (1 − α) z
//! z' = consensus(x̃ + u, z)               u' = u + x̃ − z'
//! ```
//!
//! | letter | is | shape |
//! | --- | --- | --- |
//! | x | local proposals | `[samples, states]` |
//! | z | the agreed state | `[samples, states]` |
//! | u | scaled duals, the memory of disagreement | `[samples, states]` |
//! | w | x̃ + u, what the consensus step aims at | `[samples, states]` |
//!
//! A batch is any number of samples on the same sheaf, one after the other in every vector ([`SheafOp::batch`]); inner
//! products, residuals and stopping are per sample.
//!
//! [`Problem`] says what to solve, [`Options`] how long, [`Workspace`] holds all memory and the [`Tape`];
//! [`Problem::solve`] runs and [`Problem::reverse`] differentiates what ran.

mod adapt;
mod options;
mod report;
mod residuals;
mod reverse;
mod solve;
mod step;
mod tape;
mod trace;
mod workspace;

pub use adapt::Balancing;
pub use options::{Options, Start};
pub use report::{SampleReport, SolveReport, Status};
pub use residuals::{Residuals, Tolerances};
pub use reverse::{Adjoint, Gradients, Seeds};
pub use tape::Tape;
pub use trace::{Iteration, Observer, Trace};
pub use workspace::{Mode, Workspace};

use crate::error::check_positive;
use crate::sheaf::SheafOp;
use crate::x_update::{Objective, Penalty};
use crate::z_update::ZUpdate;
use crate::{Error, ErrorKind, Real, Result};

/// What a sample, or a batch of samples, asks of its agents.
#[derive(Clone, Debug)]
pub struct Problem<'a, T> {
    /// Who must agree with whom, and on what; it also says how many samples there are.
    pub op: SheafOp<'a, T>,
    /// What each agent of each sample wants.
    pub objective: Objective<'a, T>,
    /// How agreement is found.
    pub z_update: &'a ZUpdate<T>,
    /// The penalty that couples proposals and agreement.
    pub rho: Penalty<'a, T>,
    /// Over-relaxation α; 1 is plain ADMM.
    pub relax: T,
}

impl<'a, T: Real> Problem<'a, T> {
    /// Checks everything a solve relies on. Costs one pass over the parameters; call it when they arrive.
    pub fn validate(&self) -> Result<()> {
        let mut offsets = Vec::new();
        self.fill_offsets(&mut offsets);
        self.objective.validate(self.offsets(&offsets))?;
        self.op.maps().check_finite(self.op.sheaf())?;
        self.rho.validate(self.op.sheaf().agents())?;
        self.z_update.validate(&self.op)?;
        self.z_update.validate_penalty(&self.rho)?;
        check_positive("relaxation", self.relax.to_f64())?;
        if self.relax >= T::from_f64(2.0) {
            return Err(Error::new(ErrorKind::Unsupported, "relaxation", "a number below 2", self.relax)
                .hint("1 is plain ADMM, 1.5 to 1.8 often converges faster"));
        }
        Ok(())
    }

    /// Where the states of every agent of a batch start: the objective sees the agents of all samples in one row.
    pub(crate) fn fill_offsets(&self, offsets: &mut Vec<usize>) {
        offsets.clear();
        let (one, n) = (self.op.sheaf().state_offsets(), self.op.sheaf().state_len());
        if self.op.samples() > 1 {
            let each =
                (0..self.op.samples()).flat_map(|b| one[..one.len() - 1].iter().map(move |o| b * n + o));
            offsets.extend(each.chain([self.op.state_len()]));
        }
    }

    /// The offsets of a batch, or those of the sheaf for a single sample.
    pub(crate) fn offsets<'o>(&self, batch: &'o [usize]) -> &'o [usize]
    where
        'a: 'o,
    {
        if self.op.samples() > 1 { batch } else { self.op.sheaf().state_offsets() }
    }
}
