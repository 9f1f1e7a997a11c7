//! One round and its adjoint.

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::gemm::{Mat, gemm_in};
use sheaf_kernels::simd::kernel;
use sheaf_kernels::vector::add;

use super::aggregate::{aggregate, aggregate_vjp, words};
use super::{Links, Messages};
use crate::nn::activation::{sigmoid, tanh};
use crate::nn::linear::column_sums;

/// What a round saves for its adjoint, in the tape of one round.
#[derive(Debug)]
pub(super) struct Saved<'t, T> {
    pub a: &'t mut [T], // [rows, width], aggregated messages
    pub p: &'t mut [T], // [rows, d_v], the same in the width of the states; empty if it has that width
    pub v: &'t mut [T], // [rows, d_v], the input of the update
    pub r: &'t mut [T], // [rows, d_v], the reset gate
    pub z: &'t mut [T], // [rows, d_v], the update gate
    pub t: &'t mut [T], // [rows, d_v], the candidate
}

/// Buffers of a round.
#[derive(Debug, Default)]
pub(super) struct Scratch<T: Copy + Default> {
    y: AlignedVec<T>,      // [rows, types, width], the messages
    wide: AlignedVec<T>,   // [rows, 2 d_v], a concatenation
    normed: AlignedVec<T>, // [rows, 2 d_v]
    d_wide: AlignedVec<T>, // [rows, 2 d_v]
    d_norm: AlignedVec<T>, // [rows, 2 d_v]
    own: AlignedVec<T>,    // [rows, width or d_v]
    d_a: AlignedVec<T>,    // [rows, width]
    d_p: AlignedVec<T>,    // [rows, d_v]
    d_v: AlignedVec<T>,    // [rows, d_v]
    d_r: AlignedVec<T>,    // [rows, d_v]
    d_z: AlignedVec<T>,    // [rows, d_v]
    d_t: AlignedVec<T>,    // [rows, d_v]
}

impl<T: Real> Scratch<T> {
    /// Grows for this many rows; with `reverse`, also for the adjoint.
    pub fn fit(&mut self, cell: &Messages, rows: usize, reverse: bool) {
        let d_v = cell.d_v;
        self.y.ensure(rows * cell.types * cell.width);
        self.wide.ensure(rows * 2 * d_v);
        self.normed.ensure(rows * 2 * d_v);
        self.own.ensure(rows * cell.width.max(d_v));
        if reverse {
            self.d_wide.ensure(rows * 2 * d_v);
            self.d_norm.ensure(rows * 2 * d_v);
            self.d_a.ensure(rows * cell.width);
            for buffer in [&mut self.d_p, &mut self.d_v, &mut self.d_r, &mut self.d_z, &mut self.d_t] {
                buffer.ensure(rows * d_v);
            }
        }
    }
}

impl Messages {
    /// Words of marks of a row: which messages attain the maximum.
    pub(super) fn marks_len(&self, links: &Links) -> usize {
        words(self.kind, links) * self.width
    }

    /// The part of the update's input that no round changes: rms(h) U₂ + c. Saves: `normed`.
    pub(super) fn context<T: Real>(&self, params: &[T], h: &[T], normed: &mut [T], context: &mut [T]) {
        self.context_norm.forward(params, h, normed);
        let bias = &params[self.update_input.bias().expect("declared with a bias")];
        context.chunks_exact_mut(self.d_v).for_each(|row| row.copy_from_slice(bias));
        let rows = h.len() / self.d_v;
        self.multiply(context, Mat::new(normed, rows, self.d_v), self.input_part(params, 1), T::ONE);
    }

    /// Adjoint of [`context`](Self::context): adds to `d_h` and `d_params`; overwrites `normed`.
    pub(super) fn context_vjp<T: Real>(
        &self,
        params: &[T],
        h: &[T],
        normed: &mut [T],
        d_context: &[T],
        d_h: &mut [T],
        d_params: &mut [T],
    ) {
        let (rows, d_v) = (h.len() / self.d_v, self.d_v);
        let d = Mat::new(d_context, rows, d_v);
        let weight = self.update_input.weight();
        let d_weight = &mut d_params[weight.start + d_v * d_v..weight.end];
        self.multiply(d_weight, Mat::new(normed, rows, d_v).t(), d, T::ONE);
        column_sums(d_context, &mut d_params[self.update_input.bias().expect("declared with a bias")]);
        self.multiply(normed, d, self.input_part(params, 1).t(), T::ZERO);
        self.context_norm.vjp(params, h, normed, Some(d_h), d_params);
    }

