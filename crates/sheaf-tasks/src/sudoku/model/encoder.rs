//! From the nine cells an agent sees to its convex objective and its first guess.
//!
//! ```text
//! x = (token + board position + slot position)·√(channels / 2)      y = rms(mixer(… mixer(x)))
//! h = layer_norm(· [rms(· y_1) … rms(· y_9)])     D = softplus(· mean y) + 1e-4     q = · mean y
//! A = · rms(mean y)     B = · rms(mean y)
//! ```
//!
//! | array | shape |
//! | --- | --- |
//! | one-hot tokens | agents, 9, 10 |
//! | x, y | agents, 9, channels |
//! | h, D, q | agents, d_v |
//! | A, B | agents, 9, d_e or d_v, rank |

use std::ops::Range;

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::add;
use sheaf_learn::nn::{Embedding, Init, LayerNorm, Linear, Mixer, RmsNorm, activation};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;

use super::config::{Checked, MapKind, SudokuConfig};
use crate::sudoku::views::SLOTS;
use crate::sudoku::{CELLS, CLASSES, UNIT_CELLS, UNITS};

/// Added to softplus, so that every objective is strictly convex.
const DIAG_FLOOR: f64 = 1e-4;

/// The layers.
#[derive(Clone, Debug)]
pub struct Encoder {
    token: Linear,
    board_position: Embedding,
    slot_position: Range<usize>, // [9, channels]
    mixers: Vec<Mixer>,
    norm: RmsNorm,
    cell: Linear,
    cell_norm: RmsNorm,
    h: Linear,
    h_norm: LayerNorm,
    diag: Linear,
    q: Linear,
    low_rank: Option<(RmsNorm, Linear, Linear)>,
    scale: f64,
}

/// What the encoder says of the agents of a tile, and what its adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct Encoded<T: Copy + Default> {
    /// Agents of the tile.
    pub agents: usize,
    /// Starts.
    pub h: AlignedVec<T>,
    /// D.
    pub diag: AlignedVec<T>,
    /// q.
    pub q: AlignedVec<T>,
    /// Factors A of the maps' updates.
    pub a: AlignedVec<T>,
    /// Factors B.
    pub b: AlignedVec<T>,
    one_hot: AlignedVec<T>,     // [agents, 9, 10]
    cells: Vec<usize>,          // [agents, 9]
    x: Vec<AlignedVec<T>>,      // mixers + 1 of [agents, 9, channels]
    saved: Vec<AlignedVec<T>>,  // what each mixer saves
    y: AlignedVec<T>,           // [agents, 9, channels]
    cell: AlignedVec<T>,        // [agents, 9, d_v / 9]
    cell_normed: AlignedVec<T>, // [agents, d_v]
    h_raw: AlignedVec<T>,       // [agents, d_v]
    mean: AlignedVec<T>,        // [agents, channels]
    diag_raw: AlignedVec<T>,    // [agents, d_v]
    low_normed: AlignedVec<T>,  // [agents, channels]
}

/// Gradients of what the agents read.
#[derive(Debug)]
pub struct EncodedGrad<'g, T> {
    /// Of the starts.
    pub h: &'g [T],
    /// Of D.
    pub diag: &'g [T],
    /// Of q.
    pub q: &'g [T],
    /// Of the factors A; empty without updates.
    pub a: &'g [T],
    /// Of the factors B; empty without updates.
    pub b: &'g [T],
}

/// Buffers of the adjoint.
#[derive(Clone, Debug, Default)]
pub struct EncoderScratch<T: Copy + Default> {
    head: AlignedVec<T>,   // [agents, d_v]
    flat: AlignedVec<T>,   // [agents, d_v]
    mean: AlignedVec<T>,   // [agents, channels]
    normed: AlignedVec<T>, // [agents, channels]
    d_y: AlignedVec<T>,    // [agents, 9, channels]
    d_x: AlignedVec<T>,    // [agents, 9, channels]
    mixer: AlignedVec<T>,
}

