//! How many pictures are told right, as they are or shifted.
//!
//! Whatever tells pictures apart is a [`Classifier`]; the shifts, the draws and the counting are the same for all.

use rayon::prelude::*;
use sheaf_admm::admm::{Mode, Options};
use sheaf_admm::{Error, ErrorKind, Real, Result};

use super::data::ImageSet;
use super::metrics::vote;
use super::model::{Batch, Board, MnistModel, Sample};
use super::shifts::{Draw, Shift};
use super::views::ViewGrid;

/// Pictures told at a time. Under noise hardly two views are alike, and each costs tens of kilobytes.
const TILE: usize = 64;

/// Tells pictures apart.
pub trait Classifier<T> {
    /// Classes it knows.
    fn classes(&self) -> usize;

    /// The patches that dropout blackens on pictures of this size.
    fn patches(&self, height: usize, width: usize) -> Result<ViewGrid>;

    /// Says the class of each picture. Patches marked in `dropped` are black.
    fn tell(
        &mut self,
        patches: &ViewGrid,
        images: &[T],             // [samples, height, width]
        dropped: Option<&[bool]>, // [samples, patches]
        classes: &mut [u8],       // [samples]
    ) -> Result<()>;
}

/// How to evaluate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvalOptions {
    /// Iterations of the agents; other models have none.
    pub iterations: usize,
    /// What is done to the pictures.
    pub shift: Shift,
    /// How often it is done, where it is random.
    pub draws: usize,
    /// Seed of the draws.
    pub seed: u64,
}

/// What an evaluation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvalReport {
    /// Pictures of the set.
    pub images: usize,
    /// Pictures told right in each draw.
    pub correct: Vec<usize>,
}

impl EvalReport {
    /// Share of pictures told right, for each draw.
    pub fn accuracies(&self) -> impl Iterator<Item = f64> + '_ {
        self.correct.iter().map(|&right| right as f64 / self.images.max(1) as f64)
    }

    /// Mean over the draws.
    pub fn accuracy(&self) -> f64 {
        self.accuracies().sum::<f64>() / self.correct.len().max(1) as f64
    }

    /// Standard deviation between draws; 0 where there is one.
    pub fn spread(&self) -> f64 {
        let (mean, n) = (self.accuracy(), self.correct.len());
        let squares: f64 = self.accuracies().map(|a| (a - mean) * (a - mean)).sum();
        if n < 2 { 0.0 } else { (squares / (n - 1) as f64).sqrt() }
    }
}

/// Evaluates the agents on all pictures of a set. The answer does not depend on the number of threads.
pub fn evaluate<T: Real>(
    model: &MnistModel,
    params: &[T],
    set: &ImageSet,
    options: &EvalOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<EvalReport> {
    evaluate_with(&mut Agents::new(model, params, options.iterations), set, options, progress)
}

/// Evaluates any classifier; `progress` is told how many pictures were done.
pub fn evaluate_with<T: Real>(
    classifier: &mut impl Classifier<T>,
    set: &ImageSet,
    options: &EvalOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<EvalReport> {
    if set.classes > classifier.classes() {
        let expected = format!("labels below {}", classifier.classes());
        return Err(Error::new(ErrorKind::OutOfRange, "classes of the set", expected, set.classes - 1)
            .hint("the model was trained for fewer classes; evaluate it on the set it was made for"));
    }
    let (shift, pixels) = (options.shift, set.pixels());
    let (height, width) = shift.size(set.height, set.width);
    let patches = classifier.patches(height, width)?;
    let (mut images, mut plain) = (vec![T::ZERO; TILE * height * width], vec![T::ZERO; pixels]);
    let mut dropped = vec![false; TILE * patches.agents()];
    let mut told = [0; TILE];
    let draws = if shift.is_random() { options.draws.max(1) } else { 1 };
    let mut report = EvalReport { images: set.len(), correct: vec![0; draws] };
    for (draw, correct) in report.correct.iter_mut().enumerate() {
        for first in (0..set.len()).step_by(TILE) {
            let count = TILE.min(set.len() - first);
            let mut any = false;
            for i in 0..count {
                let key = Draw { seed: options.seed, draw: draw as u64, image: (first + i) as u64 };
                set.write_image(first + i, &mut plain);
                shift.apply(key, &plain, set.width, &mut images[i * height * width..][..height * width]);
                any |= shift.dropped(key, &mut dropped[i * patches.agents()..][..patches.agents()]);
            }
            let dropped = any.then_some(&dropped[..count * patches.agents()]);
            classifier.tell(&patches, &images[..count * height * width], dropped, &mut told[..count])?;
            *correct += told[..count].iter().zip(&set.labels[first..]).filter(|(a, b)| a == b).count();
            progress(count);
        }
    }
    Ok(report)
}

/// The agents as a [`Classifier`].
#[derive(Debug)]
pub struct Agents<'m, T: Copy + Default> {
    model: &'m MnistModel,
    params: &'m [T],
    iterations: usize,
    board: Option<Board>,
    batch: Batch<T>,
}

impl<'m, T: Real> Agents<'m, T> {
    /// Agents that negotiate for so many iterations.
    pub fn new(model: &'m MnistModel, params: &'m [T], iterations: usize) -> Self {
        Self { model, params, iterations, board: None, batch: Batch::default() }
    }
}

impl<T: Real> Classifier<T> for Agents<'_, T> {
    fn classes(&self) -> usize {
        self.model.classes()
    }

    fn patches(&self, height: usize, width: usize) -> Result<ViewGrid> {
        Ok(self.model.board(height, width)?.grid)
    }

    fn tell(
        &mut self,
        patches: &ViewGrid,
        images: &[T],
        dropped: Option<&[bool]>,
        classes: &mut [u8],
    ) -> Result<()> {
        let (model, params) = (self.model, self.params);
        if self.board.as_ref().is_none_or(|board| board.grid != *patches) {
            self.board = Some(model.board(patches.height(), patches.width())?);
        }
        let board = self.board.as_ref().expect("just made");
        self.batch.encode(model, params, board, images, dropped);
        let (z_update, options) = (model.z_update(), Options::fixed(self.iterations));
        let (tables, index) = (self.batch.tables(), self.batch.views().index());
        let room = || (Sample::default(), vec![T::ZERO; model.classes()]);
        let pictures = index.par_chunks(board.sheaf.agents()).zip(classes.par_iter_mut()).with_max_len(1);
        pictures.try_for_each_init(room, |(sample, votes), (index, class)| {
            let mode = Mode::Solve;
            model.solve(params, board, tables, index, &z_update, &options, mode, sample, &mut ())?;
            model.decode(params, board, sample);
            *class = vote(sample.logits(model, board), votes) as u8;
            Ok(())
        })
    }
}
