//! What `sheaf bench` runs for a learned model: training steps, batches, single samples, and the parts of a solve.

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::evaluate::SolveOptions;
use sheaf_learn::model::{Batch, Horizon, HotPaths, Iterations};
use sheaf_learn::task::{Experiment, Training, Update, Weights};

use super::learned::note_if_slow;
use super::{BENCH_SEED, BenchRequest, Learned, Workload};
use crate::args::BenchKind;
use crate::ranks;

/// Applications of the Laplacian in a round.
const LAPLACIANS: usize = 1000;
/// Samples of a batch.
const BATCH: usize = 128;

/// One round of the measurement `kind`, ready to run.
pub(super) fn workload<K: Learned>(kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
    let mut experiment: Experiment<K> = request.experiment(Experiment::check)?;
    if let Some(precision) = request.precision {
        experiment.train.precision = precision;
        experiment.check()?;
    }
    let precision = experiment.train.precision.into();
    note_if_slow(precision);
    let size = request.size.unwrap_or(K::SIZES[0]);
    let Iterations { train, train_max, eval, .. } = experiment.iterations;
    let k = request.iterations.unwrap_or(match kind {
        BenchKind::Train | BenchKind::Reverse => (train + train.max(train_max)) / 2,
        BenchKind::Laplacian => LAPLACIANS,
        _ => eval,
    });
    if kind == BenchKind::Train {
        return updates(experiment, k, request.batch.unwrap_or(BATCH), size);
    }
    let horizon = experiment.iterations.horizon(BENCH_SEED, 0, experiment.train.loss_window);
    let horizon = Horizon { iterations: k, ..horizon };
    let Weights { experiment, model, params } = match K::BENCH_BUILTIN && request.experiment.is_none() {
        true => {
            let weights = Weights::<K>::builtin(K::BUILTIN)?;
            Weights { model: weights.model.in_precision(precision)?, ..weights }
        }
        false => {
            let model = experiment.model()?;
            let params = model.init(BENCH_SEED);
            Weights { experiment, model, params }
        }
    };
    let usual = match kind {
        BenchKind::Solve | BenchKind::Scaling => 1,
        BenchKind::Laplacian | BenchKind::Forward => model.encoded_together().unwrap_or(BATCH),
        _ => BATCH,
    };
    let count = request.batch.unwrap_or(usual);
    let set = K::bench_set(&experiment.model, size, count)?;
    let comm = ranks::comm().filter(|_| kind == BenchKind::Solve);
    let board = K::board_over(comm, &experiment.model, &set)?;
    let agents = board.sheaf.share().map_or(board.sheaf.agents(), |share| share.agents());
    let iterations = if kind == BenchKind::Laplacian { k } else { model.iterations(k) };
    let of = |batch, threads, round| Workload { size, agents, iterations, batch, precision, threads, round };
    if kind == BenchKind::Eval {
        let options = SolveOptions::fixed(k);
        let round = move || K::answer(&experiment.model, &model, &params, &set, &options);
        return Ok(of(count, None, Box::new(round)));
    }
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(|e| {
        Error::new(ErrorKind::Unsupported, "bench on one core", "a thread the system can start", e)
    })?;
    if kind == BenchKind::Reverse {
        let (mut batch, mut grad) = (Batch::default(), vec![0.0; params.len()]);
        let mut round = move || {
            let samples = K::samples(&board, &set);
            batch.loss_and_grad(&model, &params, &board.sheaf, &samples, horizon, &mut grad).map(drop)
        };
        return Ok(of(count, Some(1), Box::new(move || one.install(&mut round))));
    }
    let mut hot = HotPaths::default();
    hot.prepare(&model, &params, &board.sheaf)?;
    let each = matches!(kind, BenchKind::Solve | BenchKind::Scaling);
    if !each {
        hot.encode(&model, &params, &board.sheaf, &K::samples(&board, &set), 0..count)?;
    }
    let mut next = 0;
    let mut round = move || {
        let (samples, sheaf) = (K::samples(&board, &set), &board.sheaf);
        match kind {
            BenchKind::Laplacian => hot.laplacians(&model, sheaf, k),
            BenchKind::Forward => {
                next = (next + 1) % count;
                hot.solve(&model, &params, sheaf, next, k)
            }
            // One sample at a time, each encoded, solved and decoded alone.
            _ => (0..count).try_for_each(|i| {
                hot.encode(&model, &params, sheaf, &samples, i..i + 1)?;
                hot.solve(&model, &params, sheaf, 0, k)
            }),
        }
    };
    let round = Box::new(move || one.install(&mut round));
    Ok(of(if each { count } else { 1 }, Some(1), round))
}

/// Complete updates, as the trainer makes them.
fn updates<K: Learned>(
    mut experiment: Experiment<K>,
    k: usize,
    batch: usize,
    size: usize,
) -> Result<Workload> {
    experiment.train.batch = batch;
    experiment.iterations =
        Iterations { train: k, train_max: 0, ramp_steps: 0, ..experiment.iterations.clone() };
    let data = K::bench_data(&mut experiment, size)?;
    let options = experiment.train.options()?;
    let training = Training::with_data(experiment, data)?;
    let (agents, precision) = (training.board().sheaf.agents(), training.model().precision());
    let iterations = training.model().iterations(k);
    let mut update = Update::new(training, options, BENCH_SEED);
    let round = move || update.step().map(drop);
    Ok(Workload { size, agents, iterations, batch, precision, threads: None, round: Box::new(round) })
}