impl Encoder {
    /// Declares the parameters.
    pub fn new(layout: &mut ParamLayout, config: &SudokuConfig, checked: &Checked) -> Self {
        let (channels, d_v) = (config.channels, config.d_v);
        let block = d_v / SLOTS;
        Self {
            token: Linear::new(layout, "encoder/token", CLASSES, channels, true),
            board_position: Embedding::new(layout, "encoder/board_position", CELLS, channels),
            slot_position: layout.add("encoder/slot_position", &[SLOTS, channels]),
            mixers: (0..config.mixers)
                .map(|i| {
                    let name = format!("encoder/mixer_{i}");
                    let hidden = (config.token_hidden, config.channel_hidden);
                    Mixer::new(layout, &name, (SLOTS, channels), hidden.0, hidden.1)
                })
                .collect(),
            norm: RmsNorm::new(layout, "encoder/norm", channels),
            cell: Linear::new(layout, "encoder/cell", channels, block, true),
            cell_norm: RmsNorm::new(layout, "encoder/cell_norm", block),
            h: Linear::new(layout, "encoder/h", d_v, d_v, true),
            h_norm: LayerNorm::new(layout, "encoder/h_norm", d_v),
            diag: Linear::new(layout, "encoder/diag", channels, d_v, true),
            q: Linear::new(layout, "encoder/q", channels, d_v, true),
            low_rank: (checked.maps == MapKind::LowRank).then(|| {
                let factors = SLOTS * config.rank;
                (
                    RmsNorm::new(layout, "encoder/low_rank_norm", channels),
                    Linear::new(layout, "encoder/low_rank_a", channels, factors * config.d_e, true),
                    Linear::new(layout, "encoder/low_rank_b", channels, factors * d_v, true),
                )
            }),
            scale: (channels as f64 / 2.0).sqrt(),
        }
    }

