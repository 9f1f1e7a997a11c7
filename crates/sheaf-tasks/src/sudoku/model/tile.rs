//! Some boards at once: encode, iterate, decode, and back. The products of all boards of a tile are one matrix product.
//!
//! An iteration keeps z and u as z = w + g, u = −g, where w is the target of the last consensus and g what it moved:
//!
//! ```text
//! x = prox(w + 2g)      w = x − g      g = consensus(w) − w
//! ```
//!
//! The last consensus of a solve changes no x, so it runs only when somebody looks.
//!
//! | kept for the reverse sweep | shape |
//! | --- | --- |
//! | x, g | K, boards, 27, d_v |
//! | y, s | K − 1, boards, 27, 9·d_e, once and once for each step |

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::tile_prox::{self, ProxVjp};
use sheaf_kernels::vector::sub;
use sheaf_learn::train::loss::cross_entropy_grad;

use super::consensus::{Kept, Scalars, Work};
use super::decoder::{Decoded, Folded};
use super::encoder::{Encoded, EncodedGrad, EncoderScratch};
use super::horizon::Horizon;
use super::low_rank::{LowRankDims, LowRankGrad, LowRankTile};
use super::maps::StackGrad;
use super::tile_maps::{TileMaps, TileMapsGrad};
use super::{MapKind, Prepared, SudokuModel};
use crate::sudoku::views::{VIEWS, gather};
use crate::sudoku::{CLASSES, Grid};

/// What a run of iterations leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    /// The last x alone.
    Last,
    /// The states another run goes on from.
    States,
    /// All that the reverse sweep needs.
    Tape,
}

/// One iteration of a tile, as an observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'v, T> {
    /// Its number, from 0.
    pub k: usize,
    /// Proposals.
    pub x: &'v [T], // [boards, 27, d_v]
    /// The target w = x + u of the consensus.
    pub w: &'v [T], // [boards, 27, d_v]
    /// What the consensus moved: z = w + g, u = −g.
    pub g: &'v [T], // [boards, 27, d_v]
}

/// Memory for one tile at a time; kept by a worker.
#[derive(Debug, Default)]
pub struct Tile<T: Copy + Default> {
    pub(super) encoded: Encoded<T>,
    pub(super) decoded: Decoded<T>,
    tokens: Vec<u8>, // [boards, 27, 9]
    labels: Vec<u8>, // [boards, 27, 9]
    low: LowRankTile<T>,
    inv_a: AlignedVec<T>, // [states]
    gain: AlignedVec<T>,  // [states]
    shift: AlignedVec<T>, // [states]
    w: AlignedVec<T>,     // [states]
    x: AlignedVec<T>,     // [K or 1, states]
    g: AlignedVec<T>,     // [K + 1 or 1, states]; the first is that of the start
    y: AlignedVec<T>,     // [K or 1, rows]
    s: AlignedVec<T>,     // [K or 1, steps, rows]
    scalars: Vec<Scalars<T>>,
    work: Work<T>,
    back: Back<T>,
}

/// The part of a tile that only the reverse sweep needs.
#[derive(Debug, Default)]
struct Back<T: Copy + Default> {
    d_x: AlignedVec<T>,    // [W, states]
    d_w: AlignedVec<T>,    // [states]
    d_g: AlignedVec<T>,    // [states]
    d_diag: AlignedVec<T>, // [states]
    d_q: AlignedVec<T>,    // [states]
    d_h: AlignedVec<T>,    // [states]
    d_a: AlignedVec<T>,
    d_b: AlignedVec<T>,
    exps: AlignedVec<T>, // [boards, 27, 9, 10]
    low: LowRankGrad<T>,
    encoder: EncoderScratch<T>,
}

/// Gradients that tiles add to.
#[derive(Debug, Default)]
pub struct TileGrad<T: Copy + Default> {
    /// Of the parameters, without the maps.
    pub params: Vec<T>,
    /// Of the prepared maps.
    pub stack: StackGrad<T>,
    /// Of the prepared decoder.
    pub decoder: Folded<T>,
    /// Sum of the losses.
    pub loss: f64,
    /// First board, counted within the batch, whose loss was not finite.
    pub bad: Option<usize>,
}

