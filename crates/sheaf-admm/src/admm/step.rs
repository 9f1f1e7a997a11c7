//! One iteration, in the paper's order and notation, and its reverse.

use super::act::{Actor, Before};
use super::workspace::{Back, Work};
use super::{Gradients, Problem, Tape};
use crate::clock;
use crate::x_update::Penalty;
use crate::z_update::{ConsensusGrad, InnerTotals, When};
use crate::{Real, Result};
use sheaf_kernels::vector::{reverse_dual, sub};

impl<T: Real> Problem<'_, T> {
    /// x, then z, then u: iteration `k`, written to the tape. Samples that are not running keep their values. The actor
    /// may change states between the updates. `None` if the time is up before the iteration is done: the states are then those that it
    /// started from. The first iteration is done in any case.
    pub(super) fn step<A: Actor<T>>(
        &self,
        k: usize,
        running: &[bool],
        tape: &mut Tape<T>,
        work: &mut Work<T>,
        actor: &mut A,
    ) -> Result<Option<InnerTotals>> {
        self.act(k, Before::X, tape, actor);
        let (n, kept, x_only, draw) = (self.op.state_len(), tape.kept_len(self), tape.x_only, tape.draw);
        let (rho, all) = (self.penalty_of(&work.rho), self.penalty_of_all(&work.rho));
        let w = &mut work.w[..n];
        // x-update: v = z − u, x = prox(v), w = x̃ + u
        let (z, u, x) = tape.proposal(k);
        let offsets = self.offsets(&work.offsets);
        self.objective.prox_fused(offsets, &all, z, u, self.relax, x, w, &mut work.x_scratch)?;
        let sleepers = self.sleepers(k, tape.draw);
        if let Some(sleepers) = &sleepers {
            sleepers.hold_x(tape);
        }
        if self.act(k, Before::Z, tape, actor) {
            self.target(k, tape, w);
        }
        let mut report = InnerTotals::default();
        // Ranks decide together, after the iteration; and what an actor has done cannot be undone.
        let may_end = k > 0 && !A::ACTS && self.op.sheaf().share().is_none();
        if may_end && clock::late() {
            return Ok(None);
        }
        if !x_only {
            // z-update
            let (z, z_next, carry, kept) = tape.agreement(k, kept);
            let (missed, scratch) = (&mut work.missed[..], &mut work.z_scratch);
            let (op, z_update, when) = (&self.op, self.z_update, When { iteration: k, draw });
            report = z_update
                .forward_keeping(when, op, &rho, w, z, carry, z_next, kept, running, missed, scratch)?;
            // A consensus step that the clock has cut short is no step.
            if may_end && work.missed.contains(&true) && clock::late() {
                return Ok(None);
            }
            if self.act(k, Before::U, tape, actor) {
                self.target(k, tape, w);
            }
            // u-update: u + x̃ − z' = w − z'
            let (z_next, u_next) = tape.duals(k);
            if let Some(sleepers) = &sleepers {
                sleepers.update_u(running, w, tape);
            } else if running.contains(&false) {
                let one = n / running.len();
                for b in (0..running.len()).filter(|&b| running[b]) {
                    let own = b * one..(b + 1) * one;
                    sub(&mut u_next[own.clone()], &w[own.clone()], &z_next[own]);
                }
            } else {
                sub(u_next, w, z_next);
            }
        }
        self.act(k, Before::End, tape, actor);
        for b in (0..running.len()).filter(|&b| !running[b]) {
            tape.hold(k, b, !x_only);
        }
        Ok(Some(report))
    }

    /// Lets the actor change the states at a point of iteration `k`; returns whether it did.
    #[inline(always)]
    fn act<A: Actor<T>>(&self, k: usize, before: Before, tape: &mut Tape<T>, actor: &mut A) -> bool {
        if !A::ACTS || !actor.act(k, before, tape.states_at(k, before)) {
            return false;
        }
        let (c, row) = (tape.carries, tape.row(k + usize::from(before >= Before::U)));
        self.z_update.forget_z(&mut tape.carry[row * c..][..c], tape.samples);
        true
    }

    /// w = x̃ + u of iteration `k`, from the states as they are now.
    fn target(&self, k: usize, tape: &Tape<T>, w: &mut [T]) {
        let (x, z, u, off) = (tape.x(k), tape.z(k), tape.u(k), T::ONE - self.relax);
        for (i, w) in w.iter_mut().enumerate() {
            *w = (self.relax * x[i] + off * z[i]) + u[i];
        }
    }

    /// The reverse of [`step`](Self::step) `k`. On entry `back.d_z`, `back.d_u`, `back.d_carry` hold the gradients of
    /// the outputs of the step, and `d_x` any further gradient of x (`back.d_x` if `None`); on return those of its
    /// inputs. Only samples that are running take part; the gradients of the others are 0. `kept` is the length of what the
    /// consensus step kept of an iteration, or 0 to replay it.
    pub(super) fn step_vjp(
        &self,
        k: usize,
        kept: usize,
        d_x: Option<&[T]>,
        running: &[bool],
        grads: &mut Gradients<'_, '_, T>,
        tape: &mut Tape<T>,
        work: &mut Work<T>,
        back: &mut Back<T>,
    ) -> Result<()> {
        let (n, agents) = (self.op.state_len(), self.op.sheaf().agents());
        let carry = tape.carries;
        let (rho, all) = (self.penalty_of(&work.rho), self.penalty_of_all(&work.rho));
        let (d_z, d_z_in) = (&mut back.d_z[..n], &mut back.d_z_in[..n]);
        let (d_u, d_u_in) = (&mut back.d_u[..n], &mut back.d_u_in[..n]);
        let (d_w, mut d_x, w) = (&mut back.d_w[..n], d_x.unwrap_or(&back.d_x[..n]), &mut work.w[..n]);
        let sleepers = self.sleepers(k, tape.draw);
        if let Some(sleepers) = &sleepers {
            d_x = sleepers.part(d_x, d_u, &mut back.held);
        }
        let mut fresh = true;
        if tape.x_only && tape.ran == Some(k + 1) {
            d_w.fill(T::ZERO);
        } else {
            if self.z_update.reads_previous() {
                d_z_in.fill(T::ZERO);
                fresh = false;
            }
            // u' = w − z'
            reverse_dual(tape.x(k), tape.z(k), tape.u(k), self.relax, w, d_u, d_w, d_z);
            // z' = consensus(w, z)
            let d_rho = &mut back.d_rho[..rho.grad_len(agents)];
            let mut consensus = ConsensusGrad {
                maps: grads.maps,
                rho: d_rho,
                gamma: grads.gamma,
                eta: grads.eta,
                offsets: grads.offsets,
                edge_weights: grads.edge_weights,
            };
            let draw = tape.draw;
            let (z, carry_row, kept) = tape.before(k, kept);
            self.z_update.vjp_kept(
                When { iteration: k, draw },
                &self.op,
                &rho,
                w,
                z,
                carry_row,
                kept,
                running,
                d_z,
                d_w,
                d_z_in,
                &mut back.d_carry[..carry],
                &mut consensus,
                &mut work.z_scratch,
            )?;
        }
        // x = prox(z − u), w = x̃ + u. Over several chunks, the gradient of one penalty for all is added up by chunks.
        let mut each = self.penalty_of_each(&all);
        let (all, d_rho) = match &mut each {
            Some((rho, d_rho)) => (Penalty::PerAgent(rho), &mut d_rho[..]),
            None => (all, &mut back.d_rho[..all.grad_len(self.op.agents())]),
        };
        self.objective.vjp_fused_into(
            self.offsets(&work.offsets),
            &all,
            tape.z(k),
            tape.u(k),
            self.relax,
            tape.x(k),
            d_x,
            d_w,
            d_z_in,
            fresh,
            d_u_in,
            d_rho,
            grads.objective,
            &mut work.x_scratch,
        )?;
        if let Some((_, d_rho)) = each {
            back.d_rho[0] += self.sum_of_each(&d_rho);
        }
        if let Some(sleepers) = &sleepers {
            sleepers.join(&mut back.held, d_z_in, d_u_in);
        }
        std::mem::swap(&mut back.d_z, &mut back.d_z_in);
        std::mem::swap(&mut back.d_u, &mut back.d_u_in);
        Ok(())
    }
}
