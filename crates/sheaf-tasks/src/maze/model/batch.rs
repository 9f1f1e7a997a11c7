//! Many mazes at once: distinct views are encoded once, samples run on all cores, gradients are summed in an order
//! that depends on the batch alone.
//!
//! A batch is cut into [`CHUNKS`] fixed pieces; each piece has its own gradient block, and the blocks are added in
//! order. Which worker runs which piece changes nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;
use sheaf_admm::admm::Adjoint;
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::add;

use super::encoder::{EncoderScratch, TableGrads, Tables};
use super::sample::{Horizon, Sample};
use super::{Board, MazeModel, VIEW_LEN};
use crate::maze::views::{DistinctViews, one_hot};

/// Pieces a batch is cut into: enough to keep many cores busy, few enough to add up quickly.
pub const CHUNKS: usize = 16;

/// What is computed once per batch and distinct view.
#[derive(Debug, Default)]
pub struct BatchTables<T: Copy + Default> {
    /// The encoder's.
    pub views: Tables<T>,
    /// The view's part of the decoder's first layer, `[views, hidden]`.
    pub decoder: AlignedVec<T>,
    /// ‖view‖², `[views]`.
    pub squares: AlignedVec<T>,
    scaled: AlignedVec<T>, // [views, VIEW_LEN]
}

impl<T: Real> BatchTables<T> {
    /// The stacks in use.
    pub fn stacks(&self, sheaf: &Sheaf) -> &[T] {
        let u = sheaf.as_uniform().expect("a grid is uniform");
        &self.views.stacks[..self.views.views * u.d_v * u.ld]
    }

    /// The same by tiles; empty where the shape has none.
    pub fn tiles(&self, sheaf: &Sheaf) -> &[T] {
        &self.views.tiles[..self.views.views * sheaf.tile_len()]
    }
}

/// Gradients of a piece of a batch.
#[derive(Debug, Default)]
pub struct BatchGrad<T: Copy + Default> {
    /// Of the parameters that every sample touches itself (decoder, rho); the others are 0 here.
    pub params: Vec<T>,
    /// Of h, diag, q, l1, hi, `[views, d_v]` each.
    pub tables: [AlignedVec<T>; 5],
    /// Of the stacks, `[views, d_v, ld]`.
    pub stacks: AlignedVec<T>,
    /// Of the decoder's table, `[views, hidden]`.
    pub decoder: AlignedVec<T>,
    loss: f64,
    bad: Option<usize>,
}

/// Memory for batches.
#[derive(Debug, Default)]
pub struct Batch<T: Copy + Default> {
    views: DistinctViews,
    tables: BatchTables<T>,
    chunks: Vec<BatchGrad<T>>,
    /// Memory for mazes, one for each worker at a time: what is in it does not matter to the next.
    samples: Mutex<Vec<Sample<T>>>,
    encoder: EncoderScratch<T>,
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
    pub fn views(&self) -> &DistinctViews {
        &self.views
    }

    /// The tables of the last batch.
    pub fn tables(&self) -> &BatchTables<T> {
        &self.tables
    }

    /// Collects the distinct views of `inputs` and encodes them.
    pub fn encode(&mut self, model: &MazeModel, params: &[T], board: &Board, inputs: &[u8]) -> Result<()> {
        self.views.collect(&board.grid, inputs);
        let (t, v) = (&mut self.tables, self.views.len());
        t.views.views = v;
        t.views.patches.ensure(v * VIEW_LEN);
        t.squares.ensure(v);
        t.scaled.ensure(v * VIEW_LEN);
        t.decoder.ensure(v * model.hidden());
        for (k, &code) in self.views.codes().iter().enumerate() {
            let patch = &mut t.views.patches[k * VIEW_LEN..][..VIEW_LEN];
            one_hot(code, patch);
            t.squares[k] = patch.iter().map(|&p| p * p).sum();
        }
        model.encoder.forward(params, &board.sheaf, &mut t.views)?;
        let (patches, scaled) = (&t.views.patches[..v * VIEW_LEN], &mut t.scaled[..v * VIEW_LEN]);
        model.decoder_in.view_table(params, patches, &mut t.decoder[..v * model.hidden()], scaled);
        Ok(())
    }

