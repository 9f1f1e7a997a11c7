//! DC optimal power flow on the IEEE systems of 14 and 118 buses, with a price at every bus. Each bus knows its demand,
//! its generators and its lines, and agrees with its neighbours on voltage angles; nobody sees the whole grid.
//!
//! A bus holds x = (its angle, the angles of its neighbours, its generators):
//!
//!     generation − Σ_lines (θ − θ_j)/reactance = demand      its multiplier is the price of energy there
//!
//! One line is given a limit, so that prices differ from bus to bus. Checked against an interior-point method on the whole
//! grid, prices included. `-- --save-problem FOLDER` writes both grids as problem files. The data come from the PyPI package pypower; `data/` says how.

mod common;

use std::collections::BTreeMap;

use common::{Outcome, Program, agree, save_problem};
use sheaf_admm::Matrix;
use sheaf_admm::network::{Network, Settings};
use sheaf_admm::x_update::Quadratic;

/// Powers in units of 100 MW.
const BASE: f64 = 100.0;

struct Gen {
    bus: usize,
    max: f64,
    min: f64,
    square: f64,
    linear: f64,
}

struct Line {
    ends: [usize; 2],
    admittance: f64,
    limit: f64,
}

struct Grid {
    demand: Vec<f64>,
    gens: Vec<Gen>,
    lines: Vec<Line>,
}

fn read(text: &str, limit: (usize, f64)) -> Result<Grid, Box<dyn std::error::Error>> {
    let (mut numbers, mut grid) = (BTreeMap::new(), Grid { demand: vec![], gens: vec![], lines: vec![] });
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (kind, rest) = line.split_once(',').ok_or("a kind")?;
        let v: Vec<f64> = rest.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let bus = |k: usize| numbers.get(&(v[k] as usize)).copied().ok_or("a known bus");
        match kind {
            "bus" => {
                numbers.insert(v[0] as usize, grid.demand.len());
                grid.demand.push(v[1] / BASE);
            }
            "gen" => grid.gens.push(Gen {
                bus: bus(0)?,
                max: v[1] / BASE,
                min: v[2] / BASE,
                square: 2.0 * v[3] * BASE * BASE,
                linear: v[4] * BASE,
            }),
            _ => {
                let tap = if v[3] == 0.0 { 1.0 } else { v[3] };
                let number = grid.lines.len();
                let limit = if number == limit.0 { limit.1 / BASE } else { f64::INFINITY };
                grid.lines.push(Line { ends: [bus(0)?, bus(1)?], admittance: 1.0 / (v[2] * tap), limit });
            }
        }
    }
    Ok(grid)
}

/// Solves the problem and compares it with the oracle.
pub fn main() -> Outcome {
    solve("IEEE 14", include_str!("data/case14.csv"), (0, 100.0))?;
    solve("IEEE 118", include_str!("data/case118.csv"), (7, 200.0))
}

