//! Solvers for the same problems.

use std::time::Duration;

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SupportedConeT, ZeroConeT,
};
use sheaf_admm::Matrix;
use sheaf_admm::Result;
use sheaf_admm::network::{Edge, Network, Settings};
use sheaf_admm::x_update::Quadratic;

use crate::instance::{D, Instance, SHARED, WEIGHT};
use crate::measure::Cost;
use crate::program::Program;

/// How a solver ended, and its x.
pub struct Answer {
    /// In the solver's own words, lower case.
    pub status: String,
    /// The numbers of all agents; none if there is no answer.
    pub x: Vec<f64>,
    /// What it took, if the solver ran in a process of its own.
    pub cost: Option<Cost>,
    /// The memory of that process.
    pub peak_rss_mb: Option<f64>,
}

impl Answer {
    /// An answer of this process.
    pub fn new(status: String, x: Vec<f64>) -> Self {
        Self { status, x, cost: None, peak_rss_mb: None }
    }

    /// Why there is none.
    pub fn without(status: String) -> Self {
        Self::new(status, Vec::new())
    }
}

/// The instance as a network.
pub fn network(instance: &Instance) -> Result<Network> {
    let mut net = Network::new();
    let mut agents = Vec::with_capacity(instance.agents());
    for (quad, q) in instance.quad.iter().zip(&instance.linear) {
        agents.push(net.agent(Quadratic::new(Matrix::dense(D, D, quad.to_vec()), q.to_vec()))?);
    }
    let first = Matrix::selector(D, (0..SHARED).collect::<Vec<_>>());
    for &(a, b) in &instance.pairs {
        let edge = Edge::new(agents[a as usize], &first, agents[b as usize], &first);
        net.edge(if instance.hard { edge } else { edge.soft(WEIGHT) })?;
    }
    Ok(net)
}

/// This library.
pub fn ours(instance: &Instance, tol: f64, limit: Duration) -> Result<Answer> {
    let settings = Settings { tol, time_limit: Some(limit), ..Settings::default() };
    let mut solver = network(instance)?.into_solver(settings)?;
    let solution = solver.solve()?;
    Ok(Answer::new(solution.status().to_string(), solution.all_x().to_vec()))
}

/// A matrix by columns from its entries, which are used up.
fn columns(rows: usize, cols: usize, entries: Vec<(u32, u32, f64)>) -> CscMatrix<f64> {
    let (mut i, mut j, mut v) = (Vec::new(), Vec::new(), Vec::new());
    for (row, col, value) in entries {
        i.push(row as usize);
        j.push(col as usize);
        v.push(value);
    }
    CscMatrix::new_from_triplets(rows, cols, i, j, v)
}

/// Clarabel, an interior-point method.
pub fn clarabel(program: Program, tol: f64, limit: Duration) -> Answer {
    let (n, states) = (program.q.len(), program.states);
    // Equalities first, then every finite end of the others as one row.
    let equal = |row: usize| program.lower[row] == program.upper[row];
    let rows = program.lower.len();
    let mut places = vec![[usize::MAX; 2]; rows];
    let (mut b, mut count) = (Vec::new(), 0);
    for row in (0..rows).filter(|&row| equal(row)) {
        places[row][0] = count;
        b.push(program.upper[row]);
        count += 1;
    }
    let equalities = count;
    for row in (0..rows).filter(|&row| !equal(row)) {
        for (side, end) in [program.upper[row], -program.lower[row]].into_iter().enumerate() {
            if end.is_finite() {
                places[row][side] = count;
                b.push(end);
                count += 1;
            }
        }
    }
    let mut entries = Vec::with_capacity(program.a.len());
    for (row, col, value) in program.a {
        for (place, sign) in places[row as usize].into_iter().zip([1.0, -1.0]) {
            if place != usize::MAX {
                entries.push((place as u32, col, sign * value));
            }
        }
    }
    let (p, a) = (columns(n, n, program.p), columns(count, n, entries));
    let cones: Vec<SupportedConeT<f64>> = vec![ZeroConeT(equalities), NonnegativeConeT(count - equalities)];
    let settings = DefaultSettings {
        verbose: false,
        tol_gap_abs: tol,
        tol_gap_rel: tol,
        tol_feas: tol,
        time_limit: limit.as_secs_f64(),
        ..DefaultSettings::default()
    };
    match DefaultSolver::new(&p, &program.q, &a, &b, &cones, settings) {
        Ok(mut solver) => {
            solver.solve();
            let status = format!("{:?}", solver.solution.status).to_lowercase();
            solver.solution.x.truncate(states);
            Answer::new(status, solver.solution.x)
        }
        Err(e) => Answer::without(e.to_string()),
    }
}
