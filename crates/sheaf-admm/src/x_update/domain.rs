//! The shape of the local objectives far away, for certificates that a problem has no solution.
//!
//! | question | answer | used for |
//! | --- | --- | --- |
//! | lowest(d) | inf d·x over the points where f is finite | a hyperplane between the objectives and the agreement |
//! | recession(d) | lim f(x + t d)/t, finite only if d is a direction along which f never curves up | unboundedness |
//!
//! Numbers of d at most `threshold` count as 0 where they would meet something infinite: d is a difference of iterates.

use super::agents::Agents;
use super::coefficient::Coefficient;
use super::curvature::{Curvature, dot};
use super::{Diagonal, Equality, Objective, Qp, own};
use crate::linalg::cholesky;
use crate::{Real, Result};

/// A sum that may be infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extent<T> {
    /// A number, and the sum of the sizes of its terms.
    Finite {
        /// The sum.
        value: T,
        /// The sum of the absolute values.
        size: T,
    },
    /// Infinite: −∞ for the lowest value, +∞ for a recession.
    Infinite,
    /// This family does not tell.
    Unknown,
}

impl<T: Real> Extent<T> {
    pub(crate) const ZERO: Self = Self::Finite { value: T::ZERO, size: T::ZERO };

    fn term(self, term: T) -> Self {
        match self {
            Self::Finite { value, size } => Self::Finite { value: value + term, size: size + term.abs() },
            other => other,
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Finite { value, size }, Self::Finite { value: v, size: s }) => {
                Self::Finite { value: value + v, size: size + s }
            }
            (Self::Infinite, _) | (_, Self::Infinite) => Self::Infinite,
            _ => Self::Unknown,
        }
    }
}

impl<T: Real> Objective<'_, T> {
    /// Length of the scratch of [`lowest`](Self::lowest).
    pub(crate) fn lowest_scratch_len(offsets: &[usize]) -> usize {
        let d = Agents::new(offsets).map_or(0, |agents| agents.max_dim());
        d.saturating_mul(d.saturating_add(1))
    }

    /// inf d·x over the domain of all agents.
    pub(crate) fn lowest(
        &self,
        offsets: &[usize],
        d: &[T],
        threshold: T,
        scratch: &mut [T],
    ) -> Result<Extent<T>> {
        let agents = Agents::new(offsets)?;
        Ok(self.lowest_at(agents, d, threshold, scratch))
    }

    fn lowest_at(&self, agents: Agents<'_>, d: &[T], threshold: T, scratch: &mut [T]) -> Extent<T> {
        let free = || if d.iter().all(|d| d.abs() <= threshold) { Extent::ZERO } else { Extent::Infinite };
        match self {
            Self::Diagonal(Diagonal { lo, hi, .. }) => lowest_in_box(d, *lo, *hi, threshold),
            Self::Tether(_) | Self::Dense(_) => free(),
            Self::Equality(f) => lowest_on_plane(f, agents, d, threshold, scratch),
            Self::Qp(Qp { eq_rows: [], in_rows: [], lo, hi, .. }) => lowest_in_box(d, *lo, *hi, threshold),
            Self::Mixed(each) => each
                .iter()
                .enumerate()
                .map(|(i, f)| f.lowest_at(agents.only(i), &d[agents.range(i)], threshold, scratch))
                .fold(Extent::ZERO, Extent::and),
            Self::Own(f) => own::extent(f, agents, d, threshold, |f, d| f.lowest(d, threshold)),
            _ => Extent::Unknown,
        }
    }

    /// The recession of the sum of all objectives along d.
    pub(crate) fn recession(&self, offsets: &[usize], d: &[T], threshold: T) -> Result<Extent<T>> {
        let agents = Agents::new(offsets)?;
        Ok(self.recession_at(agents, d, threshold))
    }

    fn recession_at(&self, agents: Agents<'_>, d: &[T], threshold: T) -> Extent<T> {
        match self {
            Self::Diagonal(f) => {
                let at = |c: Option<Coefficient<'_, T>>, k: usize| c.map_or(T::ZERO, |c| c.at(k));
                let linear = |sum: Extent<T>, (k, &d): (usize, &T)| {
                    if d.abs() > threshold && f.diag[k] + at(f.l2, k) > T::ZERO {
                        return Extent::Infinite;
                    }
                    sum.term(f.q[k] * d).term(at(f.l1, k) * d.abs())
                };
                d.iter().enumerate().fold(within_box(d, f.lo, f.hi, threshold), linear)
            }
            Self::Tether(f) if f.beta > T::ZERO => {
                if d.iter().all(|d| d.abs() <= threshold) {
                    Extent::ZERO
                } else {
                    Extent::Infinite
                }
            }
            Self::Tether(_) => Extent::ZERO,
            Self::Dense(f) => quadratic(&Curvature::Dense(f.quad), f.q, agents, d),
            Self::Equality(f) => {
                let flat = rows_of(agents, f.rows, f.a, d).all(|(row, size)| row.abs() <= threshold * size);
                if flat { quadratic(&f.quad, f.q, agents, d) } else { Extent::Infinite }
            }
            Self::Qp(f) => {
                let level = f.eq_rows.is_empty()
                    || rows_of(agents, f.eq_rows, f.a, d).all(|(row, size)| row.abs() <= threshold * size);
                let below = f.in_rows.is_empty()
                    || rows_of(agents, f.in_rows, f.g, d).all(|(row, size)| row <= threshold * size);
                if level && below {
                    within_box(d, f.lo, f.hi, threshold).and(quadratic(&f.quad, f.q, agents, d))
                } else {
                    Extent::Infinite
                }
            }
            Self::Mixed(each) => each
                .iter()
                .enumerate()
                .map(|(i, f)| f.recession_at(agents.only(i), &d[agents.range(i)], threshold))
                .fold(Extent::ZERO, Extent::and),
            Self::Own(f) => own::extent(f, agents, d, threshold, |f, d| f.recession(d, threshold)),
        }
    }
}

