//! The solver of a network: scaled, factorised, warm.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::compile::Compiled;
use super::contradiction::contradict;
use super::progress::Watch;
use super::report::{Edges, empty};
use super::scale::Scaling;
use super::{Consensus, Network, Progress, Settings, Solution, shared};
use crate::admm::{Balancing, Mode, Options, Problem, Residuals, Start, Status, Workspace};
use crate::clock;
use crate::linalg::units::Units;
use crate::x_update::{Objective, Penalty};
use crate::z_update::{Exact, ZUpdate};
use crate::{Error, ErrorKind, Result};
use sheaf_kernels::pool;

/// A network that is ready to be solved, again and again: the next solve starts where the last one ended, with its
/// penalty, and allocates nothing.
///
/// ```
/// use sheaf_admm::network::{Network, Settings};
/// use sheaf_admm::x_update::Quadratic;
///
/// let mut net = Network::new();
/// let a = net.agent(Quadratic::new([[1.0]], [-1.0]))?;
/// let b = net.agent(Quadratic::new([[1.0]], [-5.0]))?;
/// net.agree(a, [[1.0]], b, [[1.0]])?;
/// let mut solver = net.solver(Settings { tol: 1e-9, ..Settings::default() })?;
/// assert!((solver.solve()?.x(a)[0] - 3.0).abs() < 1e-6);
/// // Another q; nothing is factorised again.
/// solver.update_q(a, &[-3.0])?;
/// assert!((solver.solve()?.x(a)[0] - 4.0).abs() < 1e-6);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Solver {
    pub(super) net: Network,
    pub(super) compiled: Compiled,
    pub(super) settings: Settings,
    pub(super) z_update: ZUpdate<f64>,
    workspace: Workspace<f64>,
    pub(super) unit: Arc<[f64]>, // [states], x = unit·x̂
    pub(super) x: Vec<f64>,      // [states], scaled
    pub(super) z: Vec<f64>,      // [states], scaled
    pub(super) u: Vec<f64>,      // [states], scaled
    pub(super) rho: f64,
    first_rho: f64,
    /// Whether the consensus step is prepared for the maps.
    prepared: bool,
    /// Whether offsets have changed since.
    pub(super) moved: bool,
    /// Whether problem and state are those of the last solution.
    pub(super) current: bool,
    /// Whether hard edges contradict each other, if that is known.
    pub(super) contradiction: Option<bool>,
    pub(super) edges: Edges,
    pub(super) solution: Solution,
    /// What the end of a solve takes after its last iteration: guessed at first, measured where a time limit ends a solve.
    after: Duration,
}

/// What prices and certificates may take after the time limit.
pub(super) const AFTER: Duration = Duration::from_millis(50);
/// Residuals, prices and the report take about this part of the time that scaling and compiling took, and at most so many
/// nanoseconds for every number in the stacks: about six passes over memory.
const PART: u32 = 6;
const PASSES: u64 = 12;
/// The penalty stays within this factor of the first one.
const DRIFT: f64 = 1e9;
/// The most numbers of a network whose solves are accelerated from the start. Larger ones mostly need few iterations: those
/// that do not pay memory and time for it after this many.
const ACCELERATED: usize = 20_000;
const LATE: usize = 16;
/// The longest history.
const HISTORY: usize = 10_000;

impl Solver {
    /// Scales and factorises.
    pub(super) fn new(net: Network, settings: Settings) -> Result<Self> {
        settings.validate()?;
        pool::with_threads(settings.threads, || Self::build(net, settings))
    }

