//! Conjugate gradients in the space of projections, for shared maps whose slots meet in cliques.
//!
//! Soft: A z = ρ w with A = γ Gᵀ M G + ρ, started at z = w. Hard: A x = L w with A = L + ε, started at 0, and z = w − x.
//! Both are the same recursions: the first residual of z is −γ Gᵀ M G w (hard: γ = 1, ρ = ε), so every residual is Gᵀr,
//! every direction Gᵀp, and z = w + Gᵀξ, with r, p, ξ in the space of projections, where a step costs one product with
//! C = G Gᵀ instead of two with G. With e = C p and s = C r:
//!
//! ```text
//! y = G w      r = −γ M y
//! s = C r      c = r·s      b = c/(c_prev + ε) (0 at first)      p = r + b p_prev      e = s + b e_prev
//! k = γ M e + ρ p      δ = e·k + ε      a = c/δ      ξ += a p      r_next = r − a k
//! g = Gᵀξ      z = w + g
//! ```
//!
//! Here ε is the guard. c is the squared residual of the states, so a tolerance means what it means for
//! [`Cg`](super::Cg). Inner products run over the agents of a sample; the products over all samples of a batch at once.
//! Adjoint, t from the last step to the first, with f = G d_z the gradient of ξ:
//!
//! ```text
//! d_a = f·p − d_r·k      d_c += d_a/δ      d_δ = −d_a a/δ
//! d_k = d_δ e − a d_r      d_e += d_δ k + γ M d_k      d_p += a f + ρ d_k
//! d_ρ += d_k·p      d_γ += d_k·M e = (d_k·k − ρ d_k·p)/γ,  d_k·k = d_δ (δ − ε) − a d_r·k
//! d_b = d_p·p_prev + d_e·e_prev      d_c += d_b/(c_prev + ε)      d_c_prev = −d_b c/(c_prev + ε)²
//! d_r += d_p + d_c s      d_s = d_e + d_c r      d_r += C d_s      d_p_prev = b d_p      d_e_prev = b d_e
//! at the end: d_y = −γ M d_r      d_γ += d_r·r/γ
//! ```
//!
//! The forward can keep y, every s and the scalars; from them the adjoint rebuilds the rest without a product.
//!
//! | name | shape |
//! | --- | --- |
//! | w, z | samples, agents, d_v |
//! | y, r, s, p, e, k, ξ | samples, agents, m = slots·d_e; n numbers |

use super::gram_work::{Adjoint, Forward, Kept, Scalars, pair};
use super::{Agreement, ConsensusGrad, InnerTotals, Stop};
use crate::error::check_positive;
use crate::sheaf::{Maps, MapsGrad, SharedMaps, SheafOp};
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::cliques::{
    Direction, DirectionInPlace, DirectionVjp, Groups, ResidualVjp, StepInPlace, advance, direction,
    direction_in_place, direction_vjp, exchange_cliques, residual_vjp, step_in_place,
};
use sheaf_kernels::vector::{add, axpy, dot, norm};

/// Conjugate gradients in the space of projections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gram<T> {
    /// Hard or soft.
    pub agreement: Agreement<T>,
    /// When to stop, each sample for itself; a relative tolerance is relative to the right side, ρ w or L w.
    pub stop: Stop<T>,
    /// Added to both denominators; 1e-8 as published, 0 for solves to a tight tolerance.
    pub guard: T,
    /// Tikhonov term of the hard system; 1e-5 as published.
    pub tikhonov: T,
}

impl<T: Real> Gram<T> {
    /// `steps` fixed steps, guard 1e-8, Tikhonov 1e-5.
    pub fn published(agreement: Agreement<T>, steps: usize) -> Self {
        let (guard, tikhonov) = (T::from_f64(1e-8), T::from_f64(1e-5));
        Self { agreement, stop: Stop::Steps(steps), guard, tikhonov }
    }

    /// A solve to a relative tolerance.
    pub fn to_tolerance(agreement: Agreement<T>, relative: T, max_steps: usize) -> Self {
        let stop = Stop::Tolerance { absolute: T::ZERO, relative, max_steps };
        Self { agreement, stop, guard: T::ZERO, tikhonov: T::ZERO }
    }

