//! Model predictive control of a formation: four vehicles plan over a horizon, keep their places in a square relative to
//! their neighbours, and share only the plan of their positions. After every step they plan again, starting from the
//! last plan, its prices and its penalty.
//!
//! A vehicle is a double integrator, x = (positions, velocities, forces over the horizon):
//!
//!     p' = p + h v,  v' = v + h a,  |a| ≤ 2      cost: the leader's distance to the goal, speed and force
//!
//! Checked against an interior-point method at the first step. `-- paths.svg` draws the paths.

mod common;

use std::time::Instant;

use common::{COLOURS, Outcome, Picture, Program, Row, agree, save_problem};
use sheaf_admm::Matrix;
use sheaf_admm::network::{AgentId, Edge, Network, Settings, Solver};
use sheaf_admm::x_update::Quadratic;

const VEHICLES: usize = 4;
const HORIZON: usize = 10;
const STEP: f64 = 0.2;
const D: usize = 6 * HORIZON; // per time: position, velocity, force in the plane
const GOAL: [f64; 2] = [6.0, 4.0];
const PLACES: [[f64; 2]; VEHICLES] = [[0.0, 0.0], [-1.0, 0.0], [-1.0, -1.0], [0.0, -1.0]];

/// Position, velocity, force at time t (1 … HORIZON; the force acts before it), coordinate k.
fn index(t: usize, what: usize, k: usize) -> usize {
    6 * (t - 1) + 2 * what + k
}

/// The dynamics as rows A x = b, with b for this state (position, velocity).
fn dynamics(state: &[[f64; 2]; 2]) -> Vec<Row> {
    let mut rows = Vec::new();
    for t in 1..=HORIZON {
        for k in 0..2 {
            let mut position = vec![(index(t, 0, k), 1.0)];
            let mut velocity = vec![(index(t, 1, k), 1.0), (index(t, 2, k), -STEP)];
            let (mut p, mut v) = (0.0, 0.0);
            if t == 1 {
                (p, v) = (state[0][k] + STEP * state[1][k], state[1][k]);
            } else {
                position.extend([(index(t - 1, 0, k), -1.0), (index(t - 1, 1, k), -STEP)]);
                velocity.push((index(t - 1, 1, k), -1.0));
            }
            rows.extend([(position, p), (velocity, v)]);
        }
    }
    rows
}

fn weights(i: usize) -> Vec<f64> {
    let leader = if i == 0 { 1.0 } else { 0.0 };
    (0..HORIZON).flat_map(|_| [leader, leader, 0.1, 0.1, 0.05, 0.05]).collect()
}

fn pull(i: usize) -> Vec<f64> {
    let leader = if i == 0 { 1.0 } else { 0.0 };
    (0..HORIZON).flat_map(|_| [-leader * GOAL[0], -leader * GOAL[1], 0.0, 0.0, 0.0, 0.0]).collect()
}

fn bounds() -> (Vec<f64>, Vec<f64>) {
    let hi: Vec<f64> = (0..D).map(|j| if j % 6 >= 4 { 2.0 } else { f64::INFINITY }).collect();
    (hi.iter().map(|b| -b).collect(), hi)
}

fn formation(
    states: &[[[f64; 2]; 2]; VEHICLES],
) -> Result<(Solver, Vec<AgentId>), Box<dyn std::error::Error>> {
    let (mut net, mut agents) = (Network::new(), Vec::new());
    for (i, state) in states.iter().enumerate() {
        let rows = dynamics(state);
        let entries: Vec<_> =
            rows.iter().enumerate().flat_map(|(r, row)| row.0.iter().map(move |&(c, v)| (r, c, v))).collect();
        let (lo, hi) = bounds();
        let f = Quadratic::new(Matrix::diagonal(weights(i)), pull(i))
            .bounds(lo, hi)
            .equal(Matrix::sparse(rows.len(), D, entries), rows.iter().map(|r| r.1).collect::<Vec<_>>());
        agents.push(net.agent(f)?);
    }
    // The positions of the whole plan; the first moves are already decided by momentum, so the edge is soft.
    let positions: Vec<usize> = (1..=HORIZON).flat_map(|t| [index(t, 0, 0), index(t, 0, 1)]).collect();
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
        let gap: Vec<f64> = (0..2 * HORIZON).map(|j| PLACES[a][j % 2] - PLACES[b][j % 2]).collect();
        let see = || Matrix::selector(D, &positions);
        net.edge(Edge::new(agents[a], see(), agents[b], see()).offset(gap).soft(5.0))?;
    }
    save_problem(&net, "formation")?;
    Ok((net.solver(Settings { tol: 1e-5, rho: Some(0.5), ..Settings::default() })?, agents))
}

