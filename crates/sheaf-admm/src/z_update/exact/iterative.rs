//! Soft systems that are too large to factor cheaply: conjugate gradients on the numbers that edges read.
//!
//! ```text
//! A = R̂ + κ L       L = Σ_e γω_e F_eᵀF_e,   κ = 1/h
//! ```
//!
//! L is stored as a sparse matrix, both triangles, and does not depend on ρ: a new penalty changes κ and the diagonal
//! only. Numbers that no edge reads are copied. The preconditioner is the diagonal of A: R̂ bounds the smallest eigenvalue
//! from below, so that the steps grow with √(κ‖L‖) and not with the size of the graph.
//!
//! `forward` starts at the previous z and reduces its residual by [`REDUCE`]. ADMM moves the target less and less, so the
//! error of the step falls with the residuals of the solve, which are those of the problem and are checked as such.

use super::rows::Rows;
use super::stacks::Stacks;
use crate::chunks::{self, Cut};
use crate::clock;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{Sheaf, SheafOp};
use crate::z_update::InnerReport;
use crate::z_update::weights::Weights;
use crate::{Error, ErrorKind, Real, Result};

/// By how much a warm-started solve reduces its residual.
pub(super) const REDUCE: f64 = 0.03;
/// The most steps of one solve.
pub(super) const STEPS: usize = 2000;

/// The pattern of L on the numbers that edges read.
#[derive(Debug)]
pub(super) struct Iterative {
    rows: Rows,
    coupled: Vec<u32>,  // [m], the numbers that edges read, growing
    compact: Vec<u32>,  // [states], their places among them
    starts: Vec<usize>, // [m + 1]
    cols: Vec<u32>,     // [nnz] off the diagonal, growing in each row
    bounds: Vec<usize>, // [chunks + 1], where the chunks of the coupled numbers begin
}

/// What `prepare` leaves.
struct Kept<'s, T> {
    values: &'s [T],  // [nnz], of L
    metric: &'s [T],  // [m], R̂
    inverse: &'s [T], // [m], 1/diagonal of A
    main: &'s [T],    // [m], diagonal of A
    pull: &'s [T],    // [m], Σ γω Fᵀb
    kappa: T,
}

impl Iterative {
    pub(super) fn new<T: Real>(op: &SheafOp<'_, T>, stacks: &Stacks<'_, T>) -> Option<Self> {
        let (sheaf, rows) = (op.sheaf(), Rows::new(op.sheaf())?);
        let mut compact = vec![u32::MAX; sheaf.state_len()];
        for (e, edge) in sheaf.edges().iter().enumerate() {
            (0..edge.dim as usize).for_each(|r| rows.row(e, r, stacks).for_each(|(s, _)| compact[s] = 0));
        }
        let mut coupled = Vec::new();
        for (k, place) in compact.iter_mut().enumerate().filter(|(_, place)| **place == 0) {
            *place = coupled.len() as u32;
            coupled.push(k as u32);
        }
        let (starts, cols) = pattern(sheaf, &rows, stacks, &compact, coupled.len());
        let chunk_start = |c: usize| {
            let first = sheaf.state_offsets()[chunks::agents(c, sheaf.agents()).start];
            coupled.partition_point(|&k| (k as usize) < first)
        };
        let mut bounds: Vec<usize> = (0..chunks::count(sheaf.agents())).map(chunk_start).collect();
        bounds.push(coupled.len());
        Some(Self { rows, coupled, compact, starts, cols, bounds })
    }

    /// How many numbers are coupled.
    pub(super) fn unknowns(&self) -> usize {
        self.coupled.len()
    }

    /// Entries of L.
    pub(super) fn entries(&self) -> usize {
        self.cols.len() + self.coupled.len()
    }

