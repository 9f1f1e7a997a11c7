//! One picture, watched: how the agents vote and how far they are from agreement after every iteration.

use sheaf_admm::admm::{Iteration, Mode, Observer, Options, Trace};
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;

use super::metrics::vote;
use super::model::{Batch, Board, MnistModel, Sample};

/// One iteration.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Its number, from 1.
    pub iteration: usize,
    /// Every agent's logits; see [`agent_votes`](super::metrics::agent_votes).
    pub logits: &'a [f32], // [agents, classes]
    /// The agents' mean vote.
    pub votes: &'a [f32], // [classes]
    /// The class that wins.
    pub class: usize,
    /// Primal residual ‖x̃ − z‖ of each agent.
    pub primal: &'a [f32], // [agents]
    /// Dual residual ρ‖z − z_prev‖ of each agent.
    pub dual: &'a [f32], // [agents]
    /// √(mean squared edge residual + 1e-6) of z.
    pub consistency: f32,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    /// The class that won.
    pub class: usize,
    /// The agents' mean vote.
    pub votes: Vec<f32>, // [classes]
    /// The agents' last logits.
    pub logits: Vec<f32>, // [agents, classes]
}

/// Solves one picture and shows every iteration to `see`.
pub fn watch(
    model: &MnistModel,
    params: &[f32],
    board: &Board,
    image: &[f32], // [height, width], in [0, 1]
    iterations: usize,
    see: &mut dyn FnMut(&Moment<'_>),
) -> Result<Watched> {
    let mut batch = Batch::default();
    batch.encode(model, params, board, image, None);
    let (sheaf, mut look) = (&board.sheaf, Sample::default());
    let [mut primal, mut dual] = [(); 2].map(|()| vec![0.0; sheaf.agents()]);
    let (mut r, mut rows) = (AlignedVec::zeros(sheaf.edge_len()), AlignedVec::zeros(sheaf.row_len()));
    let mut last = Watched { votes: vec![0.0; model.classes()], ..Watched::default() };
    let mut observer = |seen: &Iteration<'_, '_, f32>| {
        model.decode_states(params, seen.x, &mut look);
        last.logits.clear();
        last.logits.extend_from_slice(look.logits(model, board));
        last.class = vote(&last.logits, &mut last.votes);
        seen.primal(&mut primal);
        seen.dual(&mut dual);
        let consistency = seen.edge_rms(&mut r, &mut rows).unwrap_or(f32::NAN);
        see(&Moment {
            iteration: seen.k + 1,
            logits: &last.logits,
            votes: &last.votes,
            class: last.class,
            primal: &primal,
            dual: &dual,
            consistency,
        });
        true
    };
    solve(model, params, board, &batch, iterations, &mut observer)?;
    Ok(last)
}

/// Every state, residual and logit of a solve: the trace, and logits `[iterations, agents, classes]`.
pub fn trace<T: Real>(
    model: &MnistModel,
    params: &[T],
    board: &Board,
    image: &[T], // [height, width], in [0, 1]
    iterations: usize,
) -> Result<(Trace<T>, Vec<T>)> {
    let mut batch = Batch::default();
    batch.encode(model, params, board, image, None);
    let (mut look, mut trace, mut logits) = (Sample::default(), Trace::default(), Vec::new());
    let mut observer = |seen: &Iteration<'_, '_, T>| {
        model.decode_states(params, seen.x, &mut look);
        logits.extend_from_slice(look.logits(model, board));
        trace.iteration(seen)
    };
    solve(model, params, board, &batch, iterations, &mut observer)?;
    Ok((trace, logits))
}

fn solve<T: Real>(
    model: &MnistModel,
    params: &[T],
    board: &Board,
    batch: &Batch<T>,
    iterations: usize,
    observer: &mut impl Observer<T>,
) -> Result<()> {
    let (tables, index, mut sample) = (batch.tables(), batch.views().index(), Sample::default());
    let (z_update, options) = (model.z_update(), Options::fixed(iterations));
    model
        .solve(params, board, tables, index, &z_update, &options, Mode::Solve, &mut sample, observer)
        .map(drop)
}
