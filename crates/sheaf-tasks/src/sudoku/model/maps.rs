//! Restriction maps of a tile of boards, as matrix products over all its agents.
//!
//! The nine maps of a position are stacked into G, shared by all agents; C = G Gᵀ is computed once per optimiser step.
//! A row of the matrices below is one agent of one board.
//!
//! | product | is | adjoint |
//! | --- | --- | --- |
//! | project | y = x Gᵀ | d_x += d_y G, d_G += d_yᵀ x |
//! | lift | g = q G | d_q += d_g Gᵀ, d_G += qᵀ d_g |
//! | gram | s = r C | d_r += d_s C, d_C += d_sᵀ r |
//! | C = G Gᵀ | | d_G += (d_C + d_Cᵀ) G |
//!
//! | name | shape |
//! | --- | --- |
//! | x, g | rows, d_v |
//! | y, q, r, s | rows, m = 9·d_e |
//! | G | m, d_v |

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::gemm::{Mat, gemm};

/// G, Gᵀ and C of one optimiser step.
#[derive(Clone, Debug, Default)]
pub struct Stack<T: Copy + Default> {
    m: usize,
    d_v: usize,
    g: AlignedVec<T>,  // [m, d_v]
    gt: AlignedVec<T>, // [d_v, m]
    c: AlignedVec<T>,  // [m, m]
}

impl<T: Real> Stack<T> {
    /// Prepares the maps `[m, d_v]`.
    pub fn prepare(&mut self, maps: &[T], d_v: usize) {
        let m = maps.len() / d_v;
        (self.m, self.d_v) = (m, d_v);
        self.g.ensure(m * d_v);
        self.gt.ensure(m * d_v);
        self.c.ensure(m * m);
        self.g[..m * d_v].copy_from_slice(maps);
        for (r, row) in maps.chunks_exact(d_v).enumerate() {
            for (j, &f) in row.iter().enumerate() {
                self.gt[j * m + r] = f;
            }
        }
        let (g, gt) = (Mat::new(&self.g, m, d_v), Mat::new(&self.gt, d_v, m));
        gemm(&mut self.c[..m * m], g, gt, T::ONE, T::ZERO);
    }

    /// Adds to `d_maps` what reached C.
    pub fn gram_vjp(&self, d_c: &[T], d_maps: &mut [T]) {
        let (m, g) = (self.m, Mat::new(&self.g, self.m, self.d_v));
        gemm(d_maps, Mat::new(d_c, m, m), g, T::ONE, T::ONE);
        gemm(d_maps, Mat::new(d_c, m, m).t(), g, T::ONE, T::ONE);
    }

    /// Numbers of a projected row.
    pub fn m(&self) -> usize {
        self.m
    }

    fn rows(&self, x: &[T]) -> usize {
        x.len() / self.d_v
    }

    /// y = x Gᵀ, overwriting.
    pub fn project(&self, x: &[T], y: &mut [T]) {
        let x = Mat::new(x, self.rows(x), self.d_v);
        gemm(y, x, Mat::new(&self.gt, self.d_v, self.m), T::ONE, T::ZERO);
    }

    /// g = q G, overwriting or adding.
    pub fn lift(&self, q: &[T], g: &mut [T], add: bool) {
        let q = Mat::new(q, self.rows(g), self.m);
        gemm(g, q, Mat::new(&self.g, self.m, self.d_v), T::ONE, beta(add));
    }

    /// s = r C, overwriting or adding.
    pub fn gram(&self, r: &[T], s: &mut [T], add: bool) {
        let rows = r.len() / self.m;
        gemm(s, Mat::new(r, rows, self.m), Mat::new(&self.c, self.m, self.m), T::ONE, beta(add));
    }
}

/// Gradients of G (as far as it is used directly) and of C.
#[derive(Clone, Debug, Default)]
pub struct StackGrad<T: Copy + Default> {
    /// Of G.
    pub g: AlignedVec<T>, // [m, d_v]
    /// Of C.
    pub c: AlignedVec<T>, // [m, m]
}

impl<T: Real> StackGrad<T> {
    /// Zeros.
    pub fn reset(&mut self, m: usize, d_v: usize) {
        self.g.ensure(m * d_v);
        self.c.ensure(m * m);
        self.g.fill(T::ZERO);
        self.c.fill(T::ZERO);
    }

    /// d_G += rowsᵀ states: what a projection (d_y, x) or a lift (q, d_g) leaves behind.
    pub fn add_pair(&mut self, stack: &Stack<T>, rows: &[T], states: &[T]) {
        let count = stack.rows(states);
        let (rows, states) = (Mat::new(rows, count, stack.m), Mat::new(states, count, stack.d_v));
        gemm(&mut self.g, rows.t(), states, T::ONE, T::ONE);
    }

    /// d_C += d_sᵀ r.
    pub fn add_gram(&mut self, stack: &Stack<T>, d_s: &[T], r: &[T]) {
        let count = r.len() / stack.m;
        let (d_s, r) = (Mat::new(d_s, count, stack.m), Mat::new(r, count, stack.m));
        gemm(&mut self.c, d_s.t(), r, T::ONE, T::ONE);
    }
}

/// What the output keeps of itself.
fn beta<T: Real>(add: bool) -> T {
    if add { T::ONE } else { T::ZERO }
}
