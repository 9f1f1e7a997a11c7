//! Loops over whole state vectors, each one pass. Sums run in a fixed order that depends on the length alone.

use super::simd::{fma, kernel};
use crate::Real;

/// Independent partial sums of a reduction: enough to keep wide units busy, the same on every machine.
const LANES: usize = 64;

/// Adds the partial sums pairwise.
#[inline(always)]
fn fold<T: Real>(mut acc: [T; LANES]) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            acc[i] += acc[i + width];
        }
        width /= 2;
    }
    acc[0]
}

#[inline(always)]
fn dot_body<T: Real, const FMA: bool>(a: &[T], b: &[T], out: &mut T) {
    let mut acc = [T::ZERO; LANES];
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut chunks = a.chunks_exact(LANES).zip(b.chunks_exact(LANES));
    for (x, y) in &mut chunks {
        for i in 0..LANES {
            acc[i] = fma::<T, FMA>(x[i], y[i], acc[i]);
        }
    }
    let done = n - n % LANES;
    for i in 0..n - done {
        acc[i] = fma::<T, FMA>(a[done + i], b[done + i], acc[i]);
    }
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
    for (y, &x) in y.iter_mut().zip(x) {
        *y = fma::<T, FMA>(a, x, *y);
    }
}

kernel! {
    /// y += a·x.
    pub fn axpy, axpy_at<T>(y: &mut [T], a: T, x: &[T]) = axpy_body;
}

#[inline(always)]
fn xpby_body<T: Real, const FMA: bool>(p: &mut [T], r: &[T], b: T) {
    for (p, &r) in p.iter_mut().zip(r) {
        *p = fma::<T, FMA>(b, *p, r);
    }
}

kernel! {
    /// p = r + b·p.
    pub fn xpby, xpby_at<T>(p: &mut [T], r: &[T], b: T) = xpby_body;
}

#[inline(always)]
fn add_body<T: Real, const FMA: bool>(y: &mut [T], x: &[T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

kernel! {
    /// y += x.
    pub fn add, add_at<T>(y: &mut [T], x: &[T]) = add_body;
}

#[inline(always)]
fn scale_into_body<T: Real, const FMA: bool>(out: &mut [T], a: T, x: &[T]) {
    for (o, &x) in out.iter_mut().zip(x) {
        *o = a * x;
    }
}

kernel! {
    /// out = a·x.
    pub fn scale_into, scale_into_at<T>(out: &mut [T], a: T, x: &[T]) = scale_into_body;
}

#[inline(always)]
fn sub_body<T: Real, const FMA: bool>(out: &mut [T], a: &[T], b: &[T]) {
    for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *o = a - b;
    }
}

kernel! {
    /// out = a − b.
    pub fn sub, sub_at<T>(out: &mut [T], a: &[T], b: &[T]) = sub_body;
}

#[inline(always)]
fn shift_body<T: Real, const FMA: bool>(q: &mut [T], gamma: T, shift: T, p: &[T]) {
    for (q, &p) in q.iter_mut().zip(p) {
        *q = fma::<T, FMA>(gamma, *q, shift * p);
    }
}

kernel! {
    /// q = gamma·q + shift·p: turns L p into (gamma·L + shift·I) p.
    pub fn scale_shift, shift_at<T>(q: &mut [T], gamma: T, shift: T, p: &[T]) = shift_body;
}

#[inline(always)]
fn cg_body<T: Real, const FMA: bool>(x: &mut [T], r: &mut [T], p: &[T], q: &[T], a: T, rr: &mut T) {
    let n = x.len();
    let (r, p, q) = (&mut r[..n], &p[..n], &q[..n]);
    let mut acc = [T::ZERO; LANES];
    let done = n - n % LANES;
    let mut start = 0;
    while start < n {
        let len = if start < done { LANES } else { n - done };
        let (x, r) = (&mut x[start..start + len], &mut r[start..start + len]);
        let (p, q) = (&p[start..start + len], &q[start..start + len]);
        for i in 0..len {
            x[i] = fma::<T, FMA>(a, p[i], x[i]);
            r[i] = fma::<T, FMA>(-a, q[i], r[i]);
            acc[i] = fma::<T, FMA>(r[i], r[i], acc[i]);
        }
        start += len;
    }
    *rr = fold(acc);
}

kernel! {
    /// x += a·p, r −= a·q, rr = r·r.
    pub fn cg_update, cg_at<T>(x: &mut [T], r: &mut [T], p: &[T], q: &[T], a: T, rr: &mut T) = cg_body;
}
