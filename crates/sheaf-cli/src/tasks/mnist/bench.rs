//! Pictures to measure by: steps of training, batches, single pictures of any size. They are drawn by a pen, which
//! leaves about as many patches black as MNIST does; blank views are what the speed depends on.

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::config::{StrictConfig, strict};
use sheaf_learn::train::{AdamW, TrainOptions, Trainable, clip_global_norm, ema_update};
use sheaf_tasks::baselines::cnn::experiment::{CnnExperiment, CnnTask};
use sheaf_tasks::baselines::cnn::{CnnClassifier, CnnModel};
use sheaf_tasks::mnist::data::ImageSet;
use sheaf_tasks::mnist::evaluate::{Agents, Classifier, EvalOptions, evaluate, evaluate_with};
use sheaf_tasks::mnist::experiment::{MnistExperiment, MnistTask};
use sheaf_tasks::mnist::model::MnistModel;
use sheaf_tasks::mnist::shifts::Shift;
use sheaf_tasks::mnist::{fit, pen};

use crate::args::BenchKind;
use crate::tasks::{BenchRequest, Workload, no_hot_path};

const SEED: u64 = 1;

/// The experiment whose model is measured.
fn experiment<E: StrictConfig>(request: &BenchRequest) -> Result<E> {
    request.experiment.as_deref().map_or_else(|| Ok(E::default()), |path| strict::read(path, &[]))
}

/// Drawn pictures, of as many classes as the model knows.
fn pictures(count: usize, size: usize, classes: usize) -> Result<ImageSet> {
    let mut set = pen::digits(count, size, SEED)?;
    set.classes = set.classes.min(classes);
    set.labels.iter_mut().for_each(|label| *label %= set.classes as u8);
    Ok(set)
}

/// The agents at work.
pub(super) fn agents(kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
    let size = request.size.unwrap_or(fit::SIDE);
    let mut experiment: MnistExperiment = experiment(request)?;
    let usual =
        if kind == BenchKind::Train { experiment.iterations.train } else { experiment.iterations.eval };
    let k = request.iterations.unwrap_or(usual);
    let batch =
        request.batch.unwrap_or(if matches!(kind, BenchKind::Train | BenchKind::Eval) { 128 } else { 1 });
    let model = MnistModel::new(experiment.model.clone())?;
    let agents = model.board(size, size)?.sheaf.agents();
    // How long a solve takes does not depend on what was learned.
    let (params, set) = (model.init::<f32>(SEED), pictures(batch, size, experiment.model.classes)?);
    let options = EvalOptions { iterations: k, shift: Shift::None, draws: 1, seed: 0 };
    let (threads, round): (_, Box<dyn FnMut() -> Result<()>>) = match kind {
        BenchKind::Train => {
            experiment.train.batch = batch;
            experiment.iterations.train = k;
            let options = experiment.train.options()?;
            let task = MnistTask::with_sets(experiment, pictures(4 * batch, size, model.classes())?, set)?;
            (None, Box::new(updates(task, options)))
        }
        BenchKind::Eval => {
            (None, Box::new(move || evaluate(&model, &params, &set, &options, &|_| {}).map(drop)))
        }
        BenchKind::Laplacian | BenchKind::Forward | BenchKind::Reverse => return Err(no_hot_path("mnist")),
        BenchKind::Solve | BenchKind::Scaling => {
            let mut pixels = vec![0.0f32; set.pixels()];
            let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().map_err(|e| {
                Error::new(ErrorKind::Unsupported, "bench solve", "a thread the system can start", e)
            })?;
            let mut round = move || {
                let mut agents = Agents::new(&model, &params, k);
                let patches = agents.patches(size, size)?;
                (0..set.len()).try_for_each(|i| {
                    set.write_image(i, &mut pixels);
                    agents.tell(&patches, &pixels, None, &mut [0])
                })
            };
            (Some(1), Box::new(move || one.install(&mut round)))
        }
    };
    Ok(Workload { size, agents, iterations: k, batch, threads, round })
}

/// The network at work; it has no agents and no iterations.
pub(super) fn network(kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
    if let BenchKind::Laplacian | BenchKind::Forward | BenchKind::Reverse = kind {
        return Err(no_hot_path("mnist-cnn"));
    }
    let (batch, size) = (request.batch.unwrap_or(128), request.size.unwrap_or(fit::SIDE));
    let mut experiment: CnnExperiment = experiment(request)?;
    let model = CnnModel::new(experiment.model.clone())?;
    let (params, set) = (model.init::<f32>(SEED), pictures(batch, size, experiment.model.classes)?);
    let round: Box<dyn FnMut() -> Result<()>> = if kind == BenchKind::Train {
        experiment.train.batch = batch;
        let options = experiment.train.options()?;
        let task = CnnTask::with_sets(experiment, pictures(4 * batch, size, model.config().classes)?, set)?;
        Box::new(updates(task, options))
    } else {
        let options = EvalOptions { iterations: 0, shift: Shift::None, draws: 1, seed: 0 };
        Box::new(move || {
            let mut network = CnnClassifier::new(&model, &params);
            evaluate_with(&mut network, &set, &options, &|_| {}).map(drop)
        })
    };
    Ok(Workload { size, agents: 0, iterations: 0, batch, threads: None, round })
}

/// Whole updates: gradient, clipping, AdamW, running average.
fn updates(mut task: impl Trainable, options: TrainOptions) -> impl FnMut() -> Result<()> {
    let mut params = task.initial(SEED);
    let (mut ema, mut grad) = (params.clone(), vec![0.0; params.len()]);
    let (mut adam_m, mut adam_v) = (vec![0.0; params.len()], vec![0.0; params.len()]);
    let mut step = 0;
    move || {
        task.loss_and_grad(&params, SEED, step, &mut grad)?;
        clip_global_norm(1.0, &mut grad);
        step += 1;
        let rate = options.schedule.at(step);
        AdamW::default().update(rate, step, &grad, &mut params, &mut adam_m, &mut adam_v)?;
        ema_update(options.ema, &params, &mut ema)
    }
}
