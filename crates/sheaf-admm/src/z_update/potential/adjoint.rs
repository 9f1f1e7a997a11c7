//! The gradient of the solution of a consensus step with any potential.
//!
//! At the solution γ FᵀΩ U'(r) + ρ(z − w) = 0, r = F z − b. With C = diag U''(r) and A = γ FᵀΩCF + ρ:
//!
//! ```text
//! A μ = z̄;   w̄ += ρ μ;   ρ̄ += μ·(w − z);   γ̄ −= F μ·ΩU'(r);   ω̄_e −= γ (F μ)_e·U'(r_e);   b̄ += γ ΩC F μ
//! dF −= γ (DᵀΩU'(r) μᵀ + DᵀΩC F μ zᵀ)
//! ```

use super::EdgePotential;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{Sheaf, SheafOp};
use crate::x_update::Penalty;
use crate::z_update::ConsensusGrad;
use crate::z_update::solution::{Accuracy, check_solved};
use crate::{Real, Result};
use sheaf_kernels::vector::{axpy, dot, xpby};

/// Length of the scratch of [`potential_vjp`].
pub(crate) fn potential_scratch_len(sheaf: &Sheaf) -> usize {
    3 * sheaf.row_len() + 5 * sheaf.state_len() + 3 * sheaf.edge_len()
}

/// Adds the gradients of the solution `z` of a consensus step with target `w`.
pub(crate) fn potential_vjp<T: Real>(
    op: &SheafOp<'_, T>,
    rho: &Penalty<'_, T>,
    (gamma, potential): (T, EdgePotential<T>),
    accuracy: Accuracy<T>,
    w: &[T],   // [states]
    z: &[T],   // [states]
    d_z: &[T], // [states]
    d_w: &mut [T],
    grad: &mut ConsensusGrad<'_, '_, T>,
    scratch: &mut [T],
) -> Result<()> {
    let sheaf = op.sheaf();
    let (n, m, e) = (sheaf.state_len(), sheaf.row_len(), sheaf.edge_len());
    let mut scratch = Scratch::new(scratch);
    let (rows, y, states) = (scratch.take(2 * m), scratch.take(m), scratch.take(2 * n));
    let (r, p, k) = (scratch.take(n), scratch.take(n), scratch.take(n));
    let (pull, curve, along) = (scratch.take(e), scratch.take(e), scratch.take(e));
    let (mu, at) = states.split_at_mut(n);
    at.copy_from_slice(z);
    op.raw().residual(z, pull, y);
    curve.iter_mut().zip(pull.iter()).for_each(|(c, &r)| *c = potential.curvature(r));
    pull.iter_mut().for_each(|r| *r = potential.slope(*r));

    // A μ = z̄ by conjugate gradients.
    mu.fill(T::ZERO);
    r.copy_from_slice(d_z);
    p.copy_from_slice(r);
    let mut c = dot(r, r);
    let reference = c.sqrt();
    let goal = accuracy.relative * reference;
    for _ in 0..accuracy.max_steps.saturating_mul(2).saturating_add(100) {
        if c <= goal * goal {
            break;
        }
        op.raw().coboundary(p, along, y);
        along.iter_mut().zip(curve.iter()).for_each(|(a, &c)| *a *= c);
        op.raw().weigh(along);
        op.raw().coboundary_t(along, k, y);
        for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
            for j in range[0]..range[1] {
                k[j] = gamma * k[j] + rho.of(i) * p[j];
            }
        }
        let a = c / dot(p, k);
        axpy(mu, a, p);
        axpy(r, -a, k);
        let next = dot(r, r);
        xpby(p, r, next / c);
        c = next;
    }
    check_solved(accuracy, if reference > T::ZERO { c.sqrt() / reference } else { T::ZERO })?;

    for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
        let mut d_rho = T::ZERO;
        for j in range[0]..range[1] {
            d_w[j] += rho.of(i) * mu[j];
            d_rho += mu[j] * (w[j] - z[j]);
        }
        grad.rho[rho.grad_index(i)] += d_rho;
    }
    op.raw().coboundary(mu, along, y);
    let weights = op.raw().weights();
    for (i, edge) in sheaf.edges().iter().enumerate() {
        let own = edge.start as usize..(edge.start + edge.dim) as usize;
        let one = dot(&along[own.clone()], &pull[own]);
        *grad.gamma -= one * weights.map_or(T::ONE, |weights| weights[i]);
        if let Some(d) = grad.edge_weights.get_mut(i) {
            *d -= gamma * one;
        }
    }
    op.raw().weigh(pull);
    along.iter_mut().zip(curve.iter()).for_each(|(a, &c)| *a *= c);
    op.raw().weigh(along);
    if !grad.offsets.is_empty() {
        axpy(grad.offsets, gamma, along);
    }
    let (row_pull, row_along) = rows.split_at_mut(m);
    op.raw().spread(pull, row_pull);
    op.raw().spread(along, row_along);
    grad.maps.outers(sheaf, op.maps(), -gamma, 2, rows, states);
    Ok(())
}
