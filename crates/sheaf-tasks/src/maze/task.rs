//! The maze model as a declaration: tokens → RMSNorm → dense → GELU; agents on an eight-way grid; a decoder that reads
//! view and state.

use sheaf_admm::sheaf::{AgentGraph, Connectivity, Sheaf};
use sheaf_admm::{Error, ErrorKind, Real, Result};
use sheaf_learn::config::TrainSection;
use sheaf_learn::limits::{MAX_ITERATIONS, at_most, check_width};
use sheaf_learn::model::evaluate::{Reader, SolveOptions, Solved, solve_all};
use sheaf_learn::model::nets::{ConcatDecoder, TokenMlp};
use sheaf_learn::model::{
    Iterations, LoraNorm, LoraStart, Loss, MapStart, Model, ModelSection, Samples, Scope, Spec, Targets,
    ViewGrid,
};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_learn::task::{self, Board, BoardOf, Experiment, Loaded, ModelOf, Weights};
use sheaf_learn::train::loss::IGNORE;

use super::data::{MazeSet, check_count, generate, validation};
use super::metrics::{Judge, Summary, argmax};
pub use super::sections::{MazeConfig, MazeData, MazeEval};
use super::symmetry::Symmetry;
use super::{CLASSES, PATH, UNUSED, WALL};

/// The built-in weights.
pub const BUILTIN: &[u8] = include_bytes!("../../weights/maze.safetensors");

/// The built-in weights for mazes much larger than those of the training.
pub const BUILTIN_FAR: &[u8] = include_bytes!("../../weights/maze-far.safetensors");

/// Names of the eight slots.
pub const DIRECTIONS: [&str; 8] = ["N", "NE", "E", "SE", "S", "SW", "W", "NW"];

/// Side of a view in pixels, and the distance between agents.
pub(super) const PATCH: usize = 3;
pub(super) const STRIDE: usize = 2;

/// Salt that separates the seed of the training mazes from that of the larger evaluation mazes.
const LARGER_SEED: u64 = 0x37;

/// Mazes.
#[derive(Clone, Debug)]
pub struct Maze;

/// Model of mazes.
pub type MazeModel = ModelOf<Maze>;
/// Agents over mazes of one size.
pub type MazeBoard = BoardOf<Maze>;
/// Experiment on mazes.
pub type MazeExperiment = Experiment<Maze>;
/// Trained model of mazes.
pub type MazeWeights = Weights<Maze>;

impl task::Task for Maze {
    const NAME: &'static str = "maze";
    const SAMPLES: &'static str = "mazes";
    type Data = MazeData;
    type Config = MazeConfig;
    type Eval = MazeEval;
    type Encoder = TokenMlp;
    type Decoder = ConcatDecoder;
    type Layout = ViewGrid;
    type Set = MazeSet;

    fn published() -> MazeExperiment {
        Experiment {
            task: Self::NAME.into(),
            data: MazeData::default(),
            model: MazeConfig::default(),
            iterations: Iterations { train: 15, train_max: 40, eval: 100, ..Iterations::default() },
            train: TrainSection::default(),
            eval: MazeEval::default(),
        }
    }

    fn section(config: &MazeConfig) -> &ModelSection {
        &config.common
    }

    fn model(config: &MazeConfig) -> Result<MazeModel> {
        check_width("model.hidden", config.hidden)?;
        let (tokens, hidden, d_v) = (PATCH * PATCH, config.hidden, config.common.d_v);
        let spec = Spec {
            slots: DIRECTIONS.len(),
            slot_names: &DIRECTIONS,
            map_start: MapStart::Orthonormal,
            lora_start: LoraStart::ZeroA,
            lora_norm: LoraNorm::Layer,
            tile: 1,
            // A batch of 128 mazes has 10,368 views and about 90 distinct ones.
            scope: Scope::Batch,
            stream: "maze parameters",
        };
        Model::new(
            config.common.clone(),
            spec,
            Loss::CrossEntropy { classes: CLASSES },
            |layout| TokenMlp::new(layout, tokens, CLASSES, hidden),
            |layout| ConcatDecoder::new(layout, tokens, CLASSES, d_v, hidden, tokens * CLASSES),
        )
    }

