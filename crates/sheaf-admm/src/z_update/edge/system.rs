//! The edge-space operator A = κ + F S Fᵀ and the pairs its adjoint collects.
//!
//! With s_p = Dᵀ p (rows) and t_p = S Pᵀ s_p (states): A p = κ p + D P t_p. The adjoint of a product q = A p:
//!
//! ```text
//! p̄ += A q̄;   κ̄ += q̄·p;   s̄_i += t_p,i·t_q̄,i / s_i²;   dF += s_q̄ t_pᵀ + s_p t_q̄ᵀ
//! ```

use crate::Real;
use crate::sheaf::{MapsGrad, SheafOp};
use crate::z_update::descent::rule::Slope;
use crate::z_update::weights::Weights;
use sheaf_kernels::vector::{axpy, dot};

pub(super) struct EdgeSystem<'a, T> {
    pub op: &'a SheafOp<'a, T>,
    pub weights: Weights<'a, T>,
    pub kappa: T,
    pub b: &'a [T],          // [edges], the right side
    pub y: &'a mut [T],      // [rows]
    pub rows: &'a mut [T],   // [2·products, rows]: s_q̄, then s_p; a forward run has room for one s_p
    pub states: &'a mut [T], // [2·products, states]: t_p, then t_q̄; a forward run has room for one t_p
    pub products: usize,     // how many are kept: one in a forward run
    pub count: usize,        // that have an adjoint, known in the reverse sweep
    // Only in the reverse sweep:
    pub tmp: &'a mut [T], // [edges]
    pub d_b: &'a mut [T], // [edges]
    pub d_s: &'a mut [T], // [agents]
    pub d_kappa: T,
}

impl<T: Real> EdgeSystem<'_, T> {
    /// q = A p, product number `t`.
    pub(super) fn product(&mut self, t: usize, p: &[T], q: &mut [T]) {
        let (n, m) = (self.op.sheaf().state_len(), self.op.sheaf().row_len());
        let room = if self.products == 1 { 0 } else { t };
        let middle = self.rows.len() - self.products * m;
        let s_p = &mut self.rows[middle + room * m..][..m];
        let t_p = &mut self.states[room * n..][..n];
        self.op.raw().coboundary_t(p, t_p, s_p);
        self.weights.scale(self.op.sheaf(), t_p);
        self.op.raw().coboundary(t_p, q, self.y);
        axpy(q, self.kappa, p);
    }

    /// Adjoint of product number `t`: d_p += A d_q.
    pub(super) fn product_vjp(&mut self, t: usize, p: &[T], d_q: &[T], d_p: &mut [T]) {
        let sheaf = self.op.sheaf();
        let (n, m) = (sheaf.state_len(), sheaf.row_len());
        let s_q = &mut self.rows[(self.products - self.count + t) * m..][..m];
        let (front, back) = self.states.split_at_mut(self.count * n);
        let (t_p, t_q) = (&front[t * n..][..n], &mut back[t * n..][..n]);
        self.op.raw().coboundary_t(d_q, t_q, s_q);
        self.weights.scale(sheaf, t_q);
        self.op.raw().coboundary(t_q, self.tmp, self.y);
        axpy(d_p, T::ONE, self.tmp);
        axpy(d_p, self.kappa, d_q);
        self.d_kappa += dot(d_q, p);
        for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
            let (range, s) = (range[0]..range[1], self.weights.of(i));
            self.d_s[i] += dot(&t_p[range.clone()], &t_q[range]) / (s * s);
        }
    }

    /// Adds what all products contribute to the maps.
    pub(super) fn add_pairs(&self, d_maps: &mut MapsGrad<'_, T>) {
        let (n, m) = (self.op.sheaf().state_len(), self.op.sheaf().row_len());
        let rows = &self.rows[(self.products - self.count) * m..][..2 * self.count * m];
        let states = &self.states[..2 * self.count * n];
        d_maps.outers(self.op.sheaf(), self.op.maps(), T::ONE, 2 * self.count, rows, states);
    }
}

/// The energy ½ λᵀA λ − λ·b.
impl<T: Real> Slope<T> for EdgeSystem<'_, T> {
    fn slope(&mut self, t: usize, x: &[T], g: &mut [T]) {
        self.product(t, x, g);
        axpy(g, -T::ONE, self.b);
    }

    fn slope_vjp(&mut self, t: usize, x: &[T], d_g: &mut [T], d_x: &mut [T]) {
        self.product_vjp(t, x, d_g, d_x);
        axpy(self.d_b, -T::ONE, d_g);
    }
}
