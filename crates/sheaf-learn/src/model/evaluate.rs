//! Solves many samples on all cores, or one sample with every iteration observed.

use rayon::prelude::*;
use sheaf_admm::admm::{Iteration, Mode, Observer, Options, Tolerances, Trace};
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;

use super::batch::Jobs;
use super::net::{Decoder, Encoder};
use super::settle::{Settler, Settling};
use super::tables::Tables;
use super::views::{Samples, Views};
use super::worker::{Setting, Worker};
use super::{Model, Prepared};

/// Number of samples whose views are encoded together, where a batch shares its views.
const GROUP: usize = 128;

/// Converts the outputs of a sample to its answer.
pub trait Reader: Sync {
    /// The answer to a sample.
    type Answer: PartialEq + Send;

    /// The answer to sample `i`.
    fn read<T: Real>(&self, i: usize, outputs: &[T]) -> Self::Answer; // [agents, outputs]

    /// Whether an answer is complete by the rules of the task; the label is not used.
    fn complete(&self, _i: usize, _answer: &Self::Answer) -> bool {
        false
    }

    /// Whether an answer is correct; called only to find the first correct iteration.
    fn right(&self, _i: usize, _answer: &Self::Answer) -> bool {
        false
    }
}

/// How to solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveOptions {
    /// Number of iterations, or the limit if a sample may end earlier.
    pub iterations: usize,
    /// End a sample when it has settled.
    pub settling: Option<Settling>,
    /// End a sample when its residuals are below this relative tolerance.
    pub tolerance: Option<f64>,
    /// Decode after every iteration to find the first correct answer. About doubles the cost.
    pub first_right: bool,
}

impl SolveOptions {
    /// Runs exactly `iterations` iterations.
    pub fn fixed(iterations: usize) -> Self {
        Self { iterations, settling: None, tolerance: None, first_right: false }
    }

    fn solver<T: Real>(&self) -> Options<T> {
        let tolerances = self.tolerance.map(|relative| {
            let relative = T::from_f64(relative);
            Tolerances { absolute: T::ZERO, relative }
        });
        Options { tolerances, ..Options::fixed(self.iterations).iterates_only() }
    }
}

/// The result of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solved<A> {
    /// The answer.
    pub answer: A,
    /// Iterations that ran.
    pub iterations: usize,
    /// First iteration (from 1) with a correct answer, if requested.
    pub first_right: Option<usize>,
}

