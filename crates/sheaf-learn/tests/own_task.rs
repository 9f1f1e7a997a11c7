//! A user-defined task through the public API alone: numeric targets, on a graph with and without edges.

use sheaf_admm::sheaf::{AgentGraph, Connectivity, Sheaf};
use sheaf_admm::{Real, Result};
use sheaf_learn::config::TrainSection;
use sheaf_learn::model::evaluate::{Reader, SolveOptions, solve_all};
use sheaf_learn::model::nets::{LinearDecoder, ResidualMlp};
use sheaf_learn::model::{Iterations, Loss, Model, ModelSection, Samples, Spec, Targets};
use sheaf_learn::rng::Stream;
use sheaf_learn::task::{Board, BoardOf, Experiment, Loaded, ModelOf, NoKeys, Task, Training, Update};

const SIDE: usize = 3;
const AGENTS: usize = SIDE * SIDE;

/// Every agent sees two numbers and outputs their sum and difference; one agent has only the sum as target.
#[derive(Clone, Debug)]
struct Sums;

#[derive(Clone, Debug, Default)]
struct Numbers(Vec<f32>); // [samples, agents, 2]

#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
struct Config {
    edges: bool,
    #[serde(flatten)]
    common: ModelSection,
}

impl Task for Sums {
    const NAME: &'static str = "sums";
    const SAMPLES: &'static str = "sums";
    type Data = NoKeys;
    type Config = Config;
    type Eval = NoKeys;
    type Encoder = ResidualMlp;
    type Decoder = LinearDecoder;
    type Layout = ();
    type Set = Numbers;

    fn published() -> Experiment<Self> {
        let common = ModelSection {
            d_v: 8,
            d_e: 2,
            maps: "shared".into(),
            objective: "quadratic".into(),
            ..ModelSection::default()
        };
        Experiment {
            task: Self::NAME.into(),
            data: NoKeys {},
            model: Config { edges: false, common },
            iterations: Iterations { train: 4, eval: 4, ..Iterations::default() },
            train: TrainSection {
                batch: 16,
                learning_rate: 1e-2,
                warmup: 0,
                ema: 0.9,
                loss_window: 1,
                ..TrainSection::default()
            },
            eval: NoKeys {},
        }
    }

    fn section(config: &Config) -> &ModelSection {
        &config.common
    }

    fn model(config: &Config) -> Result<ModelOf<Self>> {
        let spec = Spec::new(Connectivity::Four.slots(), "parameters of sums");
        let d_v = config.common.d_v;
        Model::new(
            config.common.clone(),
            spec,
            Loss::SquaredError,
            |layout| ResidualMlp::new(layout, 2, 16),
            |layout| LinearDecoder::new(layout, d_v, 2),
        )
    }

    fn load(_experiment: &Experiment<Self>) -> Result<Loaded<Numbers>> {
        let draw = |purpose: &str, count: usize| {
            let mut stream = Stream::new(1, purpose, 0, 0);
            Numbers((0..count * AGENTS * 2).map(|_| stream.uniform() as f32).collect())
        };
        Ok(Loaded { train: draw("training", 64), test: draw("held out", 8), more: None })
    }

    fn board(config: &Config, _set: &Numbers) -> Result<BoardOf<Self>> {
        let graph = match config.edges {
            true => AgentGraph::grid(SIDE, SIDE, Connectivity::Four)?,
            false => AgentGraph::with_slots(vec![Connectivity::Four.slots(); AGENTS], vec![])?,
        };
        Ok(Board { sheaf: Sheaf::uniform(&graph, config.common.d_v, config.common.d_e)?, layout: () })
    }

    fn len(set: &Numbers) -> usize {
        set.0.len() / (AGENTS * 2)
    }

    fn samples<'a>(_board: &'a BoardOf<Self>, set: &'a Numbers) -> impl Samples + 'a {
        Seen(&set.0)
    }

    fn begin_batch(_train: &Numbers, count: usize, batch: &mut Numbers) {
        batch.0.resize(count * AGENTS * 2, 0.0);
    }

