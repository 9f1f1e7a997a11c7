//! Many boards at once: tiles run on all cores, gradients are summed in an order that depends on the batch alone.
//!
//! A batch is cut into at most [`CHUNKS`] fixed pieces of whole tiles, [`SudokuModel::tile`] boards each; each piece has its
//! own gradient block, and the blocks are added in order. Which worker runs which piece changes nothing. The large buffers belong to
//! workers, not to pieces: as many exist as pieces run at once.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use sheaf_admm::Real;
use sheaf_kernels::vector::add;

use super::tile::{Tile, TileGrad};
use super::{Horizon, Prepared, SudokuModel};
use crate::sudoku::Grid;
use crate::sudoku::views::VIEWS;

/// Pieces a batch is cut into: enough to keep many cores busy, few enough to add up quickly.
pub const CHUNKS: usize = 16;

/// Memory for batches.
#[derive(Debug, Default)]
pub struct Batch<T: Copy + Default> {
    prepared: Prepared<T>,
    chunks: Vec<TileGrad<T>>,
    workers: Workers<T>,
}

/// What a batch told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchLoss {
    /// Mean loss.
    pub loss: f64,
    /// First board, counted within the batch, whose loss was not finite.
    pub bad: Option<usize>,
}

/// Tiles that wait for work.
#[derive(Debug, Default)]
pub(crate) struct Workers<T: Copy + Default>(Mutex<Vec<Tile<T>>>);

impl<T: Real> Workers<T> {
    /// Runs `f` with a tile nobody else uses.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Tile<T>) -> R) -> R {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tile = idle.pop().unwrap_or_default();
        drop(idle);
        let result = f(&mut tile);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(tile);
        result
    }
}

impl<T: Real> Batch<T> {
    /// Mean loss over the batch and, overwriting `grad`, its gradient.
    pub fn loss_and_grad(
        &mut self,
        model: &SudokuModel,
        params: &[T],
        puzzles: &[Grid],
        solutions: &[Grid],
        horizon: Horizon,
        grad: &mut [T],
    ) -> BatchLoss {
        model.prepare(params, &mut self.prepared);
        let window = horizon.window.clamp(1, horizon.iterations.max(1));
        let counted = puzzles.len() * VIEWS * window;
        let weight = T::from_f64(1.0 / counted.max(1) as f64);
        let tile_size = model.tile();
        let per_chunk = puzzles.len().div_ceil(CHUNKS).next_multiple_of(tile_size).max(tile_size);
        self.chunks.resize_with(puzzles.len().div_ceil(per_chunk).max(1), TileGrad::default);
        let (prepared, workers) = (&self.prepared, &self.workers);
        self.chunks.par_iter_mut().enumerate().with_max_len(1).for_each(|(c, chunk)| {
            chunk.reset(model);
            let end = ((c + 1) * per_chunk).min(puzzles.len());
            for first in ((c * per_chunk).min(end)..end).step_by(tile_size) {
                let boards = first..(first + tile_size).min(end);
                let (puzzles, solutions) = (&puzzles[boards.clone()], &solutions[boards]);
                workers.with(|tile| {
                    model
                        .tile_grad(params, prepared, puzzles, solutions, horizon, weight, first, tile, chunk);
                });
            }
        });
        self.finish(model, params, grad)
    }

    /// Adds the chunks in order and takes what was prepared back to the parameters.
    fn finish(&mut self, model: &SudokuModel, params: &[T], grad: &mut [T]) -> BatchLoss {
        let (total, rest) = self.chunks.split_first_mut().expect("there are chunks");
        for chunk in rest {
            add(&mut total.params, &chunk.params);
            add(&mut total.stack.g, &chunk.stack.g);
            add(&mut total.stack.c, &chunk.stack.c);
            add(&mut total.decoder, &chunk.decoder);
            total.loss += chunk.loss;
            total.bad = total.bad.or(chunk.bad);
        }
        grad.copy_from_slice(&total.params);
        model.prepare_vjp(params, &mut self.prepared, &total.stack, &total.decoder, grad);
        BatchLoss { loss: total.loss, bad: total.bad }
    }
}
