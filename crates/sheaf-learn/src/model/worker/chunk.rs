//! Gradients of a chunk of a batch.

use sheaf_admm::Real;
use sheaf_admm::sheaf::SharedStackGrad;
use sheaf_kernels::aligned::AlignedVec;

use crate::model::net::{Decoder, Encoder};
use crate::model::{Model, Prepared};

/// Gradients of a chunk of a batch.
#[derive(Debug)]
pub struct ChunkGrad<T: Real> {
    /// Of the parameters that samples use directly.
    pub params: Vec<T>, // [layout.len()]
    /// Of what the decoder prepared.
    pub decoder: AlignedVec<T>,
    /// Of the maps that all agents share.
    pub shared: SharedStackGrad<T>,
    /// Sum of the losses.
    pub loss: f64,
    /// First sample of the batch with a loss that is not finite.
    pub bad: Option<usize>,
}

impl<T: Real> Default for ChunkGrad<T> {
    fn default() -> Self {
        let (params, decoder, shared) = Default::default();
        Self { params, decoder, shared, loss: 0.0, bad: None }
    }
}

impl<T: Real> ChunkGrad<T> {
    /// Zeros for a model.
    pub fn reset<E: Encoder, D: Decoder>(&mut self, model: &Model<E, D>, prepared: &Prepared<T, D>) {
        model.maps.reset_shared(&prepared.maps, &mut self.shared);
        self.params.resize(model.layout.len(), T::ZERO);
        self.params[model.touched.clone()].fill(T::ZERO);
        self.decoder.ensure(model.decoder.prepared_grad_len());
        self.decoder.fill(T::ZERO);
        self.loss = 0.0;
        self.bad = None;
    }

    /// Adds the loss of a sample and records the first one that is not finite.
    pub fn count(&mut self, sample: usize, loss: T) {
        if loss.is_finite() {
            self.loss += loss.to_f64();
        } else {
            self.lost(sample);
        }
    }

    /// Records that this sample is not finite.
    pub fn lost(&mut self, sample: usize) {
        self.loss = f64::NAN;
        self.bad = Some(self.bad.map_or(sample, |bad| bad.min(sample)));
    }
}