    fn check(experiment: &MazeExperiment) -> Result<()> {
        let data = &experiment.data;
        data.check()?;
        check_count(&experiment.eval.shape()?, experiment.eval.larger)?;
        at_most("eval.larger_iterations", "of them", MAX_ITERATIONS, experiment.eval.larger_iterations)?;
        let wrong = |place: &str, expected: &str, got: usize| {
            Err(Error::new(ErrorKind::Malformed, place, expected, got))
        };
        if data.count * Self::variants(data) < experiment.train.batch {
            return wrong("data.count", "mazes enough for one batch", data.count);
        }
        if experiment.iterations.rounds != 1 {
            return wrong("iterations.rounds", "1: mazes have no rounds", experiment.iterations.rounds);
        }
        Ok(())
    }

    fn authors_name(_layout: &ParamLayout, name: &str) -> Option<String> {
        /// (our name, the authors' name) of every module; tensors below a module have the same names in both.
        const MODULES: [(&str, &str); 15] = [
            ("encoder/input_norm", "MLPEncoderV2_0/input_norm"),
            ("encoder/dense", "MLPEncoderV2_0/dense"),
            ("encoder/h", "MLPEncoderV2_0/comm_head/comm_dense"),
            ("encoder/h_norm", "MLPEncoderV2_0/comm_head/comm_norm"),
            ("encoder/diag", "MLPEncoderV2_0/objective_heads/q_diag_dense"),
            ("encoder/q", "MLPEncoderV2_0/objective_heads/q_dense"),
            ("encoder/l1", "MLPEncoderV2_0/objective_heads/l1_weight_dense"),
            ("encoder/upper", "MLPEncoderV2_0/objective_heads/upper_bound_dense"),
            ("encoder/low_rank_norm", "MLPEncoderV2_0/lora_pre_ln"),
            ("encoder/low_rank_a", "MLPEncoderV2_0/lora_A_dense"),
            ("encoder/low_rank_b", "MLPEncoderV2_0/lora_B_dense"),
            ("encoder/low_rank_gate", "MLPEncoderV2_0/lora_gate_dense"),
            ("decoder/input_norm", "ConcatMLPDecoderV2_0/input_norm"),
            ("decoder/dense", "ConcatMLPDecoderV2_0/dense"),
            ("decoder/out", "ConcatMLPDecoderV2_0/output_dense"),
        ];
        task::authors_name(&MODULES, name)
    }

    fn load(experiment: &MazeExperiment) -> Result<Loaded<MazeSet>> {
        let data = &experiment.data;
        let (train, test) = data.load()?;
        let (larger, shape) = (experiment.eval.larger, experiment.eval.shape()?);
        let draw = if data.validation_count > 0 { validation } else { generate };
        let more = (larger > 0).then(|| draw(&shape, data.seed ^ LARGER_SEED, larger)).transpose()?;
        Ok(Loaded { train, test, more })
    }

    fn board(config: &MazeConfig, set: &MazeSet) -> Result<MazeBoard> {
        board(config, set.height, set.width)
    }

    fn len(set: &MazeSet) -> usize {
        set.len()
    }

    fn samples<'a>(board: &'a MazeBoard, set: &'a MazeSet) -> impl Samples + 'a {
        MazeSamples { grid: board.layout, inputs: &set.inputs, labels: &set.labels }
    }

    fn variants(data: &MazeData) -> usize {
        if data.symmetries { Symmetry::ALL.len() } else { 1 }
    }

    fn split(data: &MazeData) -> &'static str {
        if data.validation_count > 0 { "validation" } else { "test" }
    }

    fn begin_batch(train: &MazeSet, count: usize, batch: &mut MazeSet) {
        (batch.height, batch.width) = (train.height, train.width);
        batch.inputs.resize(count * train.pixels(), 0);
        batch.labels.resize(count * train.pixels(), 0);
    }

    fn put(
        _data: &MazeData,
        train: &MazeSet,
        i: usize,
        variant: usize,
        _stream: &mut Stream,
        place: usize,
        batch: &mut MazeSet,
    ) {
        let own = place * train.pixels()..(place + 1) * train.pixels();
        let (input, label) = (&mut batch.inputs[own.clone()], &mut batch.labels[own]);
        train.write_variant(i, Symmetry::ALL[variant], input, label);
    }

    fn evaluate(
        experiment: &MazeExperiment,
        model: &MazeModel,
        params: &[f32],
        held_out: &Loaded<MazeSet>,
    ) -> Result<Vec<(String, f64)>> {
        let (eval, iterations) = (&experiment.eval, experiment.iterations.eval);
        let summary = |set: &MazeSet, iterations: usize| -> Result<Summary> {
            let options = SolveOptions::fixed(iterations);
            let solved = solve(&experiment.model, model, params, set, &options, &|_| {})?;
            Ok(summarise(set, &solved))
        };
        let score = match eval.test {
            0 => summary(&held_out.test, iterations)?,
            count => summary(&held_out.test.first(count), iterations)?,
        };
        let mut metrics = vec![score.solved_rate(), score.cell_accuracy()];
        if let Some(larger) = &held_out.more {
            let own = if eval.larger_iterations == 0 { iterations } else { eval.larger_iterations };
            metrics.push(summary(larger, own)?.solved_rate());
        }
        Ok(Self::metrics(experiment).into_iter().map(String::from).zip(metrics).collect())
    }

    fn metrics(experiment: &MazeExperiment) -> Vec<&'static str> {
        let mut names = vec!["solved", "cell_accuracy"];
        if experiment.eval.larger > 0 {
            names.push(match experiment.eval.larger_size {
                37 => "solved_37x37",
                73 => "solved_73x73",
                _ => "solved_larger",
            });
        }
        names
    }
}