    /// out = a·b + beta·out, in the precision of the products.
    fn multiply<T: Real>(&self, out: &mut [T], a: Mat<'_, T>, b: Mat<'_, T>, beta: T) {
        gemm_in(self.precision, out, a, b, T::ONE, beta);
    }

    /// Rows of U for the aggregated messages (0) or for the context (1).
    fn input_part<'p, T: Real>(&self, params: &'p [T], part: usize) -> Mat<'p, T> {
        let d_v = self.d_v;
        let at = self.update_input.weight().start + part * d_v * d_v;
        Mat::new(&params[at..at + d_v * d_v], d_v, d_v)
    }

    /// One round: the states `next` from `s`. Saves: `saved` and `marks`.
    pub(super) fn round<T: Real>(
        &self,
        params: &[T],
        links: &Links,
        context: &[T],
        s: &[T],
        next: &mut [T],
        saved: &mut Saved<'_, T>,
        marks: &mut [u32],
        w: &mut Scratch<T>,
    ) {
        let (d_v, rows, sent) = (self.d_v, s.len() / self.d_v, self.types * self.width);
        let s_rows = Mat::new(s, rows, d_v);
        let y = &mut w.y[..rows * sent];
        y.chunks_exact_mut(sent).for_each(|row| row.copy_from_slice(&params[self.bias.clone()]));
        self.multiply(y, s_rows, Mat::new(&params[self.kernel.clone()], sent, d_v).t(), T::ONE);
        aggregate(self.kind, links, self.width, y, saved.a, marks);
        if let Some(layer) = &self.own {
            let own = &mut w.own[..rows * self.width];
            layer.forward(params, s, own);
            scale_by_degree(links, self.width, own);
            add(saved.a, own);
        }
        let a = match &self.to_state {
            Some(layer) => {
                layer.forward(params, saved.a, saved.p);
                &*saved.p
            }
            None => &*saved.a,
        };
        let normed = &mut w.normed[..rows * d_v];
        self.aggregated_norm.forward(params, a, normed);
        saved.v.copy_from_slice(context);
        self.multiply(saved.v, Mat::new(normed, rows, d_v), self.input_part(params, 0), T::ONE);
        let (wide, normed) = (&mut w.wide[..rows * 2 * d_v], &mut w.normed[..rows * 2 * d_v]);
        join(d_v, s, saved.v, wide);
        self.gate_norm.forward(params, wide, normed);
        for (layer, gate) in [(&self.reset_gate, &mut *saved.r), (&self.update_gate, &mut *saved.z)] {
            let pre = &mut w.own[..rows * d_v];
            layer.forward(params, normed, pre);
            sigmoid(pre, gate);
        }
        scaled_join(d_v, saved.r, s, wide);
        self.candidate_norm.forward(params, wide, normed);
        let pre = &mut w.own[..rows * d_v];
        self.candidate.forward(params, normed, pre);
        tanh(pre, saved.t);
        blend(saved.z, saved.t, s, next);
    }

    /// Adjoint of [`round`](Self::round): from `d_next` to `d_s` (overwritten), adding to `d_context` and `d_params`.
    pub(super) fn round_vjp<T: Real>(
        &self,
        params: &[T],
        links: &Links,
        s: &[T],
        saved: &Saved<'_, T>,
        marks: &[u32],
        d_next: &[T],
        d_s: &mut [T],
        d_context: &mut [T],
        d_params: &mut [T],
        w: &mut Scratch<T>,
    ) {
        let (d_v, n, rows) = (self.d_v, s.len(), s.len() / self.d_v);
        let (wide, normed) = (&mut w.wide[..2 * n], &mut w.normed[..2 * n]);
        let (d_wide, d_norm) = (&mut w.d_wide[..2 * n], &mut w.d_norm[..2 * n]);
        let (d_u, d_r, d_z, d_t) = (&mut w.d_v[..n], &mut w.d_r[..n], &mut w.d_z[..n], &mut w.d_t[..n]);
        blend_vjp(saved.z, saved.t, s, d_next, d_z, d_t, d_s);
        // The candidate.
        join(d_v, s, saved.v, wide);
        scaled_join(d_v, saved.r, s, wide);
        self.candidate_norm.forward(params, wide, normed);
        self.candidate.vjp_weights(normed, d_t, d_params);
        self.candidate.vjp_input(params, d_t, d_norm);
        d_wide.fill(T::ZERO);
        self.candidate_norm.vjp(params, wide, d_norm, Some(d_wide), d_params);
        reset_vjp(d_v, d_wide, saved.r, s, d_r, d_s, d_u);
        // The gates.
        join(d_v, s, saved.v, wide);
        self.gate_norm.forward(params, wide, normed);
        self.reset_gate.vjp_weights(normed, d_r, d_params);
        self.update_gate.vjp_weights(normed, d_z, d_params);
        self.reset_gate.vjp_input(params, d_r, d_norm);
        let update = Mat::new(&params[self.update_gate.weight()], 2 * d_v, d_v);
        self.multiply(d_norm, Mat::new(d_z, rows, d_v), update.t(), T::ONE);
        d_wide.fill(T::ZERO);
        self.gate_norm.vjp(params, wide, d_norm, Some(d_wide), d_params);
        split_add(d_v, d_wide, d_s, d_u);
        add(d_context, d_u);
        self.aggregated_vjp(params, links, s, saved, marks, d_s, d_params, w);
    }

    /// The part of the adjoint before the gates: from the gradient of the update's input to that of the states.
    fn aggregated_vjp<T: Real>(
        &self,
        params: &[T],
        links: &Links,
        s: &[T],
        saved: &Saved<'_, T>,
        marks: &[u32],
        d_s: &mut [T],
        d_params: &mut [T],
        w: &mut Scratch<T>,
    ) {
        let (d_v, n, rows, sent) = (self.d_v, s.len(), s.len() / self.d_v, self.types * self.width);
        let d_u = Mat::new(&w.d_v[..n], rows, d_v);
        let a = if self.to_state.is_some() { &*saved.p } else { &*saved.a };
        let (normed, d_norm, d_p) = (&mut w.normed[..n], &mut w.d_norm[..n], &mut w.d_p[..n]);
        self.aggregated_norm.forward(params, a, normed);
        let weight = self.update_input.weight();
        let d_weight = &mut d_params[weight.start..weight.start + d_v * d_v];
        self.multiply(d_weight, Mat::new(normed, rows, d_v).t(), d_u, T::ONE);
        self.multiply(d_norm, d_u, self.input_part(params, 0).t(), T::ZERO);
        d_p.fill(T::ZERO);
        self.aggregated_norm.vjp(params, a, d_norm, Some(d_p), d_params);
        let d_a = match &self.to_state {
            Some(layer) => {
                let d_a = &mut w.d_a[..rows * self.width];
                layer.vjp_weights(saved.a, d_p, d_params);
                layer.vjp_input(params, d_p, d_a);
                d_a
            }
            None => d_p,
        };
        if let Some(layer) = &self.own {
            let own = &mut w.own[..rows * self.width];
            own.copy_from_slice(d_a);
            scale_by_degree(links, self.width, own);
            layer.vjp(params, s, own, Some(d_s), d_params);
        }
        let d_y = &mut w.y[..rows * sent];
        d_y.fill(T::ZERO);
        aggregate_vjp(self.kind, links, self.width, marks, d_a, d_y);
        let d_y_rows = Mat::new(d_y, rows, sent);
        self.multiply(&mut d_params[self.kernel.clone()], d_y_rows.t(), Mat::new(s, rows, d_v), T::ONE);
        column_sums(d_y, &mut d_params[self.bias.clone()]);
        self.multiply(d_s, d_y_rows, Mat::new(&params[self.kernel.clone()], sent, d_v), T::ONE);
    }

    /// The states before the first round.
    pub(super) fn begin<T: Real>(&self, params: &[T], h: &[T], s: &mut [T]) {
        self.start.forward(params, h, s);
    }

    /// Adjoint of [`begin`](Self::begin): adds to `d_h` and `d_params`.
    pub(super) fn begin_vjp<T: Real>(
        &self,
        params: &[T],
        h: &[T],
        d_s: &[T],
        d_h: &mut [T],
        d_params: &mut [T],
    ) {
        self.start.vjp(params, h, d_s, Some(d_h), d_params);
    }
}

