//! The closed form for shared maps with orthonormal rows whose slots meet in cliques.
//!
//! With C = G Gᵀ = I, L = Gᵀ M G is a sum of projections, c times one for a clique of c slots, and both problems are
//! solved exactly:
//!
//! ```text
//! y = G w      ξ = −β M y      z = w + Gᵀξ      β = γ/(ρ + c γ), hard: 1/c
//! ```
//!
//! Adjoint, f = G d_z the gradient of ξ, sums over the slots of cliques of one size:
//!
//! ```text
//! d_y = −β M f      d_β = Σ f·ξ/β      dβ/dρ = −β²/γ      dβ/dγ = ρβ²/γ²
//! ```
//!
//! It is the adjoint of this formula: away from orthonormal maps the formula is not the solution, so only the part of
//! the gradient along orthonormal maps is that of the solution. Saves: ξ.

use super::EdgeSupport;
use super::work::{cut, room, sums_len};
use super::{Space, one_penalty, rows_len};
use crate::error::check_positive;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{MapsGrad, SheafOp};
use crate::x_update::Penalty;
use crate::z_update::{Agreement, ConsensusGrad, InnerTotals};
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::cliques::exchange_cliques_by;
use sheaf_kernels::vector::{add, dot};

const PLACE: &str = "orthonormal consensus";

/// The closed form for orthonormal shared maps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Orthonormal<T> {
    /// Hard or soft.
    pub agreement: Agreement<T>,
}

/// Named scratch.
struct Work<'s, T> {
    y: &'s mut [T],      // [n]
    d_y: &'s mut [T],    // [n]
    xi: &'s mut [T],     // [n]
    sums: &'s mut [T],   // [cliques, d_e]
    scales: &'s mut [T], // [cliques]
}

impl<T: Real> Orthonormal<T> {
    /// Checks the options, that the maps are shared without updates and orthonormal, and that slots meet in cliques.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        if let Agreement::Soft { gamma } = self.agreement {
            check_positive("gamma", gamma.to_f64())?;
        }
        EdgeSupport::NONE.check(PLACE, self.agreement, op, "solve with ZUpdate::Cg")?;
        let maps = Space::of(PLACE, op)?.maps;
        if maps.updates().is_some() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                PLACE,
                "maps without updates",
                "low-rank updates",
            )
            .hint("solve with ZUpdate::Gram"));
        }
        if !maps.stack().is_orthonormal() {
            let got = format!("G Gᵀ that is {:e} off", maps.stack().orthonormality_gap());
            return Err(Error::new(ErrorKind::Unsupported, PLACE, "maps with orthonormal rows", got)
                .hint("solve with ZUpdate::Gram, or keep the maps orthonormal"));
        }
        Ok(())
    }

    pub(in crate::z_update) fn kept_len(&self, op: &SheafOp<'_, T>) -> usize {
        rows_len(op)
    }

    pub(in crate::z_update) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        3 * room(rows_len(op)) + 2 * room(sums_len(op))
    }

    fn carve<'s>(op: &SheafOp<'_, T>, scratch: &'s mut [T]) -> Work<'s, T> {
        let (n, mut from) = (rows_len(op), Scratch::new(scratch));
        let [y, d_y, xi] = [(); 3].map(|()| cut(&mut from, n));
        let sums = cut(&mut from, sums_len(op));
        let cliques = op.sheaf().cliques().map_or(0, |cliques| cliques.groups().sizes.len());
        Work { y, d_y, xi, sums, scales: cut(&mut from, cliques) }
    }

    /// −β of every clique.
    fn scales(&self, rho: T, sizes: &[u32], scales: &mut [T]) {
        for (scale, &size) in scales.iter_mut().zip(sizes) {
            let size = T::from_f64(f64::from(size));
            *scale = match self.agreement {
                Agreement::Hard => -T::ONE / size,
                Agreement::Soft { gamma } => -gamma / (rho + size * gamma),
            };
        }
    }

    pub(in crate::z_update) fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z: &mut [T],
        kept: &mut [T], // kept_len(op), or empty
        scratch: &mut [T],
    ) -> Result<InnerTotals> {
        let (space, rho) = (Space::of(PLACE, op)?, one_penalty(PLACE, rho)?);
        let mut work = Self::carve(op, scratch);
        let totals = InnerTotals { solves: op.samples(), ..InnerTotals::default() };
        if space.sample == 0 {
            z.copy_from_slice(w);
            return Ok(totals);
        }
        if kept.is_empty() {
            self.xi(&space, rho, w, None, &mut work);
            space.maps.lift(work.xi, space.m, z, false);
        } else {
            self.xi(&space, rho, w, Some(kept), &mut work);
            space.maps.lift(kept, space.m, z, false);
        }
        add(z, w);
        Ok(totals)
    }

    /// ξ, to `kept` or to the scratch.
    fn xi(&self, space: &Space<'_, T>, rho: T, w: &[T], kept: Option<&mut [T]>, work: &mut Work<'_, T>) {
        space.maps.project(w, work.y, space.m);
        self.scales(rho, space.groups.sizes, work.scales);
        let xi = kept.unwrap_or(work.xi);
        for (y, xi) in work.y.chunks_exact(space.sample).zip(xi.chunks_exact_mut(space.sample)) {
            exchange_cliques_by(space.groups, space.width, work.scales, y, xi, work.sums);
        }
    }

    pub(in crate::z_update) fn vjp(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        kept: &[T], // kept_len(op), or empty
        d_z: &[T],
        d_w: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let (space, rho) = (Space::of(PLACE, op)?, one_penalty(PLACE, rho)?);
        let mut work = Self::carve(op, scratch);
        add(d_w, d_z);
        if space.sample == 0 {
            return Ok(());
        }
        if kept.is_empty() {
            self.xi(&space, rho, w, None, &mut work);
        }
        let Work { y: f, d_y, xi, sums, scales } = work;
        let xi = if kept.is_empty() { &*xi } else { kept };
        space.maps.project(d_z, f, space.m);
        self.scales(rho, space.groups.sizes, scales);
        if let Agreement::Soft { gamma } = self.agreement {
            // What multiplies the derivative of β is ξ/β, and both derivatives have the factor β².
            let sum: T = if scales.iter().all(|&scale| scale == scales[0]) {
                dot(f, xi) * -scales[0]
            } else {
                let slots = f.chunks_exact(space.width).zip(xi.chunks_exact(space.width));
                let groups = space.groups.of.iter().cycle();
                slots.zip(groups).map(|((f, xi), &group)| dot(f, xi) * -scales[group as usize]).sum()
            };
            grad.rho[0] -= sum / gamma;
            *grad.gamma += sum * rho / (gamma * gamma);
        }
        for (f, d_y) in f.chunks_exact(space.sample).zip(d_y.chunks_exact_mut(space.sample)) {
            exchange_cliques_by(space.groups, space.width, scales, f, d_y, sums);
        }
        if let MapsGrad::Shared(grad) = &mut *grad.maps {
            grad.add_pair(&space.maps, T::ONE, xi, space.m, d_z);
            grad.add_pair(&space.maps, T::ONE, d_y, space.m, w);
        }
        space.maps.lift(d_y, space.m, d_w, true);
        Ok(())
    }
}