/// Agents over mazes of this size.
pub fn board(config: &MazeConfig, height: usize, width: usize) -> Result<MazeBoard> {
    let layout = ViewGrid::new(height, width, PATCH, STRIDE)?;
    let graph = AgentGraph::grid(layout.rows(), layout.columns(), Connectivity::Eight)?;
    let sheaf = Sheaf::uniform(&graph, config.common.d_v, config.common.d_e)?;
    Ok(Board { sheaf, layout })
}

/// Mazes as the model takes them. Beyond the border are walls, which do not count in the loss.
#[derive(Clone, Copy, Debug)]
pub struct MazeSamples<'a> {
    /// The grid of the agents' views.
    pub grid: ViewGrid,
    /// Tokens the agents see.
    pub inputs: &'a [u8], // [mazes, height, width]
    /// Tokens with the path marked; empty without training.
    pub labels: &'a [u8], // [mazes, height, width]
}

impl Samples for MazeSamples<'_> {
    fn len(&self) -> usize {
        self.inputs.len() / self.grid.pixels()
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        let pixels = self.grid.pixels();
        self.grid.views(&self.inputs[i * pixels..][..pixels], f32::from(WALL), f32::from, out);
    }

    fn targets(&self, i: usize, out: &mut Targets) {
        let pixels = self.grid.pixels();
        out.labels.resize(self.grid.agents() * self.grid.view_pixels(), IGNORE);
        let label = |token: u8| if token == UNUSED { IGNORE } else { token };
        self.grid.views(&self.labels[i * pixels..][..pixels], IGNORE, label, &mut out.labels);
    }
}

/// Converts the agents' logits to predicted tokens.
#[derive(Clone, Copy, Debug)]
pub struct MazeReader<'a>(pub MazeSamples<'a>);

impl Reader for MazeReader<'_> {
    type Answer = Vec<u8>; // [height, width]
    const RULES: bool = true;

    fn read<T: Real>(&self, _i: usize, outputs: &[T]) -> Vec<u8> {
        let grid = &self.0.grid;
        let mut picture = vec![T::ZERO; grid.pixels() * CLASSES];
        let mut predicted = vec![0; grid.pixels()];
        grid.average(CLASSES, outputs, &mut picture);
        argmax(&picture, &mut predicted);
        predicted
    }

    /// An unbroken path from start to goal through open pixels, and no other path cells.
    fn complete(&self, i: usize, answer: &Vec<u8>) -> bool {
        let pixels = self.0.grid.pixels();
        Judge::default().valid(&self.0.inputs[i * pixels..][..pixels], answer, self.0.grid.width())
    }

    fn right(&self, i: usize, answer: &Vec<u8>) -> bool {
        let label = &self.0.labels[i * answer.len()..][..answer.len()];
        label.iter().zip(answer).all(|(&l, &p)| (l == PATH) == (p == PATH))
    }
}

/// Predictions for all mazes of a set.
pub fn solve(
    config: &MazeConfig,
    model: &MazeModel,
    params: &[f32],
    set: &MazeSet,
    options: &SolveOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Solved<Vec<u8>>>> {
    let board = board(config, set.height, set.width)?;
    let samples = MazeSamples { grid: board.layout, inputs: &set.inputs, labels: &set.labels };
    solve_all(model, params, &board.sheaf, &samples, &MazeReader(samples), options, progress)
}

/// Scores the predictions.
pub fn summarise(set: &MazeSet, solved: &[Solved<Vec<u8>>]) -> Summary {
    let (mut summary, mut judge) = (Summary::default(), Judge::default());
    for (i, one) in solved.iter().enumerate() {
        summary.add(&judge.score(set.input(i), set.label(i), &one.answer, set.width));
    }
    summary
}