impl<T: Real> TileGrad<T> {
    /// Zeros for the parameters of `model`.
    pub fn reset(&mut self, model: &SudokuModel) {
        self.params.resize(model.layout.len(), T::ZERO);
        self.params.fill(T::ZERO);
        self.stack.reset(super::SLOTS * model.config.d_e, model.config.d_v);
        self.decoder.ensure(model.decoder.folded_len());
        self.decoder.fill(T::ZERO);
        self.loss = 0.0;
        self.bad = None;
    }
}

impl<T: Real> Tile<T> {
    /// Replaces the x of a solve without a tape, `[boards, 27, d_v]`: what is decoded next.
    pub fn set_x(&mut self, x: &[T]) {
        self.x[..x.len()].copy_from_slice(x);
    }

    /// The updates of the maps.
    pub(super) fn low(&self) -> &LowRankTile<T> {
        &self.low
    }

    /// The logits last decoded, `[boards, 27, 9, 10]`.
    pub fn logits(&self) -> &[T] {
        &self.decoded.logits
    }

    /// What the encoder said.
    pub fn encoded(&self) -> &Encoded<T> {
        &self.encoded
    }
}

/// Sees an iteration; false ends the solve.
pub type Watcher<'a, T> = dyn FnMut(Seen<'_, T>) -> bool + 'a;

impl SudokuModel {
    /// Encodes boards and prepares their objectives and maps.
    pub fn encode<T: Real>(&self, params: &[T], p: &Prepared<T>, puzzles: &[Grid], tile: &mut Tile<T>) {
        let n = puzzles.len() * self.state_len();
        tile.tokens.resize(puzzles.len() * VIEWS, 0);
        for (puzzle, views) in puzzles.iter().zip(tile.tokens.chunks_exact_mut(VIEWS)) {
            gather(puzzle, views);
        }
        self.encoder.forward(params, &tile.tokens, &mut tile.encoded);
        for v in [&mut tile.inv_a, &mut tile.gain, &mut tile.shift] {
            v.ensure(n);
        }
        let (e, agents) = (&tile.encoded, tile.encoded.agents);
        tile_prox::prepare(&e.diag[..n], &e.q[..n], p.rho, &mut tile.inv_a, &mut tile.gain, &mut tile.shift);
        if self.checked.maps == MapKind::LowRank {
            let dims = self.low_rank_dims();
            let per_agent = super::SLOTS * dims.rank;
            let a = &e.a[..agents * per_agent * dims.d_e];
            let b = &e.b[..agents * per_agent * dims.d_v];
            tile.low.prepare(&p.stack, dims, self.low_rank_scale(), a, b);
        }
    }

    fn low_rank_dims(&self) -> LowRankDims {
        LowRankDims { d_v: self.config.d_v, d_e: self.config.d_e, rank: self.config.rank }
    }

    fn low_rank_scale<T: Real>(&self) -> T {
        T::from_f64(self.config.alpha / self.config.rank as f64)
    }

    /// Runs `iterations` of the encoded boards. An observer sees every iteration and may end the solve by returning
    /// false. Returns how many iterations ran.
    pub fn iterate<T: Real>(
        &self,
        p: &Prepared<T>,
        iterations: usize,
        tile: &mut Tile<T>,
        observer: Option<&mut Watcher<'_, T>>,
    ) -> usize {
        self.begin(p, 1, tile);
        self.run(p, iterations, Keep::Last, tile, observer)
    }

    /// Iterations before the tape, if any, and those on it.
    fn iterate_for_grad<T: Real>(&self, p: &Prepared<T>, horizon: Horizon, tile: &mut Tile<T>) {
        let taped = horizon.taped();
        self.begin(p, taped, tile);
        self.run(p, horizon.iterations - taped, Keep::States, tile, None);
        self.run(p, taped, Keep::Tape, tile, None);
    }

    /// Makes room for `depth` iterations and sets the states to their start.
    fn begin<T: Real>(&self, p: &Prepared<T>, depth: usize, tile: &mut Tile<T>) {
        let boards = tile.encoded.agents / super::UNITS;
        let (n, rows) = (boards * self.state_len(), boards * self.row_len());
        let (s_len, scalars) = self.consensus(p).kept_len(rows, boards);
        tile.fit(n, rows, s_len, scalars, depth);
        if self.checked.start_at_h {
            tile.w[..n].copy_from_slice(&tile.encoded.h[..n]);
        } else {
            tile.w[..n].fill(T::ZERO);
        }
        tile.g[..n].fill(T::ZERO);
    }

