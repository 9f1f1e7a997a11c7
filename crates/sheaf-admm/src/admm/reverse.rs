//! The reverse sweep: gradients of all inputs of a solve, through the iterations that ran.

use std::ops::Range;

use super::{Problem, SampleReport, Workspace};
use crate::error::{check_len, check_positive};
use crate::sheaf::MapsGrad;
use crate::x_update::ObjectiveGrad;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::vector::{axpy, norm};

/// How far back gradients flow. Independent of the solver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Adjoint<T> {
    /// Through every iteration.
    Unrolled,
    /// Through the last n iterations of each sample; the state before them and the carry of the z-update are constants.
    LastSteps(usize),
    /// At the fixed point: (I − Jᵀ)λ = seed is solved by the Neumann series λ = Σ (Jᵀ)^j seed, J the Jacobian of one
    /// step at the last state (z, u and the carry of the z-update). It converges as fast as the solve did, needs no
    /// tape beyond the last iteration, and is the derivative of the solution when the solve has converged, with a
    /// z-update whose own fixed point is the exact one: [`Exact`](crate::z_update::Exact), a solve to a tight
    /// tolerance, or descent in edge space with warm starts. Seeds of all proposals of the window go to the last.
    Implicit {
        /// Stop when a term of the series is this small relative to the first.
        tolerance: T,
        /// The most terms.
        max_terms: usize,
    },
}

/// The gradients of the loss with respect to the last iterates.
#[derive(Clone, Copy, Debug)]
pub struct Seeds<'a, T> {
    /// Gradient of the last W proposals x of every sample, oldest first, up to the sample's own last iteration.
    pub d_x: &'a [T], // [W, samples, states]
    /// Gradient of the last z, if the loss reads it.
    pub d_z: Option<&'a [T]>, // [samples, states]
    /// Gradient of the last u, if the loss reads it.
    pub d_u: Option<&'a [T]>, // [samples, states]
}

/// The gradients that the reverse sweep adds to.
#[derive(Debug)]
pub struct Gradients<'g, 'm, T> {
    /// Gradient of the objective's parameters.
    pub objective: &'g mut ObjectiveGrad<'m, T>,
    /// Gradient of the restriction maps.
    pub maps: &'g mut MapsGrad<'m, T>,
    /// Gradient of the penalty.
    pub rho: &'g mut [T], // [1] or [agents]
    /// Gradient of γ.
    pub gamma: &'g mut T,
    /// Gradient of the step size of descent.
    pub eta: &'g mut T,
    /// Gradient of the offsets of edges; empty if not needed.
    pub offsets: &'g mut [T], // [samples, edge_len] or []
    /// Gradient of the weights of edges; empty if not needed.
    pub edge_weights: &'g mut [T], // [edges] or []
    /// Gradient of the start h; empty if not needed.
    pub start: &'g mut [T], // [samples, states] or []
}

