//! Agents with six numbers and dense quadratics whose neighbours agree on the first three, and the oracle.
//!
//! ```text
//! minimise Σ_i ½ x_iᵀQ_i x_i + q_iᵀx_i  +  w/2 Σ_(i,j) ‖P x_i − P x_j‖²      or subject to P x_i = P x_j
//! ```
//!
//! Q = M Mᵀ/6 + ½ with normal M, normal q, P the first three numbers, w = 1.

use crate::graph::Pairs;
use sheaf_learn::rng::Stream;

/// Numbers of an agent.
pub const D: usize = 6;
/// Numbers that neighbours agree on.
pub const SHARED: usize = 3;
/// The price of disagreement where edges are soft.
pub const WEIGHT: f64 = 1.0;

/// A problem as plain numbers.
pub struct Instance {
    /// Q of every agent, row-major.
    pub quad: Vec<[f64; D * D]>,
    /// q of every agent.
    pub linear: Vec<[f64; D]>,
    /// The edges.
    pub pairs: Pairs,
    /// Whether neighbours must agree.
    pub hard: bool,
}

impl Instance {
    /// Draws the agents of a graph.
    pub fn new(agents: usize, pairs: Pairs, hard: bool, seed: u64) -> Self {
        let mut rng = Stream::new(seed, "agents", agents as u64, 0);
        let (mut quad, mut linear) = (Vec::with_capacity(agents), Vec::with_capacity(agents));
        for _ in 0..agents {
            let m: [f64; D * D] = std::array::from_fn(|_| rng.normal());
            quad.push(std::array::from_fn(|k| {
                let (i, j) = (k / D, k % D);
                let dot: f64 = (0..D).map(|l| m[i * D + l] * m[j * D + l]).sum();
                dot / D as f64 + if i == j { 0.5 } else { 0.0 }
            }));
            linear.push(std::array::from_fn(|_| rng.normal()));
        }
        Self { quad, linear, pairs, hard }
    }

    /// Number of agents.
    pub fn agents(&self) -> usize {
        self.quad.len()
    }

    /// The solution to rounding level, without the library.
    pub fn oracle(&self) -> Vec<f64> {
        if self.hard { self.agreed() } else { self.balanced() }
    }

    /// Hard: all agents of a connected part share t; with r_i(t) the rest of x_i, t minimises the sum of
    /// ½ tᵀS_i t + s_iᵀt, S_i the Schur complement of the rest.
    fn agreed(&self) -> Vec<f64> {
        const R: usize = D - SHARED;
        let parts = self.parts();
        let count = parts.iter().copied().max().map_or(0, |p| p + 1);
        let mut sums = vec![([0.0; SHARED * SHARED], [0.0; SHARED]); count];
        let mut rests = Vec::with_capacity(self.agents());
        for ((quad, q), &part) in self.quad.iter().zip(&self.linear).zip(&parts) {
            // [K | k] = Q22⁻¹ [Q21 | q2], so that the rest is −K t − k.
            let mut left = [[0.0; R]; R];
            let mut right = [[0.0; SHARED + 1]; R];
            for i in 0..R {
                for j in 0..R {
                    left[i][j] = quad[(SHARED + i) * D + SHARED + j];
                }
                for j in 0..SHARED {
                    right[i][j] = quad[(SHARED + i) * D + j];
                }
                right[i][SHARED] = q[SHARED + i];
            }
            eliminate(&mut left, &mut right);
            let (matrix, vector) = &mut sums[part];
            for i in 0..SHARED {
                for j in 0..SHARED {
                    let schur: f64 = (0..R).map(|l| quad[i * D + SHARED + l] * right[l][j]).sum();
                    matrix[i * SHARED + j] += quad[i * D + j] - schur;
                }
                let schur: f64 = (0..R).map(|l| quad[i * D + SHARED + l] * right[l][SHARED]).sum();
                vector[i] += q[i] - schur;
            }
            rests.push(right);
        }
        let shared: Vec<[f64; SHARED]> = sums
            .into_iter()
            .map(|(matrix, vector)| {
                let mut left: [[f64; SHARED]; SHARED] =
                    std::array::from_fn(|i| std::array::from_fn(|j| matrix[i * SHARED + j]));
                let mut right: [[f64; 1]; SHARED] = std::array::from_fn(|i| [-vector[i]]);
                eliminate(&mut left, &mut right);
                right.map(|[t]| t)
            })
            .collect();
        let mut x = Vec::with_capacity(D * self.agents());
        for (rest, &part) in rests.iter().zip(&parts) {
            let t = shared[part];
            x.extend(t);
            x.extend(rest.iter().map(|row| -row[SHARED] - (0..SHARED).map(|j| row[j] * t[j]).sum::<f64>()));
        }
        x
    }

    /// The connected part of every agent.
    fn parts(&self) -> Vec<usize> {
        let mut parent: Vec<usize> = (0..self.agents()).collect();
        fn root(parent: &mut [usize], mut i: usize) -> usize {
            while parent[i] != i {
                parent[i] = parent[parent[i]];
                i = parent[i];
            }
            i
        }
        for &(a, b) in &self.pairs {
            let (a, b) = (root(&mut parent, a as usize), root(&mut parent, b as usize));
            parent[a.max(b)] = a.min(b);
        }
        let roots: Vec<usize> = (0..self.agents()).map(|i| root(&mut parent, i)).collect();
        let mut numbers = vec![usize::MAX; self.agents()];
        let mut next = 0;
        roots
            .into_iter()
            .map(|r| {
                if numbers[r] == usize::MAX {
                    numbers[r] = next;
                    next += 1;
                }
                numbers[r]
            })
            .collect()
    }

    /// Soft: conjugate gradients on (Q + w L) x = −q.
    fn balanced(&self) -> Vec<f64> {
        let n = D * self.agents();
        let (mut x, mut r) = (vec![0.0; n], Vec::with_capacity(n));
        self.linear.iter().for_each(|q| r.extend(q.map(|q| -q)));
        let (mut p, mut ap) = (r.clone(), vec![0.0; n]);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut c = dot(&r, &r);
        let goal = 1e-26 * c;
        for _ in 0..10_000 {
            if c <= goal {
                break;
            }
            self.apply(&p, &mut ap);
            let a = c / dot(&p, &ap);
            for k in 0..n {
                x[k] += a * p[k];
                r[k] -= a * ap[k];
            }
            let next = dot(&r, &r);
            p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + next / c * *p);
            c = next;
        }
        x
    }

    /// (Q + w L) p.
    fn apply(&self, p: &[f64], out: &mut [f64]) {
        for (i, quad) in self.quad.iter().enumerate() {
            for row in 0..D {
                out[D * i + row] = (0..D).map(|j| quad[row * D + j] * p[D * i + j]).sum();
            }
        }
        for &(a, b) in &self.pairs {
            for k in 0..SHARED {
                let (a, b) = (D * a as usize + k, D * b as usize + k);
                let r = WEIGHT * (p[a] - p[b]);
                out[a] += r;
                out[b] -= r;
            }
        }
    }
}

/// right ← left⁻¹ right, for positive definite `left`.
fn eliminate<const N: usize, const M: usize>(left: &mut [[f64; N]; N], right: &mut [[f64; M]; N]) {
    for i in 0..N {
        for row in (0..N).filter(|&row| row != i) {
            let f = left[row][i] / left[i][i];
            (0..N).for_each(|j| left[row][j] -= f * left[i][j]);
            (0..M).for_each(|j| right[row][j] -= f * right[i][j]);
        }
    }
    for i in 0..N {
        (0..M).for_each(|j| right[i][j] /= left[i][i]);
    }
}
