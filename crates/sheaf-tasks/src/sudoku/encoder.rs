//! From the nine cells of a unit to features, by two mixer blocks.
//!
//! ```text
//! x = (token + board position + slot position)·√(channels / 2)      y = rms(mixer(… mixer(x)))
//! f_h = [rms(· y_1) … rms(· y_9)]      f = mean over the cells of y
//! ```
//!
//! | array | shape |
//! | --- | --- |
//! | view | rows, 10: the unit, then its nine tokens |
//! | one-hot tokens | rows, 9, 10 |
//! | x, y | rows, 9, channels |
//! | f_h, f | rows, d_v and rows, channels |

use std::ops::Range;

use sheaf_admm::Real;
use sheaf_kernels::Precision;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::add;
use sheaf_learn::model::Encoder;
use sheaf_learn::model::nets::one_hot;
use sheaf_learn::nn::{Embedding, Init, Linear, Mixer, RmsNorm};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;

use super::task::SudokuConfig;
use super::views::SLOTS;
use super::{CELLS, CLASSES, UNIT_CELLS};

/// Length of a view.
pub const VIEW_LEN: usize = 1 + SLOTS;

/// The layers.
#[derive(Clone, Debug)]
pub struct UnitEncoder {
    token: Linear,
    board_position: Embedding,
    slot_position: Range<usize>, // [9, channels]
    mixers: Vec<Mixer>,
    norm: RmsNorm,
    cell: Linear,
    cell_norm: RmsNorm,
    scale: f64,
}

/// Features of some units, and what the adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct UnitWork<T: Copy + Default> {
    one_hot: AlignedVec<T>,     // [rows, 9, 10]
    cells: Vec<usize>,          // [rows, 9]
    x: Vec<AlignedVec<T>>,      // mixers + 1 of [rows, 9, channels]
    saved: Vec<AlignedVec<T>>,  // what each mixer saves
    y: AlignedVec<T>,           // [rows, 9, channels]
    cell: AlignedVec<T>,        // [rows, 9, d_v / 9]
    cell_normed: AlignedVec<T>, // [rows, d_v]
    mean: AlignedVec<T>,        // [rows, channels]
    d_cell: AlignedVec<T>,      // [rows, d_v]
    d_y: AlignedVec<T>,         // [rows, 9, channels]
    d_x: AlignedVec<T>,         // [rows, 9, channels]
    scratch: AlignedVec<T>,     // of the mixers
}

impl UnitEncoder {
    /// Declares the parameters.
    pub fn new(layout: &mut ParamLayout, config: &SudokuConfig) -> Self {
        let (channels, block) = (config.channels, config.common.d_v / SLOTS);
        let mixer = |layout: &mut ParamLayout, i: usize| {
            let (name, size) = (format!("encoder/mixer_{i}"), (SLOTS, channels));
            Mixer::new(layout, &name, size, config.token_hidden, config.channel_hidden)
        };
        Self {
            token: Linear::new(layout, "encoder/token", CLASSES, channels, true),
            board_position: Embedding::new(layout, "encoder/board_position", CELLS, channels),
            slot_position: layout.add("encoder/slot_position", &[SLOTS, channels]),
            mixers: (0..config.mixers).map(|i| mixer(layout, i)).collect(),
            norm: RmsNorm::new(layout, "encoder/norm", channels),
            cell: Linear::new(layout, "encoder/cell", channels, block, true),
            cell_norm: RmsNorm::new(layout, "encoder/cell_norm", block),
            scale: (channels as f64 / 2.0).sqrt(),
        }
    }

    fn channels(&self) -> usize {
        self.token.output()
    }

    fn embed<T: Real>(&self, params: &[T], views: &[f32], w: &mut UnitWork<T>) {
        let (rows, channels) = (views.len() / VIEW_LEN * SLOTS, self.channels());
        let one_hots = w.one_hot[..rows * CLASSES].chunks_exact_mut(SLOTS * CLASSES);
        w.cells.clear();
        for (view, one) in views.chunks_exact(VIEW_LEN).zip(one_hots) {
            w.cells.extend(UNIT_CELLS[view[0] as usize].iter().map(|&cell| usize::from(cell)));
            one_hot(&view[1..], CLASSES, one);
        }
        let x = &mut w.x[0][..rows * channels];
        self.token.forward(params, &w.one_hot[..rows * CLASSES], x);
        self.board_position.forward_add(params, &w.cells, x);
        let (position, scale) = (&params[self.slot_position.clone()], T::from_f64(self.scale));
        for x in x.chunks_exact_mut(SLOTS * channels) {
            x.iter_mut().zip(position).for_each(|(x, &p)| *x = (*x + p) * scale);
        }
    }

    fn fit<T: Real>(&self, rows: usize, w: &mut UnitWork<T>) {
        let (wide, n) = (rows * SLOTS * self.channels(), rows * SLOTS * self.cell.output());
        w.one_hot.ensure(rows * SLOTS * CLASSES);
        w.x.resize_with(self.mixers.len() + 1, AlignedVec::default);
        w.saved.resize_with(self.mixers.len(), AlignedVec::default);
        w.x.iter_mut().for_each(|x| x.ensure(wide));
        w.saved.iter_mut().zip(&self.mixers).for_each(|(s, mixer)| s.ensure(mixer.saved_len(rows)));
        w.y.ensure(wide);
        w.cell.ensure(n);
        w.cell_normed.ensure(n);
        w.mean.ensure(rows * self.channels());
    }
}

