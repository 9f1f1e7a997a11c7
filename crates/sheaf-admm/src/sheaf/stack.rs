//! One stack of maps for all agents, prepared once for all solves that share it.
//!
//! | product | is | adjoint |
//! | --- | --- | --- |
//! | project | y = x Gᵀ | d_x += d_y G, d_G += d_yᵀ x |
//! | lift | g = q G | d_q += d_g Gᵀ, d_G += qᵀ d_g |
//! | gram | s = r C | d_r += d_s C, d_C += d_sᵀ r |
//! | C = G Gᵀ | | d_G += (d_C + d_Cᵀ) G |
//!
//! A row of x, y, … is one agent of one sample, so that a batch is one matrix product. The products of agents, forward and
//! adjoint, run in the stack's [`Precision`]; C and its adjoint, once per preparation, always in full.
//!
//! | name | shape |
//! | --- | --- |
//! | x, g | rows, d_v |
//! | y, q | rows, m = slots·d_e, consecutive rows `stride` ≥ m apart |
//! | r, s | rows, m |
//! | G | m, d_v |

use crate::error::{check_finite, check_len, check_precision};
use crate::{Error, ErrorKind, Precision, Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::gemm::{Mat, gemm, gemm_in, gemm_strided_in, pack_bf16};

/// G, Gᵀ and C = G Gᵀ.
#[derive(Debug)]
pub struct SharedStack<T> {
    m: usize,
    d_v: usize,
    g: AlignedVec<T>,  // [m, d_v]
    gt: AlignedVec<T>, // [d_v, m]
    c: AlignedVec<T>,  // [m, m]
    /// The largest |C − I|.
    off: T,
    precision: Precision,
    /// G, Gᵀ and C as bf16 pairs, if the products read them.
    pairs: [AlignedVec<u32>; 3],
}

/// Gradients of C, and of G as far as it is used directly. [`SharedStack::vjp`] adds the former to the latter.
#[derive(Debug)]
pub struct SharedStackGrad<T> {
    /// Gradient of G.
    pub g: AlignedVec<T>, // [m, d_v]
    /// Gradient of C.
    pub c: AlignedVec<T>, // [m, m]
}

impl<T: Real> Default for SharedStack<T> {
    fn default() -> Self {
        let (g, gt, c) = Default::default();
        let (off, precision, pairs) = (T::ZERO, Precision::Full, Default::default());
        Self { m: 0, d_v: 0, g, gt, c, off, precision, pairs }
    }
}

impl<T: Real> Default for SharedStackGrad<T> {
    fn default() -> Self {
        let (g, c) = Default::default();
        Self { g, c }
    }
}

impl<T: Real> SharedStack<T> {
    /// Sets the precision of the products of agents. `f64` is for references and has no bf16 products.
    pub fn set_precision(&mut self, precision: Precision) -> Result<()> {
        check_precision::<T>("precision of the shared maps", precision)?;
        if self.precision != precision {
            self.precision = precision;
            self.pack();
        }
        Ok(())
    }

    /// The precision of the products of agents.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Prepares maps `[slots, d_e, d_v]`. Allocates only when they are larger than all before.
    pub fn prepare(&mut self, maps: &[T], d_v: usize) -> Result<()> {
        let m = maps.len().checked_div(d_v).unwrap_or(0);
        check_len("shared maps", m * d_v, maps.len())?;
        check_finite("shared maps", maps)?;
        (self.m, self.d_v) = (m, d_v);
        self.g.ensure(m * d_v);
        self.gt.ensure(m * d_v);
        self.c.ensure(m.saturating_mul(m));
        if self.c.len() < m * m {
            return Err(Error::new(ErrorKind::Shape, "shared maps", "a Gram matrix that memory can hold", m));
        }
        self.g[..m * d_v].copy_from_slice(maps);
        for (r, row) in maps.chunks_exact(d_v.max(1)).enumerate() {
            for (j, &f) in row.iter().enumerate() {
                self.gt[j * m + r] = f;
            }
        }
        let (g, gt) = (Mat::new(&self.g, m, d_v), Mat::new(&self.gt, d_v, m));
        gemm(&mut self.c[..m * m], g, gt, T::ONE, T::ZERO);
        self.pack();
        self.off = T::ZERO;
        for (i, row) in self.c[..m * m].chunks_exact(m.max(1)).enumerate() {
            for (j, &c) in row.iter().enumerate() {
                let off = (if i == j { c - T::ONE } else { c }).abs();
                // NaN propagates.
                self.off = if off <= self.off { self.off } else { off };
            }
        }
        Ok(())
    }

    /// Packs the operands that all products share, in bf16.
    fn pack(&mut self) {
        let (m, d_v, [g, gt, c]) = (self.m, self.d_v, &mut self.pairs);
        match self.precision {
            Precision::Full => self.pairs = Default::default(),
            Precision::Bf16 => {
                pack_bf16(Mat::new(&self.g, m, d_v), g);
                pack_bf16(Mat::new(&self.gt, d_v, m), gt);
                pack_bf16(Mat::new(&self.c, m, m), c);
            }
        }
    }

    /// Adjoint of [`prepare`](Self::prepare): adds the gradients of G and C to `d_maps` `[m, d_v]`.
    pub fn vjp(&self, grad: &SharedStackGrad<T>, d_maps: &mut [T]) -> Result<()> {
        let (m, d_v) = (self.m, self.d_v);
        check_len("gradient of the shared maps", m * d_v, d_maps.len())?;
        grad.validate(self)?;
        let (g, d_c) = (Mat::new(&self.g, m, d_v), Mat::new(&grad.c, m, m));
        sheaf_kernels::vector::add(d_maps, &grad.g[..m * d_v]);
        gemm(d_maps, d_c, g, T::ONE, T::ONE);
        gemm(d_maps, d_c.t(), g, T::ONE, T::ONE);
        Ok(())
    }

    /// Length of one agent's projection: slots·d_e.
    pub fn m(&self) -> usize {
        self.m
    }

    /// The vertex stalk.
    pub fn d_v(&self) -> usize {
        self.d_v
    }

    /// Whether the rows of G are orthonormal, up to rounding.
    pub fn is_orthonormal(&self) -> bool {
        self.off <= self.rounding()
    }

    /// The largest |C − I|: 0 for orthonormal rows.
    pub fn orthonormality_gap(&self) -> T {
        self.off
    }

    /// The squared length of row `k` of a slot of `width` rows, as the mean over the slots. Where rows are orthogonal and
    /// equally long in every slot, C has these numbers on its diagonal and nothing else.
    pub(crate) fn square(&self, width: usize, k: usize) -> T {
        let share = T::ONE / T::from_f64((self.m / width.max(1)) as f64);
        (k..self.m).step_by(width).map(|r| self.c[r * self.m + r]).sum::<T>() * share
    }

    /// The largest entry of C beside the [`square`](Self::square)s on its diagonal, relative to the largest of them;
    /// infinite if one is not above 0.
    pub(crate) fn orthogonality_gap(&self, width: usize) -> T {
        let (mut off, mut largest) = (T::ZERO, T::ZERO);
        for (i, row) in self.c[..self.m * self.m].chunks_exact(self.m.max(1)).enumerate() {
            let square = self.square(width, i % width);
            if !(square > T::ZERO) {
                return T::ONE / T::ZERO;
            }
            largest = if square > largest { square } else { largest };
            for (j, &c) in row.iter().enumerate() {
                let gap = (if i == j { c - square } else { c }).abs();
                // NaN propagates.
                off = if gap <= off { off } else { gap };
            }
        }
        if self.m == 0 { T::ZERO } else { off / largest }
    }

    /// The rounding that is allowed where rows are meant to be orthogonal.
    pub(crate) fn rounding(&self) -> T {
        T::EPSILON * T::from_f64(8.0 * (self.m + self.d_v) as f64)
    }

    pub(super) fn maps(&self) -> &[T] {
        &self.g[..self.m * self.d_v]
    }

    fn rows(&self, x: &[T]) -> usize {
        x.len() / self.d_v
    }

    /// y = x Gᵀ, overwriting.
    pub(super) fn project(&self, x: &[T], y: &mut [T], stride: usize) {
        let x = Mat::new(x, self.rows(x), self.d_v);
        let gt = Mat::new(&self.gt, self.d_v, self.m).packed(&self.pairs[1]);
        gemm_strided_in(self.precision, y, stride, x, gt, T::ONE, T::ZERO);
    }

    /// g = q G, overwriting or adding.
    pub(super) fn lift(&self, q: &[T], stride: usize, g: &mut [T], add: bool) {
        let q = Mat::strided(q, self.rows(g), self.m, stride);
        let maps = Mat::new(&self.g, self.m, self.d_v).packed(&self.pairs[0]);
        gemm_in(self.precision, g, q, maps, T::ONE, beta(add));
    }

    /// s = r C, overwriting or adding.
    pub(super) fn gram(&self, r: &[T], s: &mut [T], add: bool) {
        let rows = r.len() / self.m;
        let (r, c) = (Mat::new(r, rows, self.m), Mat::new(&self.c, self.m, self.m).packed(&self.pairs[2]));
        gemm_in(self.precision, s, r, c, T::ONE, beta(add));
    }
}

impl<T: Real> SharedStackGrad<T> {
    /// Zeros for a stack.
    pub fn reset(&mut self, stack: &SharedStack<T>) {
        self.g.ensure(stack.m * stack.d_v);
        self.c.ensure(stack.m * stack.m);
        self.g.fill(T::ZERO);
        self.c.fill(T::ZERO);
    }

    pub(super) fn validate(&self, stack: &SharedStack<T>) -> Result<()> {
        for (place, needed, got) in [
            ("gradient of the shared stack", stack.m * stack.d_v, self.g.len()),
            ("gradient of the shared Gram matrix", stack.m * stack.m, self.c.len()),
        ] {
            if got < needed {
                let expected = format!("at least {needed} numbers");
                return Err(Error::new(ErrorKind::Shape, place, expected, got)
                    .hint("size it with SharedStackGrad::reset"));
            }
        }
        Ok(())
    }

    /// d_G += scale·rowsᵀ states: the contribution of a projection (d_y, x) or a lift (q, d_g).
    pub(super) fn add_pair(
        &mut self,
        stack: &SharedStack<T>,
        scale: T,
        rows: &[T],
        stride: usize,
        states: &[T],
    ) {
        let count = stack.rows(states);
        let (rows, states) = (Mat::strided(rows, count, stack.m, stride), Mat::new(states, count, stack.d_v));
        gemm_in(stack.precision, &mut self.g, rows.t(), states, scale, T::ONE);
    }

    /// Adjoint of [`SharedStack::square`] for every row of a slot: adds to d_C.
    pub(crate) fn add_squares(&mut self, stack: &SharedStack<T>, d_squares: &[T]) {
        let (width, m) = (d_squares.len(), stack.m);
        let share = T::ONE / T::from_f64((m / width.max(1)) as f64);
        for r in 0..m {
            self.c[r * m + r] += share * d_squares[r % width];
        }
    }

    /// d_C += d_sᵀ r.
    pub(super) fn add_gram(&mut self, stack: &SharedStack<T>, d_s: &[T], r: &[T]) {
        let count = r.len() / stack.m;
        let (d_s, r) = (Mat::new(d_s, count, stack.m), Mat::new(r, count, stack.m));
        gemm_in(stack.precision, &mut self.c, d_s.t(), r, T::ONE, T::ONE);
    }
}

/// The factor of the previous output: 1 to add, 0 to overwrite.
fn beta<T: Real>(add: bool) -> T {
    if add { T::ONE } else { T::ZERO }
}
