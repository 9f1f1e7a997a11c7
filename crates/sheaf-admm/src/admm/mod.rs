//! ADMM on a sheaf: each agent solves (x), neighbours agree (z), the duals accumulate disagreement (u).
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
//! | u | scaled duals, the accumulated disagreement | `[samples, states]` |
//! | w | x̃ + u, the target of the consensus step | `[samples, states]` |
//!
//! A batch is any number of samples on the same sheaf, one after the other in every vector ([`SheafOp::batch`]); inner
//! products, residuals and stopping are per sample.
//!
//! [`Problem`] describes the problem, [`Options`] the length of the solve; [`Workspace`] holds all memory and the
//! [`Tape`]. [`Problem::solve`] runs ADMM and [`Problem::reverse`] differentiates that run.

mod act;
mod adapt;
mod anderson;
mod asleep;
mod certify;
mod implicit;
pub mod intervene;
mod options;
mod prices;
mod report;
mod residuals;
mod reverse;
mod shared;
mod solve;
mod step;
mod tape;
mod trace;
mod verdict;
mod workspace;

pub use act::{Actor, Before, States};
pub use adapt::Balancing;
pub use options::{Options, Scope, Start};
pub use report::{SampleReport, SolveReport, Status};
pub use residuals::{ResidualKind, Residuals, Tolerances};
pub use reverse::{Adjoint, Gradients, Seeds};
pub use tape::Tape;
pub use trace::{Iteration, Observer, Trace};
pub use workspace::{Mode, Workspace};

use crate::error::check_positive;
use crate::sheaf::SheafOp;
use crate::x_update::{Objective, Penalty};
use crate::z_update::ZUpdate;
use crate::{Error, ErrorKind, Real, Result};

/// The problem of a sample, or of a batch of samples.
#[derive(Clone, Debug)]
pub struct Problem<'a, T> {
    /// The sheaf and its restriction maps; also gives the number of samples.
    pub op: SheafOp<'a, T>,
    /// The local objectives of the agents of all samples.
    pub objective: Objective<'a, T>,
    /// The consensus solver.
    pub z_update: &'a ZUpdate<T>,
    /// The penalty that couples proposals and agreement.
    pub rho: Penalty<'a, T>,
    /// Over-relaxation α; 1 is plain ADMM.
    pub relax: T,
}

impl<'a, T: Real> Problem<'a, T> {
    /// Checks everything that a solve relies on. Costs one pass over the parameters; call it once when they are set.
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

    /// Where the states of every agent of a batch start: the objective treats the agents of all samples as one list.
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
