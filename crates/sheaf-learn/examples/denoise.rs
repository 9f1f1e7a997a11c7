//! Removes noise from pictures: every agent cleans one small patch, and neighbours agree on what they share.
//!
//! The model is trained twice from the same seed, first on a graph without edges, then on a grid whose agents negotiate.
//! The example prints the PSNR of held-out pictures: noisy, cleaned without coordination, cleaned with coordination.
//! `docs/your-own-task.md` explains it line by line.
//!
//! ```text
//! cargo run --release --example denoise
//! cargo run --release --example denoise -- train.seed=7 data.noise=0.2
//! ```

use std::time::Instant;

use serde::{Deserialize, Serialize};
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Sheaf};
use sheaf_admm::{Real, Result};
use sheaf_learn::config::{DecayKind, TrainSection, strict};
use sheaf_learn::model::evaluate::{Reader, SolveOptions, solve_all};
use sheaf_learn::model::nets::{LinearDecoder, ResidualMlp};
use sheaf_learn::model::{Iterations, Loss, Model, ModelSection, Samples, Spec, Targets, ViewGrid};
use sheaf_learn::rng::Stream;
use sheaf_learn::task::{Board, BoardOf, Experiment, Loaded, ModelOf, NoKeys, Task, Training, Update};

/// Pixels along one side of a picture.
const SIDE: usize = 32;
/// Pixels of a picture.
const PIXELS: usize = SIDE * SIDE;
/// The neighbours of an agent: above, to the right, below, to the left.
const NEIGHBOURS: Connectivity = Connectivity::Four;

/// Some pictures, clean and with noise.
#[derive(Clone, Debug, Default)]
struct Pictures {
    clean: Vec<f32>, // [count, SIDE, SIDE]
    noisy: Vec<f32>, // [count, SIDE, SIDE]
}

impl Pictures {
    /// Draws pictures with one noise each.
    fn draw(count: usize, noise: f64, seed: u64, purpose: &str) -> Self {
        let mut set = Self { clean: vec![0.0; count * PIXELS], noisy: vec![0.0; count * PIXELS] };
        let pictures = set.clean.chunks_exact_mut(PIXELS).zip(set.noisy.chunks_exact_mut(PIXELS));
        for (i, (clean, noisy)) in pictures.enumerate() {
            let stream = &mut Stream::new(seed, purpose, i as u64, 0);
            draw_picture(stream, clean);
            add_noise(stream, noise, clean, noisy);
        }
        set
    }
}

/// A background that grows lighter in one direction, and on it two to four discs and bars of an even grey.
fn draw_picture(stream: &mut Stream, picture: &mut [f32]) {
    let mut between = |low: f64, high: f64| low + (high - low) * stream.uniform();
    let (middle, right, down) = (between(0.2, 0.8), between(-0.3, 0.3), between(-0.3, 0.3));
    for (i, pixel) in picture.iter_mut().enumerate() {
        let (y, x) = ((i / SIDE) as f64 / SIDE as f64 - 0.5, (i % SIDE) as f64 / SIDE as f64 - 0.5);
        *pixel = (middle + right * x + down * y) as f32;
    }
    for _ in 0..between(2.0, 5.0) as usize {
        let (disc, grey) = (between(0.0, 1.0) < 0.5, between(0.0, 1.0));
        let (y0, x0) = (between(0.0, SIDE as f64), between(0.0, SIDE as f64));
        let (sin, cos) = between(0.0, std::f64::consts::PI).sin_cos();
        let (radius, length) = (between(3.0, 9.0), between(6.0, 16.0));
        for (i, pixel) in picture.iter_mut().enumerate() {
            let (y, x) = ((i / SIDE) as f64 - y0, (i % SIDE) as f64 - x0);
            let outside = match disc {
                true => x.hypot(y) - radius,
                false => ((x * cos + y * sin).abs() - length).max((y * cos - x * sin).abs() - radius / 2.0),
            };
            let share = (0.5 - outside).clamp(0.0, 1.0); // the edge is one pixel wide
            *pixel += (share * (grey - f64::from(*pixel))) as f32;
        }
    }
}

