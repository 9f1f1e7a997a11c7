//! Conjugate gradients on the states, by T fixed steps or to a tolerance.
//!
//! The system is A z = b with A = γ·S L S + diag(shift), L = FᵀF and a symmetric node scaling S (absent unless
//! agents have penalties of their own in the hard case).
//!
//! | agreement | A | b | start | answer |
//! | --- | --- | --- | --- | --- |
//! | soft | γL + ρ | ρ w | w, or z_prev without gradient | z |
//! | hard, published or carried | L + ε | L w | w − z_prev | w − solution |
//! | hard, exact | L + ε | L w | 0 | w − solution |
//!
//! The published hard start is inexact on purpose: kernel components of w − z_prev are never removed. With one
//! penalty per agent the hard problem is solved in the scaled variable ρ^½ z, where the weighted projection becomes an
//! ordinary one (S = ρ^−½).
//!
//! One step, with guard e: q = A p, s = p·q + e, a = c/s (c = r·r), x += a p, r −= a q, c' = r·r, b = c'/(c + e),
//! p' = r' + b p. Its adjoint, primes being values after the step and bars gradients:
//!
//! ```text
//! r̄' += p̄';  b̄ = p̄'·p;  p̄ = b p̄';  c̄' += b̄/(c + e);  c̄ = −b̄ c'/(c + e)²;  r̄' += 2 c̄' r'
//! ā = x̄·p − r̄'·q;  p̄ += a x̄;  q̄ = −a r̄';  c̄ += ā/s;  s̄ = −ā c/s²;  p̄ += s̄ q;  q̄ += s̄ p;  p̄ += A q̄
//! ```
//!
//! and A receives the pair (q̄, p): dF += γ (e(p) q̄ᵀ + e(q̄) pᵀ), dγ += q̄·Lp, dshift += q̄·p. All pairs of a solve are
//! collected and added to dF at once.

mod adjoint;
mod ends;
mod steps;
mod work;

use std::ops::Range;

use super::{Agreement, InnerReport, Stop};
use crate::error::check_positive;
use crate::sheaf::{Made, SheafOp};
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::vector::{cg_update, dot, scale_shift, xpby, xpby_into};
use work::{Keep, Places, Work};

/// Where the iteration starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgStart {
    /// The published choice: w (soft), w − z_prev (hard, inexact on purpose).
    Published,
    /// Soft: at z_prev, through which no gradient flows. Hard: as [`CgStart::Zero`].
    Warm,
    /// Hard: at 0, which makes the converged answer the exact projection. Soft: as [`CgStart::Published`].
    Zero,
    /// Hard: as [`CgStart::Published`], but r_0 = L z_prev − ε·start takes L z_prev from the end of the solve before,
    /// where it is r + ε·solution: the same numbers but for rounding, and one product fewer. Every [`REFRESH`]th solve
    /// computes it anew, because rounding errors in it do not fade. Soft, or with one penalty per agent: as
    /// [`CgStart::Published`].
    Carried,
}

/// Solves with [`CgStart::Carried`] from one computation of L z_prev to the next.
pub const REFRESH: usize = 16;

/// Conjugate gradients on the states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cg<T> {
    /// Hard or soft.
    pub agreement: Agreement<T>,
    /// When to stop; a relative tolerance is relative to the right side b.
    pub stop: Stop<T>,
    /// Where to start.
    pub start: CgStart,
    /// Added to both denominators; 1e-8 as published, 0 for solves to a tight tolerance.
    pub guard: T,
    /// Tikhonov term of the hard system; 1e-5 as published.
    pub tikhonov: T,
}

impl<T: Real> Cg<T> {
    /// The published solver: `steps` fixed steps, guard 1e-8, Tikhonov 1e-5, published start.
    pub fn published(agreement: Agreement<T>, steps: usize) -> Self {
        Self {
            agreement,
            stop: Stop::Steps(steps),
            start: CgStart::Published,
            guard: T::from_f64(1e-8),
            tikhonov: T::from_f64(1e-5),
        }
    }

    /// A solve to a relative tolerance, from a start that makes the hard answer the exact projection.
    pub fn to_tolerance(agreement: Agreement<T>, relative: T, max_steps: usize) -> Self {
        Self {
            agreement,
            stop: Stop::Tolerance { absolute: T::ZERO, relative, max_steps },
            start: CgStart::Zero,
            guard: T::ZERO,
            tikhonov: T::ZERO,
        }
    }

    /// Checks the options.
    pub fn validate(&self, _op: &SheafOp<'_, T>) -> Result<()> {
        if let Agreement::Soft { gamma } = self.agreement {
            check_positive("gamma", gamma.to_f64())?;
        }
        for (place, value) in [("cg guard", self.guard), ("cg tikhonov", self.tikhonov)] {
            if !(value.is_finite() && value >= T::ZERO) {
                return Err(Error::new(ErrorKind::NotPositive, place, "a finite number, 0 or above", value));
            }
        }
        self.stop.validate("cg")
    }

