//! Gates of the LoRA update, one per slot: the factor A_i\[s\] of a view is multiplied by g_i\[s\].
//!
//! ```text
//! g = sigmoid(· norm(f))     A' = g A     d_g = ⟨A, d_A'⟩     d_A = g d_A'
//! ```
//!
//! | array | shape |
//! | --- | --- |
//! | g | views, slots |
//! | A, A' | views, slots, d_e, rank |

use std::ops::Range;

use sheaf_admm::{Precision, Real};
use sheaf_kernels::aligned::AlignedVec;

use crate::nn::{Linear, activation};
use crate::params::ParamLayout;
use crate::rng::Stream;

/// The layer of the gates.
#[derive(Clone, Debug)]
pub struct Gates {
    head: Linear,
}

/// Gates of some views, and buffers of their adjoint.
#[derive(Clone, Debug, Default)]
pub struct Open<T: Copy + Default> {
    g: AlignedVec<T>,     // [views, slots]
    d_g: AlignedVec<T>,   // [views, slots]
    d_raw: AlignedVec<T>, // [views, slots]
    a: AlignedVec<T>,     // [views, slots, d_e, rank]
}

impl Gates {
    /// Declares the parameters.
    pub fn new(layout: &mut ParamLayout, width: usize, slots: usize) -> Self {
        Self { head: Linear::new(layout, "encoder/low_rank_gate", width, slots, true) }
    }

    /// Writes the initial values.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.head.init(params, stream);
    }

    /// Sets the precision of the products.
    pub fn set_precision(&mut self, precision: Precision) {
        self.head.set_precision(precision);
    }

    /// The gates of all views. Saves: g.
    pub fn forward<T: Real>(&self, params: &[T], f_norm: &[T], views: usize, open: &mut Open<T>) {
        let n = views * self.head.output();
        open.g.ensure(n);
        open.d_raw.ensure(n);
        self.head.forward(params, f_norm, &mut open.d_raw[..n]);
        activation::sigmoid(&open.d_raw[..n], &mut open.g[..n]);
    }

    /// Multiplies the factors `a` of the views `range` by their gates.
    pub fn apply<T: Real>(&self, range: Range<usize>, open: &Open<T>, a: &mut [T]) {
        let slots = self.head.output();
        let g = &open.g[range.start * slots..range.end * slots];
        scale(a, g);
    }

    /// Adjoint of [`forward`](Self::forward) and [`apply`](Self::apply): adds to `d_f_norm` and `d_params`, and returns
    /// the gradient of the factors before the gates, which the layer `a_head` computes again.
    pub fn vjp<'o, T: Real>(
        &self,
        params: &[T],
        a_head: &Linear,
        f_norm: &[T],
        d_a: &[T], // of the gated factors
        open: &'o mut Open<T>,
        d_f_norm: &mut [T],
        d_params: &mut [T],
    ) -> &'o [T] {
        let Open { g, d_g, d_raw, a } = open;
        let n = d_a.len() / a_head.output() * self.head.output();
        a.ensure(d_a.len());
        d_g.ensure(n);
        let (a, g, d_g, d_raw) = (&mut a[..d_a.len()], &g[..n], &mut d_g[..n], &mut d_raw[..n]);
        a_head.forward(params, f_norm, a);
        let block = d_a.len() / n.max(1);
        for ((d_g, a), d_a) in d_g.iter_mut().zip(a.chunks_exact(block)).zip(d_a.chunks_exact(block)) {
            *d_g = a.iter().zip(d_a).map(|(&a, &d)| a * d).sum();
        }
        d_raw.fill(T::ZERO);
        activation::sigmoid_vjp(g, d_g, d_raw);
        self.head.vjp(params, f_norm, d_raw, Some(d_f_norm), d_params);
        a.copy_from_slice(d_a);
        scale(a, g);
        a
    }
}

/// Multiplies the block of each slot by its gate.
fn scale<T: Real>(a: &mut [T], g: &[T]) {
    let block = a.len() / g.len().max(1);
    for (block, &g) in a.chunks_exact_mut(block.max(1)).zip(g) {
        block.iter_mut().for_each(|a| *a *= g);
    }
}