impl<T: Real> Problem<'_, T> {
    /// Differentiates the last recorded solve in `ws`, adding to every gradient. Iterations before the tape are constants.
    pub fn reverse(
        &self,
        adjoint: Adjoint<T>,
        seeds: &Seeds<'_, T>,
        grads: &mut Gradients<'_, '_, T>,
        ws: &mut Workspace<T>,
    ) -> Result<()> {
        let window =
            self.check_shared_reverse(adjoint, grads).and_then(|()| self.check_seeds(seeds, grads, ws))?;
        let sheaf = self.op.sheaf();
        grads.maps.split(sheaf, self.op.maps());
        let back = &mut ws.back;
        for d in [&mut back.d_z, &mut back.d_u, &mut back.d_carry, &mut back.d_x, &mut back.held.x] {
            d.fill(T::ZERO);
        }
        let mut sweep = Sweep { problem: self, seeds, window, count: usize::MAX, grads, ws };
        let reversed = match adjoint {
            Adjoint::Unrolled => sweep.steps(),
            Adjoint::LastSteps(count) => {
                sweep.count = count;
                sweep.steps()
            }
            Adjoint::Implicit { tolerance, max_terms } => {
                self.check_implicit(&sweep.ws.tape)?;
                sweep.count = 1 + usize::from(sweep.ws.tape.x_only);
                sweep.implicit(tolerance, max_terms)
            }
        };
        // After a failure too: no deferred term may remain for another reverse sweep of the same tape.
        let added = sweep.add_deferred();
        let done = reversed.and(added);
        grads.maps.join(sheaf, done.is_ok());
        done
    }

    fn check_seeds(
        &self,
        seeds: &Seeds<'_, T>,
        grads: &Gradients<'_, '_, T>,
        ws: &Workspace<T>,
    ) -> Result<usize> {
        let n = self.op.state_len();
        ws.check_reverse(self)?;
        grads.maps.validate(self.op.sheaf(), self.op.maps())?;
        for (place, seed) in [("seed of z", seeds.d_z), ("seed of u", seeds.d_u)] {
            check_len(place, n, seed.map_or(n, <[T]>::len))?;
            if seed.is_some() && ws.tape.x_only {
                let expected = "none: the last iteration stopped at its x";
                return Err(Error::new(ErrorKind::Unsupported, place, expected, "a seed")
                    .hint("solve without Options::x_only"));
            }
        }
        let window = seeds.d_x.len() / n.max(1);
        check_len("seed of x", window * n, seeds.d_x.len())?;
        check_len("gradient of rho", self.rho.grad_len(self.op.sheaf().agents()), grads.rho.len())?;
        if !grads.start.is_empty() {
            check_len("gradient of the start", n, grads.start.len())?;
        }
        let recorded = |sample: &SampleReport<T>| sample.iterations.saturating_sub(ws.tape.skip);
        let fewest = ws.samples.iter().map(recorded).min().unwrap_or(0);
        if window > fewest {
            return Err(Error::new(
                ErrorKind::Shape,
                "seed of x",
                format_args!("at most {fewest} iterates, as many as ran"),
                window,
            ));
        }
        Ok(window)
    }
}

/// A reverse sweep in progress.
struct Sweep<'s, 'p, 'g, 'm, T: Copy + Default> {
    problem: &'s Problem<'p, T>,
    seeds: &'s Seeds<'s, T>,
    window: usize,
    /// Iterations of each sample, from its last one back, through which gradients flow.
    count: usize,
    grads: &'s mut Gradients<'g, 'm, T>,
    ws: &'s mut Workspace<T>,
}

impl<T: Real> Sweep<'_, '_, '_, '_, T> {
    /// The iterations of sample `b` through which gradients flow.
    fn span(&self, b: usize) -> Range<usize> {
        span(&self.ws.samples[b], self.count, self.ws.tape.skip)
    }

    /// Where the states of sample `b` lie.
    fn states(&self, b: usize) -> Range<usize> {
        let n = self.problem.op.sheaf().state_len();
        b * n..(b + 1) * n
    }

    /// From the last iteration back to the first.
    fn steps(&mut self) -> Result<()> {
        let samples = self.problem.op.samples();
        let first = (0..samples).map(|b| self.span(b).start).min().unwrap_or(0);
        let ran = self.ws.tape.ran.unwrap_or(0);
        let mut clear = true;
        for k in (first..ran).rev() {
            let Workspace { tape, work, back, .. } = &mut *self.ws;
            // After iteration k the duals were rescaled if the penalty changed.
            let (factor, next) = (tape.factor[tape.row(k)], tape.factor[tape.row(k + 1)]);
            if next != factor {
                back.d_u[..tape.states].iter_mut().for_each(|d| *d *= factor / next);
            }
            if work.factor != Some(factor) {
                self.problem.set_factor(factor, work)?;
            }
            for b in 0..samples {
                self.enter_or_leave(k, b);
            }
            let seed = self.seed_of_all(k);
            if seed.is_none() {
                clear = self.gather_seeds(k, clear);
            }
            self.one(k, factor, seed)?;
        }
        for b in 0..samples {
            if self.span(b) == (0..self.ws.samples[b].iterations) && !self.grads.start.is_empty() {
                let own = self.states(b);
                axpy(&mut self.grads.start[own.clone()], T::ONE, &self.ws.back.d_z[own]);
            }
        }
        Ok(())
    }

