//! K iterations, or as many as the tolerances ask for.

use super::{Balancing, Iteration, Observer, Problem, Residuals, Tolerances, Workspace};
use crate::error::{check_finite, check_positive};
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};

/// Where a solve starts; the duals always start at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start<'a, T> {
    /// z = 0.
    Zeros,
    /// z = h, an encoder's first guess.
    At(&'a [T]), // [states]
}

/// How long to iterate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options<T> {
    /// The number of iterations, or the limit when `tolerances` are given.
    pub iterations: usize,
    /// Stop early when both residuals are below these.
    pub tolerances: Option<Tolerances<T>>,
    /// Adapt the penalty on the way.
    pub balancing: Option<Balancing<T>>,
}

impl<T> Options<T> {
    /// Exactly `iterations` iterations.
    pub fn fixed(iterations: usize) -> Self {
        Self { iterations, tolerances: None, balancing: None }
    }

    /// Until both residuals are below the tolerances, at most `iterations` times.
    pub fn until(absolute: T, relative: T, iterations: usize) -> Self {
        Self { iterations, tolerances: Some(Tolerances { absolute, relative }), balancing: None }
    }
}

/// How a solve ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The fixed number of iterations ran.
    Finished,
    /// Both residuals fell below their tolerances.
    Converged,
    /// The limit came before the tolerances.
    IterationLimit,
    /// The observer asked to stop.
    Stopped,
}

/// How a solve ended, as data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveReport<T> {
    /// Why it ended.
    pub status: Status,
    /// Iterations that ran.
    pub iterations: usize,
    /// Last ‖x̃ − z‖.
    pub primal: T,
    /// Last ‖ρ(z − z_prev)‖.
    pub dual: T,
    /// What the penalty was multiplied by in the end (1 without balancing).
    pub rho_factor: T,
}

