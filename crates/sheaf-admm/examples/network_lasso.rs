//! Network lasso: houses of a town estimate how size, age and garden make a price. Neighbours should share a model, but
//! the town has two quarters, and where they meet the models may differ: the cost of an edge is the norm of the
//! difference, so that most differences become exactly 0.
//!
//!     minimise Σ_i ½‖A_i x_i − b_i‖² + w Σ_e ‖x_a − x_b‖
//!
//! Checked against an interior-point method on the whole problem.

mod common;

use common::{Outcome, Program, Random, agree};
use sheaf_admm::Matrix;
use sheaf_admm::network::{Coupling, Edge, Network};
use sheaf_admm::x_update::Quadratic;

const SIDE: usize = 6;
const D: usize = 3;
const WEIGHT: f64 = 2.0;

/// Solves the problem and compares it with the oracle.
pub fn main() -> Outcome {
    let (mut rng, mut net) = (Random(7), Network::new());
    let truth = |i: usize| if i % SIDE < SIDE / 2 { [1.0, -2.0, 0.5] } else { [-1.0, 1.0, 2.0] };
    let (mut agents, mut data) = (Vec::new(), Vec::new());
    for i in 0..SIDE * SIDE {
        // Two observations for three unknowns: nobody can do it alone.
        let (mut quad, mut q, mut rest) = ([[0.0; D]; D], [0.0; D], 0.0);
        for _ in 0..2 {
            let a = rng.normals(D);
            let b = a.iter().zip(truth(i)).map(|(a, t)| a * t).sum::<f64>() + 0.1 * rng.normal();
            (0..D).for_each(|r| (0..D).for_each(|c| quad[r][c] += a[r] * a[c]));
            (0..D).for_each(|r| q[r] -= a[r] * b);
            rest += 0.5 * b * b;
        }
        agents.push(net.agent(Quadratic::new(quad, q))?);
        data.push((quad, q, rest));
    }
    let grid = (0..SIDE * SIDE).flat_map(|i| {
        let right = (i % SIDE + 1 < SIDE).then_some((i, i + 1));
        right.into_iter().chain((i / SIDE + 1 < SIDE).then_some((i, i + SIDE)))
    });
    let pairs: Vec<(usize, usize)> = grid.collect();
    for &(a, b) in &pairs {
        let edge = Edge::new(agents[a], Matrix::identity(D), agents[b], Matrix::identity(D));
        net.edge(edge.coupling(Coupling::L2 { weight: WEIGHT }))?;
    }
    let solution = net.solve(1e-8)?;
    let apart = |&&(a, b): &&(usize, usize)| {
        solution.x(agents[a]).iter().zip(solution.x(agents[b])).any(|(a, b)| (a - b).abs() > 1e-4)
    };
    let cut: Vec<_> = pairs.iter().filter(apart).collect();
    let border = cut.iter().filter(|(a, b)| truth(*a) != truth(*b)).count();
    println!(
        "{} after {} iterations; {} of {} edges differ, {border} of them on the border",
        solution.status(),
        solution.iterations(),
        cut.len(),
        pairs.len()
    );

    let mut whole = Program::default();
    for (_, q, _) in &data {
        whole.variables(q.iter().copied());
    }
    for (i, (quad, ..)) in data.iter().enumerate() {
        (0..D).for_each(|r| (r..D).for_each(|c| whole.p.push((i * D + r, i * D + c, quad[r][c]))));
    }
    for &(a, b) in &pairs {
        let t = whole.variables([WEIGHT]);
        let rows = (0..D).map(|k| (vec![(a * D + k, 1.0), (b * D + k, -1.0)], 0.0));
        whole.cones.push([(vec![(t, -1.0)], 0.0)].into_iter().chain(rows).collect());
    }
    let oracle = whole.solve();
    let worst = agree("x", solution.all_x(), &oracle.x[..SIDE * SIDE * D], 1e-4);
    agree("objective", &[solution.objective().ok_or("a value")?], &[oracle.value], 1e-5);
    println!("the interior-point method agrees to {worst:.0e}");
    Ok(())
}
