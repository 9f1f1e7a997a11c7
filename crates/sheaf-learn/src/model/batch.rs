//! Batches of samples on all cores. Gradients are added in an order that depends only on the batch.
//!
//! A batch is split into [`CHUNKS`] fixed chunks; each has its own gradient block, and the blocks are added in order.
//! The assignment of chunks to workers does not affect the result. Large buffers belong to workers, not to chunks:
//! there are as many as chunks running at once.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use sheaf_admm::share::Comm;
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::{ErrorKind, Real, Result};
use sheaf_kernels::vector::add;

use super::heads::COLUMNS;
use super::net::{Decoder, Encoder};
use super::ranks::Ranks;
use super::spec::Scope;
use super::tables::TableGrad;
use super::views::{Samples, Targets};
use super::worker::{Aim, ChunkGrad, Encoded, Given, Setting, Worker};
use super::{Horizon, Model, Prepared};

/// Number of chunks of a batch: enough to keep many cores busy, few enough to sum quickly.
pub const CHUNKS: usize = 16;

/// Parameters added at a time when the blocks of all chunks are summed.
const SUM_BLOCK: usize = 1 << 14;

/// Loss of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchLoss {
    /// Mean loss.
    pub loss: f64,
    /// First sample, counted within the batch, whose loss or gradient is not finite.
    pub bad: Option<usize>,
}

/// Buffers for batches.
#[derive(Debug)]
pub struct Batch<T: Real, E: Encoder, D: Decoder> {
    prepared: Prepared<T, D>,
    encoded: Encoded<T, E, D>, // of the whole batch, where it shares its views
    chunks: Vec<Chunk<T>>,
    jobs: Jobs<T, E, D>,
    targets: Targets,
    ranks: Ranks,
}

impl<T: Real, E: Encoder, D: Decoder> Default for Batch<T, E, D> {
    fn default() -> Self {
        Self {
            prepared: Prepared::default(),
            encoded: Encoded::default(),
            chunks: Vec::new(),
            jobs: Jobs::default(),
            targets: Targets::default(),
            ranks: Ranks::default(),
        }
    }
}

/// Gradients of one chunk.
#[derive(Debug, Default)]
pub(super) struct Chunk<T: Real> {
    pub(super) grad: ChunkGrad<T>,
    tables: TableGrad<T>,
}

impl<T: Real> Chunk<T> {
    /// Everything that is added up over chunks, but the loss. Parameters that chunks do not use are left out.
    pub(super) fn slices(&mut self, touched: Range<usize>) -> [&mut [T]; 8 + COLUMNS] {
        let TableGrad { columns, maps, decoder } = &mut self.tables;
        let [c0, c1, c2, c3, c4, c5, c6, c7] = columns.each_mut().map(|column| &mut column[..]);
        let [a, b, stacks] = maps.slices();
        let ChunkGrad { params, decoder: own, shared, .. } = &mut self.grad;
        let params = &mut params[touched];
        [params, own, &mut shared.g, &mut shared.c, a, b, stacks, decoder, c0, c1, c2, c3, c4, c5, c6, c7]
    }
}

/// The buffers of a worker, reused from chunk to chunk.
#[derive(Debug)]
pub(super) struct Job<T: Real, E: Encoder, D: Decoder> {
    pub(super) worker: Worker<T, D>,
    pub(super) encoded: Encoded<T, E, D>,
    grad: TableGrad<T>,
}

impl<T: Real, E: Encoder, D: Decoder> Default for Job<T, E, D> {
    fn default() -> Self {
        Self { worker: Worker::default(), encoded: Encoded::default(), grad: TableGrad::default() }
    }
}

/// Idle jobs.
#[derive(Debug)]
pub(super) struct Jobs<T: Real, E: Encoder, D: Decoder>(Mutex<Vec<Job<T, E, D>>>);

impl<T: Real, E: Encoder, D: Decoder> Default for Jobs<T, E, D> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T: Real, E: Encoder, D: Decoder> Jobs<T, E, D> {
    /// Runs `f` with exclusive use of a job.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Job<T, E, D>) -> R) -> R {
        let idle = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut job = idle().pop().unwrap_or_default();
        let result = f(&mut job);
        idle().push(job);
        result
    }
}

