//! Loops over cells that several agents see, one or two passes each: the elementwise half of a conjugate-gradient step
//! in the space of projections, and of its adjoint.
//!
//! A vector holds one block of `width` numbers for every view, that is, every (agent, slot); `cell_of[view]` names the
//! cell the view shows. Every cell has three views, each pair joined by an edge, so the exchange is
//!
//! ```text
//! (M y)_view = 3 y_view − Σ of y over the three views of its cell
//! ```
//!
//! which is three times the projection onto what the views disagree about. M is symmetric, so it is its own adjoint.
//! Dot products run in sixteen lanes and in an order that the shapes alone decide.
//!
//! | name | shape |
//! | --- | --- |
//! | vectors | views, width |
//! | `sums` | cells, width; scratch |

use super::reduce::fold;
use super::simd::{fma, kernel};
use crate::Real;

const LANES: usize = 16;

/// The width of the published edge stalks: loops of a known length run faster.
const USUAL: usize = 32;

/// Runs a body that asks for its width, with the usual one as a constant.
macro_rules! by_width {
    ($width:expr, $body:ident($($arg:expr),*)) => {
        if $width == USUAL { $body::<T, FMA>(USUAL, $($arg),*) } else { $body::<T, FMA>($width, $($arg),*) }
    };
}

#[inline(always)]
fn exchange_body<T: Real, const FMA: bool>(
    cell_of: &[u32],
    width: usize,
    scale: T,
    y: &[T],
    out: &mut [T],
    sums: &mut [T],
) {
    by_width!(width, exchange_loops(cell_of, scale, y, out, sums));
}

#[inline(always)]
fn exchange_loops<T: Real, const FMA: bool>(
    width: usize,
    cell_of: &[u32],
    scale: T,
    y: &[T],
    out: &mut [T],
    sums: &mut [T],
) {
    let three = T::from_f64(3.0);
    sums.fill(T::ZERO);
    for (view, &cell) in cell_of.iter().enumerate() {
        let (sum, y) = (&mut sums[cell as usize * width..][..width], &y[view * width..][..width]);
        for i in 0..width {
            sum[i] += y[i];
        }
    }
    for (view, &cell) in cell_of.iter().enumerate() {
        let sum = &sums[cell as usize * width..][..width];
        let (y, out) = (&y[view * width..][..width], &mut out[view * width..][..width]);
        for i in 0..width {
            out[i] = scale * fma::<T, FMA>(three, y[i], -sum[i]);
        }
    }
}

kernel! {
    /// out = scale·M y.
    pub fn exchange_cells, exchange_cells_at<T>(
        cell_of: &[u32], width: usize, scale: T, y: &[T], out: &mut [T], sums: &mut [T],
    ) = exchange_body;
}

/// The direction of a step: p = r + b·p_prev, e = s + b·e_prev, k = γ M e + ρ p, and e·k.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Direction<'a, T> {
    pub cell_of: &'a [u32],
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
    pub sums: &'a mut [T],
    pub e_dot_k: &'a mut T,
}

/// `N` numbers of a view, from its place `i` on.
#[inline(always)]
fn take<T: Real, const N: usize>(v: &[T], i: usize) -> [T; N] {
    let mut out = [T::ZERO; N];
    out.copy_from_slice(&v[i..i + N]);
    out
}

/// `N` numbers of p and k, and what they add to the sums of e·k; the coefficients are b, γ, ρ.
#[inline(always)]
fn step_lanes<T: Real, const FMA: bool, const N: usize>(
    [b, gamma, rho]: [T; 3],
    i: usize,
    [r, p_prev, e, sum]: [&[T]; 4],
    [p, k]: [&mut [T]; 2],
    acc: &mut [T],
) {
    let (r, p_prev) = (take::<T, N>(r, i), take::<T, N>(p_prev, i));
    let (e, sum, mut sums) = (take::<T, N>(e, i), take::<T, N>(sum, i), take::<T, N>(acc, 0));
    let (mut ps, mut ks) = ([T::ZERO; N], [T::ZERO; N]);
    for l in 0..N {
        ps[l] = fma::<T, FMA>(b, p_prev[l], r[l]);
        ks[l] = fma::<T, FMA>(gamma, fma::<T, FMA>(T::from_f64(3.0), e[l], -sum[l]), rho * ps[l]);
        sums[l] = fma::<T, FMA>(e[l], ks[l], sums[l]);
    }
    p[i..i + N].copy_from_slice(&ps);
    k[i..i + N].copy_from_slice(&ks);
    acc[..N].copy_from_slice(&sums);
}

#[inline(always)]
fn direction_body<T: Real, const FMA: bool>(d: Direction<'_, T>) {
    by_width!(d.width, direction_loops(d));
}

