//! The solver of a network: scaled, factorised, warm.

use std::time::Instant;

use super::compile::Compiled;
use super::contradiction::contradict;
use super::progress::{Measure, Watch};
use super::report::{Edges, empty};
use super::scale::Scaling;
use super::{Misses, Network, Progress, Settings, Solution};
use crate::admm::{Balancing, Mode, Options, Problem, ResidualKind, Start, Status, Workspace};
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
    pub(super) unit: Vec<f64>, // [states], x = unit·x̂
    pub(super) x: Vec<f64>,    // [states], scaled
    pub(super) z: Vec<f64>,    // [states], scaled
    pub(super) u: Vec<f64>,    // [states], scaled
    pub(super) rho: f64,
    first_rho: f64,
    /// Whether the consensus step is prepared for the maps and offsets as they are.
    pub(super) same_edges: bool,
    pub(super) edges: Edges,
    pub(super) solution: Solution,
}

/// Residuals that are below their goals in scaled units may be above them in the units of the problem: then the solve
/// goes on with a smaller tolerance, this often.
const ROUNDS: usize = 6;
/// The longest history.
const HISTORY: usize = 10_000;

impl Solver {
    /// Scales and factorises.
    pub(super) fn new(net: &Network, settings: Settings) -> Result<Self> {
        settings.validate()?;
        if net.agents.is_empty() {
            return Err(Error::new(ErrorKind::Shape, "network", "at least one agent", "none"));
        }
        let net = net.detached();
        let mut scaling = if settings.scale { Scaling::ruiz(&net) } else { Scaling::none(&net) };
        for (agent, d) in net.agents.iter().zip(&mut scaling.states) {
            let penalty = |j: usize| agent.penalty.get(j).or(agent.penalty.first()).copied().unwrap_or(1.0);
            d.iter_mut().enumerate().for_each(|(j, d)| *d /= penalty(j).sqrt());
        }
        let compiled = Compiled::new(&net, scaling)?;
        let consensus = Exact::automatic(&compiled.op()?, compiled.agreement())?;
        let exact = !consensus.is_iterative();
        let z_update = ZUpdate::Exact(consensus);
        let n = compiled.sheaf.state_len();
        let solution = empty(&net, settings.iterations.min(HISTORY));
        let (unit, edges) = (compiled.units(), Edges::new(&net, &compiled, exact));
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
            same_edges: false,
            edges,
            solution,
        };
        let mut workspace = Workspace::default();
        let problem = solver.problem()?;
        problem.validate()?;
        workspace.fit(&problem, Mode::Solve);
        solver.workspace = workspace;
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
    pub fn solve_with(&mut self, callback: impl FnMut(&Progress<'_>) -> bool) -> Result<&Solution> {
        pool::with_threads(self.settings.threads, || self.rounds(callback))?;
        Ok(&self.solution)
    }

    fn rounds(&mut self, mut callback: impl FnMut(&Progress<'_>) -> bool) -> Result<()> {
        let began = Instant::now();
        let Settings { tol, time_limit, .. } = self.settings;
        self.solution.history.clear();
        let (mut inner, mut done, mut measure) = (tol, 0, Measure::default());
        for round in 0..ROUNDS {
            let status = match self.round(inner, done, began, &mut measure, &mut callback) {
                // Offsets that do not add up to 0 around a cycle prove it before the first iteration.
                Err(e) if e.kind() == ErrorKind::Infeasible && e.place().starts_with("offset of edge") => {
                    self.solution.iterations = done;
                    Status::PrimalInfeasible
                }
                other => other?,
            };
            done = self.solution.iterations;
            self.report(status, &measure)?;
            let Misses { primal, dual, edges } = self.solution.misses;
            let ratio = [primal, dual, edges].into_iter().map(|(r, goal)| r / goal).fold(0.0, f64::max);
            if status != Status::Solved || ratio <= 1.0 {
                break;
            }
            // Solved in scaled units only.
            let late = time_limit.is_some_and(|t| began.elapsed() >= t);
            self.solution.status = match () {
                () if done >= self.settings.iterations => Status::IterationLimit,
                () if late => Status::TimeLimit,
                () => self.unmet(),
            };
            if round + 1 == ROUNDS || !matches!(self.solution.status, Status::Inexact(_)) {
                break;
            }
            inner *= (0.5 / ratio).clamp(1e-3, 0.5);
        }
        let hard = self.compiled.weights.is_none();
        let missed = matches!(
            self.solution.status,
            Status::Inexact(_) | Status::IterationLimit | Status::SuspectedInfeasible
        );
        if hard && missed && self.solution.misses.edges.0 > self.solution.misses.edges.1 {
            let op = self.compiled.op()?;
            if contradict(&op, &self.compiled.offsets)? {
                self.solution.status = Status::PrimalInfeasible;
            }
        }
        self.solution.time = began.elapsed();
        Ok(())
    }

    /// One run of the scaled problem; keeps its state.
    fn round(
        &mut self,
        tol: f64,
        done: usize,
        began: Instant,
        measure: &mut Measure,
        callback: &mut impl FnMut(&Progress<'_>) -> bool,
    ) -> Result<Status> {
        let Settings { iterations, time_limit, adapt, relax, .. } = self.settings;
        let mut options = Options::until(tol, tol, iterations.saturating_sub(done));
        options.time_limit = time_limit.map(|t| t.saturating_sub(began.elapsed()));
        options.balancing = adapt.then(Balancing::relative);
        let problem = problem(&self.compiled, &self.z_update, self.rho, relax)?;
        let mut watch = Watch {
            unit: &self.unit,
            cost: self.compiled.scaling.cost,
            first: done,
            history: &mut self.solution.history,
            last: *measure,
            callback,
        };
        let start = Start::Warm { z: &self.z, u: &self.u };
        if self.same_edges {
            self.workspace.keep_consensus();
        }
        let report = problem.solve(start, &options, &mut self.workspace, &mut watch)?;
        self.same_edges = true;
        *measure = watch.last;
        self.solution.iterations = done + report.iterations;
        if !self.workspace.x().is_empty() {
            problem.prices(&mut self.workspace, &mut self.edges.lambda)?;
            self.x.copy_from_slice(self.workspace.x());
            self.z.copy_from_slice(self.workspace.z());
            self.u.copy_from_slice(self.workspace.u());
            self.rho *= report.rho_factor;
        }
        Ok(report.status)
    }

    /// The residual that is farthest above its goal.
    fn unmet(&self) -> Status {
        let Misses { primal, dual, edges } = self.solution.misses;
        let all = [(ResidualKind::Primal, primal), (ResidualKind::Dual, dual), (ResidualKind::Edges, edges)];
        let worst = all.into_iter().max_by(|a, b| (a.1.0 / a.1.1).total_cmp(&(b.1.0 / b.1.1)));
        Status::Inexact(worst.map_or(ResidualKind::Primal, |w| w.0))
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
