//! From views to convex objectives and restriction maps, a tile of distinct views at a time.
//!
//! ```text
//! f₀ = input view             f = f₀ + dense₂ gelu(dense₁ rms(f₀))
//! h = layer_norm(comm f)      D = softplus(· f) + 1e-4      q = · f
//! A = · layer_norm(f)         B = · layer_norm(f)           F[s] = R + (alpha / rank) A[s] B[s]ᵀ
//! ```
//!
//! | array | shape |
//! | --- | --- |
//! | views | `[rows, patch²]` |
//! | f₀, f | `[rows, hidden]` |
//! | h, D, q | `[rows, d_v]` |
//! | A, B | `[rows, slots, d_e, rank]`, `[rows, slots, d_v, rank]`; only their packed form is kept |

use sheaf_admm::Real;
use sheaf_admm::sheaf::pack_view;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::low_rank::LowRankShape;
use sheaf_learn::nn::{Init, LayerNorm, Linear, Residual, activation};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;

use super::config::{Checked, MnistConfig};

/// Added to softplus, so that every objective is strictly convex.
const DIAG_FLOOR: f64 = 1e-4;

/// Views whose factors are held at a time before they are packed.
const BLOCK: usize = 64;

/// The layers.
#[derive(Clone, Debug)]
pub struct Encoder {
    input: Linear,
    block: Residual,
    comm: Linear,
    comm_norm: LayerNorm,
    diag: Linear,
    q: Linear,
    low_rank: Option<(LayerNorm, Linear, Linear)>,
    factor: f64,
}

/// What the encoder says of some views, what its adjoint needs, and room for both.
#[derive(Clone, Debug, Default)]
pub struct Tile<T: Copy + Default> {
    /// Starts.
    pub h: AlignedVec<T>, // [rows, d_v]
    /// D.
    pub diag: AlignedVec<T>, // [rows, d_v]
    /// q.
    pub q: AlignedVec<T>, // [rows, d_v]
    h_raw: AlignedVec<T>,    // [rows, d_v]
    diag_raw: AlignedVec<T>, // [rows, d_v]
    f0: AlignedVec<T>,       // [rows, hidden]
    saved: AlignedVec<T>,    // the block's
    f: AlignedVec<T>,        // [rows, hidden]
    f_norm: AlignedVec<T>,   // [rows, hidden]
    factors: AlignedVec<T>,  // A and B of BLOCK rows
    d_f: AlignedVec<T>,      // [rows, hidden]
    d_more: AlignedVec<T>,   // [rows, hidden]
    d_head: AlignedVec<T>,   // [rows, d_v]
    scratch: AlignedVec<T>,  // the block's
}

/// Gradients of what the agents read of some views.
#[derive(Debug)]
pub struct TileGrads<'g, T> {
    /// Of the starts.
    pub h: &'g [T], // [rows, d_v]
    /// Of D.
    pub diag: &'g [T], // [rows, d_v]
    /// Of q.
    pub q: &'g [T], // [rows, d_v]
    /// Of A.
    pub a: &'g [T], // [rows, slots, d_e, rank]
    /// Of B.
    pub b: &'g [T], // [rows, slots, d_v, rank]
}

impl Encoder {
    /// Declares the parameters.
    pub fn new(layout: &mut ParamLayout, config: &MnistConfig, checked: &Checked) -> Self {
        let (hidden, d_v, rank) = (config.hidden, config.d_v, checked.rank);
        let slots = checked.connectivity.slots();
        Self {
            input: Linear::new(layout, "encoder/input", config.patch * config.patch, hidden, true),
            block: Residual::new(layout, "encoder/block", hidden, hidden),
            comm: Linear::new(layout, "encoder/h", hidden, d_v, true),
            comm_norm: LayerNorm::new(layout, "encoder/h_norm", d_v),
            diag: Linear::new(layout, "encoder/diag", hidden, d_v, true),
            q: Linear::new(layout, "encoder/q", hidden, d_v, true),
            low_rank: (rank > 0).then(|| {
                (
                    LayerNorm::new(layout, "encoder/low_rank_norm", hidden),
                    Linear::new(layout, "encoder/low_rank_a", hidden, slots * config.d_e * rank, true),
                    Linear::new(layout, "encoder/low_rank_b", hidden, slots * d_v * rank, true),
                )
            }),
            factor: config.alpha / rank.max(1) as f64,
        }
    }

