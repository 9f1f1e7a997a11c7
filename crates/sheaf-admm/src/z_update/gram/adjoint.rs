//! The adjoint of CG in Gram space: a replay of its vectors, then the steps in reverse.

use super::System;
use super::work::{Adjoint, Kept, pair};
use crate::Real;
use crate::sheaf::MapsGrad;
use crate::z_update::krylov::{self, PerStep, Reports, StepsVjp, Tape};
use crate::z_update::{Agreement, ConsensusGrad};
use sheaf_kernels::cliques::{
    Direction, DirectionVjp, ResidualVjp, advance, direction, direction_vjp, residual_vjp,
};
use sheaf_kernels::vector::{add, axpy, dot};

impl<T: Real> System<'_, T> {
    /// Given d_z, adds to d_w and to all gradients.
    pub(super) fn vjp(
        &self,
        w: &[T],
        kept: &mut Kept<'_, T>,
        steps: usize,
        d_z: &[T],
        d_w: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        work: &mut Adjoint<'_, T>,
    ) {
        let (maps, m) = (&self.space.maps, self.space.m);
        add(d_w, d_z);
        if self.n == 0 {
            return;
        }
        let (y, s, tape, reports) = kept.parts();
        self.replay(y, &s, &tape, &reports, steps, work);
        maps.project(d_z, work.f, m);
        let [d_rho, d_gamma] = self.steps_vjp(&s, &tape, &reports, work);
        if let Agreement::Soft { .. } = self.cfg.agreement {
            grad.rho[0] += d_rho;
            *grad.gamma += (d_gamma + dot(work.d_r, &work.r[..self.n])) / self.gamma;
        }
        // The gradient of y takes the place of that of p, which is no longer needed.
        self.space.exchange(-self.gamma, work.d_r, work.d_p, work.sums);
        if let MapsGrad::Shared(grad) = &mut *grad.maps {
            let all = steps * self.n;
            grad.add_gram(maps, &work.d_s[..all], &work.r[..all]);
            grad.add_pair(maps, T::ONE, work.xi, m, d_z);
            grad.add_pair(maps, T::ONE, work.d_p, m, w);
        }
        maps.lift(work.d_p, m, d_w, true);
    }

    /// Rebuilds r, p, e, k of every step and ξ, without a product. Vectors of step t are stored at index t.
    fn replay(
        &self,
        y: &[T],
        s: &PerStep<'_, T>,
        tape: &Tape<'_, T>,
        reports: &Reports<'_, T>,
        steps: usize,
        work: &mut Adjoint<'_, T>,
    ) {
        self.space.exchange(-self.gamma, y, &mut work.r[..self.n], work.sums);
        work.xi.fill(T::ZERO);
        for t in 0..steps {
            for sample in 0..self.samples {
                if t < reports.get(sample).steps {
                    self.step_again(t, t + 1 < steps, sample, s.at(t), tape, work);
                } else if t + 1 < steps {
                    work.r[(t + 1) * self.n..][self.own(sample)].fill(T::ZERO);
                }
            }
        }
    }

    /// Repeats a step of one sample, with its scalars known.
    fn step_again(
        &self,
        t: usize,
        goes_on: bool,
        sample: usize,
        s: &[T],
        tape: &Tape<'_, T>,
        work: &mut Adjoint<'_, T>,
    ) {
        let (n, len, o) = (self.n, self.space.sample, sample * self.space.sample);
        let (at, prev, next) = (t * n + o, t.saturating_sub(1) * n + o, (t + 1) * n + o);
        let (scalars, mut known) = (tape.get(t, sample), T::ZERO);
        let s = &s[o..][..len];
        let (r, k) = (&work.r[at..][..len], &mut work.k[at..][..len]);
        let ((p_prev, p), (e_prev, e)) = if t == 0 {
            ((r, &mut work.p[at..][..len]), (s, &mut work.e[at..][..len]))
        } else {
            (pair(work.p, prev, at, len), pair(work.e, prev, at, len))
        };
        direction(Direction {
            groups: self.space.groups,
            width: self.space.width,
            gamma: self.gamma,
            rho: self.rho,
            b: scalars.b,
            r,
            s,
            p_prev,
            e_prev,
            p,
            e,
            k,
            sums: work.sums,
            e_dot_k: &mut known,
        });
        let (p, k, xi) = (&work.p[at..][..len], &work.k[at..][..len], &mut work.xi[o..][..len]);
        if goes_on {
            let (r, r_next) = pair(work.r, at, next, len);
            advance(scalars.a, p, k, r, xi, r_next);
        } else {
            axpy(xi, scalars.a, p);
        }
    }

    /// All steps in reverse; returns the gradient of ρ, and γ times that of γ.
    fn steps_vjp(
        &self,
        s: &PerStep<'_, T>,
        tape: &Tape<'_, T>,
        reports: &Reports<'_, T>,
        work: &mut Adjoint<'_, T>,
    ) -> [T; 2] {
        for v in [&mut *work.d_r, &mut *work.d_p, &mut *work.d_e] {
            v.fill(T::ZERO);
        }
        let Adjoint { r, p, e, k, d_s, f, d_r, d_p, d_e, sums, d_c, .. } = work;
        let mut back = Back {
            system: self,
            tape,
            s,
            r,
            p,
            e,
            k,
            f,
            d_s,
            d_r,
            d_p,
            d_e,
            sums,
            d_r_dot_k: T::ZERO,
            d_rho: T::ZERO,
            d_gamma: T::ZERO,
        };
        krylov::run_vjp(self.rule(), &mut back, tape, reports, false, d_c);
        [back.d_rho, back.d_gamma]
    }
}

