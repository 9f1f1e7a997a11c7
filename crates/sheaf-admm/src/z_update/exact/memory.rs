//! Scratch of the exact consensus step.

use super::edges::EdgeSolve;
use super::hard::hard_scratch_len;
use super::stacks::Stacks;
use super::{Exact, Method};
use crate::Real;
use crate::sheaf::{SheafOp, pad};
use crate::z_update::solution::edge_vjp_scratch_len;

impl<T: Real> Exact<T> {
    /// Length of the multipliers that one iteration hands to the next.
    pub(in crate::z_update) fn carry_len(&self) -> usize {
        if matches!(self.plan.method, Method::Edges(_)) { self.plan.sheaf.edge_len() } else { 0 }
    }

    /// Length of what `prepare` leaves at the front of the scratch: the factor, τ and h, or the shifts.
    pub(super) fn room(&self) -> usize {
        match &self.plan.method {
            Method::Factor(system) => pad(system.symbolic.factor_len() + 2),
            Method::Means(_) => pad(self.plan.sheaf.state_len()),
            Method::Iterative(system) => pad(system.room()),
            Method::Edges(_) => pad(self.plan.sheaf.edge_len()),
            Method::TooLarge(_) => 0,
        }
    }

    /// Length of the scratch that `prepare`, `forward` and `vjp` share.
    pub(in crate::z_update) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let solve = edge_vjp_scratch_len(op.sheaf()) + self.solve_scratch_len(op);
        self.room() + solve.max(self.prepare_scratch_len(op))
    }

    /// Length of the scratch that `prepare` and `forward` need if no adjoint runs.
    pub(in crate::z_update) fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let solve = op.sheaf().edge_len() + self.solve_scratch_len(op);
        self.room() + solve.max(self.prepare_scratch_len(op))
    }

    fn prepare_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let factor = match &self.plan.method {
            Method::Factor(system) => system.symbolic.nnz() + T::sparse_factor_scratch_len(&system.symbolic),
            Method::Means(_) | Method::Iterative(_) | Method::Edges(_) | Method::TooLarge(_) => 0,
        };
        Stacks::scratch_len(op) + factor
    }

    fn solve_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        match &self.plan.method {
            Method::Factor(system) => {
                hard_scratch_len(op.sheaf()) + T::sparse_solve_scratch_len(&system.symbolic)
            }
            Method::Iterative(system) => system.scratch_len() + op.sheaf().row_len(),
            Method::Edges(_) => EdgeSolve::scratch_len(op.sheaf()),
            Method::Means(_) | Method::TooLarge(_) => 3 * op.sheaf().state_len(),
        }
    }
}
