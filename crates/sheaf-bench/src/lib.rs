//! Networks of agents against general solvers on the same problems: `sheaf bench problems`.
//!
//! | problem | agents | edges |
//! | --- | --- | --- |
//! | `plane-soft`, `plane-hard` | 100,000 with six numbers and dense quadratics | eight nearest in the plane, on three numbers |
//! | `regular-hard` | the same | random, degree 10 |
//! | `plane-soft-large` | ten times as many | as `plane-soft` |
//! | `power-flow` | 14 buses | copies of voltage angles; from a cold start, the median of 25 |
//! | `formation` | 4 vehicles, 60 numbers each | soft, plans of positions; the slowest of 40 plans, each from the last |
//!
//! Solvers: `sheaf-admm`, `clarabel`, `osqp`, and `faer`, one sparse factorisation of the whole. Every row runs in a process of
//! its own, so that its peak memory is its own. OSQP runs where `python3` (or what `SHEAF_PYTHON` names) has the package
//! `osqp`. Time runs from plain numbers to a solution: what a solver builds for itself
//! counts. `error` is the largest difference from an independent solution, relative to its largest number (at least 1). Every solver
//! is asked for a tolerance of 1e-4, in the power flow for 1e-6.

mod direct;
pub mod graph;
pub mod instance;
mod measure;
mod osqp;
mod parent;
mod program;
mod small;
mod solvers;

pub use parent::{Options, run};
pub use solvers::network;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Result};

use instance::Instance;
use measure::{Clock, Cost, status_mb};
use program::Program;
use solvers::Answer;

/// The problems.
pub const PROBLEMS: [&str; 6] =
    ["plane-soft", "plane-hard", "regular-hard", "plane-soft-large", "power-flow", "formation"];
/// The solvers.
pub const SOLVERS: [&str; 4] = ["sheaf-admm", "clarabel", "osqp", "faer"];
/// Agents of the large problems.
pub const AGENTS: usize = 100_000;
/// The tolerance that every solver is asked for.
pub const TOL: f64 = 1e-4;
/// The same in the power flow. Its lines carry up to 24 units of power per radian: disagreement of angles counts so many times in
/// the error.
pub const TOL_POWER_FLOW: f64 = 1e-6;

const SEED: u64 = 1;

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// One of [`PROBLEMS`].
    pub problem: String,
    /// One of [`SOLVERS`].
    pub solver: String,
    /// How it ended, in the solver's own words; or why it did not.
    pub status: String,
    /// Agents of the problem.
    pub agents: usize,
    /// Seconds from numbers to a solution.
    pub seconds: Option<f64>,
    /// The same, of all threads together.
    pub cpu_seconds: Option<f64>,
    /// The most memory that the process had, in MB.
    pub peak_rss_mb: Option<f64>,
    /// The largest difference from the oracle.
    pub error: Option<f64>,
}

/// The number of agents of a problem if the large ones have `agents`.
pub fn size(problem: &str, agents: usize) -> usize {
    match problem {
        "plane-soft-large" => 10 * agents,
        "power-flow" => 14,
        "formation" => 4,
        _ => agents,
    }
}

/// Measures one row in this process.
pub fn measure(problem: &str, solver: &str, agents: usize, limit: Duration) -> Result<Row> {
    let count = size(problem, agents);
    let (answer, cost, peak, oracle) = match problem {
        "power-flow" | "formation" => {
            let general: Option<small::General> = match solver {
                "sheaf-admm" => None,
                "clarabel" => Some(solvers::clarabel),
                "osqp" => Some(osqp::osqp),
                "faer" => Some(|program, tol, _| direct::direct(&program, tol)),
                _ => return Err(unknown("solver", solver, &SOLVERS)),
            };
            let measured = match problem {
                "power-flow" => small::power_flow(general, TOL_POWER_FLOW, limit)?,
                _ => small::formation(general, TOL, limit)?,
            };
            let peak = measured.answer.peak_rss_mb.or(status_mb("self", "VmHWM"));
            (measured.answer, measured.cost, peak, measured.oracle)
        }
        _ => {
            let pairs = match problem {
                "regular-hard" => graph::regular(count, 10, SEED),
                "plane-soft" | "plane-hard" | "plane-soft-large" => {
                    graph::nearest_in_the_plane(count, 8, SEED)
                }
                _ => return Err(unknown("problem", problem, &PROBLEMS)),
            };
            let instance = Instance::new(count, pairs, problem.ends_with("hard"), SEED);
            let (answer, cost) = large(&instance, solver, limit)?;
            // Before the oracle needs memory of its own.
            let peak = answer.peak_rss_mb.or(status_mb("self", "VmHWM"));
            let oracle = if answer.x.is_empty() { Vec::new() } else { instance.oracle() };
            (answer, cost, peak, oracle)
        }
    };
    let ran = !answer.x.is_empty();
    Ok(Row {
        problem: problem.into(),
        solver: solver.into(),
        status: answer.status,
        agents: count,
        seconds: ran.then_some(cost.seconds),
        cpu_seconds: ran.then_some(cost.cpu_seconds),
        peak_rss_mb: peak.filter(|_| ran),
        error: ran.then(|| difference(&answer.x, &oracle)),
    })
}

fn large(instance: &Instance, solver: &str, limit: Duration) -> Result<(Answer, Cost)> {
    let clock = Clock::start();
    let answer = match solver {
        "sheaf-admm" => solvers::ours(instance, TOL, limit)?,
        "clarabel" => solvers::clarabel(Program::of_instance(instance), TOL, limit),
        "osqp" => osqp::osqp(Program::of_instance(instance), TOL, limit),
        "faer" => direct::direct(&Program::of_instance(instance), TOL),
        _ => return Err(unknown("solver", solver, &SOLVERS)),
    };
    let cost = answer.cost.unwrap_or_else(|| clock.cost());
    Ok((answer, cost))
}

fn difference(x: &[f64], oracle: &[f64]) -> f64 {
    let size = oracle.iter().fold(1.0f64, |m, x| m.max(x.abs()));
    let worst = x.iter().zip(oracle).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    // A largest number passes over NaN.
    if x.len() == oracle.len() && x.iter().all(|x| x.is_finite()) { worst / size } else { f64::INFINITY }
}

fn unknown(what: &str, got: &str, all: &[&str]) -> Error {
    Error::new(ErrorKind::OutOfRange, what, format_args!("one of {}", all.join(", ")), got)
}