    /// Starting values; B starts at 0, so that the maps start at their base.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.input.init(params, stream);
        self.block.init(params, stream);
        self.comm.init(params, stream);
        self.comm_norm.init(params);
        self.diag.init(params, stream);
        self.q.init(params, stream);
        if let Some((norm, a, b)) = &self.low_rank {
            norm.init(params);
            a.init(params, stream);
            b.init_with(params, Init::Zeros, Init::Zeros, stream);
        }
    }

    /// Factor before A·Bᵀ.
    pub fn factor<T: Real>(&self) -> T {
        T::from_f64(self.factor)
    }

    /// Fills the tile and the packed maps. Saves: everything private in the tile.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        shape: LowRankShape,
        views: &[T],      // [rows, patch²]
        packed: &mut [T], // [rows, shape.view_len()]
        t: &mut Tile<T>,
    ) {
        let rows = views.len() / self.input.input();
        let (n, nh) = (rows * shape.d_v, rows * self.input.output());
        self.fit(rows, shape, t);
        let (f0, f) = (&mut t.f0[..nh], &mut t.f[..nh]);
        self.input.forward(params, views, f0);
        self.block.forward(params, f0, f, &mut t.saved);
        self.comm.forward(params, f, &mut t.h_raw[..n]);
        self.comm_norm.forward(params, &t.h_raw[..n], &mut t.h[..n]);
        self.diag.forward(params, f, &mut t.diag_raw[..n]);
        activation::softplus(&t.diag_raw[..n], &mut t.diag[..n]);
        t.diag[..n].iter_mut().for_each(|d| *d += T::from_f64(DIAG_FLOOR));
        self.q.forward(params, f, &mut t.q[..n]);
        let Some((norm, a_head, b_head)) = &self.low_rank else { return };
        norm.forward(params, f, &mut t.f_norm[..nh]);
        let (wide_a, wide_b) = (a_head.output(), b_head.output());
        let blocks = t.f_norm[..nh].chunks(BLOCK * norm.dim());
        for (f_norm, packed) in blocks.zip(packed.chunks_mut(BLOCK * shape.view_len())) {
            let rows = f_norm.len() / norm.dim();
            let (a, b) = t.factors.split_at_mut(BLOCK * wide_a);
            let (a, b) = (&mut a[..rows * wide_a], &mut b[..rows * wide_b]);
            a_head.forward(params, f_norm, a);
            b_head.forward(params, f_norm, b);
            let factors = a.chunks_exact(wide_a).zip(b.chunks_exact(wide_b));
            for ((a, b), view) in factors.zip(packed.chunks_exact_mut(shape.view_len())) {
                let packed = pack_view(shape, a, b, self.factor(), view);
                debug_assert!(packed.is_ok(), "{packed:?}");
            }
        }
    }

    fn fit<T: Real>(&self, rows: usize, shape: LowRankShape, t: &mut Tile<T>) {
        for buffer in [&mut t.h, &mut t.diag, &mut t.q, &mut t.h_raw, &mut t.diag_raw] {
            buffer.ensure(rows * shape.d_v);
        }
        for buffer in [&mut t.f0, &mut t.f, &mut t.f_norm] {
            buffer.ensure(rows * self.input.output());
        }
        t.saved.ensure(self.block.saved_len(rows));
        t.factors.ensure(BLOCK * shape.m() * (shape.d_v + shape.d_e));
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_params`.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        shape: LowRankShape,
        views: &[T], // [rows, patch²]
        t: &mut Tile<T>,
        d: &TileGrads<'_, T>,
        d_params: &mut [T],
    ) {
        let rows = views.len() / self.input.input();
        let (n, nh) = (rows * shape.d_v, rows * self.input.output());
        t.d_f.ensure(nh);
        t.d_more.ensure(nh);
        t.d_head.ensure(n);
        t.scratch.ensure(self.block.scratch_len(rows));
        let (f, d_f, d_more) = (&t.f[..nh], &mut t.d_f[..nh], &mut t.d_more[..nh]);
        d_f.fill(T::ZERO);
        if let Some((norm, a_head, b_head)) = &self.low_rank {
            d_more.fill(T::ZERO);
            a_head.vjp(params, &t.f_norm[..nh], d.a, Some(d_more), d_params);
            b_head.vjp(params, &t.f_norm[..nh], d.b, Some(d_more), d_params);
            norm.vjp(params, f, d_more, Some(d_f), d_params);
        }
        let d_head = &mut t.d_head[..n];
        d_head.fill(T::ZERO);
        self.comm_norm.vjp(params, &t.h_raw[..n], d.h, Some(d_head), d_params);
        self.comm.vjp(params, f, d_head, Some(d_f), d_params);
        d_head.fill(T::ZERO);
        activation::softplus_vjp(&t.diag_raw[..n], d.diag, d_head);
        self.diag.vjp(params, f, d_head, Some(d_f), d_params);
        self.q.vjp(params, f, d.q, Some(d_f), d_params);
        d_more.fill(T::ZERO);
        self.block.vjp(params, &t.f0[..nh], &t.saved, d_f, Some(d_more), d_params, &mut t.scratch);
        self.input.vjp(params, views, d_more, None, d_params);
    }
}
