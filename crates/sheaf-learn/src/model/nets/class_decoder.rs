//! A decoder of states to classes. Every agent votes, outputs = x W + b, or one network reads the mean of all agents:
//!
//! ```text
//! m = mean over agents of x      f = block(m W₀ + b₀)      outputs of every agent = f W + b
//! ```
//!
//! With the mean, all agents of a sample have the same outputs: losses and votes then need not know which kind it is.
//!
//! | array | shape |
//! | --- | --- |
//! | x | samples, agents, d_v |
//! | m | samples, d_v |
//! | f₀, f | samples, hidden |
//! | outputs | samples, agents, classes |

use sheaf_admm::Real;
use sheaf_kernels::Precision;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::add;

use crate::model::net::{Decoder, DecoderGrad, Rows};
use crate::nn::{Linear, Residual};
use crate::params::ParamLayout;
use crate::rng::Stream;

/// The layers.
#[derive(Clone, Debug)]
pub struct ClassDecoder {
    pooled: Option<(Linear, Residual)>,
    out: Linear,
}

/// Outputs of some rows, and what the adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct ClassWork<T: Copy + Default> {
    outputs: AlignedVec<T>, // [rows, classes]
    mean: AlignedVec<T>,    // [samples, d_v]
    f0: AlignedVec<T>,      // [samples, hidden]
    f: AlignedVec<T>,       // [samples, hidden]
    saved: AlignedVec<T>,   // the block's
    logits: AlignedVec<T>,  // [samples, classes]
    d_f0: AlignedVec<T>,    // [samples, hidden]
    d_f: AlignedVec<T>,     // [samples, hidden]
    scratch: AlignedVec<T>, // the block's
}

impl ClassDecoder {
    /// Declares `decoder/out`: every agent votes.
    pub fn votes(layout: &mut ParamLayout, d_v: usize, classes: usize) -> Self {
        Self { pooled: None, out: Linear::new(layout, "decoder/out", d_v, classes, true) }
    }

    /// Declares `decoder/input`, `decoder/block` and `decoder/out`: one network reads the mean of all agents.
    pub fn of_mean(layout: &mut ParamLayout, d_v: usize, hidden: usize, classes: usize) -> Self {
        let input = Linear::new(layout, "decoder/input", d_v, hidden, true);
        let block = Residual::new(layout, "decoder/block", hidden, hidden);
        let out = Linear::new(layout, "decoder/out", hidden, classes, true);
        Self { pooled: Some((input, block)), out }
    }
}

impl Decoder for ClassDecoder {
    type Prepared<T: Real> = ();
    type Table<T: Real> = ();
    type Work<T: Real> = ClassWork<T>;

    fn set_precision(&mut self, precision: Precision) {
        self.out.set_precision(precision);
        if let Some((input, block)) = &mut self.pooled {
            input.set_precision(precision);
            block.set_precision(precision);
        }
    }

    fn outputs(&self) -> usize {
        self.out.output()
    }

    fn reads_samples(&self) -> bool {
        self.pooled.is_some()
    }

    fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        if let Some((input, block)) = &self.pooled {
            input.init(params, stream);
            block.init(params, stream);
        }
        self.out.init(params, stream);
    }

    fn forward<T: Real>(&self, rows: &Rows<'_, T, Self>, w: &mut ClassWork<T>) {
        let (classes, count) = (self.outputs(), rows.index.len());
        w.outputs.ensure(count * classes);
        let Some((input, block)) = &self.pooled else {
            return self.out.forward(rows.params, rows.x, &mut w.outputs[..count * classes]);
        };
        let (samples, d_v) = (count / rows.agents, input.input());
        let hidden = samples * input.output();
        w.mean.ensure(samples * d_v);
        w.f0.ensure(hidden);
        w.f.ensure(hidden);
        w.saved.ensure(block.saved_len(samples));
        w.logits.ensure(samples * classes);
        let (mean, share) = (&mut w.mean[..samples * d_v], T::ONE / T::from_f64(rows.agents as f64));
        for (mean, x) in mean.chunks_exact_mut(d_v).zip(rows.x.chunks_exact(rows.agents * d_v)) {
            mean.fill(T::ZERO);
            x.chunks_exact(d_v).for_each(|x| add(mean, x));
            mean.iter_mut().for_each(|m| *m *= share);
        }
        input.forward(rows.params, mean, &mut w.f0[..hidden]);
        block.forward(rows.params, &w.f0[..hidden], &mut w.f[..hidden], &mut w.saved);
        self.out.forward(rows.params, &w.f[..hidden], &mut w.logits[..samples * classes]);
        let outputs = w.outputs[..count * classes].chunks_exact_mut(rows.agents * classes);
        for (outputs, logits) in outputs.zip(w.logits.chunks_exact(classes)) {
            outputs.chunks_exact_mut(classes).for_each(|row| row.copy_from_slice(logits));
        }
    }

    fn outputs_of<'w, T: Real>(&self, work: &'w mut ClassWork<T>, rows: usize) -> &'w mut [T] {
        &mut work.outputs[..rows * self.outputs()]
    }

    fn vjp<T: Real>(&self, rows: &Rows<'_, T, Self>, w: &mut ClassWork<T>, grad: DecoderGrad<'_, T>) {
        let (classes, count) = (self.outputs(), rows.index.len());
        let d_out = &w.outputs[..count * classes];
        let Some((input, block)) = &self.pooled else {
            return self.out.vjp(rows.params, rows.x, d_out, Some(grad.x), grad.params);
        };
        let (samples, d_v) = (count / rows.agents, input.input());
        let hidden = samples * input.output();
        w.d_f0.ensure(hidden);
        w.d_f.ensure(hidden);
        w.scratch.ensure(block.scratch_len(samples));
        let d_logits = &mut w.logits[..samples * classes];
        for (d_logits, d_out) in
            d_logits.chunks_exact_mut(classes).zip(d_out.chunks_exact(rows.agents * classes))
        {
            d_logits.fill(T::ZERO);
            d_out.chunks_exact(classes).for_each(|row| add(d_logits, row));
        }
        let (f0, f, mean) = (&w.f0[..hidden], &w.f[..hidden], &mut w.mean[..samples * d_v]);
        let (d_f0, d_f) = (&mut w.d_f0[..hidden], &mut w.d_f[..hidden]);
        d_f0.fill(T::ZERO);
        d_f.fill(T::ZERO);
        self.out.vjp(rows.params, f, d_logits, Some(d_f), grad.params);
        block.vjp(rows.params, f0, &w.saved, d_f, Some(d_f0), grad.params, &mut w.scratch);
        input.vjp_weights(mean, d_f0, grad.params);
        // The mean is not needed any more: its gradient takes its place.
        input.vjp_input(rows.params, d_f0, mean);
        let share = T::ONE / T::from_f64(rows.agents as f64);
        for (mean, d_x) in mean.chunks_exact_mut(d_v).zip(grad.x.chunks_exact_mut(rows.agents * d_v)) {
            mean.iter_mut().for_each(|m| *m *= share);
            d_x.chunks_exact_mut(d_v).for_each(|d_x| add(d_x, mean));
        }
    }
}
