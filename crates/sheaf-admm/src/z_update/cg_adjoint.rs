//! The reverse of a conjugate-gradient solve: replay it, keeping every step, then walk back.
//!
//! The equations stand at the head of [`cg`](super::cg). Every product of the solve becomes one pair (q̄, p) for the
//! maps; the start contributes one more. They lie side by side in scratch, so that the maps' gradient is touched once:
//!
//! | block | holds | shape |
//! | --- | --- | --- |
//! | rows | e(p_0) … e(p_T−1), e(start) · e(q̄_0) … e(q̄_T−1), e(r̄_0) | 2(T + 1) × rows |
//! | states | q̄_0 … q̄_T−1, ±r̄_0 · p_0 … p_T−1, start | 2(T + 1) × states |
//!
//! A forward solve can keep what the replay would find, for callers who have the memory: the adjoint then saves T + 1
//! products and touches the maps' gradient twice.

use super::cg::{Cg, CgStart, Scalars, System, Work, multiply_into};
use super::{Agreement, ConsensusGrad, InnerReport};
use crate::linalg::simd::{fma, kernel};
use crate::linalg::vector::{add, axpy, dot, scale_into};
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::{Real, Result};

impl<T: Real> Cg<T> {
    /// Scratch of the adjoint (and of the forward).
    pub fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let (n, m, t) = (op.sheaf().state_len(), op.sheaf().row_len(), self.stop.max_steps());
        self.forward_scratch_len(op) + 2 * (t + 1) * (n + m) + (2 * t + 1) * n + 6 * n + 5 * t
    }

    /// Numbers that spare the adjoint its replay.
    pub fn kept_len(&self, op: &SheafOp<'_, T>) -> usize {
        let (n, m, t) = (op.sheaf().state_len(), op.sheaf().row_len(), self.stop.max_steps());
        (t + 1) * m + (3 * t + 2) * n + 5 * t + 1
    }

    /// As [`forward`](Self::forward). Saves: `kept`.
    pub fn forward_keeping(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        z: &mut [T],
        kept: &mut [T], // kept_len(op)
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        let (mut work, half) = Work::carve(op, scratch);
        let system = System::new(self, op, rho, half);
        let mut steps = Steps::carve(self, op, kept);
        let report = system.run_keeping(w, z_prev, z, &mut work, &mut steps);
        *steps.count = T::from_f64(report.steps as f64);
        system.finish(w, z);
        Ok(report)
    }

    /// Adjoint of [`forward`](Self::forward), which it replays.
    pub fn vjp(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        _carry: &[T],
        d_z: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        _d_carry: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        self.vjp_kept(op, rho, w, z_prev, &mut [], d_z, d_w, d_z_prev, grad, scratch)
    }

    /// Adjoint of [`forward_keeping`](Self::forward_keeping), with what it kept; replays where `kept` is empty.
    pub fn vjp_kept(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        kept: &mut [T], // kept_len(op), or empty
        d_z: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let (n, m, max) = (op.sheaf().state_len(), op.sheaf().row_len(), self.stop.max_steps());
        let (front, rest) = scratch.split_at_mut(self.forward_scratch_len(op));
        let (mut work, half) = Work::carve(op, front);
        let system = System::new(self, op, rho, half);
        let (rows, rest) = rest.split_at_mut(2 * (max + 1) * m);
        let (states, rest) = rest.split_at_mut(2 * (max + 1) * n);
        let (qs, rest) = rest.split_at_mut(max * n);
        let (rs, rest) = rest.split_at_mut((max + 1) * n);
        let (x, rest) = rest.split_at_mut(n);
        let (scalars, rest) = rest.split_at_mut(5 * max);
        // The adjoint of the node scaling needs the solution and writes over what was kept.
        if !kept.is_empty() && system.half.is_none() {
            let steps = Steps::carve(self, op, kept);
            let t = steps.count.to_f64() as usize;
            close_gap(steps.rows, m, t, max);
            let kept = Kept { steps: t, qs: steps.qs, rs: steps.rs, scalars: steps.scalars };
            let (e_p, ps) = (&steps.rows[..(t + 1) * m], &mut steps.ps[..(t + 1) * n]);
            let (d_qs, e_dq) = (&mut states[..(t + 1) * n], &mut rows[..(t + 1) * m]);
            system.reverse(
                &kept,
                w,
                z_prev,
                &[],
                d_z,
                d_w,
                d_z_prev,
                grad,
                (e_p, e_dq),
                (d_qs, ps),
                &mut work,
                rest,
            );
            grad.maps.add_outers(op.sheaf(), op.maps(), system.gamma, t + 1, e_p, d_qs);
            grad.maps.add_outers(op.sheaf(), op.maps(), system.gamma, t + 1, e_dq, ps);
            return Ok(());
        }
        let report = {
            let (e_p, ps) = (&mut rows[..(max + 1) * m], &mut states[(max + 1) * n..]);
            let mut steps = Steps { rows: e_p, ps, qs, rs, scalars, count: &mut T::default() };
            system.run_keeping(w, z_prev, x, &mut work, &mut steps)
        };
        let t = report.steps;
        if t < max {
            close_gap(rows, m, t, max);
            states.copy_within((max + 1) * n..(max + 1 + t) * n, (t + 1) * n);
        }
        let kept = Kept { steps: t, qs, rs, scalars };
        let (rows, states) = (&mut rows[..2 * (t + 1) * m], &mut states[..2 * (t + 1) * n]);
        let (e_p, e_dq) = rows.split_at_mut((t + 1) * m);
        let (d_qs, ps) = states.split_at_mut((t + 1) * n);
        system.reverse(
            &kept,
            w,
            z_prev,
            x,
            d_z,
            d_w,
            d_z_prev,
            grad,
            (e_p, e_dq),
            (d_qs, ps),
            &mut work,
            rest,
        );
        grad.maps.add_outers(op.sheaf(), op.maps(), system.gamma, 2 * (t + 1), rows, states);
        Ok(())
    }
}

