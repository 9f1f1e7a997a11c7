//! Loops over cells that three agents see, one pass each: the elementwise half of a conjugate-gradient step in the
//! space of projections, and of its adjoint.
//!
//! A vector holds one block of `width` numbers for every (agent, slot); a [`Triple`] says where the three views of a
//! cell start. With all three pairs of views joined by an edge, the exchange of a cell is
//!
//! ```text
//! (M y)_j = 3 y_j − (y_0 + y_1 + y_2)
//! ```
//!
//! which is three times the projection onto what the views disagree about. M is symmetric, so it is its own adjoint.
//! Sums run in sixteen lanes and in an order that the shapes alone decide.

use super::simd::{fma, kernel};
use crate::Real;

/// Where the three views of a cell start.
pub type Triple = [u32; 3];

const LANES: usize = 16;

/// The three views of a cell.
#[inline(always)]
fn views<'a, T>(v: &'a [T], at: &Triple, width: usize) -> [&'a [T]; 3] {
    at.map(|start| &v[start as usize..][..width])
}

/// The three views of a cell, to be written.
#[inline(always)]
fn views_mut<'a, T>(v: &'a mut [T], at: &Triple, width: usize) -> [&'a mut [T]; 3] {
    let places = at.map(|start| start as usize..start as usize + width);
    v.get_disjoint_mut(places).expect("the views of a cell lie apart and inside the vector")
}

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

/// Calls `f(place, lane)` for 0 … width − 1, sixteen at a time as long as that goes, so that lanes become registers.
#[inline(always)]
fn in_lanes(width: usize, mut f: impl FnMut(usize, usize)) {
    let whole = width - width % LANES;
    let mut start = 0;
    while start < whole {
        for lane in 0..LANES {
            f(start + lane, lane);
        }
        start += LANES;
    }
    for i in whole..width {
        f(i, i - whole);
    }
}

#[inline(always)]
fn exchange_body<T: Real, const FMA: bool>(
    triples: &[Triple],
    width: usize,
    scale: T,
    y: &[T],
    out: &mut [T],
) {
    let three = T::from_f64(3.0);
    for at in triples {
        let y = views(y, at, width);
        let [o0, o1, o2] = views_mut(out, at, width);
        for i in 0..width {
            let (a, b, c) = (y[0][i], y[1][i], y[2][i]);
            let sum = a + b + c;
            o0[i] = scale * (three * a - sum);
            o1[i] = scale * (three * b - sum);
            o2[i] = scale * (three * c - sum);
        }
    }
}

kernel! {
    /// out = scale·M y.
    pub fn exchange_cells, exchange_cells_at<T>(triples: &[Triple], width: usize, scale: T, y: &[T], out: &mut [T])
        = exchange_body;
}

/// The direction of a step: p = r + b·p_prev, e = s + b·e_prev, k = γ M e + ρ p, and e·k.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Direction<'a, T> {
    pub triples: &'a [Triple],
    pub width: usize,
    pub gamma: T,
    pub rho: T,
    pub b: T,
    pub r: &'a [T],
    pub s: &'a [T],
    pub p_prev: &'a [T],
    pub e_prev: &'a [T],
    pub p: &'a mut [T],
    pub e: &'a mut [T],
    pub k: &'a mut [T],
    pub e_dot_k: &'a mut T,
}

#[inline(always)]
fn direction_body<T: Real, const FMA: bool>(d: Direction<'_, T>) {
    let (three, w) = (T::from_f64(3.0), d.width);
    let mut acc = [T::ZERO; LANES];
    for at in d.triples {
        let (r, s) = (views(d.r, at, w), views(d.s, at, w));
        let (p_prev, e_prev) = (views(d.p_prev, at, w), views(d.e_prev, at, w));
        let (p, e, k) = (views_mut(d.p, at, w), views_mut(d.e, at, w), views_mut(d.k, at, w));
        in_lanes(w, |i, lane| {
            let mut es = [T::ZERO; 3];
            let mut ps = [T::ZERO; 3];
            for j in 0..3 {
                es[j] = fma::<T, FMA>(d.b, e_prev[j][i], s[j][i]);
                ps[j] = fma::<T, FMA>(d.b, p_prev[j][i], r[j][i]);
            }
            let sum = es[0] + es[1] + es[2];
            for j in 0..3 {
                let m = three * es[j] - sum;
                let kj = fma::<T, FMA>(d.gamma, m, d.rho * ps[j]);
                (e[j][i], p[j][i], k[j][i]) = (es[j], ps[j], kj);
                acc[lane] = fma::<T, FMA>(es[j], kj, acc[lane]);
            }
        });
    }
    *d.e_dot_k = fold(acc);
}

