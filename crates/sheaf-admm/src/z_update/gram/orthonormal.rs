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
//!
//! **Scaled maps.** If row k of every slot has the length s_k and rows are orthogonal, C = G Gᵀ has t_k = s_k² on its
//! diagonal, the same in every slot, and M C = C M. Then the same formula holds with one β for each dimension of an edge,
//! in G w a factor cγt/(ρ + cγt) of the disagreement:
//!
//! ```text
//! ξ = −β_k M y      β_k = γ/(ρ + c γ t_k), hard: 1/(c t_k)      dβ/dt = −c β²      d_C += d_t on the diagonal
//! ```
//!
//! t is read from C, so its gradient goes to the maps by way of C.

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
    /// Whether rows may have other lengths than 1, one for each dimension of an edge and the same in every slot.
    pub scaled: bool,
}

/// Named scratch.
struct Work<'s, T> {
    y: &'s mut [T],         // [n]
    d_y: &'s mut [T],       // [n]
    xi: &'s mut [T],        // [n]
    sums: &'s mut [T],      // [cliques, d_e]
    scales: &'s mut [T],    // [cliques]; [cliques, d_e] if rows are scaled
    squares: &'s mut [T],   // [d_e], t
    d_squares: &'s mut [T], // [d_e]
}

impl<T: Real> Orthonormal<T> {
    /// For rows of length 1.
    pub fn new(agreement: Agreement<T>) -> Self {
        Self { agreement, scaled: false }
    }

    /// For rows whose lengths are the same in every slot.
    pub fn scaled(agreement: Agreement<T>) -> Self {
        Self { agreement, scaled: true }
    }

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
        if self.scaled {
            let stack = maps.stack();
            let gap = stack.orthogonality_gap(op.sheaf().as_uniform().map_or(1, |u| u.d_e));
            // NaN is refused.
            if !(gap <= stack.rounding()) {
                let want = "maps with orthogonal rows, equally long in every slot and not 0";
                let got = format!("G Gᵀ that is {gap:e} of its largest number off");
                return Err(Error::new(ErrorKind::Unsupported, PLACE, want, got)
                    .hint("solve with ZUpdate::Gram, or keep the maps orthogonal"));
            }
            return Ok(());
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
        let width = op.sheaf().as_uniform().map_or(0, |u| u.d_e);
        3 * room(rows_len(op)) + 2 * room(sums_len(op)) + 2 * room(width)
    }

    fn carve<'s>(&self, op: &SheafOp<'_, T>, scratch: &'s mut [T]) -> Work<'s, T> {
        let (n, mut from) = (rows_len(op), Scratch::new(scratch));
        let [y, d_y, xi] = [(); 3].map(|()| cut(&mut from, n));
        let sums = cut(&mut from, sums_len(op));
        let cliques = op.sheaf().cliques().map_or(0, |cliques| cliques.groups().sizes.len());
        let width = op.sheaf().as_uniform().map_or(0, |u| u.d_e);
        let scales = cut(&mut from, if self.scaled { sums_len(op) } else { cliques });
        let [squares, d_squares] = [(); 2].map(|()| cut(&mut from, width));
        Work { y, d_y, xi, sums, scales, squares, d_squares }
    }

    /// β of every clique and dimension.
    fn rates(&self, rho: T, sizes: &[u32], squares: &[T], rates: &mut [T]) {
        for (rates, &size) in rates.chunks_exact_mut(squares.len().max(1)).zip(sizes) {
            let size = T::from_f64(f64::from(size));
            for (rate, &t) in rates.iter_mut().zip(squares) {
                *rate = match self.agreement {
                    Agreement::Hard => T::ONE / (size * t),
                    Agreement::Soft { gamma } => gamma / (rho + size * gamma * t),
                };
            }
        }
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
        let mut work = self.carve(op, scratch);
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
        let xi = kept.unwrap_or(work.xi);
        if self.scaled {
            squares_of(space, work.squares);
            self.rates(rho, space.groups.sizes, work.squares, work.scales);
            return exchange_scaled(space, work.scales, work.y, xi, work.sums);
        }
        self.scales(rho, space.groups.sizes, work.scales);
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
        let mut work = self.carve(op, scratch);
        add(d_w, d_z);
        if space.sample == 0 {
            return Ok(());
        }
        if kept.is_empty() {
            self.xi(&space, rho, w, None, &mut work);
        }
        let Work { y: f, d_y, xi, sums, scales, squares, d_squares } = work;
        let xi = if kept.is_empty() { &*xi } else { kept };
        space.maps.project(d_z, f, space.m);
        if self.scaled {
            squares_of(&space, squares);
            self.rates(rho, space.groups.sizes, squares, scales);
            let sum = self.rates_vjp(&space, scales, f, xi, d_squares);
            if let Agreement::Soft { gamma } = self.agreement {
                grad.rho[0] -= sum / gamma;
                *grad.gamma += sum * rho / (gamma * gamma);
            }
            exchange_scaled(&space, scales, f, d_y, sums);
            if let MapsGrad::Shared(grad) = &mut *grad.maps {
                grad.stack.add_squares(space.maps.stack(), d_squares);
                grad.add_pair(&space.maps, T::ONE, xi, space.m, d_z);
                grad.add_pair(&space.maps, T::ONE, d_y, space.m, w);
            }
            space.maps.lift(d_y, space.m, d_w, true);
            return Ok(());
        }
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

    /// Σ β² d_β, which multiplies the derivatives of β by ρ and γ, and, overwriting, the gradient of t.
    fn rates_vjp(&self, space: &Space<'_, T>, rates: &[T], f: &[T], xi: &[T], d_squares: &mut [T]) -> T {
        let width = space.width;
        d_squares.fill(T::ZERO);
        let mut sum = T::ZERO;
        let slots = f.chunks_exact(width).zip(xi.chunks_exact(width));
        for ((f, xi), &group) in slots.zip(space.groups.of.iter().cycle()) {
            let size = T::from_f64(f64::from(space.groups.sizes[group as usize]));
            let rates = &rates[group as usize * width..][..width];
            for (k, d) in d_squares.iter_mut().enumerate() {
                // d_β is f·ξ/β.
                let part = f[k] * xi[k] * rates[k];
                sum += part;
                *d -= size * part;
            }
        }
        sum
    }
}

/// out = −β M y, with β of every clique and dimension.
fn exchange_scaled<T: Real>(space: &Space<'_, T>, rates: &[T], y: &[T], out: &mut [T], sums: &mut [T]) {
    space.exchange(-T::ONE, y, out, sums);
    for (row, &group) in out.chunks_exact_mut(space.width).zip(space.groups.of.iter().cycle()) {
        let rates = &rates[group as usize * space.width..][..space.width];
        row.iter_mut().zip(rates).for_each(|(v, &rate)| *v *= rate);
    }
}

/// t of every dimension.
fn squares_of<T: Real>(space: &Space<'_, T>, squares: &mut [T]) {
    for (k, square) in squares.iter_mut().enumerate() {
        *square = space.maps.stack().square(space.width, k);
    }
}
