//! The x-update as the ADMM loop uses it, with the two sums around it:
//!
//! ```text
//! v = z − u,   x = prox(v),   w = relax·x + (1 − relax)·z + u
//! ```
//!
//! w is the target of the consensus step; relax = 1 is plain ADMM (w = x + u). Adjoint, with g = d_x + relax·d_w and
//! d_v the adjoint of the prox applied to g:
//!
//! ```text
//! d_z += (1 − relax)·d_w + d_v        d_u += d_w − d_v
//! ```
//!
//! The diagonal family does it in one pass over memory; the others in three.

use super::{Objective, ObjectiveGrad, Penalty, own};
use crate::error::check_len;
use crate::{Real, Result};

impl<T: Real> Objective<'_, T> {
    /// v = z − u, x = prox(v), w = relax·x + (1 − relax)·z + u.
    pub fn prox_fused(
        &self,
        offsets: &[usize],
        rho: &Penalty<'_, T>,
        z: &[T],
        u: &[T],
        relax: T,
        x: &mut [T],
        w: &mut [T],
        scratch: &mut [T],
    ) -> Result<()> {
        let agents = self.check(offsets, rho, scratch)?;
        let n = agents.width();
        for (name, len) in [("z", z.len()), ("u", u.len()), ("x", x.len()), ("w", w.len())] {
            check_len(name, n, len)?;
        }
        if let Self::Diagonal(f) = self {
            f.prox_fused(agents, z, u, relax, x, w, scratch);
            return Ok(());
        }
        let (own_scratch, spare) = scratch.split_at_mut(self.own_scratch_len(agents));
        let v = &mut spare[..n];
        if let Self::Own(maps) = self {
            return own::prox_fused(maps, agents, rho, z, u, relax, v, x, w, own_scratch);
        }
        for i in 0..n {
            v[i] = z[i] - u[i];
        }
        self.prox_at(agents, rho, v, x, own_scratch)?;
        let off = T::ONE - relax;
        for i in 0..n {
            w[i] = (relax * x[i] + off * z[i]) + u[i];
        }
        Ok(())
    }

    /// The reverse of [`Self::prox_fused`]: adds to `d_z`, `d_u`, `d_rho` and the parameters, given the gradients
    /// `d_x` and `d_w` of its two outputs.
    ///
    /// Saves: nothing beyond `z`, `u`, `x` and the prepared scratch.
    pub fn vjp_fused(
        &self,
        offsets: &[usize],
        rho: &Penalty<'_, T>,
        z: &[T],
        u: &[T],
        relax: T,
        x: &[T],
        d_x: &[T],
        d_w: &[T],
        d_z: &mut [T],
        d_u: &mut [T],
        d_rho: &mut [T], // [1] or [agents]
        grad: &mut ObjectiveGrad<'_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let agents = self.check(offsets, rho, scratch)?;
        let n = agents.width();
        let states = [z.len(), u.len(), x.len(), d_x.len(), d_w.len(), d_z.len(), d_u.len()];
        states.iter().try_for_each(|&len| check_len("x-update: a state or its gradient", n, len))?;
        check_len("x-update: gradient of rho", rho.grad_len(agents.count()), d_rho.len())?;
        let (own, spare) = scratch.split_at_mut(self.own_scratch_len(agents));
        match (self, &mut *grad) {
            (Self::Diagonal(f), ObjectiveGrad::None) => {
                return f.vjp_fused(agents, rho, z, u, relax, x, d_x, d_w, d_z, d_u, d_rho, None, own, spare);
            }
            (Self::Diagonal(f), ObjectiveGrad::Diagonal(g)) => {
                let g = Some(g);
                return f.vjp_fused(agents, rho, z, u, relax, x, d_x, d_w, d_z, d_u, d_rho, g, own, spare);
            }
            _ => {}
        }
        let (v, rest) = spare.split_at_mut(n);
        let (g, d_v) = rest[..2 * n].split_at_mut(n);
        for i in 0..n {
            v[i] = z[i] - u[i];
            g[i] = d_x[i] + relax * d_w[i];
            d_v[i] = T::ZERO;
        }
        self.vjp_at(agents, rho, v, x, g, d_v, d_rho, grad, own)?;
        let off = T::ONE - relax;
        for i in 0..n {
            d_z[i] += off * d_w[i] + d_v[i];
            d_u[i] += d_w[i] - d_v[i];
        }
        Ok(())
    }

    /// As [`Self::vjp_fused`], but `d_u` is overwritten, and so is `d_z` where it is fresh.
    pub(crate) fn vjp_fused_into(
        &self,
        offsets: &[usize],
        rho: &Penalty<'_, T>,
        z: &[T],
        u: &[T],
        relax: T,
        x: &[T],
        d_x: &[T],
        d_w: &[T],
        d_z: &mut [T],
        fresh: bool,
        d_u: &mut [T],
        d_rho: &mut [T], // [1] or [agents]
        grad: &mut ObjectiveGrad<'_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        if let (Self::Diagonal(f), ObjectiveGrad::Diagonal(g)) = (self, &mut *grad) {
            let agents = self.check(offsets, rho, scratch)?;
            let states = [z.len(), u.len(), x.len(), d_x.len(), d_w.len(), d_z.len(), d_u.len()];
            let fit = states.iter().all(|&len| len == agents.width());
            if fit && f.vjp_sweep(agents, rho, z, u, relax, x, d_x, d_w, d_z, fresh, d_u, d_rho, g, scratch) {
                return Ok(());
            }
        }
        d_u.fill(T::ZERO);
        if fresh {
            d_z.fill(T::ZERO);
        }
        self.vjp_fused(offsets, rho, z, u, relax, x, d_x, d_w, d_z, d_u, d_rho, grad, scratch)
    }
}
