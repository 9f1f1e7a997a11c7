//! The adjoint of a solve on the states. A solve to a tolerance is differentiated as a
//! [solution](crate::z_update::solution). A fixed number of steps is replayed, keeping every step, then run in reverse:
//!
//! Every product of the solve contributes one pair (d_k, p) to the maps, e(p) d_kᵀ + e(d_k) pᵀ; the start contributes
//! one more. Both halves are contiguous, so that the gradient of the maps is traversed twice in all:
//!
//! | half | rows | states | terms |
//! | --- | --- | --- | --- |
//! | first | e(start), e(p_0) … e(p_T−1) | ±d_r_0, d_k_0 … 2 d_k_T−1 | T + 1 |
//! | second | e(±d_r_0), e(d_k_0) … e(d_k_T−2) | start, p_0 … p_T−2 | T, at least 1 |
//!
//! d_k_T−1 is a multiple of p_T−1, because nothing reads the last r: the two halves of its pair are equal, and the
//! first counts twice.
//!
//! A carried product ([`CgStart::Carried`](super::CgStart::Carried)) belongs to the previous solve. If the next solve
//! read r, the second half has a term for the last step as well; if the start was carried, neither half has one for it.
//!
//! A forward solve can keep its steps, which saves the replay in the adjoint, T + 1 products. For maps that support
//! pairs of states, no residuals are kept, and the adjoint stores d_k in the place of k: [`Cg::add_deferred`] adds the
//! pairs of all solves at once.

use std::ops::Range;

use super::Cg;
use super::kept::{Kept, Layout};
use super::system::{StateMapVjp, System};
use super::work::Work;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{MapsGrad, SheafOp, pad};
use crate::x_update::Penalty;
use crate::z_update::krylov::{self, PerStep, PlainVjp};
use crate::z_update::solution::{Accuracy, solution_scratch_len, solution_vjp};
use crate::z_update::{Agreement, ConsensusGrad, InnerReport};
use crate::{Real, Result};

