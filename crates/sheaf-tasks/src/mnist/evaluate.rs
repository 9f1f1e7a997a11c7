//! Accuracy on pictures, unchanged or shifted.
//!
//! Every model is a [`Classifier`]; the shifts, the draws and the counting are shared.

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::ViewGrid;
use sheaf_learn::model::evaluate::{SolveOptions, solve_all};

use super::data::ImageSet;
use super::shifts::{Draw, Shift};
use super::task::{MnistBoard, MnistConfig, MnistModel, PictureSamples, VoteReader, board};

/// Pictures classified at a time. Under noise almost all views are distinct, and each costs tens of kilobytes.
const TILE: usize = 64;

/// Classifies pictures.
pub trait Classifier {
    /// Number of classes.
    fn classes(&self) -> usize;

    /// The patches that dropout blackens on pictures of this size.
    fn patches(&self, height: usize, width: usize) -> Result<ViewGrid>;

    /// Writes the class of each picture. Patches marked in `dropped` are black.
    fn classify(
        &mut self,
        patches: &ViewGrid,
        images: &[f32],           // [samples, height, width]
        dropped: Option<&[bool]>, // [samples, patches]
        classes: &mut [u8],       // [samples]
    ) -> Result<()>;
}

/// How to evaluate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvalOptions {
    /// Iterations of the agents; ignored by other models.
    pub iterations: usize,
    /// The shift of the pictures.
    pub shift: Shift,
    /// Number of draws, if the shift is random.
    pub draws: usize,
    /// Seed of the draws.
    pub seed: u64,
}

/// The result of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvalReport {
    /// Pictures of the set.
    pub images: usize,
    /// Correctly classified pictures in each draw.
    pub correct: Vec<usize>,
}

impl EvalReport {
    /// Accuracy of each draw.
    pub fn accuracies(&self) -> impl Iterator<Item = f64> + '_ {
        self.correct.iter().map(|&right| right as f64 / self.images.max(1) as f64)
    }

    /// Mean over the draws.
    pub fn accuracy(&self) -> f64 {
        self.accuracies().sum::<f64>() / self.correct.len().max(1) as f64
    }

    /// Standard deviation between draws; 0 for a single draw.
    pub fn spread(&self) -> f64 {
        let (mean, n) = (self.accuracy(), self.correct.len());
        let squares: f64 = self.accuracies().map(|a| (a - mean) * (a - mean)).sum();
        if n < 2 { 0.0 } else { (squares / (n - 1) as f64).sqrt() }
    }
}

/// Evaluates the agents on all pictures of a set. The result does not depend on the number of threads.
pub fn evaluate(
    config: &MnistConfig,
    model: &MnistModel,
    params: &[f32],
    set: &ImageSet,
    options: &EvalOptions,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<EvalReport> {
    let solve = SolveOptions::fixed(options.iterations);
    evaluate_with(&mut Agents::new(config, model, params, solve), set, options, progress)
}

/// Evaluates any classifier; `progress` receives the number of classified pictures.
pub fn evaluate_with(
    classifier: &mut impl Classifier,
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
    let (mut images, mut plain) = (vec![0.0; TILE * height * width], vec![0.0; pixels]);
    let mut dropped = vec![false; TILE * patches.agents()];
    let mut classes = [0; TILE];
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
            classifier.classify(
                &patches,
                &images[..count * height * width],
                dropped,
                &mut classes[..count],
            )?;
            *correct += classes[..count].iter().zip(&set.labels[first..]).filter(|(a, b)| a == b).count();
            progress(count);
        }
    }
    Ok(report)
}

/// The agents as a [`Classifier`].
#[derive(Debug)]
pub struct Agents<'m> {
    /// Keys of the model.
    pub config: &'m MnistConfig,
    /// The model.
    pub model: &'m MnistModel,
    /// Its parameters.
    pub params: &'m [f32],
    /// How to solve.
    pub solve: SolveOptions,
    /// The agents for the most recent picture size.
    pub board: Option<MnistBoard>,
    /// Pictures classified so far.
    pub classified: usize,
    /// Total iterations of these pictures.
    pub iterations: usize,
}

impl<'m> Agents<'m> {
    /// A model with its parameters.
    pub fn new(
        config: &'m MnistConfig,
        model: &'m MnistModel,
        params: &'m [f32],
        solve: SolveOptions,
    ) -> Self {
        Self { config, model, params, solve, board: None, classified: 0, iterations: 0 }
    }

    /// Mean iterations per picture.
    pub fn mean_iterations(&self) -> f64 {
        self.iterations as f64 / self.classified.max(1) as f64
    }
}

impl Classifier for Agents<'_> {
    fn classes(&self) -> usize {
        self.config.classes
    }

    fn patches(&self, height: usize, width: usize) -> Result<ViewGrid> {
        Ok(board(self.config, height, width)?.layout)
    }

    fn classify(
        &mut self,
        patches: &ViewGrid,
        images: &[f32],
        dropped: Option<&[bool]>,
        classes: &mut [u8],
    ) -> Result<()> {
        if self.board.as_ref().is_none_or(|board| board.layout != *patches) {
            self.board = Some(board(self.config, patches.height(), patches.width())?);
        }
        let sheaf = &self.board.as_ref().expect("just made").sheaf;
        let samples = PictureSamples { grid: *patches, images, dropped };
        let reader = VoteReader { classes: self.config.classes };
        let solved = solve_all(self.model, self.params, sheaf, &samples, &reader, &self.solve, &|_| {})?;
        self.classified += solved.len();
        self.iterations += solved.iter().map(|solved| solved.iterations).sum::<usize>();
        classes.iter_mut().zip(solved).for_each(|(class, solved)| *class = solved.answer);
        Ok(())
    }
}
