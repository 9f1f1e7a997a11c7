//! The adjoint of CG in Gram space; the equations stand at the head of the [module](super).

use super::System;
use super::work::{Adjoint, Kept, pair};
use crate::Real;
use crate::sheaf::MapsGrad;
use crate::z_update::{Agreement, ConsensusGrad};
use sheaf_kernels::cliques::{
    Direction, DirectionVjp, ResidualVjp, advance, direction, direction_vjp, residual_vjp,
};
use sheaf_kernels::vector::{add, axpy, dot};

impl<T: Real> System<'_, T> {
    /// From d_z adds to d_w and to all gradients.
    pub(super) fn vjp(
        &self,
        w: &[T],
        kept: &Kept<'_, T>,
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
        self.replay(kept, steps, work);
        maps.project(d_z, work.f, m);
        let [d_rho, d_gamma] = self.steps_vjp(kept, steps, work);
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

    /// Rebuilds r, p, e, k of every step and ξ. Vectors of step t lie at place t.
    fn replay(&self, kept: &Kept<'_, T>, steps: usize, work: &mut Adjoint<'_, T>) {
        self.space.exchange(-self.gamma, kept.y, &mut work.r[..self.n], work.sums);
        work.xi.fill(T::ZERO);
        for t in 0..steps {
            for sample in 0..self.samples {
                self.step_again(t, t + 1 < steps, sample, kept, work);
            }
        }
    }

    /// A step of one sample again, with its scalars known.
    fn step_again(
        &self,
        t: usize,
        goes_on: bool,
        sample: usize,
        kept: &Kept<'_, T>,
        work: &mut Adjoint<'_, T>,
    ) {
        let (n, len, o) = (self.n, self.space.sample, sample * self.space.sample);
        let (at, prev, next) = (t * n + o, t.saturating_sub(1) * n + o, (t + 1) * n + o);
        let scalars = kept.scalars.get(t, sample);
        if scalars.delta == T::ZERO {
            if goes_on {
                work.r[next..][..len].fill(T::ZERO);
            }
            return;
        }
        let (s, mut known) = (&kept.s_at(t)[o..][..len], T::ZERO);
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

    /// All steps backwards; returns the gradient of ρ, and γ times that of γ.
    fn steps_vjp(&self, kept: &Kept<'_, T>, steps: usize, work: &mut Adjoint<'_, T>) -> [T; 2] {
        let mut sums = [T::ZERO; 2];
        for v in [&mut *work.d_r, &mut *work.d_p, &mut *work.d_e, &mut *work.d_c] {
            v.fill(T::ZERO);
        }
        for t in (0..steps).rev() {
            for sample in 0..self.samples {
                self.sample_vjp(t, sample, kept, &mut sums, work);
            }
            let d_s = &work.d_s[t * self.n..][..self.n];
            self.space.maps.gram(d_s, work.d_r, true);
        }
        sums
    }

    /// One step of one sample backwards, up to the product with C.
    fn sample_vjp(
        &self,
        t: usize,
        sample: usize,
        kept: &Kept<'_, T>,
        [d_rho, d_gamma]: &mut [T; 2],
        work: &mut Adjoint<'_, T>,
    ) {
        let (len, o) = (self.space.sample, sample * self.space.sample);
        let (at, before) = (t * self.n + o, t.saturating_sub(1) * self.n + o);
        let (k, guard) = (kept.scalars.get(t, sample), self.cfg.guard);
        let d_s = &mut work.d_s[at..][..len];
        if k.delta == T::ZERO {
            return d_s.fill(T::ZERO);
        }
        let (p, e) = (&work.p[at..][..len], &work.e[at..][..len]);
        let (p_prev, e_prev) = (&work.p[before..][..len], &work.e[before..][..len]);
        let (r, kv) = (&work.r[at..][..len], &work.k[at..][..len]);
        let (f, d_r) = (&work.f[o..][..len], &mut work.d_r[o..][..len]);
        let (d_p, d_e) = (&mut work.d_p[o..][..len], &mut work.d_e[o..][..len]);
        let d_r_dot_k = dot(d_r, kv);
        let d_a = dot(f, p) - d_r_dot_k;
        let d_delta = -d_a * k.a / k.delta;
        let mut d_c = work.d_c[sample] + d_a / k.delta;
        let (mut d_k_dot_p, mut d_b) = (T::ZERO, T::ZERO);
        direction_vjp(DirectionVjp {
            groups: self.space.groups,
            width: self.space.width,
            gamma: self.gamma,
            rho: self.rho,
            a: k.a,
            d_delta,
            f,
            d_r,
            p,
            e,
            k: kv,
            p_prev,
            e_prev,
            d_p,
            d_e,
            sums: work.sums,
            d_k_dot_p: &mut d_k_dot_p,
            d_b: &mut d_b,
        });
        *d_rho += d_k_dot_p;
        *d_gamma += d_delta * (k.delta - guard) - k.a * d_r_dot_k - self.rho * d_k_dot_p;
        if t > 0 {
            let guarded = kept.scalars.get(t - 1, sample).c + guard;
            d_c += d_b / guarded;
            work.d_c[sample] = -d_b * k.c / (guarded * guarded);
        }
        let s = &kept.s_at(t)[o..][..len];
        residual_vjp(ResidualVjp { b: k.b, d_c, r, s, d_p, d_e, d_r, d_s });
    }
}
