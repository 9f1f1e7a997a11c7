//! The adjoint of a conjugate-gradient step.

use super::super::reduce::fold;
use super::super::simd::{fma, kernel};
use super::{Groups, USUAL, parts};
use crate::Real;

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
    pub groups: Groups<'a>,
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

/// One element of d_k; the coefficients are d_δ, a, γ, ρ.
#[inline(always)]
fn d_k_of<T: Real, const FMA: bool>([d_delta, a, ..]: [T; 4], e: T, d_r: T) -> T {
    fma::<T, FMA>(d_delta, e, -(a * d_r))
}

#[inline(always)]
fn direction_vjp_body<T: Real, const FMA: bool>(d: DirectionVjp<'_, T>) {
    by_width!(d.width, direction_vjp_loops(d));
}

#[inline(always)]
fn direction_vjp_loops<T: Real, const FMA: bool>(w: usize, d: DirectionVjp<'_, T>) {
    let coefs = [d.d_delta, d.a, d.gamma, d.rho];
    d.sums.fill(T::ZERO);
    for (&group, (e, d_r)) in d.groups.of.iter().zip(d.e.chunks_exact(w).zip(d.d_r.chunks_exact(w))) {
        let sum = &mut d.sums[group as usize * w..][..w];
        for i in 0..w {
            sum[i] += d_k_of::<T, FMA>(coefs, e[i], d_r[i]);
        }
    }
    let [d_delta, a, gamma, rho] = coefs;
    let (mut along, mut back) = ([T::ZERO; USUAL], [T::ZERO; USUAL]);
    for (view, &group) in d.groups.of.iter().enumerate() {
        let size = d.groups.size(group);
        for (from, len) in parts(w) {
            let at = view * w + from..view * w + from + len;
            let (e, d_r, k, f) = (&d.e[at.clone()], &d.d_r[at.clone()], &d.k[at.clone()], &d.f[at.clone()]);
            let (p, p_prev, e_prev) = (&d.p[at.clone()], &d.p_prev[at.clone()], &d.e_prev[at.clone()]);
            let (d_p, d_e) = (&mut d.d_p[at.clone()], &mut d.d_e[at]);
            let sum = &d.sums[group as usize * w + from..][..len];
            for i in 0..len {
                let d_k = d_k_of::<T, FMA>(coefs, e[i], d_r[i]);
                let m = fma::<T, FMA>(size, d_k, -sum[i]);
                d_e[i] += fma::<T, FMA>(gamma, m, d_delta * k[i]);
                d_p[i] += fma::<T, FMA>(rho, d_k, a * f[i]);
                along[i] = fma::<T, FMA>(d_k, p[i], along[i]);
                back[i] = fma::<T, FMA>(d_p[i], p_prev[i], fma::<T, FMA>(d_e[i], e_prev[i], back[i]));
            }
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
