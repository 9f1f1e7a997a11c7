//! What stays prepared when the penalty or the offsets change.

use super::stacks::Stacks;
use super::{Exact, Method};
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::z_update::Agreement;
use crate::z_update::weights::Weights;
use crate::{Real, Result};

impl<T: Real> Exact<T> {
    /// As `prepare` after a change of all penalties by a common factor. Returns false if that is no shorter.
    pub(in crate::z_update) fn rescale(&self, rho: &Penalty<'_, T>, scratch: &mut [T]) -> bool {
        match &self.plan.method {
            Method::Iterative(system) => system.rescale(&Weights::new(rho), scratch),
            Method::Factor(system) if self.agreement != Agreement::Hard => {
                // Soft edges compare with the penalty: the factor is that of one h.
                return scratch[system.symbolic.factor_len() + 1] == Weights::new(rho).mean;
            }
            Method::Factor(_) | Method::Means(_) | Method::Edges(_) | Method::TooLarge(_) => {}
        }
        true
    }

    /// After a change of the offsets alone: no factor depends on them.
    pub(in crate::z_update) fn move_offsets(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let (kept, work) = scratch.split_at_mut(self.room());
        let stacks = Stacks::new(op, &mut work[..Stacks::scratch_len(op)]);
        match &self.plan.method {
            Method::Means(components) => components.shift(op, &mut kept[..op.sheaf().state_len()]),
            Method::Iterative(system) => {
                let weights = Weights::new(rho);
                let weight = |e| self.coefficient(op, &weights, T::ZERO, e) * weights.mean;
                system.pull(op, &stacks, weight, kept);
                Ok(())
            }
            Method::Factor(_) | Method::Edges(_) | Method::TooLarge(_) => Ok(()),
        }
    }
}
