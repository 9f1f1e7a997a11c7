//! Q of the quadratic families: one diagonal or one dense block per agent.

use super::agents::Agents;
use crate::error::{check_finite, check_len};
use crate::linalg::cholesky;
use crate::{Error, ErrorKind, Real, Result};

/// Q, symmetric and positive semidefinite, agent by agent.
#[derive(Clone, Copy, Debug)]
pub enum Curvature<'a, T> {
    /// The diagonals, one after another.
    Diagonal(&'a [T]), // [Σ d_i]
    /// Row-major blocks, one after another.
    Dense(&'a [T]), // [Σ d_i²]
}

impl<'a, T: Real> Curvature<'a, T> {
    /// The numbers, in the shape of their gradient.
    pub fn entries(&self) -> &'a [T] {
        match self {
            Self::Diagonal(q) | Self::Dense(q) => q,
        }
    }

    /// How many numbers describe an agent with a stalk of size `d`.
    #[inline]
    pub(super) fn block_len(&self, d: usize) -> usize {
        match self {
            Self::Diagonal(_) => d,
            Self::Dense(_) => d.saturating_mul(d),
        }
    }

    pub(super) fn check_sizes(&self, place: &str, agents: Agents<'_>) -> Result<()> {
        let entries = agents.dims().fold(0, |sum: usize, d| sum.saturating_add(self.block_len(d)));
        check_len(place, entries, self.entries().len())
    }

    /// Checks that Q is finite, symmetric up to rounding, positive semidefinite up to rounding. Allocates.
    pub(super) fn validate(&self, place: &str, agents: Agents<'_>) -> Result<()> {
        check_finite(place, self.entries())?;
        let mut at = 0;
        for i in 0..agents.count() {
            let d = agents.dim(i);
            let block = &self.entries()[at..at + self.block_len(d)];
            at += block.len();
            match self {
                Self::Diagonal(_) => check_diagonal(place, agents.name(i), block)?,
                Self::Dense(_) => check_block(place, agents.name(i), block, d)?,
            }
        }
        Ok(())
    }

    /// Overwrites `out` by the factor of Q + ρI: L, or the reciprocals of a diagonal.
    pub(super) fn factor(
        &self,
        block: &[T],
        d: usize,
        rho: T,
        out: &mut [T],
    ) -> Result<(), cholesky::BadPivot> {
        match self {
            Self::Diagonal(_) => {
                out.iter_mut().zip(block).for_each(|(out, &q)| *out = T::ONE / (q + rho));
                match out.iter().position(|&h| !(h > T::ZERO && h.is_finite())) {
                    Some(row) => Err(cholesky::BadPivot { row, value: (block[row] + rho).to_f64() }),
                    None => Ok(()),
                }
            }
            Self::Dense(_) => {
                out.copy_from_slice(block);
                (0..d).for_each(|i| out[i * d + i] += rho);
                cholesky::factor(out, d, T::ZERO)
            }
        }
    }

    /// Solves (Q + ρI) x = b in place with that factor.
    #[inline]
    pub(super) fn solve(&self, factor: &[T], d: usize, b: &mut [T]) {
        match self {
            Self::Diagonal(_) => b.iter_mut().zip(factor).for_each(|(b, &h)| *b *= h),
            Self::Dense(_) => cholesky::solve(factor, d, b),
        }
    }

    /// d_Q −= λ xᵀ, or its diagonal: the gradient of every entry as if it were free, symmetric or not.
    #[inline]
    pub(super) fn vjp(&self, lambda: &[T], x: &[T], d_block: &mut [T]) {
        match self {
            Self::Diagonal(_) => {
                d_block.iter_mut().zip(lambda).zip(x).for_each(|((d, &l), &x)| *d -= l * x);
            }
            Self::Dense(_) => {
                for (row, &l) in d_block.chunks_exact_mut(x.len().max(1)).zip(lambda) {
                    row.iter_mut().zip(x).for_each(|(d, &x)| *d -= l * x);
                }
            }
        }
    }

    /// ½ xᵀQx of one agent.
    pub(super) fn value(&self, block: &[T], x: &[T]) -> T {
        let half = T::from_f64(0.5);
        match self {
            Self::Diagonal(_) => half * block.iter().zip(x).map(|(&q, &x)| q * x * x).sum(),
            Self::Dense(_) => {
                let rows = block.chunks_exact(x.len().max(1)).zip(x);
                half * rows.map(|(row, &xi)| xi * dot(row, x)).sum()
            }
        }
    }
}

/// a·b in order; for short vectors.
#[inline]
pub(super) fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).map(|(&a, &b)| a * b).sum()
}

fn check_diagonal<T: Real>(place: &str, agent: usize, diag: &[T]) -> Result<()> {
    match diag.iter().position(|&q| q < T::ZERO) {
        None => Ok(()),
        Some(row) => {
            let expected = "a diagonal of at least 0, so that the objective is convex";
            let place = format!("{place} of agent {agent}");
            let got = format_args!("{} at row {row}", diag[row]).to_string();
            Err(Error::new(ErrorKind::NotPositiveDefinite, place, expected, got))
        }
    }
}

fn check_block<T: Real>(place: &str, agent: usize, block: &[T], d: usize) -> Result<()> {
    let largest = block.iter().fold(T::ZERO, |m, q| m.max(q.abs()));
    let rounding = T::from_f64(64.0) * T::EPSILON * largest;
    for i in 0..d {
        for j in 0..i {
            let (low, high) = (block[i * d + j], block[j * d + i]);
            if (low - high).abs() > rounding {
                let place = format!("{place} of agent {agent}");
                let got = format_args!("{low} at [{i}, {j}] and {high} at [{j}, {i}]").to_string();
                return Err(Error::new(ErrorKind::NotPositiveDefinite, place, "a symmetric matrix", got)
                    .hint("use (Q + Qᵀ)/2: the objective ½xᵀQx sees nothing else"));
            }
        }
    }
    // Semidefinite is enough, so the diagonal is raised by a bound on rounding.
    let mut lifted = block.to_vec();
    let lift = rounding * T::from_f64(d as f64);
    (0..d).for_each(|i| lifted[i * d + i] += lift);
    if largest == T::ZERO {
        return Ok(());
    }
    cholesky::factor(&mut lifted, d, T::ZERO)
        .map_err(|bad| bad.of_agent(agent, place).hint("build Q as M Mᵀ, or add a multiple of the identity"))
}
