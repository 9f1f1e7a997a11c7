//! A learned model of agents as the commands use it, implemented once for all tasks.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Arc, Once};

use clap::{Args, Command};
use sheaf_admm::share::Comm;
use sheaf_admm::z_update::OutOfStep;
use sheaf_admm::{Error, ErrorKind, Precision, Result};
use sheaf_learn::config::{Recipe, recipe, strict};
use sheaf_learn::limits::{check_memory, product};
use sheaf_learn::model::evaluate::{Single, SolveOptions, Traced};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::task::{self, BoardOf, Experiment, Loaded, ModelOf, Training, Weights};
use sheaf_learn::train::{Prepared, WeightsFile};

use super::verbs::{Arguments, EvalOptions, TaskOptions, Verb};
use super::{AuthorsModel, BenchRequest, EvalRequest, Task, TraceArrays, TraceRequest, Workload, bench};
use crate::args::BenchKind;
use crate::progress::say;
use crate::report::Report;

/// What the commands need from a learned task in addition to its declaration.
pub trait Learned: task::Task {
    /// The weights that ship with the program.
    const BUILTIN: &'static [u8];
    /// Sizes that `bench scaling` measures; the first is the default.
    const SIZES: &'static [usize];
    /// Whether `bench` solves with the built-in weights unless an experiment is given. Other tasks are measured with
    /// initial parameters: their time does not depend on the trained values.
    const BENCH_BUILTIN: bool = false;

    /// Arguments of `sheaf solve`.
    type Solve: Arguments;
    /// Arguments of `sheaf data`.
    type Draw: Arguments;
    /// Options of `sheaf eval` in addition to the common ones.
    type Options: EvalOptions;

    /// Reads samples as `sheaf data` writes them.
    fn read(path: &Path) -> Result<Self::Set>;

    /// Adds to the report how well weights solve the samples of a file.
    fn evaluate_file(weights: &Weights<Self>, request: &EvalRequest, report: &mut Report) -> Result<()>;

    /// Shape of the outputs of one agent.
    fn output_shape(config: &Self::Config) -> Vec<usize>;

    /// Adds to a trace the interpretation of the outputs `[iterations, agents, outputs]` of sample `index`.
    fn traced(
        weights: &Weights<Self>,
        set: &Self::Set,
        index: usize,
        outputs: &[f32],
        trace: &mut TraceArrays,
    ) -> Result<()>;

    /// Samples for benchmarks.
    fn bench_set(config: &Self::Config, size: usize, count: usize) -> Result<Self::Set>;

    /// Samples for training benchmarks; the `[data]` section of the experiment is changed accordingly.
    fn bench_data(experiment: &mut Experiment<Self>, size: usize) -> Result<Loaded<Self::Set>>;

    /// The agents of such samples over several ranks; a task that cannot share them leaves all to every rank.
    fn board_over(
        comm: Option<&Arc<dyn Comm>>,
        config: &Self::Config,
        set: &Self::Set,
    ) -> Result<BoardOf<Self>> {
        let _ = comm;
        Self::board(config, set)
    }

    /// Solves all samples and scores the answers, as `sheaf eval` does, for benchmarks.
    fn answer(
        config: &Self::Config,
        model: &ModelOf<Self>,
        params: &[f32],
        set: &Self::Set,
        options: &SolveOptions,
    ) -> Result<()>;
}

/// The task of a learned model.
#[derive(Debug)]
pub struct Agents<K>(PhantomData<fn() -> K>);

impl<K> Agents<K> {
    /// The only value.
    pub const NEW: Self = Self(PhantomData);
}

/// Adds how far the agents are out of step, if they are.
pub(super) fn report_lag(lag: &OutOfStep, report: &mut Report) {
    if !lag.is_in_step() {
        let OutOfStep { delay, loss, activity, .. } = lag;
        let text = format!("delay 0 to {delay} rounds, loss {loss}, activity {activity}");
        report.add("asynchronous", "out of step", lag.to_string(), text);
    }
}

/// Says once that bf16 is slow on this CPU.
pub(super) fn note_if_slow(precision: Precision) {
    static NOTED: Once = Once::new();
    if !precision.is_fast() {
        NOTED.call_once(|| {
            say("note: no AVX-512 BF16 here; bf16 products give the same bits in plain loops, slower than f32");
        });
    }
}

/// The experiment `text` with overridden keys, checked.
fn experiment<K: Learned>(place: &str, text: &str, overrides: &[String]) -> Result<Experiment<K>> {
    let experiment: Experiment<K> = strict::parse(place, text, overrides)?;
    experiment.check()?;
    Ok(experiment)
}

