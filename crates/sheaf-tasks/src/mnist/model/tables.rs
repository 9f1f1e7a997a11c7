//! What the encoder says of all distinct views of a batch, computed on all cores.
//!
//! The views are cut into [`TILES`] tiles, whose number depends on nothing; every tile has its own gradient block, and
//! the blocks are added in order. Which worker runs which tile changes nothing.

use rayon::prelude::*;
use sheaf_admm::Real;
use sheaf_admm::sheaf::pack_base;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::add;

use super::encoder::{Tile, TileGrads};
use super::{Board, MnistModel};
use crate::mnist::views::{DistinctViews, GradRows, PieceRows};

/// Tiles the views are cut into: enough for many cores, few enough to keep products large and blocks few.
const TILES: usize = 8;

/// The encoder's answers, by number of view.
#[derive(Clone, Debug, Default)]
pub struct Tables<T: Copy + Default> {
    tiles: Vec<Tile<T>>, // [TILES]
    per_tile: usize,
    views: usize,
    base: AlignedVec<T>,   // R, packed
    packed: AlignedVec<T>, // [views, view_len]
    base_len: usize,
    packed_len: usize,
    blocks: Vec<Vec<T>>, // [TILES][params]
}

impl<T: Real> Tables<T> {
    /// Encodes all views.
    pub fn encode(&mut self, model: &MnistModel, params: &[T], board: &Board, views: &DistinctViews<T>) {
        let (shape, view_len) = (board.shape, board.shape.view_len());
        self.views = views.len();
        self.per_tile = self.views.div_ceil(TILES).max(1);
        self.base_len = shape.base_len();
        self.packed_len = self.views * view_len;
        self.base.ensure(self.base_len);
        self.packed.ensure(self.packed_len);
        let packed = pack_base(shape, &params[model.base.clone()], &mut self.base[..self.base_len]);
        debug_assert!(packed.is_ok(), "{packed:?}");
        self.tiles.resize_with(TILES, Tile::default);
        let pixels = board.grid.view_pixels();
        let patches = views.patches().par_chunks(self.per_tile * pixels);
        if view_len == 0 {
            let tiles = self.tiles.par_iter_mut().zip(patches);
            tiles.for_each(|(tile, patches)| {
                model.encoder.forward(params, shape, patches, &mut [], tile);
            });
            return;
        }
        let packed = self.packed[..self.packed_len].par_chunks_mut(self.per_tile * view_len);
        self.tiles.par_iter_mut().zip(patches).zip(packed).for_each(|((tile, patches), packed)| {
            model.encoder.forward(params, shape, patches, packed, tile);
        });
    }

    /// Number of views.
    pub fn views(&self) -> usize {
        self.views
    }

    /// (h, D, q) of a view, `[d_v]` each.
    #[inline]
    pub fn heads(&self, view: u32, d_v: usize) -> [&[T]; 3] {
        let (tile, row) = (view as usize / self.per_tile, view as usize % self.per_tile);
        let t = &self.tiles[tile];
        [&t.h, &t.diag, &t.q].map(|table| &table[row * d_v..][..d_v])
    }

    /// The packed base.
    pub fn base(&self) -> &[T] {
        &self.base[..self.base_len]
    }

    /// The packed maps of all views.
    pub fn packed(&self) -> &[T] {
        &self.packed[..self.packed_len]
    }

    /// Adjoint of [`encode`](Self::encode): adds to `d_params`.
    pub fn vjp(
        &mut self,
        model: &MnistModel,
        params: &[T],
        board: &Board,
        views: &DistinctViews<T>,
        grads: &TableGrads<T>,
        d_params: &mut [T],
    ) {
        let (shape, rows, pixels) = (board.shape, self.per_tile, board.grid.view_pixels());
        let count = self.views;
        let encoder_len = model.per_sample.start;
        self.blocks.resize_with(TILES, Vec::new);
        let tiles = self.tiles.par_iter_mut().zip(&mut self.blocks).enumerate();
        tiles.for_each(|(k, (tile, block))| {
            block.clear();
            block.resize(encoder_len, T::ZERO);
            let (first, last) = ((k * rows).min(count), ((k + 1) * rows).min(count));
            if first == last {
                return;
            }
            let of = |table: usize| {
                let width = grads.widths[table];
                &grads.tables[table][first * width..last * width]
            };
            let d = TileGrads { h: of(H), diag: of(DIAG), q: of(Q), a: of(A), b: of(B) };
            let patches = &views.patches()[first * pixels..last * pixels];
            model.encoder.vjp(params, shape, patches, tile, &d, block);
        });
        for block in &self.blocks {
            add(&mut d_params[..encoder_len], block);
        }
    }
}

/// Places of the tables in [`TableGrads`].
pub const H: usize = 0;
/// Of D.
pub const DIAG: usize = 1;
/// Of q.
pub const Q: usize = 2;
/// Of A.
pub const A: usize = 3;
/// Of B.
pub const B: usize = 4;

/// Gradients of h, D, q, A, B: a row for every view, then the extra rows of the pieces.
#[derive(Debug, Default)]
pub struct TableGrads<T: Copy + Default> {
    tables: [AlignedVec<T>; 5],
    widths: [usize; 5],
}

impl<T: Real> TableGrads<T> {
    /// Makes room and cuts the tables into the rows of each piece; their content is unspecified.
    pub fn cut(&mut self, board: &Board, rows: &GradRows) -> Vec<[PieceRows<'_, T>; 5]> {
        let shape = board.shape;
        let (d_v, m) = (shape.d_v, shape.m());
        self.widths = [d_v, d_v, d_v, m * shape.d_e, m * d_v];
        let mut cuts = Vec::with_capacity(5);
        for (table, &width) in self.tables.iter_mut().zip(&self.widths) {
            table.ensure(rows.len() * width);
            cuts.push(rows.cut(table, width).into_iter());
        }
        let mut pieces = Vec::new();
        while let [Some(h), Some(diag), Some(q), Some(a), Some(b)] =
            std::array::from_fn(|table| cuts[table].next())
        {
            pieces.push([h, diag, q, a, b]);
        }
        pieces
    }

    /// Adds the extra rows to those of their views.
    pub fn gather(&mut self, views: usize, rows: &GradRows) {
        for (table, &width) in self.tables.iter_mut().zip(&self.widths) {
            let (own, extra) = table.split_at_mut(views * width);
            for (k, &view) in rows.extra_views().iter().enumerate() {
                add(&mut own[view as usize * width..][..width], &extra[k * width..][..width]);
            }
        }
    }
}