    /// Records whether sample `b` takes part in iteration `k`, and sets its gradients where it joins or leaves.
    fn enter_or_leave(&mut self, k: usize, b: usize) {
        let (span, own) = (self.span(b), self.states(b));
        let Workspace { running, back, tape, .. } = &mut *self.ws;
        running[b] = span.contains(&k);
        if k + 1 == span.end {
            self.enter_seeds(b);
        } else if k + 1 == span.start {
            back.d_z[own.clone()].fill(T::ZERO);
            back.d_u[own.clone()].fill(T::ZERO);
            back.held.forget(own);
            let carry = tape.carries / tape.samples;
            back.d_carry[b * carry..(b + 1) * carry].fill(T::ZERO);
        }
    }

    /// The seed of x after iteration `k`, where all samples ran equally long.
    fn seed_of_all(&self, k: usize) -> Option<usize> {
        let ran = self.ws.tape.ran?;
        let together = self.ws.samples.iter().all(|s| s.iterations == ran);
        (k + self.window).checked_sub(ran).filter(|_| together)
    }

    /// Collects the seeds of x after iteration `k`; `clear` means that there are none from before.
    fn gather_seeds(&mut self, k: usize, clear: bool) -> bool {
        let n = self.problem.op.state_len();
        if !clear {
            self.ws.back.d_x[..n].fill(T::ZERO);
        }
        let mut none = true;
        for b in 0..self.problem.op.samples() {
            let (ran, own) = (self.ws.samples[b].iterations, self.states(b));
            let slot = (k + self.window).checked_sub(ran).filter(|_| k < ran);
            if let Some(slot) = slot.filter(|_| self.span(b).contains(&k)) {
                let seed = &self.seeds.d_x[slot * n..][own.clone()];
                self.ws.back.d_x[own].copy_from_slice(seed);
                none = false;
            }
        }
        none
    }

    /// Adds the deferred part of the maps' gradient.
    fn add_deferred(&mut self) -> Result<()> {
        let Problem { op, z_update, .. } = self.problem;
        let one = self.ws.tape.kept_len(self.problem);
        let spans = (0..op.samples()).map(|b| self.span(b));
        let all = spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
        let tape = &self.ws.tape;
        // An iteration that computed only x kept nothing of its consensus step.
        let end = if tape.x_only { all.end.min(tape.ran.unwrap_or(0).saturating_sub(1)) } else { all.end };
        let rows = tape.row(all.start)..tape.row(end.max(all.start));
        let mut kept = std::mem::take(&mut self.ws.tape.kept);
        let (samples, count, skip) = (&self.ws.samples, self.count, self.ws.tape.skip);
        let took = |step: usize, b: usize| span(&samples[b], count, skip).contains(&(all.start + step));
        let part = &mut kept[rows.start * one..rows.end * one];
        let added = z_update.add_deferred(op, part, took, self.grads.maps);
        self.ws.tape.kept = kept;
        added
    }

    /// One iteration back; its penalty's gradient is passed on with the current factor.
    fn one(&mut self, k: usize, factor: T, seed: Option<usize>) -> Result<()> {
        let n = self.problem.op.state_len();
        let Workspace { tape, work, back, running, .. } = &mut *self.ws;
        back.d_rho.fill(T::ZERO);
        let d_x = seed.map(|slot| &self.seeds.d_x[slot * n..][..n]);
        let kept = tape.kept_len(self.problem);
        let stepped = self.problem.step_vjp(k, kept, d_x, running, self.grads, tape, work, back);
        let len = self.grads.rho.len();
        let all = self.problem.rho.grad_len(self.problem.op.agents());
        back.d_rho[..all].chunks_exact(len.max(1)).for_each(|d_rho| axpy(self.grads.rho, factor, d_rho));
        stepped
    }

    /// One iteration back for the states alone: no gradient of a parameter.
    fn one_of_states(&mut self, k: usize) -> Result<()> {
        let Workspace { tape, work, back, running, .. } = &mut *self.ws;
        back.d_rho.fill(T::ZERO);
        let (mut gamma, mut eta) = (T::ZERO, T::ZERO);
        let mut none = Gradients {
            objective: &mut ObjectiveGrad::None,
            maps: &mut MapsGrad::None,
            rho: &mut [],
            gamma: &mut gamma,
            eta: &mut eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start: &mut [],
        };
        self.problem.step_vjp(k, 0, None, running, &mut none, tape, work, back)
    }

