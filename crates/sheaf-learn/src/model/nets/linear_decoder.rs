//! A decoder that reads only the state: outputs = x W + b.

use sheaf_admm::Real;
use sheaf_kernels::Precision;
use sheaf_kernels::aligned::AlignedVec;

use crate::model::net::{Decoder, DecoderGrad, Rows};
use crate::nn::Linear;
use crate::params::ParamLayout;
use crate::rng::Stream;

/// The layer.
#[derive(Clone, Debug)]
pub struct LinearDecoder(Linear);

/// Outputs of some rows.
#[derive(Clone, Debug, Default)]
pub struct LinearWork<T: Copy + Default> {
    outputs: AlignedVec<T>, // [rows, outputs]
}

impl LinearDecoder {
    /// Declares `decoder/out`.
    pub fn new(layout: &mut ParamLayout, d_v: usize, outputs: usize) -> Self {
        Self(Linear::new(layout, "decoder/out", d_v, outputs, true))
    }
}

impl Decoder for LinearDecoder {
    type Prepared<T: Real> = ();
    type Table<T: Real> = ();
    type Work<T: Real> = LinearWork<T>;

    fn set_precision(&mut self, precision: Precision) {
        self.0.set_precision(precision);
    }

    fn outputs(&self) -> usize {
        self.0.output()
    }

    fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.0.init(params, stream);
    }

    fn forward<T: Real>(&self, rows: &Rows<'_, T, Self>, work: &mut LinearWork<T>) {
        let len = rows.index.len() * self.outputs();
        work.outputs.ensure(len);
        self.0.forward(rows.params, rows.x, &mut work.outputs[..len]);
    }

    fn outputs_of<'w, T: Real>(&self, work: &'w mut LinearWork<T>, rows: usize) -> &'w mut [T] {
        &mut work.outputs[..rows * self.outputs()]
    }

    fn vjp<T: Real>(&self, rows: &Rows<'_, T, Self>, work: &mut LinearWork<T>, grad: DecoderGrad<'_, T>) {
        let d_out = &work.outputs[..rows.index.len() * self.outputs()];
        self.0.vjp(rows.params, rows.x, d_out, Some(grad.x), grad.params);
    }
}
