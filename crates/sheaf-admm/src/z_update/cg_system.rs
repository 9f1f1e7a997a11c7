//! A running conjugate-gradient solve: the system, its vectors, and the steps. The equations stand at the head of
//! [`cg`](super::cg).

use std::ops::Range;
use std::slice::ChunksExactMut;

use super::cg::{Cg, CgStart, CgStop, REFRESH};
use super::{Agreement, InnerReport};
use crate::Real;
use crate::linalg::vector::{axpy, cg_update, dot, scale_shift, sub, xpby_into};
use crate::sheaf::{Made, SheafOp};
use crate::x_update::Penalty;

/// Vectors of a running solve.
pub(super) struct Work<'s, T> {
    pub r: &'s mut [T],      // [states]
    pub p: &'s mut [T],      // [states]
    pub p_prev: &'s mut [T], // [states]
    pub q: &'s mut [T],      // [states]
    pub tmp: &'s mut [T],    // [states]
    pub y: &'s mut [T],      // [rows]
    pub s: &'s mut [T],      // [rows]
}

impl<'s, T: Real> Work<'s, T> {
    /// Takes the vectors, and the node scaling `[states]`, from the front of `scratch`. Rows come first: they start
    /// on a cache line when the scratch does.
    pub(super) fn carve(op: &SheafOp<'_, T>, scratch: &'s mut [T]) -> (Self, &'s mut [T]) {
        let (n, m) = (op.sheaf().state_len(), op.sheaf().row_len());
        let (y, rest) = scratch.split_at_mut(m);
        let (s, rest) = rest.split_at_mut(m);
        let (r, rest) = rest.split_at_mut(n);
        let (p, rest) = rest.split_at_mut(n);
        let (p_prev, rest) = rest.split_at_mut(n);
        let (q, rest) = rest.split_at_mut(n);
        let (tmp, rest) = rest.split_at_mut(n);
        (Self { r, p, p_prev, q, tmp, y, s }, &mut rest[..n])
    }
}

impl<T> Work<'_, T> {
    /// The same vectors for a shorter while.
    pub(super) fn reborrow(&mut self) -> Work<'_, T> {
        let Work { r, p, p_prev, q, tmp, y, s } = self;
        Work { r, p, p_prev, q, tmp, y, s }
    }
}

/// Places where the steps of a solve are written down for its adjoint: the vectors of [`Work`] move there one by one.
pub(super) struct Places<'s, T> {
    pub rows: Option<ChunksExactMut<'s, T>>, // of [rows]: e(start), then e(p) of each step
    pub ps: ChunksExactMut<'s, T>,           // of [states]
    pub qs: ChunksExactMut<'s, T>,           // of [states]
    pub scalars: ChunksExactMut<'s, T>,      // of 5
}

impl<'s, T: Real> Places<'s, T> {
    /// The next residuals take their place, where they are kept.
    fn install_rows(&mut self, work: &mut Work<'s, T>) {
        if let Some(s) = self.rows.as_mut().and_then(Iterator::next) {
            work.s = s;
        }
    }

    /// The next step's vectors take their places.
    fn install(&mut self, work: &mut Work<'s, T>) {
        if let (Some(p), Some(q)) = (self.ps.next(), self.qs.next()) {
            (work.p, work.q) = (p, q);
            self.install_rows(work);
        }
    }
}

/// The scalars of one step.
#[derive(Clone, Copy)]
pub(super) struct Scalars<T> {
    pub a: T,
    pub b: T,
    pub c: T,
    pub c_next: T,
    pub s: T,
}

/// A = γ·S L S + diag(shift) and what surrounds it.
pub(super) struct System<'a, 's, T> {
    pub cfg: &'a Cg<T>,
    pub op: &'a SheafOp<'a, T>,
    pub gamma: T,
    pub shift: Penalty<'a, T>,
    /// The diagonal of S per coordinate; absent when it is the identity.
    pub half: Option<&'s [T]>,
}

