//! The part of the maps' gradient that is added once for all steps of a reverse sweep.

use super::ZUpdate;
use crate::error::check_len;
use crate::sheaf::{MapsGrad, SheafOp};
use crate::{Real, Result};

impl<T: Real> ZUpdate<T> {
    /// Adds the deferred part of the maps' gradient that [`vjp_kept`](Self::vjp_kept) of many steps left in `kept`, one
    /// step after the other. `took(step, sample)` returns whether a sample of a batch ran a step.
    pub fn add_deferred(
        &self,
        op: &SheafOp<'_, T>,
        kept: &mut [T], // [steps, kept_len(op)], or empty
        took: impl Fn(usize, usize) -> bool,
        d_maps: &mut MapsGrad<'_, T>,
    ) -> Result<()> {
        let Self::Cg(s) = self else { return Ok(()) };
        if kept.is_empty() {
            return Ok(());
        }
        let (all, one) = (self.kept_len(op), s.kept_len(&op.sample(0)));
        check_len("what z-updates keep", kept.len() / all * all, kept.len())?;
        d_maps.validate(op.sheaf(), op.maps())?;
        if op.samples() == 1 {
            s.add_deferred(op, kept, d_maps);
            return Ok(());
        }
        for b in 0..op.samples() {
            let own = &mut d_maps.sample(op.sheaf(), op.maps(), b);
            for (_, step) in kept.chunks_exact_mut(all).enumerate().filter(|&(step, _)| took(step, b)) {
                s.add_deferred(&op.sample(b), &mut step[b * one..][..one], own);
            }
        }
        Ok(())
    }
}
