//! The reverse of a conjugate-gradient solve: replay it, keeping every step, then walk back.
//!
//! The equations stand at the head of [`cg`](super). Every product of the solve becomes one pair (q̄, p) for the
//! maps, e(p) q̄ᵀ + e(q̄) pᵀ; the start contributes one more. Both halves lie side by side, so that the maps' gradient is
//! touched twice in all:
//!
//! | half | rows | states | terms |
//! | --- | --- | --- | --- |
//! | first | e(start), e(p_0) … e(p_T−1) | ±r̄_0, q̄_0 … 2 q̄_T−1 | T + 1 |
//! | second | e(±r̄_0), e(q̄_0) … e(q̄_T−2) | start, p_0 … p_T−2 | T, at least 1 |
//!
//! After the last step nothing reads r and p, so q̄_T−1 = s̄ p_T−1: its product is at hand, and the two halves of its pair
//! are equal. The residuals r need not be kept: r_0 = p_0 and r_t+1 = p_t+1 − b_t p_t.
//!
//! A carried product ([`CgStart::Carried`](super::CgStart::Carried)) belongs to the solve before. Where the next solve
//! read r, the second half has a term for the last step as well; where the start was carried to, neither half has a
//! term for it.
//!
//! A forward solve can keep what the replay would find, for callers who have the memory: the adjoint then saves T + 1
//! products. Where the maps take pairs of states no residuals are kept, and the adjoint leaves q̄ in the place of q: the
//! pairs of all solves are added at once by [`Cg::add_deferred`].

use std::ops::Range;

use super::steps::{Layout, Steps};
use super::work::Work;
use super::{Cg, System};
use crate::sheaf::{Given, MapsGrad, SheafOp, pad};
use crate::x_update::Penalty;
use crate::z_update::{Agreement, ConsensusGrad, InnerReport};
use crate::{Real, Result};
use sheaf_kernels::vector::{add, add_dot, axpy, cg_back, cg_back_update, dot, scale_into};

impl<T: Real> Cg<T> {
    /// Scratch of the adjoint (and of the forward).
    pub(crate) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let (n, m, t) = (op.sheaf().state_len(), op.sheaf().row_len(), self.stop.max_steps());
        // A limit of steps of any size is allowed: only the adjoint needs memory for it.
        let fixed = pad(self.forward_scratch_len(op)) + 6 * n;
        let replayed = Layout::new(self, op, false).len();
        fixed.saturating_add(replayed).saturating_add(t.saturating_add(1).saturating_mul(n + m))
    }

    /// Numbers that spare the adjoint its replay; whole cache lines, so that rows start on one everywhere.
    pub(crate) fn kept_len(&self, op: &SheafOp<'_, T>) -> usize {
        self.layout(op).len()
    }

    /// How a forward solve keeps its steps.
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

    /// Adjoint of [`forward_keeping`](Self::forward_keeping), with what it kept; replays where `kept` is empty.
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
        let (n, m, max) = (op.sheaf().state_len(), op.sheaf().row_len(), self.stop.max_steps());
        let (front, rest) = scratch.split_at_mut(pad(self.forward_scratch_len(op)));
        let (mut work, half) = Work::carve(op, front);
        let system = System::new(self, op, rho, half);
        let replay = Layout::new(self, op, false);
        let (replayed, rest) = rest.split_at_mut(replay.len());
        let (e_dq, rest) = rest.split_at_mut((max + 1) * m);
        let (d_qs, rest) = rest.split_at_mut((max + 1) * n);
        let (x, rest) = rest.split_at_mut(n);
        // The adjoint of the node scaling needs the solution and writes over the steps; deferred pairs have done so.
        let usable = !kept.is_empty() && system.half.is_none();
        let (steps, count) = match usable.then(|| self.layout(op).carve(kept).count()).flatten() {
            Some(count) => (self.layout(op).carve(kept), count),
            None => {
                let places = replay.carve(replayed).places();
                let report = system.run(w, z_prev, carry, x, &mut work.reborrow(), Some(places));
                (replay.carve(replayed), report.steps)
            }
        };
        let mut pairs = Pairs { steps, count, e_dq, d_qs };
        let [first, second] = system
            .reverse(&mut pairs, w, z_prev, carry, x, d_z, d_w, d_z_prev, d_carry, grad, &mut work, rest);
        let Pairs { mut steps, e_dq, d_qs, .. } = pairs;
        if steps.deferred() {
            steps.defer(first, d_qs);
            return Ok(());
        }
        for (terms, rows, states) in [(first, &*steps.rows, &*d_qs), (second, &*e_dq, &*steps.ps)] {
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
        for block in kept.chunks_exact_mut(layout.len()) {
            layout.carve(block).forget();
        }
    }
}

