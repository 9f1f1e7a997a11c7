//! Muon: momentum, made orthogonal, for matrices (Jordan et al. 2024); everything else follows AdamW.
//!
//! ```text
//! m ← b m + g            d = g + b m            O = the orthogonal factor of d, roughly: singular values near 1
//! W ← W − lr (0.2 sqrt(max(rows, columns)) O + wd W)
//! ```
//!
//! | name | shape |
//! | --- | --- |
//! | W, g, m, O | `[rows, columns]`, the last two axes of a tensor; every matrix of a stack is one of its own |
//!
//! All directions of a matrix move equally far, where AdamW moves its entries equally far. The factor gives an update the size
//! that one of AdamW has, root mean square, so that both take the same learning rates (Liu et al. 2025).
//!
//! O comes from five steps of the iteration X ← a X + (b A + c A²) X with A = X Xᵀ, which starts at d / ‖d‖. Its coefficients
//! bring singular values quickly into 0.7 to 1.2, and no closer; closer gains nothing.

use sheaf_admm::error::check_len;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_kernels::gemm::{Mat, gemm};

use crate::params::ParamEntry;

/// Matrices with a side below this are left to AdamW: they are cheap, and few directions are worth no factorisation.
const SMALLEST: usize = 16;

/// Coefficients of the iteration, and its number of steps.
const SERIES: [f32; 3] = [3.4445, -4.7750, 2.0315];
const STEPS: usize = 5;

/// The constants of the rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Muon {
    /// Decay rate of the momentum, b.
    pub momentum: f64,
    /// Decay per unit of learning rate, wd.
    pub weight_decay: f64,
}

impl Default for Muon {
    fn default() -> Self {
        Self { momentum: 0.95, weight_decay: 0.0 }
    }
}

/// Buffers of an update.
#[derive(Clone, Debug, Default)]
pub struct MuonScratch {
    x: Vec<f32>,      // [rows, columns]
    next: Vec<f32>,   // [rows, columns]
    gram: Vec<f32>,   // [side, side], side = min(rows, columns)
    square: Vec<f32>, // [side, side]
}

impl Muon {
    /// Checks that the constants are valid.
    pub fn check(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(Error::new(ErrorKind::OutOfRange, "momentum", "0 ≤ momentum < 1", self.momentum));
        }
        Ok(())
    }

    /// (rows, columns) of the matrices of a tensor that the rule is for. Embeddings are tables of vectors, not maps.
    pub fn matrices(entry: &ParamEntry) -> Option<(usize, usize)> {
        let &[.., rows, columns] = entry.shape.as_slice() else { return None };
        (rows.min(columns) >= SMALLEST && !entry.name.ends_with("embedding")).then_some((rows, columns))
    }

    /// Updates a stack of matrices with learning rate `lr`.
    pub fn update(
        &self,
        lr: f64,
        (rows, columns): (usize, usize),
        grad: &[f32],       // [matrices, rows, columns]
        params: &mut [f32], // [matrices, rows, columns]
        m: &mut [f32],      // [matrices, rows, columns]
        scratch: &mut MuonScratch,
    ) -> Result<()> {
        check_len("Muon gradient", params.len(), grad.len())?;
        check_len("Muon momentum", params.len(), m.len())?;
        let size = rows * columns;
        let (b, factor) = (self.momentum as f32, 0.2 * (rows.max(columns) as f64).sqrt());
        let [step, decay] = [lr * factor, lr * self.weight_decay].map(|x| x as f32);
        for ((g, p), m) in
            grad.chunks_exact(size).zip(params.chunks_exact_mut(size)).zip(m.chunks_exact_mut(size))
        {
            m.iter_mut().zip(g).for_each(|(m, g)| *m = b * *m + g);
            scratch.x.clear();
            scratch.x.extend(m.iter().zip(g).map(|(m, g)| g + b * m));
            scratch.orthogonalise(rows, columns);
            p.iter_mut().zip(&scratch.x).for_each(|(p, o)| *p -= step * o + decay * *p);
        }
        Ok(())
    }
}