/// Divides the rows of every agent by the number of messages it receives plus 1.
fn scale_by_degree<T: Real>(links: &Links, width: usize, rows: &mut [T]) {
    for (row, values) in rows.chunks_exact_mut(width).enumerate() {
        let root = links.inverse_root_degree(row % links.agents());
        values.iter_mut().for_each(|v| *v *= T::from_f64(root * root));
    }
}

kernel! {
    /// wide = [a, b], row by row.
    fn join, join_at<T>(width: usize, a: &[T], b: &[T], wide: &mut [T]) = join_body;
}

#[inline(always)]
fn join_body<T: Real, const FMA: bool>(width: usize, a: &[T], b: &[T], wide: &mut [T]) {
    for ((wide, a), b) in
        wide.chunks_exact_mut(2 * width).zip(a.chunks_exact(width)).zip(b.chunks_exact(width))
    {
        wide[..width].copy_from_slice(a);
        wide[width..].copy_from_slice(b);
    }
}

kernel! {
    /// The first half of every row of `wide` becomes r·s.
    fn scaled_join, scaled_join_at<T>(width: usize, r: &[T], s: &[T], wide: &mut [T]) = scaled_join_body;
}

#[inline(always)]
fn scaled_join_body<T: Real, const FMA: bool>(width: usize, r: &[T], s: &[T], wide: &mut [T]) {
    for ((wide, r), s) in
        wide.chunks_exact_mut(2 * width).zip(r.chunks_exact(width)).zip(s.chunks_exact(width))
    {
        wide[..width].iter_mut().zip(r).zip(s).for_each(|((w, &r), &s)| *w = r * s);
    }
}

