//! The Sudoku model as a declaration: 27 units with nine slots each; three agents share every cell.

use serde::{Deserialize, Serialize};
use sheaf_admm::sheaf::{AgentGraph, Sheaf};
use sheaf_admm::{Error, ErrorKind, Real, Result};
use sheaf_learn::config::TrainSection;
use sheaf_learn::limits::{at_most, check_width};
use sheaf_learn::model::evaluate::{Reader, SolveOptions, solve_all};
use sheaf_learn::model::{
    Iterations, LoraNorm, LoraStart, Loss, MapStart, Model, ModelSection, Samples, Scope, Spec, Targets,
};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_learn::task::{self, Board, BoardOf, Experiment, Loaded, ModelOf, Weights};

use super::augment::{Shuffles, Transform};
use super::csv::MAX_PUZZLES;
use super::data::SudokuSet;
use super::decoder::CellDecoder;
use super::encoder::{UnitEncoder, VIEW_LEN};
use super::metrics::{Summary, score};
use super::rounds::{Reading, in_rounds};
use super::source::SudokuData;
use super::views::{SLOTS, VIEWS, gather};
use super::{CELLS, CLASSES, Grid, UNITS};
use crate::maze::symmetry::Symmetry;

/// The built-in weights, in half precision.
pub const BUILTIN: &[u8] = include_bytes!("../../weights/sudoku.safetensors");

/// Most mixer blocks of the encoder.
const MAX_MIXERS: usize = 256;

/// Initial standard deviation of the maps from the identity on their block.
const MAP_NOISE: f64 = 0.01;

/// Sudoku.
#[derive(Clone, Debug)]
pub struct Sudoku;

/// Model of Sudoku.
pub type SudokuModel = ModelOf<Sudoku>;
/// The 27 agents.
pub type SudokuBoard = BoardOf<Sudoku>;
/// Experiment on Sudoku.
pub type SudokuExperiment = Experiment<Sudoku>;
/// Trained model of Sudoku.
pub type SudokuWeights = Weights<Sudoku>;

/// The `[model]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SudokuConfig {
    /// Channels of a cell in the encoder.
    pub channels: usize,
    /// Mixer blocks of the encoder.
    pub mixers: usize,
    /// Hidden width of a mixer across cells.
    pub token_hidden: usize,
    /// Hidden width of a mixer across channels.
    pub channel_hidden: usize,
    /// Width of the decoder.
    pub decoder_hidden: usize,
    /// Keys that every task has.
    #[serde(flatten)]
    pub common: ModelSection,
}

impl Default for SudokuConfig {
    fn default() -> Self {
        let common = ModelSection {
            d_v: 288,
            d_e: 32,
            maps: "slot".into(),
            objective: "non-negative".into(),
            gamma: 2.0,
            ..ModelSection::default()
        };
        Self { channels: 128, mixers: 2, token_hidden: 18, channel_hidden: 256, decoder_hidden: 256, common }
    }
}

/// The `[eval]` section: what is evaluated during training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SudokuEval {
    /// Held-out puzzles evaluated; 0 for all.
    pub test: usize,
}

impl Default for SudokuEval {
    fn default() -> Self {
        Self { test: 500 }
    }
}

impl task::Task for Sudoku {
    const NAME: &'static str = "sudoku";
    const SAMPLES: &'static str = "puzzles";
    type Data = SudokuData;
    type Config = SudokuConfig;
    type Eval = SudokuEval;
    type Encoder = UnitEncoder;
    type Decoder = CellDecoder;
    type Layout = ();
    type Set = SudokuSet;

    fn published() -> SudokuExperiment {
        Experiment {
            task: Self::NAME.into(),
            data: SudokuData::default(),
            model: SudokuConfig::default(),
            iterations: Iterations { train: 20, eval: 50, ..Iterations::default() },
            train: TrainSection {
                learning_rate: 1.7e-3,
                weight_decay: 1e-7,
                loss_window: 2,
                ..TrainSection::default()
            },
            eval: SudokuEval::default(),
        }
    }

    fn section(config: &SudokuConfig) -> &ModelSection {
        &config.common
    }

    fn model(config: &SudokuConfig) -> Result<SudokuModel> {
        for (name, value) in [
            ("channels", config.channels),
            ("token_hidden", config.token_hidden),
            ("channel_hidden", config.channel_hidden),
            ("decoder_hidden", config.decoder_hidden),
        ] {
            check_width(&format!("model.{name}"), value)?;
        }
        at_most("model.mixers", "blocks", MAX_MIXERS, config.mixers)?;
        let d_v = config.common.d_v;
        if !d_v.is_multiple_of(SLOTS) {
            let want = "a multiple of 9, one block per cell";
            return Err(Error::new(ErrorKind::Malformed, "model.d_v", want, d_v));
        }
        let spec = Spec {
            slots: SLOTS,
            slot_names: &[],
            map_start: MapStart::SoftSlice(MAP_NOISE),
            lora_start: LoraStart::ZeroA,
            lora_norm: LoraNorm::Rms,
            // Two boards make large enough products and stay in the cache.
            tile: 2,
            scope: Scope::Samples(2),
            stream: "sudoku parameters",
        };
        Model::new(
            config.common.clone(),
            spec,
            Loss::CrossEntropy { classes: CLASSES },
            |layout| UnitEncoder::new(layout, config),
            |layout| CellDecoder::new(layout, d_v / SLOTS, config.decoder_hidden),
        )
    }