fn lowest_in_box<T: Real>(
    d: &[T],
    lo: Option<Coefficient<'_, T>>,
    hi: Option<Coefficient<'_, T>>,
    threshold: T,
) -> Extent<T> {
    let mut sum = Extent::ZERO;
    for (k, &d) in d.iter().enumerate() {
        let bound = if d > T::ZERO { lo } else { hi };
        let bound = bound.map_or(T::INFINITY, |b| b.at(k));
        if bound.is_finite() {
            sum = sum.term(d * bound);
        } else if d.abs() > threshold {
            return Extent::Infinite;
        }
    }
    sum
}

/// 0 if the box is open in the direction d.
fn within_box<T: Real>(
    d: &[T],
    lo: Option<Coefficient<'_, T>>,
    hi: Option<Coefficient<'_, T>>,
    threshold: T,
) -> Extent<T> {
    let open = |(k, &d): (usize, &T)| {
        let bound = if d > T::ZERO { hi } else { lo };
        d.abs() <= threshold || !bound.is_some_and(|b| b.at(k).is_finite())
    };
    if d.iter().enumerate().all(open) { Extent::ZERO } else { Extent::Infinite }
}

/// inf d·x over A x = b: b·ν where d = Aᵀν.
fn lowest_on_plane<T: Real>(
    f: &Equality<'_, T>,
    agents: Agents<'_>,
    d: &[T],
    threshold: T,
    scratch: &mut [T],
) -> Extent<T> {
    let (mut sum, mut at, mut row) = (Extent::ZERO, 0, 0);
    for i in 0..agents.count() {
        let (m, n) = (f.rows[i], agents.dim(i));
        let (a, b, d) = (&f.a[at..at + m * n], &f.b[row..row + m], &d[agents.range(i)]);
        (at, row) = (at + m * n, row + m);
        let of = |r: usize| &a[r * n..(r + 1) * n];
        let (gram, nu) = scratch[..m * m + m].split_at_mut(m * m);
        gram.iter_mut().enumerate().for_each(|(k, g)| *g = dot(of(k / m), of(k % m)));
        nu.iter_mut().enumerate().for_each(|(r, nu)| *nu = dot(of(r), d));
        if cholesky::factor(gram, m, T::ZERO).is_err() {
            return Extent::Unknown;
        }
        cholesky::solve(gram, m, nu);
        let rest = |k: usize| d[k] - (0..m).map(|r| of(r)[k] * nu[r]).sum::<T>();
        if (0..n).any(|k| rest(k).abs() > threshold) {
            return Extent::Infinite;
        }
        sum = b.iter().zip(nu.iter()).fold(sum, |sum, (&b, &nu)| sum.term(b * nu));
    }
    sum
}

/// (a·d, ‖a‖₁ ‖d‖∞) of every row of every agent.
fn rows_of<'r, T: Real>(
    agents: Agents<'r>,
    rows: &'r [usize],
    a: &'r [T],
    d: &'r [T],
) -> impl Iterator<Item = (T, T)> + 'r {
    let mut at = 0;
    (0..agents.count()).flat_map(move |i| {
        let (m, n, d) = (rows[i], agents.dim(i), &d[agents.range(i)]);
        let block = &a[at..at + m * n];
        at += m * n;
        block.chunks_exact(n.max(1)).map(move |row| (dot(row, d), row.iter().map(|a| a.abs()).sum()))
    })
}

/// q·d, if Q d is 0 up to rounding: a direction along which the curvature is merely small is not a recession.
fn quadratic<T: Real>(quad: &Curvature<'_, T>, q: &[T], agents: Agents<'_>, d: &[T]) -> Extent<T> {
    let mut at = 0;
    for i in 0..agents.count() {
        let (n, d) = (agents.dim(i), &d[agents.range(i)]);
        let block = &quad.entries()[at..at + quad.block_len(n)];
        at += block.len();
        let largest = |values: &[T]| values.iter().fold(T::ZERO, |m, v| m.max(v.abs()));
        let rounding = T::from_f64(1024.0 * n as f64) * T::EPSILON * largest(block) * largest(d);
        let flat = match quad {
            Curvature::Diagonal(_) => block.iter().zip(d).all(|(&q, &d)| (q * d).abs() <= rounding),
            Curvature::Dense(_) => block.chunks_exact(n.max(1)).all(|row| dot(row, d).abs() <= rounding),
        };
        if !flat {
            return Extent::Infinite;
        }
    }
    q.iter().zip(d).fold(Extent::ZERO, |sum, (&q, &d)| sum.term(q * d))
}
