//! The x-update of agents that must stay at or above 0, with the sums around it, in the two vectors that carry an
//! iteration when the duals are what the last consensus moved: z = w + g, u = −g.
//!
//! ```text
//! v = z − u = w + 2g        x = max(0, gain·v − shift)        w' = x + u = x − g
//! gain = ρ/a, shift = q/a, a = D + ρ
//! ```
//!
//! Adjoint, with h = d_x/a where x > 0, else 0, and d_x the gradient of x beside that of w':
//!
//! ```text
//! d_x += d_w'      d_v = ρh      d_w = d_v      d_g = 2 d_v − d_w'
//! d_q −= h         d_D −= hx     d_ρ += Σ h(v − x)
//! ```
//!
//! A coordinate at the bound counts as held there and passes nothing.

use super::simd::kernel;
use crate::Real;

#[inline(always)]
fn prepare_body<T: Real, const FMA: bool>(
    diag: &[T],
    q: &[T],
    rho: T,
    inv_a: &mut [T],
    gain: &mut [T],
    shift: &mut [T],
) {
    let n = diag.len();
    let (q, inv_a, gain, shift) = (&q[..n], &mut inv_a[..n], &mut gain[..n], &mut shift[..n]);
    for i in 0..n {
        let inverse = T::ONE / (diag[i] + rho);
        inv_a[i] = inverse;
        gain[i] = rho * inverse;
        shift[i] = q[i] * inverse;
    }
}

kernel! {
    /// The coefficients of a solve.
    pub fn prepare, prepare_at<T>(
        diag: &[T], q: &[T], rho: T, inv_a: &mut [T], gain: &mut [T], shift: &mut [T],
    ) = prepare_body;
}

#[inline(always)]
fn prox_body<T: Real, const FMA: bool>(gain: &[T], shift: &[T], g: &[T], w: &mut [T], x: &mut [T]) {
    let n = x.len();
    let (gain, shift, g, w) = (&gain[..n], &shift[..n], &g[..n], &mut w[..n]);
    for i in 0..n {
        let t = gain[i] * (w[i] + (g[i] + g[i])) - shift[i];
        // Not `max`: a NaN must come out as a NaN.
        x[i] = if t < T::ZERO { T::ZERO } else { t };
        w[i] = x[i] - g[i];
    }
}

kernel! {
    /// x from w and g; w becomes the next target.
    pub fn prox, prox_at<T>(gain: &[T], shift: &[T], g: &[T], w: &mut [T], x: &mut [T]) = prox_body;
}

/// The adjoint of one x-update.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct ProxVjp<'a, T> {
    pub inv_a: &'a [T],
    pub gain: &'a [T],
    pub w: &'a [T],
    pub g: &'a [T],
    pub x: &'a [T],
    /// Gradient of x beside that of the next target.
    pub d_x: Option<&'a [T]>,
    /// In: gradient of the next target. Out: of `w`.
    pub d_w: &'a mut [T],
    /// Overwritten by the gradient of `g`.
    pub d_g: &'a mut [T],
    /// Added to.
    pub d_diag: &'a mut [T],
    /// Added to.
    pub d_q: &'a mut [T],
    /// Added to.
    pub d_rho: &'a mut T,
}

const LANES: usize = 16;

#[inline(always)]
fn prox_vjp_body<T: Real, const FMA: bool>(d: ProxVjp<'_, T>) {
    let n = d.x.len();
    let (inv_a, gain, w, g, x) = (&d.inv_a[..n], &d.gain[..n], &d.w[..n], &d.g[..n], d.x);
    let (d_w, d_g, d_diag, d_q) = (&mut d.d_w[..n], &mut d.d_g[..n], &mut d.d_diag[..n], &mut d.d_q[..n]);
    let mut acc = [T::ZERO; LANES];
    let mut one = |i: usize, lane: usize, seed: T| {
        let d_x = if x[i] > T::ZERO { seed + d_w[i] } else { T::ZERO };
        let (h, d_v) = (d_x * inv_a[i], d_x * gain[i]);
        d_g[i] = (d_v + d_v) - d_w[i];
        d_w[i] = d_v;
        d_q[i] -= h;
        d_diag[i] -= h * x[i];
        acc[lane] += h * (w[i] + (g[i] + g[i]) - x[i]);
    };
    let whole = n - n % LANES;
    for start in (0..whole).step_by(LANES) {
        match d.d_x {
            Some(seed) => (0..LANES).for_each(|lane| one(start + lane, lane, seed[start + lane])),
            None => (0..LANES).for_each(|lane| one(start + lane, lane, T::ZERO)),
        }
    }
    for i in whole..n {
        one(i, i - whole, d.d_x.map_or(T::ZERO, |seed| seed[i]));
    }
    *d.d_rho += acc.into_iter().sum::<T>();
}

kernel! {
    /// Runs [`ProxVjp`].
    pub fn prox_vjp, prox_vjp_at<T>(d: ProxVjp<'_, T>) = prox_vjp_body;
}
