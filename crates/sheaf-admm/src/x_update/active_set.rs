//! One agent's QP in `f64`: solved by an interior-point method, refined on its active set, differentiated there.
//!
//! ```text
//! min ½ xᵀHx + cᵀx      C x = r (the first rows), C x ≤ r (the others)
//! on the active rows C_W:   H x + C_Wᵀ ν = −c,   C_W x = r_W
//! ```
//!
//! The interior-point solution is accurate to about 1e-8. It determines the active rows (multiplier above slack), and
//! solving the system above on them gives the solution to rounding. This solution is accepted if it is verified: every
//! multiplier of an inequality is at least 0 and no row is violated; rows are exchanged one at a time until it is. H is
//! positive definite, so the minimiser is unique and a verified solution is the right one. Otherwise the interior-point
//! solution is used.
//!
//! This module allocates: the sizes depend on the active set.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolution, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus,
    SupportedConeT, ZeroConeT,
};

use super::curvature::dot;
use crate::linalg::cholesky;
use crate::{Error, ErrorKind, Result};

/// Slacks and multipliers below this, relative to the quantities involved, count as zero.
const TOUCH: f64 = 1e-9;
/// A row whose pivot falls below this fraction of its own size depends on the rows before it.
const DEPENDENT: f64 = 1e-11;
/// Exchanges of rows before the interior-point solution is used as it is.
const EXCHANGES: usize = 64;

/// The problem of one agent.
#[derive(Debug, Default)]
pub(super) struct LocalQp {
    pub agent: usize,
    pub d: usize,
    pub hessian: Vec<f64>, // [d, d]
    pub linear: Vec<f64>,  // [d]
    pub rows: Vec<f64>,    // [k, d]
    pub rhs: Vec<f64>,     // [k]
    /// How many of the rows are equalities; they come first.
    pub equalities: usize,
}

/// The minimiser, the multiplier of every row, and the system on the active rows.
pub(super) struct Solution {
    pub x: Vec<f64>,  // [d]
    pub nu: Vec<f64>, // [k]
    active: Reduced,
}

/// A minimiser on some rows: x, and the multiplier of each of the rows.
struct Candidate {
    x: Vec<f64>,      // [d]
    rows: Vec<usize>, // [w]
    nu: Vec<f64>,     // [w]
}

/// The result of the interior-point method.
struct Interior {
    x: Vec<f64>,           // [d]
    multipliers: Vec<f64>, // [k]
    slacks: Vec<f64>,      // [k]
    exact: bool,
}

/// The factorised system on a set of independent rows.
struct Reduced {
    factor: Vec<f64>, // [d, d], of H
    kept: Vec<usize>, // [w]
    rows: Vec<f64>,   // [w, d]
    lifted: Vec<f64>, // [w, d], H⁻¹ of every row
    schur: Vec<f64>,  // [w, w], factor of C_W H⁻¹ C_Wᵀ
}

impl LocalQp {
    /// Solves without an initial guess.
    pub fn solve(&self) -> Result<Solution> {
        self.check_finite()?;
        let factor = self.factor()?;
        if self.rhs.is_empty() {
            let (x, nu) = self.reduce(&factor, &[]).solve(&self.linear, &[]);
            return Ok(self.finish(&factor, Candidate { x, rows: Vec::new(), nu }));
        }
        let Interior { x, multipliers, slacks, exact } = self.interior_point()?;
        let active = |&k: &usize| k < self.equalities || multipliers[k] > slacks[k];
        let rows: Vec<usize> = (0..self.rhs.len()).filter(active).collect();
        match self.sharpen(&factor, rows.clone()) {
            Some(sharp) => Ok(self.finish(&factor, sharp)),
            None if exact => {
                let nu = rows.iter().map(|&k| multipliers[k]).collect();
                Ok(self.finish(&factor, Candidate { x, rows, nu }))
            }
            None => Err(self.failed("a solution to reduced accuracy only")),
        }
    }

    /// Solves again near a known minimiser, whose touched rows usually are the active set.
    pub fn solve_near(&self, x: &[f64], accuracy: f64) -> Result<Solution> {
        self.check_finite()?;
        let factor = self.factor()?;
        let guess = (0..self.rhs.len()).filter(|&k| k < self.equalities || self.slack(k, x) <= accuracy);
        match self.sharpen(&factor, guess.collect()) {
            Some(sharp) => Ok(self.finish(&factor, sharp)),
            None => self.solve(),
        }
    }