    fn check(experiment: &SudokuExperiment) -> Result<()> {
        let (data, batch) = (&experiment.data, experiment.train.batch);
        let wrong = |place: &str, expected: &str, got: usize| {
            Err(Error::new(ErrorKind::Malformed, place, expected, got))
        };
        if data.test_count == 0 {
            return wrong("data.test_count", "at least 1", 0);
        }
        for (key, count) in [
            ("count", data.count),
            ("generated", data.generated),
            ("test_count", data.test_count),
            ("validation_count", data.validation_count),
        ] {
            at_most(&format!("data.{key}"), "puzzles", MAX_PUZZLES, count)?;
        }
        data.validation_kind()?;
        if data.source == "generate" && data.count * data.variants() < batch {
            return wrong("data.count", "puzzles enough for one batch", data.count);
        }
        if experiment.iterations.rounds > CELLS {
            return wrong("iterations.rounds", "at most 81, one cell a round", experiment.iterations.rounds);
        }
        Ok(())
    }

    fn authors_name(_layout: &ParamLayout, name: &str) -> Option<String> {
        /// (our name, the authors' name) of every module; tensors below a module have the same names in both.
        const MODULES: [(&str, &str); 15] = [
            ("encoder/token", "SudokuEncoder_0/token_embed"),
            ("encoder/board_position", "SudokuEncoder_0/global_pos_embed"),
            ("encoder/norm", "SudokuEncoder_0/pre_flat_norm"),
            ("encoder/cell", "SudokuEncoder_0/cell_proj"),
            ("encoder/cell_norm", "SudokuEncoder_0/cell_norm"),
            ("encoder/h", "SudokuEncoder_0/comm_head/comm_dense"),
            ("encoder/h_norm", "SudokuEncoder_0/comm_head/comm_norm"),
            ("encoder/diag", "SudokuEncoder_0/objective_heads/q_diag_dense"),
            ("encoder/q", "SudokuEncoder_0/objective_heads/q_dense"),
            ("encoder/low_rank_norm", "SudokuEncoder_0/lora_pre_norm"),
            ("encoder/low_rank_a", "SudokuEncoder_0/lora_A_dense"),
            ("encoder/low_rank_b", "SudokuEncoder_0/lora_B_dense"),
            ("encoder/low_rank_gate", "SudokuEncoder_0/lora_gate_dense"),
            ("decoder/block", "SudokuDecoder_0/block_0"),
            ("decoder/out", "SudokuDecoder_0/output_dense"),
        ];
        if name == "encoder/slot_position" {
            return Some("SudokuEncoder_0/pos_embed".into());
        }
        if let Some(rest) = name.strip_prefix("encoder/mixer_") {
            return Some(format!("SudokuEncoder_0/mixer_block_{rest}"));
        }
        task::authors_name(&MODULES, name)
    }

    fn load(experiment: &SudokuExperiment) -> Result<Loaded<SudokuSet>> {
        let (train, test) = experiment.data.load()?;
        Ok(Loaded { train, test, more: None })
    }

    fn board(config: &SudokuConfig, _set: &SudokuSet) -> Result<SudokuBoard> {
        board(config)
    }

    fn len(set: &SudokuSet) -> usize {
        set.len()
    }

    fn samples<'a>(_board: &'a SudokuBoard, set: &'a SudokuSet) -> impl Samples + 'a {
        Boards { puzzles: &set.puzzles, solutions: &set.solutions }
    }

    fn variants(data: &SudokuData) -> usize {
        data.variants()
    }

