//! What stays prepared when the penalty or the offsets change.

use super::ZUpdate;
use super::cut::Cut;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::{Real, Result};

impl<T: Real> ZUpdate<T> {
    /// As [`prepare`](Self::prepare) after a change of all penalties by a common factor: what does not depend on it is kept.
    pub(crate) fn prepare_again(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        if let Self::Exact(s) = self {
            let cut = Cut::new(self, op, 0, 0);
            if (0..op.samples()).all(|b| s.rescale(rho, cut.scratch(b, scratch))) {
                return Ok(());
            }
        }
        self.prepare(op, rho, scratch)
    }

    /// After a change of the offsets alone; everything else is prepared.
    pub(crate) fn move_offsets(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let Self::Exact(s) = self else { return self.prepare(op, rho, scratch) };
        let cut = Cut::new(self, op, 0, 0);
        (0..op.samples()).try_for_each(|b| s.move_offsets(&op.sample(b), rho, cut.scratch(b, scratch)))
    }
}
