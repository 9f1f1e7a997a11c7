//! From views to convex objectives and restriction maps; every distinct view is encoded once.
//!
//! ```text
//! f = gelu(dense(rms(view)))
//! h = layer_norm(comm f)     D = softplus(· f) + 1e-4     q = · f     l1 = softplus(· f)     hi = softplus(· f)
//! A = · layer_norm(f)        B = · layer_norm(f)          F[s] = R[s] + (alpha / rank) A[s] B[s]ᵀ
//! ```
//!
//! | table | shape |
//! | --- | --- |
//! | patches | `[views, 54]` |
//! | h, diag, q, l1, hi | `[views, d_v]` |
//! | stacks | `[views, d_v, ld]` |
//! | tiles | `[views, tile_len]` |

use std::ops::Range;

use sheaf_admm::sheaf::{LowRank, LowRankGrad, Sheaf, Uniform, compose_low_rank, compose_low_rank_vjp};
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::tiles::tile_stacks;
use sheaf_learn::init;
use sheaf_learn::nn::{Init, LayerNorm, Linear, RmsNorm, activation};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;

use super::config::{Checked, MapKind, MazeConfig, ObjectiveKind};

/// Added to softplus, so that every objective is strictly convex.
const DIAG_FLOOR: f64 = 1e-4;

/// Names of the eight slots.
pub const DIRECTIONS: [&str; 8] = ["N", "NE", "E", "SE", "S", "SW", "W", "NW"];

/// The layers.
#[derive(Clone, Debug)]
pub struct Encoder {
    input_norm: RmsNorm,
    dense: Linear,
    comm: Linear,
    comm_norm: LayerNorm,
    diag: Option<Linear>,
    q: Option<Linear>,
    l1: Option<Linear>,
    upper: Option<Linear>,
    low_rank: Option<(LayerNorm, Linear, Linear)>,
    base: Range<usize>, // [slots, d_e, d_v]
    rank: usize,
    scale: f64,
    trains_base: bool,
}

/// What the encoder says of each distinct view, and what its adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct Tables<T: Copy + Default> {
    /// Number of distinct views.
    pub views: usize,
    /// One-hot views.
    pub patches: AlignedVec<T>,
    /// Starts.
    pub h: AlignedVec<T>,
    /// D.
    pub diag: AlignedVec<T>,
    /// q.
    pub q: AlignedVec<T>,
    /// l1 weights.
    pub l1: AlignedVec<T>,
    /// Upper bounds.
    pub hi: AlignedVec<T>,
    /// Restriction maps.
    pub stacks: AlignedVec<T>,
    /// The same by tiles, where the shape has them.
    pub tiles: AlignedVec<T>,
    normed: AlignedVec<T>, // [views, 54]
    slope: AlignedVec<T>,  // [views, hidden]
    f: AlignedVec<T>,      // [views, hidden]
    f_norm: AlignedVec<T>, // [views, hidden]
    h_raw: AlignedVec<T>,  // [views, d_v]
    diag_raw: AlignedVec<T>,
    l1_raw: AlignedVec<T>,
    hi_raw: AlignedVec<T>,
    a: AlignedVec<T>, // [views, slots, d_e, rank]
    b: AlignedVec<T>, // [views, slots, d_v, rank]
}

/// Gradients of the tables the agents read.
#[derive(Debug)]
pub struct TableGrads<'g, T> {
    /// Of the starts.
    pub h: &'g [T],
    /// Of D.
    pub diag: &'g [T],
    /// Of q.
    pub q: &'g [T],
    /// Of the l1 weights.
    pub l1: &'g [T],
    /// Of the upper bounds.
    pub hi: &'g [T],
    /// Of the stacks.
    pub stacks: &'g [T],
}

/// Buffers of the adjoint.
#[derive(Clone, Debug, Default)]
pub struct EncoderScratch<T: Copy + Default> {
    f: AlignedVec<T>,      // [views, hidden]
    f_norm: AlignedVec<T>, // [views, hidden]
    head: AlignedVec<T>,   // [views, d_v]
    a: AlignedVec<T>,
    b: AlignedVec<T>,
    normed: AlignedVec<T>, // [views, 54]
}