/// Solves all samples. The answers do not depend on the number of threads. `progress` receives the number solved.
pub fn solve_all<T: Real, E: Encoder, D: Decoder, R: Reader>(
    model: &Model<E, D>,
    params: &[T],
    sheaf: &Sheaf,
    samples: &dyn Samples,
    reader: &R,
    options: &SolveOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Solved<R::Answer>>> {
    let mut prepared = Prepared::default();
    prepared.prepare(model, params, sheaf)?;
    let (jobs, prepared) = (Jobs::<T, E, D>::default(), &prepared);
    let (agents, view_len, tile) = (sheaf.agents(), model.encoder().view_len(), model.tile());
    let mut all = Vec::with_capacity(samples.len());
    if let Some(count) = model.encoded_together() {
        let starts: Vec<usize> = (0..samples.len()).step_by(count).collect();
        let parts: Result<Vec<_>> = starts
            .into_par_iter()
            .with_max_len(1)
            .map(|first| {
                let last = (first + count).min(samples.len());
                jobs.with(|job| {
                    job.views.collect(samples, first..last, agents, view_len);
                    job.tables.encode(model, params, sheaf, job.views.rows())?;
                    let at = Setting { model, params, sheaf, prepared, tables: &job.tables };
                    let mut told = Vec::with_capacity(last - first);
                    for (k, index) in job.views.index().chunks(tile * agents).enumerate() {
                        let first = first + k * tile;
                        solve_tile(&at, index, first, reader, options, &mut job.worker, &mut told)?;
                        progress(index.len() / agents);
                    }
                    Ok(told)
                })
            })
            .collect();
        parts?.into_iter().for_each(|mut part| all.append(&mut part));
        return Ok(all);
    }
    let (mut views, mut tables) = (Views::default(), Tables::default());
    for first in (0..samples.len()).step_by(GROUP) {
        let last = (first + GROUP).min(samples.len());
        views.collect(samples, first..last, agents, view_len);
        tables.encode(model, params, sheaf, views.rows())?;
        let at = Setting { model, params, sheaf, prepared, tables: &tables };
        let tiles: Vec<&[u32]> = views.index().chunks(tile * agents).collect();
        let parts: Result<Vec<_>> = tiles
            .into_par_iter()
            .enumerate()
            .with_max_len(1)
            .map(|(k, index)| {
                jobs.with(|job| {
                    let mut told = Vec::with_capacity(tile);
                    let first = first + k * tile;
                    solve_tile(&at, index, first, reader, options, &mut job.worker, &mut told)?;
                    progress(index.len() / agents);
                    Ok(told)
                })
            })
            .collect();
        parts?.into_iter().for_each(|mut part| all.append(&mut part));
    }
    Ok(all)
}

/// Solves the samples of one tile and appends their results.
fn solve_tile<T: Real, E: Encoder, D: Decoder, R: Reader>(
    at: &Setting<'_, T, E, D>,
    index: &[u32],
    first: usize,
    reader: &R,
    options: &SolveOptions,
    worker: &mut Worker<T, D>,
    told: &mut Vec<Solved<R::Answer>>,
) -> Result<()> {
    let one = at.sheaf.agents() * at.model.decoder().outputs();
    let count = index.len() / at.sheaf.agents();
    let mut first_right = vec![None; count];
    if options.settling.is_some() || options.first_right {
        let settlers = (0..count).map(|_| Settler::new(options.settling)).collect();
        let look = Worker::default();
        let mut looker = Looker {
            at,
            index,
            first,
            reader,
            options,
            look,
            settlers,
            first_right,
            ended: vec![false; count],
        };
        worker.solve(at, index, &options.solver(), Mode::Solve, &mut looker)?;
        first_right = looker.first_right;
    } else {
        let options = options.solver();
        let options = if options.tolerances.is_none() { options.x_only() } else { options };
        worker.solve(at, index, &options, Mode::Solve, &mut ())?;
    }
    worker.decode_last(at, index);
    let ended = worker.workspace().samples().iter().zip(first_right);
    for (k, (outputs, (sample, first_right))) in worker.outputs().chunks_exact(one).zip(ended).enumerate() {
        let answer = reader.read(first + k, outputs);
        told.push(Solved { answer, iterations: sample.iterations, first_right });
    }
    Ok(())
}

/// Inspects the samples of a tile after every iteration: which have settled, and which are correct for the first time.
struct Looker<'a, 's, T: Real, E: Encoder, D: Decoder, R: Reader> {
    at: &'a Setting<'s, T, E, D>,
    index: &'a [u32],
    first: usize,
    reader: &'a R,
    options: &'a SolveOptions,
    look: Worker<T, D>,
    settlers: Vec<Settler<R::Answer>>,
    first_right: Vec<Option<usize>>,
    ended: Vec<bool>,
}

impl<T: Real, E: Encoder, D: Decoder, R: Reader> Observer<T> for Looker<'_, '_, T, E, D, R> {
    fn iteration(&mut self, seen: &Iteration<'_, '_, T>) -> bool {
        let searching = self.options.first_right && self.first_right.contains(&None);
        let looks = self.settlers[0].looks(seen.k);
        if searching || looks {
            self.look.decode(self.at, self.index, seen.x);
        }
        let one = self.at.sheaf.agents() * self.at.model.decoder().outputs();
        let offsets = self.at.sheaf.state_offsets();
        for (b, settler) in self.settlers.iter_mut().enumerate().filter(|&(b, _)| seen.running[b]) {
            let (i, mut stands) = (self.first + b, false);
            if searching || looks {
                let answer = self.reader.read(i, &self.look.outputs()[b * one..][..one]);
                if searching && self.first_right[b].is_none() && self.reader.right(i, &answer) {
                    self.first_right[b] = Some(seen.k + 1);
                }
                let complete = looks && self.reader.complete(i, &answer);
                stands = looks && settler.stands(answer, complete);
            }
            let sample = seen.sample(b);
            self.ended[b] = settler.quiet(offsets, sample.z_prev, sample.z) || stands;
        }
        true
    }

    fn goes_on(&mut self, b: usize) -> bool {
        !self.ended[b]
    }
}

/// Root mean squares over agents, and the disagreement along edges, after one iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distances {
    /// Between proposals and agreement.
    pub primal: f32,
    /// Between this agreement and the one before, times ρ.
    pub dual: f32,
    /// √(mean squared edge residual of z + 1e-6).
    pub edge_rms: f32,
}

/// One iteration of an observed sample.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Its number, from 1.
    pub iteration: usize,
    /// Residuals of the iteration.
    pub distances: Distances,
    /// Primal residual of each agent.
    pub primal: &'a [f32], // [agents]
    /// Outputs of each agent, where they were decoded.
    pub outputs: Option<&'a [f32]>, // [agents, outputs]
}

/// How to observe a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WatchOptions {
    /// How to solve.
    pub solve: SolveOptions,
    /// Decode after every iteration, not only after the last.
    pub every: bool,
}

/// The result of an observed sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched<A> {
    /// The answer.
    pub answer: A,
    /// Outputs after the last iteration.
    pub outputs: Vec<f32>, // [agents, outputs]
    /// Iterations that ran.
    pub iterations: usize,
    /// Whether the sample settled before the limit.
    pub settled: bool,
    /// Residuals after the last iteration.
    pub distances: Distances,
}

/// One encoded sample, ready to be solved repeatedly.
#[derive(Debug)]
pub struct Single<'a, T: Real, E: Encoder, D: Decoder> {
    model: &'a Model<E, D>,
    params: &'a [T],
    sheaf: &'a Sheaf,
    prepared: Prepared<T, D>,
    views: Views,
    tables: Tables<T, E, D>,
}

