//! Pictures of digits and other classes, as the commands use them: the agents, and the network they are compared with.

pub mod cnn;
pub mod data;
mod eval;
pub mod solve;
mod story;

use std::path::Path;

use sheaf_admm::Result;
use sheaf_learn::model::evaluate::SolveOptions;
use sheaf_learn::task::Loaded;
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::evaluate::{Agents, EvalOptions, evaluate_with};
use sheaf_tasks::mnist::metrics::vote;
use sheaf_tasks::mnist::pen;
use sheaf_tasks::mnist::shifts::Shift;
use sheaf_tasks::mnist::task::{self, Mnist, MnistConfig, MnistExperiment, MnistModel, MnistWeights};

use super::{BENCH_SEED, EvalRequest, Learned, TraceArrays};
use crate::report::Report;

/// Unshifted pictures for benchmarks.
const PLAIN: EvalOptions = EvalOptions { iterations: 0, shift: Shift::None, draws: 1, seed: 0 };

impl Learned for Mnist {
    const BUILTIN: &'static [u8] = task::BUILTIN;
    const SIZES: &'static [usize] = &[28, 56, 112, 224, 448, 896];

    type Solve = solve::SolveArgs;
    type Draw = data::DataArgs;
    type Options = eval::Options;

    fn read(path: &Path) -> Result<ImageSet> {
        ImageSet::read(path, Split::Test)
    }

    fn evaluate_file(weights: &MnistWeights, request: &EvalRequest, report: &mut Report) -> Result<()> {
        let MnistWeights { experiment, model, params } = weights;
        let solve = request.options(&experiment.iterations);
        let mut agents = Agents::new(&experiment.model, model, params, solve);
        let rows = eval::evaluate(&mut agents, request, report)?;
        report.iterations(agents.mean_iterations(), &solve, 1);
        rows.add_to(report);
        Ok(())
    }

    fn output_shape(config: &MnistConfig) -> Vec<usize> {
        vec![config.classes]
    }

    fn traced(
        weights: &MnistWeights,
        set: &ImageSet,
        index: usize,
        outputs: &[f32],
        trace: &mut TraceArrays,
    ) -> Result<()> {
        let config = &weights.experiment.model;
        let agents = task::board(config, set.height, set.width)?.layout.agents();
        let mut votes = vec![0.0; config.classes];
        let class = vote(&outputs[outputs.len() - agents * config.classes..], &mut votes);
        let label = set.labels[index];
        let right =
            if class == usize::from(label) { "which is right".into() } else { format!("but it is {label}") };
        trace.report.add("class", "class", class, format!("{class}, {right}")).value("label", label);
        trace.floats.push(("votes", vec![config.classes], votes));
        trace.bytes.push(("input", vec![set.height, set.width], set.image(index).to_vec()));
        trace.bytes.extend([("label", vec![], vec![label]), ("predicted", vec![], vec![class as u8])]);
        Ok(())
    }

    fn bench_set(config: &MnistConfig, size: usize, count: usize) -> Result<ImageSet> {
        pictures(count, size, config.classes)
    }

    fn bench_data(experiment: &mut MnistExperiment, size: usize) -> Result<Loaded<ImageSet>> {
        bench_data(experiment.train.batch, size, experiment.model.classes)
    }

    fn answer(
        config: &MnistConfig,
        model: &MnistModel,
        params: &[f32],
        set: &ImageSet,
        options: &SolveOptions,
    ) -> Result<()> {
        evaluate_with(&mut Agents::new(config, model, params, *options), set, &PLAIN, &|_| {}).map(drop)
    }
}

/// Pictures of as many classes as the model has, drawn by a pen. They leave about as many patches black as MNIST does;
/// the speed depends on the number of blank views.
fn pictures(count: usize, size: usize, classes: usize) -> Result<ImageSet> {
    let mut set = pen::digits(count, size, BENCH_SEED)?;
    set.classes = set.classes.min(classes);
    set.labels.iter_mut().for_each(|label| *label %= set.classes as u8);
    Ok(set)
}

/// Pictures for training benchmarks.
fn bench_data(batch: usize, size: usize, classes: usize) -> Result<Loaded<ImageSet>> {
    let (train, test) = (pictures(4 * batch, size, classes)?, pictures(batch, size, classes)?);
    Ok(Loaded { train, test, more: None })
}
