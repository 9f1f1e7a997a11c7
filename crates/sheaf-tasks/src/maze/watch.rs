//! One maze, watched: what the agents think and how far they are from agreement after every iteration.
//!
//! | name | is | shape |
//! | --- | --- | --- |
//! | primal | √(mean over agents of ‖x̃ − z‖²) | – |
//! | dual | √(mean over agents of ρ²‖z − z_prev‖²) | – |
//! | consistency | √(mean squared edge residual + 1e-6) of z | – |
//! | `picture` | averaged logits | `[height, width, CLASSES]` |
//!
//! Means, not sums, so that mazes of different sizes can be compared.

use sheaf_admm::admm::{Iteration, Mode, Observer, Options, Trace};
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;

use super::CLASSES;
use super::metrics::{Judge, Score, argmax, reassemble};
use super::model::{Batch, Board, MazeModel, Sample};
use super::settle::{Settler, Settling};

/// How to watch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WatchOptions {
    /// Iterations, or the limit when settling.
    pub iterations: usize,
    /// Stop when the maze has settled.
    pub settling: Option<Settling>,
    /// Decode after every iteration, not only after the last.
    pub pictures: bool,
}

/// How far the agents are from agreement; see the module's introduction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distances {
    /// Between proposals and agreement.
    pub primal: f32,
    /// Between this agreement and the one before.
    pub dual: f32,
    /// Along the edges.
    pub consistency: f32,
}

/// One iteration.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Its number, from 1.
    pub iteration: usize,
    /// How far the agents are from agreement.
    pub distances: Distances,
    /// Primal residual of each agent.
    pub primal: &'a [f32], // [agents]
    /// The averaged logits, where [`WatchOptions::pictures`] asks for them.
    pub picture: Option<&'a [f32]>, // [height, width, CLASSES]
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Iterations that ran.
    pub iterations: usize,
    /// Whether the maze settled before the limit.
    pub settled: bool,
    /// Agents on the grid.
    pub agents: usize,
    /// After the last iteration.
    pub distances: Distances,
    /// The last averaged logits.
    pub picture: Vec<f32>, // [height, width, CLASSES]
    /// The tokens they predict.
    pub predicted: Vec<u8>, // [height, width]
    /// What the prediction is worth.
    pub score: Score,
}

/// Solves one maze and shows every iteration to `see`.
pub fn watch(
    model: &MazeModel,
    params: &[f32],
    board: &Board,
    input: &[u8], // [height, width]
    label: &[u8], // [height, width]
    options: &WatchOptions,
    see: &mut dyn FnMut(&Moment<'_>),
) -> Result<Watched> {
    let mut batch = Batch::default();
    batch.encode(model, params, board, input)?;
    let (tables, index, agents) = (batch.tables(), batch.views().index(), board.sheaf.agents());
    let (mut sample, mut look) = (Sample::default(), Sample::default());
    let mut picture = vec![0.0; board.grid.pixels() * CLASSES];
    let mut meter = Meter::new(board);
    let mut predicted = vec![0; board.grid.pixels()];
    let (mut settler, mut settled) = (Settler::default(), false);
    settler.reset(options.settling);
    let mut observer = |seen: &Iteration<'_, '_, f32>| {
        meter.measure(seen);
        let looking = settler.looks(seen.k);
        if options.pictures || looking {
            model.decode_states(params, tables, index, seen.x, &mut look);
            reassemble(&board.grid, look.logits(agents), &mut picture);
        }
        if looking {
            argmax(&picture, &mut predicted);
        }
        see(&Moment {
            iteration: seen.k + 1,
            distances: meter.distances,
            primal: &meter.primal,
            picture: options.pictures.then_some(&picture),
        });
        let stands = looking && settler.stands(input, &predicted, board.grid.width());
        settled = settler.quiet(seen) || stands;
        !settled
    };
    let (z_update, fixed) = (model.z_update(), Options::fixed(options.iterations));
    let (mode, s) = (Mode::Solve, &mut sample);
    let report = model.solve(params, board, tables, index, &z_update, &fixed, mode, s, &mut observer)?;
    model.decode(params, tables, index, &mut sample);
    reassemble(&board.grid, sample.logits(agents), &mut picture);
    argmax(&picture, &mut predicted);
    let score = Judge::default().score(input, label, &predicted, board.grid.width());
    let (iterations, distances) = (report.iterations, meter.distances);
    Ok(Watched { iterations, settled, agents, distances, picture, predicted, score })
}

/// Measures distances; holds the memory for it.
struct Meter {
    primal: Vec<f32>,      // [agents]
    dual: Vec<f32>,        // [agents]
    r: AlignedVec<f32>,    // [edge_len]
    rows: AlignedVec<f32>, // [row_len]
    distances: Distances,
}

impl Meter {
    fn new(board: &Board) -> Self {
        let sheaf = &board.sheaf;
        Self {
            primal: vec![0.0; sheaf.agents()],
            dual: vec![0.0; sheaf.agents()],
            r: AlignedVec::zeros(sheaf.edge_len()),
            rows: AlignedVec::zeros(sheaf.row_len()),
            distances: Distances::default(),
        }
    }

    fn measure(&mut self, seen: &Iteration<'_, '_, f32>) {
        seen.primal(&mut self.primal);
        seen.dual(&mut self.dual);
        let consistency = seen.edge_rms(&mut self.r, &mut self.rows).unwrap_or(f32::NAN);
        self.distances = Distances { primal: rms(&self.primal), dual: rms(&self.dual), consistency };
    }
}

fn rms(values: &[f32]) -> f32 {
    let sum: f64 = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    (sum / values.len().max(1) as f64).sqrt() as f32
}

/// Every state, residual and logit of a solve of a fixed number of iterations.
pub fn trace<T: Real>(
    model: &MazeModel,
    params: &[T],
    board: &Board,
    input: &[u8], // [height, width]
    iterations: usize,
) -> Result<(Trace<T>, Vec<T>)> {
    let mut batch = Batch::default();
    batch.encode(model, params, board, input)?;
    let (tables, index, agents) = (batch.tables(), batch.views().index(), board.sheaf.agents());
    let (mut sample, mut look) = (Sample::default(), Sample::default());
    let (mut trace, mut logits) = (Trace::default(), Vec::new());
    let mut observer = |seen: &Iteration<'_, '_, T>| {
        model.decode_states(params, tables, index, seen.x, &mut look);
        logits.extend_from_slice(look.logits(agents));
        trace.iteration(seen)
    };
    let (z_update, fixed) = (model.z_update(), Options::fixed(iterations));
    let (mode, s) = (Mode::Solve, &mut sample);
    model.solve(params, board, tables, index, &z_update, &fixed, mode, s, &mut observer)?;
    Ok((trace, logits))
}