    fn split(data: &SudokuData) -> &'static str {
        if data.validation_count > 0 { "validation" } else { "test" }
    }

    fn begin_batch(_train: &SudokuSet, count: usize, batch: &mut SudokuSet) {
        batch.puzzles.resize(count, [0; CELLS]);
        batch.solutions.resize(count, [0; CELLS]);
    }

    fn put(
        data: &SudokuData,
        train: &SudokuSet,
        i: usize,
        variant: usize,
        stream: &mut Stream,
        place: usize,
        batch: &mut SudokuSet,
    ) {
        let shuffles = Shuffles { digits: data.relabel, bands: data.permute, transpose: data.permute };
        let variant = Transform::draw(Symmetry::ALL[variant], shuffles, stream);
        variant.apply(&train.puzzles[i], &mut batch.puzzles[place]);
        variant.apply(&train.solutions[i], &mut batch.solutions[place]);
    }

    fn evaluate(
        experiment: &SudokuExperiment,
        model: &SudokuModel,
        params: &[f32],
        held_out: &Loaded<SudokuSet>,
    ) -> Result<Vec<(String, f64)>> {
        let test = match experiment.eval.test {
            0 => held_out.test.clone(),
            count => held_out.test.first(count),
        };
        let Iterations { eval, rounds, .. } = experiment.iterations;
        let options = SolveOptions::fixed(eval);
        let score = evaluate(&experiment.model, model, params, &test, &options, rounds, &|_| {})?.summary;
        let rates = [score.solved_rate(), score.valid_rate(), score.cell_accuracy(), score.blank_accuracy()];
        Ok(Self::metrics(experiment).into_iter().map(String::from).zip(rates).collect())
    }

    fn metrics(_experiment: &SudokuExperiment) -> Vec<&'static str> {
        vec!["solved", "valid", "cell_accuracy", "blank_accuracy"]
    }
}

/// The 27 agents.
pub fn board(config: &SudokuConfig) -> Result<SudokuBoard> {
    let sheaf = Sheaf::uniform(&AgentGraph::sudoku(), config.common.d_v, config.common.d_e)?;
    Ok(Board { sheaf, layout: () })
}

/// Puzzles as the model takes them.
#[derive(Clone, Copy, Debug)]
pub struct Boards<'a> {
    /// Givens.
    pub puzzles: &'a [Grid],
    /// Their completions; empty without training.
    pub solutions: &'a [Grid],
}

impl Samples for Boards<'_> {
    fn len(&self) -> usize {
        self.puzzles.len()
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        let mut tokens = [0; VIEWS];
        gather(&self.puzzles[i], &mut tokens);
        let views = out.chunks_exact_mut(VIEW_LEN).zip(tokens.chunks_exact(SLOTS));
        for (unit, (view, tokens)) in views.enumerate() {
            view[0] = unit as f32;
            view[1..].iter_mut().zip(tokens).for_each(|(to, &token)| *to = f32::from(token));
        }
    }

    fn targets(&self, i: usize, out: &mut Targets) {
        out.labels.resize(VIEWS, 0);
        gather(&self.solutions[i], &mut out.labels);
    }
}

/// Converts the agents' logits to a board.
#[derive(Clone, Copy, Debug)]
pub struct BoardReader<'a>(pub &'a [Grid]);

impl Reader for BoardReader<'_> {
    type Answer = Reading;
    const RULES: bool = true;

    fn read<T: Real>(&self, _i: usize, outputs: &[T]) -> Reading {
        Reading::of(outputs)
    }

    /// Every unit holds every digit once, and all givens are kept.
    fn complete(&self, i: usize, answer: &Reading) -> bool {
        answer.completes(&self.0[i])
    }
}

/// The results of a set of puzzles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvalReport {
    /// Scores: solved, valid, cells, blanks.
    pub summary: Summary,
    /// The same for the puzzles with one solution.
    pub unique: Summary,
    /// Iterations of all rounds, summed over boards.
    pub iterations: usize,
    /// Rounds, summed over boards.
    pub rounds: usize,
}

impl EvalReport {
    /// Mean iterations per board.
    pub fn mean_iterations(&self) -> f64 {
        self.iterations as f64 / self.summary.boards.max(1) as f64
    }

    /// Mean rounds per board.
    pub fn mean_rounds(&self) -> f64 {
        self.rounds as f64 / self.summary.boards.max(1) as f64
    }
}

/// Solves all puzzles of a set, in at most `rounds` rounds each, and scores the answers.
pub fn evaluate(
    config: &SudokuConfig,
    model: &SudokuModel,
    params: &[f32],
    set: &SudokuSet,
    options: &SolveOptions,
    rounds: usize,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<EvalReport> {
    let sheaf = board(config)?.sheaf;
    let answers = in_rounds(&set.puzzles, rounds, progress, |puzzles, progress| {
        let boards = Boards { puzzles, solutions: &[] };
        solve_all(model, params, &sheaf, &boards, &BoardReader(puzzles), options, progress)
    })?;
    let mut report = EvalReport::default();
    for (i, answer) in answers.iter().enumerate() {
        let score = score(&set.puzzles[i], &set.solutions[i], &answer.predicted);
        report.summary.add(&score);
        if !set.ambiguous[i] {
            report.unique.add(&score);
        }
        report.iterations += answer.iterations;
        report.rounds += answer.rounds;
    }
    Ok(report)
}

const _: () = assert!(VIEWS == UNITS * SLOTS);