/// The pairs of all products, as the head of the module lays them out.
struct Pairs<'s, T> {
    steps: Steps<'s, T>,
    count: usize,
    e_dq: &'s mut [T], // [max + 1, rows]
    d_qs: &'s mut [T], // [max + 1, states]
}

impl<T: Real> System<'_, '_, T> {
    /// Walks back through the steps and fills the pairs; returns which terms either half has.
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
        scratch: &mut [T],
    ) -> [Range<usize>; 2] {
        let (n, m) = (d_z.len(), work.y.len());
        let (d_x, rest) = scratch.split_at_mut(n);
        let (d_p, rest) = rest.split_at_mut(n);
        let (d_r, rest) = rest.split_at_mut(n);
        let (a_dq, d_half) = rest.split_at_mut(n);
        let d_half = &mut d_half[..n];
        let Pairs { steps, count, e_dq, d_qs } = pairs;
        // Residuals that nobody reads share one place.
        let (deferred, row_step) = (steps.deferred(), if steps.deferred() { 0 } else { m });
        if self.half.is_some() {
            d_half.fill(T::ZERO);
        }
        self.finish_vjp(x, d_z, d_w, d_x, d_half);
        d_p.fill(T::ZERO);
        let read_on = self.carry_on_vjp(d_carry, d_r, d_x);
        // d_b = p̄'·p is found with p̄', one step ahead.
        let (mut d_c_next, mut d_b) = (T::ZERO, T::ZERO);
        for t in (0..*count).rev() {
            let (k, last) = (steps.scalars(t), t + 1 == *count);
            let alone = last && !read_on;
            let (p, q) = (&steps.ps[(t + 1) * n..][..n], steps.q(t));
            let (d_q, before) = (&mut d_qs[(t + 1) * n..][..n], &steps.ps[t.max(1) * n..][..n]);
            let (mut d_a, mut d_c) = (T::ZERO, T::ZERO);
            if alone {
                d_a = dot(d_x, p);
            } else if last {
                d_a = dot(d_x, p) - dot(d_r, q);
            } else {
                // p' = r' + b p, b = c'/(c + e), c' = r'·r'
                let c_guarded = k.c + self.cfg.guard;
                d_c_next += d_b / c_guarded;
                d_c = -d_b * k.c_next / (c_guarded * c_guarded);
                let p_next = &steps.ps[(t + 2) * n..][..n];
                cg_back(d_r, d_p, d_x, p_next, p, q, k.b, d_c_next + d_c_next, &mut d_a);
            }
            // x' = x + a p, r' = r − a q, a = c/s, s = p·q + e
            d_c_next = d_c + d_a / k.s;
            let (d_s, mut dots) = (-d_a * k.c / (k.s * k.s), [T::ZERO; 2]);
            cg_back_update(d_p, d_q, d_x, d_r, p, q, k.a, d_s, &mut dots);
            self.pair_scalars(dots, d_q, p, grad);
            // q = A p
            if alone {
                scale_into(a_dq, d_s, q);
                add_dot(d_p, a_dq, before, &mut d_b);
            } else {
                let e_dq = &mut e_dq[(t + 1) * row_step..][..m];
                d_b = self.product_vjp(d_q, a_dq, d_p, before, e_dq, work);
            }
            if let Some(half) = self.half {
                self.pair_half(half, d_q, a_dq, p, q, d_half);
            }
            if alone && !deferred {
                d_q.iter_mut().for_each(|d| *d += *d);
            }
        }
        if *count > 0 {
            // p_0 = r_0, c_0 = r_0·r_0
            add(d_r, d_p);
            axpy(d_r, d_c_next + d_c_next, &steps.ps[n..2 * n]);
        }
        let carried = self.carried(carry).is_some();
        if carried {
            self.begin_carried_vjp(d_x, d_r, d_w, d_z_prev, d_carry);
        } else {
            let start = (&mut d_qs[..n], &mut steps.ps[..n], &mut e_dq[..m]);
            self.begin_vjp(w, z_prev, d_x, d_r, d_w, d_z_prev, grad, start, d_half, a_dq, work);
        }
        if let Some(half) = self.half {
            // Pairs act on S p: the maps see scaled states.
            let scaled = d_qs[n..(*count + 1) * n].chunks_exact_mut(n.max(1));
            for state in scaled.chain(steps.ps[n..(*count + 1) * n].chunks_exact_mut(n.max(1))) {
                state.iter_mut().zip(half).for_each(|(s, &h)| *s *= h);
            }
            self.half_to_rho(half, d_half, grad.rho);
        }
        let start = usize::from(carried);
        [start..*count + 1, start..if read_on { *count + 1 } else { (*count).max(1) }]
    }

    /// a_dq = A q̄, p̄ += A q̄; returns p̄·before. Leaves the exchanged residuals of S q̄ in `e_dq`.
    fn product_vjp(
        &self,
        d_q: &[T],
        a_dq: &mut [T],
        d_p: &mut [T],
        before: &[T],
        e_dq: &mut [T],
        work: &mut Work<'_, T>,
    ) -> T {
        let mut along = T::ZERO;
        let mut sum = |part: Range<usize>, a_dq: &[T]| {
            let mut of_part = T::ZERO;
            add_dot(&mut d_p[part.clone()], a_dq, &before[part], &mut of_part);
            along += of_part;
        };
        if let (None, Penalty::Scalar(shift)) = (self.half, self.shift) {
            let after = |part, _: &[T], a_dq: &[T]| sum(part, a_dq);
            self.op.raw().sweep(self.gamma, shift, Given(d_q), a_dq, work.y, e_dq, true, after);
        } else {
            self.apply(d_q, a_dq, work.y, e_dq, work.tmp);
            sum(0..d_q.len(), a_dq);
        }
        along
    }

    /// Adds d_shift and d_gamma of q = A p. With q at hand, q̄·Lp = (q̄·q − q̄·shift p)/γ.
    fn pair_scalars(
        &self,
        [with_p, with_q]: [T; 2],
        d_q: &[T],
        p: &[T],
        grad: &mut ConsensusGrad<'_, '_, T>,
    ) {
        if self.cfg.agreement == Agreement::Hard {
            return;
        }
        let mut shifted = T::ZERO;
        match self.shift {
            Penalty::Scalar(shift) => {
                grad.rho[0] += with_p;
                shifted += shift * with_p;
            }
            Penalty::PerAgent(shift) => {
                for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
                    let along = dot(&d_q[range[0]..range[1]], &p[range[0]..range[1]]);
                    grad.rho[i] += along;
                    shifted += shift[i] * along;
                }
            }
        }
        *grad.gamma += (with_q - shifted) / self.gamma;
    }

    /// Adds d_S of q = S L S p + ε p: q̄∘(L S p) + p∘(L S q̄), both read off the products at hand.
    fn pair_half(&self, half: &[T], d_q: &[T], a_dq: &[T], p: &[T], q: &[T], d_half: &mut [T]) {
        let eps = self.cfg.tikhonov;
        for k in 0..p.len() {
            let (l_p, l_dq) = ((q[k] - eps * p[k]) / half[k], (a_dq[k] - eps * d_q[k]) / half[k]);
            d_half[k] += d_q[k] * l_p + p[k] * l_dq;
        }
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