    /// Numbers carried to the next solve: L z and how many solves ago it was computed.
    pub(crate) fn carry_len(&self, op: &SheafOp<'_, T>) -> usize {
        match (self.agreement, self.start) {
            (Agreement::Hard, CgStart::Carried) => op.sheaf().state_len() + 1,
            _ => 0,
        }
    }

    /// Scratch of a forward solve.
    pub(crate) fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        2 * op.sheaf().row_len() + 6 * op.sheaf().state_len()
    }

    /// Solves. Saves: nothing; the adjoint replays.
    pub(crate) fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &mut [T], // carry_len(op)
        z: &mut [T],
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        let (mut work, half) = Work::carve(op, scratch);
        let system = System::new(self, op, rho, half);
        let report = system.run(w, z_prev, carry, z, &mut work, None);
        system.carry_on(work.r, z, carry);
        system.finish(w, z);
        Ok(report)
    }
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
    pub(crate) fn new(
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
    pub(crate) fn laplacian(&self, p: &[T], out: &mut [T], y: &mut [T], s: &mut [T], tmp: &mut [T]) {
        match self.half {
            None => self.op.raw().laplacian(p, out, y, s),
            Some(half) => {
                multiply_into(tmp, half, p);
                self.op.raw().laplacian(tmp, out, y, s);
                out.iter_mut().zip(half).for_each(|(o, &h)| *o *= h);
            }
        }
    }

    /// q = A p; leaves the exchanged residuals of S p in `s`.
    pub(crate) fn apply(&self, p: &[T], q: &mut [T], y: &mut [T], s: &mut [T], tmp: &mut [T]) {
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

    /// The squared residual to reach, in tolerance mode.
    fn goal(&self, w: &[T], work: &mut Work<'_, T>) -> Option<T> {
        let Stop::Tolerance { .. } = self.cfg.stop else { return None };
        let Work { q, y, s, tmp, .. } = work;
        match self.cfg.agreement {
            Agreement::Soft { .. } => {
                q.fill(T::ZERO);
                tmp.fill(T::ZERO);
                self.add_shifted_difference(q, w, tmp);
            }
            Agreement::Hard => {
                self.op.raw().laplacian(w, q, y, s);
                if let Some(half) = self.half {
                    q.iter_mut().zip(half).for_each(|(q, &h)| *q *= h);
                }
            }
        }
        self.cfg.stop.goal(dot(q, q).sqrt()).map(|goal| goal * goal)
    }

    /// p = r + b·p (r alone in the first step), q = A p; returns p·q. Where steps are kept, the old p is in `p_prev`.
    fn turn(&self, b: Option<T>, work: &mut Work<'_, T>, keep: Keep) -> T {
        let Work { r, p, p_prev, q, tmp, y, s } = work;
        let r = &**r;
        let make = |part: Range<usize>, p: &mut [T]| match b {
            Some(b) if keep.steps => xpby_into(p, &r[part.clone()], b, &p_prev[part]),
            Some(b) => xpby(p, &r[part], b),
            None => p.copy_from_slice(&r[part]),
        };
        if let (None, Penalty::Scalar(shift)) = (self.half, self.shift) {
            let mut along = T::ZERO;
            let sum = |_, p: &[T], q: &[T]| along += dot(p, q);
            let input = Made { to: p, make, from: r };
            self.op.raw().sweep(self.gamma, shift, input, q, y, s, keep.rows, sum);
            return along;
        }
        make(0..p.len(), p);
        self.apply(p, q, y, s, tmp);
        dot(p, q)
    }

    /// Runs the solve. Where there are `places`, p, q and the scalars of every step are left there and, if they have
    /// room for rows, the residuals e(start) and e(p).
    pub(super) fn run<'w>(
        &self,
        w: &[T],
        z_prev: &[T],
        carry: &[T],
        x: &mut [T],
        work: &mut Work<'w, T>,
        mut places: Option<Places<'w, T>>,
    ) -> InnerReport {
        let (guard, keep) = (self.cfg.guard, Keep::of(places.as_ref()));
        let goal = self.goal(w, work);
        if let Some(places) = &mut places {
            places.install_rows(work);
        }
        self.begin(w, z_prev, carry, x, work, keep.rows);
        let (mut c, mut b, mut steps) = (dot(work.r, work.r), None, 0);
        while steps < self.cfg.stop.max_steps() && goal.is_none_or(|goal| c > goal) {
            if let Some(places) = &mut places {
                std::mem::swap(&mut work.p, &mut work.p_prev);
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
pub(crate) fn multiply_into<T: Real>(out: &mut [T], a: &[T], b: &[T]) {
    for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *o = a * b;
    }
}