    fn put(
        _data: &NoKeys,
        train: &Numbers,
        i: usize,
        _variant: usize,
        _stream: &mut Stream,
        place: usize,
        batch: &mut Numbers,
    ) {
        let len = AGENTS * 2;
        batch.0[place * len..][..len].copy_from_slice(&train.0[i * len..][..len]);
    }

    fn evaluate(
        experiment: &Experiment<Self>,
        model: &ModelOf<Self>,
        params: &[f32],
        held_out: &Loaded<Numbers>,
    ) -> Result<Vec<(String, f64)>> {
        let said = answers(experiment, model, params, &held_out.test)?;
        let mut targets = Targets::default();
        let (mut sum, mut count) = (0.0, 0);
        for (i, said) in said.iter().enumerate() {
            Seen(&held_out.test.0).targets(i, &mut targets);
            for (said, wanted) in said.iter().zip(&targets.values).filter(|(_, wanted)| !wanted.is_nan()) {
                sum += (said - f64::from(*wanted)).powi(2);
                count += 1;
            }
        }
        Ok(vec![("error".into(), sum / f64::from(count))])
    }

    fn metrics(_experiment: &Experiment<Self>) -> Vec<&'static str> {
        vec!["error"]
    }
}

struct Seen<'a>(&'a [f32]);

impl Samples for Seen<'_> {
    fn len(&self) -> usize {
        self.0.len() / (AGENTS * 2)
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        out.copy_from_slice(&self.0[i * AGENTS * 2..][..AGENTS * 2]);
    }

    fn targets(&self, i: usize, out: &mut Targets) {
        let pairs = self.0[i * AGENTS * 2..][..AGENTS * 2].chunks_exact(2);
        out.values.clear();
        out.values.extend(pairs.flat_map(|pair| [pair[0] + pair[1], pair[0] - pair[1]]));
        out.values[1] = f32::NAN;
    }
}

struct Outputs;

impl Reader for Outputs {
    type Answer = Vec<f64>;

    fn read<T: Real>(&self, _i: usize, outputs: &[T]) -> Vec<f64> {
        outputs.iter().map(|output| output.to_f64()).collect()
    }
}

fn answers(
    experiment: &Experiment<Sums>,
    model: &ModelOf<Sums>,
    params: &[f32],
    set: &Numbers,
) -> Result<Vec<Vec<f64>>> {
    let board = Sums::board(&experiment.model, set)?;
    let options = SolveOptions::fixed(experiment.iterations.eval);
    let solved = solve_all(model, params, &board.sheaf, &Seen(&set.0), &Outputs, &options, &|_| {})?;
    Ok(solved.into_iter().map(|solved| solved.answer).collect())
}

fn experiment(edges: bool) -> Experiment<Sums> {
    let mut experiment = Sums::published();
    experiment.model.edges = edges;
    experiment
}

#[test]
fn a_task_with_numbers_as_targets_learns_with_and_without_edges() {
    for edges in [false, true] {
        let experiment = experiment(edges);
        let options = experiment.train.options().unwrap();
        let mut update = Update::new(Training::new(experiment).unwrap(), options, 3);
        let before = update.evaluate().unwrap()[0].1;
        let losses: Vec<f64> = (0..60).map(|_| update.step().unwrap().loss).collect();
        let (first, last) = (losses[0], losses[59]);
        assert!(last < 0.1 * first, "edges {edges}: loss {first} at the start, {last} at the end");
        let after = update.evaluate().unwrap()[0].1;
        assert!(after < 0.1 * before, "edges {edges}: held-out error {before} before, {after} after");
    }
}

#[test]
fn agents_without_edges_do_not_hear_of_each_other() {
    for edges in [false, true] {
        let experiment = experiment(edges);
        let model = Sums::model(&experiment.model).unwrap();
        let params = model.init(3);
        let mut set = Sums::load(&experiment).unwrap().test;
        let before = answers(&experiment, &model, &params, &set).unwrap();
        set.0[0] += 1.0;
        let after = answers(&experiment, &model, &params, &set).unwrap();
        assert_ne!(before[0][..2], after[0][..2], "the agent itself sees the change");
        assert_eq!(before[0][2..] == after[0][2..], !edges, "edges {edges}");
        assert_eq!(before[1..], after[1..], "other samples stay as they are");
    }
}