fn add_noise(stream: &mut Stream, deviation: f64, clean: &[f32], noisy: &mut [f32]) {
    noisy.iter_mut().zip(clean).for_each(|(to, &from)| *to = from + (deviation * stream.normal()) as f32);
}

/// Peak signal-to-noise ratio in decibels over all pixels; the peak is 1.
fn psnr(clean: &[f32], picture: impl Iterator<Item = f32>) -> f64 {
    let square = |(c, p): (&f32, f32)| f64::from(c - p).powi(2);
    -10.0 * (clean.iter().zip(picture).map(square).sum::<f64>() / clean.len() as f64).log10()
}

/// The `[data]` section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct PictureData {
    train: usize, // pictures to learn from
    test: usize,  // pictures held out
    noise: f64,   // standard deviation
    seed: u64,    // of the pictures and of the noise on held-out ones
}

impl Default for PictureData {
    fn default() -> Self {
        Self { train: 4_000, test: 200, noise: 0.3, seed: 1 }
    }
}

/// The `[model]` section: the keys of this task, then those that every task has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct DenoiseConfig {
    patch: usize,      // pixels of a view along one side
    stride: usize,     // pixels between agents
    hidden: usize,     // width of the encoder
    coordinated: bool, // whether edges join neighbours
    #[serde(flatten)]
    common: ModelSection,
}

impl Default for DenoiseConfig {
    fn default() -> Self {
        let common = ModelSection {
            d_v: 16,
            d_e: 8,
            rank: 2,
            objective: "quadratic".into(),
            gamma: 3.0,
            cg_steps: 3,
            ..ModelSection::default()
        };
        Self { patch: 3, stride: 2, hidden: 64, coordinated: true, common }
    }
}

/// Pictures to clean.
#[derive(Clone, Debug)]
struct Denoise;

impl Task for Denoise {
    const NAME: &'static str = "denoise";
    const SAMPLES: &'static str = "pictures";
    type Data = PictureData;
    type Config = DenoiseConfig;
    type Eval = NoKeys;
    type Encoder = ResidualMlp;
    type Decoder = LinearDecoder;
    type Layout = ViewGrid;
    type Set = Pictures;

    fn published() -> Experiment<Self> {
        Experiment {
            task: Self::NAME.into(),
            data: PictureData::default(),
            model: DenoiseConfig::default(),
            iterations: Iterations { train: 8, eval: 8, ..Iterations::default() },
            train: TrainSection {
                steps: 800,
                batch: 16,
                learning_rate: 5e-3,
                warmup: 20,
                decay: DecayKind::Cosine,
                ema: 0.98,
                loss_window: 1,
                ..TrainSection::default()
            },
            eval: NoKeys {},
        }
    }

    fn section(config: &DenoiseConfig) -> &ModelSection {
        &config.common
    }

    fn model(config: &DenoiseConfig) -> Result<ModelOf<Self>> {
        let spec = Spec::new(NEIGHBOURS.slots(), "denoise parameters");
        let (pixels, hidden, d_v) = (config.patch * config.patch, config.hidden, config.common.d_v);
        Model::new(
            config.common.clone(),
            spec,
            Loss::SquaredError,
            |layout| ResidualMlp::new(layout, pixels, hidden),
            |layout| LinearDecoder::new(layout, d_v, pixels),
        )
    }

    fn load(experiment: &Experiment<Self>) -> Result<Loaded<Pictures>> {
        let PictureData { train, test, noise, seed } = experiment.data;
        let train = Pictures::draw(train, noise, seed, "training pictures");
        let test = Pictures::draw(test, noise, seed, "held-out pictures");
        Ok(Loaded { train, test, more: None })
    }

    fn board(config: &DenoiseConfig, _set: &Pictures) -> Result<BoardOf<Self>> {
        let layout = ViewGrid::new(SIDE, SIDE, config.patch, config.stride)?;
        let graph = match config.coordinated {
            true => AgentGraph::grid(layout.rows(), layout.columns(), NEIGHBOURS)?,
            false => AgentGraph::with_slots(vec![NEIGHBOURS.slots(); layout.agents()], vec![])?,
        };
        Ok(Board { sheaf: Sheaf::uniform(&graph, config.common.d_v, config.common.d_e)?, layout })
    }

