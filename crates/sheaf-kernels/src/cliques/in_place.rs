//! A conjugate-gradient step that keeps nothing for an adjoint: it touches half the memory.

use super::super::reduce::fold;
use super::super::simd::{fma, kernel};
use super::{Groups, USUAL, k_of, parts};
use crate::Real;

/// A direction ([`Direction`](super::Direction)) in place: p ← r + b·p, e ← s + b·e (r and s in the first step), the
/// sums of e over the slots of every clique, and e·k. [`StepInPlace`] continues from there.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct DirectionInPlace<'a, T> {
    pub groups: Groups<'a>,
    pub width: usize,
    pub gamma: T,
    pub rho: T,
    /// `None` in the first step.
    pub b: Option<T>,
    pub r: &'a [T],
    pub s: &'a [T],
    pub p: &'a mut [T],
    pub e: &'a mut [T],
    pub sums: &'a mut [T],
    pub e_dot_k: &'a mut T,
}

#[inline(always)]
fn direction_in_place_body<T: Real, const FMA: bool>(d: DirectionInPlace<'_, T>) {
    by_width!(d.width, direction_in_place_loops(d));
}

#[inline(always)]
fn direction_in_place_loops<T: Real, const FMA: bool>(w: usize, d: DirectionInPlace<'_, T>) {
    match d.b {
        Some(b) => direction_by::<T, FMA>(w, d, |new, old| fma::<T, FMA>(b, old, new)),
        None => direction_by::<T, FMA>(w, d, |new, _| new),
    }
}

/// `next` computes the new element of p or e from that of r or s and the old one.
#[inline(always)]
fn direction_by<T: Real, const FMA: bool>(w: usize, d: DirectionInPlace<'_, T>, next: impl Fn(T, T) -> T) {
    d.sums.fill(T::ZERO);
    for (&group, (s, e)) in d.groups.of.iter().zip(d.s.chunks_exact(w).zip(d.e.chunks_exact_mut(w))) {
        let sum = &mut d.sums[group as usize * w..][..w];
        for i in 0..w {
            e[i] = next(s[i], e[i]);
            sum[i] += e[i];
        }
    }
    let mut sums = [T::ZERO; USUAL];
    for (view, &group) in d.groups.of.iter().enumerate() {
        let coefs = [d.gamma, d.rho, d.groups.size(group)];
        for (from, len) in parts(w) {
            let at = view * w + from..view * w + from + len;
            let (r, e, p) = (&d.r[at.clone()], &d.e[at.clone()], &mut d.p[at]);
            let sum = &d.sums[group as usize * w + from..][..len];
            for i in 0..len {
                p[i] = next(r[i], p[i]);
                sums[i] = fma::<T, FMA>(e[i], k_of::<T, FMA>(coefs, e[i], sum[i], p[i]), sums[i]);
            }
        }
    }
    *d.e_dot_k = fold(sums);
}

kernel! {
    /// Runs [`DirectionInPlace`].
    pub fn direction_in_place, direction_in_place_at<T>(d: DirectionInPlace<'_, T>) = direction_in_place_body;
}

/// The step after [`DirectionInPlace`]: ξ += a·p, r −= a·k.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct StepInPlace<'a, T> {
    pub groups: Groups<'a>,
    pub width: usize,
    pub gamma: T,
    pub rho: T,
    pub a: T,
    pub p: &'a [T],
    pub e: &'a [T],
    /// As [`DirectionInPlace`] left them.
    pub sums: &'a [T],
    pub r: &'a mut [T],
    pub xi: &'a mut [T],
}

#[inline(always)]
fn step_in_place_body<T: Real, const FMA: bool>(d: StepInPlace<'_, T>) {
    by_width!(d.width, step_in_place_loops(d));
}

#[inline(always)]
fn step_in_place_loops<T: Real, const FMA: bool>(w: usize, d: StepInPlace<'_, T>) {
    let read = d.e.chunks_exact(w).zip(d.p.chunks_exact(w));
    let written = d.r.chunks_exact_mut(w).zip(d.xi.chunks_exact_mut(w));
    for (&group, ((e, p), (r, xi))) in d.groups.of.iter().zip(read.zip(written)) {
        let coefs = [d.gamma, d.rho, d.groups.size(group)];
        let sum = &d.sums[group as usize * w..][..w];
        for i in 0..w {
            xi[i] = fma::<T, FMA>(d.a, p[i], xi[i]);
            r[i] = fma::<T, FMA>(-d.a, k_of::<T, FMA>(coefs, e[i], sum[i], p[i]), r[i]);
        }
    }
}

kernel! {
    /// Runs [`StepInPlace`].
    pub fn step_in_place, step_in_place_at<T>(d: StepInPlace<'_, T>) = step_in_place_body;
}

#[cfg(test)]
mod tests {
    use super::super::super::simd::Level;
    use super::super::tests::{GROUPS, numbers};
    use super::super::{Direction, advance_at, direction_at};
    use super::*;

    #[test]
    fn a_step_in_place_is_the_step_that_keeps_everything() {
        let (gamma, rho, a) = (2.0, 0.3, 0.6);
        for (width, b) in [(1, None), (16, Some(0.7)), (21, Some(0.7)), (32, None), (32, Some(0.7))] {
            let n = 6 * width;
            let (r, s, pp, ep) = (numbers(n, 1), numbers(n, 2), numbers(n, 3), numbers(n, 4));
            for level in [Level::Portable, Level::Avx2, Level::Avx512] {
                let (mut p, mut e, mut k) = (vec![9.0; n], vec![9.0; n], vec![9.0; n]);
                let (mut sums, mut dot) = (vec![9.0; 3 * width], 9.0);
                let kept = Direction {
                    groups: GROUPS,
                    width,
                    gamma,
                    rho,
                    b: b.unwrap_or(0.0),
                    r: &r,
                    s: &s,
                    p_prev: &pp,
                    e_prev: &ep,
                    p: &mut p,
                    e: &mut e,
                    k: &mut k,
                    sums: &mut sums,
                    e_dot_k: &mut dot,
                };
                direction_at(level, kept);
                let (mut xi, mut r_next) = (numbers(n, 5), vec![9.0; n]);
                advance_at(level, a, &p, &k, &r, &mut xi, &mut r_next);

                let (mut p2, mut e2, mut sums2, mut dot2) =
                    (pp.clone(), ep.clone(), vec![9.0; 3 * width], 9.0);
                let (groups, r2) = (GROUPS, &mut r.clone());
                let (p, e, sums, e_dot_k) = (&mut p2, &mut e2, &mut sums2, &mut dot2);
                let in_place =
                    DirectionInPlace { groups, width, gamma, rho, b, r: r2, s: &s, p, e, sums, e_dot_k };
                direction_in_place_at(level, in_place);
                let (p, e, sums, xi2) = (&p2, &e2, &sums2, &mut numbers(n, 5));
                step_in_place_at(
                    level,
                    StepInPlace { groups, width, gamma, rho, a, p, e, sums, r: r2, xi: xi2 },
                );
                assert_eq!((dot, &xi, &r_next), (dot2, &*xi2, &*r2), "width {width}, {level:?}");
            }
        }
    }
}
