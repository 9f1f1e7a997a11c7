//! The decoder: from states and views to logits, and back.

use sheaf_admm::Real;
use sheaf_admm::admm::Workspace;
use sheaf_kernels::vector::multiply;
use sheaf_learn::nn::activation;

use super::batch::{BatchGrad, BatchTables};
use super::sample::Sample;
use super::{MazeModel, VIEW_LEN};

/// Agents decoded at a time where no gradient is wanted.
const DECODE_TILE: usize = 1024;

/// The parts of a [`Sample`] the decoder works in.
pub(super) struct DecodeBuffers<'s, T> {
    pub scaled: &'s mut [T],
    pub d_scaled: &'s mut [T],
    pub inv: &'s mut [T],
    pub slope: &'s mut [T],
    pub act: &'s mut [T],
    pub logits: &'s mut [T],
    pub exps: &'s mut [T],
}

impl<T: Real> Sample<T> {
    pub(super) fn split(&mut self) -> (&Workspace<T>, DecodeBuffers<'_, T>) {
        let buffers = DecodeBuffers {
            scaled: &mut self.scaled,
            d_scaled: &mut self.d_scaled,
            inv: &mut self.inv,
            slope: &mut self.slope,
            act: &mut self.act,
            logits: &mut self.logits,
            exps: &mut self.exps,
        };
        (&self.ws, buffers)
    }
}

impl MazeModel {
    /// Decodes states x `[agents, d_v]` into `sample.logits`; keeps slope and activation for the adjoint.
    pub(super) fn decode_from<T: Real>(
        &self,
        params: &[T],
        tables: &BatchTables<T>,
        index: &[u32],
        x: &[T],
        s: &mut DecodeBuffers<'_, T>,
    ) {
        let (rows, hidden) = (index.len(), self.hidden());
        let slope = &mut s.slope[..rows * hidden];
        let act = &mut s.act[..rows * hidden];
        let (table, squares) = (&tables.decoder, &tables.squares);
        self.decoder_in.forward(params, table, squares, index, x, &mut s.scaled[..x.len()], s.inv, slope);
        activation::gelu_keeping_slope(slope, act);
        self.decoder_out.forward(params, act, &mut s.logits[..rows * VIEW_LEN]);
    }

    /// Decodes the last x of a solve into `sample.logits`.
    pub fn decode<T: Real>(
        &self,
        params: &[T],
        tables: &BatchTables<T>,
        index: &[u32],
        sample: &mut Sample<T>,
    ) {
        sample.fit_decoder(self, index.len(), index.len().min(DECODE_TILE));
        let (ws, buffers) = sample.split();
        self.decode_tiles(params, tables, index, ws.x(), buffers);
    }

    /// Decodes given states into `sample.logits`.
    pub fn decode_states<T: Real>(
        &self,
        params: &[T],
        tables: &BatchTables<T>,
        index: &[u32],
        x: &[T],
        sample: &mut Sample<T>,
    ) {
        sample.fit_decoder(self, index.len(), index.len().min(DECODE_TILE));
        self.decode_tiles(params, tables, index, x, sample.split().1);
    }

    /// Decodes [`DECODE_TILE`] agents at a time, so that the hidden layer of a large board fits the cache.
    fn decode_tiles<T: Real>(
        &self,
        params: &[T],
        tables: &BatchTables<T>,
        index: &[u32],
        x: &[T],
        s: DecodeBuffers<'_, T>,
    ) {
        let tiles = index.chunks(DECODE_TILE).zip(x.chunks(DECODE_TILE * self.config.d_v));
        for ((index, x), logits) in tiles.zip(s.logits.chunks_mut(DECODE_TILE * VIEW_LEN)) {
            let mut tile = DecodeBuffers {
                scaled: &mut *s.scaled,
                d_scaled: &mut *s.d_scaled,
                inv: &mut *s.inv,
                slope: &mut *s.slope,
                act: &mut *s.act,
                logits,
                exps: &mut *s.exps,
            };
            self.decode_from(params, tables, index, x, &mut tile);
        }
    }

    /// Adjoint of [`decode_from`](Self::decode_from), the gradient of the logits being in `s.logits`.
    pub(super) fn decode_vjp<T: Real>(
        &self,
        params: &[T],
        tables: &BatchTables<T>,
        index: &[u32],
        x: &[T],
        d_x: &mut [T],
        s: &mut DecodeBuffers<'_, T>,
        grad: &mut BatchGrad<T>,
    ) {
        let (rows, hidden) = (index.len(), self.hidden());
        let d_logits = &s.logits[..rows * VIEW_LEN];
        let (slope, act) = (&mut s.slope[..rows * hidden], &mut s.act[..rows * hidden]);
        self.decoder_out.vjp_weights(act, d_logits, &mut grad.params);
        // The activation is no longer needed: its buffer takes its gradient.
        self.decoder_out.vjp_input(params, d_logits, act);
        multiply(slope, act);
        let views = tables.views.views;
        self.decoder_in.vjp(
            params,
            &tables.decoder,
            index,
            x,
            &mut s.scaled[..x.len()],
            s.inv,
            slope,
            d_x,
            &mut grad.decoder[..views * hidden],
            &mut grad.params,
            &mut s.d_scaled[..x.len()],
        );
    }
}