    /// The series at the fixed point of each sample. Samples that ended at different iterations run one by one.
    fn implicit(&mut self, tolerance: T, max_terms: usize) -> Result<()> {
        check_positive("tolerance of the implicit adjoint", tolerance.to_f64())?;
        let samples = self.problem.op.samples();
        for ran in (1..=self.ws.tape.ran.unwrap_or(0)).rev() {
            if (0..samples).any(|b| self.ws.samples[b].iterations == ran) {
                self.series(ran, tolerance, max_terms)?;
            }
        }
        Ok(())
    }

    fn series(&mut self, ran: usize, tolerance: T, max_terms: usize) -> Result<()> {
        let (n, samples) = (self.problem.op.state_len(), self.problem.op.samples());
        let half = self.ws.tape.x_only && self.ws.tape.ran == Some(ran);
        let factor = self.ws.tape.factor[self.ws.tape.row(ran - 1)];
        if self.ws.work.factor != Some(factor) {
            self.problem.set_factor(factor, &mut self.ws.work)?;
        }
        let back = &mut self.ws.back;
        for d in [&mut back.d_z, &mut back.d_u, &mut back.d_carry, &mut back.d_x] {
            d.fill(T::ZERO);
        }
        for b in 0..samples {
            let own = self.states(b);
            self.ws.running[b] = self.ws.samples[b].iterations == ran;
            if self.ws.running[b] {
                self.enter_seeds(b);
                // At a fixed point all iterates are equal: their seeds add up.
                for slot in 0..self.window {
                    let seed = &self.seeds.d_x[slot * n..][own.clone()];
                    axpy(&mut self.ws.back.d_x[own.clone()], T::ONE, seed);
                }
            }
        }
        if half {
            self.one(ran - 1, factor, None)?;
            self.ws.back.d_x[..n].fill(T::ZERO);
        }
        let k = ran - 1 - usize::from(half);
        self.ws.back.start_sums();
        for term in 0..max_terms {
            self.ws.back.add_to_sums();
            self.one_of_states(k)?;
            self.ws.back.d_x[..n].fill(T::ZERO);
            let (mut done, mut finite) = (true, true);
            for b in 0..samples {
                let size = self.size(b);
                if term == 0 {
                    self.ws.back.first.push(size);
                }
                finite &= size.is_finite();
                done &= size <= tolerance * self.ws.back.first[b];
            }
            if done {
                // Parameters see the sum of all terms: one step, whatever the number of terms.
                self.ws.back.take_sums();
                return self.one(k, factor, None);
            }
            if !finite {
                break;
            }
        }
        Err(Error::new(
            ErrorKind::SolverFailed,
            "implicit adjoint",
            format_args!(
                "a series that falls below {tolerance:e} of its first term within {max_terms} terms"
            ),
            "one that does not",
        )
        .hint("solve to a tighter tolerance, allow more terms, or use Adjoint::Unrolled"))
    }

    /// Sets the gradients of the last z and u of sample `b`.
    fn enter_seeds(&mut self, b: usize) {
        let (own, back) = (self.states(b), &mut self.ws.back);
        for (d, seed) in [(&mut back.d_z, self.seeds.d_z), (&mut back.d_u, self.seeds.d_u)] {
            if let Some(seed) = seed {
                d[own.clone()].copy_from_slice(&seed[own.clone()]);
            }
        }
    }

    /// The size of the gradients of sample `b`.
    fn size(&self, b: usize) -> T {
        let (own, tape, back) = (self.states(b), &self.ws.tape, &self.ws.back);
        let carry = tape.carries / tape.samples;
        norm(&back.d_z[own.clone()]) + norm(&back.d_u[own]) + norm(&back.d_carry[b * carry..(b + 1) * carry])
    }
}

/// The last `count` iterations of a sample, as far as they are on the tape.
fn span<T>(sample: &SampleReport<T>, count: usize, skip: usize) -> Range<usize> {
    let ran = sample.iterations;
    ran.saturating_sub(count).max(skip).min(ran)..ran
}
