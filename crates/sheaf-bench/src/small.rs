//! Small problems where latency counts, from problem files: the optimal power flow of the 14-bus system from a cold start,
//! and a formation of four vehicles that plans again and again.
//!
//! `data/power14.json` and `data/formation.json` are the problems of the examples `dc_power_flow` and `formation_mpc` of
//! `sheaf-admm`, written with `network::file::Problem::of`.

use std::time::Duration;

use serde::Deserialize as _;
use sheaf_admm::network::file::Problem;
use sheaf_admm::network::{AgentId, Network, Settings, Solver};
use sheaf_admm::{Error, ErrorKind, Result};

use crate::measure::{Clock, Cost};
use crate::program::Program;
use crate::solvers::{Answer, clarabel};

const POWER: &str = include_str!("data/power14.json");
const FORMATION: &str = include_str!("data/formation.json");

/// Repetitions of the power flow.
const COLD: usize = 25;
/// Plans of the formation.
const PLANS: usize = 40;

/// A measured answer and the oracle's x.
pub struct Measured {
    /// The solver's answer.
    pub answer: Answer,
    /// The cost of one solve.
    pub cost: Cost,
    /// x to high accuracy.
    pub oracle: Vec<f64>,
}

/// Solves a program.
pub type General = fn(Program, f64, Duration) -> Answer;

fn read(text: &str) -> Result<Problem> {
    let mut json = serde_json::Deserializer::from_str(text);
    Problem::deserialize(&mut json)
        .map_err(|e| Error::new(ErrorKind::Malformed, "benchmark problem", "a problem file", e))
}

fn oracle(problem: &Problem) -> Result<Vec<f64>> {
    Ok(clarabel(Program::of_file(problem)?, 1e-11, Duration::from_secs(60)).x)
}

/// Solves by a general solver and notes the cost.
fn timed(
    solve: General,
    problem: &Problem,
    tol: f64,
    limit: Duration,
    costs: &mut Vec<Cost>,
) -> Result<Answer> {
    let program = Program::of_file(problem)?;
    let clock = Clock::start();
    let answer = solve(program, tol, limit);
    costs.push(answer.cost.unwrap_or_else(|| clock.cost()));
    Ok(answer)
}

/// The middle one by time.
fn median(mut costs: Vec<Cost>) -> Cost {
    costs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    costs.get(costs.len() / 2).copied().unwrap_or_default()
}

/// The power flow from a cold start, the median of several; without a general solver, by this library.
pub fn power_flow(general: Option<General>, tol: f64, limit: Duration) -> Result<Measured> {
    let problem = read(POWER)?;
    let mut last = None;
    let mut costs = Vec::new();
    for _ in 0..COLD {
        let answer = match general {
            None => {
                let net = problem.network(&mut ())?;
                let clock = Clock::start();
                let mut solver =
                    net.solver(Settings { tol, time_limit: Some(limit), ..Settings::default() })?;
                let solution = solver.solve()?;
                costs.push(clock.cost());
                Answer::new(solution.status().to_string(), solution.all_x().to_vec())
            }
            Some(solve) => timed(solve, &problem, tol, limit, &mut costs)?,
        };
        last = Some(answer);
    }
    let answer = last.unwrap_or(Answer::without("nothing ran".into()));
    Ok(Measured { answer, cost: median(costs), oracle: oracle(&problem)? })
}

/// A plan after another, the slowest of them. A general solver starts each plan anew.
pub fn formation(general: Option<General>, tol: f64, limit: Duration) -> Result<Measured> {
    let mut problem = read(FORMATION)?;
    let net = problem.network(&mut ())?;
    let agents: Vec<AgentId> = net.agent_ids().collect();
    let mut solver = solver(&net, &problem, tol, limit)?;
    let mut costs = Vec::new();
    let mut answer = Answer::new(String::new(), solver.solve()?.all_x().to_vec());
    for _ in 0..PLANS {
        let d = answer.x.len() / agents.len().max(1);
        if d == 0 {
            break;
        }
        let mut sides = Vec::new();
        for (x, agent) in answer.x.chunks_exact(d).zip(&mut problem.agents) {
            sides.push(advance(x, agent)?);
        }
        answer = match general {
            None => {
                let clock = Clock::start();
                for (&agent, b) in agents.iter().zip(&sides) {
                    solver.update_equal(agent, b)?;
                }
                let solution = solver.solve()?;
                costs.push(clock.cost());
                Answer::new(solution.status().to_string(), solution.all_x().to_vec())
            }
            Some(solve) => timed(solve, &problem, tol, limit, &mut costs)?,
        };
    }
    let slowest = costs.into_iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds)).unwrap_or_default();
    Ok(Measured { answer, cost: slowest, oracle: oracle(&problem)? })
}

fn solver(net: &Network, problem: &Problem, tol: f64, limit: Duration) -> Result<Solver> {
    let settings = problem.settings(Settings::default())?;
    net.solver(Settings { tol, time_limit: Some(limit), ..settings })
}

/// The state after the first step of a plan becomes the right side of the next: rows are (position, velocity) by
/// coordinate, x begins with the positions and velocities of the first step.
fn advance(x: &[f64], agent: &mut sheaf_admm::network::file::FileAgent) -> Result<Vec<f64>> {
    use sheaf_admm::network::file::Numbers;
    const STEP: f64 = 0.2;
    let Some(Numbers::Each(b)) = agent.equal.as_mut().map(|e| &mut e.b) else {
        return Err(Error::new(ErrorKind::Malformed, "benchmark problem", "right sides", "none"));
    };
    for k in 0..2 {
        let (position, velocity) = (x[k], x[2 + k]);
        b[2 * k] = Some(position + STEP * velocity);
        b[2 * k + 1] = Some(velocity);
    }
    Ok(b.iter().map(|b| b.unwrap_or(0.0)).collect())
}