impl Encoder for UnitEncoder {
    type Work<T: Real> = UnitWork<T>;

    fn set_precision(&mut self, precision: Precision) {
        self.token.set_precision(precision);
        self.cell.set_precision(precision);
        self.mixers.iter_mut().for_each(|mixer| mixer.set_precision(precision));
    }

    fn view_len(&self) -> usize {
        VIEW_LEN
    }

    fn width(&self) -> usize {
        self.channels()
    }

    fn h_width(&self) -> Option<usize> {
        Some(SLOTS * self.cell.output())
    }

    fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        let small = Init::Normal(1.0 / (self.channels() as f64).sqrt());
        self.token.init_with(params, small, Init::Zeros, stream);
        self.board_position.init(params, stream);
        small.fill(&mut params[self.slot_position.clone()], SLOTS, self.channels(), stream);
        self.mixers.iter().for_each(|mixer| mixer.init(params, stream));
        self.norm.init(params);
        self.cell.init(params, stream);
        self.cell_norm.init(params);
    }

    fn forward<T: Real>(&self, params: &[T], views: &[f32], w: &mut UnitWork<T>) {
        let (rows, channels) = (views.len() / VIEW_LEN, self.channels());
        let (wide, n) = (rows * SLOTS * channels, rows * SLOTS * self.cell.output());
        self.fit(rows, w);
        self.embed(params, views, w);
        for (i, mixer) in self.mixers.iter().enumerate() {
            let (before, after) = w.x.split_at_mut(i + 1);
            mixer.forward(params, &before[i][..wide], &mut after[0][..wide], &mut w.saved[i]);
        }
        let y = &mut w.y[..wide];
        self.norm.forward(params, &w.x[self.mixers.len()][..wide], y);
        self.cell.forward(params, y, &mut w.cell[..n]);
        self.cell_norm.forward(params, &w.cell[..n], &mut w.cell_normed[..n]);
        mean_over_cells(y, channels, &mut w.mean[..rows * channels]);
    }

    fn features<'w, T: Real>(&self, work: &'w UnitWork<T>, rows: usize) -> &'w [T] {
        &work.mean[..rows * self.channels()]
    }

    fn h_features<'w, T: Real>(&self, work: &'w UnitWork<T>, rows: usize) -> &'w [T] {
        &work.cell_normed[..rows * SLOTS * self.cell.output()]
    }

    fn vjp<T: Real>(
        &self,
        params: &[T],
        views: &[f32],
        d_f: &mut [T],
        d_h: &mut [T],
        w: &mut UnitWork<T>,
        d_params: &mut [T],
    ) {
        let (rows, channels) = (views.len() / VIEW_LEN, self.channels());
        let (wide, n) = (rows * SLOTS * channels, rows * SLOTS * self.cell.output());
        w.d_cell.ensure(n);
        w.d_y.ensure(wide);
        w.d_x.ensure(wide);
        w.scratch.ensure(self.mixers.iter().map(|mixer| mixer.scratch_len(rows)).max().unwrap_or(0));
        let d_cell = &mut w.d_cell[..n];
        d_cell.fill(T::ZERO);
        self.cell_norm.vjp(params, &w.cell[..n], d_h, Some(d_cell), d_params);
        let (d_y, d_x) = (&mut w.d_y[..wide], &mut w.d_x[..wide]);
        mean_over_cells_vjp(d_f, channels, d_y);
        self.cell.vjp(params, &w.y[..wide], d_cell, Some(d_y), d_params);
        d_x.fill(T::ZERO);
        self.norm.vjp(params, &w.x[self.mixers.len()][..wide], d_y, Some(d_x), d_params);
        for (i, mixer) in self.mixers.iter().enumerate().rev() {
            d_y.copy_from_slice(d_x);
            d_x.fill(T::ZERO);
            mixer.vjp(params, &w.x[i][..wide], &w.saved[i], d_y, Some(d_x), d_params, &mut w.scratch);
        }
        let scale = T::from_f64(self.scale);
        d_x.iter_mut().for_each(|d| *d *= scale);
        for d_x in d_x.chunks_exact(SLOTS * channels) {
            add(&mut d_params[self.slot_position.clone()], d_x);
        }
        self.board_position.vjp(&w.cells, d_x, d_params);
        self.token.vjp(params, &w.one_hot[..rows * SLOTS * CLASSES], d_x, None, d_params);
    }
}

fn mean_over_cells<T: Real>(y: &[T], channels: usize, mean: &mut [T]) {
    let ninth = T::ONE / T::from_f64(SLOTS as f64);
    for (y, mean) in y.chunks_exact(SLOTS * channels).zip(mean.chunks_exact_mut(channels)) {
        mean.fill(T::ZERO);
        y.chunks_exact(channels).for_each(|cell| add(mean, cell));
        mean.iter_mut().for_each(|m| *m *= ninth);
    }
}

/// Overwrites `d_y`.
fn mean_over_cells_vjp<T: Real>(d_mean: &[T], channels: usize, d_y: &mut [T]) {
    let ninth = T::ONE / T::from_f64(SLOTS as f64);
    for (d_y, d_mean) in d_y.chunks_exact_mut(SLOTS * channels).zip(d_mean.chunks_exact(channels)) {
        for cell in d_y.chunks_exact_mut(channels) {
            cell.iter_mut().zip(d_mean).for_each(|(d, &m)| *d = m * ninth);
        }
    }
}
