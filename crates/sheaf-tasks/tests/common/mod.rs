//! Small models of every task, built from experiment keys.
#![allow(dead_code)]

use sheaf_admm::Real;
use sheaf_learn::config::strict;
use sheaf_learn::model::evaluate::{Reader, SolveOptions, Solved, solve_all};
use sheaf_learn::model::{Batch, BatchLoss, Horizon, Samples};
use sheaf_learn::rng::Stream;
use sheaf_learn::task::{BoardOf, Experiment, ModelOf, Task};
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::MazeSet;
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::data::ImageSet;
use sheaf_tasks::mnist::task::{Mnist, VoteReader};
use sheaf_tasks::sudoku::data::SudokuSet;
use sheaf_tasks::sudoku::generate::Kind;
use sheaf_tasks::sudoku::task::{BoardReader, Sudoku};
use sheaf_testkit::GradientCheck;

/// A task with a small model and a few samples for tests.
pub trait Small: Task {
    /// Keys that make the model small.
    const KEYS: &'static [&'static str];
    /// Step of the finite differences: short where many states are near a kink.
    const STEP: f64;

    fn some(count: usize, seed: u64) -> Self::Set;

    /// Samples `from..` of a set.
    fn part(set: &Self::Set, from: usize, count: usize) -> Self::Set;

    /// The answers of the small model's agents, as bytes.
    fn answers(
        case: &Case<Self>,
        params: &[f32],
        set: &Self::Set,
        options: &SolveOptions,
    ) -> Vec<Solved<Vec<u8>>>;

    /// Keeps states away from the kinks of the objective.
    fn steer(_model: &ModelOf<Self>, _params: &mut [f64]) {}
}

impl Small for Maze {
    const KEYS: &'static [&'static str] = &["model.hidden=12", "model.d_v=6", "model.d_e=3", "model.rank=2"];
    const STEP: f64 = 1e-6;

    fn some(count: usize, seed: u64) -> MazeSet {
        sheaf_tasks::maze::data::generate(&MazeShape::new(7, 7, 4).unwrap(), seed, count).unwrap()
    }

    fn part(set: &MazeSet, from: usize, count: usize) -> MazeSet {
        let range = from * set.pixels()..(from + count) * set.pixels();
        MazeSet {
            inputs: set.inputs[range.clone()].to_vec(),
            labels: set.labels[range].to_vec(),
            ..set.clone()
        }
    }

    fn answers(
        case: &Case<Self>,
        params: &[f32],
        set: &MazeSet,
        options: &SolveOptions,
    ) -> Vec<Solved<Vec<u8>>> {
        sheaf_tasks::maze::task::solve(&case.experiment.model, &case.model, params, set, options, &|_| {})
            .unwrap()
    }
}

/// Pictures of two classes: a bright bar across the upper or the lower half, with some noise; mostly black.
pub fn bars(count: usize, size: usize, seed: u64) -> ImageSet {
    let stream = &mut Stream::new(seed, "pictures of a test", 0, 0);
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let class = stream.below(2);
        let row = class * size / 2 + stream.below(size / 2);
        images.extend((0..size * size).map(|p| {
            let lit = p / size == row;
            if lit { 150 + stream.below(100) as u8 } else { (stream.below(40) / 39 * 60) as u8 }
        }));
        labels.push(class as u8);
    }
    ImageSet { height: size, width: size, classes: 2, images, labels }
}

impl Small for Mnist {
    const KEYS: &'static [&'static str] = &[
        "model.classes=2",
        "model.hidden=10",
        "model.d_v=6",
        "model.d_e=4",
        "model.rank=2",
        "model.l1=0.05",
    ];
    const STEP: f64 = 1e-6;

    fn some(count: usize, seed: u64) -> ImageSet {
        bars(count, 10, seed)
    }

    fn part(set: &ImageSet, from: usize, count: usize) -> ImageSet {
        let images = set.images[from * set.pixels()..(from + count) * set.pixels()].to_vec();
        ImageSet { images, labels: set.labels[from..from + count].to_vec(), ..set.clone() }
    }

    fn answers(
        case: &Case<Self>,
        params: &[f32],
        set: &ImageSet,
        options: &SolveOptions,
    ) -> Vec<Solved<Vec<u8>>> {
        let reader = VoteReader { classes: case.experiment.model.classes };
        case.solve(params, set, &reader, options, |class| vec![class])
    }
}

impl Small for Sudoku {
    const KEYS: &'static [&'static str] = &[
        "model.d_v=18",
        "model.d_e=2",
        "model.channels=6",
        "model.token_hidden=4",
        "model.channel_hidden=5",
        "model.decoder_hidden=7",
        "model.rank=2",
        "model.cg_steps=3",
    ];
    const STEP: f64 = 1e-5;

    fn some(count: usize, seed: u64) -> SudokuSet {
        sheaf_tasks::sudoku::generate::generate(Kind::Mixed, seed, count)
    }

    fn part(set: &SudokuSet, from: usize, count: usize) -> SudokuSet {
        set.slice(from..from + count)
    }

    fn answers(
        case: &Case<Self>,
        params: &[f32],
        set: &SudokuSet,
        options: &SolveOptions,
    ) -> Vec<Solved<Vec<u8>>> {
        case.solve(params, set, &BoardReader(&set.puzzles), options, |read| read.predicted.to_vec())
    }

    /// A quarter of the states is pushed below the bound at 0, the others above: no step crosses it.
    fn steer(model: &ModelOf<Self>, params: &mut [f64]) {
        if let Ok(q) = model.layout().range("encoder/q/bias") {
            params[q].iter_mut().enumerate().for_each(|(i, b)| *b += if i % 4 == 0 { 4.0 } else { -4.0 });
        }
    }
}