    fn build(mut net: Network, settings: Settings) -> Result<Self> {
        if net.agents.is_empty() {
            return Err(Error::new(ErrorKind::Shape, "network", "at least one agent", "none")
                .hint("Network::agent adds one, or a list of agents in a problem file"));
        }
        let began = Instant::now();
        net.detach();
        let mut scaling = if settings.scale { Scaling::ruiz(&net) } else { Scaling::none(&net) };
        for (agent, d) in net.agents.iter().zip(&mut scaling.states) {
            let penalty = |j: usize| agent.penalty.get(j).or(agent.penalty.first()).copied().unwrap_or(1.0);
            d.iter_mut().enumerate().for_each(|(j, d)| *d /= penalty(j).sqrt());
        }
        let compiled = Compiled::new(&net, scaling)?;
        let z_update = match settings.consensus {
            Consensus::Exact => ZUpdate::Exact(Exact::automatic(&compiled.op()?, compiled.agreement())?),
            Consensus::Cg => shared::conjugate_gradients(compiled.agreement(), settings.tol),
        };
        let n = compiled.sheaf.state_len();
        let solution = empty(&net, settings.iterations.min(HISTORY));
        let (unit, edges): (Arc<[f64]>, _) = (compiled.units().into(), Edges::new(&net, &compiled));
        let first_rho = settings.rho.unwrap_or_else(|| compiled.typical_curvature());
        let mut solver = Self {
            net,
            compiled,
            settings,
            z_update,
            workspace: Workspace::default(),
            unit,
            x: vec![0.0; n],
            z: vec![0.0; n],
            u: vec![0.0; n],
            rho: first_rho,
            first_rho,
            prepared: false,
            moved: false,
            current: false,
            contradiction: None,
            edges,
            solution,
            after: Duration::ZERO,
        };
        let mut workspace = Workspace::default();
        let problem = solver.problem()?;
        problem.validate()?;
        workspace.fit(&problem, Mode::Solve);
        workspace.measure_in(Units { state: solver.unit.clone(), cost: solver.compiled.scaling.cost });
        // Conjugate gradients to a low accuracy are not affine in their target.
        if matches!(&solver.z_update, ZUpdate::Exact(exact) if exact.is_affine()) {
            workspace.accelerate(n, if n <= ACCELERATED { 0 } else { LATE });
        }
        solver.workspace = workspace;
        let most = Duration::from_nanos(PASSES * solver.compiled.stacks.len() as u64);
        solver.after = most.min(began.elapsed() / PART);
        Ok(solver)
    }