/// A solve that met its tolerance early leaves a gap before the start's rows: closes it, so that the terms are
/// contiguous.
fn close_gap<T: Copy>(rows: &mut [T], m: usize, steps: usize, max: usize) {
    if steps < max {
        rows.copy_within(max * m..(max + 1) * m, steps * m);
    }
}

/// Where the steps of a solve are written.
struct Steps<'s, T> {
    rows: &'s mut [T],    // [max + 1, rows]: e(p) of each step, e(start) last
    ps: &'s mut [T],      // [max + 1, states]: p of each step, room for the start
    qs: &'s mut [T],      // [max, states]
    rs: &'s mut [T],      // [max + 1, states]: r before the first step and after each
    scalars: &'s mut [T], // [max, 5]
    count: &'s mut T,     // how many ran
}

impl<'s, T: Real> Steps<'s, T> {
    fn carve(cfg: &Cg<T>, op: &SheafOp<'_, T>, kept: &'s mut [T]) -> Self {
        let (n, m, max) = (op.sheaf().state_len(), op.sheaf().row_len(), cfg.stop.max_steps());
        let (rows, rest) = kept.split_at_mut((max + 1) * m);
        let (ps, rest) = rest.split_at_mut((max + 1) * n);
        let (qs, rest) = rest.split_at_mut(max * n);
        let (rs, rest) = rest.split_at_mut((max + 1) * n);
        let (scalars, rest) = rest.split_at_mut(5 * max);
        Self { rows, ps, qs, rs, scalars, count: &mut rest[0] }
    }
}

/// What is known of the steps.
struct Kept<'s, T> {
    steps: usize,
    qs: &'s [T],      // [steps, states]
    rs: &'s [T],      // [steps + 1, states]
    scalars: &'s [T], // [steps, 5]
}

impl<T: Real> Kept<'_, T> {
    fn scalars(&self, t: usize) -> Scalars<T> {
        let k = &self.scalars[5 * t..][..5];
        Scalars { a: k[0], b: k[1], c: k[2], c_next: k[3], s: k[4] }
    }
}

