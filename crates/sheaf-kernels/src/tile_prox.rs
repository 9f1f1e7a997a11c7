//! The x-update of agents with x ≥ 0, with the sums around it, in the two vectors that describe an iteration when the
//! duals are the last move of the consensus: z = w + g, u = −g.
//!
//! ```text
//! v = z − u = w + 2g        x = max(0, gain·v − shift)        w' = x + u = x − g
//! gain = ρ/a, shift = q/a, a = D + ρ
//! ```
//!
//! Adjoint, with h = d_x/a where x > 0, else 0, and d_x the gradient of x apart from that of w':
//!
//! ```text
//! d_x += d_w'      d_v = ρh      d_w = d_v      d_g = 2 d_v − d_w'
//! d_q −= h         d_D −= hx     d_ρ += Σ h(v − x)
//! ```
//!
//! Where x > 0, ρ(v − x) = Dx + q: over all iterations d_ρ = −(D·d_D + q·d_q)/ρ, so that neither v nor a running sum is
//! needed.
//!
//! A coordinate at the bound counts as active there and passes no gradient.

use super::simd::kernel;
use super::vector::dot;
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
        // Not `max`: NaN must propagate.
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
    pub x: &'a [T],
    /// Gradient of x apart from that of the next target.
    pub d_x: Option<&'a [T]>,
    /// In: gradient of the next target. Out: of `w`.
    pub d_w: &'a mut [T],
    /// Overwritten by the gradient of `g`.
    pub d_g: &'a mut [T],
    /// Added to.
    pub d_diag: &'a mut [T],
    /// Added to.
    pub d_q: &'a mut [T],
}

#[inline(always)]
fn prox_vjp_loop<T: Real>(d: ProxVjp<'_, T>, seed: impl Fn(usize) -> T) {
    let n = d.x.len();
    let (inv_a, gain) = (&d.inv_a[..n], &d.gain[..n]);
    let (d_w, d_g, d_diag, d_q) = (&mut d.d_w[..n], &mut d.d_g[..n], &mut d.d_diag[..n], &mut d.d_q[..n]);
    for i in 0..n {
        let d_x = if d.x[i] > T::ZERO { d_w[i] + seed(i) } else { T::ZERO };
        let (h, d_v) = (d_x * inv_a[i], d_x * gain[i]);
        d_g[i] = (d_v + d_v) - d_w[i];
        d_w[i] = d_v;
        d_q[i] -= h;
        d_diag[i] -= h * d.x[i];
    }
}

#[inline(always)]
fn prox_vjp_body<T: Real, const FMA: bool>(d: ProxVjp<'_, T>) {
    match d.d_x {
        Some(seed) => {
            let seed = &seed[..d.x.len()];
            prox_vjp_loop(d, |i| seed[i]);
        }
        None => prox_vjp_loop(d, |_| T::ZERO),
    }
}

kernel! {
    /// Runs [`ProxVjp`].
    pub fn prox_vjp, prox_vjp_at<T>(d: ProxVjp<'_, T>) = prox_vjp_body;
}

/// Gradient of ρ over all x-updates of a solve, from their sums in `d_diag` and `d_q`.
pub fn rho_grad<T: Real>(diag: &[T], q: &[T], rho: T, d_diag: &[T], d_q: &[T]) -> T {
    -(dot(diag, d_diag) + dot(q, d_q)) / rho
}
