//! The models against arrays from the authors' code: encoder, iterates, logits, predictions, loss, every gradient.
#![cfg(feature = "goldens")]

use sheaf_admm::Real;
use sheaf_learn::model::evaluate::{Reader, Single, Traced};
use sheaf_learn::model::heads::{DIAG, H, HI, L1, Q};
use sheaf_learn::model::{Batch, Horizon, Samples, Targets, ViewGrid};
use sheaf_learn::task::{BoardOf, ModelOf, Task};
use sheaf_tasks::maze::task::{Maze, MazeConfig, MazeReader, MazeSamples};
use sheaf_tasks::mnist::task::{Mnist, MnistConfig, VoteReader};
use sheaf_tasks::sudoku::task::{BoardReader, Boards, Sudoku, SudokuConfig};
use sheaf_tasks::sudoku::{CELLS, Grid};
use sheaf_tasks::{maze, mnist, sudoku};
use sheaf_testkit::golden::{ENCODER, Golden, LOGITS, assert_close_max, assert_grad, assert_iterates};

/// What is compared in each case.
struct Case {
    folder: &'static str,
    iterations: usize,
    window: usize,
    parameters: usize,
}

const SAMPLES: usize = 2;
const COLUMNS: [(&str, usize); 5] = [("h", H), ("q", Q), ("q_diag", DIAG), ("l1_weight", L1), ("upper", HI)];

fn f64s<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

fn bytes(golden: &Golden, name: &str) -> Vec<u8> {
    golden.i32(name).data.iter().map(|&t| t as u8).collect()
}

impl Case {
    fn open(&self, file: &str) -> Golden {
        Golden::open(self.folder, file)
    }

    fn params<K: Task, T: Real>(&self, model: &ModelOf<K>) -> Vec<T> {
        let golden = self.open("params");
        assert_eq!(golden.names().len(), model.layout().entries().len());
        assert_eq!(model.layout().len(), self.parameters, "the published number of parameters");
        let mut params = vec![T::ZERO; model.layout().len()];
        for entry in model.layout().entries() {
            let theirs = K::authors_name(model.layout(), &entry.name).unwrap();
            let array = golden.f64(&format!("param/{theirs}"));
            assert_eq!(array.data.len(), entry.range.len(), "{theirs}");
            for (to, from) in params[entry.range.clone()].iter_mut().zip(&array.data) {
                *to = T::from_f64(*from);
            }
        }
        params
    }

    fn values<K: Task, T: Real, R: Reader>(
        &self,
        model: &ModelOf<K>,
        board: &BoardOf<K>,
        samples: &dyn Samples,
        reader: &R,
        answer: impl Fn(&Golden, usize) -> R::Answer,
    ) where
        R::Answer: std::fmt::Debug,
    {
        let (params, k) = (self.params::<K, T>(model), self.iterations);
        let [encoder, trace] = ["encoder", "trace"].map(|file| self.open(file));
        assert!((model.rho(&params).0.to_f64() - encoder.f64("rho").scalar()).abs() < 1e-6);
        for s in 0..SAMPLES {
            let single = Single::<T, _, _>::new(model, &params, &board.sheaf, samples, s).unwrap();
            let (at, index) = single.setting();
            let rows = |table: &[T]| -> Vec<f64> {
                let width = table.len() / at.tables.views();
                index.iter().flat_map(|&v| f64s(&table[v as usize * width..][..width])).collect()
            };
            for (name, column) in COLUMNS {
                let name = format!("enc/{name}");
                if encoder.names().contains(&name) && !at.tables.headed().columns[column].is_empty() {
                    let len = at.tables.views() * model.section().d_v;
                    let got = rows(&at.tables.headed().columns[column][..len]);
                    assert_close_max(&name, &got, &encoder.f64(&name).select(1, s).data, ENCODER);
                }
            }
            if encoder.names().iter().any(|n| n == "enc/A") {
                let (a, b) = at.tables.factors(model, &params);
                for (name, got) in [("enc/A", a), ("enc/B", b)] {
                    assert_close_max(name, &rows(&got), &encoder.f64(name).select(1, s).data, ENCODER);
                }
            }
            let Traced { admm: seen, outputs: logits, .. } = single.trace(k).unwrap();
            let states = [("x", &seen.x), ("z", &seen.z), ("y", &seen.u)];
            for (name, got) in
                states.into_iter().chain([("primal_res", &seen.primal), ("dual_res", &seen.dual)])
            {
                assert_iterates(name, &f64s(got), &trace.f64(name).select(2, s).data, k);
            }
            let want = trace.f64("consistency_rms").select(1, s).data;
            assert_iterates("edge_rms", &f64s(&seen.edge_rms), &want, k);
            let one = logits.len() / k;
            for (k, logits) in logits.chunks_exact(one).enumerate() {
                let want = trace.f64("logits_per_iter").select(0, k).select(1, s);
                assert_close_max("logits", &f64s(logits), &want.data, LOGITS);
            }
            let got = reader.read(s, &logits[(k - 1) * one..]);
            assert_eq!(got, answer(&trace, s), "prediction of sample {s}");
        }
    }