    /// The scaled problem.
    pub(super) fn problem(&self) -> Result<Problem<'_, f64>> {
        problem(&self.compiled, &self.z_update, self.rho, self.settings.relax)
    }

    /// Solves from the last state: 0 at first.
    pub fn solve(&mut self) -> Result<&Solution> {
        self.solve_with(|_| true)
    }

    /// As [`solve`](Self::solve); `callback` sees every iteration and ends the solve by returning `false`.
    ///
    /// ```
    /// use sheaf_admm::admm::Status;
    /// use sheaf_admm::network::{Network, Settings};
    /// use sheaf_admm::x_update::Quadratic;
    ///
    /// let mut net = Network::new();
    /// let a = net.agent(Quadratic::new([[1.0]], [-1.0]))?;
    /// let b = net.agent(Quadratic::new([[9.0]], [-5.0]))?;
    /// net.agree(a, [[1.0]], b, [[1.0]])?;
    /// let mut solver = net.solver(Settings { tol: 1e-12, ..Settings::default() })?;
    /// let solution = solver.solve_with(|progress| progress.iteration < 2)?;
    /// assert_eq!((solution.status(), solution.iterations()), (Status::Stopped, 3));
    /// # Ok::<(), sheaf_admm::Error>(())
    /// ```
    pub fn solve_with(&mut self, callback: impl FnMut(&Progress<'_>) -> bool) -> Result<&Solution> {
        pool::with_threads(self.settings.threads, || self.run(callback))?;
        Ok(&self.solution)
    }

    fn run(&mut self, callback: impl FnMut(&Progress<'_>) -> bool) -> Result<()> {
        let began = Instant::now();
        // Prices and certificates come after the iterations.
        let limit = self.settings.time_limit;
        let deadline = limit.and_then(|limit| began.checked_add(limit.saturating_add(AFTER)));
        clock::until(deadline, || self.iterate_and_report(began, callback))?;
        self.solution.time = began.elapsed();
        if let (Some(limit), Status::TimeLimit, 1..) = (limit, self.solution.status, self.solution.iterations)
        {
            self.after = self.solution.time.saturating_sub(self.iterations_until(limit));
        }
        Ok(())
    }

    /// When the iterations of a solve end, from its beginning: what comes after them needs time, too, but half of the time is theirs
    /// in any case.
    fn iterations_until(&self, limit: Duration) -> Duration {
        limit - self.after.min(limit / 2)
    }

    fn iterate_and_report(
        &mut self,
        began: Instant,
        callback: impl FnMut(&Progress<'_>) -> bool,
    ) -> Result<()> {
        self.solution.history.clear();
        // Soft edges contradict nothing.
        if self.compiled.weights.is_some() {
            self.contradiction = Some(false);
        }
        let (status, residuals) = match self.iterate(began, callback) {
            // Offsets that do not add up to 0 around a cycle prove it before the first iteration.
            Err(e) if e.kind() == ErrorKind::Infeasible && e.place().starts_with("offset of edge") => {
                self.solution.iterations = 0;
                (Status::PrimalInfeasible, None)
            }
            other => other?,
        };
        self.conclude(status, residuals)
    }

    /// Reports a solve, and looks for contradicting edges where hard edges remain far off.
    pub(super) fn conclude(&mut self, status: Status, residuals: Option<Residuals<f64>>) -> Result<()> {
        self.report(status, residuals);
        self.current = true;
        if self.contradiction == Some(true) {
            self.solution.status = Status::PrimalInfeasible;
            return Ok(());
        }
        let hard = self.compiled.weights.is_none();
        let missed =
            matches!(status, Status::Inexact(_) | Status::IterationLimit | Status::SuspectedInfeasible);
        if hard && missed && self.solution.misses.edges.0 > self.solution.misses.edges.1 {
            let op = self.compiled.op()?;
            if self.contradiction.is_none() && contradict(&op, &self.compiled.offsets)? {
                self.solution.status = Status::PrimalInfeasible;
            }
        }
        Ok(())
    }

    /// Runs the scaled problem and keeps its state.
    fn iterate(
        &mut self,
        began: Instant,
        callback: impl FnMut(&Progress<'_>) -> bool,
    ) -> Result<(Status, Option<Residuals<f64>>)> {
        let Settings { tol, iterations, time_limit, adapt, relax, .. } = self.settings;
        let mut options = Options::until(tol, tol, iterations);
        options.time_limit = time_limit.map(|t| self.iterations_until(t).saturating_sub(began.elapsed()));
        options.balancing = adapt.then(Balancing::relative);
        let problem = problem(&self.compiled, &self.z_update, self.rho, relax)?;
        let Solution { history, starts, edge_starts, .. } = &mut self.solution;
        let (net, unit, edges) = (&self.net, &*self.unit, &mut self.edges);
        let (contradiction, offsets) = (&mut self.contradiction, &self.compiled.offsets);
        let mut watch = Watch {
            net,
            unit,
            tol,
            starts,
            edge_starts,
            edges,
            history,
            contradiction,
            offsets,
            whole: None,
            callback,
        };
        let start = Start::Warm { z: &self.z, u: &self.u };
        if self.prepared {
            self.workspace.keep_consensus(self.moved);
        }
        let report = problem.solve(start, &options, &mut self.workspace, &mut watch)?;
        (self.prepared, self.moved) = self.workspace.is_prepared();
        self.solution.iterations = report.iterations;
        if !self.workspace.x().is_empty() {
            problem.prices_alone(&mut self.workspace, &mut self.edges.lambda)?;
            self.x.copy_from_slice(self.workspace.x());
            self.z.copy_from_slice(self.workspace.z());
            self.u.copy_from_slice(self.workspace.u());
            self.rho *= report.rho_factor;
            self.limit_rho();
        }
        // The next solve may be one of other numbers: it does not start from a state that is lost.
        if report.status == Status::NumericalFailure && !self.z.iter().chain(&self.u).all(|v| v.is_finite()) {
            self.reset();
        }
        Ok((report.status, report.residuals))
    }

    /// Every solve may change the penalty by a large factor: many of them together may not.
    pub(super) fn limit_rho(&mut self) {
        let limited = self.rho.clamp(self.first_rho / DRIFT, self.first_rho * DRIFT);
        if limited != self.rho {
            let ratio = self.rho / limited;
            self.u.iter_mut().for_each(|u| *u *= ratio);
            self.rho = limited;
        }
    }

    /// The last solution.
    pub fn solution(&self) -> &Solution {
        &self.solution
    }

    /// The last solution, without the solver.
    pub fn into_solution(self) -> Solution {
        self.solution
    }

    /// The network as it is now, with all updates.
    pub fn network(&self) -> &Network {
        &self.net
    }

    /// The settings; a change counts from the next solve. The penalty and the scaling were fixed at the start.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Forgets the last state: the next solve starts from 0 and the first penalty.
    pub fn reset(&mut self) {
        self.z.fill(0.0);
        self.u.fill(0.0);
        self.rho = self.first_rho;
        self.current = false;
    }

    /// Checks that what is asked for belongs to the last solution.
    pub(super) fn check_current(&self, what: &str) -> Result<()> {
        if self.current {
            return Ok(());
        }
        let got = "a solver that has not solved since it was made or changed";
        Err(Error::new(ErrorKind::Unsupported, what, "the problem and state of the last solution", got)
            .hint("call solve() first"))
    }
}

/// The scaled problem of a compiled network.
pub(super) fn problem<'a>(
    compiled: &'a Compiled,
    z_update: &'a ZUpdate<f64>,
    rho: f64,
    relax: f64,
) -> Result<Problem<'a, f64>> {
    let op = compiled.op()?;
    let objective = Objective::Own(&compiled.maps);
    Ok(Problem { op, objective, z_update, rho: Penalty::Scalar(rho), relax })
}