impl<T: Real> System<'_, '_, T> {
    /// Runs the solve and writes every step down.
    fn run_keeping(
        &self,
        w: &[T],
        z_prev: &[T],
        x: &mut [T],
        work: &mut Work<'_, T>,
        to: &mut Steps<'_, T>,
    ) -> InnerReport {
        let (n, m, max) = (w.len(), work.y.len(), self.cfg.stop.max_steps());
        let Steps { rows, ps, qs, rs, scalars, .. } = to;
        // The exchanged residuals are written where the terms will be read: first the start's, then each step's.
        let (steps_rows, start_rows) = rows[..(max + 1) * m].split_at_mut(max * m);
        let mut places = steps_rows.chunks_exact_mut(m.max(1));
        let mut work = Work { s: start_rows, ..work.reborrow() };
        self.run(w, z_prev, x, &mut work, |t, step, work| {
            if let Some(k) = step {
                ps[t * n..][..n].copy_from_slice(work.p);
                qs[t * n..][..n].copy_from_slice(work.q);
                rs[(t + 1) * n..][..n].copy_from_slice(work.r);
                scalars[5 * t..][..5].copy_from_slice(&[k.a, k.b, k.c, k.c_next, k.s]);
            } else {
                rs[..n].copy_from_slice(work.r);
            }
            if let Some(place) = places.next() {
                work.s = place;
            }
        })
    }

    #[allow(clippy::too_many_lines)]
    fn reverse(
        &self,
        kept: &Kept<'_, T>,
        w: &[T],
        z_prev: &[T],
        x: &[T],
        d_z: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        (rows_p, rows_dq): (&[T], &mut [T]), // [steps + 1, rows] each
        (d_qs, ps): (&mut [T], &mut [T]),    // [steps + 1, states] each
        work: &mut Work<'_, T>,
        scratch: &mut [T],
    ) {
        let (n, m, steps) = (d_z.len(), work.y.len(), kept.steps);
        let (d_x, rest) = scratch.split_at_mut(n);
        let (d_p, rest) = rest.split_at_mut(n);
        let (d_r, rest) = rest.split_at_mut(n);
        let (a_dq, d_half) = rest.split_at_mut(n);
        let d_half = &mut d_half[..n];
        d_half.fill(T::ZERO);
        self.finish_vjp(x, d_z, d_w, d_x, d_half);
        d_p.fill(T::ZERO);
        d_r.fill(T::ZERO);
        let mut d_c_next = T::ZERO;
        for t in (0..steps).rev() {
            let k = kept.scalars(t);
            let (p, q, r_next) = (&ps[t * n..][..n], &kept.qs[t * n..][..n], &kept.rs[(t + 1) * n..][..n]);
            let (d_q, e_dq) = (&mut d_qs[t * n..][..n], &mut rows_dq[t * m..][..m]);
            let c_guarded = k.c + self.cfg.guard;
            if t + 1 == steps {
                // Nothing reads r and p after the last step, so q̄ = s̄ p: its product is at hand, A q̄ = s̄ q.
                let d_a = dot(d_x, p);
                let d_s = -d_a * k.c / (k.s * k.s);
                d_c_next = d_a / k.s;
                back_update(d_p, d_q, d_x, d_r, p, q, k.a, d_s);
                scale_into(a_dq, d_s, q);
                scale_into(e_dq, d_s, &rows_p[t * m..][..m]);
            } else {
                // p' = r' + b p, b = c'/(c + e), c' = r'·r'
                let d_b = dot(d_p, p);
                d_c_next += d_b / c_guarded;
                let mut d_c = -d_b * k.c_next / (c_guarded * c_guarded);
                back_direction(d_r, d_p, r_next, k.b, d_c_next + d_c_next);
                // x' = x + a p, r' = r − a q, a = c/s, s = p·q + e
                let d_a = dot(d_x, p) - dot(d_r, q);
                d_c += d_a / k.s;
                let d_s = -d_a * k.c / (k.s * k.s);
                back_update(d_p, d_q, d_x, d_r, p, q, k.a, d_s);
                // q = A p
                self.apply(d_q, a_dq, work.y, e_dq, work.tmp);
                d_c_next = d_c;
            }
            add(d_p, a_dq);
            self.pair_scalars(d_q, p, q, grad);
            if let Some(half) = self.half {
                self.pair_half(half, d_q, a_dq, p, q, d_half);
            }
        }
        // p_0 = r_0, c_0 = r_0·r_0
        add(d_r, d_p);
        axpy(d_r, d_c_next + d_c_next, &kept.rs[..n]);
        let last = (&mut d_qs[steps * n..], &mut ps[steps * n..], &mut rows_dq[steps * m..]);
        self.begin_vjp(w, z_prev, x, d_x, d_r, d_w, d_z_prev, grad, last, d_half, a_dq, work);
        if self.half.is_some() {
            // Pairs act on S p: the maps see scaled states.
            let half = self.half.unwrap_or_default();
            for state in d_qs[..steps * n].chunks_exact_mut(n).chain(ps[..steps * n].chunks_exact_mut(n)) {
                state.iter_mut().zip(half).for_each(|(s, &h)| *s *= h);
            }
            self.half_to_rho(half, d_half, grad.rho);
        }
    }

