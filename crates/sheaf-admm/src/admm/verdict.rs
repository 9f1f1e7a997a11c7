//! When a sample ends, and with which status.
//!
//! After every iteration with tolerances: an iterate that is not finite ends the sample; iterates that have settled are
//! checked against the consensus step; others are examined from time to time for a certificate that no solution exists.

use super::certify::Proof;
use super::{Observer, Options, Problem, ResidualKind, Residuals, SampleReport, Status, Workspace};
use crate::{Real, Result};

/// What a sample has shown so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Watch<T> {
    /// The smallest ratio of a consensus residual to its goal, and the iterations it took.
    best: Option<(T, usize)>,
    /// The next iteration at which the consensus step is checked, if that is expensive.
    check: usize,
    /// The next iteration at which a certificate is looked for.
    examine: usize,
}

impl<T> Default for Watch<T> {
    fn default() -> Self {
        Self { best: None, check: 0, examine: 25 }
    }
}

/// The most numbers of a problem that is examined after its time is up: more would take long.
const LARGE: usize = 20_000;

/// The fewest iterations without progress after which a settled solve gives up.
const PATIENCE: usize = 100;

impl<T: Real> Watch<T> {
    /// Whether the consensus residuals have stopped falling: less than half in as many iterations again as were needed.
    fn stuck(&mut self, k: usize, residuals: &Residuals<T>) -> bool {
        let kinds = [ResidualKind::Edges, ResidualKind::Stationarity];
        let ratio = kinds.into_iter().filter_map(|kind| residuals.ratio(kind)).fold(T::ZERO, T::max);
        match self.best {
            Some((best, at)) if ratio + ratio > best => k - at >= PATIENCE.max(at),
            _ => {
                self.best = Some((ratio, k));
                false
            }
        }
    }
}

