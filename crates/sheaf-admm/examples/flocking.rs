//! A flock of vehicles that are not alike: drones know a velocity in the plane, boats one in a frame of their own, carts
//! three numbers that make a velocity. They agree on what they share, the velocity in the plane, through maps of
//! different sizes; each pays for leaving its own favourite motion. At every step they solve again from where they were.
//!
//!     minimise Σ_i m_i/2 ‖x_i − favourite_i‖²    with F_a x_a = F_b x_b for neighbours
//!
//! Checked against the closed form: the weighted least-squares velocity. `-- flock.svg` draws the paths.

mod common;

use common::{COLOURS, Outcome, Picture, Random, agree};
use sheaf_admm::Matrix;
use sheaf_admm::network::{Network, Settings};
use sheaf_admm::x_update::Quadratic;

const VEHICLES: usize = 9;
const STEPS: usize = 40;

/// How a vehicle's own numbers make a velocity in the plane.
fn motion(i: usize) -> Matrix {
    let turn = 0.4 * i as f64;
    match i % 3 {
        0 => Matrix::identity(2),
        1 => Matrix::from([[turn.cos(), -turn.sin()], [turn.sin(), turn.cos()]]),
        _ => Matrix::from([[1.0, 0.0, 0.3], [0.0, 1.0, -0.2]]),
    }
}

/// Solves the problem and compares it with the oracle.
pub fn main() -> Outcome {
    let (mut rng, mut net) = (Random(2), Network::new());
    let mass = |i: usize| 1.0 + i as f64 / 3.0;
    let mut vehicles = Vec::new();
    for i in 0..VEHICLES {
        let d = motion(i).cols();
        vehicles.push(net.agent(Quadratic::new(Matrix::diagonal(vec![mass(i); d]), vec![0.0; d]))?);
    }
    for i in 0..VEHICLES {
        let next = (i + 1) % VEHICLES;
        net.agree(vehicles[i], motion(i), vehicles[next], motion(next))?;
    }
    let mut solver = net.solver(Settings { tol: 1e-9, ..Settings::default() })?;
    let mut places: Vec<[f64; 2]> =
        (0..VEHICLES).map(|_| [2.0 * rng.uniform(), 2.0 * rng.uniform()]).collect();
    let mut paths: Vec<Vec<[f64; 2]>> = places.iter().map(|p| vec![*p]).collect();
    let (mut iterations, mut worst) = (0, 0.0f64);
    for step in 0..STEPS {
        // Favourites turn slowly and scatter.
        let turn = 0.05 * step as f64;
        let wishes: Vec<Vec<f64>> = (0..VEHICLES)
            .map(|i| {
                (0..motion(i).cols()).map(|k| [turn.cos(), turn.sin(), 0.0][k] + 0.2 * rng.normal()).collect()
            })
            .collect();
        for (i, wish) in wishes.iter().enumerate() {
            let q: Vec<f64> = wish.iter().map(|w| -mass(i) * w).collect();
            solver.update_q(vehicles[i], &q)?;
        }
        let solution = solver.solve()?;
        assert!(solution.is_solved(), "{}", solution.status());
        iterations += solution.iterations();
        let expected = closed_form(&wishes, &mass);
        for (i, &vehicle) in vehicles.iter().enumerate() {
            let velocity = motion(i).apply(solution.x(vehicle));
            worst = worst.max(agree("velocity", &velocity, &expected, 1e-6));
            (0..2).for_each(|k| places[i][k] += 0.2 * velocity[k]);
            paths[i].push(places[i]);
        }
    }
    println!("{STEPS} steps, {} iterations each; the closed form agrees to {worst:.0e}", iterations / STEPS);
    let mut picture = Picture::new([-0.3, -0.3], [5.7, 5.7]);
    for (i, path) in paths.iter().enumerate() {
        picture.line(path, COLOURS[i % 3], 2.0);
        picture.dot(path[path.len() - 1], COLOURS[i % 3], 5.0);
    }
    picture.text([-0.2, 5.5], "blue drones, red boats, green carts: one velocity, each its own numbers");
    picture.save()?;
    Ok(())
}

/// The velocity v that minimises Σ ½ (v − F w)ᵀ (F M⁻¹ Fᵀ)⁻¹ (v − F w): each vehicle's cheapest motion with velocity v.
fn closed_form(wishes: &[Vec<f64>], mass: &impl Fn(usize) -> f64) -> Vec<f64> {
    let (mut h, mut g) = ([[0.0; 2]; 2], [0.0; 2]);
    for (i, wish) in wishes.iter().enumerate() {
        let f = motion(i);
        let (rows, dense, wanted) = (f.cols(), f.to_dense(), f.apply(wish));
        let gram = |a: usize, b: usize| {
            (0..rows).map(|k| dense[a * rows + k] * dense[b * rows + k]).sum::<f64>() / mass(i)
        };
        let inverse = invert([[gram(0, 0), gram(0, 1)], [gram(1, 0), gram(1, 1)]]);
        for a in 0..2 {
            (0..2).for_each(|b| h[a][b] += inverse[a][b]);
            g[a] += (0..2).map(|b| inverse[a][b] * wanted[b]).sum::<f64>();
        }
    }
    let inverse = invert(h);
    (0..2).map(|a| (0..2).map(|b| inverse[a][b] * g[b]).sum()).collect()
}

fn invert(m: [[f64; 2]; 2]) -> [[f64; 2]; 2] {
    let det = m[0][0] * m[1][1] - m[0][1] * m[1][0];
    [[m[1][1] / det, -m[0][1] / det], [-m[1][0] / det, m[0][0] / det]]
}