impl<'a, T: Real, E: Encoder, D: Decoder> Single<'a, T, E, D> {
    /// Encodes sample `i`.
    pub fn new(
        model: &'a Model<E, D>,
        params: &'a [T],
        sheaf: &'a Sheaf,
        samples: &dyn Samples,
        i: usize,
    ) -> Result<Self> {
        let (mut prepared, mut views, mut tables) =
            (Prepared::default(), Views::default(), Tables::default());
        prepared.prepare(model, params, sheaf)?;
        views.collect(samples, i..i + 1, sheaf.agents(), model.encoder().view_len());
        tables.encode(model, params, sheaf, views.rows())?;
        Ok(Self { model, params, sheaf, prepared, views, tables })
    }

    /// The setting of the sample, and the views of its agents.
    pub fn setting(&self) -> (Setting<'_, T, E, D>, &[u32]) {
        let Self { model, params, sheaf, prepared, views, tables } = self;
        (Setting { model, params, sheaf, prepared, tables }, views.index())
    }

    /// Every state, residual and output of a solve of a fixed number of iterations: the trace, and outputs
    /// `[iterations, agents, outputs]`.
    pub fn trace(&self, iterations: usize) -> Result<(Trace<T>, Vec<T>)> {
        let (at, index) = self.setting();
        let (mut worker, mut look) = (Worker::default(), Worker::default());
        let (mut trace, mut outputs) = (Trace::default(), Vec::new());
        let len = index.len() * self.model.decoder().outputs();
        let mut observer = |seen: &Iteration<'_, '_, T>| {
            look.decode(&at, index, seen.x);
            outputs.extend_from_slice(&look.outputs()[..len]);
            trace.iteration(seen)
        };
        worker.solve(&at, index, &Options::fixed(iterations), Mode::Solve, &mut observer)?;
        Ok((trace, outputs))
    }
}

impl<E: Encoder, D: Decoder> Single<'_, f32, E, D> {
    /// Solves the sample, which has number `i` in `reader`, and passes every iteration to `see`.
    pub fn watch<R: Reader>(
        &self,
        reader: &R,
        i: usize,
        options: &WatchOptions,
        see: &mut dyn FnMut(&Moment<'_>),
    ) -> Result<Watched<R::Answer>> {
        let (at, index) = self.setting();
        let (mut worker, mut look) = (Worker::default(), Worker::default());
        let len = index.len() * self.model.decoder().outputs();
        let mut meter = Meter::new(self.sheaf);
        let (mut settler, mut settled) = (Settler::new(options.solve.settling), false);
        let mut observer = |seen: &Iteration<'_, '_, f32>| {
            meter.measure(seen);
            let looks = settler.looks(seen.k);
            if options.every || looks {
                look.decode(&at, index, seen.x);
            }
            let (iteration, distances) = (seen.k + 1, meter.distances);
            let outputs = options.every.then(|| &look.outputs()[..len]);
            see(&Moment { iteration, distances, primal: &meter.primal, outputs });
            let stands = looks && {
                let answer = reader.read(i, &look.outputs()[..len]);
                let complete = reader.complete(i, &answer);
                settler.stands(answer, complete)
            };
            settled = settler.quiet(self.sheaf.state_offsets(), seen.z_prev, seen.z) || stands;
            !settled
        };
        let report = worker.solve(&at, index, &options.solve.solver(), Mode::Solve, &mut observer)?;
        worker.decode_last(&at, index);
        let outputs = worker.outputs()[..len].to_vec();
        let (answer, iterations) = (reader.read(i, &outputs), report.iterations);
        Ok(Watched { answer, outputs, iterations, settled, distances: meter.distances })
    }
}

/// Computes residuals; holds the buffers.
struct Meter {
    primal: Vec<f32>,      // [agents]
    dual: Vec<f32>,        // [agents]
    r: AlignedVec<f32>,    // [edge_len]
    rows: AlignedVec<f32>, // [row_len]
    distances: Distances,
}

impl Meter {
    fn new(sheaf: &Sheaf) -> Self {
        Self {
            primal: vec![0.0; sheaf.agents()],
            dual: vec![0.0; sheaf.agents()],
            r: AlignedVec::zeros(sheaf.edge_len()),
            rows: AlignedVec::zeros(sheaf.row_len()),
            distances: Distances::default(),
        }
    }

    fn measure(&mut self, seen: &Iteration<'_, '_, f32>) {
        seen.primal(&mut self.primal);
        seen.dual(&mut self.dual);
        let edge_rms = seen.edge_rms(&mut self.r, &mut self.rows).unwrap_or(f32::NAN);
        self.distances = Distances { primal: rms(&self.primal), dual: rms(&self.dual), edge_rms };
    }
}

/// Root mean square of a slice.
pub fn rms(values: &[f32]) -> f32 {
    let sum: f64 = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    (sum / values.len().max(1) as f64).sqrt() as f32
}
