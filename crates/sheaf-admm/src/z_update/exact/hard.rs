//! The solution with the factor of A: directly where all edges are soft, by conjugate gradients on the multipliers of the
//! hard edges otherwise.

use crate::Real;
use crate::clock;
use crate::linalg::norms::largest;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{Sheaf, SheafOp};
use crate::z_update::weights::Weights;
use sheaf_kernels::sparse::SparseSymbolic;
use sheaf_kernels::vector::{add, axpy, dot, xpby};

/// A factored system.
pub(super) struct Augmented<'a, T, C, H> {
    pub op: &'a SheafOp<'a, T>,
    pub weights: &'a Weights<'a, T>,
    pub symbolic: &'a SparseSymbolic,
    pub factor: &'a [T],
    /// τ.
    pub tau: T,
    /// The largest squared row of F among the hard edges.
    pub row: T,
    /// c_e.
    pub coefficient: C,
    /// Whether an edge is hard.
    pub hard: H,
}

/// Length of the scratch of [`Augmented::solve`] besides that of the factor.
pub(super) fn hard_scratch_len(sheaf: &Sheaf) -> usize {
    sheaf.row_len() + 3 * sheaf.state_len() + 4 * sheaf.edge_len()
}

/// Passes of refinement, and steps of conjugate gradients in each.
const PASSES: usize = 4;
const STEPS: usize = 200;

struct Work<'s, T> {
    rows: &'s mut [T],   // [rows]
    g: &'s mut [T],      // [states]
    dz: &'s mut [T],     // [states]
    q: &'s mut [T],      // [states]
    r: &'s mut [T],      // [edges]
    p: &'s mut [T],      // [edges]
    bp: &'s mut [T],     // [edges]
    dx: &'s mut [T],     // [edges]
    solver: &'s mut [T], // the factor's
}