fn solve(name: &str, text: &str, limit: (usize, f64)) -> Outcome {
    let grid = read(text, limit)?;
    let buses = grid.demand.len();
    // The angles that a bus holds: its own first, then its neighbours'.
    let mut angles: Vec<Vec<usize>> = (0..buses).map(|i| vec![i]).collect();
    for line in &grid.lines {
        for (a, b) in [(0, 1), (1, 0)].map(|(a, b)| (line.ends[a], line.ends[b])) {
            if !angles[a].contains(&b) {
                angles[a].push(b);
            }
        }
    }
    let place = |i: usize, bus: usize| angles[i].iter().position(|&b| b == bus).unwrap_or(0);
    let mut net = Network::new();
    let mut agents = Vec::new();
    for i in 0..buses {
        let own: Vec<&Gen> = grid.gens.iter().filter(|g| g.bus == i).collect();
        let (n, d) = (angles[i].len(), angles[i].len() + own.len());
        let (mut square, mut linear) = (vec![0.0; d], vec![0.0; d]);
        let (mut lo, mut hi) = (vec![f64::NEG_INFINITY; d], vec![f64::INFINITY; d]);
        let mut balance = vec![0.0; d];
        let mut limits: Vec<Vec<f64>> = Vec::new();
        let mut most = Vec::new();
        for (k, g) in own.iter().enumerate() {
            (square[n + k], linear[n + k], lo[n + k], hi[n + k], balance[n + k]) =
                (g.square, g.linear, g.min, g.max, 1.0);
        }
        for line in grid.lines.iter().filter(|l| l.ends.contains(&i)) {
            let other = if line.ends[0] == i { line.ends[1] } else { line.ends[0] };
            balance[0] -= line.admittance;
            balance[place(i, other)] += line.admittance;
            if line.limit.is_finite() {
                let mut row = vec![0.0; d];
                (row[0], row[place(i, other)]) = (line.admittance, -line.admittance);
                limits.extend([row.clone(), row.iter().map(|v| -v).collect()]);
                most.extend([line.limit; 2]);
            }
        }
        // The first bus is the reference of the angles.
        let (mut rows, mut right) = (balance, vec![grid.demand[i]]);
        if i == 0 {
            rows.extend((0..d).map(|j| if j == 0 { 1.0 } else { 0.0 }));
            right.push(0.0);
        }
        let f = Quadratic::new(Matrix::diagonal(square), linear)
            .bounds(lo, hi)
            .equal(Matrix::dense(right.len(), d, rows), right)
            .at_most(Matrix::dense(most.len(), d, limits.concat()), most);
        let id = net.agent(f)?;
        // Angles cost nothing by themselves: a smaller penalty lets them move faster.
        let penalty: Vec<f64> = (0..d).map(|j| if j < n { 0.1 } else { 1.0 }).collect();
        net.set_penalty(id, &penalty)?;
        agents.push((id, d));
    }
    for i in 0..buses {
        for (k, &j) in angles[i].iter().enumerate().skip(1) {
            net.agree(
                agents[i].0,
                Matrix::selector(agents[i].1, [k]),
                agents[j].0,
                Matrix::selector(agents[j].1, [0]),
            )?;
        }
    }
    save_problem(&net, &name.to_lowercase().replace(' ', "-"))?;
    let mut solver = net.solver(Settings { tol: 2e-8, iterations: 50_000, ..Settings::default() })?;
    let solution = solver.solve()?.clone();
    assert!(solution.is_solved(), "{name}: {} {:?}", solution.status(), solution.misses());
    let mut prices = Vec::new();
    for (agent, _) in &agents {
        prices.push(-solver.duals(*agent)?.equal[0] / BASE);
    }
    let cost = solution.objective().ok_or("a value")?;
    println!(
        "{name}: {} after {} iterations, {:.1} ms, {cost:.2} $/h",
        solution.status(),
        solution.iterations(),
        1e3 * solution.time().as_secs_f64()
    );

    let oracle = whole(&grid).solve();
    let theirs: Vec<f64> = (0..buses).map(|i| -oracle.duals[i] / BASE).collect();
    let off = agree("cost", &[cost / oracle.value], &[1.0], 1e-5);
    let price = agree("prices", &prices, &theirs, 1e-3);
    let [low, high] =
        [f64::min as fn(f64, f64) -> f64, f64::max].map(|f| prices.iter().copied().reduce(f).unwrap_or(0.0));
    println!(
        "prices from {low:.2} to {high:.2} $/MWh; the interior-point method agrees to {price:.0e}, on the cost to {off:.0e}"
    );
    Ok(())
}

/// The grid as one program: angles, then generators.
fn whole(grid: &Grid) -> Program {
    let (mut prog, buses) = (Program::default(), grid.demand.len());
    prog.variables(vec![0.0; buses]);
    let first = prog.variables(grid.gens.iter().map(|g| g.linear));
    let mut balance: Vec<Vec<(usize, f64)>> = vec![vec![]; buses];
    for (k, g) in grid.gens.iter().enumerate() {
        prog.p.push((first + k, first + k, g.square));
        balance[g.bus].push((first + k, 1.0));
        prog.at_most.push((vec![(first + k, 1.0)], g.max));
        prog.at_most.push((vec![(first + k, -1.0)], -g.min));
    }
    for line in &grid.lines {
        let [a, b] = line.ends;
        balance[a].extend([(a, -line.admittance), (b, line.admittance)]);
        balance[b].extend([(b, -line.admittance), (a, line.admittance)]);
        if line.limit.is_finite() {
            for sign in [1.0, -1.0] {
                prog.at_most
                    .push((vec![(a, sign * line.admittance), (b, -sign * line.admittance)], line.limit));
            }
        }
    }
    prog.equal.extend(balance.into_iter().zip(grid.demand.iter().copied()));
    prog.equal.push((vec![(0, 1.0)], 0.0));
    prog
}