    /// The states and the last logits of message passing.
    fn rounds<K: Task, T: Real, R: Reader>(
        &self,
        model: &ModelOf<K>,
        board: &BoardOf<K>,
        samples: &dyn Samples,
        reader: &R,
        answer: impl Fn(&Golden, usize) -> R::Answer,
    ) where
        R::Answer: std::fmt::Debug,
    {
        let (params, trace, k) = (self.params::<K, T>(model), self.open("trace"), self.iterations);
        for s in 0..SAMPLES {
            let single = Single::<T, _, _>::new(model, &params, &board.sheaf, samples, s).unwrap();
            let Traced { h0, states, outputs, .. } = single.trace(k).unwrap();
            assert_close_max("h0", &f64s(&h0), &trace.f64("hidden0").select(1, s).data, ENCODER);
            assert_iterates("h", &f64s(&states), &trace.f64("hidden").select(2, s).data, k);
            let last = &outputs[outputs.len() / k * (k - 1)..];
            assert_close_max("logits", &f64s(last), &trace.f64("logits").select(1, s).data, LOGITS);
            assert_eq!(reader.read(s, last), answer(&trace, s), "prediction of sample {s}");
        }
    }

    fn gradients<K: Task, T: Real>(&self, model: &ModelOf<K>, board: &BoardOf<K>, samples: &dyn Samples) {
        let (params, want) = (self.params::<K, T>(model), self.open("loss_grads"));
        let mut grad = vec![T::ZERO; params.len()];
        let horizon = Horizon::whole(self.iterations, self.window);
        let loss = Batch::<T, _, _>::default()
            .loss_and_grad(model, &params, &board.sheaf, samples, horizon, &mut grad)
            .unwrap()
            .loss;
        let want_loss: f64 = want.f64("loss").scalar();
        assert!((loss - want_loss).abs() <= 1e-5 * want_loss, "loss {loss} against {want_loss}");
        let largest = want.largest_grad_norm();
        for entry in model.layout().entries() {
            let theirs = K::authors_name(model.layout(), &entry.name).unwrap();
            let got = f64s(&grad[entry.range.clone()]);
            assert_grad(&theirs, &got, &want.f64(&format!("grad/{theirs}")).data, largest);
        }
    }
}

const MAZE: Case = Case { folder: "maze_sheaf", iterations: 8, window: 4, parameters: 181_859 };

const MAZE_MESSAGES: Case = Case { folder: "maze_mpnn", iterations: 8, window: 1, parameters: 182_007 };

fn maze_case<T: Real>(case: &Case) {
    let mut config = MazeConfig::default();
    let talks = case.folder == MAZE_MESSAGES.folder;
    if talks {
        config.common.coordination = "message-passing".into();
        (config.common.d_v, config.common.message_width) = (84, 42);
    }
    let (model, board) = (Maze::model(&config).unwrap(), maze::task::board(&config, 19, 19).unwrap());
    let inputs = case.open("inputs");
    let (tokens, labels) = (bytes(&inputs, "tokens"), bytes(&inputs, "labels"));
    let samples = MazeSamples { grid: board.layout, inputs: &tokens, labels: &labels };
    let answer =
        |trace: &Golden, s: usize| trace.i32("pred").select(0, s).data.iter().map(|&t| t as u8).collect();
    match talks {
        true => case.rounds::<Maze, T, _>(&model, &board, &samples, &MazeReader(samples), answer),
        false => case.values::<Maze, T, _>(&model, &board, &samples, &MazeReader(samples), answer),
    }
    case.gradients::<Maze, T>(&model, &board, &samples);
}

const MNIST: Case = Case { folder: "mnist_sheaf", iterations: 8, window: 2, parameters: 1_081_835 };

/// Pictures as numbers, as the arrays hold them.
struct Pictures {
    grid: ViewGrid,
    images: Vec<f32>,
    labels: Vec<u8>,
}

