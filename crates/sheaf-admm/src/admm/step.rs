//! One iteration, in the paper's order and letters, and its reverse.

use super::{Gradients, Problem, Workspace};
use crate::x_update::Penalty;
use crate::z_update::{ConsensusGrad, InnerReport};
use crate::{Real, Result};
use sheaf_kernels::vector::{reverse_dual, sub};

impl<T: Real> Problem<'_, T> {
    /// x, then z, then u: iteration `k`. Leaves the previous z in `ws.z_next`.
    pub(super) fn step(&self, k: usize, rho: &Penalty<'_, T>, ws: &mut Workspace<T>) -> Result<InnerReport> {
        let (n, offsets) = (self.op.sheaf().state_len(), self.op.sheaf().state_offsets());
        let carry = self.z_update.carry_len(&self.op);
        let (x, w) = (&mut ws.x[..n], &mut ws.w[..n]);
        let (z, u, z_next) = (&mut ws.z[..n], &mut ws.u[..n], &mut ws.z_next[..n]);
        // x-update: v = z − u, x = prox(v), w = x̃ + u
        self.objective.prox_fused(offsets, rho, z, u, self.relax, x, w, &mut ws.x_scratch)?;
        // z-update
        let one = ws.tape.kept_len(self);
        let (carry, kept) = (&mut ws.carry[..carry], &mut ws.tape.kept[k * one..][..one]);
        let scratch = &mut ws.z_scratch;
        let report = self.z_update.forward_keeping(&self.op, rho, w, z, carry, z_next, kept, scratch)?;
        // u-update: u + x̃ − z' = w − z'
        sub(u, w, z_next);
        std::mem::swap(&mut ws.z, &mut ws.z_next);
        Ok(report)
    }

    /// The reverse of [`step`](Self::step) from the state it started at. On entry `ws.d_z`, `ws.d_u`, `ws.d_carry`
    /// hold the gradients of what the step left, `ws.d_x` that of x beyond; on return those of what it was given. `kept`
    /// is what the consensus solver kept of it.
    pub(super) fn step_vjp(
        &self,
        rho: &Penalty<'_, T>,
        at: Before<'_, T>,
        kept: &mut [T],
        grads: &mut Gradients<'_, '_, T>,
        ws: &mut Workspace<T>,
    ) -> Result<()> {
        let (n, offsets) = (self.op.sheaf().state_len(), self.op.sheaf().state_offsets());
        let carry = self.z_update.carry_len(&self.op);
        let (d_z, d_z_in) = (&mut ws.d_z[..n], &mut ws.d_z_in[..n]);
        let (d_u, d_u_in) = (&mut ws.d_u[..n], &mut ws.d_u_in[..n]);
        let (d_w, d_x, w) = (&mut ws.d_w[..n], &ws.d_x[..n], &mut ws.w[..n]);
        // u' = w − z'
        reverse_dual(at.x, at.z, at.u, self.relax, w, d_u, d_w, d_z);
        d_z_in.fill(T::ZERO);
        d_u_in.fill(T::ZERO);
        // z' = consensus(w, z)
        let d_rho = &mut ws.d_rho[..rho.grad_len(self.op.sheaf().agents())];
        let mut consensus =
            ConsensusGrad { maps: grads.maps, rho: d_rho, gamma: grads.gamma, eta: grads.eta };
        self.z_update.vjp_kept(
            &self.op,
            rho,
            w,
            at.z,
            at.carry,
            kept,
            d_z,
            d_w,
            d_z_in,
            &mut ws.d_carry[..carry],
            &mut consensus,
            &mut ws.z_scratch,
        )?;
        // x = prox(z − u), w = x̃ + u
        let d_rho = &mut ws.d_rho[..rho.grad_len(self.op.sheaf().agents())];
        self.objective.vjp_fused(
            offsets,
            rho,
            at.z,
            at.u,
            self.relax,
            at.x,
            d_x,
            d_w,
            d_z_in,
            d_u_in,
            d_rho,
            grads.objective,
            &mut ws.x_scratch,
        )?;
        std::mem::swap(&mut ws.d_z, &mut ws.d_z_in);
        std::mem::swap(&mut ws.d_u, &mut ws.d_u_in);
        Ok(())
    }
}

/// What a step started from, and the x it found.
#[derive(Clone, Copy)]
pub(super) struct Before<'t, T> {
    pub z: &'t [T],
    pub u: &'t [T],
    pub carry: &'t [T],
    pub x: &'t [T],
}
