//! K iterations, or until the tolerances are met, each sample on its own.

use std::time::Instant;

use super::act::Actor;
use super::workspace::Work;
use super::{
    Iteration, Observer, Options, Problem, ResidualKind, Residuals, SampleReport, SolveReport, Start, Status,
    Tape, Workspace,
};
use crate::clock;
use crate::linalg::units::Units;
use crate::x_update::Penalty;
use crate::z_update::InnerTotals;
use crate::{Error, ErrorKind, Real, Result};

impl<T: Real> Problem<'_, T> {
    /// Runs ADMM. The results are in the workspace; a workspace made to differentiate also keeps the tape. A sample
    /// that has met its tolerances, or that the observer has stopped, keeps its x, z and u while others continue.
    pub fn solve(
        &self,
        start: Start<'_, T>,
        options: &Options<T>,
        ws: &mut Workspace<T>,
        observer: &mut impl Observer<T>,
    ) -> Result<SolveReport<T>> {
        self.solve_acting(start, options, ws, observer, &mut ())
    }

    /// The same, with an actor that may change states between the updates. What is acted upon cannot be differentiated: the
    /// workspace must be made for [`Mode::Solve`](super::Mode::Solve), or the actor must be done
    /// ([`Actor::last`]) when the first iteration that is recorded begins.
    pub fn solve_acting<A: Actor<T>>(
        &self,
        start: Start<'_, T>,
        options: &Options<T>,
        ws: &mut Workspace<T>,
        observer: &mut impl Observer<T>,
        actor: &mut A,
    ) -> Result<SolveReport<T>> {
        // A solve that fails leaves no tape.
        ws.tape.ran = None;
        let done = actor.last().is_some_and(|last| last <= options.skip());
        if A::ACTS && ws.tape.recording && !done {
            let (place, expected) = ("workspace of a solve that is acted upon", "one made for Mode::Solve");
            return Err(Error::new(ErrorKind::Unsupported, place, expected, "a tape for the reverse sweep")
                .hint("an actor that is done before the first recorded iteration says so in Actor::last"));
        }
        let deadline = options.time_limit.and_then(|limit| Instant::now().checked_add(limit));
        self.check_options(start, options, ws)?;
        clock::until(deadline, || {
            if self.begin(start, options, ws)? {
                return self.iterations(deadline, options, ws, observer, actor);
            }
            // The time was up before the first iteration.
            ws.samples.iter_mut().for_each(|sample| sample.status = Status::TimeLimit);
            ws.tape.ran = Some(0);
            Ok(SolveReport::of(&ws.samples, T::ONE, InnerTotals::default()))
        })
    }

    fn iterations<A: Actor<T>>(
        &self,
        deadline: Option<Instant>,
        options: &Options<T>,
        ws: &mut Workspace<T>,
        observer: &mut impl Observer<T>,
        actor: &mut A,
    ) -> Result<SolveReport<T>> {
        let (mut factor, mut inner, mut k) = (T::ONE, InnerTotals::default(), 0);
        // Of the last iteration before a step on trial: if the step is taken back, they are those of the solve.
        let (mut late, mut before) = (false, None);
        if let Some(anderson) = &mut ws.anderson {
            anderson.start(&ws.tape);
        }
        while k < options.iterations && !late && ws.running.contains(&true) {
            let Workspace { tape, work, samples, running, units, anderson, .. } = &mut *ws;
            let last = k + 1 == options.iterations;
            tape.record_factor(k, factor);
            tape.x_only = last && options.x_only;
            let Some(steps) = self.step(k, running, tape, work, actor)? else {
                (late, tape.x_only) = (true, false);
                anderson.iter_mut().for_each(|anderson| _ = anderson.end(k, false, tape));
                break;
            };
            inner.add(steps);
            if !tape.x_only && (options.tolerances.is_some() || options.balancing.is_some() || last) {
                self.measure(k, options, running, tape, work, samples, units.as_ref());
            }
            // One rank that ends the solve ends it for all.
            let go_on = observer.iteration(&self.view(k, running, tape, work, samples));
            let go_on = !self.op.sheaf().any(!go_on);
            k += 1;
            self.end_samples(k, go_on, before, options, ws, observer)?;
            late = deadline.is_some_and(|deadline| self.op.sheaf().any(Instant::now() >= deadline));
            let Workspace { tape, work, samples, running, units, anderson, .. } = &mut *ws;
            let mut changed = false;
            // A step on trial may be taken back: a penalty that followed from its residuals would stay.
            let trial = anderson.as_ref().is_some_and(|a| a.is_on_trial());
            let due = options.balancing.filter(|b| b.is_due(k - 1) && running[0] && !last && !late && !trial);
            if let Some(balancing) = due {
                // The penalty is that of the scaled problem, and so are the residuals that it balances.
                let (rho, met) = (self.penalty_of(&work.rho), !work.missed[0]);
                let residuals = match units {
                    Some(_) => Some(self.residuals(0, k - 1, &rho, options.tolerances, met, tape, None)),
                    None => samples[0].residuals,
                };
                // Edges that miss their goal ask for what proposals that miss theirs ask for.
                let edges = samples[0].residuals.and_then(|r| r.ratio(ResidualKind::Edges));
                let residuals = residuals.map(|r| match edges {
                    Some(ratio) if ratio > T::ONE => {
                        Residuals { primal: r.primal.max(ratio * r.primal_goal), ..r }
                    }
                    _ => r,
                });
                let wanted = residuals.map_or(factor, |r| balancing.decide(factor, &r));
                if wanted != factor {
                    let change = wanted / factor;
                    factor = wanted;
                    self.set_factor(factor, work)?;
                    let row = tape.row(k) * tape.states;
                    tape.u[row..row + tape.states].iter_mut().for_each(|u| *u /= change);
                    changed = true;
                }
            }
            if let (Some(anderson), true) = (anderson, running[0] && !last && !late && !A::ACTS) {
                anderson.after(k - 1, changed, k + 1 < options.iterations, tape);
                before = samples[0].residuals;
            } else if let (Some(anderson), true) = (&mut ws.anderson, late && ws.running[0])
                && anderson.end(k, true, &mut ws.tape)
            {
                ws.samples[0].residuals = before;
            }
        }
        ws.tape.record_factor(k, factor);
        self.end_at_limit(k, late, options, ws, observer)?;
        if options.goals().is_none() {
            self.check_finite(k, &ws.tape, &ws.samples)?;
        }
        let failed =
            !ws.samples.is_empty() && ws.samples.iter().all(|s| s.status == Status::NumericalFailure);
        ws.tape.ran = (!failed).then_some(k);
        Ok(SolveReport::of(&ws.samples, factor, inner))
    }

    /// Prepares the first iteration; false if the time is up before that is done.
    fn begin(&self, start: Start<'_, T>, options: &Options<T>, ws: &mut Workspace<T>) -> Result<bool> {
        let (tape, count) = (&mut ws.tape, self.op.samples());
        tape.states = self.op.state_len();
        tape.carries = self.z_update.carry_len(&self.op);
        tape.samples = count;
        tape.draw = options.draw;
        tape.skip = if tape.recording { options.skip() } else { 0 };
        tape.x_only = false;
        let (n, c) = (tape.states, tape.carries);
        let row = tape.z_row(0) * n;
        match start {
            Start::Zeros => tape.z[row..row + n].fill(T::ZERO),
            Start::At(z) | Start::Warm { z, .. } => tape.z[row..row + n].copy_from_slice(z),
        }
        match start {
            Start::Warm { u, .. } => tape.u[..n].copy_from_slice(u),
            Start::Zeros | Start::At(_) => tape.u[..n].fill(T::ZERO),
        }
        tape.carry[..c].fill(T::ZERO);
        let status = if options.tolerances.is_some() { Status::IterationLimit } else { Status::Finished };
        ws.samples.clear();
        ws.samples.resize(count, SampleReport { status, iterations: 0, residuals: None });
        ws.running.clear();
        ws.running.resize(count, true);
        ws.work.missed.clear();
        ws.work.missed.resize(count, false);
        if options.goals().is_some() {
            // Only solves that check the problem need these; the first one allocates them.
            ws.watch.clear();
            ws.watch.resize(count, Default::default());
            let residual = self.z_update.residual_scratch_len(&self.op.sample(0));
            ws.check.ensure(residual.max(self.examine_scratch_len()));
        }
        self.fill_offsets(&mut ws.work.offsets);
        // Maps and penalties may be new.
        if !std::mem::take(&mut ws.work.keep) {
            ws.work.factor = None;
        }
        let may_end = self.op.sheaf().share().is_none() && !ws.tape.recording;
        self.prepare(T::ONE, may_end, &mut ws.work)
    }

    /// The residuals of the iterates of the samples that ran iteration `k`.
    fn measure(
        &self,
        k: usize,
        options: &Options<T>,
        running: &[bool],
        tape: &Tape<T>,
        work: &Work<T>,
        samples: &mut [SampleReport<T>],
        units: Option<&Units<T>>,
    ) {
        let rho = self.penalty_of(&work.rho);
        for (b, sample) in samples.iter_mut().enumerate().filter(|&(b, _)| running[b]) {
            let met = !work.missed[b];
            sample.residuals = Some(self.residuals(b, k, &rho, options.tolerances, met, tape, units));
        }
    }

    /// Non-finite values persist: the last residuals or, without them, the last x contain them.
    fn check_finite(&self, k: usize, tape: &Tape<T>, samples: &[SampleReport<T>]) -> Result<()> {
        let n = self.op.sheaf().state_len();
        for (b, sample) in samples.iter().enumerate().filter(|(_, sample)| sample.iterations > 0) {
            let (what, size) = match sample.residuals {
                Some(r) => ("finite residuals", r.primal + r.dual),
                None => ("finite proposals", tape.x(k - 1)[b * n..][..n].iter().copied().sum()),
            };
            if self.op.sheaf().any(!size.is_finite()) {
                let of = if samples.len() > 1 { format!(" of sample {b}") } else { String::new() };
                let place = format!("solve{of}, by iteration {}", sample.iterations);
                return Err(Error::new(ErrorKind::NotFinite, place, what, size)
                    .hint("an input, a penalty or a step size may be too large or not finite"));
            }
        }
        Ok(())
    }

    /// The penalty in a buffer of this workspace, in the form for the consensus step: one number, or one per agent.
    pub(super) fn penalty_of<'b>(&self, buffer: &'b [T]) -> Penalty<'b, T> {
        match self.rho {
            Penalty::Scalar(_) => Penalty::Scalar(buffer[0]),
            Penalty::PerAgent(rho) => Penalty::PerAgent(&buffer[..rho.len()]),
        }
    }

    /// The same for the agents of all samples, in the form for the objective.
    pub(super) fn penalty_of_all<'b>(&self, buffer: &'b [T]) -> Penalty<'b, T> {
        match self.rho {
            Penalty::Scalar(_) => Penalty::Scalar(buffer[0]),
            Penalty::PerAgent(_) => Penalty::PerAgent(&buffer[..self.op.agents()]),
        }
    }

    /// Sets the current penalty to `factor` times the given one and prepares both updates for it.
    pub(super) fn set_factor(&self, factor: T, work: &mut Work<T>) -> Result<()> {
        self.prepare(factor, false, work).map(|_| ())
    }

    /// The same; if it `may_end`, it returns false where the time is up between its parts or after them.
    fn prepare(&self, factor: T, may_end: bool, work: &mut Work<T>) -> Result<bool> {
        let late = || may_end && clock::late();
        let before = work.factor.take();
        let again = before.is_some();
        match self.rho {
            Penalty::Scalar(rho) => work.rho[0] = factor * rho,
            Penalty::PerAgent(rho) => {
                let all = work.rho[..self.op.agents()].iter_mut();
                all.zip(rho.iter().cycle()).for_each(|(to, &r)| *to = factor * r);
            }
        }
        let (rho, all) = (self.penalty_of(&work.rho), self.penalty_of_all(&work.rho));
        if !late() {
            let offsets = self.offsets(&work.offsets);
            clock::leaving(may_end, || self.objective.prepare(offsets, &all, &mut work.x_scratch)).0?;
        }
        if late() {
            // What the consensus step has kept is as good as it was.
            work.factor = before;
            return Ok(false);
        }
        let left = if again {
            self.z_update.prepare_again(&self.op, &rho, &mut work.z_scratch)?;
            if std::mem::take(&mut work.moved) {
                self.z_update.move_offsets(&self.op, &rho, &mut work.z_scratch)?;
            }
            false
        } else {
            let prepare = || self.z_update.prepare(&self.op, &rho, &mut work.z_scratch);
            // Solves with a limit that is shorter than this would never come to an iteration: the second one completes it.
            let (made, left) = clock::leaving(may_end && !work.cut, prepare);
            made?;
            (work.moved, work.cut) = (work.moved && left, left);
            left
        };
        // What is prepared in part is prepared anew by the next solve.
        work.factor = (!left).then_some(factor);
        Ok(!left && !late())
    }

    /// Iteration `k` as an observer sees it.
    pub(super) fn view<'v>(
        &'v self,
        k: usize,
        running: &'v [bool],
        tape: &'v Tape<T>,
        work: &'v Work<T>,
        samples: &[SampleReport<T>],
    ) -> Iteration<'v, 'v, T> {
        let after = k + usize::from(!tape.x_only);
        Iteration {
            k,
            x: tape.x(k),
            z: tape.z(after),
            u: tape.u(after),
            z_prev: tape.z(k),
            rho: self.penalty_of(&work.rho),
            relax: self.relax,
            op: self.op,
            running,
            residuals: if let [only] = samples { only.residuals } else { None },
        }
    }
}