kernel! {
    /// Runs [`Direction`].
    pub fn direction, direction_at<T>(d: Direction<'_, T>) = direction_body;
}

#[inline(always)]
fn advance_body<T: Real, const FMA: bool>(a: T, p: &[T], k: &[T], r: &[T], xi: &mut [T], r_next: &mut [T]) {
    let n = xi.len();
    let (p, k, r, r_next) = (&p[..n], &k[..n], &r[..n], &mut r_next[..n]);
    for i in 0..n {
        xi[i] = fma::<T, FMA>(a, p[i], xi[i]);
        r_next[i] = fma::<T, FMA>(-a, k[i], r[i]);
    }
}

kernel! {
    /// ξ += a·p, r_next = r − a·k.
    pub fn advance, advance_at<T>(a: T, p: &[T], k: &[T], r: &[T], xi: &mut [T], r_next: &mut [T]) = advance_body;
}

/// The adjoint of a step up to its direction. With f the gradient of ξ and d_r that of r_next:
///
/// ```text
/// d_k = d_δ·e − a·d_r        d_e += d_δ·k + γ M d_k        d_p += a·f + ρ d_k
/// ```
///
/// and the sums d_k·p (for ρ) and d_p·p_prev + d_e·e_prev (for b).
#[derive(Debug)]
#[allow(missing_docs)]
pub struct DirectionVjp<'a, T> {
    pub triples: &'a [Triple],
    pub width: usize,
    pub gamma: T,
    pub rho: T,
    pub a: T,
    pub d_delta: T,
    pub f: &'a [T],
    pub d_r: &'a [T],
    pub p: &'a [T],
    pub e: &'a [T],
    pub k: &'a [T],
    pub p_prev: &'a [T],
    pub e_prev: &'a [T],
    pub d_p: &'a mut [T],
    pub d_e: &'a mut [T],
    pub d_k_dot_p: &'a mut T,
    pub d_b: &'a mut T,
}

#[inline(always)]
fn direction_vjp_body<T: Real, const FMA: bool>(d: DirectionVjp<'_, T>) {
    let (three, w) = (T::from_f64(3.0), d.width);
    let (mut along, mut back) = ([T::ZERO; LANES], [T::ZERO; LANES]);
    for at in d.triples {
        let (f, d_r) = (views(d.f, at, w), views(d.d_r, at, w));
        let (p, e, k) = (views(d.p, at, w), views(d.e, at, w), views(d.k, at, w));
        let (p_prev, e_prev) = (views(d.p_prev, at, w), views(d.e_prev, at, w));
        let (d_p, d_e) = (views_mut(d.d_p, at, w), views_mut(d.d_e, at, w));
        in_lanes(w, |i, lane| {
            let mut d_k = [T::ZERO; 3];
            for j in 0..3 {
                d_k[j] = fma::<T, FMA>(d.d_delta, e[j][i], -(d.a * d_r[j][i]));
            }
            let sum = d_k[0] + d_k[1] + d_k[2];
            for j in 0..3 {
                let m = three * d_k[j] - sum;
                let de = d_e[j][i] + fma::<T, FMA>(d.gamma, m, d.d_delta * k[j][i]);
                let dp = d_p[j][i] + fma::<T, FMA>(d.rho, d_k[j], d.a * f[j][i]);
                (d_e[j][i], d_p[j][i]) = (de, dp);
                along[lane] = fma::<T, FMA>(d_k[j], p[j][i], along[lane]);
                back[lane] = fma::<T, FMA>(dp, p_prev[j][i], back[lane]);
                back[lane] = fma::<T, FMA>(de, e_prev[j][i], back[lane]);
            }
        });
    }
    *d.d_k_dot_p = fold(along);
    *d.d_b = fold(back);
}

