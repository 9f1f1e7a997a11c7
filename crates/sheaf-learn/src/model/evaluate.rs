//! Solves many samples on all cores; `single` observes every iteration of one sample.

use rayon::prelude::*;
use sheaf_admm::admm::{Options, Tolerances};
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::z_update::Draw;
use sheaf_admm::{Real, Result};

use super::batch::{Job, Jobs};
use super::net::{Decoder, Encoder};
use super::settle::{Settler, Settling};
use super::views::Samples;
use super::worker::{Encoded, Given, Seen, Setting, Watcher, Worker};
use super::{Model, Prepared};

pub use super::single::{Distances, Moment, Single, Traced, WatchOptions, Watched, rms};

/// Number of samples whose views are encoded together, where a batch shares its views.
const GROUP: usize = 128;

/// Converts the outputs of a sample to its answer.
pub trait Reader: Sync {
    /// The answer to a sample.
    type Answer: PartialEq + Send;

    /// Whether the task has rules by which an answer is [complete](Self::complete).
    const RULES: bool = false;

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

    /// The options of the solver, for samples from number `first` on.
    pub(super) fn solver<T: Real>(&self, first: usize) -> Options<T> {
        let tolerances = self.tolerance.map(|relative| {
            let relative = T::from_f64(relative);
            Tolerances { absolute: T::ZERO, relative }
        });
        let draw = Draw { step: 0, sample: first as u64 };
        Options { tolerances, draw, ..Options::fixed(self.iterations).iterates_only() }
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
    let given = Given { model, params, sheaf, prepared };
    let solve = |at: &Setting<'_, T, E, D>, (first, index): (usize, &[u32]), worker: &mut Worker<T, D>| {
        let solved = solve_tile(at, index, first, reader, options, worker)?;
        progress(solved.len());
        Ok(solved)
    };
    let parts: Result<Vec<_>> = match model.encoded_together() {
        Some(count) => {
            let starts: Vec<usize> = (0..samples.len()).step_by(count).collect();
            let part = |first: usize| {
                jobs.with(|Job { worker, encoded, .. }| {
                    encoded.encode(&given, samples, first..(first + count).min(samples.len()))?;
                    let at = given.with(&encoded.tables);
                    let tiles = given.tiles(first, encoded.index()).map(|tile| solve(&at, tile, worker));
                    tiles.collect::<Result<Vec<_>>>()
                })
            };
            starts.into_par_iter().with_max_len(1).map(part).collect()
        }
        None => {
            let (mut encoded, mut parts) = (Encoded::default(), Vec::new());
            for first in (0..samples.len()).step_by(GROUP) {
                encoded.encode(&given, samples, first..(first + GROUP).min(samples.len()))?;
                let at = given.with(&encoded.tables);
                let tiles: Vec<_> = given.tiles(first, encoded.index()).collect();
                let part = |tile| jobs.with(|job| solve(&at, tile, &mut job.worker));
                parts.push(tiles.into_par_iter().with_max_len(1).map(part).collect::<Result<Vec<_>>>()?);
            }
            Ok(parts)
        }
    };
    Ok(parts?.into_iter().flatten().flatten().collect())
}

/// Solves the samples of one tile.
fn solve_tile<T: Real, E: Encoder, D: Decoder, R: Reader>(
    at: &Setting<'_, T, E, D>,
    index: &[u32],
    first: usize,
    reader: &R,
    options: &SolveOptions,
    worker: &mut Worker<T, D>,
) -> Result<Vec<Solved<R::Answer>>> {
    let one = at.sheaf.agents() * at.model.decoder().outputs();
    let count = index.len() / at.sheaf.agents();
    let mut first_right = vec![None; count];
    if options.settling.is_some() || options.first_right {
        let settlers = (0..count).map(|_| Settler::new(options.settling, R::RULES)).collect();
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
        worker.solve(at, index, &options.solver(first), &mut looker)?;
        first_right = looker.first_right;
    } else {
        let options = options.solver(first);
        let options = if options.tolerances.is_none() { options.x_only() } else { options };
        worker.solve(at, index, &options, &mut ())?;
    }
    worker.decode_last(at, index);
    let outputs = worker.outputs().chunks_exact(one);
    let ended = worker.iterations().iter().zip(first_right);
    let solved = outputs.zip(ended).enumerate().map(|(k, (outputs, (&iterations, first_right)))| Solved {
        answer: reader.read(first + k, outputs),
        iterations,
        first_right,
    });
    Ok(solved.collect())
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

impl<T: Real, E: Encoder, D: Decoder, R: Reader> Watcher<T> for Looker<'_, '_, T, E, D, R> {
    fn see(&mut self, seen: &Seen<'_, '_, T>) -> bool {
        let searching = self.options.first_right && self.first_right.contains(&None);
        let looks = self.settlers[0].looks(seen.k);
        if searching || looks {
            self.look.decode(self.at, self.index, seen.states);
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
            let (before, after) = seen.moved_of(b);
            self.ended[b] = settler.quiet(offsets, before, after) || stands;
        }
        true
    }

    fn goes_on(&mut self, b: usize) -> bool {
        !self.ended[b]
    }
}
