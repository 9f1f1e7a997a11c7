//! An encoder of numeric views: f₀ = input(view), f = f₀ + dense₂ gelu(dense₁ rms(f₀)).
//!
//! | array | shape |
//! | --- | --- |
//! | view | rows, view_len |
//! | f₀, f | rows, hidden |

use sheaf_admm::Real;
use sheaf_kernels::Precision;
use sheaf_kernels::aligned::AlignedVec;

use crate::model::net::Encoder;
use crate::nn::{Linear, Residual};
use crate::params::ParamLayout;
use crate::rng::Stream;

/// The layers.
#[derive(Clone, Debug)]
pub struct ResidualMlp {
    input: Linear,
    block: Residual,
}

/// Features of some views, and what the adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct ResidualWork<T: Copy + Default> {
    views: AlignedVec<T>,   // [rows, view_len]
    f0: AlignedVec<T>,      // [rows, hidden]
    saved: AlignedVec<T>,   // the block's
    f: AlignedVec<T>,       // [rows, hidden]
    d_f0: AlignedVec<T>,    // [rows, hidden]
    scratch: AlignedVec<T>, // the block's
}

impl ResidualMlp {
    /// Declares `encoder/input` and `encoder/block`.
    pub fn new(layout: &mut ParamLayout, view_len: usize, hidden: usize) -> Self {
        Self {
            input: Linear::new(layout, "encoder/input", view_len, hidden, true),
            block: Residual::new(layout, "encoder/block", hidden, hidden),
        }
    }
}

impl Encoder for ResidualMlp {
    type Work<T: Real> = ResidualWork<T>;

    fn set_precision(&mut self, precision: Precision) {
        self.input.set_precision(precision);
        self.block.set_precision(precision);
    }

    fn view_len(&self) -> usize {
        self.input.input()
    }

    fn width(&self) -> usize {
        self.input.output()
    }

    fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.input.init(params, stream);
        self.block.init(params, stream);
    }

    fn forward<T: Real>(&self, params: &[T], views: &[f32], w: &mut ResidualWork<T>) {
        let rows = views.len() / self.view_len();
        let hidden = rows * self.width();
        w.views.ensure(views.len());
        w.f0.ensure(hidden);
        w.f.ensure(hidden);
        w.saved.ensure(self.block.saved_len(rows));
        w.views.iter_mut().zip(views).for_each(|(to, &v)| *to = T::from_f64(f64::from(v)));
        self.input.forward(params, &w.views[..views.len()], &mut w.f0[..hidden]);
        self.block.forward(params, &w.f0[..hidden], &mut w.f[..hidden], &mut w.saved);
    }

    fn features<'w, T: Real>(&self, work: &'w ResidualWork<T>, rows: usize) -> &'w [T] {
        &work.f[..rows * self.width()]
    }

    fn vjp<T: Real>(
        &self,
        params: &[T],
        views: &[f32],
        d_f: &mut [T],
        _d_h: &mut [T],
        w: &mut ResidualWork<T>,
        d_params: &mut [T],
    ) {
        let rows = views.len() / self.view_len();
        let hidden = rows * self.width();
        w.d_f0.ensure(hidden);
        w.scratch.ensure(self.block.scratch_len(rows));
        let d_f0 = &mut w.d_f0[..hidden];
        d_f0.fill(T::ZERO);
        self.block.vjp(params, &w.f0[..hidden], &w.saved, d_f, Some(d_f0), d_params, &mut w.scratch);
        self.input.vjp(params, &w.views[..views.len()], d_f0, None, d_params);
    }
}
