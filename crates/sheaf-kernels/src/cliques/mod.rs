//! Loops over slots that meet in cliques, one or two passes each: the elementwise half of a conjugate-gradient step in
//! the space of projections, and of its adjoint.
//!
//! A vector holds one block of `width` numbers for every slot of every agent; [`Groups`] gives the clique of each
//! slot. Every two slots of a clique are joined by an edge, so the exchange is
//!
//! ```text
//! (M y)_slot = c y_slot − Σ of y over the c slots of its clique
//! ```
//!
//! which is c times the projection onto the disagreement of the slots. M is symmetric, so it is its own adjoint.
//! Dot products run in lanes, in an order that depends on the shapes alone.
//!
//! | part | holds |
//! | --- | --- |
//! | here | the exchange, and a step that keeps everything for its adjoint |
//! | `in_place` | the same step, with nothing kept |
//! | `back` | the adjoint |
//!
//! | name | shape |
//! | --- | --- |
//! | vectors | slots, width |
//! | `sums` | cliques, width; scratch |

pub use back::{DirectionVjp, ResidualVjp, direction_vjp, residual_vjp};
pub use in_place::{DirectionInPlace, StepInPlace, direction_in_place, step_in_place};

use super::reduce::fold;
use super::simd::{fma, kernel};
use crate::Real;

/// The width of the published edge stalks: loops of a known length run faster.
const USUAL: usize = 32;

/// Runs a body that takes its width, with the usual width as a constant.
macro_rules! by_width {
    ($width:expr, $body:ident($($arg:expr),*)) => {
        if $width == USUAL { $body::<T, FMA>(USUAL, $($arg),*) } else { $body::<T, FMA>($width, $($arg),*) }
    };
}

mod back;
mod in_place;

/// Which clique every slot belongs to, and how many slots every clique has.
#[derive(Clone, Copy, Debug)]
pub struct Groups<'a> {
    /// The clique of a slot.
    pub of: &'a [u32], // [slots]
    /// Slots of a clique; 1 for a slot without edges.
    pub sizes: &'a [u32], // [cliques]
}

impl Groups<'_> {
    /// The size of a clique as a factor.
    #[inline(always)]
    fn size<T: Real>(&self, group: u32) -> T {
        T::from_f64(f64::from(self.sizes[group as usize]))
    }
}

#[inline(always)]
fn exchange_body<T: Real, const FMA: bool>(
    groups: Groups<'_>,
    width: usize,
    scale: T,
    y: &[T],
    out: &mut [T],
    sums: &mut [T],
) {
    by_width!(width, exchange_loops(groups, |_| scale, y, out, sums));
}

#[inline(always)]
fn exchange_by_body<T: Real, const FMA: bool>(
    groups: Groups<'_>,
    width: usize,
    scales: &[T],
    y: &[T],
    out: &mut [T],
    sums: &mut [T],
) {
    by_width!(width, exchange_loops(groups, |group: u32| scales[group as usize], y, out, sums));
}

#[inline(always)]
fn exchange_loops<T: Real, const FMA: bool>(
    width: usize,
    groups: Groups<'_>,
    scale: impl Fn(u32) -> T,
    y: &[T],
    out: &mut [T],
    sums: &mut [T],
) {
    sums.fill(T::ZERO);
    for (view, &group) in groups.of.iter().enumerate() {
        let (sum, y) = (&mut sums[group as usize * width..][..width], &y[view * width..][..width]);
        for i in 0..width {
            sum[i] += y[i];
        }
    }
    for (view, &group) in groups.of.iter().enumerate() {
        let (size, scale) = (groups.size::<T>(group), scale(group));
        let sum = &sums[group as usize * width..][..width];
        let (y, out) = (&y[view * width..][..width], &mut out[view * width..][..width]);
        for i in 0..width {
            out[i] = scale * fma::<T, FMA>(size, y[i], -sum[i]);
        }
    }
}

kernel! {
    /// out = scale·M y.
    pub fn exchange_cliques, exchange_cliques_at<T>(
        groups: Groups<'_>, width: usize, scale: T, y: &[T], out: &mut [T], sums: &mut [T],
    ) = exchange_body;
}