    /// Adds d_shift and d_gamma of q = A p. With q at hand, q̄·Lp = (q̄·q − q̄·shift p)/γ.
    fn pair_scalars(&self, d_q: &[T], p: &[T], q: &[T], grad: &mut ConsensusGrad<'_, '_, T>) {
        if self.cfg.agreement == Agreement::Hard {
            return;
        }
        let mut shifted = T::ZERO;
        match self.shift {
            Penalty::Scalar(shift) => {
                let along = dot(d_q, p);
                grad.rho[0] += along;
                shifted += shift * along;
            }
            Penalty::PerAgent(shift) => {
                for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
                    let along = dot(&d_q[range[0]..range[1]], &p[range[0]..range[1]]);
                    grad.rho[i] += along;
                    shifted += shift[i] * along;
                }
            }
        }
        *grad.gamma += (dot(d_q, q) - shifted) / self.gamma;
    }

    /// Adds d_S of q = S L S p + ε p: q̄∘(L S p) + p∘(L S q̄), both read off the products at hand.
    fn pair_half(&self, half: &[T], d_q: &[T], a_dq: &[T], p: &[T], q: &[T], d_half: &mut [T]) {
        let eps = self.cfg.tikhonov;
        for k in 0..p.len() {
            let (l_p, l_dq) = ((q[k] - eps * p[k]) / half[k], (a_dq[k] - eps * d_q[k]) / half[k]);
            d_half[k] += d_q[k] * l_p + p[k] * l_dq;
        }
    }

    /// Adjoint of [`finish`](Self::finish): sets d_x.
    fn finish_vjp(&self, x: &[T], d_z: &[T], d_w: &mut [T], d_x: &mut [T], d_half: &mut [T]) {
        match (self.cfg.agreement, self.half) {
            (Agreement::Soft { .. }, _) => d_x.copy_from_slice(d_z),
            (Agreement::Hard, None) => {
                add(d_w, d_z);
                d_x.iter_mut().zip(d_z).for_each(|(d_x, &d_z)| *d_x = -d_z);
            }
            (Agreement::Hard, Some(half)) => {
                add(d_w, d_z);
                for k in 0..x.len() {
                    d_x[k] = -half[k] * d_z[k];
                    d_half[k] -= x[k] * d_z[k];
                }
            }
        }
    }

    /// Adjoint of [`begin`](Self::begin); fills the last pair (d_q, p, rows of d_q).
    fn begin_vjp(
        &self,
        w: &[T],
        z_prev: &[T],
        _x: &[T],
        d_x: &[T],
        d_r: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        (d_q, p, rows_dq): (&mut [T], &mut [T], &mut [T]),
        d_half: &mut [T],
        l_dr: &mut [T],
        work: &mut Work<'_, T>,
    ) {
        // The product of the start is ±S L y: its adjoint pair is (±S r̄_0, y).
        match self.half {
            None => d_q.copy_from_slice(d_r),
            Some(half) => multiply_into(d_q, half, d_r),
        }
        self.op.laplacian(d_q, l_dr, work.y, rows_dq);
        match (self.cfg.agreement, self.cfg.start) {
            (Agreement::Soft { .. }, CgStart::Published | CgStart::Zero) => {
                // r_0 = −γ L w, start = w
                add(d_w, d_x);
                axpy(d_w, -self.gamma, l_dr);
                p.iter_mut().zip(w).for_each(|(p, &w)| *p = -w);
                // The exchanged residuals of the start were taken at w: flip the other factor instead.
                *grad.gamma -= dot(l_dr, w);
                self.flip(d_q);
            }
            (Agreement::Soft { .. }, CgStart::Warm) => {
                // r_0 = ρ(w − z_prev) − γ L z_prev, start = z_prev without gradient
                for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
                    let rho = self.shift.of(i);
                    let d_rho = &mut grad.rho[self.shift.grad_index(i)];
                    for k in range[0]..range[1] {
                        d_w[k] += rho * d_r[k];
                        *d_rho += d_r[k] * (w[k] - z_prev[k]);
                    }
                }
                p.iter_mut().zip(z_prev).for_each(|(p, &z)| *p = -z);
                *grad.gamma -= dot(l_dr, z_prev);
                self.flip(d_q);
            }
            (Agreement::Hard, CgStart::Published) => {
                // start = S⁻¹(w − z_prev), r_0 = S L z_prev − ε start
                let eps = self.cfg.tikhonov;
                for k in 0..w.len() {
                    let d_start = d_x[k] - eps * d_r[k];
                    let h = self.half.map_or(T::ONE, |half| half[k]);
                    d_w[k] += d_start / h;
                    d_z_prev[k] += l_dr[k] - d_start / h;
                    if self.half.is_some() {
                        d_half[k] -= d_start * (w[k] - z_prev[k]) / (h * h);
                    }
                }
                self.begin_half(z_prev, d_r, d_half, work);
                p.copy_from_slice(z_prev);
            }
            (Agreement::Hard, CgStart::Zero | CgStart::Warm) => {
                // r_0 = S L w
                add(d_w, l_dr);
                self.begin_half(w, d_r, d_half, work);
                p.copy_from_slice(w);
            }
        }
    }

    /// d_S of r_0 = S L y: r̄_0 ∘ L y.
    fn begin_half(&self, y: &[T], d_r: &[T], d_half: &mut [T], work: &mut Work<'_, T>) {
        if self.half.is_some() {
            self.op.laplacian(y, work.tmp, work.y, work.s);
            for k in 0..y.len() {
                d_half[k] += d_r[k] * work.tmp[k];
            }
        }
    }

    /// The pair of a start with a minus sign is (−r̄_0, y): e(y) meets −r̄_0, and −y meets e(r̄_0).
    fn flip(&self, d_q: &mut [T]) {
        d_q.iter_mut().for_each(|d| *d = -*d);
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

#[inline(always)]
fn back_direction_body<T: Real, const FMA: bool>(
    d_r: &mut [T],
    d_p: &mut [T],
    r_next: &[T],
    b: T,
    two_dc: T,
) {
    for ((d_r, d_p), &r) in d_r.iter_mut().zip(d_p.iter_mut()).zip(r_next) {
        *d_r += fma::<T, FMA>(two_dc, r, *d_p);
        *d_p *= b;
    }
}

kernel! {
    /// r̄ += p̄ + two_dc·r', then p̄ = b·p̄.
    fn back_direction, back_direction_at<T>(d_r: &mut [T], d_p: &mut [T], r_next: &[T], b: T, two_dc: T)
        = back_direction_body;
}

#[inline(always)]
fn back_update_body<T: Real, const FMA: bool>(
    d_p: &mut [T],
    d_q: &mut [T],
    d_x: &[T],
    d_r: &[T],
    p: &[T],
    q: &[T],
    a: T,
    d_s: T,
) {
    let n = d_p.len();
    let (d_q, d_x, d_r, p, q) = (&mut d_q[..n], &d_x[..n], &d_r[..n], &p[..n], &q[..n]);
    for k in 0..n {
        d_p[k] = fma::<T, FMA>(a, d_x[k], fma::<T, FMA>(d_s, q[k], d_p[k]));
        d_q[k] = fma::<T, FMA>(d_s, p[k], -(a * d_r[k]));
    }
}

kernel! {
    /// p̄ += a·x̄ + s̄·q;  q̄ = s̄·p − a·r̄.
    fn back_update, back_update_at<T>(
        d_p: &mut [T], d_q: &mut [T], d_x: &[T], d_r: &[T], p: &[T], q: &[T], a: T, d_s: T,
    ) = back_update_body;
}
