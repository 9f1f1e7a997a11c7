//! The adjoint of an iteration out of step.

use super::slope::{Mail, SlopeGrad, StaleSlope};
use super::{Asynchronous, When};
use crate::Real;
use crate::linalg::scratch::Scratch;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::z_update::{Agreement, ConsensusGrad};
use sheaf_kernels::vector::add;

impl<T: Real> Asynchronous<T> {
    /// Length of the scratch that `forward` and `vjp` share.
    pub(in crate::z_update) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let sheaf = op.sheaf();
        let (n, m, steps) = (sheaf.state_len(), sheaf.row_len(), self.steps());
        let mail = 2 * (sheaf.edge_count() + sheaf.edge_len());
        let fixed = m + 3 * n + mail + 2 * sheaf.agents();
        let rounds = self.rounds().saturating_mul(2 * m);
        let each = m + 2 * sheaf.edge_count() + Self::residual_len(op) + 3 * n;
        let len = fixed.saturating_add(rounds).saturating_add(steps.saturating_mul(each));
        len.max(self.forward_scratch_len(op))
    }

    /// Adjoint of [`forward`](Self::forward), which it replays: adds to `d_w`, `d_z_prev`, maps, ρ, γ and η; `d_carry` goes
    /// from the gradient of the carry after the iteration to that before it.
    pub(in crate::z_update) fn vjp(
        &self,
        when: When,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &[T],
        d_z: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        d_carry: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) {
        let sheaf = op.sheaf();
        let (n, m, delay, steps) = (sheaf.state_len(), sheaf.row_len(), self.lag.delay, self.steps());
        let (rule, mut scratch) = (self.rule(), Scratch::new(scratch));
        // The mailboxes as they were before the iteration.
        let mail = scratch.take(carry.len() - delay * m);
        let (own, sent) = carry.split_at(mail.len());
        mail.copy_from_slice(own);
        let history = scratch.take((delay + steps) * m);
        history[..delay * m].copy_from_slice(sent);
        // ȳ of all rounds, then s: the last rows of the former and all of the latter are pairs for the maps.
        let rows = scratch.take((delay + 2 * steps) * m);
        let (d_sent, s_rows) = rows.split_at_mut((delay + steps) * m);
        let codes = scratch.take(steps * 2 * sheaf.edge_count());
        let residuals = scratch.take(steps * Self::residual_len(op));
        let awake = scratch.take(sheaf.agents());
        let (mail, _) = Mail::of(sheaf, mail);
        let mut slope =
            StaleSlope::new(self, when, op, rho, w, mail, history, s_rows, codes, residuals, awake);
        let (x, m_state, tmp) = (scratch.take(n), scratch.take(n), scratch.take(n));
        let (states, vs) = (scratch.take(2 * steps * n), scratch.take(steps * n));
        let (xs, d_gs) = states.split_at_mut(steps * n);
        self.start(&slope, w, z_prev, x);
        rule.run(&mut slope, None, x, m_state, tmp, Some((xs, vs)));

        let (d_mail, d_last) = Mail::of(sheaf, d_carry);
        d_sent[..steps * m].fill(T::ZERO);
        d_sent[steps * m..].copy_from_slice(d_last);
        let along = scratch.take(m);
        let s = scratch.take(sheaf.agents());
        s.fill(T::ZERO);
        slope.grad = Some(SlopeGrad {
            sent: d_sent,
            mail: d_mail,
            along,
            tmp,
            w: d_w,
            rho: grad.rho,
            s,
            gamma: T::ZERO,
            offsets: grad.offsets,
            edge_weights: grad.edge_weights,
        });
        x.copy_from_slice(d_z);
        *grad.eta += rule.run_vjp(&mut slope, steps, xs, vs, x, m_state, d_gs);
        let Some(SlopeGrad { sent: d_sent, w: d_w, rho: d_rho, s, gamma: d_gamma, .. }) = slope.grad.take()
        else {
            return;
        };
        d_last.copy_from_slice(&d_sent[..delay * m]);
        for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
            let to = if self.warm || slope.sleeps(i) { &mut *d_z_prev } else { &mut *d_w };
            add(&mut to[range[0]..range[1]], &x[range[0]..range[1]]);
        }
        match self.descent.agreement {
            Agreement::Hard => slope.weights.vjp(s, T::ZERO, d_rho),
            Agreement::Soft { gamma } => {
                *grad.gamma += d_gamma;
                // ȳ has its γ already.
                d_gs.iter_mut().for_each(|d| *d *= gamma);
            }
        }
        grad.maps.outers(sheaf, op.maps(), T::ONE, 2 * steps, &rows[delay * m..], states);
    }
}