    /// Checks the options, and that the maps are shared and the slots meet in cliques.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        if let Agreement::Soft { gamma } = self.agreement {
            check_positive("gamma", gamma.to_f64())?;
        }
        for (place, value) in [("gram guard", self.guard), ("gram tikhonov", self.tikhonov)] {
            if !(value.is_finite() && value >= T::ZERO) {
                return Err(Error::new(ErrorKind::NotPositive, place, "a finite number, 0 or above", value));
            }
        }
        self.stop.validate("gram")?;
        Space::of("consensus in Gram space", op).map(|_| ())
    }

    /// Numbers of a projection of the batch, and of what a forward step keeps.
    pub(super) fn kept_len(&self, op: &SheafOp<'_, T>) -> usize {
        let n = rows_len(op);
        Kept::<T>::len(n, op.samples(), self.stop.max_steps())
    }

    pub(super) fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        Forward::<T>::len(rows_len(op), op)
            + Kept::<T>::len(rows_len(op), op.samples(), 1)
            + Scalars::<T>::len(op.samples(), self.stop.max_steps())
    }

    pub(super) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let (n, steps) = (rows_len(op), self.stop.max_steps());
        let adjoint = Adjoint::<T>::len(n, op, steps).saturating_add(self.kept_len(op));
        adjoint
            .max(Forward::<T>::len(n, op).saturating_add(self.kept_len(op)))
            .max(self.forward_scratch_len(op))
    }

    /// Solves. Saves: `kept`, where it is not empty.
    pub(super) fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z: &mut [T],
        kept: &mut [T], // kept_len(op), or empty
        scratch: &mut [T],
    ) -> Result<InnerTotals> {
        let system = System::new(self, op, rho)?;
        let (mut work, rest) = Forward::carve(system.n, op, scratch);
        let steps = self.stop.max_steps();
        let mut kept = if kept.is_empty() {
            Kept::single(system.n, op.samples(), steps, rest)
        } else {
            Kept::carve(system.n, op.samples(), steps, kept)
        };
        Ok(system.run(w, &mut kept, z, &mut work))
    }

    /// Adjoint of [`forward`](Self::forward); it replays what was not kept.
    pub(super) fn vjp(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        kept: &mut [T], // kept_len(op), or empty
        d_z: &[T],
        d_w: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let system = System::new(self, op, rho)?;
        let steps = self.stop.max_steps();
        let (own, scratch) = scratch.split_at_mut(if kept.is_empty() { self.kept_len(op) } else { 0 });
        let kept = if kept.is_empty() {
            let mut kept = Kept::carve(system.n, op.samples(), steps, own);
            let (mut work, _) = Forward::carve(system.n, op, scratch);
            system.solve(w, &mut kept, &mut work);
            kept
        } else {
            Kept::carve(system.n, op.samples(), steps, kept)
        };
        let steps = kept.steps_run();
        let mut work = Adjoint::carve(system.n, op, steps, scratch);
        system.vjp(w, &kept, steps, d_z, d_w, grad, &mut work);
        Ok(())
    }
}

/// Numbers of all projections of a batch, without padding.
pub(super) fn rows_len<T: Real>(op: &SheafOp<'_, T>) -> usize {
    op.sheaf().as_uniform().map_or(0, |u| op.agents() * u.slots * u.d_e)
}

/// The space of projections: its maps and its cliques.
pub(super) struct Space<'a, T> {
    pub maps: SharedMaps<'a, T>,
    pub groups: Groups<'a>,
    /// Numbers of a slot.
    pub width: usize,
    /// Numbers of a sample's projections.
    pub sample: usize,
    /// Numbers of an agent's projection.
    pub m: usize,
}

impl<'a, T: Real> Space<'a, T> {
    pub(super) fn of(place: &str, op: &SheafOp<'a, T>) -> Result<Self> {
        let Maps::Shared(maps) = *op.maps() else {
            return Err(Error::new(ErrorKind::Unsupported, place, "Maps::Shared", op.maps().name())
                .hint("prepare the maps as a SharedStack, or solve with ZUpdate::Cg"));
        };
        let (Some(cliques), Some(u)) = (op.sheaf().cliques(), op.sheaf().as_uniform()) else {
            let expected = "slots that meet in cliques, each two of a group joined by one edge";
            return Err(Error::new(ErrorKind::Unsupported, place, expected, "slots that do not")
                .hint("solve with ZUpdate::Cg, which takes any graph"));
        };
        let m = u.slots * u.d_e;
        Ok(Self { maps, groups: cliques.groups(), width: u.d_e, sample: op.sheaf().agents() * m, m })
    }

    /// out = scale·M y, sample by sample.
    pub(super) fn exchange(&self, scale: T, y: &[T], out: &mut [T], sums: &mut [T]) {
        for (y, out) in y.chunks_exact(self.sample).zip(out.chunks_exact_mut(self.sample)) {
            exchange_cliques(self.groups, self.width, scale, y, out, sums);
        }
    }
}

/// The penalty, which must be one for all agents.
pub(super) fn one_penalty<T: Real>(place: &str, rho: &Penalty<'_, T>) -> Result<T> {
    match rho {
        Penalty::Scalar(rho) => Ok(*rho),
        Penalty::PerAgent(_) => {
            Err(Error::new(ErrorKind::Unsupported, place, "one penalty for all agents", "one per agent")
                .hint("solve with ZUpdate::Cg, which takes penalties of their own"))
        }
    }
}

/// The recursions of one batch.
struct System<'a, T> {
    space: Space<'a, T>,
    cfg: &'a Gram<T>,
    gamma: T,
    rho: T,
    n: usize,
    samples: usize,
}

impl<'a, T: Real> System<'a, T> {
    fn new(cfg: &'a Gram<T>, op: &SheafOp<'a, T>, rho: &Penalty<'_, T>) -> Result<Self> {
        let place = "consensus in Gram space";
        let (space, own) = (Space::of(place, op)?, one_penalty(place, rho)?);
        let (gamma, rho) = match cfg.agreement {
            Agreement::Soft { gamma } => (gamma, own),
            Agreement::Hard => (T::ONE, cfg.tikhonov),
        };
        Ok(Self { space, cfg, gamma, rho, n: rows_len(op), samples: op.samples() })
    }

