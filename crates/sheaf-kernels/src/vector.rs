//! Loops over whole state vectors, each one pass. Sums run in a fixed order that depends on the length alone.

#[cfg(test)]
mod tests;

use super::reduce::fold;
use super::simd::{fma, kernel};
use crate::Real;

/// Independent partial sums of a reduction: enough to keep wide units busy, the same on every machine.
const LANES: usize = 64;

/// A single vector of the widest unit: the remainder goes by these, not one by one.
const STEP: usize = 16;

/// Runs `$body` for every element of vectors of length `$n`, `$i` counting within groups of [`LANES`], [`STEP`] or the
/// rest: whole groups have a constant length, so that partial sums indexed by `$i` stay in registers.
macro_rules! by_lanes {
    ($n:expr, $i:ident, read [$($r:ident),*], write [$($w:ident),*], $body:expr) => {{
        let n: usize = $n;
        let mut start = 0;
        by_lanes!(@groups LANES, n, start, $i, [$($r),*], [$($w),*], $body);
        by_lanes!(@groups STEP, n, start, $i, [$($r),*], [$($w),*], $body);
        $(let $r = &$r[start..n];)*
        $(let $w = &mut $w[start..n];)*
        for $i in 0..n - start {
            $body
        }
    }};
    (@groups $size:ident, $n:ident, $start:ident, $i:ident, [$($r:ident),*], [$($w:ident),*], $body:expr) => {
        while $start + $size <= $n {
            $(let $r = &$r[$start..$start + $size];)*
            $(let $w = &mut $w[$start..$start + $size];)*
            for $i in 0..$size {
                $body
            }
            $start += $size;
        }
    };
}

#[inline(always)]
fn dot_body<T: Real, const FMA: bool>(a: &[T], b: &[T], out: &mut T) {
    let mut acc = [T::ZERO; LANES];
    by_lanes!(a.len().min(b.len()), i, read [a, b], write [], acc[i] = fma::<T, FMA>(a[i], b[i], acc[i]));
    *out = fold(acc);
}

kernel! {
    /// out = a·b.
    fn dot_into, dot_at<T>(a: &[T], b: &[T], out: &mut T) = dot_body;
}

/// a·b.
#[inline]
pub fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let mut out = T::ZERO;
    dot_into(a, b, &mut out);
    out
}

/// √(a·a).
pub fn norm<T: Real>(a: &[T]) -> T {
    dot(a, a).sqrt()
}

#[inline(always)]
fn axpy_body<T: Real, const FMA: bool>(y: &mut [T], a: T, x: &[T]) {
    by_lanes!(y.len().min(x.len()), i, read[x], write[y], y[i] = fma::<T, FMA>(a, x[i], y[i]));
}

kernel! {
    /// y += a·x.
    pub fn axpy, axpy_at<T>(y: &mut [T], a: T, x: &[T]) = axpy_body;
}

#[inline(always)]
fn xpby_body<T: Real, const FMA: bool>(p: &mut [T], r: &[T], b: T) {
    by_lanes!(p.len().min(r.len()), i, read[r], write[p], p[i] = fma::<T, FMA>(b, p[i], r[i]));
}

kernel! {
    /// p = r + b·p.
    pub fn xpby, xpby_at<T>(p: &mut [T], r: &[T], b: T) = xpby_body;
}

#[inline(always)]
fn xpby_into_body<T: Real, const FMA: bool>(out: &mut [T], x: &[T], b: T, y: &[T]) {
    by_lanes!(out.len(), i, read [x, y], write [out], out[i] = fma::<T, FMA>(b, y[i], x[i]));
}

kernel! {
    /// out = x + b·y.
    pub fn xpby_into, xpby_into_at<T>(out: &mut [T], x: &[T], b: T, y: &[T]) = xpby_into_body;
}

#[inline(always)]
fn add_body<T: Real, const FMA: bool>(y: &mut [T], x: &[T]) {
    by_lanes!(y.len().min(x.len()), i, read[x], write[y], y[i] += x[i]);
}

kernel! {
    /// y += x.
    pub fn add, add_at<T>(y: &mut [T], x: &[T]) = add_body;
}

#[inline(always)]
fn scale_into_body<T: Real, const FMA: bool>(out: &mut [T], a: T, x: &[T]) {
    by_lanes!(out.len().min(x.len()), i, read[x], write[out], out[i] = a * x[i]);
}

kernel! {
    /// out = a·x.
    pub fn scale_into, scale_into_at<T>(out: &mut [T], a: T, x: &[T]) = scale_into_body;
}

#[inline(always)]
fn sub_body<T: Real, const FMA: bool>(out: &mut [T], a: &[T], b: &[T]) {
    by_lanes!(out.len(), i, read [a, b], write [out], out[i] = a[i] - b[i]);
}

kernel! {
    /// out = a − b.
    pub fn sub, sub_at<T>(out: &mut [T], a: &[T], b: &[T]) = sub_body;
}

#[inline(always)]
fn shift_body<T: Real, const FMA: bool>(q: &mut [T], gamma: T, shift: T, p: &[T]) {
    by_lanes!(q.len().min(p.len()), i, read[p], write[q], q[i] = fma::<T, FMA>(gamma, q[i], shift * p[i]));
}

kernel! {
    /// q = gamma·q + shift·p: turns L p into (gamma·L + shift·I) p.
    pub fn scale_shift, shift_at<T>(q: &mut [T], gamma: T, shift: T, p: &[T]) = shift_body;
}