#[inline(always)]
fn direction_loops<T: Real, const FMA: bool>(w: usize, d: Direction<'_, T>) {
    let coefs = [d.b, d.gamma, d.rho];
    d.sums.fill(T::ZERO);
    let vectors = d.s.chunks_exact(w).zip(d.e_prev.chunks_exact(w)).zip(d.e.chunks_exact_mut(w));
    for (&cell, ((s, e_prev), e)) in d.cell_of.iter().zip(vectors) {
        let sum = &mut d.sums[cell as usize * w..][..w];
        for i in 0..w {
            e[i] = fma::<T, FMA>(d.b, e_prev[i], s[i]);
            sum[i] += e[i];
        }
    }
    let mut acc = [T::ZERO; LANES];
    let read = d.r.chunks_exact(w).zip(d.p_prev.chunks_exact(w)).zip(d.e.chunks_exact(w));
    let written = d.p.chunks_exact_mut(w).zip(d.k.chunks_exact_mut(w));
    for (&cell, (((r, p_prev), e), (p, k))) in d.cell_of.iter().zip(read.zip(written)) {
        let read = [r, p_prev, e, &d.sums[cell as usize * w..][..w]];
        let mut i = 0;
        while i + LANES <= w {
            step_lanes::<T, FMA, LANES>(coefs, i, read, [&mut *p, &mut *k], &mut acc);
            i += LANES;
        }
        let whole = i;
        while i < w {
            step_lanes::<T, FMA, 1>(coefs, i, read, [&mut *p, &mut *k], &mut acc[i - whole..]);
            i += 1;
        }
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
    pub cell_of: &'a [u32],
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
    pub sums: &'a mut [T],
    pub d_k_dot_p: &'a mut T,
    pub d_b: &'a mut T,
}

/// One number of d_k; the coefficients are d_δ, a, γ, ρ.
#[inline(always)]
fn d_k_of<T: Real, const FMA: bool>([d_delta, a, ..]: [T; 4], e: T, d_r: T) -> T {
    fma::<T, FMA>(d_delta, e, -(a * d_r))
}

/// `N` numbers of d_e and d_p, and what they add to the two sums.
#[inline(always)]
fn back_lanes<T: Real, const FMA: bool, const N: usize>(
    coefs: [T; 4],
    i: usize,
    [e, d_r, sum, k, f]: [&[T]; 5],
    [p, p_prev, e_prev]: [&[T]; 3],
    [d_p, d_e]: [&mut [T]; 2],
    [along, back]: [&mut [T]; 2],
) {
    let [d_delta, a, gamma, rho] = coefs;
    let (e, d_r, sum) = (take::<T, N>(e, i), take::<T, N>(d_r, i), take::<T, N>(sum, i));
    let (k, f, p) = (take::<T, N>(k, i), take::<T, N>(f, i), take::<T, N>(p, i));
    let (p_prev, e_prev) = (take::<T, N>(p_prev, i), take::<T, N>(e_prev, i));
    let (mut d_ps, mut d_es) = (take::<T, N>(d_p, i), take::<T, N>(d_e, i));
    let (mut to_p, mut to_b) = (take::<T, N>(along, 0), take::<T, N>(back, 0));
    for l in 0..N {
        let d_k = d_k_of::<T, FMA>(coefs, e[l], d_r[l]);
        let m = fma::<T, FMA>(T::from_f64(3.0), d_k, -sum[l]);
        d_es[l] += fma::<T, FMA>(gamma, m, d_delta * k[l]);
        d_ps[l] += fma::<T, FMA>(rho, d_k, a * f[l]);
        to_p[l] = fma::<T, FMA>(d_k, p[l], to_p[l]);
        to_b[l] = fma::<T, FMA>(d_ps[l], p_prev[l], fma::<T, FMA>(d_es[l], e_prev[l], to_b[l]));
    }
    d_p[i..i + N].copy_from_slice(&d_ps);
    d_e[i..i + N].copy_from_slice(&d_es);
    along[..N].copy_from_slice(&to_p);
    back[..N].copy_from_slice(&to_b);
}

#[inline(always)]
fn direction_vjp_body<T: Real, const FMA: bool>(d: DirectionVjp<'_, T>) {
    by_width!(d.width, direction_vjp_loops(d));
}

#[inline(always)]
fn direction_vjp_loops<T: Real, const FMA: bool>(w: usize, d: DirectionVjp<'_, T>) {
    let coefs = [d.d_delta, d.a, d.gamma, d.rho];
    d.sums.fill(T::ZERO);
    for (&cell, (e, d_r)) in d.cell_of.iter().zip(d.e.chunks_exact(w).zip(d.d_r.chunks_exact(w))) {
        let sum = &mut d.sums[cell as usize * w..][..w];
        for i in 0..w {
            sum[i] += d_k_of::<T, FMA>(coefs, e[i], d_r[i]);
        }
    }
    let (mut along, mut back) = ([T::ZERO; LANES], [T::ZERO; LANES]);
    let inputs = d.e.chunks_exact(w).zip(d.d_r.chunks_exact(w));
    let inputs = inputs.zip(d.k.chunks_exact(w)).zip(d.f.chunks_exact(w));
    let factors = d.p.chunks_exact(w).zip(d.p_prev.chunks_exact(w)).zip(d.e_prev.chunks_exact(w));
    let written = d.d_p.chunks_exact_mut(w).zip(d.d_e.chunks_exact_mut(w));
    let views = d.cell_of.iter().zip(inputs.zip(factors.zip(written)));
    for (&cell, ((((e, d_r), k), f), (((p, p_prev), e_prev), (d_p, d_e)))) in views {
        let (read, factors) = ([e, d_r, &d.sums[cell as usize * w..][..w], k, f], [p, p_prev, e_prev]);
        let mut i = 0;
        while i + LANES <= w {
            let (out, sums) = ([&mut *d_p, &mut *d_e], [&mut along[..], &mut back[..]]);
            back_lanes::<T, FMA, LANES>(coefs, i, read, factors, out, sums);
            i += LANES;
        }
        let whole = i;
        while i < w {
            let (out, l) = ([&mut *d_p, &mut *d_e], i - whole);
            back_lanes::<T, FMA, 1>(coefs, i, read, factors, out, [&mut along[l..], &mut back[l..]]);
            i += 1;
        }
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

    /// Two cells, their views interleaved.
    const CELL_OF: [u32; 6] = [0, 1, 0, 1, 1, 0];

    fn numbers(n: usize, seed: u32) -> Vec<f64> {
        let mix = |i: u32| i.wrapping_mul(2_654_435_761).wrapping_add(seed * 977_000_001) >> 16;
        (0..n as u32).map(|i| f64::from(mix(i)) / 65_536.0 - 0.5).collect()
    }

    /// M y, written as the sum of the differences to the other views.
    fn exchanged(width: usize, y: &[f64]) -> Vec<f64> {
        let others = |v: usize| (0..6).filter(move |&o| o != v && CELL_OF[o] == CELL_OF[v]);
        (0..y.len()).map(|i| others(i / width).map(|o| y[i] - y[o * width + i % width]).sum()).collect()
    }

    fn close(got: &[f64], want: &[f64]) -> bool {
        got.len() == want.len() && got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-13)
    }

    #[test]
    fn the_exchange_adds_up_the_differences_along_edges() {
        for width in [1, 16, 21, 32] {
            let y = numbers(6 * width, 1);
            let (mut out, mut sums) = (vec![9.0; y.len()], vec![9.0; 2 * width]);
            for level in [Level::Portable, Level::Avx2, Level::Avx512] {
                exchange_cells_at(level, &CELL_OF, width, 1.0, &y, &mut out, &mut sums);
                assert!(close(&out, &exchanged(width, &y)));
            }
        }
    }

    #[test]
    fn a_direction_is_its_formula_at_every_level() {
        let (gamma, rho, b) = (2.0, 0.3, 0.7);
        for width in [1, 16, 21, 32] {
            let n = 6 * width;
            let (r, s, pp, ep) = (numbers(n, 1), numbers(n, 2), numbers(n, 3), numbers(n, 4));
            let e_want: Vec<f64> = (0..n).map(|i| s[i] + b * ep[i]).collect();
            let p_want: Vec<f64> = (0..n).map(|i| r[i] + b * pp[i]).collect();
            let m = exchanged(width, &e_want);
            let k_want: Vec<f64> = (0..n).map(|i| gamma * m[i] + rho * p_want[i]).collect();
            let dot_want: f64 = (0..n).map(|i| e_want[i] * k_want[i]).sum();
            for level in [Level::Portable, Level::Avx2, Level::Avx512] {
                let (mut p, mut e, mut k) = (vec![9.0; n], vec![9.0; n], vec![9.0; n]);
                let (mut sums, mut dot) = (vec![9.0; 2 * width], 9.0);
                direction_at(
                    level,
                    Direction {
                        cell_of: &CELL_OF,
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
                        sums: &mut sums,
                        e_dot_k: &mut dot,
                    },
                );
                assert!(close(&p, &p_want) && close(&e, &e_want) && close(&k, &k_want));
                assert!((dot - dot_want).abs() < 1e-12);
            }
        }
    }
}
