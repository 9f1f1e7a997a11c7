//! Distributed logistic regression: hospitals fit one model without sharing a patient. Each keeps its own observations
//! and talks to two neighbours; all must agree on the model.
//!
//! Checked against Newton's method on all data at once.

mod common;

use common::{Outcome, Random, agree};
use sheaf_admm::Matrix;
use sheaf_admm::network::Network;
use sheaf_admm::x_update::Logistic;

const HOSPITALS: usize = 8;
const PATIENTS: usize = 30;
const D: usize = 4;
const L2: f64 = 0.05;

/// Solves the problem and compares it with the oracle.
pub fn main() -> Outcome {
    let (mut rng, mut net) = (Random(3), Network::new());
    let truth = [1.5, -1.0, 0.5, 0.0];
    let (mut agents, mut features, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..HOSPITALS {
        let own: Vec<f64> = rng.normals(PATIENTS * D);
        let score = |row: &[f64]| row.iter().zip(truth).map(|(a, t)| a * t).sum::<f64>();
        let y: Vec<f64> =
            own.chunks(D).map(|row| if score(row) + rng.normal() > 0.0 { 1.0 } else { -1.0 }).collect();
        features.extend(own.clone());
        labels.extend(y.clone());
        agents.push(net.agent(Logistic { dim: D, features: own, labels: y, weight: 1.0, l2: L2 })?);
    }
    for i in 0..HOSPITALS {
        net.agree(agents[i], Matrix::identity(D), agents[(i + 1) % HOSPITALS], Matrix::identity(D))?;
    }
    let solution = net.solve(1e-9)?;
    println!(
        "{} after {} iterations: x = {:.4?}",
        solution.status(),
        solution.iterations(),
        solution.x(agents[0])
    );

    let central = newton(&features, &labels, L2 * HOSPITALS as f64);
    let mut worst: f64 = 0.0;
    for &agent in &agents {
        worst = worst.max(agree("model", solution.x(agent), &central, 1e-6));
    }
    println!("Newton's method on all {} patients agrees to {worst:.0e}", labels.len());
    Ok(())
}

/// Newton's method on Σ ln(1 + exp(−y aᵀx)) + l2/2 ‖x‖².
fn newton(features: &[f64], labels: &[f64], l2: f64) -> Vec<f64> {
    let mut x = vec![0.0; D];
    for _ in 0..50 {
        let (mut g, mut h) = (x.iter().map(|x| l2 * x).collect::<Vec<_>>(), vec![vec![0.0; D]; D]);
        (0..D).for_each(|i| h[i][i] = l2);
        for (row, y) in features.chunks(D).zip(labels) {
            let s = 1.0 / (1.0 + (y * row.iter().zip(&x).map(|(a, x)| a * x).sum::<f64>()).exp());
            for i in 0..D {
                g[i] -= y * s * row[i];
                (0..D).for_each(|j| h[i][j] += s * (1.0 - s) * row[i] * row[j]);
            }
        }
        // Gauss–Jordan, the matrix is small and definite.
        for k in 0..D {
            for i in (0..D).filter(|&i| i != k) {
                let factor = h[i][k] / h[k][k];
                (0..D).for_each(|j| h[i][j] -= factor * h[k][j]);
                g[i] -= factor * g[k];
            }
        }
        (0..D).for_each(|k| x[k] -= g[k] / h[k][k]);
    }
    x
}
