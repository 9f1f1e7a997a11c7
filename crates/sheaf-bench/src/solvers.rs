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
use crate::program::Program;

/// How a solver ended, and its x.
pub struct Answer {
    /// In the solver's own words, lower case.
    pub status: String,
    /// The numbers of all agents.
    pub x: Vec<f64>,
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
    Ok(Answer { status: solution.status().to_string(), x: solution.all_x().to_vec() })
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
            Answer { status, x: solver.solution.x }
        }
        Err(e) => Answer { status: e.to_string(), x: Vec::new() },
    }
}

/// OSQP, an operator-splitting method.
#[cfg(feature = "osqp")]
pub fn osqp(program: Program, tol: f64, limit: Duration) -> Answer {
    use osqp::{CscMatrix as Csc, Problem, Settings as Own};
    let csc = |m: CscMatrix<f64>| Csc {
        nrows: m.m,
        ncols: m.n,
        indptr: m.colptr.into(),
        indices: m.rowval.into(),
        data: m.nzval.into(),
    };
    let (n, rows, states) = (program.q.len(), program.lower.len(), program.states);
    let p = csc(columns(n, n, program.p));
    let a = csc(columns(rows, n, program.a));
    let settings =
        Own::default().verbose(false).eps_abs(tol).eps_rel(tol).max_iter(1_000_000).time_limit(Some(limit));
    let mut problem = match Problem::new(p, &program.q, a, &program.lower, &program.upper, &settings) {
        Ok(problem) => problem,
        Err(e) => return Answer { status: e.to_string(), x: Vec::new() },
    };
    let status = problem.solve();
    let x = status.x().map_or(Vec::new(), |x| x[..states].to_vec());
    let name = format!("{status:?}");
    let name = name.split('(').next().unwrap_or("").to_lowercase();
    Answer { status: name, x }
}

/// Without the feature there is no such solver.
#[cfg(not(feature = "osqp"))]
pub fn osqp(_: Program, _: f64, _: Duration) -> Answer {
    Answer { status: "not built: feature osqp, which needs cmake".into(), x: Vec::new() }
}