kernel! {
    /// out = diag(scales)·M y, one scale for every clique.
    pub fn exchange_cliques_by, exchange_cliques_by_at<T>(
        groups: Groups<'_>, width: usize, scales: &[T], y: &[T], out: &mut [T], sums: &mut [T],
    ) = exchange_by_body;
}

/// The direction of a step: p = r + b·p_prev, e = s + b·e_prev, k = γ M e + ρ p, and e·k.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Direction<'a, T> {
    pub groups: Groups<'a>,
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

/// One element of k; the coefficients are γ, ρ and the size of the clique.
#[inline(always)]
fn k_of<T: Real, const FMA: bool>([gamma, rho, size]: [T; 3], e: T, sum: T, p: T) -> T {
    fma::<T, FMA>(gamma, fma::<T, FMA>(size, e, -sum), rho * p)
}

#[inline(always)]
fn direction_body<T: Real, const FMA: bool>(d: Direction<'_, T>) {
    by_width!(d.width, direction_loops(d));
}

#[inline(always)]
fn direction_loops<T: Real, const FMA: bool>(w: usize, d: Direction<'_, T>) {
    d.sums.fill(T::ZERO);
    let vectors = d.s.chunks_exact(w).zip(d.e_prev.chunks_exact(w)).zip(d.e.chunks_exact_mut(w));
    for (&group, ((s, e_prev), e)) in d.groups.of.iter().zip(vectors) {
        let sum = &mut d.sums[group as usize * w..][..w];
        for i in 0..w {
            e[i] = fma::<T, FMA>(d.b, e_prev[i], s[i]);
            sum[i] += e[i];
        }
    }
    let mut sums = [T::ZERO; USUAL];
    for (view, &group) in d.groups.of.iter().enumerate() {
        let coefs = [d.gamma, d.rho, d.groups.size(group)];
        for (from, len) in parts(w) {
            let at = view * w + from..view * w + from + len;
            let (r, p_prev, e) = (&d.r[at.clone()], &d.p_prev[at.clone()], &d.e[at.clone()]);
            let (p, k) = (&mut d.p[at.clone()], &mut d.k[at]);
            let sum = &d.sums[group as usize * w + from..][..len];
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

    /// Cliques of three, two and one slots, interleaved.
    const CLIQUE_OF: [u32; 6] = [0, 1, 0, 2, 1, 0];
    pub(super) const GROUPS: Groups<'static> = Groups { of: &CLIQUE_OF, sizes: &[3, 2, 1] };

    pub(super) fn numbers(n: usize, seed: u32) -> Vec<f64> {
        let mix = |i: u32| i.wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(977_000_001)) >> 16;
        (0..n as u32).map(|i| f64::from(mix(i)) / 65_536.0 - 0.5).collect()
    }

    /// M y, written as the sum of the differences to the other views.
    fn exchanged(width: usize, y: &[f64]) -> Vec<f64> {
        let others = |v: usize| (0..6).filter(move |&o| o != v && CLIQUE_OF[o] == CLIQUE_OF[v]);
        (0..y.len()).map(|i| others(i / width).map(|o| y[i] - y[o * width + i % width]).sum()).collect()
    }

    fn close(got: &[f64], want: &[f64]) -> bool {
        got.len() == want.len() && got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-13)
    }

    #[test]
    fn the_exchange_adds_up_the_differences_along_edges() {
        for width in [1, 16, 21, 32] {
            let y = numbers(6 * width, 1);
            let (mut out, mut sums) = (vec![9.0; y.len()], vec![9.0; 3 * width]);
            for level in [Level::Portable, Level::Avx2, Level::Avx512] {
                exchange_cliques_at(level, GROUPS, width, 1.0, &y, &mut out, &mut sums);
                assert!(close(&out, &exchanged(width, &y)));
                let scales = [0.5, -2.0, 3.0];
                exchange_cliques_by_at(level, GROUPS, width, &scales, &y, &mut out, &mut sums);
                let scaled = exchanged(width, &y).into_iter().enumerate();
                let scaled: Vec<f64> =
                    scaled.map(|(i, m)| scales[CLIQUE_OF[i / width] as usize] * m).collect();
                assert!(close(&out, &scaled));
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
                let (mut sums, mut dot) = (vec![9.0; 3 * width], 9.0);
                direction_at(
                    level,
                    Direction {
                        groups: GROUPS,
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