    /// The part (λ, β) of the adjoint system with right side (d_x, 0): H λ + C_Wᵀ β = d_x, C_W λ = 0. β is 0 off
    /// the active rows.
    pub fn adjoint(&self, solution: &Solution, d_x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let negated: Vec<f64> = d_x.iter().map(|g| -g).collect();
        let active = &solution.active;
        let (lambda, on_rows) = active.solve(&negated, &vec![0.0; active.kept.len()]);
        let mut beta = vec![0.0; self.rhs.len()];
        active.kept.iter().zip(on_rows).for_each(|(&k, b)| beta[k] = b);
        (lambda, beta)
    }

    fn row(&self, k: usize) -> &[f64] {
        &self.rows[k * self.d..(k + 1) * self.d]
    }

    /// r_k − C_k x, relative to the sizes of what is subtracted.
    fn slack(&self, k: usize, x: &[f64]) -> f64 {
        let size: f64 = self.row(k).iter().zip(x).map(|(c, x)| (c * x).abs()).sum();
        (self.rhs[k] - dot(self.row(k), x)) / (1.0 + self.rhs[k].abs() + size)
    }

    fn factor(&self) -> Result<Vec<f64>> {
        let mut factor = self.hessian.clone();
        cholesky::factor(&mut factor, self.d, 0.0)
            .map_err(|bad| bad.of_agent(self.agent, "qp.quad + rho·I"))?;
        Ok(factor)
    }

    /// Keeps those of the `wanted` rows that do not depend on the ones before them.
    fn reduce(&self, factor: &[f64], wanted: &[usize]) -> Reduced {
        let (d, mut kept, mut rows, mut lifted) = (self.d, Vec::new(), Vec::new(), Vec::new());
        let mut triangle: Vec<Vec<f64>> = Vec::new();
        for &k in wanted {
            let mut up = self.row(k).to_vec();
            cholesky::solve(factor, d, &mut up);
            let mut new: Vec<f64> = Vec::new();
            for (j, old) in triangle.iter().enumerate() {
                let along = dot(self.row(k), &lifted[j * d..(j + 1) * d]);
                new.push((along - dot(&new, &old[..j])) / old[j]);
            }
            let size = dot(self.row(k), &up);
            let pivot = size - dot(&new, &new);
            if pivot > DEPENDENT * size {
                new.push(pivot.sqrt());
                triangle.push(new);
                kept.push(k);
                rows.extend_from_slice(self.row(k));
                lifted.append(&mut up);
            }
        }
        let w = kept.len();
        let mut schur = vec![0.0; w * w];
        triangle.iter().enumerate().for_each(|(i, row)| schur[i * w..i * w + i + 1].copy_from_slice(row));
        Reduced { factor: factor.to_vec(), kept, rows, lifted, schur }
    }

    /// The minimiser on a set of active rows, exchanged until it is verified.
    fn sharpen(&self, factor: &[f64], mut active: Vec<usize>) -> Option<Candidate> {
        let size = 1.0 + self.linear.iter().fold(0.0f64, |m, c| m.max(c.abs()));
        for _ in 0..EXCHANGES {
            let reduced = self.reduce(factor, &active);
            let rhs: Vec<f64> = reduced.kept.iter().map(|&k| self.rhs[k]).collect();
            let (x, nu) = reduced.solve(&self.linear, &rhs);
            let pulling = (0..nu.len())
                .filter(|&i| reduced.kept[i] >= self.equalities && nu[i] < -TOUCH * size)
                .min_by(|&a, &b| nu[a].total_cmp(&nu[b]));
            let gap =
                |k: usize| if k < self.equalities { -self.slack(k, &x).abs() } else { self.slack(k, &x) };
            let violated =
                (0..self.rhs.len()).filter(|&k| gap(k) < -TOUCH).min_by(|&a, &b| gap(a).total_cmp(&gap(b)));
            match (pulling, violated) {
                (Some(i), _) => active.retain(|&k| k != reduced.kept[i]),
                // A violated row that depends on active ones cannot be added: the set itself is wrong.
                (None, Some(k)) if active.contains(&k) => return None,
                (None, Some(k)) => active.push(k),
                (None, None) => return Some(Candidate { x, rows: reduced.kept, nu }),
            }
        }
        None
    }