    /// Starting values.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        let small = Init::Normal(1.0 / (self.channels() as f64).sqrt());
        self.token.init_with(params, small, Init::Zeros, stream);
        self.board_position.init(params, stream);
        small.fill(&mut params[self.slot_position.clone()], SLOTS, self.channels(), stream);
        self.mixers.iter().for_each(|mixer| mixer.init(params, stream));
        self.norm.init(params);
        self.cell.init(params, stream);
        self.cell_norm.init(params);
        self.h.init(params, stream);
        self.h_norm.init(params);
        self.diag.init(params, stream);
        self.q.init(params, stream);
        if let Some((norm, a, b)) = &self.low_rank {
            norm.init(params);
            a.init_with(params, Init::Zeros, Init::Zeros, stream);
            b.init(params, stream);
        }
    }

    fn channels(&self) -> usize {
        self.token.output()
    }

    fn d_v(&self) -> usize {
        self.h.output()
    }

    /// Encodes the views `tokens` of a tile. Saves: everything private in `e`.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        tokens: &[u8], // [agents, 9]
        e: &mut Encoded<T>,
    ) {
        let (agents, channels) = (tokens.len() / SLOTS, self.channels());
        let (wide, n) = (agents * SLOTS * channels, agents * self.d_v());
        self.fit(agents, e);
        self.embed(params, tokens, e);
        for (i, mixer) in self.mixers.iter().enumerate() {
            let (before, after) = e.x.split_at_mut(i + 1);
            mixer.forward(params, &before[i][..wide], &mut after[0][..wide], &mut e.saved[i]);
        }
        let y = &mut e.y[..wide];
        self.norm.forward(params, &e.x[self.mixers.len()][..wide], y);
        self.cell.forward(params, y, &mut e.cell[..n]);
        self.cell_norm.forward(params, &e.cell[..n], &mut e.cell_normed[..n]);
        self.h.forward(params, &e.cell_normed[..n], &mut e.h_raw[..n]);
        self.h_norm.forward(params, &e.h_raw[..n], &mut e.h[..n]);
        let mean = &mut e.mean[..agents * channels];
        mean_over_cells(y, channels, mean);
        self.diag.forward(params, mean, &mut e.diag_raw[..n]);
        activation::softplus(&e.diag_raw[..n], &mut e.diag[..n]);
        e.diag[..n].iter_mut().for_each(|d| *d += T::from_f64(DIAG_FLOOR));
        self.q.forward(params, mean, &mut e.q[..n]);
        if let Some((norm, a, b)) = &self.low_rank {
            let normed = &mut e.low_normed[..agents * channels];
            norm.forward(params, mean, normed);
            a.forward(params, normed, &mut e.a[..agents * a.output()]);
            b.forward(params, normed, &mut e.b[..agents * b.output()]);
        }
    }

    fn embed<T: Real>(&self, params: &[T], tokens: &[u8], e: &mut Encoded<T>) {
        let (rows, channels) = (tokens.len(), self.channels());
        let one_hot = &mut e.one_hot[..rows * CLASSES];
        one_hot.fill(T::ZERO);
        for (&token, row) in tokens.iter().zip(one_hot.chunks_exact_mut(CLASSES)) {
            row[token as usize] = T::ONE;
        }
        let x = &mut e.x[0][..rows * channels];
        self.token.forward(params, one_hot, x);
        self.board_position.forward_add(params, &e.cells[..rows], x);
        let (position, scale) = (&params[self.slot_position.clone()], T::from_f64(self.scale));
        for x in x.chunks_exact_mut(SLOTS * channels) {
            x.iter_mut().zip(position).for_each(|(x, &p)| *x = (*x + p) * scale);
        }
    }

    fn fit<T: Real>(&self, agents: usize, e: &mut Encoded<T>) {
        let (channels, n) = (self.channels(), agents * self.d_v());
        let wide = agents * SLOTS * channels;
        e.agents = agents;
        e.one_hot.ensure(agents * SLOTS * CLASSES);
        if e.cells.len() < agents * SLOTS {
            let board = UNIT_CELLS.as_flattened().iter().map(|&c| c as usize);
            e.cells = board.cycle().take(agents.div_ceil(UNITS) * UNITS * SLOTS).collect();
        }
        e.x.resize_with(self.mixers.len() + 1, AlignedVec::default);
        e.saved.resize_with(self.mixers.len(), AlignedVec::default);
        e.x.iter_mut().for_each(|x| x.ensure(wide));
        e.saved.iter_mut().zip(&self.mixers).for_each(|(s, mixer)| s.ensure(mixer.saved_len(agents)));
        e.y.ensure(wide);
        for v in [&mut e.h, &mut e.diag, &mut e.q, &mut e.cell, &mut e.cell_normed] {
            v.ensure(n);
        }
        e.h_raw.ensure(n);
        e.diag_raw.ensure(n);
        e.mean.ensure(agents * channels);
        if let Some((_, a, b)) = &self.low_rank {
            e.low_normed.ensure(agents * channels);
            e.a.ensure(agents * a.output());
            e.b.ensure(agents * b.output());
        }
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_params`.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        e: &Encoded<T>,
        d: &EncodedGrad<'_, T>,
        d_params: &mut [T],
        s: &mut EncoderScratch<T>,
    ) {
        let (agents, channels) = (e.agents, self.channels());
        let (wide, n) = (agents * SLOTS * channels, agents * self.d_v());
        s.fit(n, agents * channels, wide, self.mixers.iter().map(|m| m.scratch_len(agents)).max());
        let mean = &e.mean[..agents * channels];
        let d_mean = &mut s.mean[..agents * channels];
        d_mean.fill(T::ZERO);
        if let Some((norm, a, b)) = &self.low_rank {
            let (normed, d_normed) = (&e.low_normed[..agents * channels], &mut s.normed[..agents * channels]);
            d_normed.fill(T::ZERO);
            a.vjp(params, normed, d.a, Some(d_normed), d_params);
            b.vjp(params, normed, d.b, Some(d_normed), d_params);
            norm.vjp(params, mean, d_normed, Some(d_mean), d_params);
        }
        let (head, flat) = (&mut s.head[..n], &mut s.flat[..n]);
        head.fill(T::ZERO);
        activation::softplus_vjp(&e.diag_raw[..n], d.diag, head);
        self.diag.vjp(params, mean, head, Some(d_mean), d_params);
        self.q.vjp(params, mean, d.q, Some(d_mean), d_params);

        head.fill(T::ZERO);
        self.h_norm.vjp(params, &e.h_raw[..n], d.h, Some(head), d_params);
        flat.fill(T::ZERO);
        self.h.vjp(params, &e.cell_normed[..n], head, Some(flat), d_params);
        head.fill(T::ZERO);
        self.cell_norm.vjp(params, &e.cell[..n], flat, Some(head), d_params);
        let (d_y, d_x) = (&mut s.d_y[..wide], &mut s.d_x[..wide]);
        mean_over_cells_vjp(d_mean, channels, d_y);
        self.cell.vjp(params, &e.y[..wide], head, Some(d_y), d_params);

        d_x.fill(T::ZERO);
        self.norm.vjp(params, &e.x[self.mixers.len()][..wide], d_y, Some(d_x), d_params);
        for (i, mixer) in self.mixers.iter().enumerate().rev() {
            d_y.copy_from_slice(d_x);
            d_x.fill(T::ZERO);
            mixer.vjp(params, &e.x[i][..wide], &e.saved[i], d_y, Some(d_x), d_params, &mut s.mixer);
        }
        self.embed_vjp(params, e, d_x, d_params);
    }

    fn embed_vjp<T: Real>(&self, params: &[T], e: &Encoded<T>, d_x: &mut [T], d_params: &mut [T]) {
        let (rows, scale) = (e.agents * SLOTS, T::from_f64(self.scale));
        d_x.iter_mut().for_each(|d| *d *= scale);
        for d_x in d_x.chunks_exact(SLOTS * self.channels()) {
            add(&mut d_params[self.slot_position.clone()], d_x);
        }
        self.board_position.vjp(&e.cells[..rows], d_x, d_params);
        self.token.vjp(params, &e.one_hot[..rows * CLASSES], d_x, None, d_params);
    }
}

impl<T: Real> EncoderScratch<T> {
    fn fit(&mut self, n: usize, narrow: usize, wide: usize, mixer: Option<usize>) {
        self.head.ensure(n);
        self.flat.ensure(n);
        self.mean.ensure(narrow);
        self.normed.ensure(narrow);
        self.d_y.ensure(wide);
        self.d_x.ensure(wide);
        self.mixer.ensure(mixer.unwrap_or(0));
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
