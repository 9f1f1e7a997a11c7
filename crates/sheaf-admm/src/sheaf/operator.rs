//! The operators of a sheaf, for callers: the length of every vector is checked, and a wrong length is a typed error.
//!
//! | operator | is | shapes |
//! | --- | --- | --- |
//! | project, lift | y = P z, g = Pᵀ s | states ↔ rows |
//! | exchange | s = DᵀD y | rows → rows |
//! | difference, spread | r = D y, s = Dᵀ r | rows ↔ edges |
//! | coboundary, coboundary_t | r = F z, g = Fᵀ r | states ↔ edges |
//! | laplacian | g = L z = FᵀΩF z | states → states |
//!
//! Offsets b and weights ω of the edges ([`SheafOp::with_offsets`], [`SheafOp::with_edge_weights`]) belong to the problem:
//! consensus is F z = b, or γ/2 Σ ω_e‖(F z − b)_e‖² is paid. Only the exchange, the Laplacian and the energy see them.

use super::coboundary::Products;
use super::{Maps, MapsGrad, Sheaf};
use crate::error::{check_finite, check_len};
use crate::{Error, ErrorKind, Real, Result};

/// A sheaf together with the restriction maps of one sample, or of a batch of samples on the same sheaf. Vectors of a
/// batch hold one sample after the other.
#[derive(Clone, Copy, Debug)]
pub struct SheafOp<'a, T> {
    products: Products<'a, T>,
    samples: usize,
    offsets: Option<&'a [T]>, // [samples, edge_len]
    /// Whether a weight is infinite.
    mixed: bool,
}

impl<'a, T: Real> SheafOp<'a, T> {
    /// One sample. Checks that the maps fit the sheaf.
    pub fn new(sheaf: &'a Sheaf, maps: Maps<'a, T>) -> Result<Self> {
        Self::batch(sheaf, maps, 1)
    }

    /// A batch of samples. Checks that the maps fit the sheaf and the number of samples.
    pub fn batch(sheaf: &'a Sheaf, maps: Maps<'a, T>, samples: usize) -> Result<Self> {
        let most = usize::MAX / (sheaf.row_len() + sheaf.state_len() + sheaf.agents() + 1);
        if samples == 0 || samples > most {
            return Err(Error::new(ErrorKind::OutOfRange, "samples", format_args!("1 to {most}"), samples));
        }
        maps.validate(sheaf, samples)?;
        crate::share::check_maps(sheaf, &maps)?;
        let products = Products { sheaf, maps, offsets: None, weights: None };
        Ok(Self { products, samples, offsets: None, mixed: false })
    }

    /// Offsets b of the edges: neighbours agree when F z = b, edge by edge F_u z_u − F_v z_v = b_e.
    pub fn with_offsets(mut self, offsets: &'a [T]) -> Result<Self> {
        self.check_edges("offsets of edges", offsets)?;
        check_finite("offsets of edges", offsets)?;
        self.offsets = Some(offsets);
        self.products.offsets = Some(&offsets[..self.sheaf().edge_len()]);
        Ok(self)
    }

    /// Weights ω of the edges, the same for every sample: disagreement costs γ/2 Σ ω_e‖(F z − b)_e‖². An edge of weight
    /// +∞ is hard, so that some edges can be hard and others soft. Needs soft agreement.
    pub fn with_edge_weights(mut self, weights: &'a [T]) -> Result<Self> {
        check_len("weights of edges", self.sheaf().edge_count(), weights.len())?;
        if let Some(e) = weights.iter().position(|&w| w <= T::ZERO || w.partial_cmp(&T::ZERO).is_none()) {
            let place = format!("weight of edge {e}");
            return Err(Error::new(
                ErrorKind::NotPositive,
                place,
                "a number above 0, or +inf for a hard edge",
                weights[e],
            )
            .hint("leave out an edge that does not couple anything"));
        }
        self.mixed = weights.contains(&T::INFINITY);
        self.products.weights = Some(weights);
        Ok(self)
    }