kernel! {
    /// Runs [`DirectionVjp`].
    pub fn direction_vjp, direction_vjp_at<T>(d: DirectionVjp<'_, T>) = direction_vjp_body;
}

/// The adjoint of p = r + b·p_prev, e = s + b·e_prev and c = r·s:
/// d_r += d_p + d_c·s, d_s = d_e + d_c·r, and d_p, d_e become the gradients of p_prev, e_prev.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ResidualVjp<'a, T> {
    pub b: T,
    pub d_c: T,
    pub r: &'a [T],
    pub s: &'a [T],
    pub d_p: &'a mut [T],
    pub d_e: &'a mut [T],
    pub d_r: &'a mut [T],
    pub d_s: &'a mut [T],
}

#[inline(always)]
fn residual_vjp_body<T: Real, const FMA: bool>(d: ResidualVjp<'_, T>) {
    let n = d.d_r.len();
    let (r, s, d_p, d_e) = (&d.r[..n], &d.s[..n], &mut d.d_p[..n], &mut d.d_e[..n]);
    let (d_r, d_s) = (&mut d.d_r[..n], &mut d.d_s[..n]);
    for i in 0..n {
        d_r[i] += fma::<T, FMA>(d.d_c, s[i], d_p[i]);
        d_s[i] = fma::<T, FMA>(d.d_c, r[i], d_e[i]);
        d_p[i] *= d.b;
        d_e[i] *= d.b;
    }
}

kernel! {
    /// Runs [`ResidualVjp`].
    pub fn residual_vjp, residual_vjp_at<T>(d: ResidualVjp<'_, T>) = residual_vjp_body;
}

#[cfg(test)]
mod tests {
    use super::super::simd::Level;
    use super::*;

    /// Two cells of one triple each, whose views are interleaved, `width` numbers a view.
    fn triples(width: u32) -> Vec<Triple> {
        vec![[0, 2 * width, 4 * width], [5 * width, width, 3 * width]]
    }

    fn numbers(n: usize, seed: u32) -> Vec<f64> {
        (0..n)
            .map(|i| {
                f64::from((i as u32).wrapping_mul(2_654_435_761).wrapping_add(seed * 977) >> 16) / 65_536.0
                    - 0.5
            })
            .collect()
    }

    #[test]
    fn the_exchange_is_three_times_a_projector() {
        for width in [1, 16, 21, 32] {
            let (t, y) = (triples(width as u32), numbers(6 * width, 1));
            let (mut once, mut twice) = (vec![0.0; y.len()], vec![0.0; y.len()]);
            exchange_cells(&t, width, 1.0, &y, &mut once);
            exchange_cells(&t, width, 1.0, &once, &mut twice);
            for ((&a, &b), &y0) in once.iter().zip(&twice).zip(&y) {
                assert!((3.0 * a - b).abs() < 1e-14, "{y0}");
            }
            let moved: f64 = once.iter().map(|v| v.abs()).sum();
            assert!(moved > 0.1);
        }
    }

    #[test]
    fn a_direction_is_its_formula_at_every_level() {
        for width in [1, 16, 21, 32] {
            let (t, n) = (triples(width as u32), 6 * width);
            let (r, s, pp, ep) = (numbers(n, 1), numbers(n, 2), numbers(n, 3), numbers(n, 4));
            let (gamma, rho, b) = (2.0, 0.3, 0.7);
            let e_want: Vec<f64> = s.iter().zip(&ep).map(|(s, e)| s + b * e).collect();
            let p_want: Vec<f64> = r.iter().zip(&pp).map(|(r, p)| r + b * p).collect();
            let mut m = vec![0.0; n];
            exchange_cells(&t, width, gamma, &e_want, &mut m);
            let k_want: Vec<f64> = m.iter().zip(&p_want).map(|(m, p)| m + rho * p).collect();
            let dot_want: f64 = e_want.iter().zip(&k_want).map(|(e, k)| e * k).sum();
            for level in [Level::Portable, Level::Avx2, Level::Avx512] {
                let (mut p, mut e, mut k, mut dot) = (vec![0.0; n], vec![0.0; n], vec![0.0; n], 0.0);
                let d = Direction {
                    triples: &t,
                    width,
                    gamma,
                    rho,
                    b,
                    r: &r,
                    s: &s,
                    p_prev: &pp,
                    e_prev: &ep,
                    p: &mut p,
                    e: &mut e,
                    k: &mut k,
                    e_dot_k: &mut dot,
                };
                direction_at(level, d);
                for (got, want) in [(&p, &p_want), (&e, &e_want), (&k, &k_want)] {
                    assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-14));
                }
                assert!((dot - dot_want).abs() < 1e-12);
            }
        }
    }
}