    /// The largest number on the diagonal of L; `weight(e)` is γω_e.
    pub(super) fn largest_diagonal<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        stacks: &Stacks<'_, T>,
        weight: impl Fn(usize) -> T,
    ) -> T {
        let mut diagonal = vec![T::ZERO; op.sheaf().state_len()];
        for (e, edge) in op.sheaf().edges().iter().enumerate() {
            let g = weight(e);
            for r in 0..edge.dim as usize {
                self.rows.row(e, r, stacks).for_each(|(s, f)| diagonal[s] += g * f * f);
            }
        }
        diagonal.into_iter().fold(T::ZERO, |m, d| m.max(d))
    }

    /// Length of what `prepare` leaves.
    pub(super) fn room(&self) -> usize {
        self.cols.len() + 5 * self.coupled.len() + 1
    }

    /// Length of the scratch of a solve.
    pub(super) fn scratch_len(&self) -> usize {
        4 * self.coupled.len()
    }

    fn chunks(&self) -> usize {
        self.bounds.len() - 1
    }

    fn kept<'s, T: Real>(&self, kept: &'s [T]) -> Kept<'s, T> {
        let m = self.coupled.len();
        let (values, rest) = kept.split_at(self.cols.len());
        let part = |k: usize| &rest[k * m..(k + 1) * m];
        Kept { values, metric: part(0), inverse: part(2), main: part(3), pull: part(4), kappa: rest[5 * m] }
    }

    /// Writes L, the metric and the pull of the offsets; `weight(e)` is γω_e.
    pub(super) fn prepare<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        stacks: &Stacks<'_, T>,
        weights: &Weights<'_, T>,
        weight: impl Fn(usize) -> T,
        kept: &mut [T],
    ) -> Result<()> {
        let m = self.coupled.len();
        let (values, rest) = kept.split_at_mut(self.cols.len());
        let (metric, rest) = rest.split_at_mut(m);
        let diagonal = &mut rest[..m];
        values.fill(T::ZERO);
        diagonal.fill(T::ZERO);
        for (i, range) in op.sheaf().state_offsets().windows(2).enumerate() {
            for &place in self.compact[range[0]..range[1]].iter().filter(|p| **p != u32::MAX) {
                metric[place as usize] = T::ONE / weights.of(i);
            }
        }
        for (e, edge) in op.sheaf().edges().iter().enumerate() {
            let g = weight(e);
            for r in 0..edge.dim as usize {
                let entries = self.rows.row(e, r, stacks);
                for (s, f) in entries.clone() {
                    let at = self.compact[s];
                    for (other, v) in entries.clone() {
                        let place = match (other == s, self.position(at, self.compact[other])) {
                            (true, _) if at != u32::MAX => &mut diagonal[at as usize],
                            (false, Some(place)) => &mut values[place],
                            _ => return Err(another_pattern(e)),
                        };
                        *place += g * f * v;
                    }
                }
            }
        }
        self.pull(op, stacks, weight, kept);
        self.rescale(weights, kept);
        Ok(())
    }

    /// Σ γω Fᵀb.
    pub(super) fn pull<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        stacks: &Stacks<'_, T>,
        weight: impl Fn(usize) -> T,
        kept: &mut [T],
    ) {
        let m = self.coupled.len();
        let pull = &mut kept[self.cols.len() + 4 * m..][..m];
        pull.fill(T::ZERO);
        let Some(b) = op.raw().offsets() else { return };
        for (e, edge) in op.sheaf().edges().iter().enumerate() {
            let g = weight(e);
            for r in 0..edge.dim as usize {
                let b = b[edge.start as usize + r];
                if b != T::ZERO {
                    self.rows
                        .row(e, r, stacks)
                        .for_each(|(s, f)| pull[self.compact[s] as usize] += g * f * b);
                }
            }
        }
    }

    /// Where an entry off the diagonal lies, if it is in the pattern. Rows are short: a plain search is the fastest.
    fn position(&self, row: u32, col: u32) -> Option<usize> {
        let own = *self.starts.get(row as usize)?..*self.starts.get(row as usize + 1)?;
        self.cols[own.clone()].iter().position(|&c| c == col).map(|at| own.start + at)
    }

    /// κ, and what depends on it.
    pub(super) fn rescale<T: Real>(&self, weights: &Weights<'_, T>, kept: &mut [T]) {
        let (m, kappa) = (self.coupled.len(), T::ONE / weights.mean);
        let (front, back) = kept.split_at_mut(self.cols.len() + 2 * m);
        let (metric, diagonal) = front[self.cols.len()..].split_at(m);
        let (inverse, back) = back.split_at_mut(m);
        for k in 0..m {
            back[k] = metric[k] + kappa * diagonal[k];
            inverse[k] = T::ONE / back[k];
        }
        back[2 * m] = kappa;
    }

    /// z for target `w`, from `start`, with the residual reduced by `reduce`, or to rounding level, in at most `most` steps.
    pub(super) fn solve<T: Real>(
        &self,
        kept: &[T],
        w: &[T],
        start: &[T],
        reduce: T,
        affine: bool,
        z: &mut [T],
        scratch: &mut [T],
        most: usize,
    ) -> Result<InnerReport> {
        let (m, kept, chunks, bounds) =
            (self.coupled.len(), self.kept(kept), self.chunks(), &self.bounds[..]);
        let mut scratch = Scratch::new(scratch);
        let (y, r, p, q) = (scratch.take(m), scratch.take(m), scratch.take(m), scratch.take(m));
        z.copy_from_slice(w);
        y.iter_mut().zip(&self.coupled).for_each(|(y, &k)| *y = start[k as usize]);
        // r = right side − A y, p = r/diagonal.
        let parts = (Cut::by_chunk(&mut *r, bounds), Cut::by_chunk(&mut *p, bounds));
        let [mut c, size] = chunks::sums(chunks, parts, |chunk, (r, p)| {
            let mut sums = [T::ZERO; 2];
            for (at, k) in (bounds[chunk]..bounds[chunk + 1]).enumerate() {
                let pull = if affine { kept.kappa * kept.pull[k] } else { T::ZERO };
                let right = kept.metric[k] * w[self.coupled[k] as usize] + pull;
                r.data[at] = right - self.product(&kept, y, k);
                p.data[at] = kept.inverse[k] * r.data[at];
                sums[0] += r.data[at] * p.data[at];
                sums[1] += right * right * kept.inverse[k];
            }
            Ok(sums)
        })?;
        let floor = T::EPSILON * T::EPSILON * T::from_f64(4.0) * size;
        let goal = (reduce * reduce * c).max(floor);
        let mut report = InnerReport { steps: 0, converged: true };
        while c > goal {
            report.steps += 1;
            let [length] = chunks::sums(chunks, Cut::by_chunk(&mut *q, bounds), |chunk, q| {
                let mut sum = T::ZERO;
                for (at, k) in (bounds[chunk]..bounds[chunk + 1]).enumerate() {
                    q.data[at] = self.product(&kept, p, k);
                    sum += q.data[at] * p[k];
                }
                Ok([sum])
            })?;
            // Written so that NaN ends the loop too.
            if !(length > T::ZERO && length.is_finite()) || report.steps > most || clock::late() {
                report.converged = false;
                break;
            }
            let (a, last) = (c / length, c);
            let parts = (Cut::by_chunk(&mut *y, bounds), Cut::by_chunk(&mut *r, bounds));
            [c] = chunks::sums(chunks, parts, |chunk, (y, r)| {
                let mut sum = T::ZERO;
                for (at, k) in (bounds[chunk]..bounds[chunk + 1]).enumerate() {
                    y.data[at] += a * p[k];
                    r.data[at] -= a * q[k];
                    sum += r.data[at] * r.data[at] * kept.inverse[k];
                }
                Ok([sum])
            })?;
            let b = c / last;
            chunks::each(chunks, Cut::by_chunk(&mut *p, bounds), |chunk, p| {
                for (at, k) in (bounds[chunk]..bounds[chunk + 1]).enumerate() {
                    p.data[at] = kept.inverse[k] * r[k] + b * p.data[at];
                }
            });
        }
        y.iter().zip(&self.coupled).for_each(|(&y, &k)| z[k as usize] = y);
        Ok(report)
    }

    /// (A y)_k.
    #[inline]
    fn product<T: Real>(&self, kept: &Kept<'_, T>, y: &[T], k: usize) -> T {
        let own = self.starts[k]..self.starts[k + 1];
        let mut sum = T::ZERO;
        for (&c, &v) in self.cols[own.clone()].iter().zip(&kept.values[own]) {
            sum += v * y[c as usize];
        }
        kept.main[k] * y[k] + kept.kappa * sum
    }

    /// x = c_e(F z − b) on every edge, `coefficient(e)` is c_e.
    pub(super) fn multipliers<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        coefficient: impl Fn(usize) -> T,
        affine: bool,
        z: &[T],
        x: &mut [T],
        rows: &mut [T],
    ) {
        op.raw().coboundary(z, x, rows);
        if affine {
            op.raw().subtract_offsets(x);
        }
        for (e, edge) in op.sheaf().edges().iter().enumerate() {
            let c = coefficient(e);
            x[edge.start as usize..(edge.start + edge.dim) as usize].iter_mut().for_each(|x| *x *= c);
        }
    }
}