impl<K: Learned> Task for Agents<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn solve(&self) -> Option<Verb> {
        Some(Verb::new::<K::Solve>(K::NAME))
    }

    fn data(&self) -> Option<Verb> {
        Some(Verb::new::<K::Draw>(K::NAME))
    }

    fn eval_options(&self) -> Command {
        K::Options::augment_args(Command::new(K::NAME))
    }

    fn check_options(&self, options: &TaskOptions) -> Result<()> {
        options.of::<K::Options>()?.check()
    }

    fn recipe(&self, place: &str, text: &str, overrides: &[String]) -> Result<Recipe> {
        recipe::<Experiment<K>>(place, text, overrides, |experiment| {
            experiment.check()?;
            Ok(K::model(&experiment.model)?.layout().clone())
        })
    }

    fn prepare(&self, place: &str, text: &str, overrides: &[String]) -> Result<Prepared> {
        let experiment = experiment::<K>(place, text, overrides)?;
        let config = strict::to_toml(&experiment)?;
        let (options, seed) = (experiment.train.options()?, experiment.train.seed);
        note_if_slow(experiment.train.precision.into());
        Ok(Prepared { model: Box::new(Training::new(experiment)?), config, options, seed })
    }

    fn change(&self, place: &str, text: &str, overrides: &[String]) -> Result<(String, ParamLayout)> {
        let experiment = experiment::<K>(place, text, overrides)?;
        Ok((strict::to_toml(&experiment)?, K::model(&experiment.model)?.layout().clone()))
    }

    fn evaluate(&self, weights: &WeightsFile, request: &EvalRequest, report: &mut Report) -> Result<()> {
        let mut weights = Weights::<K>::load(weights)?;
        if let Some(lag) = request.asynchronous {
            weights = weights.out_of_step(lag)?;
        }
        let Weights { experiment, mut model, params } = weights;
        if let Some(precision) = request.precision {
            model = model.in_precision(precision.into())?;
        }
        note_if_slow(model.precision());
        report.value("precision", model.precision().name());
        report_lag(&model.choices().lag, report);
        K::evaluate_file(&Weights { experiment, model, params }, request, report)
    }

    fn trace(&self, weights: &WeightsFile, request: &TraceRequest) -> Result<TraceArrays> {
        let weights = Weights::<K>::load(weights)?;
        let (set, index, config) = (K::read(&request.data)?, request.index, &weights.experiment.model);
        let samples = K::len(&set);
        if index >= samples {
            let want = format!("0 to {}, for the {samples} {} of --data", samples - 1, K::SAMPLES);
            return Err(Error::new(ErrorKind::OutOfRange, "--index", want, index));
        }
        let asked = request.iterations.unwrap_or(weights.experiment.iterations.eval);
        let board = K::board(config, &set)?;
        let single =
            Single::new(&weights.model, &weights.params, &board.sheaf, &K::samples(&board, &set), index)?;
        let (n, d_v) = (board.sheaf.agents(), K::section(config).d_v);
        // Once as numbers and once as the bytes of the file: x, z, u, outputs, and two residuals.
        let of_agent = 3 * d_v + K::output_shape(config).iter().product::<usize>() + 2;
        let bytes = product(&[2, size_of::<f32>(), asked, n, of_agent], u64::MAX).unwrap_or(u64::MAX);
        check_memory("--iterations", "iterations of a trace", bytes)?;
        let Traced { h0, states, admm, outputs } = single.trace(asked)?;
        let k = states.len() / (n * d_v);
        let mut arrays = TraceArrays::default();
        let text = format!("{} {index} of {}", K::SAMPLES.trim_end_matches('s'), request.data.display());
        arrays.report.value("task", K::NAME).add("index", "sample", index, text);
        K::traced(&weights, &set, index, &outputs, &mut arrays)?;
        let report = &mut arrays.report;
        report.add("agents", "agents", n, n.to_string()).add("iterations", "iterations", k, k.to_string());
        report.value("d_v", d_v);
        let logits = [k.max(1), n].into_iter().chain(K::output_shape(config)).collect();
        if weights.model.choices().admm() {
            arrays.floats.extend([
                ("x", vec![k, n, d_v], admm.x),
                ("z", vec![k, n, d_v], admm.z),
                ("u", vec![k, n, d_v], admm.u),
                ("primal", vec![k, n], admm.primal),
                ("dual", vec![k, n], admm.dual),
                ("edge_rms", vec![k], admm.edge_rms.clone()),
                // The older name, kept for one version.
                ("consistency", vec![k], admm.edge_rms),
            ]);
        } else {
            arrays.floats.extend([("h0", vec![n, d_v], h0), ("h", vec![k, n, d_v], states)]);
        }
        arrays.floats.push(("logits", logits, outputs));
        Ok(arrays)
    }

    fn authors_model(&self, path: Option<&Path>) -> Result<AuthorsModel> {
        let experiment: Experiment<K> = strict::read_or_default(path)?;
        experiment.check()?;
        let config = strict::to_toml(&experiment)?;
        let layout = K::model(&experiment.model)?.layout().clone();
        let name = |ours: &str| {
            K::authors_name(&layout, ours).ok_or_else(|| {
                let place = format!("parameter `{ours}`");
                Error::new(ErrorKind::Unsupported, place, "a parameter the authors' model has", "none")
                    .hint("choose an experiment with a model as published")
            })
        };
        let names = layout.entries().iter().map(|e| name(&e.name)).collect::<Result<_>>()?;
        Ok(AuthorsModel { layout, names, config })
    }

    fn workload(&self, kind: BenchKind, request: &BenchRequest) -> Result<Workload> {
        bench::workload::<K>(kind, request)
    }

    fn sizes(&self) -> &'static [usize] {
        K::SIZES
    }

    fn hot_paths(&self) -> &'static [BenchKind] {
        &[BenchKind::Laplacian, BenchKind::Forward, BenchKind::Reverse]
    }
}