impl<T: Real, C: Fn(usize) -> T, H: Fn(usize) -> bool> Augmented<'_, T, C, H> {
    /// z and its multipliers x for target `w`, by refinement from z = w, x = 0: every pass solves for the residuals
    /// g = R̂(w − z) − Fᵀx of the states and F z − b of the edges.
    pub(super) fn solve(&self, w: &[T], affine: bool, z: &mut [T], x: &mut [T], scratch: &mut [T]) {
        let sheaf = self.op.sheaf();
        let (n, e) = (sheaf.state_len(), sheaf.edge_len());
        let mut scratch = Scratch::new(scratch);
        let (rows, g, dz, q) =
            (scratch.take(sheaf.row_len()), scratch.take(n), scratch.take(n), scratch.take(n));
        let (r, p, bp, dx) = (scratch.take(e), scratch.take(e), scratch.take(e), scratch.take(e));
        let mut work = Work { rows, g, dz, q, r, p, bp, dx, solver: scratch.rest() };
        z.copy_from_slice(w);
        x.fill(T::ZERO);
        let mut last = T::INFINITY;
        let small = T::EPSILON * T::from_f64(8.0);
        let floor = small * largest(w);
        let b = if affine { self.op.raw().offsets().map_or(T::ZERO, largest) } else { T::ZERO };
        let floor_edges = small * (self.row.sqrt() * largest(w) + b);
        for _ in 0..PASSES {
            let size = self.residuals(w, affine, z, x, &mut work);
            // Refinement ends at rounding level, or when it no longer helps.
            if size + size >= last || size <= floor || !size.is_finite() {
                break;
            }
            last = size;
            self.pass(floor_edges, &mut work);
            add(z, work.dz);
            add(x, work.dx);
        }
        self.soft_multipliers(affine, z, x, &mut work);
    }

    /// g, and the residual of the edges in r; returns their size.
    fn residuals(&self, w: &[T], affine: bool, z: &[T], x: &mut [T], work: &mut Work<'_, T>) -> T {
        let Work { rows, g, r, .. } = work;
        self.soft_multipliers_into(affine, z, x, r, rows);
        self.op.raw().coboundary_t(x, g, rows);
        for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
            for k in range[0]..range[1] {
                g[k] = (w[k] - z[k]) / self.weights.of(i) - g[k];
            }
        }
        self.only_hard(r);
        largest(g) + largest(r)
    }

    /// x_e = c_e(F z − b)_e on soft edges; leaves F z − b in `r`.
    fn soft_multipliers_into(&self, affine: bool, z: &[T], x: &mut [T], r: &mut [T], rows: &mut [T]) {
        self.op.raw().coboundary(z, r, rows);
        if affine {
            self.op.raw().subtract_offsets(r);
        }
        for (e, edge) in self.op.sheaf().edges().iter().enumerate().filter(|(e, _)| !(self.hard)(*e)) {
            let c = (self.coefficient)(e);
            for k in edge.start as usize..(edge.start + edge.dim) as usize {
                x[k] = c * r[k];
            }
        }
    }

    fn soft_multipliers(&self, affine: bool, z: &[T], x: &mut [T], work: &mut Work<'_, T>) {
        let Work { r, rows, .. } = work;
        self.soft_multipliers_into(affine, z, x, r, rows);
    }

    /// Sets the residuals of soft edges to 0: those equations are part of A.
    fn only_hard(&self, r: &mut [T]) {
        for (e, edge) in self.op.sheaf().edges().iter().enumerate() {
            if !(self.hard)(e) {
                r[edge.start as usize..(edge.start + edge.dim) as usize].fill(T::ZERO);
            }
        }
    }

    /// p ← c∘p on hard edges, which are all that p has.
    fn stiffen(&self, p: &mut [T]) {
        for (e, edge) in self.op.sheaf().edges().iter().enumerate().filter(|(e, _)| (self.hard)(*e)) {
            let c = (self.coefficient)(e);
            p[edge.start as usize..(edge.start + edge.dim) as usize].iter_mut().for_each(|p| *p *= c);
        }
    }

    /// One pass: dz, dx with A dz + Fᵀdx = g − τFᵀr and F dz = −r on the hard edges, the latter up to `floor`, the rounding
    /// error of F z. Below it r has parts outside the range of F, which no step removes.
    fn pass(&self, floor: T, work: &mut Work<'_, T>) {
        let raw = self.op.raw();
        let Work { rows, g, dz, q, r, p, bp, dx, solver } = work;
        dx.fill(T::ZERO);
        // Squares of tiny or huge residuals would leave the range of the type.
        let scale = largest(g).max(largest(r));
        g.iter_mut().chain(r.iter_mut()).for_each(|v| *v /= scale);
        let floor = floor / scale * T::from_f64(r.len() as f64).sqrt();
        let any = r.iter().any(|&r| r != T::ZERO);
        dz.copy_from_slice(g);
        if any {
            p.copy_from_slice(r);
            self.stiffen(p);
            raw.coboundary_t(p, q, rows);
            axpy(dz, -T::ONE, q);
        }
        T::sparse_solve(self.symbolic, self.factor, dz, solver);
        // r becomes F dz + r.
        raw.coboundary(dz, bp, rows);
        self.only_hard(bp);
        add(r, bp);
        let mut c = dot(r, r);
        let flat = T::EPSILON.sqrt() * T::EPSILON.sqrt().sqrt() / self.tau;
        p.copy_from_slice(r);
        for _ in 0..STEPS {
            if c.sqrt() <= floor || clock::late() {
                break;
            }
            raw.coboundary_t(p, q, rows);
            T::sparse_solve(self.symbolic, self.factor, q, solver);
            raw.coboundary(q, bp, rows);
            self.only_hard(bp);
            let length = dot(p, bp);
            if !(length > flat * dot(p, p) && length.is_finite()) {
                break;
            }
            let a = c / length;
            axpy(dx, a, p);
            axpy(dz, -a, q);
            axpy(r, -a, bp);
            let next = dot(r, r);
            xpby(p, r, next / c);
            c = next;
        }
        // What is left of r enters the equations of the states with the weight τ, and would be an error of their size.
        self.stiffen(r);
        add(dx, r);
        dz.iter_mut().chain(dx.iter_mut()).for_each(|v| *v *= scale);
    }
}
