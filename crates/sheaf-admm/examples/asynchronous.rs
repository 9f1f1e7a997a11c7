//! Agents that are not in step on a convex problem: how many iterations late and lost messages and sleep cost.
//!
//! 64 agents on a grid, strongly convex quadratics, soft agreement through random maps: the solution is the x with
//! (D + γL) x = −q. Descent takes one step a round with η = 1/(γ λ + ρ), λ the largest eigenvalue of L, from where each agent
//! was. The yardstick: what agents in step do in one round, contractions in a maximum norm do within 1 + delay rounds (Bertsekas
//! and Tsitsiklis 1989); a share p of lost messages and a share a of awake agents make that 1/(1 − p) and 1/a rounds on average.
//!
//!     cargo run --release -p sheaf-admm --example asynchronous               a table
//!     cargo run --release -p sheaf-admm --example asynchronous convex.csv    and the errors of every iteration

use std::fmt::Write as _;

use sheaf_admm::Result;
use sheaf_admm::admm::{Iteration, Mode, Options, Problem, Start, Workspace};
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Maps, Sheaf, SheafOp};
use sheaf_admm::x_update::{Diagonal, Objective, Penalty};
use sheaf_admm::z_update::{Agreement, Asynchronous, Descent, OutOfStep, Stop, ZUpdate};

const SIDE: usize = 8;
const D_V: usize = 3;
const D_E: usize = 2;
const GAMMA: f64 = 1.0;
const RHO: f64 = 1.0;
/// Most iterations of a solve, the relative error to reach, and one at which to end.
const ITERATIONS: usize = 10_000;
const GOAL: f64 = 1e-6;
const END: f64 = 1e-9;

/// The lags of the table.
const LAGS: [(&str, &[&str]); 4] = [
    ("in step", &["delay=0"]),
    ("delay", &["delay=1", "delay=2", "delay=4", "delay=8", "delay=16", "delay=32"]),
    ("loss", &["loss=0.1", "loss=0.3", "loss=0.5", "loss=0.7", "loss=0.9"]),
    ("activity", &["activity=0.9", "activity=0.7", "activity=0.5", "activity=0.3", "activity=0.1"]),
];

/// Numbers from −1 to 1 that are the same everywhere.
fn numbers(seed: u64, len: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..len + 16).map(|_| next()).skip(16).collect()
}

/// Maps, curvatures and slopes.
struct Convex {
    sheaf: Sheaf,
    stacks: Vec<f64>,
    diag: Vec<f64>,
    q: Vec<f64>,
}

impl Convex {
    fn new() -> Result<Self> {
        let graph = AgentGraph::grid(SIDE, SIDE, Connectivity::Four)?;
        let sheaf = Sheaf::uniform(&graph, D_V, D_E)?;
        let mut stacks = vec![0.0; sheaf.stack_len()];
        let one = sheaf.stack_len() / sheaf.agents();
        for (i, stack) in stacks.chunks_exact_mut(one).enumerate() {
            Sheaf::pack_stack(&numbers(i as u64 + 1, 4 * D_E * D_V), D_V, stack)?;
        }
        let n = sheaf.state_len();
        let diag = numbers(1000, n).iter().map(|d| 1.0 + 0.5 * d).collect();
        Ok(Self { stacks, diag, q: numbers(2000, n), sheaf })
    }

