//! From states to outputs, and from outputs to the loss and its gradient.

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;

use super::{ChunkGrad, Setting};
use crate::model::net::{Decoder, DecoderGrad, Encoder};
use crate::model::tables::TableGrad;
use crate::model::views::{Samples, Targets};

/// Buffers of the decoder and of the loss.
#[derive(Debug)]
pub(super) struct Readout<T: Real, D: Decoder> {
    decoder: D::Work<T>,
    rows: Vec<u32>,              // [W, agents], the views of the decoder's rows
    exps: AlignedVec<T>,         // [agents, outputs]
    targets: Vec<Targets>,       // [samples]
    pub outputs: AlignedVec<T>,  // [agents, outputs]
    pub d_states: AlignedVec<T>, // [W, states]
}

impl<T: Real, D: Decoder> Default for Readout<T, D> {
    fn default() -> Self {
        Self {
            decoder: D::Work::default(),
            rows: Vec::new(),
            exps: AlignedVec::default(),
            targets: Vec::new(),
            outputs: AlignedVec::default(),
            d_states: AlignedVec::default(),
        }
    }
}

/// The loss of some samples of a batch: which samples, and the weight of one loss term.
#[derive(Clone, Copy)]
pub struct Aim<'a, T> {
    /// The samples of the batch.
    pub samples: &'a dyn Samples,
    /// The first of them.
    pub first: usize,
    /// The weight of one loss term.
    pub weight: T,
}

impl<T: Real, D: Decoder> Readout<T, D> {
    /// Decodes states of agents with the views `index` into `outputs`.
    pub fn decode<E: Encoder>(&mut self, at: &Setting<'_, T, E, D>, index: &[u32], states: &[T]) {
        let (decoder, agents) = (&at.model.decoder, at.sheaf.agents());
        let (d_v, outputs) = (at.model.section.d_v, decoder.outputs());
        let most = rows_at_once(decoder, agents);
        self.outputs.ensure(index.len() * outputs);
        let parts = index.chunks(most).zip(states.chunks(most * d_v));
        for ((index, x), out) in parts.zip(self.outputs.chunks_mut(most * outputs)) {
            decoder.forward(&at.rows(index, x), &mut self.decoder);
            let len = index.len() * outputs;
            out[..len].copy_from_slice(&decoder.outputs_of(&mut self.decoder, index.len())[..len]);
        }
    }

    /// Decodes `states`, the last ones of the solve `[W, samples, states]`, adds their loss to `chunk`, and leaves the
    /// gradient of the loss in `d_states`. Gradients of the decoder go to `tables` and `chunk`.
    pub fn loss<E: Encoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        index: &[u32],
        aim: &Aim<'_, T>,
        states: &[T],
        tables: &mut TableGrad<T>,
        chunk: &mut ChunkGrad<T>,
    ) {
        let (agents, decoder) = (at.sheaf.agents(), &at.model.decoder);
        let (n, one, count) =
            (index.len() * at.model.section.d_v, agents * decoder.outputs(), index.len() / agents);
        self.targets.resize_with(count.max(self.targets.len()), Targets::default);
        for (i, targets) in self.targets[..count].iter_mut().enumerate() {
            aim.samples.targets(aim.first + i, targets);
        }
        self.d_states.ensure(states.len());
        self.d_states[..states.len()].fill(T::ZERO);
        self.exps.ensure(one);
        // Iterates that fit are decoded as one list of rows: larger products are more efficient.
        let at_once = (decoder.rows_at_once() / index.len()).clamp(1, states.len() / n);
        self.rows.clear();
        (0..at_once).for_each(|_| self.rows.extend_from_slice(index));
        let windows = states.chunks(at_once * n).zip(self.d_states.chunks_mut(at_once * n));
        for (x, d_x) in windows {
            let (work, d_x) = (&mut self.decoder, &mut d_x[..x.len()]);
            let rows = at.rows(&self.rows[..x.len() / at.model.section.d_v], x);
            let count_of_rows = rows.index.len();
            decoder.forward(&rows, work);
            let outputs = decoder.outputs_of(work, count_of_rows);
            for (k, outputs) in outputs[..count_of_rows * decoder.outputs()].chunks_exact_mut(one).enumerate()
            {
                let sample = k % count;
                let loss = at.model.loss.grad(outputs, &self.targets[sample], aim.weight, &mut self.exps);
                chunk.count(aim.first + sample, loss);
            }
            let len = decoder.table_grad_len(at.tables.views());
            let grad = DecoderGrad {
                x: d_x,
                prepared: &mut chunk.decoder,
                table: &mut tables.decoder[..len],
                params: &mut chunk.params,
            };
            decoder.vjp(&rows, work, grad);
        }
    }
}

/// Rows decoded at a time: whole samples, if the decoder reads a sample as a whole.
fn rows_at_once<D: Decoder>(decoder: &D, agents: usize) -> usize {
    let most = decoder.rows_at_once();
    if decoder.reads_samples() { (most / agents).max(1) * agents } else { most }
}
