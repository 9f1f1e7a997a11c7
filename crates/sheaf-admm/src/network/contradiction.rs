//! Whether hard edges contradict each other: F z = b has no solution, whatever the agents want.
//!
//! The part μ of b that no F z reaches is the proof: Fᵀμ = 0 while μᵀb = ‖μ‖² > 0. It is found by conjugate gradients on
//! the normal equations (CGLS) and then checked, so that the claim does not depend on how it was found.

use crate::Result;
use crate::clock;
use crate::sheaf::SheafOp;
use sheaf_kernels::vector::{axpy, dot, xpby};

/// The rest must be this large relative to b, and orthogonal to the range of F to this accuracy.
const CLEAR: f64 = 1e-6;
const ORTHOGONAL: f64 = 1e-9;

/// Whether `offsets` lie outside the range of F beyond rounding.
pub(super) fn contradict(op: &SheafOp<'_, f64>, offsets: &[f64]) -> Result<bool> {
    let size = dot(offsets, offsets).sqrt();
    if size == 0.0 || !size.is_finite() {
        return Ok(false);
    }
    let mut rows = vec![0.0; op.sheaf().row_len()];
    let (mut rest, mut q) = (offsets.to_vec(), vec![0.0; offsets.len()]);
    let mut s = vec![0.0; op.sheaf().state_len()];
    // The linear part alone: the operator without offsets.
    op.coboundary_t(&rest, &mut s, &mut rows)?;
    let mut p = s.clone();
    let mut c = dot(&s, &s);
    let first = c;
    for _ in 0..2 * s.len() + 10 {
        if c <= first * 1e-28 || clock::late() {
            break;
        }
        op.coboundary(&p, &mut q, &mut rows)?;
        let length = dot(&q, &q);
        if !(length > 0.0 && length.is_finite()) {
            break;
        }
        axpy(&mut rest, -c / length, &q);
        op.coboundary_t(&rest, &mut s, &mut rows)?;
        let next = dot(&s, &s);
        xpby(&mut p, &s, next / c);
        c = next;
    }
    let left = dot(&rest, &rest).sqrt();
    Ok(left > CLEAR * size && c.sqrt() <= ORTHOGONAL * first.sqrt().max(left))
}
