//! One sample with every iteration observed.

use std::borrow::Cow;
use std::ops::Range;

use sheaf_admm::admm::{Observer, Options, Trace};
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::z_update::Draw;
use sheaf_admm::{Error, ErrorKind, Real, Result};
use sheaf_kernels::aligned::AlignedVec;

use super::evaluate::{Reader, SolveOptions};
use super::heads::H;
use super::net::{Decoder, Encoder};
use super::settle::{Settler, speed};
use super::views::Samples;
use super::worker::{Encoded, Given, Seen, Setting, Worker};
use super::{Model, Prepared};

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
    /// Its number, from 1; 0 for the states before any iteration.
    pub iteration: usize,
    /// Residuals of the iteration, where the agents run ADMM.
    pub distances: Option<Distances>,
    /// Root mean square over agents of how far their states moved.
    pub moved: f32,
    /// Primal residual of each agent; without ADMM, how far its state moved.
    pub residual: &'a [f32], // [agents]
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
    /// Residuals after the last iteration, where the agents run ADMM.
    pub distances: Option<Distances>,
}

/// Every iteration of one sample.
#[derive(Clone, Debug, Default)]
pub struct Traced<T> {
    /// The states before the first iteration.
    pub h0: Vec<T>, // [agents, d_v]
    /// The states that the decoder reads: x of ADMM, the state of message passing, h without iterations.
    pub states: Vec<T>, // [iterations, agents, d_v]
    /// States and residuals of ADMM; empty for other kinds of coordination.
    pub admm: Trace<T>,
    /// Outputs of each agent. Without iterations those of h, as if there were one.
    pub outputs: Vec<T>, // [iterations, agents, outputs]
}

/// One encoded sample, ready to be solved repeatedly.
#[derive(Debug)]
pub struct Single<'a, T: Real, E: Encoder, D: Decoder> {
    model: &'a Model<E, D>,
    params: &'a [T],
    sheaf: &'a Sheaf,
    prepared: Prepared<T, D>,
    encoded: Encoded<T, E, D>,
    first: usize, // number of the sample
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
        Self::of_inputs(model, params, sheaf, samples, i..i + 1)
    }

    /// Encodes the samples of a range: the inputs of one solve, which starts with the first
    /// ([`play`](Self::play)).
    pub fn of_inputs(
        model: &'a Model<E, D>,
        params: &'a [T],
        sheaf: &'a Sheaf,
        samples: &dyn Samples,
        range: Range<usize>,
    ) -> Result<Self> {
        let (mut prepared, mut encoded) = (Prepared::default(), Encoded::default());
        prepared.prepare(model, params, sheaf)?;
        let first = range.start;
        encoded.encode(&Given { model, params, sheaf, prepared: &prepared }, samples, range)?;
        Ok(Self { model, params, sheaf, prepared, encoded, first })
    }

    /// The setting of the sample, and the views of its agents.
    pub fn setting(&self) -> (Setting<'_, T, E, D>, &[u32]) {
        let Self { model, params, sheaf, prepared, encoded, .. } = self;
        (Given { model, params, sheaf, prepared }.with(&encoded.tables), encoded.index())
    }

    /// Every state, residual and output of a solve of a fixed number of iterations.
    pub fn trace(&self, iterations: usize) -> Result<Traced<T>> {
        let (at, index) = self.setting();
        let (mut worker, mut look) = (Worker::default(), Worker::default());
        let (mut h0, mut states, mut admm, mut outputs) =
            (Vec::new(), Vec::new(), Trace::default(), Vec::new());
        let len = index.len() * self.model.decoder().outputs();
        let mut record = |seen: &Seen<'_, '_, T>| {
            look.decode(&at, index, seen.states);
            outputs.extend_from_slice(&look.outputs()[..len]);
            states.extend_from_slice(seen.states);
            if seen.k == 0 {
                h0.extend_from_slice(seen.moved.0);
            }
            seen.admm.is_none_or(|iteration| admm.iteration(&iteration))
        };
        let draw = Draw { step: 0, sample: self.first as u64 };
        worker.solve(&at, index, &Options::fixed(iterations).drawing(draw), &mut record)?;
        if outputs.is_empty() {
            worker.decode_last(&at, index);
            outputs.extend_from_slice(&worker.outputs()[..len]);
            let (h, d_v) = (&at.tables.headed().columns[H], self.model.section().d_v);
            h0.extend(index.iter().flat_map(|&v| &h[v as usize * d_v..][..d_v]));
        }
        Ok(Traced { h0, states, admm, outputs })
    }
}