    /// Collects the solution; the system of the adjoint holds every row that x touches, strongest first.
    fn finish(&self, factor: &[f64], Candidate { x, rows, nu: on_rows }: Candidate) -> Solution {
        let mut nu = vec![0.0; self.rhs.len()];
        rows.iter().zip(on_rows).for_each(|(&k, n)| nu[k] = n);
        let touched = |k: usize| k < self.equalities || rows.contains(&k) || self.slack(k, &x) <= TOUCH;
        let mut order: Vec<usize> = (0..self.rhs.len()).filter(|&k| touched(k)).collect();
        order[self.equalities..].sort_by(|&a, &b| nu[b].total_cmp(&nu[a]));
        let active = self.reduce(factor, &order);
        Solution { x, nu, active }
    }

    fn interior_point(&self) -> Result<Interior> {
        let k = self.rhs.len();
        let (upper, rows) =
            (dense_csc(&self.hessian, self.d, self.d, true), dense_csc(&self.rows, k, self.d, false));
        let mut cones: Vec<SupportedConeT<f64>> = Vec::new();
        if self.equalities > 0 {
            cones.push(ZeroConeT(self.equalities));
        }
        if k > self.equalities {
            cones.push(NonnegativeConeT(k - self.equalities));
        }
        let settings = DefaultSettings {
            verbose: false,
            tol_gap_abs: 1e-10,
            tol_gap_rel: 1e-10,
            tol_feas: 1e-10,
            ..DefaultSettings::default()
        };
        let mut solver = DefaultSolver::new(&upper, &self.linear, &rows, &self.rhs, &cones, settings)
            .map_err(|e| self.failed(&e.to_string()))?;
        solver.solve();
        let found = solver.solution;
        match found.status {
            SolverStatus::Solved => Ok(interior(found, true)),
            // Accurate enough to determine the active rows.
            SolverStatus::AlmostSolved | SolverStatus::InsufficientProgress => Ok(interior(found, false)),
            SolverStatus::PrimalInfeasible | SolverStatus::AlmostPrimalInfeasible => Err(Error::new(
                ErrorKind::Infeasible,
                format!("qp of agent {}", self.agent),
                "constraints that some point satisfies",
                "constraints that exclude every point",
            )
            .hint("loosen the equalities, inequalities or bounds of this agent")),
            status => Err(self.failed(&format!("{status:?}"))),
        }
    }

    fn check_finite(&self) -> Result<()> {
        crate::error::check_finite(&format!("qp of agent {}: rho·v − q", self.agent), &self.linear)
    }

    fn failed(&self, got: &str) -> Error {
        let place = format!("qp of agent {}", self.agent);
        Error::new(ErrorKind::SolverFailed, place, "an optimal point", got)
            .hint("rescale the constraints so that their entries are near 1")
    }
}

impl Reduced {
    /// (x, ν) with H x + Cᵀν = −c, C x = r.
    fn solve(&self, c: &[f64], r: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let d = c.len();
        let mut x: Vec<f64> = c.iter().map(|c| -c).collect();
        cholesky::solve(&self.factor, d, &mut x);
        let mut nu: Vec<f64> =
            self.rows.chunks_exact(d.max(1)).zip(r).map(|(row, r)| dot(row, &x) - r).collect();
        cholesky::solve(&self.schur, nu.len(), &mut nu);
        for (row, n) in self.lifted.chunks_exact(d.max(1)).zip(&nu) {
            x.iter_mut().zip(row).for_each(|(x, l)| *x -= n * l);
        }
        (x, nu)
    }
}

fn interior(found: DefaultSolution<f64>, exact: bool) -> Interior {
    Interior { x: found.x, multipliers: found.z, slacks: found.s, exact }
}

/// A row-major matrix as compressed columns; of a symmetric one only the upper triangle.
fn dense_csc(a: &[f64], rows: usize, cols: usize, upper: bool) -> CscMatrix<f64> {
    let (mut starts, mut places, mut values) = (vec![0], Vec::new(), Vec::new());
    for j in 0..cols {
        for i in 0..if upper { j + 1 } else { rows } {
            if a[i * cols + j] != 0.0 {
                places.push(i);
                values.push(a[i * cols + j]);
            }
        }
        starts.push(places.len());
    }
    CscMatrix::new(rows, cols, starts, places, values)
}