impl<'a, 's, T: Real> System<'a, 's, T> {
    pub(super) fn new(
        cfg: &'a Cg<T>,
        op: &'a SheafOp<'a, T>,
        rho: &Penalty<'a, T>,
        half: &'s mut [T],
    ) -> Self {
        match (cfg.agreement, rho) {
            (Agreement::Soft { gamma }, _) => Self { cfg, op, gamma, shift: *rho, half: None },
            (Agreement::Hard, Penalty::Scalar(_)) => {
                Self { cfg, op, gamma: T::ONE, shift: Penalty::Scalar(cfg.tikhonov), half: None }
            }
            (Agreement::Hard, Penalty::PerAgent(rho)) => {
                for (range, &rho) in op.sheaf().state_offsets().windows(2).zip(*rho) {
                    half[range[0]..range[1]].fill(T::ONE / rho.sqrt());
                }
                Self { cfg, op, gamma: T::ONE, shift: Penalty::Scalar(cfg.tikhonov), half: Some(half) }
            }
        }
    }

    /// out = S L S p without shift; leaves the exchanged residuals in `s`.
    pub(super) fn laplacian(&self, p: &[T], out: &mut [T], y: &mut [T], s: &mut [T], tmp: &mut [T]) {
        match self.half {
            None => self.op.laplacian(p, out, y, s),
            Some(half) => {
                multiply_into(tmp, half, p);
                self.op.laplacian(tmp, out, y, s);
                out.iter_mut().zip(half).for_each(|(o, &h)| *o *= h);
            }
        }
    }

    /// q = A p; leaves the exchanged residuals of S p in `s`.
    pub(super) fn apply(&self, p: &[T], q: &mut [T], y: &mut [T], s: &mut [T], tmp: &mut [T]) {
        self.laplacian(p, q, y, s, tmp);
        match self.shift {
            Penalty::Scalar(shift) => scale_shift(q, self.gamma, shift, p),
            Penalty::PerAgent(shift) => {
                for (range, &shift) in self.op.sheaf().state_offsets().windows(2).zip(shift) {
                    let range = range[0]..range[1];
                    scale_shift(&mut q[range.clone()], self.gamma, shift, &p[range]);
                }
            }
        }
    }

