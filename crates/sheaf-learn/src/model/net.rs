//! The two networks that a task provides: an encoder of views and a decoder of states.
//!
//! Both hold layers, not parameters: every call takes the flat parameter vector. Forward calls overwrite, adjoints add.

use std::fmt::Debug;

use sheaf_admm::Real;
use sheaf_kernels::Precision;

use crate::rng::Stream;

/// Maps a view to features, which the heads of the model read.
pub trait Encoder: Clone + Debug + Send + Sync + 'static {
    /// Features of some views, what the adjoint needs, and scratch.
    type Work<T: Real>: Default + Debug + Send + Sync;

    /// Sets the precision of the products that tolerate bf16, usually those of all layers, forward and adjoint. An
    /// encoder that does nothing here runs in full precision.
    fn set_precision(&mut self, _precision: Precision) {}

    /// Length of a view.
    fn view_len(&self) -> usize;

    /// Width of the features.
    fn width(&self) -> usize;

    /// Width of the features for the start h, if they differ from the others.
    fn h_width(&self) -> Option<usize> {
        None
    }

    /// Writes the initial values.
    fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream);

    /// Encodes `views` `[rows, view_len]`. Saves: everything in `work`.
    fn forward<T: Real>(&self, params: &[T], views: &[f32], work: &mut Self::Work<T>);

    /// The most recent features, `[rows, width]`.
    fn features<'w, T: Real>(&self, work: &'w Self::Work<T>, rows: usize) -> &'w [T];

    /// The most recent features for the start, `[rows, h_width]`.
    fn h_features<'w, T: Real>(&self, work: &'w Self::Work<T>, rows: usize) -> &'w [T] {
        self.features(work, rows)
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_params`. `d_h` is empty if h has no features of its own.
    fn vjp<T: Real>(
        &self,
        params: &[T],
        views: &[f32],
        d_f: &mut [T], // [rows, width]; overwritten
        d_h: &mut [T], // [rows, h_width]; overwritten
        work: &mut Self::Work<T>,
        d_params: &mut [T],
    );
}

/// Maps an agent's state, and possibly its view, to its outputs.
pub trait Decoder: Clone + Debug + Send + Sync + 'static {
    /// What depends only on the parameters, computed once per batch.
    type Prepared<T: Real>: Default + Debug + Send + Sync;
    /// What depends on a view, computed once per distinct view.
    type Table<T: Real>: Default + Debug + Send + Sync;
    /// Outputs of some rows, what the adjoint needs, and scratch.
    type Work<T: Real>: Default + Debug + Send;

    /// Sets the precision of the products, as for [`Encoder::set_precision`].
    fn set_precision(&mut self, _precision: Precision) {}

    /// Number of outputs of an agent.
    fn outputs(&self) -> usize;

    /// Rows decoded at a time where no gradient is needed.
    fn rows_at_once(&self) -> usize {
        1024
    }

    /// Writes the initial values.
    fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream);

    /// Prepares the decoder for these parameters.
    fn prepare<T: Real>(&self, _params: &[T], _prepared: &mut Self::Prepared<T>) {}

    /// Length of the gradient of what was prepared.
    fn prepared_grad_len(&self) -> usize {
        0
    }

    /// Adjoint of [`prepare`](Self::prepare): adds to `d_params`.
    fn prepare_vjp<T: Real>(&self, _params: &[T], _d_prepared: &[T], _d_params: &mut [T]) {}

    /// Computes what depends on the views `[count, view_len]`.
    fn tabulate<T: Real>(&self, _params: &[T], _views: &[f32], _table: &mut Self::Table<T>) {}

    /// Length of the gradient of a table of this many views.
    fn table_grad_len(&self, _views: usize) -> usize {
        0
    }

    /// Adjoint of [`tabulate`](Self::tabulate): adds to `d_params`.
    fn tabulate_vjp<T: Real>(
        &self,
        _params: &[T],
        _views: &[f32],
        _d_table: &[T],
        _table: &mut Self::Table<T>,
        _d_params: &mut [T],
    ) {
    }

    /// Whether an output depends on all agents of its sample: rows then come in whole samples.
    fn reads_samples(&self) -> bool {
        false
    }

    /// Decodes some rows. Saves: everything in `work`.
    fn forward<T: Real>(&self, rows: &Rows<'_, T, Self>, work: &mut Self::Work<T>);

    /// The most recent outputs, `[rows, outputs]`. The adjoint expects their gradient here.
    fn outputs_of<'w, T: Real>(&self, work: &'w mut Self::Work<T>, rows: usize) -> &'w mut [T];

    /// Adjoint of [`forward`](Self::forward): adds to all of `grad`.
    fn vjp<T: Real>(&self, rows: &Rows<'_, T, Self>, work: &mut Self::Work<T>, grad: DecoderGrad<'_, T>);
}

/// Some rows to decode, and what they are decoded with.
#[derive(Debug)]
pub struct Rows<'a, T: Real, D: Decoder> {
    /// The parameters.
    pub params: &'a [T],
    /// What depends only on them.
    pub prepared: &'a D::Prepared<T>,
    /// What depends on the views.
    pub table: &'a D::Table<T>,
    /// The view of every row.
    pub index: &'a [u32], // [rows]
    /// The states.
    pub x: &'a [T], // [rows, d_v]
    /// Agents of a sample.
    pub agents: usize,
}

/// Where a decoder adds its gradients.
#[derive(Debug)]
pub struct DecoderGrad<'g, T> {
    /// Of the states.
    pub x: &'g mut [T], // [rows, d_v]
    /// Of what was prepared.
    pub prepared: &'g mut [T],
    /// Of the table.
    pub table: &'g mut [T],
    /// Of the parameters.
    pub params: &'g mut [T],
}