impl<T: Real> Problem<'_, T> {
    /// Runs ADMM. The answers are in the workspace; a workspace made to differentiate also keeps the tape.
    pub fn solve(
        &self,
        start: Start<'_, T>,
        options: &Options<T>,
        ws: &mut Workspace<T>,
        observer: &mut impl Observer<T>,
    ) -> Result<SolveReport<T>> {
        // A solve that fails leaves no tape.
        ws.tape.len = 0;
        self.check_options(start, options, ws)?;
        self.begin(start, ws)?;
        let mut factor = T::ONE;
        let mut residuals = Residuals::default();
        let mut status = if options.tolerances.is_some() { Status::IterationLimit } else { Status::Finished };
        let mut k = 0;
        while k < options.iterations {
            ws.record_before(self, k, factor);
            let rho_buffer = std::mem::take(&mut ws.rho);
            let rho = self.penalty_of(&rho_buffer);
            let last = k + 1 == options.iterations;
            // An iteration that failed is not shown.
            let go_on = self.step(k, &rho, ws).map(|_| {
                if options.tolerances.is_some() || options.balancing.is_some() || last {
                    residuals = self.residuals(&rho, options.tolerances, ws);
                }
                self.show(k, rho, ws, observer)
            });
            ws.rho = rho_buffer;
            let go_on = go_on?;
            ws.record_x(self, k);
            k += 1;
            if !go_on {
                status = Status::Stopped;
                residuals = self.residuals(&self.penalty_of(&ws.rho), options.tolerances, ws);
                break;
            }
            if options.tolerances.is_some() && residuals.met() {
                status = Status::Converged;
                break;
            }
            if let (Some(balancing), false) = (options.balancing, last) {
                let change = balancing.decide(k - 1, &residuals);
                if change != T::ONE {
                    factor *= change;
                    self.set_factor(factor, ws)?;
                    let n = self.op.sheaf().state_len();
                    ws.u[..n].iter_mut().for_each(|u| *u /= change);
                }
            }
        }
        ws.record_before(self, k, factor);
        ws.tape.len = if ws.tape.recording { k } else { 0 };
        if k > 0 && !(residuals.primal + residuals.dual).is_finite() {
            return Err(Error::new(
                ErrorKind::NotFinite,
                format!("solve, by iteration {k}"),
                "finite residuals",
                residuals.primal + residuals.dual,
            )
            .hint("check the inputs with Problem::validate; a step size may be too large"));
        }
        let Residuals { primal, dual, .. } = residuals;
        Ok(SolveReport { status, iterations: k, primal, dual, rho_factor: factor })
    }

    fn check_options(&self, start: Start<'_, T>, options: &Options<T>, ws: &Workspace<T>) -> Result<()> {
        if let Start::At(h) = start {
            self.op.check_state("start", h)?;
            check_finite("start", h)?;
        }
        if let Some(t) = options.tolerances {
            for (place, value) in [("absolute tolerance", t.absolute), ("relative tolerance", t.relative)] {
                if !(value >= T::ZERO && value.is_finite()) {
                    return Err(Error::new(
                        ErrorKind::NotPositive,
                        place,
                        "a finite number, 0 or above",
                        value,
                    ));
                }
            }
            check_positive("tolerance", t.absolute.max(t.relative).to_f64())?;
        }
        if let Some(balancing) = options.balancing {
            balancing.validate()?;
        }
        self.rho.validate(self.op.sheaf().agents())?;
        self.z_update.validate(&self.op)?;
        ws.check_solve(self, options.iterations)
    }

    fn begin(&self, start: Start<'_, T>, ws: &mut Workspace<T>) -> Result<()> {
        let n = self.op.sheaf().state_len();
        match start {
            Start::Zeros => ws.z[..n].fill(T::ZERO),
            Start::At(h) => ws.z[..n].copy_from_slice(h),
        }
        ws.u[..n].fill(T::ZERO);
        ws.carry.fill(T::ZERO);
        ws.tape.states = n;
        self.set_factor(T::ONE, ws)
    }

    /// The penalty held in a buffer of this workspace.
    pub(super) fn penalty_of<'b>(&self, buffer: &'b [T]) -> Penalty<'b, T> {
        match self.rho {
            Penalty::Scalar(_) => Penalty::Scalar(buffer[0]),
            Penalty::PerAgent(rho) => Penalty::PerAgent(&buffer[..rho.len()]),
        }
    }

    /// Sets the penalty in force to `factor` times the given one and prepares both updates for it.
    pub(super) fn set_factor(&self, factor: T, ws: &mut Workspace<T>) -> Result<()> {
        match self.rho {
            Penalty::Scalar(rho) => ws.rho[0] = factor * rho,
            Penalty::PerAgent(rho) => ws.rho.iter_mut().zip(rho).for_each(|(to, &r)| *to = factor * r),
        }
        let rho = self.penalty_of(&ws.rho);
        self.objective.prepare(self.op.sheaf().state_offsets(), &rho, &mut ws.x_scratch)?;
        self.z_update.prepare(&self.op, &rho, &mut ws.z_scratch)
    }

    fn show(
        &self,
        k: usize,
        rho: Penalty<'_, T>,
        ws: &Workspace<T>,
        observer: &mut impl Observer<T>,
    ) -> bool {
        let n = self.op.sheaf().state_len();
        observer.iteration(&Iteration {
            k,
            x: &ws.x[..n],
            z: &ws.z[..n],
            u: &ws.u[..n],
            z_prev: &ws.z_next[..n],
            rho,
            relax: self.relax,
            op: &self.op,
        })
    }
}

impl<T: Real> Workspace<T> {
    fn record_before(&mut self, problem: &Problem<'_, T>, k: usize, factor: T) {
        if self.tape.recording {
            let n = problem.op.sheaf().state_len();
            let c = problem.z_update.carry_len(&problem.op);
            self.tape.z[k * n..][..n].copy_from_slice(&self.z[..n]);
            self.tape.u[k * n..][..n].copy_from_slice(&self.u[..n]);
            self.tape.carry[k * c..][..c].copy_from_slice(&self.carry[..c]);
            self.tape.factor[k] = factor;
        }
    }

    fn record_x(&mut self, problem: &Problem<'_, T>, k: usize) {
        if self.tape.recording {
            let n = problem.op.sheaf().state_len();
            self.tape.x[k * n..][..n].copy_from_slice(&self.x[..n]);
        }
    }
}
