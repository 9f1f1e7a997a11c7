//! Conjugate gradients in the space of projections, for shared maps whose slots meet in cliques.
//!
//! Soft: A z = ρ w with A = γ Gᵀ M G + ρ, started at z = w. Hard: A x = L w with A = L + ε, started at 0, and
//! z = w − x. Both are the same recursions: the first residual of z is −γ Gᵀ M G w (hard: γ = 1, ρ = ε), so every
//! residual is Gᵀr, every direction Gᵀp, and z = w + Gᵀξ, with r, p, ξ in the space of projections, where a step costs
//! one product with C = G Gᵀ instead of two with G. With e = C p and s = C r:
//!
//! ```text
//! y = G w      r = −γ M y      ξ from the steps of CG with k = γ M e + ρ p      g = Gᵀξ      z = w + g
//! ```
//!
//! The steps and their adjoint are those of [`krylov`](super::krylov), with B = ρ and M there γ M here. c is the
//! squared residual of the states, so a tolerance means what it means for [`Cg`](super::Cg). Inner products run over
//! the agents of a sample; the products over all samples of a batch at once. Around the adjoint of the steps, with
//! f = G d_z the gradient of ξ and ε the guard:
//!
//! ```text
//! d_ρ += d_k·p      d_γ += d_k·M e = (d_k·k − ρ d_k·p)/γ,  d_k·k = d_δ (δ − ε) − a d_r·k
//! at the end: d_y = −γ M d_r      d_γ += d_r·r/γ
//! ```
//!
//! The forward can keep y, every s and the scalars; from them the adjoint rebuilds the rest without a product.
//!
//! | name | shape |
//! | --- | --- |
//! | w, z | samples, agents, d_v |
//! | y, r, s, p, e, k, ξ | samples, agents, m = slots·d_e; n numbers |

mod adjoint;
mod orthonormal;
mod work;

pub use orthonormal::Orthonormal;

pub(super) use work::room;

use super::checks::EdgeSupport;
use super::krylov::{self, Steps};
use super::solution::solution_scratch_len;
use super::{Agreement, ConsensusGrad, InnerTotals, Stop};
use crate::error::check_positive;
use crate::sheaf::{Maps, SharedMaps, SheafOp};
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::cliques::{
    DirectionInPlace, Groups, StepInPlace, direction_in_place, exchange_cliques, step_in_place,
};
use sheaf_kernels::vector::{add, axpy, dot, norm};
use work::{Adjoint, Forward, Kept};

/// Conjugate gradients in the space of projections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gram<T> {
    /// Hard or soft.
    pub agreement: Agreement<T>,
    /// When to stop, per sample; a relative tolerance is relative to the right side, ρ w or L w.
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
        EdgeSupport::NONE.check("consensus in Gram space", self.agreement, op, "solve with ZUpdate::Cg")?;
        Space::of("consensus in Gram space", op).map(|_| ())
    }

    /// Length of a projection of the batch, and of what a forward step keeps.
    pub(super) fn kept_len(&self, op: &SheafOp<'_, T>) -> usize {
        if self.differentiates_solution() {
            return 0;
        }
        let n = rows_len(op);
        Kept::<T>::len(n, op.samples(), self.stop.max_steps())
    }

    pub(super) fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        Forward::<T>::len(rows_len(op), op) + Kept::<T>::len(rows_len(op), op.samples(), 1)
    }

    /// Whether gradients are those of the solution.
    pub(super) fn differentiates_solution(&self) -> bool {
        matches!(self.stop, Stop::Tolerance { .. })
    }

    pub(super) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        if self.differentiates_solution() {
            return solution_scratch_len(op.sheaf()).max(self.forward_scratch_len(op));
        }
        let (n, steps) = (rows_len(op), self.stop.max_steps());
        let adjoint = Adjoint::<T>::len(n, op, steps).saturating_add(self.kept_len(op));
        adjoint
            .max(Forward::<T>::len(n, op).saturating_add(self.kept_len(op)))
            .max(self.forward_scratch_len(op))
    }

    /// Solves. Saves: `kept`, if it is not empty.
    pub(super) fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z: &mut [T],
        kept: &mut [T],      // kept_len(op), or empty
        missed: &mut [bool], // [samples], or empty
        scratch: &mut [T],
    ) -> Result<InnerTotals> {
        let system = System::new(self, op, rho)?;
        let (mut work, rest) = Forward::carve(system.n, op, scratch);
        let steps = self.stop.max_steps();
        let mut kept = if kept.is_empty() {
            Kept::carve(system.n, op.samples(), 1, rest)
        } else {
            Kept::carve(system.n, op.samples(), steps, kept)
        };
        let totals = system.run(w, &mut kept, z, &mut work);
        let reports = kept.reports();
        missed.iter_mut().enumerate().for_each(|(b, missed)| *missed = !reports.get(b).converged);
        Ok(totals)
    }

    /// Adjoint of [`forward`](Self::forward); replays whatever was not kept.
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
        let mut kept = if kept.is_empty() {
            let mut kept = Kept::carve(system.n, op.samples(), steps, own);
            let (mut work, _) = Forward::carve(system.n, op, scratch);
            system.solve(w, &mut kept, &mut work);
            kept
        } else {
            Kept::carve(system.n, op.samples(), steps, kept)
        };
        let steps = kept.reports().most_steps();
        let mut work = Adjoint::carve(system.n, op, steps, scratch);
        system.vjp(w, &mut kept, steps, d_z, d_w, grad, &mut work);
        Ok(())
    }
}

