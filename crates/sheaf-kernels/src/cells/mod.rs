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
//! Dot products run in lanes and in an order that the shapes alone decide.
//!
//! | part | holds |
//! | --- | --- |
//! | here | the exchange, and a step that keeps everything for its adjoint |
//! | `in_place` | the same step where nothing is kept |
//! | `back` | the adjoint |
//!
//! | name | shape |
//! | --- | --- |
//! | vectors | views, width |
//! | `sums` | cells, width; scratch |

pub use back::{DirectionVjp, ResidualVjp, direction_vjp, residual_vjp};
pub use in_place::{DirectionInPlace, StepInPlace, direction_in_place, step_in_place};

use super::reduce::fold;
use super::simd::{fma, kernel};
use crate::Real;

/// The width of the published edge stalks: loops of a known length run faster.
const USUAL: usize = 32;

/// Runs a body that asks for its width, with the usual one as a constant.
macro_rules! by_width {
    ($width:expr, $body:ident($($arg:expr),*)) => {
        if $width == USUAL { $body::<T, FMA>(USUAL, $($arg),*) } else { $body::<T, FMA>($width, $($arg),*) }
    };
}

mod back;
mod in_place;

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

/// The parts, at most [`USUAL`] wide, of a view `w` wide: where they start, and their length.
#[inline(always)]
fn parts(w: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..w.div_ceil(USUAL)).map(move |i| (i * USUAL, (w - i * USUAL).min(USUAL)))
}

/// k of one number; the coefficients are γ and ρ.
#[inline(always)]
fn k_of<T: Real, const FMA: bool>([gamma, rho]: [T; 2], e: T, sum: T, p: T) -> T {
    fma::<T, FMA>(gamma, fma::<T, FMA>(T::from_f64(3.0), e, -sum), rho * p)
}

#[inline(always)]
fn direction_body<T: Real, const FMA: bool>(d: Direction<'_, T>) {
    by_width!(d.width, direction_loops(d));
}

#[inline(always)]
fn direction_loops<T: Real, const FMA: bool>(w: usize, d: Direction<'_, T>) {
    let coefs = [d.gamma, d.rho];
    d.sums.fill(T::ZERO);
    let vectors = d.s.chunks_exact(w).zip(d.e_prev.chunks_exact(w)).zip(d.e.chunks_exact_mut(w));
    for (&cell, ((s, e_prev), e)) in d.cell_of.iter().zip(vectors) {
        let sum = &mut d.sums[cell as usize * w..][..w];
        for i in 0..w {
            e[i] = fma::<T, FMA>(d.b, e_prev[i], s[i]);
            sum[i] += e[i];
        }
    }
    let mut sums = [T::ZERO; USUAL];
    for (view, &cell) in d.cell_of.iter().enumerate() {
        for (from, len) in parts(w) {
            let at = view * w + from..view * w + from + len;
            let (r, p_prev, e) = (&d.r[at.clone()], &d.p_prev[at.clone()], &d.e[at.clone()]);
            let (p, k) = (&mut d.p[at.clone()], &mut d.k[at]);
            let sum = &d.sums[cell as usize * w + from..][..len];
            for i in 0..len {
                p[i] = fma::<T, FMA>(d.b, p_prev[i], r[i]);
                k[i] = k_of::<T, FMA>(coefs, e[i], sum[i], p[i]);
                sums[i] = fma::<T, FMA>(e[i], k[i], sums[i]);
            }
        }
    }
    *d.e_dot_k = fold(sums);
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

#[cfg(test)]
mod tests {
    use super::super::simd::Level;
    use super::*;

    /// Two cells, their views interleaved.
    pub(super) const CELL_OF: [u32; 6] = [0, 1, 0, 1, 1, 0];

    pub(super) fn numbers(n: usize, seed: u32) -> Vec<f64> {
        let mix = |i: u32| i.wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(977_000_001)) >> 16;
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
