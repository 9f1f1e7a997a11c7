//! Sensors find their places from measured differences to their neighbours. A fifth of the measurements is wrong by a
//! lot; with Huber's function on the edges they do little harm, with squares they spoil the map.
//!
//!     minimise Σ_e w U(x_a − x_b − measured_e)      three sensors know where they are
//!
//! Checked against an interior-point method on the whole problem. `-- map.svg` draws the map.

mod common;

use common::{Outcome, Picture, Program, Random, agree};
use sheaf_admm::Matrix;
use sheaf_admm::network::{Coupling, Edge, Network, Settings, Solution};
use sheaf_admm::x_update::Quadratic;

const SENSORS: usize = 40;
const DELTA: f64 = 0.02;

/// Solves the problem and compares it with the oracle.
pub fn main() -> Outcome {
    let mut rng = Random(5);
    let places: Vec<[f64; 2]> = (0..SENSORS).map(|_| [rng.uniform(), rng.uniform()]).collect();
    let far = |a: usize, b: usize| (places[a][0] - places[b][0]).hypot(places[a][1] - places[b][1]);
    let mut measured = Vec::new();
    for a in 0..SENSORS {
        let mut near: Vec<usize> = (0..SENSORS).filter(|&b| b != a).collect();
        near.sort_by(|&b, &c| far(a, b).total_cmp(&far(a, c)));
        for &b in near.iter().take(6).filter(|&&b| b > a || far(a, b) > 0.15) {
            let wrong = if rng.uniform() < 0.2 { 0.5 } else { 0.0 };
            let noise = |rng: &mut Random| 0.01 * rng.normal() + wrong * rng.normal();
            let gap = [0, 1].map(|k| places[a][k] - places[b][k] + noise(&mut rng));
            measured.push((a, b, gap, wrong > 0.0));
        }
    }
    let robust = locate(&places, &measured, Coupling::Huber { weight: 1.0, delta: DELTA })?;
    let squares = locate(&places, &measured, Coupling::Soft { weight: 1.0 })?;
    let error = |s: &Solution| {
        let sum: f64 = s
            .all_x()
            .chunks(2)
            .zip(&places)
            .map(|(x, p)| (x[0] - p[0]).powi(2) + (x[1] - p[1]).powi(2))
            .sum();
        (sum / SENSORS as f64).sqrt()
    };
    let outliers = measured.iter().filter(|m| m.3).count();
    println!(
        "{} after {} iterations; {outliers} of {} measurements are wrong",
        robust.status(),
        robust.iterations(),
        measured.len()
    );
    println!("typical error: {:.3} with Huber edges, {:.3} with squares", error(&robust), error(&squares));
    assert!(error(&robust) < 0.5 * error(&squares), "outliers must do less harm");

    let mut whole = Program::default();
    whole.variables(vec![0.0; 2 * SENSORS]);
    for i in 0..3 {
        (0..2).for_each(|k| whole.equal.push((vec![(2 * i + k, 1.0)], places[i][k])));
    }
    for (a, b, gap, _) in &measured {
        for k in 0..2 {
            // U(r) = min over s of s²/2 + δ|r − s|.
            let s = whole.variables([0.0]);
            let t = whole.variables([DELTA]);
            whole.p.push((s, s, 1.0));
            for sign in [1.0, -1.0] {
                let row = vec![(2 * a + k, sign), (2 * b + k, -sign), (s, -sign), (t, -1.0)];
                whole.at_most.push((row, sign * gap[k]));
            }
        }
    }
    let oracle = whole.solve();
    let value = [robust.objective().ok_or("a value")?];
    let worst = agree("objective", &value, &[oracle.value], 1e-6);
    println!("the interior-point method agrees on the objective to {worst:.0e}");

    let mut picture = Picture::new([-0.1, -0.1], [1.1, 1.1]);
    for (x, p) in robust.all_x().chunks(2).zip(&places) {
        picture.line(&[*p, [x[0], x[1]]], "#d1495b", 2.0);
        picture.dot(*p, "#bbbbbb", 6.0);
        picture.dot([x[0], x[1]], "#1b6ca8", 4.0);
    }
    picture.text([-0.08, 1.06], "grey: true places, blue: found with Huber edges");
    picture.save()?;
    Ok(())
}

type Measured = [(usize, usize, [f64; 2], bool)];

fn locate(
    places: &[[f64; 2]],
    measured: &Measured,
    coupling: Coupling,
) -> Result<Solution, sheaf_admm::Error> {
    let (mut net, mut sensors) = (Network::new(), Vec::new());
    for (i, place) in places.iter().enumerate() {
        let free = Quadratic::zero(2);
        sensors.push(net.agent(if i < 3 { free.bounds(*place, *place) } else { free })?);
    }
    for (a, b, gap, _) in measured {
        let edge = Edge::new(sensors[*a], Matrix::identity(2), sensors[*b], Matrix::identity(2));
        net.edge(edge.offset(*gap).coupling(coupling))?;
    }
    let mut solver = net.solver(Settings { tol: 1e-7, iterations: 50_000, ..Settings::default() })?;
    solver.solve()?;
    Ok(solver.into_solution())
}
