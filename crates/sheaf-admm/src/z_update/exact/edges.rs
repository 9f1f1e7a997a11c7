//! Hard systems whose factor would fill in: conjugate gradients on the multipliers of the edges.
//!
//! ```text
//! F S Fᵀ x = F w − b        z = w − S Fᵀ x        S = R̂⁻¹
//! ```
//!
//! The preconditioner is the diagonal. `forward` starts at the multipliers of the previous iteration, which ADMM carries on, and
//! reduces the residual F z − b of that start by [`REDUCE`]: the error of the step falls with the residuals of the solve, which
//! are those of the problem and are checked as such. The first iteration has no multipliers, and solves by [`COLD`], so that an
//! ADMM solve that starts at its solution stays there. The adjoint solves to rounding level.
//!
//! Rows of F that depend on each other make x not unique, and F w − b lies in the range of the matrix unless the offsets contradict
//! each other: then the residual stops falling, and the solve ends without having converged.

use super::stacks::{End, Stacks, ends};
use crate::clock;
use crate::linalg::norms::largest;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{Sheaf, SheafOp};
use crate::z_update::InnerReport;
use crate::z_update::weights::Weights;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::vector::{axpy, dot, norm};

/// By how much a warm-started solve reduces its residual. Acceleration combines iterations as if the consensus step were affine:
/// it is, up to this.
pub(super) const REDUCE: f64 = 1e-4;
/// The same without multipliers to start from.
const COLD: f64 = 1e-11;
/// The most steps of a consensus step, and of the solves of an adjoint.
pub(super) const STEPS: usize = 1000;
const MANY: usize = 20_000;
/// Steps within which the residual must halve.
const PATIENCE: usize = 100;
/// Restarts of a solve to rounding level.
const PASSES: usize = 4;

/// Where the maps of all edges are.
#[derive(Debug)]
pub(super) struct EdgeSolve {
    ends: Vec<[End; 2]>,
}

struct Work<'s, T> {
    rows: &'s mut [T], // [rows]
    t: &'s mut [T],    // [states]
    r: &'s mut [T],    // [edges]
    p: &'s mut [T],    // [edges]
    k: &'s mut [T],    // [edges]
}

/// By how much a solve from these multipliers reduces its residual.
pub(super) fn reduction<T: Real>(x: &[T]) -> f64 {
    if x.iter().all(|x| *x == T::ZERO) { COLD } else { REDUCE }
}

impl EdgeSolve {
    pub(super) fn new(sheaf: &Sheaf) -> Self {
        Self { ends: ends(sheaf) }
    }

    /// Length of the scratch of a solve.
    pub(super) fn scratch_len(sheaf: &Sheaf) -> usize {
        sheaf.row_len() + sheaf.state_len() + 3 * sheaf.edge_len()
    }

    /// Writes 1/diagonal of F S Fᵀ; 0 for rows of zeros.
    pub(super) fn prepare<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        stacks: &Stacks<'_, T>,
        weights: &Weights<'_, T>,
        inverse: &mut [T], // [edges]
    ) {
        for (pair, edge) in self.ends.iter().zip(op.sheaf().edges()) {
            let dim = edge.dim as usize;
            let own = &mut inverse[edge.start as usize..edge.start as usize + dim];
            own.fill(T::ZERO);
            for &end in pair {
                let s = weights.of(end.agent as usize);
                for j in 0..stacks.stalk(end) {
                    let column = stacks.column(end, j, dim);
                    own.iter_mut().zip(column).for_each(|(d, &f)| *d += s * f * f);
                }
            }
            own.iter_mut().for_each(|d| *d = if *d > T::ZERO { T::ONE / *d } else { T::ZERO });
        }
    }

    /// One consensus step from the multipliers in `x`, with the residual reduced by `reduce`, in at most `most` steps.
    pub(super) fn step<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        weights: &Weights<'_, T>,
        inverse: &[T],
        w: &[T],
        reduce: f64,
        most: usize,
        z: &mut [T],
        x: &mut [T],
        scratch: &mut [T],
    ) -> InnerReport {
        let mut work = carve(op.sheaf(), scratch);
        let floor = floor(op, inverse, w, true);
        let start = residual(op, weights, w, true, z, x, &mut work);
        let goal = (T::from_f64(reduce) * start).max(floor);
        let report = steps(op, weights, inverse, goal, most, x, &mut work);
        point(op, weights, w, z, x, &mut work);
        report
    }

    /// The solution to rounding level, from x = 0.
    pub(super) fn solve<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        weights: &Weights<'_, T>,
        inverse: &[T],
        w: &[T],
        affine: bool,
        z: &mut [T],
        x: &mut [T],
        scratch: &mut [T],
    ) -> Result<()> {
        let mut work = carve(op.sheaf(), scratch);
        let floor = floor(op, inverse, w, affine);
        x.fill(T::ZERO);
        let (mut first, mut last) = (T::ZERO, T::INFINITY);
        for pass in 0..PASSES {
            let size = residual(op, weights, w, affine, z, x, &mut work);
            if pass == 0 {
                first = size;
            }
            // Refinement ends at rounding level, or when it no longer helps.
            if size <= floor || size + size >= last || !size.is_finite() {
                last = last.min(size);
                break;
            }
            last = size;
            steps(op, weights, inverse, floor, MANY, x, &mut work);
        }
        last = last.min(residual(op, weights, w, affine, z, x, &mut work));
        let accepted = floor.max(T::EPSILON.sqrt() * first);
        if last <= accepted || first == T::ZERO {
            return Ok(());
        }
        let place = "gradient of a hard consensus step";
        let expected = format!("a residual of {:.1e}", accepted.to_f64());
        Err(Error::new(ErrorKind::SolverFailed, place, expected, format_args!("{:.1e}", last.to_f64()))
            .hint("the edges contradict each other or nearly do; solve with Exact::for_maps"))
    }
}