impl<T: Real> Cg<T> {
    /// Scratch of the adjoint (and of the forward).
    pub(crate) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        if self.differentiates_solution() {
            return solution_scratch_len(op.sheaf()).max(self.forward_scratch_len(op));
        }
        let (n, m, t) = (op.sheaf().state_len(), op.sheaf().row_len(), self.stop.max_steps());
        // The step limit may be of any size: only the adjoint needs memory for it.
        let fixed = pad(self.forward_scratch_len(op)) + n + Gradients::<T>::len(n);
        let replayed = Layout::new(self, op, false).len::<T>();
        fixed.saturating_add(replayed).saturating_add(t.saturating_add(1).saturating_mul(n + m))
    }

    /// Length of what a forward solve keeps to avoid the replay; whole cache lines, so that all rows are aligned.
    pub(crate) fn kept_len(&self, op: &SheafOp<'_, T>) -> usize {
        if self.differentiates_solution() {
            return 0;
        }
        self.layout(op).len::<T>()
    }

    /// The layout of the steps that a forward solve keeps.
    fn layout(&self, op: &SheafOp<'_, T>) -> Layout {
        Layout::new(self, op, MapsGrad::takes_pairs(op.sheaf(), op.maps()))
    }

    /// As [`forward`](Self::forward). Saves: `kept`.
    pub(crate) fn forward_keeping(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &mut [T], // carry_len(op)
        z: &mut [T],
        kept: &mut [T], // kept_len(op)
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        let (mut work, half) = Work::carve(op, scratch);
        let system = System::new(self, op, rho, half);
        let layout = self.layout(op);
        let report = system.run(w, z_prev, carry, z, &mut work, Some(layout.carve(kept).places()));
        system.carry_on(work.r, z, carry);
        system.finish(w, z);
        layout.carve(kept).ran(report.steps);
        Ok(report)
    }

    /// Adjoint of [`forward`](Self::forward), which it replays.
    pub(crate) fn vjp(
        &self,
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
    ) -> Result<()> {
        self.vjp_kept(op, rho, w, z_prev, carry, &mut [], d_z, d_w, d_z_prev, d_carry, grad, scratch)
    }

    /// Adjoint of [`forward_keeping`](Self::forward_keeping), with its `kept`; replays if `kept` is empty.
    pub(crate) fn vjp_kept(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &[T],
        kept: &mut [T], // kept_len(op), or empty
        d_z: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        d_carry: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        if self.differentiates_solution() {
            let system = (self.agreement, self.tikhonov);
            return solution_vjp(op, rho, system, Accuracy::like(&self.stop), w, d_z, d_w, grad, scratch);
        }
        let (n, m, max) = (op.sheaf().state_len(), op.sheaf().row_len(), self.stop.max_steps());
        let mut scratch = Scratch::new(scratch);
        let (mut work, half) = Work::carve(op, scratch.take(pad(self.forward_scratch_len(op))));
        let system = System::new(self, op, rho, half);
        let replay = Layout::new(self, op, false);
        let replayed = scratch.take(replay.len::<T>());
        let (rows_dk, d_ks) = (scratch.take((max + 1) * m), scratch.take((max + 1) * n));
        let x = scratch.take(n);
        // The adjoint of the node scaling needs the solution and overwrites the steps; so do deferred pairs.
        let usable = !kept.is_empty() && system.half.is_none();
        let (steps, count) = match usable.then(|| self.layout(op).carve(kept).count()).flatten() {
            Some(count) => (self.layout(op).carve(kept), count),
            None => {
                let places = replay.carve(replayed).places();
                let report = system.run(w, z_prev, carry, x, &mut work, Some(places));
                (replay.carve(replayed), report.steps)
            }
        };
        let mut pairs = Pairs { steps, count, rows_dk, d_ks };
        let gradients = Gradients::carve(n, &mut scratch);
        let [first, second] = system.reverse(
            &mut pairs, w, z_prev, carry, x, d_z, d_w, d_z_prev, d_carry, grad, &mut work, gradients,
        );
        let Pairs { mut steps, rows_dk, d_ks, .. } = pairs;
        if steps.deferred() {
            steps.defer(first, d_ks);
            return Ok(());
        }
        for (terms, rows, states) in [(first, &*steps.rows, &*d_ks), (second, &*rows_dk, &*steps.ps)] {
            let (rows, states) =
                (&rows[terms.start * m..terms.end * m], &states[terms.start * n..terms.end * n]);
            grad.maps.add_outers(op.sheaf(), op.maps(), system.gamma, terms.len(), rows, states)?;
        }
        Ok(())
    }

    /// Adds what the adjoints of many solves left in `kept`, one [`kept_len`](Self::kept_len) after the other.
    pub(crate) fn add_deferred(
        &self,
        op: &SheafOp<'_, T>,
        kept: &mut [T], // [solves, kept_len(op)]
        d_maps: &mut MapsGrad<'_, T>,
    ) {
        let layout = self.layout(op);
        let Some(tape) = layout.tape(kept) else { return };
        let gamma = if let Agreement::Soft { gamma } = self.agreement { gamma } else { T::ONE };
        d_maps.add_pairs(op.sheaf(), op.maps(), gamma, tape);
        for block in kept.chunks_exact_mut(layout.len::<T>()) {
            layout.carve(block).forget();
        }
    }
}

/// The pairs of all products, laid out as in the module documentation.
struct Pairs<'s, T> {
    steps: Kept<'s, T>,
    count: usize,
    rows_dk: &'s mut [T], // [max + 1, rows]
    d_ks: &'s mut [T],    // [max + 1, states]
}

/// The gradients of a solve's vectors in the reverse sweep.
struct Gradients<'s, T> {
    d_x: &'s mut [T],    // [states]
    d_p: &'s mut [T],    // [states]
    d_r: &'s mut [T],    // [states]
    a_dk: &'s mut [T],   // [states]
    d_half: &'s mut [T], // [states]
}