    /// Mean loss over the batch and, overwriting `grad`, its gradient.
    pub fn loss_and_grad(
        &mut self,
        model: &MazeModel,
        params: &[T],
        board: &Board,
        inputs: &[u8], // [samples, height, width]
        labels: &[u8], // [samples, height, width]
        horizon: Horizon,
        adjoint: Adjoint<T>,
        grad: &mut [T],
    ) -> Result<BatchLoss> {
        self.encode(model, params, board, inputs)?;
        let (pixels, agents) = (board.grid.pixels(), board.sheaf.agents());
        let samples = inputs.len() / pixels;
        let window = horizon.window.min(horizon.iterations).max(1);
        let counted = counted_pixels(board) * samples * window;
        let weight = T::from_f64(1.0 / counted.max(1) as f64);
        let z_update = model.z_update();
        let per_chunk = samples.div_ceil(CHUNKS);
        let (index, tables, samples_held) = (self.views.index(), &self.tables, &self.samples);
        self.chunks.resize_with(CHUNKS, BatchGrad::default);
        self.chunks.par_iter_mut().enumerate().try_for_each(|(c, chunk)| {
            let mut sample = held(samples_held).pop().unwrap_or_default();
            chunk.reset(model, &board.sheaf, tables.views.views);
            for i in (c * per_chunk).min(samples)..((c + 1) * per_chunk).min(samples) {
                let loss = model.sample_grad(
                    params,
                    board,
                    tables,
                    &index[i * agents..][..agents],
                    &labels[i * pixels..][..pixels],
                    horizon,
                    weight,
                    adjoint,
                    &z_update,
                    &mut sample,
                    chunk,
                );
                match loss {
                    Ok(loss) if loss.is_finite() => chunk.loss += loss.to_f64(),
                    Err(error) if error.kind() != sheaf_admm::ErrorKind::NotFinite => return Err(error),
                    Ok(_) | Err(_) => {
                        chunk.loss = f64::NAN;
                        chunk.bad.get_or_insert(i);
                    }
                }
            }
            held(samples_held).push(sample);
            Ok(())
        })?;
        self.finish(model, params, board, grad)
    }

    /// Adds the chunks in order and takes the tables' gradients back to the parameters.
    fn finish(
        &mut self,
        model: &MazeModel,
        params: &[T],
        board: &Board,
        grad: &mut [T],
    ) -> Result<BatchLoss> {
        let (first, rest) = self.chunks.split_first_mut().expect("there are chunks");
        for chunk in rest {
            first.add(model, chunk);
        }
        let (total, t) = (&*first, &self.tables);
        let v = t.views.views;
        grad.copy_from_slice(&total.params);
        let scaled = &mut self.tables.scaled[..v * VIEW_LEN];
        let t = &self.tables.views;
        let d_table = &total.decoder[..v * model.hidden()];
        model.decoder_in.view_table_vjp(params, &t.patches[..v * VIEW_LEN], d_table, grad, scaled);
        let n = v * model.config.d_v;
        let [h, diag, q, l1, hi] = total.tables.each_ref().map(|b| &b[..n]);
        let u = board.sheaf.as_uniform().expect("a grid is uniform");
        let d = TableGrads { h, diag, q, l1, hi, stacks: &total.stacks[..v * u.d_v * u.ld] };
        model.encoder.vjp(params, &board.sheaf, t, &d, grad, &mut self.encoder)?;
        Ok(BatchLoss { loss: total.loss, bad: total.bad })
    }
}

/// The memory at hand. A worker that panicked leaves it as good as before.
fn held<T: Copy + Default>(samples: &Mutex<Vec<Sample<T>>>) -> MutexGuard<'_, Vec<Sample<T>>> {
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Real> BatchGrad<T> {
    fn reset(&mut self, model: &MazeModel, sheaf: &Sheaf, views: usize) {
        let u = sheaf.as_uniform().expect("a grid is uniform");
        self.params.resize(model.layout.len(), T::ZERO);
        self.params[model.per_sample.clone()].fill(T::ZERO);
        for table in &mut self.tables {
            table.ensure(views * u.d_v);
            table[..views * u.d_v].fill(T::ZERO);
        }
        self.stacks.ensure(views * u.d_v * u.ld);
        self.stacks[..views * u.d_v * u.ld].fill(T::ZERO);
        self.decoder.ensure(views * model.hidden());
        self.decoder[..views * model.hidden()].fill(T::ZERO);
        self.loss = 0.0;
        self.bad = None;
    }

    fn add(&mut self, model: &MazeModel, other: &Self) {
        let own = model.per_sample.clone();
        add(&mut self.params[own.clone()], &other.params[own]);
        for (table, other) in self.tables.iter_mut().zip(&other.tables) {
            add(table, other);
        }
        add(&mut self.stacks, &other.stacks);
        add(&mut self.decoder, &other.decoder);
        self.loss += other.loss;
        self.bad = self.bad.or(other.bad);
    }
}

/// Pixels of all views that lie inside the picture.
fn counted_pixels(board: &Board) -> usize {
    (0..board.grid.agents()).map(|a| board.grid.view(a).filter(Option::is_some).count()).sum()
}