fn carve<'s, T: Real>(sheaf: &Sheaf, scratch: &'s mut [T]) -> Work<'s, T> {
    let mut scratch = Scratch::new(scratch);
    let (rows, t) = (scratch.take(sheaf.row_len()), scratch.take(sheaf.state_len()));
    let e = sheaf.edge_len();
    Work { rows, t, r: scratch.take(e), p: scratch.take(e), k: scratch.take(e) }
}

/// The rounding error of F z − b.
fn floor<T: Real>(op: &SheafOp<'_, T>, inverse: &[T], w: &[T], affine: bool) -> T {
    let b = if affine { op.raw().offsets().map_or(T::ZERO, largest) } else { T::ZERO };
    let thinnest = inverse.iter().fold(T::INFINITY, |m, &d| if d > T::ZERO { m.min(d) } else { m });
    let row = if thinnest < T::INFINITY { T::ONE / thinnest.sqrt() } else { T::ZERO };
    let count = T::from_f64(inverse.len() as f64).sqrt();
    T::EPSILON * T::from_f64(8.0) * (row * largest(w) + b) * count
}

/// z = w − S Fᵀ x.
fn point<T: Real>(
    op: &SheafOp<'_, T>,
    weights: &Weights<'_, T>,
    w: &[T],
    z: &mut [T],
    x: &[T],
    work: &mut Work<'_, T>,
) {
    op.raw().coboundary_t(x, work.t, work.rows);
    weights.scale(op.sheaf(), work.t);
    z.copy_from_slice(w);
    axpy(z, -T::ONE, work.t);
}

/// z of x, and F z − b in `work.r`; returns its norm.
fn residual<T: Real>(
    op: &SheafOp<'_, T>,
    weights: &Weights<'_, T>,
    w: &[T],
    affine: bool,
    z: &mut [T],
    x: &[T],
    work: &mut Work<'_, T>,
) -> T {
    point(op, weights, w, z, x, work);
    op.raw().coboundary(z, work.r, work.rows);
    if affine {
        op.raw().subtract_offsets(work.r);
    }
    norm(work.r)
}

/// Steps from x, `work.r` holding its residual.
fn steps<T: Real>(
    op: &SheafOp<'_, T>,
    weights: &Weights<'_, T>,
    inverse: &[T],
    goal: T,
    most: usize,
    x: &mut [T],
    work: &mut Work<'_, T>,
) -> InnerReport {
    let Work { rows, t, r, p, k } = work;
    let mut report = InnerReport { steps: 0, converged: true };
    let mut size = norm(r);
    let (mut best, mut at) = (size, 0);
    p.iter_mut().zip(r.iter().zip(inverse)).for_each(|(p, (&r, &d))| *p = d * r);
    let mut c = dot(r, p);
    // NaN enters the loop, and ends it as not converged.
    while size.partial_cmp(&goal).is_none_or(|order| order.is_gt()) {
        op.raw().coboundary_t(p, t, rows);
        weights.scale(op.sheaf(), t);
        op.raw().coboundary(t, k, rows);
        let length = dot(p, k);
        let stuck = report.steps >= at + PATIENCE;
        if !(length > T::ZERO && length.is_finite()) || report.steps >= most || stuck || clock::late() {
            report.converged = false;
            break;
        }
        report.steps += 1;
        let a = c / length;
        axpy(x, a, p);
        axpy(r, -a, k);
        size = norm(r);
        if size + size < best {
            (best, at) = (size, report.steps);
        }
        k.iter_mut().zip(r.iter().zip(inverse)).for_each(|(k, (&r, &d))| *k = d * r);
        let next = dot(r, k);
        let b = next / c;
        p.iter_mut().zip(k.iter()).for_each(|(p, &k)| *p = k + b * *p);
        c = next;
    }
    report
}