    /// Goes on for `iterations` from the states in the tile.
    fn run<T: Real>(
        &self,
        p: &Prepared<T>,
        iterations: usize,
        keep: Keep,
        tile: &mut Tile<T>,
        mut observer: Option<&mut Watcher<'_, T>>,
    ) -> usize {
        let boards = tile.encoded.agents / super::UNITS;
        let (n, rows) = (boards * self.state_len(), boards * self.row_len());
        let consensus = self.consensus(p);
        let (s_len, scalars) = consensus.kept_len(rows, boards);
        let low = (self.checked.maps == MapKind::LowRank).then_some(&tile.low);
        let maps = TileMaps { stack: &p.stack, low };
        for k in 0..iterations {
            let (at, next) = if keep == Keep::Tape { (k, k + 1) } else { (0, 0) };
            let x = &mut tile.x[at * n..][..n];
            tile_prox::prox(&tile.gain, &tile.shift, &tile.g[at * n..][..n], &mut tile.w[..n], x);
            if k + 1 == iterations && keep != Keep::States && observer.is_none() {
                break;
            }
            let s = if keep == Keep::Tape { at * s_len..(at + 1) * s_len } else { 0..s_len.min(rows) };
            let mut kept = Kept {
                y: &mut tile.y[at * rows..][..rows],
                s: &mut tile.s[s],
                scalars: &mut tile.scalars[at * scalars..][..scalars],
            };
            let g = &mut tile.g[next * n..][..n];
            consensus.forward(&maps, &tile.w[..n], &mut kept, g, &mut tile.work);
            if let Some(observer) = observer.as_deref_mut()
                && !observer(Seen { k, x, w: &tile.w[..n], g })
            {
                return k + 1;
            }
        }
        iterations
    }

    /// Decodes the last x of a solve without a tape into `tile.logits()`.
    pub fn decode_last<T: Real>(&self, params: &[T], p: &Prepared<T>, tile: &mut Tile<T>) {
        let n = tile.encoded.agents * self.config.d_v;
        self.decoder.forward(params, &p.decoder, &tile.x[..n], &mut tile.decoded);
    }

    /// Loss of the boards of a tile and, added to `grad`, its gradients. `weight` is what one cell of one agent in one
    /// window iterate counts, `first` the number of the first board within the batch.
    pub fn tile_grad<T: Real>(
        &self,
        params: &[T],
        p: &Prepared<T>,
        puzzles: &[Grid],
        solutions: &[Grid],
        horizon: Horizon,
        weight: T,
        first: usize,
        tile: &mut Tile<T>,
        grad: &mut TileGrad<T>,
    ) {
        let (window, taped) = (horizon.window(), horizon.taped());
        let n = puzzles.len() * self.state_len();
        self.encode(params, p, puzzles, tile);
        self.iterate_for_grad(p, horizon, tile);
        tile.labels.resize(puzzles.len() * VIEWS, 0);
        for (solution, labels) in solutions.iter().zip(tile.labels.chunks_exact_mut(VIEWS)) {
            gather(solution, labels);
        }
        tile.back.fit(n, window, puzzles.len());
        for slot in 0..window {
            let x = &tile.x[(taped - window + slot) * n..][..n];
            self.decoder.forward(params, &p.decoder, x, &mut tile.decoded);
            let one = VIEWS * CLASSES;
            let logits = tile.decoded.logits[..puzzles.len() * one].chunks_exact_mut(one);
            for (board, (logits, labels)) in logits.zip(tile.labels.chunks_exact(VIEWS)).enumerate() {
                let loss = cross_entropy_grad(logits, labels, CLASSES, weight, &mut tile.back.exps);
                grad.loss += loss.to_f64();
                if !loss.is_finite() {
                    grad.bad = Some(grad.bad.map_or(first + board, |bad| bad.min(first + board)));
                }
            }
            let d_x = &mut tile.back.d_x[slot * n..][..n];
            d_x.fill(T::ZERO);
            let (d_folded, d_params) = (&mut grad.decoder, &mut grad.params);
            self.decoder.vjp(params, &p.decoder, x, &mut tile.decoded, d_x, d_folded, d_params);
        }
        self.reverse(params, p, horizon, n, tile, grad);
    }

