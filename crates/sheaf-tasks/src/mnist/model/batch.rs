//! Many pictures at once: distinct views are encoded once, pictures run on all cores, gradients are summed in an order
//! that depends on the batch alone.
//!
//! A batch is cut into at most [`PIECES`] pieces; each has its own gradient block and its own rows of the views'
//! gradients (see [`views`](crate::mnist::views)), and both are added in order. Which worker runs which piece changes
//! nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;
use sheaf_admm::admm::Adjoint;
use sheaf_admm::{ErrorKind, Real, Result};
use sheaf_kernels::vector::add;

use super::sample::{Horizon, Sample, SampleGrad};
use super::tables::{TableGrads, Tables};
use super::{Board, MnistModel};
use crate::mnist::views::{DistinctViews, GradRows};

/// Pieces a batch is cut into: enough to keep many cores busy, few enough to add up quickly.
pub const PIECES: usize = 16;

/// Gradients of one piece.
#[derive(Debug, Default)]
struct Piece<T: Copy + Default> {
    own: Vec<T>, // [per_sample]
    loss: f64,
    bad: Option<usize>,
}

/// Memory for batches.
#[derive(Debug, Default)]
pub struct Batch<T: Copy + Default> {
    views: DistinctViews<T>,
    tables: Tables<T>,
    rows: GradRows,
    grads: TableGrads<T>,
    pieces: Vec<Piece<T>>,
    /// Memory for pictures, one for each worker at a time: what is in it does not matter to the next.
    samples: Mutex<Vec<Sample<T>>>,
}

/// What a batch told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchLoss {
    /// Mean loss.
    pub loss: f64,
    /// First sample, counted within the batch, whose loss was not finite.
    pub bad: Option<usize>,
}

impl<T: Real> Batch<T> {
    /// The distinct views of the last batch.
    pub fn views(&self) -> &DistinctViews<T> {
        &self.views
    }

    /// The tables of the last batch.
    pub fn tables(&self) -> &Tables<T> {
        &self.tables
    }

    /// Collects the distinct views of `images` and encodes them; agents marked in `dropped` see black.
    pub fn encode(
        &mut self,
        model: &MnistModel,
        params: &[T],
        board: &Board,
        images: &[T],             // [samples, height, width]
        dropped: Option<&[bool]>, // [samples, agents]
    ) {
        self.views.collect(&board.grid, images, dropped);
        self.tables.encode(model, params, board, &self.views);
    }

    /// Mean loss over the batch and, overwriting `grad`, its gradient.
    pub fn loss_and_grad(
        &mut self,
        model: &MnistModel,
        params: &[T],
        board: &Board,
        images: &[T],  // [samples, height, width]
        labels: &[u8], // [samples]
        horizon: Horizon,
        adjoint: Adjoint<T>,
        grad: &mut [T],
    ) -> Result<BatchLoss> {
        self.encode(model, params, board, images, None);
        let (agents, samples) = (board.sheaf.agents(), labels.len());
        let window = horizon.window.min(horizon.iterations).max(1);
        let weight = T::from_f64(1.0 / (agents * samples * window).max(1) as f64);
        let z_update = model.z_update();
        let per_piece = samples.div_ceil(PIECES).max(1);
        self.rows.assign(&self.views, agents, per_piece);
        let (rows, index, tables) = (&self.rows, self.views.index(), &self.tables);
        let (cut, samples_held) = (self.grads.cut(board, rows), &self.samples);
        self.pieces.resize_with(cut.len(), Piece::default);
        self.pieces.par_iter_mut().zip(cut).enumerate().try_for_each(|(p, (piece, mut d_tables))| {
            let mut sample = held(samples_held).pop().unwrap_or_default();
            piece.reset(model.per_sample.len());
            d_tables.iter_mut().for_each(|table| table.clear());
            for i in p * per_piece..((p + 1) * per_piece).min(samples) {
                let agents = i * agents..(i + 1) * agents;
                let mut grad = SampleGrad {
                    own: &mut piece.own,
                    tables: &mut d_tables,
                    rows: &rows.rows()[agents.clone()],
                };
                let loss = model.sample_grad(
                    params,
                    board,
                    tables,
                    &index[agents],
                    labels[i],
                    horizon,
                    weight,
                    adjoint,
                    &z_update,
                    &mut sample,
                    &mut grad,
                );
                piece.count(i, loss)?;
            }
            held(samples_held).push(sample);
            Ok(())
        })?;
        Ok(self.finish(model, params, board, grad))
    }

    /// Adds the pieces in order and takes the tables' gradients back to the parameters.
    fn finish(&mut self, model: &MnistModel, params: &[T], board: &Board, grad: &mut [T]) -> BatchLoss {
        grad.fill(T::ZERO);
        let mut told = BatchLoss { loss: 0.0, bad: None };
        for piece in &self.pieces {
            add(&mut grad[model.per_sample.clone()], &piece.own);
            told.loss += piece.loss;
            told.bad = told.bad.or(piece.bad);
        }
        self.grads.gather(self.views.len(), &self.rows);
        self.tables.vjp(model, params, board, &self.views, &self.grads, grad);
        told
    }
}

/// The memory at hand. A worker that panicked leaves it as good as before.
fn held<T: Copy + Default>(samples: &Mutex<Vec<Sample<T>>>) -> MutexGuard<'_, Vec<Sample<T>>> {
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Real> Piece<T> {
    fn reset(&mut self, len: usize) {
        self.own.clear();
        self.own.resize(len, T::ZERO);
        self.loss = 0.0;
        self.bad = None;
    }

    /// Adds the loss of sample `i`; one that is not finite is remembered, other errors are passed on.
    fn count(&mut self, i: usize, loss: Result<T>) -> Result<()> {
        match loss {
            Ok(loss) if loss.is_finite() => self.loss += loss.to_f64(),
            Err(error) if error.kind() != ErrorKind::NotFinite => return Err(error),
            Ok(_) | Err(_) => {
                self.loss = f64::NAN;
                self.bad.get_or_insert(i);
            }
        }
        Ok(())
    }
}