kernel! {
    /// next = (1 − z)·t + z·s.
    fn blend, blend_at<T>(z: &[T], t: &[T], s: &[T], next: &mut [T]) = blend_body;
}

#[inline(always)]
fn blend_body<T: Real, const FMA: bool>(z: &[T], t: &[T], s: &[T], next: &mut [T]) {
    for (((next, &z), &t), &s) in next.iter_mut().zip(z).zip(t).zip(s) {
        *next = (T::ONE - z) * t + z * s;
    }
}

kernel! {
    /// Adjoint of [`blend`], with those of the sigmoid and the tanh before it; overwrites all three gradients.
    fn blend_vjp, blend_vjp_at<T>(
        z: &[T], t: &[T], s: &[T], d_next: &[T], d_z: &mut [T], d_t: &mut [T], d_s: &mut [T]
    ) = blend_vjp_body;
}

#[inline(always)]
fn blend_vjp_body<T: Real, const FMA: bool>(
    z: &[T],
    t: &[T],
    s: &[T],
    d_next: &[T],
    d_z: &mut [T],
    d_t: &mut [T],
    d_s: &mut [T],
) {
    let given = z.iter().zip(t).zip(s).zip(d_next);
    for ((((&z, &t), &s), &d), ((d_z, d_t), d_s)) in given.zip(d_z.iter_mut().zip(d_t).zip(d_s)) {
        *d_z = d * (s - t) * z * (T::ONE - z);
        *d_t = d * (T::ONE - z) * (T::ONE - t * t);
        *d_s = d * z;
    }
}

kernel! {
    /// From the gradient of [r·s, v] to those of r before its sigmoid, of s (added) and of v; overwrites `d_r`, `d_v`.
    fn reset_vjp, reset_vjp_at<T>(
        width: usize, d_wide: &[T], r: &[T], s: &[T], d_r: &mut [T], d_s: &mut [T], d_v: &mut [T]
    ) = reset_vjp_body;
}

#[inline(always)]
fn reset_vjp_body<T: Real, const FMA: bool>(
    width: usize,
    d_wide: &[T],
    r: &[T],
    s: &[T],
    d_r: &mut [T],
    d_s: &mut [T],
    d_v: &mut [T],
) {
    for (row, d_wide) in d_wide.chunks_exact(2 * width).enumerate() {
        let own = row * width..(row + 1) * width;
        let (r, s) = (&r[own.clone()], &s[own.clone()]);
        let (d_r, d_s) = (&mut d_r[own.clone()], &mut d_s[own.clone()]);
        for ((((&d, &r), &s), d_r), d_s) in d_wide[..width].iter().zip(r).zip(s).zip(d_r).zip(d_s) {
            *d_r = d * s * r * (T::ONE - r);
            *d_s += d * r;
        }
        d_v[own].copy_from_slice(&d_wide[width..]);
    }
}

kernel! {
    /// Adds the halves of every row of `wide` to `a` and `b`.
    fn split_add, split_add_at<T>(width: usize, wide: &[T], a: &mut [T], b: &mut [T]) = split_add_body;
}

#[inline(always)]
fn split_add_body<T: Real, const FMA: bool>(width: usize, wide: &[T], a: &mut [T], b: &mut [T]) {
    for ((wide, a), b) in
        wide.chunks_exact(2 * width).zip(a.chunks_exact_mut(width)).zip(b.chunks_exact_mut(width))
    {
        a.iter_mut().zip(&wide[..width]).for_each(|(a, &w)| *a += w);
        b.iter_mut().zip(&wide[width..]).for_each(|(b, &w)| *b += w);
    }
}
