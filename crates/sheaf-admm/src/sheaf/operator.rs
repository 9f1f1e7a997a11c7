//! The operators of a sheaf, for callers: every vector's length is checked, a wrong one is a typed error.
//!
//! | operator | is | shapes |
//! | --- | --- | --- |
//! | project, lift | y = P z, g = Pᵀ s | states ↔ rows |
//! | exchange | s = DᵀD y | rows → rows |
//! | difference, spread | r = D y, s = Dᵀ r | rows ↔ edges |
//! | coboundary, coboundary_t | r = F z, g = Fᵀ r | states ↔ edges |
//! | laplacian | g = L z = FᵀF z | states → states |

use super::coboundary::Products;
use super::{Maps, MapsGrad, Sheaf};
use crate::error::check_len;
use crate::{Real, Result};

/// A sheaf together with the restriction maps of one sample.
#[derive(Clone, Copy, Debug)]
pub struct SheafOp<'a, T>(Products<'a, T>);

impl<'a, T: Real> SheafOp<'a, T> {
    /// Checks that the maps fit the sheaf.
    pub fn new(sheaf: &'a Sheaf, maps: Maps<'a, T>) -> Result<Self> {
        maps.validate(sheaf)?;
        Ok(Self(Products { sheaf, maps }))
    }

    /// The shape.
    pub fn sheaf(&self) -> &'a Sheaf {
        self.0.sheaf
    }

    /// The maps.
    pub fn maps(&self) -> &Maps<'a, T> {
        &self.0.maps
    }

    /// The same operators without checks, for solvers that check once.
    #[inline(always)]
    pub(crate) fn raw(&self) -> &Products<'a, T> {
        &self.0
    }

    /// Checks the length of a state vector.
    pub fn check_state(&self, place: &str, state: &[T]) -> Result<()> {
        check_len(place, self.sheaf().state_len(), state.len())
    }

    fn check_rows(&self, place: &str, rows: &[T]) -> Result<()> {
        check_len(place, self.sheaf().row_len(), rows.len())
    }

    fn check_edges(&self, place: &str, residuals: &[T]) -> Result<()> {
        check_len(place, self.sheaf().edge_len(), residuals.len())
    }

    /// y = P z.
    pub fn project(&self, z: &[T], y: &mut [T]) -> Result<()> {
        self.check_state("project: z", z)?;
        self.check_rows("project: y", y)?;
        self.0.project(z, y);
        Ok(())
    }

    /// g = Pᵀ s.
    pub fn lift(&self, s: &[T], g: &mut [T]) -> Result<()> {
        self.check_rows("lift: s", s)?;
        self.check_state("lift: g", g)?;
        self.0.lift(s, g);
        Ok(())
    }

    /// s = DᵀD y: the signed sum of the residuals at each slot. Symmetric.
    pub fn exchange(&self, y: &[T], s: &mut [T]) -> Result<()> {
        self.check_rows("exchange: y", y)?;
        self.check_rows("exchange: s", s)?;
        self.0.exchange(y, s);
        Ok(())
    }

    /// r = D y: the residual of every edge.
    pub fn difference(&self, y: &[T], r: &mut [T]) -> Result<()> {
        self.check_rows("difference: y", y)?;
        self.check_edges("difference: r", r)?;
        self.0.difference(y, r);
        Ok(())
    }

    /// s = Dᵀ r. The adjoint of [`difference`](Self::difference).
    pub fn spread(&self, r: &[T], s: &mut [T]) -> Result<()> {
        self.check_edges("spread: r", r)?;
        self.check_rows("spread: s", s)?;
        self.0.spread(r, s);
        Ok(())
    }

    /// r = F z; `rows` is scratch of `row_len`.
    pub fn coboundary(&self, z: &[T], r: &mut [T], rows: &mut [T]) -> Result<()> {
        self.check_state("coboundary: z", z)?;
        self.check_edges("coboundary: r", r)?;
        self.check_rows("coboundary: scratch", rows)?;
        self.0.coboundary(z, r, rows);
        Ok(())
    }

    /// g = Fᵀ r; `rows` is scratch of `row_len`.
    pub fn coboundary_t(&self, r: &[T], g: &mut [T], rows: &mut [T]) -> Result<()> {
        self.check_edges("coboundary_t: r", r)?;
        self.check_state("coboundary_t: g", g)?;
        self.check_rows("coboundary_t: scratch", rows)?;
        self.0.coboundary_t(r, g, rows);
        Ok(())
    }

    /// g = L z. Leaves the exchanged residuals of z in `s` (the adjoint of the maps needs them); `y` is scratch.
    #[inline]
    pub fn laplacian(&self, z: &[T], g: &mut [T], y: &mut [T], s: &mut [T]) -> Result<()> {
        self.check_state("laplacian: z", z)?;
        self.check_state("laplacian: g", g)?;
        self.check_rows("laplacian: scratch", y)?;
        self.check_rows("laplacian: s", s)?;
        self.0.laplacian(z, g, y, s);
        Ok(())
    }

    /// ½‖F z‖²; `r` is scratch of `edge_len`, `rows` of `row_len`.
    pub fn energy(&self, z: &[T], r: &mut [T], rows: &mut [T]) -> Result<T> {
        self.check_state("energy: z", z)?;
        self.check_edges("energy: scratch of edges", r)?;
        self.check_rows("energy: scratch of rows", rows)?;
        Ok(self.0.energy(z, r, rows))
    }

    /// √(mean of the squared residuals + 1e-6), the published measure of agreement; scratch as in
    /// [`energy`](Self::energy).
    pub fn consistency(&self, z: &[T], r: &mut [T], rows: &mut [T]) -> Result<T> {
        self.check_state("consistency: z", z)?;
        self.check_edges("consistency: scratch of edges", r)?;
        self.check_rows("consistency: scratch of rows", rows)?;
        Ok(self.0.consistency(z, r, rows))
    }

    /// Adds to the maps' gradient what the product q̄ᵀ L p contributes: with e(·) the exchanged residuals,
    /// dF += scale·(e(p) q̄ᵀ + e(q̄) pᵀ). `rows` is `[2, row_len]` = (e(p), e(q̄)), `states` `[2, state_len]` = (q̄, p).
    pub fn add_pair(&self, d_maps: &mut MapsGrad<'_, T>, scale: T, rows: &[T], states: &[T]) -> Result<()> {
        d_maps.add_outers(self.sheaf(), self.maps(), scale, 2, rows, states)
    }
}