impl<T: Real> Problem<'_, T> {
    /// Records which samples end after `k` iterations, and why; `before` are the residuals of the last iteration before a step on
    /// trial.
    pub(super) fn end_samples(
        &self,
        k: usize,
        go_on: bool,
        before: Option<Residuals<T>>,
        options: &Options<T>,
        ws: &mut Workspace<T>,
        observer: &mut impl Observer<T>,
    ) -> Result<()> {
        for b in 0..ws.samples.len() {
            if !ws.running[b] {
                continue;
            }
            ws.samples[b].iterations = k;
            let stopped = !go_on || !observer.goes_on(b);
            if stopped {
                self.stop(b, k, before, options, ws, observer);
            }
            let ended =
                if stopped { Some(Status::Stopped) } else { self.verdict(b, k, options, ws, observer)? };
            if let Some(status) = ended {
                ws.samples[b].status = status;
                ws.running[b] = false;
            }
        }
        Ok(())
    }

    /// The residuals of a sample that the observer stops. A step on trial that made things worse is taken back first.
    fn stop(
        &self,
        b: usize,
        k: usize,
        before: Option<Residuals<T>>,
        options: &Options<T>,
        ws: &mut Workspace<T>,
        observer: &mut impl Observer<T>,
    ) {
        let Workspace { tape, work, units, anderson, .. } = &mut *ws;
        if anderson.as_mut().is_some_and(|anderson| anderson.end(k, true, tape)) {
            ws.samples[b].residuals = before;
        } else {
            let (rho, met) = (self.penalty_of(&work.rho), !work.missed[b]);
            let residuals = (!tape.x_only)
                .then(|| self.residuals(b, k - 1, &rho, options.tolerances, met, tape, units.as_ref()));
            ws.samples[b].residuals = residuals;
        }
        self.check_consensus(b, k, options, ws, observer);
    }

    /// Adds the residuals of the consensus step to the report of a sample, if the problem is to be checked.
    fn check_consensus(
        &self,
        b: usize,
        k: usize,
        options: &Options<T>,
        ws: &mut Workspace<T>,
        observer: &mut impl Observer<T>,
    ) {
        let Workspace { tape, work, samples, running, check, units, .. } = ws;
        let (Some(tolerances), Some(mut residuals)) = (options.goals(), samples[b].residuals) else {
            return;
        };
        let rho = self.penalty_of(&work.rho);
        if residuals.is_finite() {
            let units = units.as_ref();
            self.measure_consensus(b, k - 1, &rho, tolerances, tape, &mut residuals, units, check);
            if samples.len() == 1 {
                let own = observer.edges(&self.view(k - 1, running, tape, work, samples));
                residuals.edges = own.or(residuals.edges);
            }
        }
        samples[b].residuals = Some(residuals);
    }

    /// How sample `b` ends after `k` iterations; `None` if it goes on.
    fn verdict(
        &self,
        b: usize,
        k: usize,
        options: &Options<T>,
        ws: &mut Workspace<T>,
        observer: &mut impl Observer<T>,
    ) -> Result<Option<Status>> {
        let (Some(_), Some(residuals)) = (options.tolerances, ws.samples[b].residuals) else {
            return Ok(None);
        };
        if options.goals().is_none() {
            return Ok(residuals.settled().then_some(Status::Settled));
        }
        if !residuals.is_finite() {
            // A step on trial that went too far is taken back.
            let trial = ws.anderson.as_ref().is_some_and(|anderson| anderson.is_on_trial());
            return Ok((!trial).then_some(Status::NumericalFailure));
        }
        if !residuals.settled() {
            return self.look_for_certificate(k, ws);
        }
        if self.z_update.residual_is_costly(&self.op.sample(b)) {
            if k < ws.watch[b].check {
                return Ok(None);
            }
            ws.watch[b].check = k + (k / 8).max(1);
        }
        self.check_consensus(b, k, options, ws, observer);
        let Some(residuals) = ws.samples[b].residuals else { return Ok(None) };
        if residuals.met() {
            return Ok(Some(Status::Solved));
        }
        let stuck = ws.watch[b].stuck(k, &residuals);
        Ok(residuals.worst().filter(|_| stuck).map(Status::Inexact))
    }

    /// Certificates are for a single sample.
    fn look_for_certificate(&self, k: usize, ws: &mut Workspace<T>) -> Result<Option<Status>> {
        let Workspace { tape, work, watch, check, .. } = ws;
        // A certificate needs sums over all agents that ranks do not make.
        if watch.len() != 1 || k < watch[0].examine || self.op.sheaf().share().is_some() {
            return Ok(None);
        }
        watch[0].examine = k + (k / 4).max(1);
        self.examine(Proof::Tight, k - 1, &self.penalty_of(&work.rho), tape, check)
    }

    /// Samples that are still running when a limit is reached.
    pub(super) fn end_at_limit(
        &self,
        k: usize,
        late: bool,
        options: &Options<T>,
        ws: &mut Workspace<T>,
        observer: &mut impl Observer<T>,
    ) -> Result<()> {
        for b in 0..ws.samples.len() {
            if !ws.running[b] {
                continue;
            }
            if late {
                ws.samples[b].status = Status::TimeLimit;
            }
            if options.goals().is_none() || k == 0 {
                continue;
            }
            self.check_consensus(b, k, options, ws, observer);
            let SampleReport { residuals: Some(residuals), .. } = ws.samples[b] else { continue };
            if !late && residuals.settled() {
                ws.samples[b].status = residuals.worst().map_or(Status::Solved, Status::Inexact);
            } else if !residuals.settled()
                && ws.samples.len() == 1
                && !(late && self.op.state_len() > LARGE)
                && self.op.sheaf().share().is_none()
            {
                let Workspace { tape, work, check, .. } = &mut *ws;
                let rho = self.penalty_of(&work.rho);
                let proven = self.examine(Proof::Tight, k - 1, &rho, tape, check)?;
                let likely = match proven {
                    None => self.examine(Proof::Loose, k - 1, &rho, tape, check)?,
                    proven => proven,
                };
                ws.samples[b].status = likely.unwrap_or(ws.samples[b].status);
            }
        }
        Ok(())
    }
}