    /// The reverse sweep, from the gradients of the last x to those of the parameters.
    fn reverse<T: Real>(
        &self,
        params: &[T],
        p: &Prepared<T>,
        horizon: Horizon,
        n: usize,
        tile: &mut Tile<T>,
        grad: &mut TileGrad<T>,
    ) {
        let (taped, window) = (horizon.taped(), horizon.window());
        let boards = n / self.state_len();
        let rows = boards * self.row_len();
        let consensus = self.consensus(p);
        let (s_len, scalars) = consensus.kept_len(rows, boards);
        let low_rank = self.checked.maps == MapKind::LowRank;
        let back = &mut tile.back;
        if low_rank {
            back.low.reset(&tile.low);
        }
        let maps = TileMaps { stack: &p.stack, low: low_rank.then_some(&tile.low) };
        let mut d_maps = TileMapsGrad { stack: &mut grad.stack, low: low_rank.then_some(&mut back.low) };
        let (d_w, d_g) = (&mut back.d_w[..n], &mut back.d_g[..n]);
        let (d_diag, d_q) = (&mut back.d_diag[..n], &mut back.d_q[..n]);
        [&mut *d_w, &mut *d_diag, &mut *d_q].into_iter().for_each(|d| d.fill(T::ZERO));
        let mut d_rho = T::ZERO;
        for k in (0..taped).rev() {
            let x = &tile.x[k * n..][..n];
            let d_x = (k + window).checked_sub(taped).map(|slot| &back.d_x[slot * n..][..n]);
            let (inv_a, gain) = (&tile.inv_a[..n], &tile.gain[..n]);
            tile_prox::prox_vjp(ProxVjp { inv_a, gain, x, d_x, d_w, d_g, d_diag, d_q });
            if let Some(last) = k.checked_sub(1) {
                // The target of the consensus before this x.
                let w = &mut tile.w[..n];
                sub(w, &tile.x[last * n..][..n], &tile.g[last * n..][..n]);
                let mut kept = Kept {
                    y: &mut tile.y[last * rows..][..rows],
                    s: &mut tile.s[last * s_len..][..s_len],
                    scalars: &mut tile.scalars[last * scalars..][..scalars],
                };
                consensus.vjp(&maps, w, &mut kept, d_g, d_w, &mut d_maps, &mut d_rho, &mut tile.work);
            }
        }
        let e = &tile.encoded;
        d_rho += tile_prox::rho_grad(&e.diag[..n], &e.q[..n], p.rho, d_diag, d_q);
        grad.params[self.rho.start] += d_rho * self.rho(params).1;
        if self.checked.start_at_h && taped == horizon.iterations {
            back.d_h[..n].copy_from_slice(d_w);
        } else {
            back.d_h[..n].fill(T::ZERO);
        }
        let (mut a, mut b): (&[T], &[T]) = (&[], &[]);
        if low_rank {
            let per_agent = super::SLOTS * self.config.rank * tile.encoded.agents;
            back.d_a.ensure(per_agent * self.config.d_e);
            back.d_b.ensure(per_agent * self.config.d_v);
            let d_a = &mut back.d_a[..per_agent * self.config.d_e];
            let d_b = &mut back.d_b[..per_agent * self.config.d_v];
            let scale = self.low_rank_scale();
            tile.low.prepare_vjp(&p.stack, scale, &mut back.low, d_a, d_b, &mut grad.stack);
            (a, b) = (d_a, d_b);
        }
        let d = EncodedGrad { h: &back.d_h[..n], diag: &back.d_diag[..n], q: &back.d_q[..n], a, b };
        self.encoder.vjp(params, &tile.encoded, &d, &mut grad.params, &mut back.encoder);
    }
}

impl<T: Real> Tile<T> {
    fn fit(&mut self, n: usize, rows: usize, s_len: usize, scalars: usize, depth: usize) {
        self.w.ensure(n);
        self.x.ensure(depth * n);
        self.g.ensure((depth + 1) * n);
        self.y.ensure(depth * rows);
        self.s.ensure(depth * s_len);
        if self.scalars.len() < depth * scalars {
            self.scalars.resize(depth * scalars, Scalars::default());
        }
    }
}

impl<T: Real> Back<T> {
    fn fit(&mut self, n: usize, window: usize, boards: usize) {
        self.d_x.ensure(window * n);
        for v in [&mut self.d_w, &mut self.d_g, &mut self.d_diag, &mut self.d_q, &mut self.d_h] {
            v.ensure(n);
        }
        self.exps.ensure(boards * VIEWS * CLASSES);
    }
}

#[cfg(test)]
mod frozen_tests;