    /// out += factor·ρ·(a − b), ρ the shift of the soft system.
    fn add_shifted_difference(&self, out: &mut [T], a: &[T], b: &[T]) {
        for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
            let rho = self.shift.of(i);
            for k in range[0]..range[1] {
                out[k] += rho * (a[k] - b[k]);
            }
        }
    }

    /// x = start, r = b − A·start. In every case one Laplacian suffices: the parts of b and A·start that cancel are
    /// never formed. Returns with the exchanged residuals of the product in `work.s`, where they are kept.
    fn begin(&self, w: &[T], z_prev: &[T], carry: &[T], x: &mut [T], work: &mut Work<'_, T>, keep: bool) {
        let Work { r, y, s, .. } = work;
        match (self.cfg.agreement, self.cfg.start) {
            (Agreement::Soft { .. }, start) => {
                let from = if start == CgStart::Warm { z_prev } else { w };
                let input = Made { to: x, make: |part, x: &mut [T]| x.copy_from_slice(&from[part]) };
                self.op.sweep(-self.gamma, T::ZERO, input, r, y, s, keep, |_, _, _| {});
                if start == CgStart::Warm {
                    self.add_shifted_difference(r, w, z_prev);
                }
            }
            (Agreement::Hard, CgStart::Published | CgStart::Carried) => {
                sub(x, w, z_prev);
                match self.carried(carry) {
                    Some(l_z) => r.copy_from_slice(l_z),
                    None => self.op.laplacian(z_prev, r, y, s),
                }
                if let Some(half) = self.half {
                    x.iter_mut().zip(half).for_each(|(x, &h)| *x /= h);
                    r.iter_mut().zip(half).for_each(|(r, &h)| *r *= h);
                }
                axpy(r, -self.cfg.tikhonov, x);
            }
            (Agreement::Hard, CgStart::Zero | CgStart::Warm) => {
                x.fill(T::ZERO);
                self.op.laplacian(w, r, y, s);
                if let Some(half) = self.half {
                    r.iter_mut().zip(half).for_each(|(r, &h)| *r *= h);
                }
            }
        }
    }

    /// L z_prev, if the solve before left it. The node scaling changes with the penalties, so that nothing is carried
    /// where there is one.
    pub(super) fn carried<'c>(&self, carry: &'c [T]) -> Option<&'c [T]> {
        let (age, l_z) = carry.split_last()?;
        (*age != T::ZERO && self.half.is_none()).then_some(l_z)
    }

    /// Leaves L z = r + ε·solution to the next solve.
    pub(super) fn carry_on(&self, r: &[T], x: &[T], carry: &mut [T]) {
        let Some((age, l_z)) = carry.split_last_mut() else { return };
        if self.half.is_some() {
            return;
        }
        l_z.copy_from_slice(r);
        axpy(l_z, self.cfg.tikhonov, x);
        let next = age.to_f64() as usize + 1;
        *age = T::from_f64((next % REFRESH) as f64);
    }

    /// Turns the solution into the answer.
    pub(super) fn finish(&self, w: &[T], z: &mut [T]) {
        if self.cfg.agreement == Agreement::Hard {
            if let Some(half) = self.half {
                z.iter_mut().zip(half).for_each(|(z, &h)| *z *= h);
            }
            z.iter_mut().zip(w).for_each(|(z, &w)| *z = w - *z);
        }
    }

    /// The squared residual to reach, in tolerance mode.
    fn goal(&self, w: &[T], work: &mut Work<'_, T>) -> Option<T> {
        let CgStop::Tolerance { absolute, relative, .. } = self.cfg.stop else { return None };
        let Work { q, y, s, tmp, .. } = work;
        match self.cfg.agreement {
            Agreement::Soft { .. } => {
                q.fill(T::ZERO);
                tmp.fill(T::ZERO);
                self.add_shifted_difference(q, w, tmp);
            }
            Agreement::Hard => {
                self.op.laplacian(w, q, y, s);
                if let Some(half) = self.half {
                    q.iter_mut().zip(half).for_each(|(q, &h)| *q *= h);
                }
            }
        }
        let goal = absolute.max(relative * dot(q, q).sqrt());
        Some(goal * goal)
    }

    /// p = r + b·p_prev (r alone in the first step), q = A p; returns p·q.
    fn turn(&self, b: Option<T>, work: &mut Work<'_, T>, keep: bool) -> T {
        let Work { r, p, p_prev, q, tmp, y, s } = work;
        let make = |part: Range<usize>, p: &mut [T]| match b {
            Some(b) => xpby_into(p, &r[part.clone()], b, &p_prev[part]),
            None => p.copy_from_slice(&r[part]),
        };
        if let (None, Penalty::Scalar(shift)) = (self.half, self.shift) {
            let mut along = T::ZERO;
            let sum = |_, p: &[T], q: &[T]| along += dot(p, q);
            self.op.sweep(self.gamma, shift, Made { to: p, make }, q, y, s, keep, sum);
            return along;
        }
        make(0..p.len(), p);
        self.apply(p, q, y, s, tmp);
        dot(p, q)
    }

    /// Runs the solve. Where there are `places`, the start's residuals and p, q, e(p) and the scalars of every step are
    /// left there.
    pub(super) fn run<'w>(
        &self,
        w: &[T],
        z_prev: &[T],
        carry: &[T],
        x: &mut [T],
        work: &mut Work<'w, T>,
        mut places: Option<Places<'w, T>>,
    ) -> InnerReport {
        let (guard, keep) = (self.cfg.guard, places.as_ref().is_some_and(|p| p.rows.is_some()));
        let goal = self.goal(w, work);
        if let Some(places) = &mut places {
            places.install_rows(work);
        }
        self.begin(w, z_prev, carry, x, work, keep);
        let (mut c, mut b, mut steps) = (dot(work.r, work.r), None, 0);
        while steps < self.cfg.stop.max_steps() && goal.is_none_or(|goal| c > goal) {
            std::mem::swap(&mut work.p, &mut work.p_prev);
            if let Some(places) = &mut places {
                places.install(work);
            }
            let s = self.turn(b, work, keep) + guard;
            // Without a guard, an exactly solved system has nothing left to divide by.
            if s <= T::ZERO || c + guard <= T::ZERO {
                break;
            }
            let (a, mut c_next) = (c / s, T::ZERO);
            cg_update(x, work.r, work.p, work.q, a, &mut c_next);
            let next = c_next / (c + guard);
            if let Some(scalars) = places.as_mut().and_then(|places| places.scalars.next()) {
                scalars.copy_from_slice(&[a, next, c, c_next, s]);
            }
            (c, b) = (c_next, Some(next));
            steps += 1;
        }
        InnerReport { steps, converged: goal.is_none_or(|goal| c <= goal) }
    }
}

/// out = a∘b.
pub(super) fn multiply_into<T: Real>(out: &mut [T], a: &[T], b: &[T]) {
    for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *o = a * b;
    }
}
