//! Batches of pictures through the network on all cores, and on all ranks of a job. Gradients are summed in an order that
//! depends only on the batch.

use rayon::prelude::*;
use sheaf_admm::{Real, Result};
use sheaf_kernels::vector::add;
use sheaf_learn::nn::conv::Size;
use sheaf_learn::rng::Stream;
use sheaf_learn::train::loss::cross_entropy_grad;

use super::{CnnModel, Net};
use crate::mnist::evaluate::Classifier;
use crate::mnist::metrics::argmax;
use sheaf_learn::model::{BatchLoss, Ranks, ViewGrid};

/// Number of chunks of a batch; each has its own gradient, and these are added in order.
const PIECES: usize = 16;

/// Side of the patches that dropout blackens: those of the published agents.
const PATCH: usize = 3;

#[derive(Debug, Default)]
struct Piece<T: Copy + Default> {
    net: Net<T>,
    grad: Vec<T>, // [params]
    exps: Vec<T>, // [classes]
    loss: f64,
    bad: Option<usize>,
}

/// Buffers for batches.
#[derive(Debug, Default)]
pub struct CnnBatch<T: Copy + Default> {
    pieces: Vec<Piece<T>>, // those of this rank
    /// The ranks that compute a batch together; its sums are complete on rank 0.
    pub ranks: Ranks,
}

impl<T: Real> CnnBatch<T> {
    /// Mean loss over the batch and, overwriting `grad`, its gradient. `dropout` is the key (seed, step) of each
    /// picture's dropout stream.
    pub fn loss_and_grad(
        &mut self,
        model: &CnnModel,
        params: &[T],
        size: Size,
        images: &[T],  // [samples, height, width]
        labels: &[u8], // [samples]
        dropout: Option<(u64, u64)>,
        grad: &mut [T],
    ) -> Result<BatchLoss> {
        model.check_size(size)?;
        let (pixels, samples, classes) = (size.0 * size.1, labels.len(), model.config().classes);
        let weight = T::from_f64(1.0 / samples.max(1) as f64);
        let per_piece = samples.div_ceil(PIECES).max(1);
        let own = self.ranks.own(PIECES);
        self.pieces.resize_with(own.len(), Piece::default);
        self.pieces.par_iter_mut().zip(own).for_each(|(piece, p)| {
            piece.reset(params.len(), classes);
            for i in (p * per_piece).min(samples)..((p + 1) * per_piece).min(samples) {
                let image = &images[i * pixels..][..pixels];
                let mut stream =
                    dropout.map(|(seed, step)| Stream::new(seed, "features left out", step, i as u64));
                model.forward(params, size, image, stream.as_mut(), &mut piece.net);
                let logits = piece.net.logits_mut(model);
                let loss = cross_entropy_grad(logits, &labels[i..=i], classes, weight, &mut piece.exps);
                if !loss.is_finite() {
                    piece.bad.get_or_insert(i);
                }
                piece.loss += loss.to_f64();
                model.vjp(params, &mut piece.net, &mut piece.grad);
            }
        });
        grad.fill(T::ZERO);
        self.ranks.pass(grad, |grad| self.pieces.iter().for_each(|piece| add(grad, &piece.grad)));
        let mut sum = [0.0, -1.0];
        self.ranks.pass(&mut sum, |sum| {
            for piece in &self.pieces {
                sum[0] += piece.loss;
                if let (true, Some(bad)) = (sum[1] < 0.0, piece.bad) {
                    sum[1] = bad as f64;
                }
            }
        });
        Ok(BatchLoss { loss: sum[0], bad: (sum[1] >= 0.0).then_some(sum[1] as usize) })
    }
}

impl<T: Real> Piece<T> {
    fn reset(&mut self, params: usize, classes: usize) {
        self.grad.clear();
        self.grad.resize(params, T::ZERO);
        self.exps.resize(classes, T::ZERO);
        self.loss = 0.0;
        self.bad = None;
    }
}

/// The network as a [`Classifier`].
#[derive(Debug)]
pub struct CnnClassifier<'m, T> {
    model: &'m CnnModel,
    params: &'m [T],
}

impl<'m, T: Real> CnnClassifier<'m, T> {
    /// A network with its parameters.
    pub fn new(model: &'m CnnModel, params: &'m [T]) -> Self {
        Self { model, params }
    }
}

impl Classifier for CnnClassifier<'_, f32> {
    fn classes(&self) -> usize {
        self.model.config().classes
    }

    fn patches(&self, height: usize, width: usize) -> Result<ViewGrid> {
        self.model.check_size((height, width))?;
        ViewGrid::new(height, width, PATCH, PATCH)
    }

    fn classify(
        &mut self,
        patches: &ViewGrid,
        images: &[f32],
        dropped: Option<&[bool]>,
        classes: &mut [u8],
    ) -> Result<()> {
        let (model, params, size) = (self.model, self.params, (patches.height(), patches.width()));
        let room = || (Net::default(), Vec::new());
        let pictures = images.par_chunks(patches.pixels()).zip(classes.par_iter_mut()).enumerate();
        pictures.for_each_init(room, |(net, seen), (i, (image, class))| {
            seen.clear();
            seen.extend_from_slice(image);
            if let Some(dropped) = dropped {
                let dropped = &dropped[i * patches.agents()..][..patches.agents()];
                for (agent, _) in dropped.iter().enumerate().filter(|(_, dropped)| **dropped) {
                    patches.view(agent).flatten().for_each(|pixel| seen[pixel] = 0.0);
                }
            }
            model.forward(params, size, seen, None, net);
            *class = argmax(net.logits(model)) as u8;
        });
        Ok(())
    }
}