impl<E: Encoder, D: Decoder> Single<'_, f32, E, D> {
    /// Solves the sample, which has number `i` in `reader`, and passes every iteration to `see`; if there is none, the
    /// states as the encoder made them, as iteration 0.
    pub fn watch<R: Reader>(
        &self,
        reader: &R,
        i: usize,
        options: &WatchOptions,
        see: &mut dyn FnMut(&Moment<'_>),
    ) -> Result<Watched<R::Answer>> {
        let watched = self.watch_first(reader, i, options, see)?;
        let expected = "rank 0";
        watched
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "answer of a sample", expected, "another rank"))
    }

    /// The same where several ranks may share the agents: rank 0 sees the iterations and has the answer. Residuals of agents
    /// are those of its own.
    pub fn watch_first<R: Reader>(
        &self,
        reader: &R,
        i: usize,
        options: &WatchOptions,
        see: &mut dyn FnMut(&Moment<'_>),
    ) -> Result<Option<Watched<R::Answer>>> {
        let (at, index) = self.setting();
        let (mut worker, mut look) = (Worker::default(), Worker::default());
        let (width, sheaf) = (self.model.decoder().outputs(), self.sheaf);
        let len = index.len() * width;
        let mut meter = Meter::new(sheaf);
        let (mut settler, mut settled) = (Settler::new(options.solve.settling, R::RULES), false);
        let mut watcher = |seen: &Seen<'_, '_, f32>| {
            meter.measure(sheaf, seen);
            let looks = settler.looks(seen.k);
            let shown = (options.every || looks).then(|| {
                look.decode(&at, index, seen.states);
                of_all(sheaf, &look.outputs()[..len], width)
            });
            let shown = shown.flatten();
            let (iteration, distances, moved) =
                (seen.k + 1, meter.distances, rms_of_all(sheaf, &meter.moved));
            let residual = if distances.is_some() { &meter.primal } else { &meter.moved };
            let outputs = shown.as_deref().filter(|_| options.every);
            if is_first(sheaf) {
                see(&Moment { iteration, distances, moved, residual, outputs });
            }
            let stands = looks && {
                let here = shown.as_deref().is_some_and(|outputs| {
                    let answer = reader.read(i, outputs);
                    let complete = reader.complete(i, &answer);
                    settler.stands(answer, complete)
                });
                sheaf.share().map_or(here, |share| share.told(here))
            };
            let fastest = speed(sheaf.state_offsets(), seen.moved.0, seen.moved.1);
            let fastest = sheaf.share().map_or(fastest, |share| share.largest(fastest));
            settled = settler.slow_for_long(fastest) || stands;
            !settled
        };
        worker.solve(&at, index, &options.solve.solver(self.first), &mut watcher)?;
        worker.decode_last(&at, index);
        let Some(outputs) = of_all(sheaf, &worker.outputs()[..len], width) else { return Ok(None) };
        let outputs = outputs.into_owned();
        if worker.iterations()[0] == 0 {
            let residual = &meter.moved;
            see(&Moment { iteration: 0, distances: None, moved: 0.0, residual, outputs: Some(&outputs) });
        }
        let (answer, iterations) = (reader.read(i, &outputs), worker.iterations()[0]);
        Ok(Some(Watched { answer, outputs, iterations, settled, distances: meter.distances }))
    }
}

/// Whether this is the only rank or rank 0.
fn is_first(sheaf: &Sheaf) -> bool {
    sheaf.share().is_none_or(|share| share.comm().rank() == 0)
}

/// The values of all agents, `width` each, from those of the own agents; on rank 0.
fn of_all<'o>(sheaf: &Sheaf, own: &'o [f32], width: usize) -> Option<Cow<'o, [f32]>> {
    match sheaf.share() {
        None => Some(Cow::Borrowed(own)),
        Some(share) => share.collect_first(own, width).map(Cow::Owned),
    }
}

/// Computes residuals; holds the buffers.
struct Meter {
    primal: Vec<f32>,      // [agents]
    dual: Vec<f32>,        // [agents]
    moved: Vec<f32>,       // [agents]
    r: AlignedVec<f32>,    // [edge_len]
    rows: AlignedVec<f32>, // [row_len]
    distances: Option<Distances>,
}

impl Meter {
    fn new(sheaf: &Sheaf) -> Self {
        let [primal, dual, moved] = [(); 3].map(|()| vec![0.0; sheaf.agents()]);
        let (r, rows) = (AlignedVec::zeros(sheaf.edge_len()), AlignedVec::zeros(sheaf.row_len()));
        Self { primal, dual, moved, r, rows, distances: None }
    }

    fn measure(&mut self, sheaf: &Sheaf, seen: &Seen<'_, '_, f32>) {
        let (before, after) = seen.moved;
        for (moved, own) in self.moved.iter_mut().zip(sheaf.state_offsets().windows(2)) {
            let square = |k: usize| (after[k] - before[k]) * (after[k] - before[k]);
            *moved = (own[0]..own[1]).map(square).sum::<f32>().sqrt();
        }
        self.distances = seen.admm.map(|iteration| {
            iteration.primal(&mut self.primal);
            iteration.dual(&mut self.dual);
            let edge_rms = iteration.edge_rms(&mut self.r, &mut self.rows).unwrap_or(f32::NAN);
            Distances {
                primal: rms_of_all(sheaf, &self.primal),
                dual: rms_of_all(sheaf, &self.dual),
                edge_rms,
            }
        });
    }
}

/// Root mean square of a slice.
pub fn rms(values: &[f32]) -> f32 {
    let sum: f64 = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    (sum / values.len().max(1) as f64).sqrt() as f32
}

/// Root mean square of the values of all agents of a sheaf.
fn rms_of_all(sheaf: &Sheaf, values: &[f32]) -> f32 {
    let sum: f64 = sheaf.sum_of_agents(|own| values[own].iter().map(|&v| f64::from(v) * f64::from(v)).sum());
    let count = sheaf.share().map_or(values.len(), |share| share.agents());
    (sum / count.max(1) as f64).sqrt() as f32
}
