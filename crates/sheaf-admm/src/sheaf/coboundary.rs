//! The coboundary F, its adjoint and the sheaf Laplacian L = FᵀF.
//!
//! With P the block-diagonal of all stacks (project) and D the signed incidence of row blocks (difference along
//! edges): F = D P, Fᵀ = Pᵀ Dᵀ, L = Pᵀ DᵀD P. Edges may have offsets b, so that F z = b is wanted, and weights ω, so that
//! L = FᵀΩF.

use std::ops::Range;

use super::bands::{Bands, Given, Input};
use super::maps::table;
use super::{Maps, Sheaf};
use crate::Real;
use crate::share::Share;
use sheaf_kernels::vector::{axpy, scale_shift};

/// The products of a sheaf with maps that fit it, on vectors of lengths checked by the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Products<'a, T> {
    pub(super) sheaf: &'a Sheaf,
    pub(super) maps: Maps<'a, T>,
    /// b, if edges have offsets.
    pub(super) offsets: Option<&'a [T]>, // [edge_len]
    /// ω, if edges have weights; +∞ marks a hard edge.
    pub(super) weights: Option<&'a [T]>, // [edges]
}

impl<'a, T: Real> Products<'a, T> {
    /// y = P z.
    #[inline]
    pub(crate) fn project(&self, z: &[T], y: &mut [T]) {
        match self.sheaf.share() {
            None => self.maps.project(self.sheaf, z, y),
            Some(share) => self.project_shared(share, z, y),
        }
    }

    /// The rows of the border first: while they travel, all others are computed.
    fn project_shared(&self, share: &Share, z: &[T], y: &mut [T]) {
        self.maps.project_border(self.sheaf, share, z, y);
        share.swap(y, |y| self.maps.project(self.sheaf, z, y));
    }

    /// g = Pᵀ s.
    #[inline]
    pub(crate) fn lift(&self, s: &[T], g: &mut [T]) {
        self.maps.lift(self.sheaf, s, g);
    }

    /// s = DᵀΩD y: the signed sum of the weighted residuals at each slot. Symmetric.
    pub(crate) fn exchange(&self, y: &[T], s: &mut [T]) {
        if y.is_empty() {
            return;
        }
        match (self.sheaf.partners().filter(|_| self.sheaf.share().is_none()), self.weights) {
            (Some((rows, partners)), None) => {
                T::exchange_partners(rows, partners, 0..self.sheaf.agents(), 0, y, s);
            }
            (_, weights) => exchange(self.sheaf, weights, None, y, s),
        }
    }