/// The gradients of a solve in reverse, and the vectors of its steps.
struct Back<'b, 's, T> {
    system: &'b System<'b, T>,
    tape: &'b Tape<'s, T>,
    s: &'b PerStep<'s, T>,
    r: &'b [T], // [steps, n]
    p: &'b [T],
    e: &'b [T],
    k: &'b [T],
    f: &'b [T],       // [n]
    d_s: &'b mut [T], // [steps, n]
    d_r: &'b mut [T], // [n]
    d_p: &'b mut [T],
    d_e: &'b mut [T],
    sums: &'b mut [T],
    d_r_dot_k: T,
    d_rho: T,
    d_gamma: T, // times γ
}

impl<T: Real> Back<'_, '_, T> {
    /// Where the vectors of a sample lie in those of step `t`.
    fn at(&self, t: usize, sample: usize) -> std::ops::Range<usize> {
        let own = self.system.own(sample);
        t * self.system.n + own.start..t * self.system.n + own.end
    }
}

impl<T: Real> StepsVjp<T> for Back<'_, '_, T> {
    fn advance_vjp(&mut self, t: usize, sample: usize, alone: bool) -> T {
        let (own, at) = (self.system.own(sample), self.at(t, sample));
        let with_k = if alone { T::ZERO } else { dot(&self.d_r[own.clone()], &self.k[at.clone()]) };
        self.d_r_dot_k = with_k;
        dot(&self.f[own], &self.p[at]) - with_k
    }

    fn turn_vjp(&mut self, t: usize, sample: usize, a: T, d_delta: T, _alone: bool) -> T {
        let (own, at, before) =
            (self.system.own(sample), self.at(t, sample), self.at(t.saturating_sub(1), sample));
        let (mut d_k_dot_p, mut d_b) = (T::ZERO, T::ZERO);
        direction_vjp(DirectionVjp {
            groups: self.system.space.groups,
            width: self.system.space.width,
            gamma: self.system.gamma,
            rho: self.system.rho,
            a,
            d_delta,
            f: &self.f[own.clone()],
            d_r: &mut self.d_r[own.clone()],
            p: &self.p[at.clone()],
            e: &self.e[at.clone()],
            k: &self.k[at],
            p_prev: &self.p[before.clone()],
            e_prev: &self.e[before],
            d_p: &mut self.d_p[own.clone()],
            d_e: &mut self.d_e[own],
            sums: self.sums,
            d_k_dot_p: &mut d_k_dot_p,
            d_b: &mut d_b,
        });
        let e_dot_k = self.tape.get(t, sample).delta - self.system.cfg.guard;
        self.d_rho += d_k_dot_p;
        self.d_gamma += d_delta * e_dot_k - a * self.d_r_dot_k - self.system.rho * d_k_dot_p;
        d_b
    }

    fn residual_vjp(&mut self, t: usize, sample: usize, b: T, d_c: T) {
        let (own, at) = (self.system.own(sample), self.at(t, sample));
        residual_vjp(ResidualVjp {
            b,
            d_c,
            r: &self.r[at.clone()],
            s: &self.s.at(t)[own.clone()],
            d_p: &mut self.d_p[own.clone()],
            d_e: &mut self.d_e[own.clone()],
            d_r: &mut self.d_r[own],
            d_s: &mut self.d_s[at],
        });
    }

    fn idle_vjp(&mut self, t: usize, sample: usize) {
        let at = self.at(t, sample);
        self.d_s[at].fill(T::ZERO);
    }

    fn precondition_vjp(&mut self, t: usize) {
        let d_s = &self.d_s[t * self.system.n..][..self.system.n];
        self.system.space.maps.gram(d_s, self.d_r, true);
    }
}
