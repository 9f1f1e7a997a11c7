//! The rows of a [`Quadratic`] by a dual active-set method.
//!
//! ```text
//! min ½ xᵀHx + cᵀx + Σ_k φ_k(C_k x)      x(ν) = x₀ − H⁻¹Cᵀν,  x₀ = −H⁻¹c
//! dual:  min ½ νᵀSν + (r − C x₀)ᵀν       every ν_k in its interval;  slack = r − C x(ν) is the gradient
//! ```
//!
//! The dual is a quadratic with bounds alone, so any multipliers within their intervals are a feasible start: those of
//! the last prox. The active rows W are those whose multiplier is free. Each round
//!
//! 1. minimises over W with the factor of S_WW, as far as the intervals allow; a multiplier that meets its bound leaves;
//! 2. lets the row enter that is violated most, measured in the metric of H. If it depends on W, the dual is linear
//!    along a direction of multipliers: it is followed until one meets its bound. If none does, these multipliers
//!    certify that no point satisfies the constraints.
//!
//! S and its factor do not depend on v: when the active set has not changed, a prox is one solve with each factor.

use super::Quadratic;
use super::work::{Row, Work, dot};
use crate::{Error, ErrorKind, Result};
use sheaf_kernels::vector::axpy;

/// A row depends on the active ones if its pivot is below this share of its diagonal entry.
const DEPENDENT: f64 = 1e-11;
/// A row counts as violated beyond this share of the terms of its slack.
const TOUCH: f64 = 1e-12;

/// Where a step ended.
enum End {
    /// At its own length.
    Full,
    /// At the bound of the active row at this position, which leaves.
    Leaves(usize),
    /// Nowhere: nothing limits it.
    Never,
}

impl Quadratic {
    /// Multipliers, slacks and active set for the minimiser x₀ without rows, in `work.right`; x into `work.x`.
    pub(super) fn solve_rows(&self, work: &mut Work<'_>) -> Result<()> {
        self.start(work);
        let rounds = 100 + 20 * work.nu.len();
        for round in 0..rounds {
            work.slacks();
            if work.newton() {
                continue;
            }
            work.slacks();
            let Some(enters) = work.most_violated(round > rounds / 2) else {
                work.primal();
                return Ok(());
            };
            if !work.enter(enters) {
                return Err(self.infeasible(work, enters));
            }
        }
        let got = format!("none after {rounds} changes");
        Err(Error::new(ErrorKind::SolverFailed, "constraints", "an optimal active set", got)
            .hint("rescale the constraints so that their entries are near 1"))
    }

    /// Right sides, intervals and the slacks at ν = 0; the active set anew if penalty or matrices have changed.
    fn start(&self, work: &mut Work<'_>) {
        let (fresh, known, d) = (work.head[2] == -2.0, work.head[2] >= 0.0, self.q.len());
        for (k, kind) in self.row_kinds().enumerate() {
            let (row, r) = (&work.rows[k * d..(k + 1) * d], self.rhs(kind));
            (work.low[k], work.high[k]) = self.range(kind);
            work.slack0[k] = r - dot(row, work.right);
            work.size0[k] = r.abs() + row.iter().zip(&*work.right).map(|(c, x)| (c * x).abs()).sum::<f64>();
            if let (Row::Abs(j), true) = (kind, fresh) {
                // The multiplier of |x_j| is l1·sign(x_j) away from 0.
                work.nu[k] = work.high[k].copysign(work.right[j]);
            }
        }
        if !known {
            work.head[2] = 0.0;
            work.mark.fill(0.0);
            for k in 0..work.nu.len() {
                if work.low[k] < work.nu[k] && work.nu[k] < work.high[k] && !work.append(k) {
                    work.nu[k] = 0.0;
                }
            }
        }
    }

    fn infeasible(&self, work: &Work<'_>, k: usize) -> Error {
        let row = match self.row_kinds().nth(k) {
            Some(Row::Equal(i)) => format!("equality {i}"),
            Some(Row::AtMost(i)) => format!("inequality {i}"),
            Some(Row::Upper(j)) => format!("the upper bound of coordinate {j}"),
            Some(Row::Lower(j)) => format!("the lower bound of coordinate {j}"),
            Some(Row::Abs(_)) | None => "a row".to_string(),
        };
        let got = format!("{row}, missed by {:.3e} wherever the others hold", work.slack[k].abs());
        Error::new(ErrorKind::Infeasible, "constraints", "constraints that some point satisfies", got)
            .hint("loosen the equalities, inequalities or bounds of this agent")
    }
}