/// Solves the problem and compares it with the oracle.
pub fn main() -> Outcome {
    let starts = [[0.0, 2.0], [-2.5, 0.0], [0.5, -2.0], [1.5, 0.5]];
    let mut states = starts.map(|p| [p, [0.0, 0.0]]);
    let (mut solver, agents) = formation(&states)?;
    check(&mut solver, &states)?;
    let mut paths: Vec<Vec<[f64; 2]>> = starts.iter().map(|p| vec![*p]).collect();
    let (mut slowest, mut total) = (0.0f64, 0.0);
    const STEPS: usize = 40;
    for _ in 0..STEPS {
        let began = Instant::now();
        for (i, state) in states.iter().enumerate() {
            let b: Vec<f64> = dynamics(state).into_iter().map(|row| row.1).collect();
            solver.update_equal(agents[i], &b)?;
        }
        let solution = solver.solve()?;
        assert!(solution.is_solved(), "{}", solution.status());
        let seconds = began.elapsed().as_secs_f64();
        (slowest, total) = (slowest.max(seconds), total + seconds);
        for (i, state) in states.iter_mut().enumerate() {
            let x = solution.x(agents[i]);
            *state = [0, 1].map(|what| [0, 1].map(|k| x[index(1, what, k)]));
            paths[i].push(state[0]);
        }
    }
    let off: f64 = (0..VEHICLES)
        .flat_map(|i| (0..2).map(move |k| (i, k)))
        .map(|(i, k)| (states[i][0][k] - GOAL[k] - PLACES[i][k]).abs())
        .fold(0.0, f64::max);
    println!(
        "{STEPS} plans, {:.2} ms each, {:.2} ms at most; places are kept to {off:.3}",
        1e3 * total / STEPS as f64,
        1e3 * slowest
    );
    assert!(off < 0.05, "the formation must arrive");
    let mut picture = Picture::new([-2.8, -2.3], [6.4, 5.0]);
    // The outline of the formation, every fifth plan, under the paths.
    for t in (0..=STEPS).step_by(5) {
        let outline = [0, 1, 2, 3, 0].map(|i: usize| paths[i][t]);
        picture.line(&outline, if t == STEPS { "#666666" } else { "#cccccc" }, 1.0);
    }
    for (i, path) in paths.iter().enumerate() {
        picture.line(path, COLOURS[i], 2.5);
        path.iter().step_by(5).for_each(|p| picture.dot(*p, COLOURS[i], 3.0));
        picture.dot(path[path.len() - 1], COLOURS[i], 7.0);
    }
    picture.text([-2.7, 4.7], "Four vehicles find their square and carry it to the goal.");
    picture.text([-2.7, 4.35], "A small dot, and the grey outline of the formation, every fifth plan.");
    picture.save()?;
    Ok(())
}

/// The first plan against an interior-point method.
fn check(solver: &mut Solver, states: &[[[f64; 2]; 2]; VEHICLES]) -> Outcome {
    solver.settings_mut().tol = 1e-9;
    let ours = solver.solve()?.all_x().to_vec();
    solver.settings_mut().tol = 1e-5;
    let mut whole = Program::default();
    let (lo, hi) = bounds();
    for (i, state) in states.iter().enumerate() {
        let first = whole.variables(pull(i));
        weights(i).iter().enumerate().for_each(|(j, w)| whole.p.push((first + j, first + j, *w)));
        for (row, right) in dynamics(state) {
            whole.equal.push((row.into_iter().map(|(c, v)| (first + c, v)).collect(), right));
        }
        for j in (0..D).filter(|j| hi[*j].is_finite()) {
            whole.at_most.push((vec![(first + j, 1.0)], hi[j]));
            whole.at_most.push((vec![(first + j, -1.0)], -lo[j]));
        }
    }
    for (a, b) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
        for t in 1..=HORIZON {
            for k in 0..2 {
                let r = whole.variables([0.0]);
                whole.p.push((r, r, 5.0));
                let row = vec![(a * D + index(t, 0, k), 1.0), (b * D + index(t, 0, k), -1.0), (r, -1.0)];
                whole.equal.push((row, PLACES[a][k] - PLACES[b][k]));
            }
        }
    }
    let worst = agree("first plan", &ours, &whole.solve().x[..VEHICLES * D], 1e-5);
    println!("first plan: the interior-point method agrees to {worst:.0e}");
    Ok(())
}