impl MuonScratch {
    /// Replaces x by its orthogonal factor, roughly.
    fn orthogonalise(&mut self, rows: usize, columns: usize) {
        let Self { x, next, gram, square } = self;
        // Sums of squares of tiny or huge numbers leave the range of f32.
        let norm = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        if norm == 0.0 {
            return;
        }
        x.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
        let (side, [a, b, c]) = (rows.min(columns), SERIES);
        gram.resize(side * side, 0.0);
        square.resize(side * side, 0.0);
        for _ in 0..STEPS {
            let of = Mat::new(x, rows, columns);
            let (left, right) = if rows <= columns { (of, of.t()) } else { (of.t(), of) };
            gemm(gram, left, right, 1.0, 0.0);
            let of_gram = Mat::new(gram, side, side);
            gemm(square, of_gram, of_gram, 1.0, 0.0);
            gram.iter_mut().zip(square.iter()).for_each(|(g, s)| *g = b * *g + c * s);
            next.clear();
            next.extend(x.iter().map(|x| a * x));
            let by = Mat::new(gram, side, side);
            let (left, right) = if rows <= columns { (by, of) } else { (of, by) };
            gemm(next, left, right, 1.0, 1.0);
            std::mem::swap(x, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(n: usize) -> Vec<f32> {
        (0..n).map(|i| (0.37 * (i * i % 101) as f32 + 0.1 * i as f32).sin()).collect()
    }

    /// Products of all pairs of rows (or columns, if there are fewer).
    fn gram(x: &[f32], rows: usize, columns: usize) -> Vec<f64> {
        let at = |side: usize, along: usize| match rows <= columns {
            true => f64::from(x[side * columns + along]),
            false => f64::from(x[along * columns + side]),
        };
        let (side, length) = (rows.min(columns), rows.max(columns));
        (0..side * side).map(|ij| (0..length).map(|k| at(ij / side, k) * at(ij % side, k)).sum()).collect()
    }

    #[test]
    fn rows_or_columns_become_nearly_orthonormal_whatever_the_scale() {
        for (rows, columns) in [(16, 40), (40, 16), (24, 24)] {
            for scale in [1e-25, 1.0, 1e25] {
                let x: Vec<f32> = wave(rows * columns).iter().map(|x| x * scale).collect();
                let mut scratch = MuonScratch { x, ..MuonScratch::default() };
                scratch.orthogonalise(rows, columns);
                let (gram, side) = (gram(&scratch.x, rows, columns), rows.min(columns));
                // Σ(σ² − 1)², over the singular values σ.
                let off: f64 = (0..side * side)
                    .map(|ij| (gram[ij] - f64::from(u8::from(ij / side == ij % side))).powi(2))
                    .sum();
                assert!(off < 0.3 * side as f64, "{rows}×{columns}, {scale}: {off}");
                let trace: f64 = (0..side).map(|i| gram[i * side + i]).sum();
                assert!((trace / side as f64 - 0.9).abs() < 0.25, "{rows}×{columns}: {trace}");
            }
        }
    }

    #[test]
    fn an_update_moves_against_the_gradient_as_far_as_one_of_adamw() {
        let (shape, n) = ((32, 48), 2 * 32 * 48);
        let (grad, mut params, mut m) = (wave(n), vec![0.0; n], vec![0.0; n]);
        let rule = Muon::default();
        rule.update(0.01, shape, &grad, &mut params, &mut m, &mut MuonScratch::default()).unwrap();
        assert_eq!(m, grad);
        assert!(params.iter().zip(&grad).map(|(p, g)| p * g).sum::<f32>() < 0.0);
        let rms = (params.iter().map(|p| p * p).sum::<f32>() / n as f32).sqrt();
        // An orthonormal 32 × 48 matrix has the root mean square 1/√48.
        assert!((rms / (0.01 * 0.2) - 1.0).abs() < 0.2, "{rms}");
        // Each matrix of a stack is updated as it would be alone.
        let (mut alone, mut m) = (vec![0.0; n / 2], vec![0.0; n / 2]);
        rule.update(0.01, shape, &grad[n / 2..], &mut alone, &mut m, &mut MuonScratch::default()).unwrap();
        assert_eq!(alone, params[n / 2..]);
    }

    #[test]
    fn a_gradient_of_zero_leaves_decay_alone() {
        let rule = Muon { weight_decay: 0.1, ..Muon::default() };
        let (mut params, mut m) = (vec![2.0; 256], vec![0.0; 256]);
        rule.update(0.5, (16, 16), &[0.0; 256], &mut params, &mut m, &mut MuonScratch::default()).unwrap();
        assert!(params.iter().all(|&p| (p - 1.9).abs() < 1e-6));
    }

    #[test]
    fn vectors_small_matrices_and_embeddings_are_left_to_adamw() {
        let of = |name: &str, shape: &[usize]| {
            Muon::matrices(&ParamEntry { name: name.into(), shape: shape.to_vec(), range: 0..1 })
        };
        assert_eq!(of("a/kernel", &[32, 256]), Some((32, 256)));
        assert_eq!(of("maps", &[9, 32, 288]), Some((32, 288)));
        for (name, shape) in
            [("bias", &[256][..]), ("rho", &[]), ("kernel", &[256, 10]), ("embedding", &[81, 128])]
        {
            assert_eq!(of(name, shape), None);
        }
    }
}
