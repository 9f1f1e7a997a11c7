//! Mazes to measure by: steps of training, batches, single mazes of any size.

use sheaf_admm::Result;
use sheaf_learn::config::strict;
use sheaf_learn::train::{AdamW, Trainable, clip_global_norm, ema_update};
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{MazeSet, generate};
use sheaf_tasks::maze::evaluate::{EvalOptions, Evaluator, evaluate};
use sheaf_tasks::maze::experiment::{MazeExperiment, MazeTask};
use sheaf_tasks::maze::hot::HotPaths;
use sheaf_tasks::maze::model::{Batch, MazeModel};
use sheaf_tasks::maze::weights::MazeWeights;

use super::data::default_min_path;
use crate::args::BenchKind;
use crate::tasks::{BenchRequest, Workload};

const SEED: u64 = 1;

pub(super) fn workload(kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
    match kind {
        BenchKind::Train => train(request),
        BenchKind::Eval => eval(request),
        BenchKind::Solve | BenchKind::Scaling => solve(request),
        BenchKind::Laplacian | BenchKind::Forward | BenchKind::Reverse => hot_path(kind, request),
    }
}

/// One core on what takes the time, with the built-in weights; the table of stacks is that of a whole batch.
fn hot_path(kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
    let usual = match kind {
        BenchKind::Laplacian => 1000,
        BenchKind::Forward => 100,
        _ => 27,
    };
    let (k, batch, size) =
        (request.iterations.unwrap_or(usual), request.batch.unwrap_or(128), request.size.unwrap_or(19));
    let MazeWeights { model, params, .. } = MazeWeights::builtin()?;
    let mut paths = HotPaths::new(model, params, mazes(size, batch)?)?;
    let (agents, samples) = (paths.agents(), if kind == BenchKind::Reverse { paths.mazes() } else { 1 });
    let round = move || match kind {
        BenchKind::Laplacian => paths.laplacians(k),
        BenchKind::Forward => paths.forward(k),
        _ => paths.forward_and_reverse(k),
    };
    Ok(Workload { size, agents, iterations: k, batch: samples, threads: Some(1), round: Box::new(round) })
}

fn mazes(size: usize, count: usize) -> Result<MazeSet> {
    generate(&MazeShape::new(size, size, default_min_path(size, size))?, SEED, count)
}

/// The experiment asked for, or the published one.
fn experiment(request: &BenchRequest) -> Result<MazeExperiment> {
    match &request.experiment {
        Some(path) => strict::read(path, &[]),
        None => Ok(MazeExperiment::default()),
    }
}

/// The model of the experiment asked for, untrained; the built-in one if none was.
fn solver(request: &BenchRequest) -> Result<(MazeModel, Vec<f32>)> {
    if request.experiment.is_none() {
        return MazeWeights::builtin().map(|w| (w.model, w.params));
    }
    let model = MazeModel::new(experiment(request)?.model)?;
    let params = model.init(SEED);
    Ok((model, params))
}

/// Whole updates: gradient, clipping, AdamW, running average.
fn train(request: &BenchRequest) -> Result<Workload> {
    // 27 is the mean of the published 15 to 40 iterations, rounded down.
    let (k, batch, size) =
        (request.iterations.unwrap_or(27), request.batch.unwrap_or(128), request.size.unwrap_or(19));
    let mut experiment = experiment(request)?;
    experiment.data.size = size;
    experiment.data.min_path = default_min_path(size, size);
    experiment.data.count = (2 * batch).max(256);
    experiment.data.test_count = 1;
    experiment.data.symmetries = batch.is_multiple_of(8);
    experiment.train.batch = batch;
    experiment.eval.larger = 0;
    (experiment.iterations.train_min, experiment.iterations.train_max) = (k, k);
    let options = experiment.train.options()?;
    let mut task = MazeTask::new(experiment)?;
    let agents = task.model().board(size, size)?.sheaf.agents();
    let mut params = task.initial(SEED);
    let (mut ema, mut grad) = (params.clone(), vec![0.0; params.len()]);
    let (mut adam_m, mut adam_v) = (vec![0.0; params.len()], vec![0.0; params.len()]);
    let mut step = 0;
    let round = move || {
        task.loss_and_grad(&params, SEED, step, &mut grad)?;
        clip_global_norm(1.0, &mut grad);
        step += 1;
        let rate = options.schedule.at(step);
        AdamW::default().update(rate, step, &grad, &mut params, &mut adam_m, &mut adam_v)?;
        ema_update(options.ema, &params, &mut ema)
    };
    Ok(Workload { size, agents, iterations: k, batch, threads: None, round: Box::new(round) })
}

/// A batch on all cores.
fn eval(request: &BenchRequest) -> Result<Workload> {
    let (k, batch, size) =
        (request.iterations.unwrap_or(100), request.batch.unwrap_or(128), request.size.unwrap_or(19));
    let set = mazes(size, batch)?;
    let (model, params) = solver(request)?;
    let agents = model.board(size, size)?.sheaf.agents();
    let options = EvalOptions { iterations: k, settling: None, first_solve: false };
    let round = move || evaluate(&model, &params, &set, &options, &|_| {}).map(|_| ());
    Ok(Workload { size, agents, iterations: k, batch, threads: None, round: Box::new(round) })
}

/// One maze after the other on one core, each encoded, solved and decoded alone.
fn solve(request: &BenchRequest) -> Result<Workload> {
    let (k, batch, size) =
        (request.iterations.unwrap_or(100), request.batch.unwrap_or(1), request.size.unwrap_or(19));
    let set = mazes(size, batch)?;
    let (model, params) = solver(request)?;
    let board = model.board(size, size)?;
    let agents = board.sheaf.agents();
    let options = EvalOptions { iterations: k, settling: None, first_solve: false };
    let (mut encoded, mut worker) = (Batch::default(), Evaluator::default());
    let round = move || {
        (0..set.len()).try_for_each(|i| {
            let (input, label) = (set.input(i), set.label(i));
            encoded.encode(&model, &params, &board, input)?;
            worker.run(&model, &params, &board, &encoded, 0, input, label, &options).map(|_| ())
        })
    };
    Ok(Workload { size, agents, iterations: k, batch, threads: Some(1), round: Box::new(round) })
}