    /// b.
    pub(crate) fn offsets(&self) -> Option<&'a [T]> {
        self.offsets
    }

    /// ω.
    pub(crate) fn weights(&self) -> Option<&'a [T]> {
        self.weights
    }

    /// Whether edges have neither offsets nor weights, as the fast kernels assume.
    pub(crate) fn is_plain(&self) -> bool {
        self.offsets.is_none() && self.weights.is_none()
    }

    /// r ← Ω r.
    pub(crate) fn weigh(&self, r: &mut [T]) {
        let Some(weights) = self.weights else { return };
        for (edge, &weight) in self.sheaf.edges().iter().zip(weights) {
            let own = edge.start as usize..(edge.start + edge.dim) as usize;
            r[own].iter_mut().for_each(|r| *r *= weight);
        }
    }

    /// r −= b.
    pub(crate) fn subtract_offsets(&self, r: &mut [T]) {
        if let Some(b) = self.offsets {
            axpy(r, -T::ONE, b);
        }
    }

    /// g = FᵀΩ(F z − b); leaves DᵀΩ(F z − b) in `s`, `y` is scratch.
    pub(crate) fn affine_laplacian(&self, z: &[T], g: &mut [T], y: &mut [T], s: &mut [T]) {
        if self.is_plain() {
            return self.laplacian(z, g, y, s);
        }
        self.project(z, y);
        exchange(self.sheaf, self.weights, self.offsets, y, s);
        self.lift(s, g);
    }

    /// r = D y: the residual of every edge, `[edge_len]`.
    pub(crate) fn difference(&self, y: &[T], r: &mut [T]) {
        for e in self.sheaf.edges() {
            let n = e.dim as usize;
            let (a, b) = (&y[e.row_u as usize..][..n], &y[e.row_v as usize..][..n]);
            for ((r, &a), &b) in r[e.start as usize..][..n].iter_mut().zip(a).zip(b) {
                *r = a - b;
            }
        }
    }

    /// s = Dᵀ r. The adjoint of [`difference`](Self::difference).
    pub(crate) fn spread(&self, r: &[T], s: &mut [T]) {
        s.fill(T::ZERO);
        for e in self.sheaf.edges() {
            let n = e.dim as usize;
            let r = &r[e.start as usize..][..n];
            for (s, &r) in s[e.row_u as usize..][..n].iter_mut().zip(r) {
                *s += r;
            }
            for (s, &r) in s[e.row_v as usize..][..n].iter_mut().zip(r) {
                *s -= r;
            }
        }
    }

    /// r = F z − b; `rows` is scratch of `row_len`.
    pub(crate) fn residual(&self, z: &[T], r: &mut [T], rows: &mut [T]) {
        self.coboundary(z, r, rows);
        self.subtract_offsets(r);
    }

    /// r = F z; `rows` is scratch of `row_len`.
    pub(crate) fn coboundary(&self, z: &[T], r: &mut [T], rows: &mut [T]) {
        self.project(z, rows);
        self.difference(rows, r);
    }

    /// g = Fᵀ r; `rows` is scratch of `row_len`.
    pub(crate) fn coboundary_t(&self, r: &[T], g: &mut [T], rows: &mut [T]) {
        self.spread(r, rows);
        self.lift(rows, g);
    }

    /// g = L z, L = FᵀΩF. Leaves the exchanged residuals of z in `s` (the adjoint of the maps needs them); `y` is scratch.
    #[inline]
    pub(crate) fn laplacian(&self, z: &[T], g: &mut [T], y: &mut [T], s: &mut [T]) {
        if let Some(grid) = self.banded() {
            return match self.sheaf.share() {
                None => grid.sweep(T::ONE, T::ZERO, Given(z), g, y, s, true, |_, _, _| {}),
                Some(share) => grid.sweep_shared(share, T::ONE, T::ZERO, &mut Given(z), g, y, s, true),
            };
        }
        self.project(z, y);
        if let (Maps::Packed(low), Some((_, partners)), None) =
            (&self.maps, self.sheaf.partners(), self.weights)
        {
            return low.exchange_lift(self.sheaf, partners.rows(), y, s, g);
        }
        self.exchange(y, s);
        self.lift(s, g);
    }

    /// q = gamma·L p + shift·p in one sweep. `input` yields p part by part, in order, before it is read; `after`
    /// receives the range of states, p and q of each part once it is done. If the exchanged residuals are kept, they
    /// are left in `s`; else `s` is scratch.
    #[inline]
    pub(crate) fn sweep(
        &self,
        gamma: T,
        shift: T,
        mut input: impl Input<T>,
        q: &mut [T],
        y: &mut [T],
        s: &mut [T],
        keep: bool,
        mut after: impl FnMut(Range<usize>, &[T], &[T]),
    ) {
        if let Some(grid) = self.banded() {
            match self.sheaf.share() {
                None => return grid.sweep(gamma, shift, input, q, y, s, keep, after),
                Some(share) => grid.sweep_shared(share, gamma, shift, &mut input, q, y, s, keep),
            }
            return after(0..self.sheaf.state_len(), input.get(), q);
        }
        let all = 0..self.sheaf.state_len();
        input.ready(all.clone());
        self.laplacian(input.get(), q, y, s);
        scale_shift(q, gamma, shift, input.get());
        after(all, input.get(), q);
    }

    /// Whether [`sweep`](Self::sweep) runs band by band, and calls `after` for each.
    pub(crate) fn is_banded(&self) -> bool {
        self.banded().is_some()
    }

    /// The sheaf as bands, if a table gives its maps and every slot has one partner.
    fn banded(&self) -> Option<Bands<'a, T>> {
        let (Maps::Table { stacks, index, order, tiles }, None) = (self.maps, self.weights) else {
            return None;
        };
        let (slots, partners) = self.sheaf.partners()?;
        Some(Bands { table: table(self.sheaf, index, order), slots, partners, stacks, tiles })
    }

    /// ½‖F z − b‖²; `rows` is scratch of `row_len`, `r` of `edge_len`.
    pub(crate) fn energy(&self, z: &[T], r: &mut [T], rows: &mut [T]) -> T {
        self.residual(z, r, rows);
        self.sheaf.edge_dot(r, r) * T::from_f64(0.5)
    }
}

fn exchange<T: Real>(sheaf: &Sheaf, weights: Option<&[T]>, offsets: Option<&[T]>, y: &[T], s: &mut [T]) {
    s.fill(T::ZERO);
    for (i, e) in sheaf.edges().iter().enumerate() {
        let n = e.dim as usize;
        let (u, v) = (e.row_u as usize, e.row_v as usize);
        for k in 0..n {
            let mut r = y[u + k] - y[v + k];
            if let Some(b) = offsets {
                r -= b[e.start as usize + k];
            }
            if let Some(weights) = weights {
                r *= weights[i];
            }
            s[u + k] += r;
            s[v + k] -= r;
        }
    }
}
