//! An encoder of tokens: f = gelu(dense(rms(one-hot view))).
//!
//! | array | shape |
//! | --- | --- |
//! | view | rows, tokens; each a whole number below `classes` |
//! | one-hot view | rows, tokens·classes |
//! | f | rows, hidden |

use sheaf_admm::Real;
use sheaf_kernels::Precision;
use sheaf_kernels::aligned::AlignedVec;

use crate::model::net::Encoder;
use crate::nn::{Linear, RmsNorm, activation};
use crate::params::ParamLayout;
use crate::rng::Stream;

/// The layers.
#[derive(Clone, Debug)]
pub struct TokenMlp {
    input_norm: RmsNorm,
    dense: Linear,
    classes: usize,
}

/// Features of some views, and what the adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct TokenWork<T: Copy + Default> {
    one_hot: AlignedVec<T>, // [rows, tokens·classes]
    normed: AlignedVec<T>,  // [rows, tokens·classes]; its gradient in the adjoint
    slope: AlignedVec<T>,   // [rows, hidden]
    f: AlignedVec<T>,       // [rows, hidden]
    d_pre: AlignedVec<T>,   // [rows, hidden]
}

impl TokenMlp {
    /// Declares `encoder/input_norm` and `encoder/dense`.
    pub fn new(layout: &mut ParamLayout, tokens: usize, classes: usize, hidden: usize) -> Self {
        let input = tokens * classes;
        Self {
            input_norm: RmsNorm::new(layout, "encoder/input_norm", input),
            dense: Linear::new(layout, "encoder/dense", input, hidden, true),
            classes,
        }
    }
}

/// One-hot encoding of each token. Tokens without a class stay zero.
pub fn one_hot<T: Real>(tokens: &[f32], classes: usize, out: &mut [T]) {
    out.fill(T::ZERO);
    for (&token, classes) in tokens.iter().zip(out.chunks_exact_mut(classes)) {
        if let Some(class) = classes.get_mut(token as usize) {
            *class = T::ONE;
        }
    }
}

impl Encoder for TokenMlp {
    type Work<T: Real> = TokenWork<T>;

    fn set_precision(&mut self, precision: Precision) {
        self.dense.set_precision(precision);
    }

    fn view_len(&self) -> usize {
        self.dense.input() / self.classes
    }

    fn width(&self) -> usize {
        self.dense.output()
    }

    fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.input_norm.init(params);
        self.dense.init(params, stream);
    }

    fn forward<T: Real>(&self, params: &[T], views: &[f32], w: &mut TokenWork<T>) {
        let (rows, input) = (views.len() / self.view_len(), self.dense.input());
        let hidden = rows * self.width();
        w.one_hot.ensure(rows * input);
        w.normed.ensure(rows * input);
        w.slope.ensure(hidden);
        w.f.ensure(hidden);
        let (one_hot_view, normed) = (&mut w.one_hot[..rows * input], &mut w.normed[..rows * input]);
        one_hot(views, self.classes, one_hot_view);
        self.input_norm.forward(params, one_hot_view, normed);
        self.dense.forward(params, normed, &mut w.slope[..hidden]);
        activation::gelu_keeping_slope(&mut w.slope[..hidden], &mut w.f[..hidden]);
    }

    fn features<'w, T: Real>(&self, work: &'w TokenWork<T>, rows: usize) -> &'w [T] {
        &work.f[..rows * self.width()]
    }

    fn vjp<T: Real>(
        &self,
        params: &[T],
        views: &[f32],
        d_f: &mut [T],
        _d_h: &mut [T],
        w: &mut TokenWork<T>,
        d_params: &mut [T],
    ) {
        let (rows, input) = (views.len() / self.view_len(), self.dense.input());
        let hidden = rows * self.width();
        w.d_pre.ensure(hidden);
        let d_pre = &mut w.d_pre[..hidden];
        d_pre.fill(T::ZERO);
        activation::gelu_vjp(&w.slope[..hidden], d_f, d_pre);
        let normed = &mut w.normed[..rows * input];
        self.dense.vjp_weights(normed, d_pre, d_params);
        self.dense.vjp_input(params, d_pre, normed);
        self.input_norm.vjp(params, &w.one_hot[..rows * input], normed, None, d_params);
    }
}