    /// b of all samples, if edges have offsets.
    pub fn offsets(&self) -> Option<&'a [T]> {
        self.offsets
    }

    /// ω, if edges have weights.
    pub fn edge_weights(&self) -> Option<&'a [T]> {
        self.products.weights
    }

    /// Whether some edges are hard by their weight.
    pub fn has_hard_edges(&self) -> bool {
        self.mixed
    }

    /// How many samples the batch has.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// One sample of the batch alone.
    ///
    /// # Panics
    /// If there is no sample `b`.
    pub fn sample(&self, b: usize) -> Self {
        assert!(b < self.samples, "sample {b} of {}", self.samples);
        if self.samples == 1 {
            return *self;
        }
        let Products { sheaf, maps, weights, .. } = self.products;
        let offsets = self.offsets.map(|all| part(all, sheaf.edge_len(), b));
        let products = Products { sheaf, maps: maps.sample(sheaf, b), offsets, weights };
        Self { products, samples: 1, offsets, mixed: self.mixed }
    }

    /// Length of a state vector of the whole batch.
    pub fn state_len(&self) -> usize {
        self.samples * self.sheaf().state_len()
    }

    /// Agents of all samples together.
    pub fn agents(&self) -> usize {
        self.samples * self.sheaf().agents()
    }

    /// The shape.
    pub fn sheaf(&self) -> &'a Sheaf {
        self.products.sheaf
    }

    /// The maps.
    pub fn maps(&self) -> &Maps<'a, T> {
        &self.products.maps
    }

    /// The same operators of a single sample without checks, for solvers that check once.
    #[inline(always)]
    pub(crate) fn raw(&self) -> &Products<'a, T> {
        debug_assert_eq!(self.samples, 1, "a sample of the batch");
        &self.products
    }

    /// Calls `f` with the operators of every sample and its number.
    fn each(&self, mut f: impl FnMut(&Products<'a, T>, usize)) {
        (0..self.samples).for_each(|b| f(&self.sample(b).products, b));
    }

    /// Checks the length of a state vector.
    pub fn check_state(&self, place: &str, state: &[T]) -> Result<()> {
        check_len(place, self.state_len(), state.len())
    }

    fn states<'v>(&self, v: &'v [T], b: usize) -> &'v [T] {
        part(v, self.sheaf().state_len(), b)
    }

    fn states_mut<'v>(&self, v: &'v mut [T], b: usize) -> &'v mut [T] {
        part_mut(v, self.sheaf().state_len(), b)
    }

    fn rows<'v>(&self, v: &'v [T], b: usize) -> &'v [T] {
        part(v, self.sheaf().row_len(), b)
    }

    fn rows_mut<'v>(&self, v: &'v mut [T], b: usize) -> &'v mut [T] {
        part_mut(v, self.sheaf().row_len(), b)
    }

    fn edges<'v>(&self, v: &'v [T], b: usize) -> &'v [T] {
        part(v, self.sheaf().edge_len(), b)
    }

    fn edges_mut<'v>(&self, v: &'v mut [T], b: usize) -> &'v mut [T] {
        part_mut(v, self.sheaf().edge_len(), b)
    }

    fn check_rows(&self, place: &str, rows: &[T]) -> Result<()> {
        check_len(place, self.samples * self.sheaf().row_len(), rows.len())
    }

    fn check_edges(&self, place: &str, residuals: &[T]) -> Result<()> {
        check_len(place, self.samples * self.sheaf().edge_len(), residuals.len())
    }

    /// y = P z.
    pub fn project(&self, z: &[T], y: &mut [T]) -> Result<()> {
        self.check_state("project: z", z)?;
        self.check_rows("project: y", y)?;
        self.each(|op, b| op.project(self.states(z, b), self.rows_mut(y, b)));
        Ok(())
    }

    /// g = Pᵀ s.
    pub fn lift(&self, s: &[T], g: &mut [T]) -> Result<()> {
        self.check_rows("lift: s", s)?;
        self.check_state("lift: g", g)?;
        self.each(|op, b| op.lift(self.rows(s, b), self.states_mut(g, b)));
        Ok(())
    }

    /// s = DᵀΩD y: the signed sum of the weighted residuals at each slot. Symmetric.
    pub fn exchange(&self, y: &[T], s: &mut [T]) -> Result<()> {
        self.check_rows("exchange: y", y)?;
        self.check_rows("exchange: s", s)?;
        self.each(|op, b| op.exchange(self.rows(y, b), self.rows_mut(s, b)));
        Ok(())
    }

    /// r = D y: the residual of every edge.
    pub fn difference(&self, y: &[T], r: &mut [T]) -> Result<()> {
        self.check_rows("difference: y", y)?;
        self.check_edges("difference: r", r)?;
        self.each(|op, b| op.difference(self.rows(y, b), self.edges_mut(r, b)));
        Ok(())
    }

    /// s = Dᵀ r. The adjoint of [`difference`](Self::difference).
    pub fn spread(&self, r: &[T], s: &mut [T]) -> Result<()> {
        self.check_edges("spread: r", r)?;
        self.check_rows("spread: s", s)?;
        self.each(|op, b| op.spread(self.edges(r, b), self.rows_mut(s, b)));
        Ok(())
    }

    /// r = F z; `rows` is scratch of `row_len`.
    pub fn coboundary(&self, z: &[T], r: &mut [T], rows: &mut [T]) -> Result<()> {
        self.check_state("coboundary: z", z)?;
        self.check_edges("coboundary: r", r)?;
        self.check_rows("coboundary: scratch", rows)?;
        self.each(|op, b| op.coboundary(self.states(z, b), self.edges_mut(r, b), self.rows_mut(rows, b)));
        Ok(())
    }

    /// g = Fᵀ r; `rows` is scratch of `row_len`.
    pub fn coboundary_t(&self, r: &[T], g: &mut [T], rows: &mut [T]) -> Result<()> {
        self.check_edges("coboundary_t: r", r)?;
        self.check_state("coboundary_t: g", g)?;
        self.check_rows("coboundary_t: scratch", rows)?;
        self.each(|op, b| op.coboundary_t(self.edges(r, b), self.states_mut(g, b), self.rows_mut(rows, b)));
        Ok(())
    }

    /// g = L z. Leaves the exchanged residuals of z in `s` (the adjoint of the maps needs them); `y` is scratch.
    #[inline]
    pub fn laplacian(&self, z: &[T], g: &mut [T], y: &mut [T], s: &mut [T]) -> Result<()> {
        self.check_state("laplacian: z", z)?;
        self.check_state("laplacian: g", g)?;
        self.check_rows("laplacian: scratch", y)?;
        self.check_rows("laplacian: s", s)?;
        self.each(|op, b| {
            op.laplacian(self.states(z, b), self.states_mut(g, b), self.rows_mut(y, b), self.rows_mut(s, b));
        });
        Ok(())
    }

    /// ½‖F z − b‖²; `r` is scratch of `edge_len`, `rows` of `row_len`.
    pub fn energy(&self, z: &[T], r: &mut [T], rows: &mut [T]) -> Result<T> {
        self.check_state("energy: z", z)?;
        self.check_edges("energy: scratch of edges", r)?;
        self.check_rows("energy: scratch of rows", rows)?;
        let mut sum = T::ZERO;
        self.each(|op, b| sum += op.energy(self.states(z, b), self.edges_mut(r, b), self.rows_mut(rows, b)));
        Ok(sum)
    }

    /// √(mean of the squared residuals + 1e-6), the published measure of disagreement; scratch as in
    /// [`energy`](Self::energy).
    pub fn edge_rms(&self, z: &[T], r: &mut [T], rows: &mut [T]) -> Result<T> {
        self.check_state("edge_rms: z", z)?;
        self.check_edges("edge_rms: scratch of edges", r)?;
        self.check_rows("edge_rms: scratch of rows", rows)?;
        let energy = self.energy(z, r, rows)?;
        Ok(rms_of_energy(energy, self.samples * self.sheaf().whole_edge_len()))
    }

    /// Adds the contribution of the product q̄ᵀ L p to the maps' gradient: with e(·) the exchanged residuals,
    /// dF += scale·(e(p) q̄ᵀ + e(q̄) pᵀ). `rows` is `[2, row_len]` = (e(p), e(q̄)), `states` `[2, state_len]` = (q̄, p).
    /// For a single sample.
    pub fn add_pair(&self, d_maps: &mut MapsGrad<'_, T>, scale: T, rows: &[T], states: &[T]) -> Result<()> {
        d_maps.add_outers(self.sheaf(), self.maps(), scale, 2, rows, states)
    }
}

/// √(mean squared edge residual + 1e-6) from ½‖F z‖².
pub(super) fn rms_of_energy<T: Real>(energy: T, edges: usize) -> T {
    let count = T::from_f64(edges.max(1) as f64);
    ((energy + energy) / count + T::from_f64(1e-6)).sqrt()
}

fn part<T>(v: &[T], len: usize, b: usize) -> &[T] {
    &v[b * len..][..len]
}

fn part_mut<T>(v: &mut [T], len: usize, b: usize) -> &mut [T] {
    &mut v[b * len..][..len]
}