    fn op(&self) -> Result<SheafOp<'_, f64>> {
        SheafOp::new(&self.sheaf, Maps::PerAgent(&self.stacks))
    }

    /// y = (D + γL) x.
    fn apply(&self, x: &[f64], y: &mut [f64]) -> Result<()> {
        let (mut rows, mut s) = (vec![0.0; self.sheaf.row_len()], vec![0.0; self.sheaf.row_len()]);
        self.op()?.laplacian(x, y, &mut rows, &mut s)?;
        y.iter_mut().zip(&self.diag).zip(x).for_each(|((y, d), x)| *y = GAMMA * *y + d * x);
        Ok(())
    }

    /// The solution, by conjugate gradients that share no code with the consensus solvers.
    fn solution(&self) -> Result<Vec<f64>> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let n = self.q.len();
        let mut r: Vec<f64> = self.q.iter().map(|q| -q).collect();
        let (mut x, mut p, mut ap, mut rr) = (vec![0.0; n], r.clone(), vec![0.0; n], dot(&r, &r));
        for _ in 0..20 * n {
            if rr < 1e-28 {
                break;
            }
            self.apply(&p, &mut ap)?;
            let alpha = rr / dot(&p, &ap);
            for k in 0..n {
                x[k] += alpha * p[k];
                r[k] -= alpha * ap[k];
            }
            let next = dot(&r, &r);
            (0..n).for_each(|k| p[k] = r[k] + next / rr * p[k]);
            rr = next;
        }
        Ok(x)
    }

    /// The largest eigenvalue of L, by the power method.
    fn largest(&self) -> Result<f64> {
        let (op, n) = (self.op()?, self.sheaf.state_len());
        let (mut rows, mut s) = (vec![0.0; self.sheaf.row_len()], vec![0.0; self.sheaf.row_len()]);
        let (mut x, mut y, mut size) = (numbers(3, n), vec![0.0; n], 0.0);
        for _ in 0..2000 {
            op.laplacian(&x, &mut y, &mut rows, &mut s)?;
            size = y.iter().map(|y| y * y).sum::<f64>().sqrt();
            x.iter_mut().zip(&y).for_each(|(x, y)| *x = y / size);
        }
        Ok(size)
    }

    /// Relative errors of x after every iteration.
    fn errors(&self, eta: f64, lag: OutOfStep, solution: &[f64]) -> Result<Vec<f64>> {
        let descent =
            Descent { agreement: Agreement::Soft { gamma: GAMMA }, eta, momentum: 0.0, stop: Stop::Steps(1) };
        let z_update = ZUpdate::Asynchronous(Asynchronous { descent, warm: true, lag });
        let problem = Problem {
            op: self.op()?,
            objective: Objective::Diagonal(Diagonal::new(&self.diag, &self.q)),
            z_update: &z_update,
            rho: Penalty::Scalar(RHO),
            relax: 1.0,
        };
        problem.validate()?;
        let size = solution.iter().map(|x| x * x).sum::<f64>().sqrt();
        let mut errors = Vec::new();
        let mut ws = Workspace::new(&problem, Mode::Solve);
        problem.solve(Start::Zeros, &Options::fixed(ITERATIONS), &mut ws, &mut |view: &Iteration<
            '_,
            '_,
            f64,
        >| {
            let square = view.x.iter().zip(solution).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            errors.push(square.sqrt() / size);
            square.sqrt() > END * size
        })?;
        Ok(errors)
    }
}

/// Iterations after which the error stays below the goal.
fn reached(errors: &[f64]) -> Option<usize> {
    let last = errors.iter().rposition(|&error| error > GOAL).map_or(0, |k| k + 1);
    (last < errors.len()).then_some(last + 1)
}

/// Solves with every lag and prints the table.
pub fn main() -> Result<()> {
    let convex = Convex::new()?;
    let (solution, eta) = (convex.solution()?, 1.0 / (GAMMA * convex.largest()? + RHO));
    let mut table = String::from("kind,curve,iteration,error\n");
    println!("{:>14}  {:>10}  {:>6}  {:>9}", "lag", "iterations", "ratio", "yardstick");
    let mut in_step = 1;
    for (kind, lags) in LAGS {
        for text in lags {
            let lag: OutOfStep = text.parse()?;
            let errors = convex.errors(eta, lag, &solution)?;
            let iterations = reached(&errors);
            if lag.is_in_step() {
                in_step = iterations.unwrap_or(ITERATIONS);
            }
            let bound = (1.0 + lag.delay as f64) / (1.0 - lag.loss) / lag.activity;
            let ratio = iterations.map(|k| k as f64 / in_step as f64);
            let (count, share) = (
                iterations.map_or("not".into(), |k| k.to_string()),
                ratio.map_or("–".into(), |r| format!("{r:.2}")),
            );
            println!("{text:>14}  {count:>10}  {share:>6}  {bound:>9.2}");
            let curve = if lag.is_in_step() { kind } else { text };
            for (k, error) in errors.iter().enumerate().step_by(10) {
                let _ = writeln!(table, "{kind},{curve},{},{error:e}", k + 1);
            }
            // Shares of lost messages and of sleep are averages, which bound no single run; a delay is a bound.
            let bounded = lag.loss > 0.0 || lag.activity < 1.0 || ratio.is_some_and(|ratio| ratio <= bound);
            assert!(iterations.is_some() && bounded, "{text}: {count} iterations, bound {bound}");
        }
    }
    if let Some(path) = std::env::args().nth(1).filter(|path| path.ends_with(".csv")) {
        std::fs::write(&path, table).unwrap_or_else(|error| println!("{path}: {error}"));
    }
    Ok(())
}