impl<'s, T: Real> Gradients<'s, T> {
    fn len(n: usize) -> usize {
        5 * n
    }

    fn carve(n: usize, scratch: &mut Scratch<'s, T>) -> Self {
        let (d_x, d_p, d_r) = (scratch.take(n), scratch.take(n), scratch.take(n));
        Self { d_x, d_p, d_r, a_dk: scratch.take(n), d_half: scratch.take(n) }
    }
}

impl<T: Real> System<'_, '_, T> {
    /// Runs the steps in reverse and fills the pairs; returns the terms of each half.
    fn reverse(
        &self,
        pairs: &mut Pairs<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &[T],
        x: &[T],
        d_z: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        d_carry: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        work: &mut Work<'_, T>,
        gradients: Gradients<'_, T>,
    ) -> [Range<usize>; 2] {
        let (n, m) = (d_z.len(), work.y.len());
        let Gradients { d_x, d_p, d_r, a_dk, d_half } = gradients;
        let Pairs { steps, count, rows_dk, d_ks } = pairs;
        let (count, deferred) = (*count, steps.deferred());
        if self.half.is_some() {
            d_half.fill(T::ZERO);
        }
        self.finish_vjp(x, d_z, d_w, d_x, d_half);
        let end_read = self.carry_on_vjp(d_carry, d_r, d_x);
        d_p.fill(T::ZERO);
        {
            // Residuals of deferred pairs are not read: they share one buffer.
            let rows = if deferred { &mut rows_dk[..m] } else { &mut **rows_dk };
            let rows = PerStep::new(rows, m);
            let mut map =
                StateMapVjp { system: self, rows, y: work.y, tmp: work.tmp, d_half: &mut *d_half, grad };
            let (p, k, tape) = steps.steps();
            let d_k = PerStep::new(&mut d_ks[n..], n);
            let (d_r, a_dk) = (&mut *d_r, &mut *a_dk);
            let mut back = PlainVjp { map: &mut map, p, k, d_x, d_r, d_p, a_dk, d_k, pending: None };
            let mut report = krylov::steps_of(count);
            let reports = krylov::Reports::new(&mut report);
            krylov::run_vjp(self.rule(), &mut back, &tape, &reports, end_read, &mut [T::ZERO]);
        }
        if count > 0 && !end_read && !deferred {
            d_ks[count * n..][..n].iter_mut().for_each(|d| *d += *d);
        }
        let carried = self.carried(carry).is_some();
        if carried {
            self.begin_carried_vjp(d_x, d_r, d_w, d_z_prev, d_carry);
        } else {
            let start = (&mut d_ks[..n], &mut steps.ps[..n], &mut rows_dk[..m]);
            self.begin_vjp(w, z_prev, d_x, d_r, d_w, d_z_prev, grad, start, d_half, a_dk, work);
        }
        if let Some(half) = self.half {
            // Pairs act on S p: the maps receive scaled states.
            let scaled = d_ks[n..(count + 1) * n].chunks_exact_mut(n.max(1));
            for state in scaled.chain(steps.ps[n..(count + 1) * n].chunks_exact_mut(n.max(1))) {
                state.iter_mut().zip(half).for_each(|(s, &h)| *s *= h);
            }
            self.half_to_rho(half, d_half, grad.rho);
        }
        let start = usize::from(carried);
        [start..count + 1, start..if end_read { count + 1 } else { count.max(1) }]
    }

    /// S = ρ^−½: dρ_i = −½ ρ^−3/2 Σ dS.
    fn half_to_rho(&self, half: &[T], d_half: &[T], d_rho: &mut [T]) {
        for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
            for k in range[0]..range[1] {
                d_rho[i] -= T::from_f64(0.5) * d_half[k] * half[k] * half[k] * half[k];
            }
        }
    }
}