fn another_pattern(e: usize) -> Error {
    let place = format!("exact solver, maps of edge {e}");
    let expected = "zeros where the maps it was made for have them";
    Error::new(ErrorKind::Unsupported, place, expected, "another number")
        .hint("make it anew with Exact::automatic, or with Exact::new for maps of any pattern")
}

/// Rows and columns of L off the diagonal, for the compact numbers.
fn pattern<T: Real>(
    sheaf: &Sheaf,
    rows: &Rows,
    stacks: &Stacks<'_, T>,
    compact: &[u32],
    m: usize,
) -> (Vec<usize>, Vec<u32>) {
    // Rows of one edge often couple the same pairs: each pair of an edge is counted once.
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let mut each = |f: &mut dyn FnMut(u32, u32)| {
        for (e, edge) in sheaf.edges().iter().enumerate() {
            pairs.clear();
            for r in 0..edge.dim as usize {
                let own = rows.row(e, r, stacks);
                for (a, _) in own.clone() {
                    pairs.extend(own.clone().filter(|b| b.0 != a).map(|(b, _)| (compact[a], compact[b])));
                }
            }
            pairs.sort_unstable();
            pairs.dedup();
            pairs.iter().for_each(|&(a, b)| f(a, b));
        }
    };
    let mut starts = vec![0usize; m + 1];
    each(&mut |a, _| starts[a as usize + 1] += 1);
    (0..m).for_each(|k| starts[k + 1] += starts[k]);
    let (mut next, mut cols) = (starts.clone(), vec![0u32; starts[m]]);
    each(&mut |a, b| {
        cols[next[a as usize]] = b;
        next[a as usize] += 1;
    });
    // Parallel edges couple the same numbers twice.
    let (mut kept, mut first) = (0, 0);
    for k in 0..m {
        let own = first..starts[k + 1];
        first = own.end;
        cols[own.clone()].sort_unstable();
        starts[k] = kept;
        for at in own {
            if kept == starts[k] || cols[kept - 1] != cols[at] {
                cols[kept] = cols[at];
                kept += 1;
            }
        }
    }
    starts[m] = kept;
    cols.truncate(kept);
    cols.shrink_to_fit();
    (starts, cols)
}