    fn len(set: &Pictures) -> usize {
        set.clean.len() / PIXELS
    }

    fn samples<'a>(board: &'a BoardOf<Self>, set: &'a Pictures) -> impl Samples + 'a {
        Patches { grid: board.layout, set }
    }

    fn begin_batch(_train: &Pictures, count: usize, batch: &mut Pictures) {
        batch.clean.resize(count * PIXELS, 0.0);
        batch.noisy.resize(count * PIXELS, 0.0);
    }

    fn put(
        data: &PictureData,
        train: &Pictures,
        i: usize,
        _variant: usize,
        stream: &mut Stream,
        place: usize,
        batch: &mut Pictures,
    ) {
        let (clean, at) = (&train.clean[i * PIXELS..][..PIXELS], place * PIXELS);
        batch.clean[at..][..PIXELS].copy_from_slice(clean);
        // New noise every time, so that a picture never looks the same twice.
        add_noise(stream, data.noise, clean, &mut batch.noisy[at..][..PIXELS]);
    }

    fn evaluate(
        experiment: &Experiment<Self>,
        model: &ModelOf<Self>,
        params: &[f32],
        held_out: &Loaded<Pictures>,
    ) -> Result<Vec<(String, f64)>> {
        let (test, options) = (&held_out.test, SolveOptions::fixed(experiment.iterations.eval));
        let board = Self::board(&experiment.model, test)?;
        let (samples, reader) = (Self::samples(&board, test), Mean(board.layout));
        let cleaned = solve_all(model, params, &board.sheaf, &samples, &reader, &options, &|_| {})?;
        let pixels = cleaned.iter().flat_map(|solved| solved.answer.iter().copied());
        Ok(vec![("psnr".into(), psnr(&test.clean, pixels))])
    }

    fn metrics(_experiment: &Experiment<Self>) -> Vec<&'static str> {
        vec!["psnr"]
    }
}

/// Pictures as the agents see them.
struct Patches<'a> {
    grid: ViewGrid,
    set: &'a Pictures,
}

impl Samples for Patches<'_> {
    fn len(&self) -> usize {
        Denoise::len(self.set)
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        self.grid.views(&self.set.noisy[i * PIXELS..][..PIXELS], 0.0, |pixel| pixel, out);
    }

    fn targets(&self, i: usize, out: &mut Targets) {
        out.values.resize(self.grid.agents() * self.grid.view_pixels(), 0.0);
        // NaN beyond the border: nothing is asked of an agent there.
        self.grid.views(&self.set.clean[i * PIXELS..][..PIXELS], f32::NAN, |pixel| pixel, &mut out.values);
    }
}

/// The picture that the agents' patches make: the mean where they overlap.
struct Mean(ViewGrid);

impl Reader for Mean {
    type Answer = Vec<f32>;

    fn read<T: Real>(&self, _i: usize, outputs: &[T]) -> Vec<f32> {
        let mut picture = vec![T::ZERO; PIXELS];
        self.0.average(1, outputs, &mut picture);
        picture.iter().map(|pixel| pixel.to_f64() as f32).collect()
    }
}

fn main() -> Result<()> {
    let overrides: Vec<String> = std::env::args().skip(1).collect();
    let experiment: Experiment<Denoise> = strict::parse("denoise", "", &overrides)?;
    let test = Denoise::load(&experiment)?.test;
    println!("noisy                 {:6.2} dB", psnr(&test.clean, test.noisy.iter().copied()));
    for (name, coordinated) in [("without coordination", false), ("with coordination", true)] {
        let mut experiment = experiment.clone();
        experiment.model.coordinated = coordinated;
        let (options, seed) = (experiment.train.options()?, experiment.train.seed);
        let start = Instant::now();
        let mut update = Update::new(Training::new(experiment)?, options.clone(), seed);
        for step in 0..options.steps {
            let loss = update.step()?.loss;
            if (step + 1).is_multiple_of(100) {
                eprintln!("{name}: {} of {} steps, loss {loss:.4}", step + 1, options.steps);
            }
        }
        let (seconds, psnr) = (start.elapsed().as_secs(), update.evaluate()?[0].1);
        println!("{name:20}  {psnr:6.2} dB   trained in {seconds} s");
    }
    Ok(())
}