impl Encoder {
    /// Declares the parameters.
    pub fn new(layout: &mut ParamLayout, config: &MazeConfig, checked: &Checked, view_len: usize) -> Self {
        let (hidden, d_v) = (config.hidden, config.d_v);
        let slots = DIRECTIONS.len();
        let tether = checked.objective == ObjectiveKind::Tether;
        let boxed = checked.objective == ObjectiveKind::L1Box;
        let input_norm = RmsNorm::new(layout, "encoder/input_norm", view_len);
        let dense = Linear::new(layout, "encoder/dense", view_len, hidden, true);
        let comm = Linear::new(layout, "encoder/h", hidden, d_v, true);
        let comm_norm = LayerNorm::new(layout, "encoder/h_norm", d_v);
        let mut head = |wanted: bool, name: &str| {
            wanted.then(|| Linear::new(layout, &format!("encoder/{name}"), hidden, d_v, true))
        };
        let (diag, q) = (head(!tether, "diag"), head(!tether, "q"));
        let (l1, upper) = (head(boxed, "l1"), head(boxed, "upper"));
        let low_rank = (checked.maps == MapKind::LowRank).then(|| {
            (
                LayerNorm::new(layout, "encoder/low_rank_norm", hidden),
                Linear::new(layout, "encoder/low_rank_a", hidden, slots * config.d_e * config.rank, true),
                Linear::new(layout, "encoder/low_rank_b", hidden, slots * d_v * config.rank, true),
            )
        });
        let ranges = DIRECTIONS.map(|d| layout.add(format!("maps/{d}"), &[config.d_e, d_v]));
        Self {
            input_norm,
            dense,
            comm,
            comm_norm,
            diag,
            q,
            l1,
            upper,
            low_rank,
            base: ranges[0].start..ranges[7].end,
            rank: if checked.maps == MapKind::LowRank { config.rank } else { 0 },
            scale: config.alpha / config.rank.max(1) as f64,
            trains_base: checked.maps != MapKind::Identity,
        }
    }

    /// Starting values.
    pub fn init<T: Real>(&self, config: &MazeConfig, params: &mut [T], stream: &mut Stream) {
        self.input_norm.init(params);
        self.dense.init(params, stream);
        self.comm.init(params, stream);
        self.comm_norm.init(params);
        for head in [&self.diag, &self.q].into_iter().flatten() {
            head.init(params, stream);
        }
        for (head, start) in [(&self.l1, config.l1_init), (&self.upper, config.upper_init)] {
            if let Some(head) = head {
                head.init_with(params, Init::Zeros, Init::InverseSoftplus(start), stream);
            }
        }
        if let Some((norm, a, b)) = &self.low_rank {
            norm.init(params);
            a.init_with(params, Init::Zeros, Init::Zeros, stream);
            b.init(params, stream);
        }
        for map in params[self.base.clone()].chunks_exact_mut(config.d_e * config.d_v) {
            if self.trains_base {
                init::orthonormal(map, config.d_v, stream);
            } else {
                init::identity(map, config.d_v);
            }
        }
    }

    /// Fills the tables from `tables.patches`. Saves: everything private in the tables.
    pub fn forward<T: Real>(&self, params: &[T], sheaf: &Sheaf, t: &mut Tables<T>) -> Result<()> {
        let (v, hidden, view_len) = (t.views, self.dense.output(), self.dense.input());
        let u = sheaf.as_uniform().expect("a grid is uniform");
        let n = v * u.d_v;
        self.fit(t, u);
        let f = &mut t.f[..v * hidden];
        let (patches, normed) = (&t.patches[..v * view_len], &mut t.normed[..v * view_len]);
        self.input_norm.forward(params, patches, normed);
        self.dense.forward(params, normed, &mut t.slope[..v * hidden]);
        activation::gelu_keeping_slope(&mut t.slope[..v * hidden], f);
        self.comm.forward(params, f, &mut t.h_raw[..n]);
        self.comm_norm.forward(params, &t.h_raw[..n], &mut t.h[..n]);
        if let Some(head) = &self.diag {
            head.forward(params, f, &mut t.diag_raw[..n]);
            activation::softplus(&t.diag_raw[..n], &mut t.diag[..n]);
            t.diag[..n].iter_mut().for_each(|d| *d += T::from_f64(DIAG_FLOOR));
        }
        if let Some(head) = &self.q {
            head.forward(params, f, &mut t.q[..n]);
        }
        if let Some(head) = &self.l1 {
            head.forward(params, f, &mut t.l1_raw[..n]);
            activation::softplus(&t.l1_raw[..n], &mut t.l1[..n]);
        }
        if let Some(head) = &self.upper {
            head.forward(params, f, &mut t.hi_raw[..n]);
            activation::softplus(&t.hi_raw[..n], &mut t.hi[..n]);
        }
        if let Some((norm, a, b)) = &self.low_rank {
            norm.forward(params, f, &mut t.f_norm[..v * hidden]);
            a.forward(params, &t.f_norm[..v * hidden], &mut t.a[..v * a.output()]);
            b.forward(params, &t.f_norm[..v * hidden], &mut t.b[..v * b.output()]);
        }
        let low = self.low_rank_of(params, u, v, &t.a, &t.b);
        let stacks = &mut t.stacks[..v * u.d_v * u.ld];
        compose_low_rank(sheaf, &low, stacks)?;
        if sheaf.tile_len() > 0 {
            t.tiles.ensure(v * sheaf.tile_len());
            tile_stacks(stacks, &mut t.tiles);
        }
        Ok(())
    }

