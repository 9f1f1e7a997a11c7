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
    // The seed waits where the gradient of g will be.
    match d.d_x {
        Some(seed) => d_g.copy_from_slice(&seed[..n]),
        None => d_g.fill(T::ZERO),
    }
    let mut acc = [T::ZERO; LANES];
    let whole = n - n % LANES;
    for start in (0..whole).step_by(LANES) {
        let at = start..start + LANES;
        let (inv_a, gain) = (&inv_a[at.clone()], &gain[at.clone()]);
        let (w, g, x) = (&w[at.clone()], &g[at.clone()], &x[at.clone()]);
        let (mut d_w_next, mut d_g_next) = ([T::ZERO; LANES], [T::ZERO; LANES]);
        let (mut h, mut hx) = ([T::ZERO; LANES], [T::ZERO; LANES]);
        for i in 0..LANES {
            let seen = d_g[start + i] + d_w[start + i];
            let d_x = if x[i] > T::ZERO { seen } else { T::ZERO };
            h[i] = d_x * inv_a[i];
            hx[i] = h[i] * x[i];
            d_w_next[i] = d_x * gain[i];
            d_g_next[i] = (d_w_next[i] + d_w_next[i]) - d_w[start + i];
            acc[i] += h[i] * (w[i] + (g[i] + g[i]) - x[i]);
        }
        d_w[at.clone()].copy_from_slice(&d_w_next);
        d_g[at.clone()].copy_from_slice(&d_g_next);
        let (d_q, d_diag) = (&mut d_q[at.clone()], &mut d_diag[at]);
        for i in 0..LANES {
            d_q[i] -= h[i];
            d_diag[i] -= hx[i];
        }
    }
    for i in whole..n {
        let d_x = if x[i] > T::ZERO { d_g[i] + d_w[i] } else { T::ZERO };
        let (h, d_v) = (d_x * inv_a[i], d_x * gain[i]);
        d_g[i] = (d_v + d_v) - d_w[i];
        d_w[i] = d_v;
        d_q[i] -= h;
        d_diag[i] -= h * x[i];
        acc[i - whole] += h * (w[i] + (g[i] + g[i]) - x[i]);
    }
    *d.d_rho += acc.into_iter().sum::<T>();
}

kernel! {
    /// Runs [`ProxVjp`].
    pub fn prox_vjp, prox_vjp_at<T>(d: ProxVjp<'_, T>) = prox_vjp_body;
}