/// Length of all projections of a batch, without padding.
pub(super) fn rows_len<T: Real>(op: &SheafOp<'_, T>) -> usize {
    op.sheaf().as_uniform().map_or(0, |u| op.agents() * u.slots * u.d_e)
}

/// The space of projections: its maps and its cliques.
pub(super) struct Space<'a, T> {
    pub maps: SharedMaps<'a, T>,
    pub groups: Groups<'a>,
    /// Length of a slot.
    pub width: usize,
    /// Length of a sample's projections.
    pub sample: usize,
    /// Length of an agent's projection.
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
pub(super) struct System<'a, T> {
    pub space: Space<'a, T>,
    pub cfg: &'a Gram<T>,
    pub gamma: T,
    pub rho: T,
    pub n: usize,
    pub samples: usize,
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
        let max_steps = self.cfg.stop.max_steps();
        let (y, s, mut tape, mut reports) = kept.parts();
        let mut totals = InnerTotals { solves: self.samples, ..InnerTotals::default() };
        if self.n == 0 {
            krylov::run(
                krylov::Rule { max_steps: 0, ..self.rule() },
                &mut Nothing,
                None,
                &mut tape,
                &mut reports,
            );
            return totals;
        }
        self.space.maps.project(w, y, self.space.m);
        self.space.exchange(-self.gamma, y, work.r, work.sums);
        work.xi.fill(T::ZERO);
        let Forward { r, p, e, xi, sums, goals } = work;
        let goals = self.goals(w, r, e, goals).then_some(&**goals);
        let mut running = Running { system: self, s, r, p, e, xi, sums, at: 0, max_steps };
        krylov::run(self.rule(), &mut running, goals, &mut tape, &mut reports);
        for sample in 0..self.samples {
            let report = reports.get(sample);
            totals.steps += report.steps;
            totals.missed += usize::from(!report.converged);
        }
        totals
    }

    pub(super) fn rule(&self) -> krylov::Rule<T> {
        krylov::Rule { guard: self.cfg.guard, max_steps: self.cfg.stop.max_steps() }
    }

    pub(super) fn own(&self, b: usize) -> std::ops::Range<usize> {
        b * self.space.sample..(b + 1) * self.space.sample
    }

    /// The squared residual that every sample must reach; returns false for a fixed number of steps.
    fn goals(&self, w: &[T], r: &[T], s: &mut [T], goals: &mut [T]) -> bool {
        if self.cfg.stop.goal(T::ZERO).is_none() {
            return false;
        }
        let hard = self.cfg.agreement == Agreement::Hard;
        if hard {
            self.space.maps.gram(r, s, false);
        }
        for (b, to) in goals.iter_mut().enumerate() {
            let states = w.len() / self.samples;
            let reference = match hard {
                true => dot(&r[self.own(b)], &s[self.own(b)]).sqrt(),
                false => self.rho * norm(&w[b * states..][..states]),
            };
            *to = self.cfg.stop.goal(reference).map_or(T::ZERO, |goal| goal * goal);
        }
        true
    }
}

/// The vectors of a running solve; every step overwrites the one before, but s is kept if an adjoint follows.
struct Running<'r, 's, T> {
    system: &'r System<'r, T>,
    s: krylov::PerStep<'s, T>,
    r: &'r mut [T],
    p: &'r mut [T],
    e: &'r mut [T],
    xi: &'r mut [T],
    sums: &'r mut [T],
    at: usize,
    max_steps: usize,
}

impl<T: Real> Steps<T> for Running<'_, '_, T> {
    fn precondition(&mut self, t: usize) {
        self.at = t;
        // After the last step only its residual is measured: p and e are free, and every s may be kept.
        let s = if t < self.max_steps { &mut self.s.at_mut(t)[..self.system.n] } else { &mut *self.e };
        self.system.space.maps.gram(self.r, s, false);
    }

    fn measure(&mut self, sample: usize) -> T {
        let own = self.system.own(sample);
        let s = if self.at < self.max_steps { self.s.at(self.at) } else { &*self.e };
        dot(&self.r[own.clone()], &s[own])
    }

    fn turn(&mut self, t: usize, sample: usize, b: Option<T>) -> T {
        let System { space: Space { groups, width, .. }, gamma, rho, .. } = *self.system;
        let own = self.system.own(sample);
        let (r, s) = (&self.r[own.clone()], &self.s.at(t)[own.clone()]);
        let (p, e, mut e_dot_k) = (&mut self.p[own.clone()], &mut self.e[own], T::ZERO);
        let sums = &mut *self.sums;
        let e_dot = &mut e_dot_k;
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
            e_dot_k: e_dot,
        });
        e_dot_k
    }

    fn advance(&mut self, _t: usize, sample: usize, a: T, last: bool) {
        let System { space: Space { groups, width, .. }, gamma, rho, .. } = *self.system;
        let own = self.system.own(sample);
        let (p, e) = (&self.p[own.clone()], &self.e[own.clone()]);
        let (r, xi) = (&mut self.r[own.clone()], &mut self.xi[own]);
        match last {
            true => axpy(xi, a, p),
            // The sums of e over the cliques are those of the preceding turn.
            false => {
                step_in_place(StepInPlace { groups, width, gamma, rho, a, p, e, sums: self.sums, r, xi })
            }
        }
    }
}

/// Steps in a space without dimensions.
struct Nothing;

impl<T: Real> Steps<T> for Nothing {
    fn measure(&mut self, _sample: usize) -> T {
        T::ZERO
    }

    fn turn(&mut self, _t: usize, _sample: usize, _b: Option<T>) -> T {
        T::ZERO
    }

    fn advance(&mut self, _t: usize, _sample: usize, _a: T, _last: bool) {}
}