    /// z = w + Gᵀξ.
    fn run(&self, w: &[T], kept: &mut Kept<'_, T>, z: &mut [T], work: &mut Forward<'_, T>) -> InnerTotals {
        let totals = self.solve(w, kept, work);
        if self.n == 0 {
            z.copy_from_slice(w);
            return totals;
        }
        self.space.maps.lift(work.xi, self.space.m, z, false);
        add(z, w);
        totals
    }

    /// ξ of every sample.
    fn solve(&self, w: &[T], kept: &mut Kept<'_, T>, work: &mut Forward<'_, T>) -> InnerTotals {
        let mut totals = InnerTotals { solves: self.samples, ..InnerTotals::default() };
        kept.scalars.fill(Scalars::default());
        if self.n == 0 {
            return totals;
        }
        self.space.maps.project(w, kept.y, self.space.m);
        self.space.exchange(-self.gamma, kept.y, work.r, work.sums);
        work.xi.fill(T::ZERO);
        let (max_steps, tolerance) = (self.cfg.stop.max_steps(), self.cfg.stop.goal(T::ZERO).is_some());
        let mut running = self.samples;
        for t in 0..max_steps {
            self.space.maps.gram(work.r, kept.s(t), false);
            running = self.step(t, w, kept, work, &mut totals);
            if running == 0 {
                break;
            }
        }
        if tolerance && running > 0 {
            // The residuals that the last steps left.
            self.space.maps.gram(work.r, work.e, false);
            for b in (0..self.samples).filter(|&b| max_steps == 0 || kept.scalars.ran(max_steps - 1, b)) {
                let own = self.own(b);
                let c = dot(&work.r[own.clone()], &work.e[own]);
                // A residual that is not a number has missed its goal.
                let met = self.goal(b, w, c, work.goals, max_steps == 0) >= c;
                totals.missed += usize::from(!met);
            }
        }
        totals
    }

    fn own(&self, b: usize) -> std::ops::Range<usize> {
        b * self.space.sample..(b + 1) * self.space.sample
    }

    /// The squared residual that sample `b` must reach; set in its first step, from the squared residual c there.
    fn goal(&self, b: usize, w: &[T], c: T, goals: &mut [T], first: bool) -> T {
        if first {
            let reference = match self.cfg.agreement {
                Agreement::Hard => c.sqrt(),
                Agreement::Soft { .. } => {
                    let states = w.len() / self.samples;
                    self.rho * norm(&w[b * states..][..states])
                }
            };
            // A fixed number of steps has no goal: nothing lies below it.
            goals[b] = self.cfg.stop.goal(reference).map_or(-T::ONE, |goal| goal * goal);
        }
        goals[b]
    }

    /// One step of every sample that is still running, from r and s to ξ and the next r, in place. Returns how many are.
    fn step(
        &self,
        t: usize,
        w: &[T],
        kept: &mut Kept<'_, T>,
        work: &mut Forward<'_, T>,
        totals: &mut InnerTotals,
    ) -> usize {
        let Space { groups, width, .. } = self.space;
        let (gamma, rho, guard) = (self.gamma, self.rho, self.cfg.guard);
        let last = t + 1 == self.cfg.stop.max_steps() && matches!(self.cfg.stop, Stop::Steps(_));
        let mut running = 0;
        for sample in 0..self.samples {
            let before = t.checked_sub(1).map(|last| kept.scalars.get(last, sample));
            if before.is_some_and(|before| before.delta == T::ZERO) {
                continue;
            }
            let own = self.own(sample);
            let (s, r) = (&kept.s(t)[own.clone()], &mut work.r[own.clone()]);
            let (p, e, xi) = (&mut work.p[own.clone()], &mut work.e[own.clone()], &mut work.xi[own]);
            let c = dot(r, s);
            if c <= self.goal(sample, w, c, work.goals, t == 0) {
                continue;
            }
            let b = before.map(|before| c / (before.c + guard));
            let (sums, mut e_dot_k) = (&mut work.sums[..], T::ZERO);
            direction_in_place(DirectionInPlace {
                groups,
                width,
                gamma,
                rho,
                b,
                r,
                s,
                p,
                e,
                sums,
                e_dot_k: &mut e_dot_k,
            });
            let delta = e_dot_k + guard;
            // Without a guard, an exactly solved system has nothing left to divide by.
            if delta <= T::ZERO || c + guard <= T::ZERO {
                continue;
            }
            let a = c / delta;
            kept.scalars.set(t, sample, Scalars { a, b: b.unwrap_or(T::ZERO), c, delta });
            if last {
                axpy(xi, a, p);
            } else {
                step_in_place(StepInPlace { groups, width, gamma, rho, a, p, e, sums: work.sums, r, xi });
            }
            totals.steps += 1;
            running += 1;
        }
        running
    }

    fn vjp(
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