    fn fit<T: Real>(&self, t: &mut Tables<T>, u: Uniform) {
        let (v, hidden) = (t.views, self.dense.output());
        t.normed.ensure(v * self.dense.input());
        for buffer in [&mut t.slope, &mut t.f, &mut t.f_norm] {
            buffer.ensure(v * hidden);
        }
        let heads = [&mut t.h_raw, &mut t.h, &mut t.diag_raw, &mut t.diag, &mut t.q];
        for buffer in heads.into_iter().chain([&mut t.l1_raw, &mut t.l1, &mut t.hi_raw, &mut t.hi]) {
            buffer.ensure(v * u.d_v);
        }
        t.a.ensure(v * u.slots * u.d_e * self.rank);
        t.b.ensure(v * u.slots * u.d_v * self.rank);
        t.stacks.ensure(v * u.d_v * u.ld);
    }

    fn low_rank_of<'a, T: Real>(
        &self,
        params: &'a [T],
        u: Uniform,
        views: usize,
        a: &'a [T],
        b: &'a [T],
    ) -> LowRank<'a, T> {
        LowRank {
            base: &params[self.base.clone()],
            a: &a[..views * u.slots * u.d_e * self.rank],
            b: &b[..views * u.slots * u.d_v * self.rank],
            gate: None,
            rank: self.rank,
            scale: T::from_f64(self.scale),
            index: &[],
        }
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_params`.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        sheaf: &Sheaf,
        t: &Tables<T>,
        d: &TableGrads<'_, T>,
        d_params: &mut [T],
        s: &mut EncoderScratch<T>,
    ) -> Result<()> {
        let (v, hidden) = (t.views, self.dense.output());
        let u = sheaf.as_uniform().expect("a grid is uniform");
        let (n, vh) = (v * u.d_v, v * hidden);
        let f = &t.f[..vh];
        s.f.ensure(vh);
        s.f_norm.ensure(vh);
        s.head.ensure(n);
        s.a.ensure(v * u.slots * u.d_e * self.rank);
        s.b.ensure(v * u.slots * u.d_v * self.rank);
        s.normed.ensure(v * self.dense.input());
        let d_f = &mut s.f[..vh];
        d_f.fill(T::ZERO);
        self.maps_vjp(params, sheaf, u, t, d.stacks, d_params, (&mut s.a, &mut s.b, &mut s.f_norm), d_f)?;
        let head = &mut s.head[..n];
        head.fill(T::ZERO);
        self.comm_norm.vjp(params, &t.h_raw[..n], d.h, Some(head), d_params);
        self.comm.vjp(params, f, head, Some(d_f), d_params);
        let softplus_heads =
            [(&self.diag, &t.diag_raw, d.diag), (&self.l1, &t.l1_raw, d.l1), (&self.upper, &t.hi_raw, d.hi)];
        for (layer, raw, d_out) in softplus_heads {
            if let Some(layer) = layer {
                head.fill(T::ZERO);
                activation::softplus_vjp(&raw[..n], d_out, head);
                layer.vjp(params, f, head, Some(d_f), d_params);
            }
        }
        if let Some(layer) = &self.q {
            layer.vjp(params, f, d.q, Some(d_f), d_params);
        }
        let d_pre = &mut s.f_norm[..vh];
        d_pre.fill(T::ZERO);
        activation::gelu_vjp(&t.slope[..vh], d_f, d_pre);
        let view_len = self.dense.input();
        let d_normed = &mut s.normed[..v * view_len];
        d_normed.fill(T::ZERO);
        self.dense.vjp(params, &t.normed[..v * view_len], d_pre, Some(d_normed), d_params);
        self.input_norm.vjp(params, &t.patches[..v * view_len], d_normed, None, d_params);
        Ok(())
    }

    fn maps_vjp<T: Real>(
        &self,
        params: &[T],
        sheaf: &Sheaf,
        u: Uniform,
        t: &Tables<T>,
        d_stacks: &[T],
        d_params: &mut [T],
        (d_a, d_b, d_f_norm): (&mut [T], &mut [T], &mut [T]),
        d_f: &mut [T],
    ) -> Result<()> {
        let (v, vh) = (t.views, t.views * self.dense.output());
        if !self.trains_base {
            return Ok(());
        }
        let low = self.low_rank_of(params, u, v, &t.a, &t.b);
        let (d_a, d_b) = (&mut d_a[..low.a.len()], &mut d_b[..low.b.len()]);
        d_a.fill(T::ZERO);
        d_b.fill(T::ZERO);
        let base = &mut d_params[self.base.clone()];
        compose_low_rank_vjp(sheaf, &low, d_stacks, &mut LowRankGrad { base, a: d_a, b: d_b, gate: None })?;
        if let Some((norm, a, b)) = &self.low_rank {
            let d_f_norm = &mut d_f_norm[..vh];
            d_f_norm.fill(T::ZERO);
            a.vjp(params, &t.f_norm[..vh], d_a, Some(d_f_norm), d_params);
            b.vjp(params, &t.f_norm[..vh], d_b, Some(d_f_norm), d_params);
            norm.vjp(params, &t.f[..vh], d_f_norm, Some(d_f), d_params);
        }
        Ok(())
    }
}
