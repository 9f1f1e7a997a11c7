//! A quadratic with any combination of further terms and constraints: the objective of one agent.
//!
//! ```text
//! f(x) = ½ xᵀQx + qᵀx + Σ l1_j |x_j| + l2/2 ‖x‖² + β/2 ‖x − h‖²
//! subject to   A x = b,   G x ≤ g,   lo ≤ x ≤ hi
//! ```
//!
//! The prox takes the cheapest way that is exact:
//!
//! | terms | way |
//! | --- | --- |
//! | Q diagonal, no A, no G | closed form, coordinate by coordinate |
//! | Q dense, nothing else | Cholesky factor of H = Q + l2 + β + ρ, once per penalty |
//! | Q sparse, more than 32 coordinates | the same within the envelope of Q |
//! | with rows | H once per penalty, then a dual active-set method (`dual.rs`) that starts from the last active set |
//!
//! Every row of A and G, every finite bound (where Q is not diagonal or there is an A or G) and every |x_j| is a *row*
//! with a multiplier in an interval: all numbers for an equality, ν ≥ 0 for an inequality, |ν| ≤ l1_j for |x_j|.
//! Memory: d² + k(d + 2k) numbers for k rows.

mod dual;
mod duals;
mod envelope;
mod far;
mod ordering;
mod proximal;
mod scaled;
mod vjp;
mod work;

pub use duals::Duals;
pub use vjp::QuadraticGrad;

use envelope::Envelope;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Matrix;
use crate::error::{check_finite, check_len};
use crate::matrix::Kind;
use crate::{Error, ErrorKind, Result};

/// The objective of one agent: a quadratic and what is added to it.
///
/// ```text
/// f(x) = ½ xᵀQx + qᵀx + Σ l1_j |x_j| + l2/2 ‖x‖² + β/2 ‖x − h‖²
/// subject to   A x = b,   G x ≤ g,   lo ≤ x ≤ hi
/// ```
///
/// | given by | shapes |
/// | --- | --- |
/// | [`new`](Self::new) | Q `[d, d]`, q `[d]` |
/// | [`l1`](Self::l1), [`l2`](Self::l2), [`tether`](Self::tether) | weights `[d]`; a number; β and h `[d]` |
/// | [`bounds`](Self::bounds) | lo `[d]`, hi `[d]`, infinite where there is none |
/// | [`equal`](Self::equal), [`at_most`](Self::at_most) | A `[m, d]`, b `[m]`; G `[k, d]`, g `[k]` |
///
/// ```
/// use sheaf_admm::x_update::{Proximal, Quadratic};
///
/// // ½‖x‖² − x₀ − 7x₁ with x₀ + x₁ = 1 and x ≥ 0.
/// let f = Quadratic::new([[1.0, 0.0], [0.0, 1.0]], [-1.0, -7.0])
///     .equal([[1.0, 1.0]], [1.0])
///     .bounds([0.0, 0.0], [f64::INFINITY; 2]);
/// f.validate()?;
/// let (mut x, mut scratch) = ([0.0; 2], vec![0.0; f.scratch_len()]);
/// f.prepare(1.0, &mut scratch)?;
/// f.prox(1.0, &[0.0, 0.0], &mut x, &mut scratch)?;
/// assert!(x[0] == 0.0 && (x[1] - 1.0).abs() < 1e-12);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Quadratic {
    pub(crate) quad: Matrix, // [d, d]
    pub(crate) q: Vec<f64>,  // [d]
    pub(crate) l1: Vec<f64>, // [d] or []
    pub(crate) l2: f64,
    pub(crate) tether: Option<(f64, Vec<f64>)>, // β, h [d]
    pub(crate) lo: Vec<f64>,                    // [d] or []
    pub(crate) hi: Vec<f64>,                    // [d] or []
    pub(crate) equal: (Matrix, Vec<f64>),       // A [m, d], b [m]
    pub(crate) at_most: (Matrix, Vec<f64>),     // G [k, d], g [k]
    envelope: Option<Arc<Envelope>>,
    /// Names the matrices: a factor in scratch belongs to this stamp and a penalty.
    stamp: u64,
    /// Length of the scratch. Solves ask every agent for it in every iteration.
    room: usize,
}