impl<T: Real, E: Encoder, D: Decoder> Batch<T, E, D> {
    /// Shares batches with other ranks. All of them compute every batch together; loss and gradient are those of the whole
    /// batch on rank 0, and of no use on the others.
    pub fn share(&mut self, comm: Arc<dyn Comm>) {
        self.ranks = Ranks(Some(comm));
    }

    /// Mean loss over the batch and, overwriting `grad`, its gradient.
    pub fn loss_and_grad(
        &mut self,
        model: &Model<E, D>,
        params: &[T],
        sheaf: &Sheaf,
        samples: &dyn Samples,
        horizon: Horizon,
        grad: &mut [T],
    ) -> Result<BatchLoss> {
        self.prepared.prepare(model, params, sheaf)?;
        let horizon = model.horizon(horizon);
        // All samples on one sheaf have the same number of loss terms.
        samples.targets(0, &mut self.targets);
        let counted = model.loss.counted(&self.targets) * samples.len() * horizon.window();
        let weight = T::from_f64(1.0 / counted.max(1) as f64);
        let given = Given { model, params, sheaf, prepared: &self.prepared };
        if model.spec.scope == Scope::Batch {
            self.encoded.encode(&given, samples, 0..samples.len())?;
        }
        let per_chunk = samples.len().div_ceil(CHUNKS).next_multiple_of(model.tile()).max(1);
        let count = samples.len().div_ceil(per_chunk).max(1);
        let own = self.ranks.own(count);
        // Chunks that this batch does not fill keep their buffers for the next batch.
        self.chunks.resize_with(own.len().max(1).max(self.chunks.len()), Chunk::default);
        let Self { encoded, chunks, jobs, .. } = self;
        if own.is_empty() {
            chunks[0].grad.reset(model, given.prepared);
            if model.spec.scope == Scope::Batch {
                chunks[0].tables.reset(model, sheaf, encoded.tables.views());
            }
        }
        let work = Work { given, samples, horizon, weight };
        chunks[..own.len()].par_iter_mut().enumerate().with_max_len(1).try_for_each(|(c, chunk)| {
            let c = own.start + c;
            let range = c * per_chunk..((c + 1) * per_chunk).min(samples.len());
            jobs.with(|job| match model.encoded_together() {
                None => work.chunk_of_batch(range, encoded, job, chunk),
                Some(count) => work.chunk_alone(range, count, job, chunk),
            })
        })?;
        self.ranks.add(own.len(), &mut self.chunks, model.touched.clone());
        if !self.ranks.has_sums() {
            return Ok(BatchLoss { loss: 0.0, bad: None });
        }
        let summed = if self.ranks.0.is_some() { 1 } else { own.len() };
        self.finish(model, params, sheaf, summed, grad)
    }

    /// Adds the first `count` chunks in order and propagates the gradients of the tables to the parameters.
    fn finish(
        &mut self,
        model: &Model<E, D>,
        params: &[T],
        sheaf: &Sheaf,
        count: usize,
        grad: &mut [T],
    ) -> Result<BatchLoss> {
        let touched = model.touched.clone();
        grad[..touched.start].fill(T::ZERO);
        let chunks = &self.chunks[..count];
        // Every entry is summed over the chunks in order, on whichever thread.
        grad[touched.clone()].par_chunks_mut(SUM_BLOCK).enumerate().for_each(|(k, out)| {
            let at = touched.start + k * SUM_BLOCK;
            out.copy_from_slice(&chunks[0].grad.params[at..][..out.len()]);
            for chunk in &chunks[1..] {
                add(out, &chunk.grad.params[at..][..out.len()]);
            }
        });
        let (total, rest) = self.chunks[..count].split_first_mut().expect("there are chunks");
        let mut loss = BatchLoss { loss: total.grad.loss, bad: total.grad.bad };
        for chunk in rest {
            loss.loss += chunk.grad.loss;
            loss.bad = loss.bad.or(chunk.grad.bad);
            add(&mut total.grad.decoder, &chunk.grad.decoder);
            add(&mut total.grad.shared.g, &chunk.grad.shared.g);
            add(&mut total.grad.shared.c, &chunk.grad.shared.c);
            if model.spec.scope == Scope::Batch {
                total.tables.add(&chunk.tables);
            }
        }
        let len = model.decoder.prepared_grad_len();
        model.decoder.prepare_vjp(params, &total.grad.decoder[..len], grad);
        model.maps.prepare_vjp(params, &mut self.prepared.maps, &total.grad.shared, grad)?;
        if model.spec.scope == Scope::Batch {
            let Encoded { views, tables } = &mut self.encoded;
            tables.vjp(model, params, sheaf, views.rows(), &mut total.tables, grad)?;
        }
        Ok(loss)
    }
}

