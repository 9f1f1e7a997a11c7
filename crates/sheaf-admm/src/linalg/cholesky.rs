//! Cholesky factorisation of small dense matrices, and solves with the factor; no inverse is formed.
//!
//! ```text
//! A = L Lᵀ        A x = b:  L y = b, then Lᵀ x = y
//! ```
//!
//! | array | shape |
//! | --- | --- |
//! | A, overwritten by L | `[n, n]`, row-major; the part above the diagonal is neither read nor written |
//! | b, overwritten by x | `[n]` |

use crate::{Error, ErrorKind, Real};
use sheaf_kernels::reduce;
use sheaf_kernels::simd::kernel;

/// The pivot at which a factorisation stopped: the matrix is not positive definite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadPivot {
    /// The row of the matrix.
    pub row: usize,
    /// The remainder of its diagonal entry.
    pub value: f64,
}

impl BadPivot {
    /// The error of an agent whose matrix `name` was not positive definite.
    pub fn of_agent(self, agent: usize, name: &str) -> Error {
        Error::new(
            ErrorKind::NotPositiveDefinite,
            format!("{name} of agent {agent}"),
            "a positive definite matrix",
            format_args!("pivot {:e} at row {}", self.value, self.row),
        )
    }
}

/// Overwrites A by its factor L. A pivot must exceed `relative` times the diagonal entry it came from: 0 requires
/// positive definiteness, more requires rows that are independent beyond rounding.
pub fn factor<T: Real>(a: &mut [T], n: usize, relative: T) -> Result<(), BadPivot> {
    debug_assert!(a.len() >= n * n);
    let mut bad = None;
    factor_into(a, n, relative, &mut bad);
    bad.map_or(Ok(()), Err)
}

kernel! {
    fn factor_into, factor_at<T>(a: &mut [T], n: usize, relative: T, bad: &mut Option<BadPivot>) = factor_body;
}

#[inline(always)]
fn factor_body<T: Real, const FMA: bool>(a: &mut [T], n: usize, relative: T, bad: &mut Option<BadPivot>) {
    for i in 0..n {
        let (above, rest) = a.split_at_mut(i * n);
        let row = &mut rest[..=i];
        for j in 0..i {
            let other = &above[j * n..j * n + j + 1];
            row[j] = (row[j] - short_dot(&row[..j], &other[..j])) / other[j];
        }
        let pivot = row[i] - short_dot(&row[..i], &row[..i]);
        // Written so that NaN fails too.
        if !(pivot > relative * row[i] && pivot.is_finite()) {
            *bad = Some(BadPivot { row: i, value: pivot.to_f64() });
            return;
        }
        row[i] = pivot.sqrt();
    }
}

/// Solves A x = b in place, given the factor L of A.
#[inline]
pub fn solve<T: Real>(l: &[T], n: usize, b: &mut [T]) {
    solve_into(l, n, b);
}

kernel! {
    fn solve_into, solve_at<T>(l: &[T], n: usize, b: &mut [T]) = solve_body;
}

#[inline(always)]
fn solve_body<T: Real, const FMA: bool>(l: &[T], n: usize, b: &mut [T]) {
    for i in 0..n {
        let row = &l[i * n..i * n + i + 1];
        b[i] = (b[i] - short_dot(&row[..i], &b[..i])) / row[i];
    }
    for i in (0..n).rev() {
        let row = &l[i * n..i * n + i + 1];
        let x = b[i] / row[i];
        b[i] = x;
        // Row i of L is column i of Lᵀ: the contribution of x to the equations above.
        b[..i].iter_mut().zip(row).for_each(|(b, &l)| *b -= x * l);
    }
}

/// a·b: in order when short, in partial sums when long. Nothing is fused, so that every level gives the same bits.
#[inline(always)]
fn short_dot<T: Real>(a: &[T], b: &[T]) -> T {
    if a.len() < 16 { a.iter().zip(b).map(|(&a, &b)| a * b).sum() } else { reduce::dot::<T, false>(a, b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_kernels::simd::Level;
    use sheaf_testkit::TestRng;

    /// M Mᵀ + 0.1 I with the part above the diagonal replaced by NaN: it must not be read.
    fn lower(n: usize) -> (Vec<f64>, Vec<f64>) {
        let mut stream = TestRng::new(n as u64);
        let m: Vec<f64> = (0..n * n).map(|_| stream.normal()).collect();
        let mut full = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..n {
                let gram: f64 = (0..n).map(|k| m[i * n + k] * m[j * n + k]).sum();
                full[i * n + j] = gram + if i == j { 0.1 } else { 0.0 };
            }
        }
        let mut half = full.clone();
        (0..n).for_each(|i| half[i * n + i + 1..(i + 1) * n].fill(f64::NAN));
        (full, half)
    }

    #[test]
    fn the_factor_solves_the_system() {
        for n in [0, 1, 2, 6, 17, 40] {
            let (full, mut l) = lower(n);
            factor(&mut l, n, 0.0).unwrap();
            let truth: Vec<f64> = (0..n).map(|i| (i as f64).sin()).collect();
            let mut b: Vec<f64> =
                full.chunks(n.max(1)).map(|row| row.iter().zip(&truth).map(|(a, x)| a * x).sum()).collect();
            solve(&l, n, &mut b);
            b.iter().zip(&truth).for_each(|(x, t)| assert!((x - t).abs() < 1e-8, "n = {n}: {x} against {t}"));
        }
    }

    #[test]
    fn every_level_gives_the_bits_of_the_portable_twin() {
        let (_, half) = lower(37);
        let at = |level| {
            let (mut l, mut b, mut bad) = (half.clone(), vec![1.0; 37], None);
            factor_at(level, &mut l, 37, 0.0, &mut bad);
            solve_at(level, &l, 37, &mut b);
            assert_eq!(bad, None);
            b
        };
        assert_eq!(at(Level::Portable), at(Level::Avx2));
        assert_eq!(at(Level::Portable), at(Level::Avx512));
    }

    #[test]
    fn an_indefinite_matrix_names_agent_and_pivot() {
        let mut a = [1.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let bad = factor(&mut a, 3, 0.0).unwrap_err();
        assert_eq!(bad, BadPivot { row: 1, value: -3.0 });
        let error = bad.of_agent(4, "Q + ρI");
        assert_eq!(error.kind(), ErrorKind::NotPositiveDefinite);
        assert!(error.place().contains("agent 4") && error.got().contains("row 1"), "{error}");
        assert!(factor(&mut [f64::NAN], 1, 0.0).is_err());
        assert!(factor(&mut [f64::INFINITY], 1, 0.0).is_err());
    }

    #[test]
    fn a_pivot_within_rounding_of_zero_fails_a_relative_threshold() {
        let mut a = [1.0, 0.0, 1.0, 1.0 + 1e-15];
        assert!(factor(&mut a.clone(), 2, 0.0).is_ok());
        assert_eq!(factor(&mut a, 2, 1e-12).unwrap_err().row, 1);
    }
}
