//! What depends on a view: features, heads, maps, the decoder's table. One row per distinct view.

use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::add;

use super::Model;
use super::heads::{COLUMNS, Headed};
use super::maps::{MapTable, MapTableGrad};
use super::net::{Decoder, Encoder};

/// The network outputs of every distinct view.
#[derive(Debug)]
pub struct Tables<T: Real, E: Encoder, D: Decoder> {
    views: usize,
    encoder: E::Work<T>,
    pub(super) headed: Headed<T>,
    pub(super) maps: MapTable<T>,
    pub(super) decoder: D::Table<T>,
    d_f: AlignedVec<T>, // [views, width]
    d_h: AlignedVec<T>, // [views, h_width]
}

impl<T: Real, E: Encoder, D: Decoder> Default for Tables<T, E, D> {
    fn default() -> Self {
        Self {
            views: 0,
            encoder: E::Work::default(),
            headed: Headed::default(),
            maps: MapTable::default(),
            decoder: D::Table::default(),
            d_f: AlignedVec::default(),
            d_h: AlignedVec::default(),
        }
    }
}

/// Gradients of the table values that agents read.
#[derive(Debug, Default)]
pub struct TableGrad<T: Copy + Default> {
    pub(super) columns: [AlignedVec<T>; COLUMNS],
    pub(super) maps: MapTableGrad<T>,
    pub(super) decoder: AlignedVec<T>,
}

impl<T: Real> TableGrad<T> {
    /// Zeros for this many views.
    pub fn reset<E: Encoder, D: Decoder>(&mut self, model: &Model<E, D>, sheaf: &Sheaf, views: usize) {
        for (k, column) in self.columns.iter_mut().enumerate() {
            let len = views * model.heads.width_of(k);
            column.ensure(len);
            column[..len].fill(T::ZERO);
        }
        model.maps.reset_grad(sheaf, &model.heads, views, &mut self.maps);
        let len = model.decoder.table_grad_len(views);
        self.decoder.ensure(len);
        self.decoder[..len].fill(T::ZERO);
    }

    /// Adds gradients of the same views from another table.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.columns.iter_mut().zip(&other.columns) {
            add(own, other);
        }
        self.maps.add(&other.maps);
        add(&mut self.decoder, &other.decoder);
    }
}

impl<T: Real, E: Encoder, D: Decoder> Tables<T, E, D> {
    /// Number of views.
    pub fn views(&self) -> usize {
        self.views
    }

    /// The head outputs: h, D, q, l1, hi, rho of every view.
    pub fn headed(&self) -> &Headed<T> {
        &self.headed
    }

    /// The factors A `[views, slots, d_e, rank]` and B `[views, slots, d_v, rank]` of the LoRA updates, for inspection.
    pub fn factors(&self, model: &Model<E, D>, params: &[T]) -> (Vec<T>, Vec<T>) {
        let (a_len, b_len) = model.heads.factor_lens();
        let (mut a, mut b) = (vec![T::ZERO; self.views * a_len], vec![T::ZERO; self.views * b_len]);
        model.heads.factors(params, 0..self.views, &self.headed, &mut a, &mut b);
        (a, b)
    }

    /// Encodes `views` `[count, view_len]`. Saves: everything private.
    pub fn encode(&mut self, model: &Model<E, D>, params: &[T], sheaf: &Sheaf, views: &[f32]) -> Result<()> {
        let count = views.len() / model.encoder.view_len();
        self.views = count;
        model.encoder.forward(params, views, &mut self.encoder);
        let f = model.encoder.features(&self.encoder, count);
        let f_h = model.encoder.h_features(&self.encoder, count);
        model.heads.forward(params, count, f, f_h, &mut self.headed);
        model.maps.tabulate(params, sheaf, &model.heads, &self.headed, count, &mut self.maps)?;
        model.decoder.tabulate(params, views, &mut self.decoder);
        Ok(())
    }

    /// Adjoint of [`encode`](Self::encode): adds to `d_params`.
    pub fn vjp(
        &mut self,
        model: &Model<E, D>,
        params: &[T],
        sheaf: &Sheaf,
        views: &[f32],
        grad: &mut TableGrad<T>,
        d_params: &mut [T],
    ) -> Result<()> {
        let count = self.views;
        let d_table = &grad.decoder[..model.decoder.table_grad_len(count)];
        model.decoder.tabulate_vjp(params, views, d_table, &mut self.decoder, d_params);
        model.maps.tabulate_vjp(params, sheaf, &model.heads, &self.maps, &mut grad.maps, d_params)?;
        let (width, h_width) = (model.encoder.width(), model.encoder.h_width().unwrap_or(0));
        self.d_f.ensure(count * width);
        self.d_h.ensure(count * h_width);
        let (d_f, d_h) = (&mut self.d_f[..count * width], &mut self.d_h[..count * h_width]);
        d_f.fill(T::ZERO);
        d_h.fill(T::ZERO);
        let f = model.encoder.features(&self.encoder, count);
        let f_h = model.encoder.h_features(&self.encoder, count);
        let (a_len, b_len) = model.heads.factor_lens();
        let factors = (&grad.maps.a[..count * a_len], &grad.maps.b[..count * b_len]);
        model.heads.vjp(params, count, f, f_h, &mut self.headed, &grad.columns, factors, d_f, d_h, d_params);
        model.encoder.vjp(params, views, d_f, d_h, &mut self.encoder, d_params);
        Ok(())
    }
}