/// The shared inputs of all chunks of a batch.
struct Work<'a, T: Real, E: Encoder, D: Decoder> {
    given: Given<'a, T, E, D>,
    samples: &'a dyn Samples,
    horizon: Horizon,
    weight: T,
}

impl<T: Real, E: Encoder, D: Decoder> Work<'_, T, E, D> {
    /// A chunk whose views are encoded with those of the whole batch.
    fn chunk_of_batch(
        &self,
        range: Range<usize>,
        encoded: &Encoded<T, E, D>,
        job: &mut Job<T, E, D>,
        chunk: &mut Chunk<T>,
    ) -> Result<()> {
        let Given { model, sheaf, prepared, .. } = self.given;
        chunk.grad.reset(model, prepared);
        chunk.tables.reset(model, sheaf, encoded.tables.views());
        let index = &encoded.index()[range.start * sheaf.agents()..range.end * sheaf.agents()];
        let at = self.given.with(&encoded.tables);
        self.tiles(&at, range.start, index, &mut job.worker, &mut chunk.tables, &mut chunk.grad)
    }

    /// A chunk that encodes its own views, `count` samples at a time.
    fn chunk_alone(
        &self,
        range: Range<usize>,
        count: usize,
        job: &mut Job<T, E, D>,
        chunk: &mut Chunk<T>,
    ) -> Result<()> {
        let Given { model, params, sheaf, prepared } = self.given;
        let Job { worker, encoded, grad } = job;
        chunk.grad.reset(model, prepared);
        for first in range.clone().step_by(count) {
            encoded.encode(&self.given, self.samples, first..(first + count).min(range.end))?;
            grad.reset(model, sheaf, encoded.tables.views());
            let at = self.given.with(&encoded.tables);
            self.tiles(&at, first, encoded.index(), worker, grad, &mut chunk.grad)?;
            let Encoded { views, tables } = encoded;
            tables.vjp(model, params, sheaf, views.rows(), grad, &mut chunk.grad.params)?;
        }
        Ok(())
    }

    /// Loss and gradients of the samples `first..`, a tile at a time.
    fn tiles(
        &self,
        at: &Setting<'_, T, E, D>,
        first: usize,
        index: &[u32],
        worker: &mut Worker<T, D>,
        d_tables: &mut TableGrad<T>,
        chunk: &mut ChunkGrad<T>,
    ) -> Result<()> {
        let Self { samples, horizon, weight, .. } = *self;
        for (first, index) in self.given.tiles(first, index) {
            match worker.grad(at, index, &Aim { samples, first, weight }, horizon, d_tables, chunk) {
                Err(error) if error.kind() == ErrorKind::NotFinite => {
                    // The tile has failed, and with it the batch. Solving each sample alone finds the one that is not
                    // finite.
                    for (i, index) in index.chunks(at.sheaf.agents()).enumerate() {
                        let aim = Aim { samples, first: first + i, weight };
                        match worker.grad(at, index, &aim, horizon, d_tables, chunk) {
                            Err(error) if error.kind() == ErrorKind::NotFinite => chunk.lost(first + i),
                            result => result?,
                        }
                    }
                }
                result => result?,
            }
        }
        Ok(())
    }
}
