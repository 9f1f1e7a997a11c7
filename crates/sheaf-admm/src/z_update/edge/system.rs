//! The edge-space operator A = κ + F S Fᵀ and its adjoint.
//!
//! With s_p = Dᵀ p (rows) and t_p = S Pᵀ s_p (states): A p = κ p + D P t_p. The adjoint of a product k = A p:
//!
//! ```text
//! d_p += A d_k;   d_κ += d_k·p;   d_s_i += t_p,i·t_dk,i / s_i²;   dF += s_dk t_pᵀ + s_p t_dkᵀ
//! ```

use super::products::{Products, Rooms};
use crate::Real;
use crate::sheaf::SheafOp;
use crate::z_update::descent::rule::Slope;
use crate::z_update::krylov::{LinearMap, LinearMapVjp, Pair};
use crate::z_update::solution::Kappa;
use crate::z_update::weights::Weights;
use sheaf_kernels::vector::{add, axpy, dot, scale_into};

pub(super) struct EdgeSystem<'a, T> {
    pub op: &'a SheafOp<'a, T>,
    pub weights: Weights<'a, T>,
    pub kappa: Kappa<'a, T>,
    pub b: &'a [T],     // [edges], the right side
    pub y: &'a mut [T], // [rows]
    pub products: Products<'a, T>,
    /// Number of the product of the first step.
    pub first: usize,
    /// Empty in a forward run.
    pub grad: EdgeGrad<'a, T>,
}

/// Where the adjoints of the products add their gradients.
pub(super) struct EdgeGrad<'a, T> {
    pub tmp: &'a mut [T], // [edges], scratch
    pub d_b: &'a mut [T], // [edges]
    pub d_s: &'a mut [T], // [agents]
    pub d_kappa: T,
}

impl<T: Real> EdgeGrad<'_, T> {
    /// For a forward run.
    pub(super) fn none() -> Self {
        Self { tmp: &mut [], d_b: &mut [], d_s: &mut [], d_kappa: T::ZERO }
    }
}

impl<T: Real> EdgeSystem<'_, T> {
    /// k = A p, product number `number`.
    pub(super) fn product(&mut self, number: usize, p: &[T], k: &mut [T]) {
        let (s_p, t_p) = self.products.kept(number);
        self.op.raw().coboundary_t(p, t_p, s_p);
        self.weights.scale(self.op.sheaf(), t_p);
        self.op.raw().coboundary(t_p, k, self.y);
        self.kappa.add_to(self.op.sheaf(), p, k);
    }

    /// out = A d_k, for product number `number`.
    fn product_vjp(&mut self, number: usize, d_k: &[T], out: &mut [T]) {
        let Rooms { s_dk, t_dk, .. } = self.products.rooms(number);
        self.op.raw().coboundary_t(d_k, t_dk, s_dk);
        self.weights.scale(self.op.sheaf(), t_dk);
        self.op.raw().coboundary(t_dk, out, self.y);
        self.kappa.add_to(self.op.sheaf(), d_k, out);
    }

    /// Adds d_κ and d_s of product number `number`; `along_p` is d_k·p.
    fn add_scalars(&mut self, number: usize, along_p: T) {
        self.grad.d_kappa += along_p;
        let Rooms { t_p, t_dk, .. } = self.products.rooms(number);
        for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
            let (range, s) = (range[0]..range[1], self.weights.of(i));
            self.grad.d_s[i] += dot(&t_p[range.clone()], &t_dk[range]) / (s * s);
        }
    }

    /// Adjoint of product number `number`: d_p += A d_k, and the gradient of A.
    pub(super) fn add_product_vjp(&mut self, number: usize, p: &[T], d_k: &[T], d_p: &mut [T]) {
        let tmp = std::mem::take(&mut self.grad.tmp);
        self.product_vjp(number, d_k, tmp);
        add(d_p, tmp);
        self.grad.tmp = tmp;
        self.add_scalars(number, dot(d_k, p));
    }
}

impl<T: Real> LinearMap<T> for EdgeSystem<'_, T> {
    fn apply(&mut self, t: usize, p: &[T], k: &mut [T]) {
        self.product(self.first + t, p, k);
    }
}

impl<T: Real> LinearMapVjp<T> for EdgeSystem<'_, T> {
    fn apply_vjp(&mut self, t: usize, d_k: &[T], out: &mut [T]) {
        self.product_vjp(self.first + t, d_k, out);
    }

    fn apply_aligned_vjp(&mut self, t: usize, factor: T, pair: &Pair<'_, T>, out: &mut [T]) {
        let Rooms { s_p, t_p, s_dk, t_dk } = self.products.rooms(self.first + t);
        scale_into(s_dk, factor, s_p);
        scale_into(t_dk, factor, t_p);
        scale_into(out, factor, pair.k);
    }

    fn add_pair(&mut self, t: usize, pair: &Pair<'_, T>, _a_dk: &[T]) {
        self.add_scalars(self.first + t, pair.along_p);
    }
}

/// The energy ½ λᵀA λ − λ·b.
impl<T: Real> Slope<T> for EdgeSystem<'_, T> {
    fn dot(&self, a: &[T], b: &[T]) -> T {
        sheaf_kernels::vector::dot(a, b)
    }

    fn slope(&mut self, t: usize, x: &[T], g: &mut [T]) {
        self.product(t, x, g);
        axpy(g, -T::ONE, self.b);
    }

    fn slope_vjp(&mut self, t: usize, x: &[T], d_g: &mut [T], d_x: &mut [T]) {
        self.add_product_vjp(t, x, d_g, d_x);
        axpy(self.grad.d_b, -T::ONE, d_g);
    }
}
