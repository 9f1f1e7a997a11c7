//! Opinions on a discourse sheaf (Hansen and Ghrist, 2021): people hold opinions on several topics, but express only
//! some combination of them to each neighbour. Two people are stubborn. The others settle where the expressed
//! disagreement Σ ½‖F_a x_a − F_b x_b‖² is smallest: the harmonic extension of the stubborn opinions.
//!
//! Checked against the closed form x_U = −L_UU⁻¹ L_US x_S, by Gaussian elimination.

mod common;

use common::{Outcome, Random, agree};
use sheaf_admm::Matrix;
use sheaf_admm::network::{Edge, Network};
use sheaf_admm::x_update::Quadratic;

const PEOPLE: usize = 12;
const TOPICS: usize = 3;
const N: usize = PEOPLE * TOPICS;

/// Solves the problem and compares it with the oracle.
pub fn main() -> Outcome {
    let (mut rng, mut net) = (Random(11), Network::new());
    let stubborn = |i: usize| match i {
        0 => Some([1.0, -1.0, 0.5]),
        6 => Some([-1.0, 0.5, 1.0]),
        _ => None,
    };
    let mut people = Vec::new();
    for i in 0..PEOPLE {
        let free = Quadratic::zero(TOPICS);
        people.push(net.agent(match stubborn(i) {
            Some(opinion) => free.bounds(opinion, opinion),
            None => free,
        })?);
    }
    // A ring with chords; everyone expresses two combinations of three topics.
    let pairs = (0..PEOPLE).flat_map(|i| [(i, (i + 1) % PEOPLE), (i, (i + 5) % PEOPLE)]);
    let mut laplacian = vec![vec![0.0; N]; N];
    for (a, b) in pairs {
        let maps = [rng.normals(2 * TOPICS), rng.normals(2 * TOPICS)];
        let [fa, fb] = [0, 1].map(|k| Matrix::dense(2, TOPICS, maps[k].clone()));
        net.edge(Edge::new(people[a], fa, people[b], fb).soft(1.0))?;
        for row in 0..2 {
            let mut f = vec![0.0; N];
            (0..TOPICS).for_each(|k| f[a * TOPICS + k] += maps[0][row * TOPICS + k]);
            (0..TOPICS).for_each(|k| f[b * TOPICS + k] -= maps[1][row * TOPICS + k]);
            (0..N).for_each(|i| (0..N).for_each(|j| laplacian[i][j] += f[i] * f[j]));
        }
    }
    let solution = net.solve(1e-10)?;
    println!(
        "{} after {} iterations, disagreement {:.6}",
        solution.status(),
        solution.iterations(),
        solution.objective().ok_or("a value")?
    );

    let (free, fixed): (Vec<usize>, Vec<usize>) = (0..N).partition(|k| stubborn(k / TOPICS).is_none());
    let given = |k: usize| stubborn(k / TOPICS).map_or(0.0, |o| o[k % TOPICS]);
    let right: Vec<f64> =
        free.iter().map(|&i| -fixed.iter().map(|&j| laplacian[i][j] * given(j)).sum::<f64>()).collect();
    let matrix = free.iter().map(|&i| free.iter().map(|&j| laplacian[i][j]).collect()).collect();
    let harmonic = eliminate(matrix, right);
    let ours: Vec<f64> = free.iter().map(|&k| solution.all_x()[k]).collect();
    let worst = agree("opinions", &ours, &harmonic, 1e-6);
    println!("the harmonic extension agrees to {worst:.0e}");
    Ok(())
}

/// Gaussian elimination with pivots.
fn eliminate(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs())).unwrap_or(k);
        a.swap(k, pivot);
        b.swap(k, pivot);
        for i in k + 1..n {
            let factor = a[i][k] / a[k][k];
            (k..n).for_each(|j| a[i][j] -= factor * a[k][j]);
            b[i] -= factor * b[k];
        }
    }
    for k in (0..n).rev() {
        b[k] = (b[k] - (k + 1..n).map(|j| a[k][j] * b[j]).sum::<f64>()) / a[k][k];
    }
    b
}