impl Samples for Pictures {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        self.grid.views(&self.images[i * self.grid.pixels()..][..self.grid.pixels()], 0.0, |p| p, out);
    }

    fn targets(&self, i: usize, out: &mut Targets) {
        out.labels.clear();
        out.labels.resize(self.grid.agents(), self.labels[i]);
    }
}

fn mnist_case<T: Real>() {
    let config = MnistConfig::default();
    let (model, board) = (Mnist::model(&config).unwrap(), mnist::task::board(&config, 28, 28).unwrap());
    let inputs = MNIST.open("inputs");
    let images = inputs.f32("images").data;
    let samples = Pictures { grid: board.layout, images, labels: bytes(&inputs, "labels") };
    let answer = |trace: &Golden, s: usize| trace.i32("pred").data[s] as u8;
    MNIST.values::<Mnist, T, _>(&model, &board, &samples, &VoteReader { classes: 10 }, answer);
    MNIST.gradients::<Mnist, T>(&model, &board, &samples);
}

const SUDOKU: Case = Case { folder: "sudoku_sheaf", iterations: 4, window: 2, parameters: 543_025 };
const SUDOKU_LORA: Case =
    Case { folder: "sudoku_sheaf_lora", iterations: 4, window: 2, parameters: 2_029_233 };

fn grids(golden: &Golden, name: &str) -> Vec<Grid> {
    let grid = |cells: &[u8]| -> Grid { cells.try_into().unwrap() };
    bytes(golden, name).chunks_exact(CELLS).map(grid).collect()
}

const SUDOKU_MESSAGES: Case = Case { folder: "sudoku_mpnn", iterations: 4, window: 1, parameters: 491_527 };

fn sudoku_case<T: Real>(case: &Case, maps: &str) {
    let mut config = SudokuConfig::default();
    config.common.maps = maps.into();
    let talks = case.folder == SUDOKU_MESSAGES.folder;
    if talks {
        config.common.coordination = "message-passing".into();
        (config.common.d_v, config.common.message_width) = (126, 32);
    }
    let (model, board) = (Sudoku::model(&config).unwrap(), sudoku::task::board(&config).unwrap());
    let inputs = case.open("inputs");
    let (puzzles, solutions) = (grids(&inputs, "tokens"), grids(&inputs, "labels"));
    let samples = Boards { puzzles: &puzzles, solutions: &solutions };
    let answer = |trace: &Golden, s: usize| {
        let mut predicted = [0; CELLS];
        predicted.iter_mut().zip(&trace.i32("pred").select(0, s).data).for_each(|(to, &p)| *to = p as u8);
        sudoku::rounds::Reading { predicted, sure: [0.0; CELLS] }
    };
    match talks {
        true => case.rounds::<Sudoku, T, _>(&model, &board, &samples, &BoardReader(&puzzles), answer),
        false => case.values::<Sudoku, T, _>(&model, &board, &samples, &BoardReader(&puzzles), answer),
    }
    case.gradients::<Sudoku, T>(&model, &board, &samples);
}

#[test]
fn sudoku_agrees_in_single_precision() {
    sudoku_case::<f32>(&SUDOKU, "slot");
}

#[test]
fn sudoku_agrees_in_double_precision() {
    sudoku_case::<f64>(&SUDOKU, "slot");
}

#[test]
fn sudoku_with_lora_agrees_in_single_precision() {
    sudoku_case::<f32>(&SUDOKU_LORA, "low-rank");
}

#[test]
fn sudoku_with_lora_agrees_in_double_precision() {
    sudoku_case::<f64>(&SUDOKU_LORA, "low-rank");
}

#[test]
fn messages_about_mazes_agree_in_single_and_double_precision() {
    maze_case::<f32>(&MAZE_MESSAGES);
    maze_case::<f64>(&MAZE_MESSAGES);
}

#[test]
fn messages_about_sudoku_agree_in_single_and_double_precision() {
    sudoku_case::<f32>(&SUDOKU_MESSAGES, "slot");
    sudoku_case::<f64>(&SUDOKU_MESSAGES, "slot");
}

#[test]
fn mazes_agree_in_single_precision() {
    maze_case::<f32>(&MAZE);
}

#[test]
fn mazes_agree_in_double_precision() {
    maze_case::<f64>(&MAZE);
}

#[test]
fn pictures_agree_in_single_precision() {
    mnist_case::<f32>();
}

#[test]
fn pictures_agree_in_double_precision() {
    mnist_case::<f64>();
}