#[inline(always)]
fn cg_body<T: Real, const FMA: bool>(x: &mut [T], r: &mut [T], p: &[T], q: &[T], a: T, rr: &mut T) {
    let mut acc = [T::ZERO; LANES];
    by_lanes!(x.len(), i, read [p, q], write [x, r], {
        x[i] = fma::<T, FMA>(a, p[i], x[i]);
        r[i] = fma::<T, FMA>(-a, q[i], r[i]);
        acc[i] = fma::<T, FMA>(r[i], r[i], acc[i]);
    });
    *rr = fold(acc);
}

kernel! {
    /// x += a·p, r −= a·q, rr = r·r.
    pub fn cg_update, cg_at<T>(x: &mut [T], r: &mut [T], p: &[T], q: &[T], a: T, rr: &mut T) = cg_body;
}

#[inline(always)]
fn cg_back_body<T: Real, const FMA: bool>(
    d_r: &mut [T],
    d_p: &mut [T],
    d_x: &[T],
    p_next: &[T],
    p: &[T],
    q: &[T],
    b: T,
    two_dc: T,
    d_a: &mut T,
) {
    let (mut with_p, mut with_q) = ([T::ZERO; LANES], [T::ZERO; LANES]);
    by_lanes!(d_r.len(), i, read [d_x, p_next, p, q], write [d_r, d_p], {
        let r_next = fma::<T, FMA>(-b, p[i], p_next[i]);
        d_r[i] += fma::<T, FMA>(two_dc, r_next, d_p[i]);
        d_p[i] *= b;
        with_p[i] = fma::<T, FMA>(d_x[i], p[i], with_p[i]);
        with_q[i] = fma::<T, FMA>(d_r[i], q[i], with_q[i]);
    });
    *d_a = fold(with_p) - fold(with_q);
}

kernel! {
    /// The first half of a reversed conjugate-gradient step: r' = p' − b·p, r̄ += p̄ + two_dc·r', p̄ = b·p̄,
    /// d_a = x̄·p − r̄·q.
    pub fn cg_back, cg_back_at<T>(
        d_r: &mut [T], d_p: &mut [T], d_x: &[T], p_next: &[T], p: &[T], q: &[T], b: T, two_dc: T, d_a: &mut T,
    ) = cg_back_body;
}

#[inline(always)]
fn cg_back_update_body<T: Real, const FMA: bool>(
    d_p: &mut [T],
    d_q: &mut [T],
    d_x: &[T],
    d_r: &[T],
    p: &[T],
    q: &[T],
    a: T,
    d_s: T,
    dots: &mut [T; 2],
) {
    let (mut with_p, mut with_q) = ([T::ZERO; LANES], [T::ZERO; LANES]);
    by_lanes!(d_p.len(), i, read [d_x, d_r, p, q], write [d_p, d_q], {
        d_p[i] = fma::<T, FMA>(a, d_x[i], fma::<T, FMA>(d_s, q[i], d_p[i]));
        d_q[i] = fma::<T, FMA>(d_s, p[i], -(a * d_r[i]));
        with_p[i] = fma::<T, FMA>(d_q[i], p[i], with_p[i]);
        with_q[i] = fma::<T, FMA>(d_q[i], q[i], with_q[i]);
    });
    *dots = [fold(with_p), fold(with_q)];
}

kernel! {
    /// The second half: p̄ += a·x̄ + s̄·q, q̄ = s̄·p − a·r̄, dots = (q̄·p, q̄·q).
    pub fn cg_back_update, cg_back_update_at<T>(
        d_p: &mut [T], d_q: &mut [T], d_x: &[T], d_r: &[T], p: &[T], q: &[T], a: T, d_s: T, dots: &mut [T; 2],
    ) = cg_back_update_body;
}

#[inline(always)]
fn add_dot_body<T: Real, const FMA: bool>(y: &mut [T], x: &[T], with: &[T], out: &mut T) {
    let mut acc = [T::ZERO; LANES];
    by_lanes!(y.len(), i, read [x, with], write [y], {
        y[i] += x[i];
        acc[i] = fma::<T, FMA>(y[i], with[i], acc[i]);
    });
    *out = fold(acc);
}

kernel! {
    /// y += x, out = y·with.
    pub fn add_dot, add_dot_at<T>(y: &mut [T], x: &[T], with: &[T], out: &mut T) = add_dot_body;
}

#[inline(always)]
fn multiply_body<T: Real, const FMA: bool>(y: &mut [T], x: &[T]) {
    by_lanes!(y.len().min(x.len()), i, read[x], write[y], y[i] *= x[i]);
}

kernel! {
    /// y = y∘x.
    pub fn multiply, multiply_at<T>(y: &mut [T], x: &[T]) = multiply_body;
}

#[inline(always)]
fn reverse_dual_body<T: Real, const FMA: bool>(
    x: &[T],
    z: &[T],
    u: &[T],
    relax: T,
    w: &mut [T],
    d_u: &[T],
    d_w: &mut [T],
    d_z: &mut [T],
) {
    let off = T::ONE - relax;
    by_lanes!(w.len(), i, read [x, z, u, d_u], write [w, d_w, d_z], {
        w[i] = (relax * x[i] + off * z[i]) + u[i];
        d_w[i] = d_u[i];
        d_z[i] -= d_u[i];
    });
}

kernel! {
    /// The first part of a reversed iteration: recomputes the target w = relax·x + (1 − relax)·z + u and applies the
    /// adjoint of u' = w − z': d_w = d_u, d_z −= d_u.
    pub fn reverse_dual, reverse_dual_at<T>(
        x: &[T], z: &[T], u: &[T], relax: T, w: &mut [T], d_u: &[T], d_w: &mut [T], d_z: &mut [T],
    ) = reverse_dual_body;
}
