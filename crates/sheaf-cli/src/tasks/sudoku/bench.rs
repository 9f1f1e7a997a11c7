//! Puzzles to measure by: steps of training, batches, single puzzles.

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::config::strict;
use sheaf_learn::train::{AdamW, Trainable, clip_global_norm, ema_update};
use sheaf_tasks::sudoku::UNITS;
use sheaf_tasks::sudoku::evaluate::{EvalOptions, evaluate};
use sheaf_tasks::sudoku::experiment::{SudokuExperiment, SudokuTask};
use sheaf_tasks::sudoku::generate::{Kind, generate};
use sheaf_tasks::sudoku::model::SudokuModel;

use crate::args::BenchKind;
use crate::tasks::{BenchRequest, Workload, no_hot_path};

const SEED: u64 = 1;
/// Rows of a board, the only size there is.
const SIZE: usize = 9;

pub(super) fn workload(kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
    if let Some(size) = request.size.filter(|&size| size != SIZE) {
        return Err(Error::new(ErrorKind::Unsupported, "--size", "9, the only size of a Sudoku", size));
    }
    let experiment = match &request.experiment {
        Some(path) => strict::read(path, &[])?,
        None => SudokuExperiment::default(),
    };
    match kind {
        BenchKind::Train => train(experiment, request),
        BenchKind::Eval => eval(experiment, request),
        BenchKind::Solve | BenchKind::Scaling => solve(experiment, request),
        BenchKind::Laplacian | BenchKind::Forward | BenchKind::Reverse => Err(no_hot_path("sudoku")),
    }
}

/// Whole updates: gradient, clipping, AdamW, running average.
fn train(mut experiment: SudokuExperiment, request: &BenchRequest) -> Result<Workload> {
    let iterations = request.iterations.unwrap_or(experiment.iterations.train);
    let batch = request.batch.unwrap_or(128);
    experiment.data.source = "generate".into();
    experiment.data.count = (2 * batch).max(256);
    experiment.data.test_count = 1;
    experiment.data.symmetries &= batch.is_multiple_of(8);
    experiment.train.batch = batch;
    experiment.iterations.train = iterations;
    experiment.iterations.ramp_steps = 0;
    let options = experiment.train.options()?;
    let mut task = SudokuTask::new(experiment)?;
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
    Ok(Workload { size: SIZE, agents: UNITS, iterations, batch, threads: None, round: Box::new(round) })
}

/// A batch on all cores, with weights as a run starts with them.
fn eval(experiment: SudokuExperiment, request: &BenchRequest) -> Result<Workload> {
    let iterations = request.iterations.unwrap_or(experiment.iterations.eval);
    let batch = request.batch.unwrap_or(128);
    let set = generate(Kind::Mixed, SEED, batch);
    let model = SudokuModel::new(experiment.model)?;
    let params: Vec<f32> = model.init(SEED);
    let options = EvalOptions::fixed(iterations);
    let round = move || {
        evaluate(&model, &params, &set, &options, &|_| {});
        Ok(())
    };
    Ok(Workload { size: SIZE, agents: UNITS, iterations, batch, threads: None, round: Box::new(round) })
}

/// One puzzle after the other on one core.
fn solve(experiment: SudokuExperiment, request: &BenchRequest) -> Result<Workload> {
    let iterations = request.iterations.unwrap_or(experiment.iterations.eval);
    let batch = request.batch.unwrap_or(1);
    let set = generate(Kind::Mixed, SEED, batch);
    let model = SudokuModel::new(experiment.model)?;
    let params: Vec<f32> = model.init(SEED);
    let options = EvalOptions::fixed(iterations);
    let sets: Vec<_> = (0..batch).map(|i| set.slice(i..i + 1)).collect();
    let round = move || {
        sets.iter().for_each(|one| {
            evaluate(&model, &params, one, &options, &|_| {});
        });
        Ok(())
    };
    Ok(Workload { size: SIZE, agents: UNITS, iterations, batch, threads: Some(1), round: Box::new(round) })
}