impl Work<'_> {
    fn count(&self) -> usize {
        self.head[2] as usize
    }

    /// slack = slack₀ + S ν, and the sizes of its terms.
    fn slacks(&mut self) {
        let count = self.nu.len();
        self.slack.copy_from_slice(self.slack0);
        self.size.copy_from_slice(self.size0);
        for j in (0..count).filter(|&j| self.nu[j] != 0.0) {
            let (nu, column) = (self.nu[j], &self.schur[j * count..(j + 1) * count]);
            for k in 0..count {
                self.slack[k] += nu * column[k];
                self.size[k] += (nu * column[k]).abs();
            }
        }
    }

    /// Minimises over the active rows; returns whether one of them left.
    fn newton(&mut self) -> bool {
        let n = self.count();
        for i in 0..n {
            self.step[i] = -self.slack[self.active[i] as usize];
        }
        solve_active(self.chol, self.nu.len(), n, self.step);
        match self.advance(1.0).0 {
            End::Leaves(i) => {
                self.remove(i);
                true
            }
            End::Full | End::Never => false,
        }
    }

    /// ν += t·step on the active rows with the largest t ≤ `most` that the intervals allow. Returns t too.
    fn advance(&mut self, most: f64) -> (End, f64) {
        let (mut t, mut bound) = (most, 0.0);
        let mut end = if most.is_finite() { End::Full } else { End::Never };
        for i in 0..self.count() {
            let (k, step) = (self.active[i] as usize, self.step[i]);
            let limit = if step < 0.0 { self.low[k] } else { self.high[k] };
            if step != 0.0 && limit.is_finite() {
                let here = ((limit - self.nu[k]) / step).max(0.0);
                if here < t {
                    (t, end, bound) = (here, End::Leaves(i), limit);
                }
            }
        }
        if t.is_finite() {
            for i in 0..self.count() {
                self.nu[self.active[i] as usize] += t * self.step[i];
            }
        }
        if let End::Leaves(i) = end {
            self.nu[self.active[i] as usize] = bound;
        }
        (end, t)
    }

    /// The row outside the active set whose slack has the wrong sign, by distance in the metric of H; the first one
    /// if `any`, which cannot cycle.
    fn most_violated(&self, any: bool) -> Option<usize> {
        let count = self.nu.len();
        let (mut worst, mut found) = (0.0, None);
        for k in (0..count).filter(|&k| self.mark[k] == 0.0) {
            let (nu, slack) = (self.nu[k], self.slack[k]);
            let wrong = (slack < 0.0 && nu < self.high[k]) || (slack > 0.0 && nu > self.low[k]);
            let far = slack.abs() / self.schur[k * count + k].sqrt();
            if wrong && slack.abs() > TOUCH * self.size[k] && far > worst {
                (worst, found) = (far, Some(k));
                if any {
                    break;
                }
            }
        }
        found
    }

    /// Lets row `k` enter the active set; `false` if no multipliers of the others make room for it.
    fn enter(&mut self, k: usize) -> bool {
        let count = self.nu.len();
        let way = -self.slack[k].signum();
        while !self.append(k) {
            // C_k is a combination of the active rows: multipliers move along it without moving x.
            let n = self.count();
            for i in 0..n {
                self.step[i] = -way * self.schur[k * count + self.active[i] as usize];
            }
            solve_active(self.chol, count, n, self.step);
            let own = if way < 0.0 { self.nu[k] - self.low[k] } else { self.high[k] - self.nu[k] };
            let (end, t) = self.advance(own);
            match end {
                End::Never => return false,
                End::Full => {
                    self.nu[k] = if way < 0.0 { self.low[k] } else { self.high[k] };
                    return true;
                }
                End::Leaves(i) => {
                    self.nu[k] += way * t;
                    self.remove(i);
                }
            }
        }
        true
    }

    /// x = x₀ − H⁻¹Cᵀν.
    fn primal(&mut self) {
        let d = self.x.len();
        self.x.copy_from_slice(self.right);
        for k in (0..self.nu.len()).filter(|&k| self.nu[k] != 0.0) {
            axpy(self.x, -self.nu[k], &self.lifted[k * d..(k + 1) * d]);
        }
    }

    /// Appends row `k` to the active rows; `false` if it depends on them.
    fn append(&mut self, k: usize) -> bool {
        let (n, count) = (self.count(), self.nu.len());
        let size = self.schur[k * count + k];
        if n == count {
            return false;
        }
        let (done, rest) = self.chol.split_at_mut(n * count);
        let new = &mut rest[..count];
        for j in 0..n {
            let old = &done[j * count..j * count + j + 1];
            let s = self.schur[k * count + self.active[j] as usize];
            new[j] = (s - dot(&new[..j], &old[..j])) / old[j];
        }
        let pivot = size - dot(&new[..n], &new[..n]);
        // A pivot that is not a number is refused too.
        if pivot.is_nan() || pivot <= DEPENDENT * size {
            return false;
        }
        new[n] = pivot.sqrt();
        (self.active[n], self.mark[k], self.head[2]) = (k as f64, 1.0, (n + 1) as f64);
        true
    }

    /// Removes the active row at position `i` and factorises those after it again.
    fn remove(&mut self, i: usize) {
        let n = self.count();
        self.active[i..n].rotate_left(1);
        self.head[2] = i as f64;
        for j in i..n {
            self.mark[self.active[j] as usize] = 0.0;
        }
        for j in i..n - 1 {
            let k = self.active[j] as usize;
            // Rows that were independent stay so; one at the limit may be let go by rounding.
            if !self.append(k) {
                self.nu[k] = self.low[k].max(0.0).min(self.high[k]);
            }
        }
    }

    /// (λ, β) with H λ + C_Wᵀ β = g, C_W λ = 0. `right` holds H⁻¹g and becomes λ; β is in `step`, by position.
    pub(super) fn adjoint(&mut self) {
        let (n, count, d) = (self.count(), self.nu.len(), self.x.len());
        for i in 0..n {
            let k = self.active[i] as usize;
            self.step[i] = dot(&self.rows[k * d..(k + 1) * d], self.right);
        }
        solve_active(self.chol, count, n, self.step);
        for i in 0..n {
            let k = self.active[i] as usize;
            axpy(self.right, -self.step[i], &self.lifted[k * d..(k + 1) * d]);
        }
    }
}

/// Solves with the factor of S on the first `n` active rows, in place.
fn solve_active(chol: &[f64], count: usize, n: usize, b: &mut [f64]) {
    for i in 0..n {
        let row = &chol[i * count..i * count + i + 1];
        b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
    }
    for i in (0..n).rev() {
        let row = &chol[i * count..i * count + i + 1];
        b[i] /= row[i];
        let value = b[i];
        b[..i].iter_mut().zip(row).for_each(|(b, l)| *b -= value * l);
    }
}
