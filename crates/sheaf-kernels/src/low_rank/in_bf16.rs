//! The scalars that have low-rank kernels in bf16: `f32`.

use super::bf16::{self, Maps};
use super::{Grouped, PairTape};
use crate::simd::level;

/// Low-rank products in bf16. Only `f32` has them: [`LowRankShape::in_precision`](super::LowRankShape::in_precision) never
/// asks `f64` for them.
pub trait LowRankBf16: Sized {
    /// Packs R `[d_e, d_v]`.
    fn pack_base_bf16(base: &[Self], out: &mut [Self]);
    /// Packs the factors of a view.
    fn pack_view_bf16(a: &[Self], b: &[Self], factor: Self, out: &mut [Self]);
    /// The rounded factors of a packed view: B `[d_v, m]` and Aᵀ `[slots, d_e, rank]`.
    fn unpack_view_bf16(view: &[Self], b: &mut [Self], a_t: &mut [Self]);
    /// See [`project`](super::project).
    fn project_bf16(agents: (Grouped<'_>, usize), base: &[Self], views: &[Self], z: &[Self], y: &mut [Self]);
    /// See [`lift`](super::lift).
    fn lift_bf16(agents: (Grouped<'_>, usize), base: &[Self], views: &[Self], s: &[Self], g: &mut [Self]);
    /// See [`exchange_lift`](super::exchange_lift).
    fn exchange_lift_bf16(
        agents: (Grouped<'_>, usize),
        partners: &[u32],
        base: &[Self],
        views: &[Self],
        y: &[Self],
        s: &mut [Self],
        g: &mut [Self],
    );
    /// A slot of F, transposed, `[d_v, d_e]`.
    fn slot_bf16(base: &[Self], view: &[Self], slot: usize, out: &mut [Self]);
    /// out += Σ p_j q̄_iᵀ + q̄_j p_iᵀ over the pairs of all ends (j, i), `[d_v, d_v]`.
    fn pair_sums_bf16(tape: PairTape<'_, Self>, ends: &[(u32, u32)], out: &mut [Self]);
}

impl LowRankBf16 for f32 {
    fn pack_base_bf16(base: &[f32], out: &mut [f32]) {
        bf16::pack_base(base, out);
    }

    fn pack_view_bf16(a: &[f32], b: &[f32], factor: f32, out: &mut [f32]) {
        bf16::pack_view(a, b, factor, out);
    }

    fn unpack_view_bf16(view: &[f32], b: &mut [f32], a_t: &mut [f32]) {
        bf16::unpack_view(view, b, a_t);
    }

    fn project_bf16(
        (agents, ld): (Grouped<'_>, usize),
        base: &[f32],
        views: &[f32],
        z: &[f32],
        y: &mut [f32],
    ) {
        bf16::project(level(), Maps { agents, ld, base, views }, z, y);
    }

    fn lift_bf16((agents, ld): (Grouped<'_>, usize), base: &[f32], views: &[f32], s: &[f32], g: &mut [f32]) {
        bf16::lift(level(), Maps { agents, ld, base, views }, s, g);
    }

    fn exchange_lift_bf16(
        (agents, ld): (Grouped<'_>, usize),
        partners: &[u32],
        base: &[f32],
        views: &[f32],
        y: &[f32],
        s: &mut [f32],
        g: &mut [f32],
    ) {
        bf16::exchange_lift(level(), Maps { agents, ld, base, views }, partners, y, s, g);
    }

    fn slot_bf16(base: &[f32], view: &[f32], slot: usize, out: &mut [f32]) {
        bf16::slot(level(), base, view, slot, out);
    }

    fn pair_sums_bf16(tape: PairTape<'_, f32>, ends: &[(u32, u32)], out: &mut [f32]) {
        bf16::pair_sums(level(), tape, ends, out);
    }
}

const NONE: &str = "f64 has no bf16 products";

impl LowRankBf16 for f64 {
    fn pack_base_bf16(_: &[f64], _: &mut [f64]) {
        debug_assert!(false, "{NONE}");
    }

    fn pack_view_bf16(_: &[f64], _: &[f64], _: f64, _: &mut [f64]) {
        debug_assert!(false, "{NONE}");
    }

    fn unpack_view_bf16(_: &[f64], _: &mut [f64], _: &mut [f64]) {
        debug_assert!(false, "{NONE}");
    }

    fn project_bf16(_: (Grouped<'_>, usize), _: &[f64], _: &[f64], _: &[f64], _: &mut [f64]) {
        debug_assert!(false, "{NONE}");
    }

    fn lift_bf16(_: (Grouped<'_>, usize), _: &[f64], _: &[f64], _: &[f64], _: &mut [f64]) {
        debug_assert!(false, "{NONE}");
    }

    fn exchange_lift_bf16(
        _: (Grouped<'_>, usize),
        _: &[u32],
        _: &[f64],
        _: &[f64],
        _: &[f64],
        _: &mut [f64],
        _: &mut [f64],
    ) {
        debug_assert!(false, "{NONE}");
    }

    fn slot_bf16(_: &[f64], _: &[f64], _: usize, _: &mut [f64]) {
        debug_assert!(false, "{NONE}");
    }

    fn pair_sums_bf16(_: PairTape<'_, f64>, _: &[(u32, u32)], _: &mut [f64]) {
        debug_assert!(false, "{NONE}");
    }
}
