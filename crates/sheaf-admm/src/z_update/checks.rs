//! Checks that all solvers share.

use super::{Agreement, ConsensusGrad};
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
    if !grad.offsets.is_empty() {
        check_len("gradient of offsets", op.samples() * op.sheaf().edge_len(), grad.offsets.len())?;
    }
    if !grad.edge_weights.is_empty() {
        check_len("gradient of edge weights", op.sheaf().edge_count(), grad.edge_weights.len())?;
    }
    grad.maps.validate(op.sheaf(), op.maps())
}

/// What a solver supports beyond F z = 0 with one γ.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeSupport {
    pub offsets: bool,
    pub weights: bool,
    pub hard_edges: bool,
}

impl EdgeSupport {
    pub(super) const ALL: Self = Self { offsets: true, weights: true, hard_edges: true };
    pub(super) const NONE: Self = Self { offsets: false, weights: false, hard_edges: false };

    /// Checks the edges of a problem against it; `hint` names a solver that supports them.
    pub(super) fn check<T: Real>(
        self,
        place: &str,
        agreement: Agreement<T>,
        op: &SheafOp<'_, T>,
        hint: &str,
    ) -> Result<()> {
        let refuse = |expected: &str, got: &str, hint: &str| {
            Err(Error::new(ErrorKind::Unsupported, place, expected, got).hint(hint))
        };
        if op.edge_weights().is_some() && agreement == Agreement::Hard {
            let hint = "use Agreement::Soft; an edge of infinite weight is hard";
            return refuse("edges without weights when agreement is hard", "weights of edges", hint);
        }
        if op.has_hard_edges() && !self.hard_edges {
            return refuse("edges that are all soft", "an edge of infinite weight", hint);
        }
        if op.edge_weights().is_some() && !self.weights {
            return refuse("edges without weights", "weights of edges", hint);
        }
        if op.offsets().is_some() && !self.offsets {
            return refuse("edges without offsets", "offsets of edges", hint);
        }
        Ok(())
    }
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