static STAMPS: AtomicU64 = AtomicU64::new(1);

/// Sparse quadratics up to this size are factorised densely.
const SMALL: usize = 32;

impl Quadratic {
    /// ½ xᵀQx + qᵀx. Q is symmetric and positive semidefinite: [`Matrix::diagonal`], dense or sparse.
    pub fn new(quad: impl Into<Matrix>, q: impl Into<Vec<f64>>) -> Self {
        let (quad, q) = (quad.into(), q.into());
        let d = q.len();
        let none = || (Matrix::dense(0, d, []), Vec::new());
        let envelope = envelope(&quad);
        Self {
            quad,
            q,
            l1: Vec::new(),
            l2: 0.0,
            tether: None,
            lo: Vec::new(),
            hi: Vec::new(),
            equal: none(),
            at_most: none(),
            envelope,
            stamp: 0,
            room: 0,
        }
        .renewed()
    }

    /// qᵀx alone.
    pub fn linear(q: impl Into<Vec<f64>>) -> Self {
        let q = q.into();
        Self::new(Matrix::zero(q.len()), q)
    }

    /// 0: for constraints alone, or to add terms to.
    pub fn zero(dim: usize) -> Self {
        Self::linear(vec![0.0; dim])
    }

    /// Adds Σ w_j |x_j|; replaces an earlier one. One weight per coordinate.
    pub fn l1(mut self, weights: impl Into<Vec<f64>>) -> Self {
        self.l1 = weights.into();
        self.renewed()
    }

    /// Adds l2/2 ‖x‖²; replaces an earlier one.
    pub fn l2(mut self, weight: f64) -> Self {
        self.l2 = weight;
        self.renewed()
    }

    /// Adds β/2 ‖x − h‖²; replaces an earlier one.
    pub fn tether(mut self, beta: f64, anchor: impl Into<Vec<f64>>) -> Self {
        self.tether = Some((beta, anchor.into()));
        self.renewed()
    }

    /// Requires lo ≤ x ≤ hi; infinite where there is no bound. Replaces earlier bounds.
    pub fn bounds(mut self, lo: impl Into<Vec<f64>>, hi: impl Into<Vec<f64>>) -> Self {
        (self.lo, self.hi) = (lo.into(), hi.into());
        self.renewed()
    }

    /// Requires A x = b. Replaces earlier equalities.
    pub fn equal(mut self, a: impl Into<Matrix>, b: impl Into<Vec<f64>>) -> Self {
        self.equal = (a.into(), b.into());
        self.renewed()
    }

    /// Requires G x ≤ g. Replaces earlier inequalities.
    pub fn at_most(mut self, matrix: impl Into<Matrix>, limit: impl Into<Vec<f64>>) -> Self {
        self.at_most = (matrix.into(), limit.into());
        self.renewed()
    }

    fn renewed(mut self) -> Self {
        self.stamp = STAMPS.fetch_add(1, Ordering::Relaxed);
        self.room = self.work_len();
        self
    }

    /// What is added to the diagonal of Q besides ρ.
    fn lift(&self) -> f64 {
        self.l2 + self.tether.as_ref().map_or(0.0, |t| t.0)
    }

    fn is_diagonal(&self) -> bool {
        matches!(self.quad.kind(), Kind::Diagonal(_))
    }

    /// Whether every coordinate can be solved alone.
    pub(crate) fn separable(&self) -> bool {
        self.is_diagonal() && self.equal.1.is_empty() && self.at_most.1.is_empty()
    }

    /// Whether there are neither constraints nor |x_j|.
    pub(crate) fn is_smooth(&self) -> bool {
        let none = |v: &Vec<f64>| v.is_empty();
        none(&self.lo) && none(&self.hi) && none(&self.l1) && none(&self.equal.1) && none(&self.at_most.1)
    }

