//! Checks that all solvers share.

use super::ConsensusGrad;
use crate::error::check_len;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};

/// Checks that the gradients fit the problem.
pub(super) fn check_grad<T: Real>(
    op: &SheafOp<'_, T>,
    rho: &Penalty<'_, T>,
    grad: &ConsensusGrad<'_, '_, T>,
) -> Result<()> {
    check_len("gradient of rho", rho.grad_len(op.sheaf().agents()), grad.rho.len())?;
    grad.maps.validate(op.sheaf(), op.maps())
}

/// Checks that there is enough scratch.
pub(super) fn check_scratch(needed: usize, got: usize) -> Result<()> {
    if got >= needed {
        return Ok(());
    }
    let expected = format!("at least {needed} numbers");
    Err(Error::new(ErrorKind::Shape, "z-update scratch", expected, got)
        .hint("size it with ZUpdate::scratch_len"))
}