/// The published experiment with these keys changed.
pub fn experiment<K: Task>(keys: &[&str]) -> Experiment<K> {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    strict::parse("a test", "", &keys).unwrap()
}

/// A small model, its agents and some samples.
pub struct Case<K: Task> {
    pub experiment: Experiment<K>,
    pub model: ModelOf<K>,
    pub board: BoardOf<K>,
    pub set: K::Set,
}

impl<K: Small> Case<K> {
    /// The small model with these keys changed.
    pub fn new(keys: &[&str], count: usize) -> Self {
        Self::of(&[K::KEYS, keys].concat(), K::some(count, 3))
    }

    /// The published model with these keys changed.
    pub fn of(keys: &[&str], set: K::Set) -> Self {
        let experiment = experiment::<K>(keys);
        let model = experiment.model().unwrap_or_else(|e| panic!("{keys:?}: {e}"));
        let board = K::board(&experiment.model, &set).unwrap();
        Self { experiment, model, board, set }
    }

    /// Initial values with noise on all of them, so that nothing is zero.
    pub fn noisy(&self, seed: u64) -> Vec<f64> {
        let stream = &mut Stream::new(seed, "noise of a test", 0, 0);
        let mut params: Vec<f64> = self.model.init(5);
        params.iter_mut().for_each(|p| *p += 0.05 * stream.normal());
        K::steer(&self.model, &mut params);
        params
    }

    pub fn samples<'a>(&'a self, set: &'a K::Set) -> impl Samples + 'a {
        K::samples(&self.board, set)
    }

    fn solve<R: Reader>(
        &self,
        params: &[f32],
        set: &K::Set,
        reader: &R,
        options: &SolveOptions,
        bytes: impl Fn(R::Answer) -> Vec<u8>,
    ) -> Vec<Solved<Vec<u8>>> {
        let samples = self.samples(set);
        let solved =
            solve_all(&self.model, params, &self.board.sheaf, &samples, reader, options, &|_| {}).unwrap();
        let bytes = |s: Solved<R::Answer>| Solved {
            answer: bytes(s.answer),
            iterations: s.iterations,
            first_right: s.first_right,
        };
        solved.into_iter().map(bytes).collect()
    }

    pub fn run<T: Real>(
        &self,
        batch: &mut Batch<T, K::Encoder, K::Decoder>,
        params: &[T],
        horizon: Horizon,
        grad: &mut [T],
    ) -> BatchLoss {
        let samples = self.samples(&self.set);
        batch.loss_and_grad(&self.model, params, &self.board.sheaf, &samples, horizon, grad).unwrap()
    }

    /// Loss and gradient, with fresh buffers.
    pub fn gradient(&self, params: &[f64], horizon: Horizon) -> (f64, Vec<f64>) {
        let mut grad = vec![f64::NAN; params.len()];
        let loss = self.run(&mut Batch::default(), params, horizon, &mut grad).loss;
        (loss, grad)
    }

    /// Parameters that are constant by choice: a penalty that is not learned, maps that are the identity.
    pub fn constants(&self) -> Vec<std::ops::Range<usize>> {
        let section = K::section(&self.experiment.model);
        let constant = |name: &str| {
            (name == "rho" && !section.rho_learned)
                || (name.starts_with("maps") && section.maps == "identity")
        };
        let entries = self.model.layout().entries().iter();
        entries.filter(|e| constant(&e.name)).map(|e| e.range.clone()).collect()
    }

    /// Compares the gradient at `params` with finite differences; constants have none. With `tensors`, also one tensor
    /// at a time, so that small ones count; if the gradient of one is zero, its differences must be rounding errors.
    pub fn check_gradient(
        &self,
        name: &str,
        params: &[f64],
        horizon: Horizon,
        check: &GradientCheck,
        tensors: bool,
    ) {
        let (_, grad) = self.gradient(params, horizon);
        let constants = self.constants();
        for range in &constants {
            assert!(grad[range.clone()].iter().all(|&g| g == 0.0), "{name}: a constant has a gradient");
        }
        let (mut batch, mut unused) = (Batch::default(), grad.clone());
        let mut loss = |at: &[f64]| {
            let mut at = at.to_vec();
            constants.iter().for_each(|c| at[c.clone()].copy_from_slice(&params[c.clone()]));
            self.run(&mut batch, &at, horizon, &mut unused).loss
        };
        check.assert(name, &mut loss, params, &grad);
        let norm = |g: &[f64]| g.iter().map(|g| g * g).sum::<f64>().sqrt();
        for entry in self.model.layout().entries().iter().filter(|_| tensors) {
            let own = &grad[entry.range.clone()];
            let mut at = params.to_vec();
            let mut part = |v: &[f64]| {
                at[entry.range.clone()].copy_from_slice(v);
                loss(&at)
            };
            // Longer steps where the loss changes less, so that rounding does not dominate the difference.
            let step = check.step * (norm(&grad) / norm(own).max(1e-300)).clamp(1.0, 100.0);
            let one = GradientCheck { directions: 1, step, ..check.clone() };
            let name = format!("{name}: {}", entry.name);
            one.assert(&name, &mut part, &params[entry.range.clone()], own);
        }
    }
}

/// The check of a task.
pub fn differences<K: Small>() -> GradientCheck {
    GradientCheck { step: K::STEP, directions: 2, ..GradientCheck::default() }
}

/// The usual check of the small model with these keys.
pub fn check_keys<K: Small>(keys: &[&str], count: usize, horizon: Horizon) {
    let case = Case::<K>::new(keys, count);
    let name = format!("{} {keys:?}", K::NAME);
    case.check_gradient(&name, &case.noisy(9), horizon, &differences::<K>(), false);
}