    /// The diagonal of Q + l2 + β.
    pub(crate) fn diagonal(&self) -> Vec<f64> {
        let mut diagonal = vec![self.lift(); self.q.len()];
        self.quad.each(|i, j, v| diagonal[i] += if i == j { v } else { 0.0 });
        diagonal
    }

    fn lo(&self, j: usize) -> f64 {
        self.lo.get(j).copied().unwrap_or(f64::NEG_INFINITY)
    }

    fn hi(&self, j: usize) -> f64 {
        self.hi.get(j).copied().unwrap_or(f64::INFINITY)
    }

    /// Replaces q; nothing is factorised again.
    pub(crate) fn set_q(&mut self, q: &[f64]) -> Result<()> {
        check_len("q", self.q.len(), q.len())?;
        check_finite("q", q)?;
        self.q.copy_from_slice(q);
        Ok(())
    }

    /// Replaces the right sides of the equalities.
    pub(crate) fn set_equal(&mut self, b: &[f64]) -> Result<()> {
        check_len("right side of equalities", self.equal.1.len(), b.len())?;
        check_finite("right side of equalities", b)?;
        self.equal.1.copy_from_slice(b);
        Ok(())
    }

    /// Replaces the right sides of the inequalities.
    pub(crate) fn set_at_most(&mut self, limit: &[f64]) -> Result<()> {
        check_len("limits of inequalities", self.at_most.1.len(), limit.len())?;
        check_finite("limits of inequalities", limit)?;
        self.at_most.1.copy_from_slice(limit);
        Ok(())
    }

    /// Replaces the bounds. A bound must stay finite where it was, and infinite where it was.
    pub(crate) fn set_bounds(&mut self, lo: &[f64], hi: &[f64]) -> Result<()> {
        check_len("lower bounds", self.lo.len(), lo.len())?;
        check_len("upper bounds", self.hi.len(), hi.len())?;
        for (name, old, new) in [("lower", &self.lo, lo), ("upper", &self.hi, hi)] {
            if let Some(j) = (0..new.len()).find(|&j| new[j].is_finite() != old[j].is_finite()) {
                let place = format!("{name} bound of coordinate {j}");
                let expected =
                    if old[j].is_finite() { "a finite number, as before" } else { "infinity, as before" };
                return Err(Error::new(ErrorKind::Unsupported, place, expected, new[j])
                    .hint("give a wide finite bound from the start where a bound may come later"));
            }
        }
        check_order(lo, hi)?;
        self.lo.copy_from_slice(lo);
        self.hi.copy_from_slice(hi);
        Ok(())
    }
}

/// lo ≤ hi, neither NaN nor infinite on the wrong side.
fn check_order(lo: &[f64], hi: &[f64]) -> Result<()> {
    for (j, (&lo, &hi)) in lo.iter().zip(hi).enumerate() {
        // Texts are made for mistakes alone: updates of bounds allocate nothing.
        let place = || format!("bounds of coordinate {j}");
        let got = || format!("[{lo}, {hi}]");
        if lo.is_nan() || hi.is_nan() || lo == f64::INFINITY || hi == f64::NEG_INFINITY {
            let expected = "numbers, lo below +inf, hi above -inf";
            return Err(Error::new(ErrorKind::NotFinite, place(), expected, got()));
        }
        if lo > hi {
            return Err(Error::new(ErrorKind::Infeasible, place(), "lo ≤ hi", got()));
        }
    }
    Ok(())
}

/// The envelope of a sparse Q with more than [`SMALL`] coordinates.
fn envelope(quad: &Matrix) -> Option<Arc<Envelope>> {
    let (Kind::Sparse(entries), n) = (quad.kind(), quad.rows()) else { return None };
    let inside = entries.iter().all(|&(row, col, _)| row < n && col < n);
    if n <= SMALL || quad.cols() != n || !inside {
        return None;
    }
    let mut neighbours = vec![Vec::new(); n];
    for &(row, col, _) in entries {
        neighbours[row].push(col);
        neighbours[col].push(row);
    }
    Some(Arc::new(Envelope::new(&neighbours)))
}
