//! The diagonal prox of most problems, one pass forward and one backward: no l1 term, the same box for all coordinates,
//! one penalty. The results equal those of [`diagonal_prox`](super::diagonal_prox) bit by bit, with half the memory
//! touched.
//!
//! ```text
//! x = min(max(gain·(z − u) − shift, lo), hi)        w = relax·x + (1 − relax)·z + u
//! ```
//!
//! The reverse pass, with g = d_x + relax·d_w and h = g/a where x is off its bounds, else 0:
//!
//! ```text
//! d_z += (1 − relax)·d_w + ρh      d_u = d_w − ρh      d_q −= h      d_D −= hx      d_ρ += Σ h(z − u − x)
//! ```
//!
//! No multiply-add is fused, so every instruction set gives the same bits.

use super::reduce::fold;
use super::simd::kernel;
use crate::Real;

const LANES: usize = 16;

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
    /// gain = ρ/a, shift = q/a and 1/a, with a = D + ρ: the coefficients of a solve.
    pub fn prepare, prepare_at<T>(
        diag: &[T], q: &[T], rho: T, inv_a: &mut [T], gain: &mut [T], shift: &mut [T],
    ) = prepare_body;
}

/// One x-update with the sums around it.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Sweep<'a, T> {
    pub gain: &'a [T],
    pub shift: &'a [T],
    pub lo: T,
    pub hi: T,
    pub z: &'a [T],
    pub u: &'a [T],
    pub relax: T,
    pub x: &'a mut [T],
    pub w: &'a mut [T],
}

#[inline(always)]
fn sweep_body<T: Real, const FMA: bool>(k: Sweep<'_, T>) {
    let n = k.x.len();
    let (gain, shift, z, u) = (&k.gain[..n], &k.shift[..n], &k.z[..n], &k.u[..n]);
    let (w, lo, hi) = (&mut k.w[..n], k.lo, k.hi);
    let (on, off) = (k.relax, T::ONE - k.relax);
    for i in 0..n {
        let t = gain[i] * (z[i] - u[i]) - shift[i];
        // Not `max`: NaN must propagate.
        let t = if lo > t { lo } else { t };
        let x = if hi < t { hi } else { t };
        k.x[i] = x;
        w[i] = (on * x + off * z[i]) + u[i];
    }
}

kernel! {
    /// Runs [`Sweep`].
    pub fn sweep, sweep_at<T>(k: Sweep<'_, T>) = sweep_body;
}

/// The reverse of [`Sweep`], with the gradients of all its inputs.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct SweepVjp<'a, T> {
    pub inv_a: &'a [T],
    pub gain: &'a [T],
    pub lo: T,
    pub hi: T,
    pub z: &'a [T],
    pub u: &'a [T],
    pub relax: T,
    pub x: &'a [T],
    pub d_x: &'a [T],
    pub d_w: &'a [T],
    /// Added to, or overwritten where it is fresh.
    pub d_z: &'a mut [T],
    pub fresh: bool,
    /// Overwritten.
    pub d_u: &'a mut [T],
    /// Added to.
    pub d_diag: &'a mut [T],
    /// Added to.
    pub d_q: &'a mut [T],
    /// Added to.
    pub d_rho: &'a mut T,
}

#[inline(always)]
fn sweep_vjp_loop<T: Real, const FRESH: bool>(k: SweepVjp<'_, T>) {
    let n = k.x.len();
    let SweepVjp { inv_a, gain, z, u, x, d_x, d_w, d_z, d_u, d_diag, d_q, .. } = k;
    let bounds = Bounds { on: k.relax, off: T::ONE - k.relax, lo: k.lo, hi: k.hi };
    let mut sums = [T::ZERO; LANES];
    sweep_vjp_lanes::<T, FRESH>(
        &inv_a[..n],
        &gain[..n],
        &z[..n],
        &u[..n],
        &x[..n],
        &d_x[..n],
        &d_w[..n],
        &mut d_z[..n],
        &mut d_u[..n],
        &mut d_diag[..n],
        &mut d_q[..n],
        bounds,
        &mut sums,
    );
    *k.d_rho += fold(sums);
}

#[derive(Clone, Copy)]
struct Bounds<T> {
    on: T,
    off: T,
    lo: T,
    hi: T,
}

/// Coordinates whose h is held between the two loops of a block.
const BLOCK: usize = 256;

/// A block at a time: one loop without sums, then the sum of d_ρ. Each is simple enough for the compiler to vectorise.
#[inline(always)]
fn sweep_vjp_lanes<T: Real, const FRESH: bool>(
    inv_a: &[T],
    gain: &[T],
    z: &[T],
    u: &[T],
    x: &[T],
    d_x: &[T],
    d_w: &[T],
    d_z: &mut [T],
    d_u: &mut [T],
    d_diag: &mut [T],
    d_q: &mut [T],
    bounds: Bounds<T>,
    sums: &mut [T; LANES],
) {
    let mut h = [T::ZERO; BLOCK];
    for from in (0..x.len()).step_by(BLOCK) {
        let own = from..(from + BLOCK).min(x.len());
        let (x, d_w, h) = (&x[own.clone()], &d_w[own.clone()], &mut h[..own.len()]);
        states_vjp::<T, FRESH>(
            &gain[own.clone()],
            x,
            &d_x[own.clone()],
            d_w,
            &mut d_z[own.clone()],
            &mut d_u[own.clone()],
            h,
            bounds,
        );
        coefs_vjp(&inv_a[own.clone()], x, &mut d_diag[own.clone()], &mut d_q[own.clone()], h);
        rho_sums(&z[own.clone()], &u[own], x, h, sums);
    }
}

/// d_z and d_u; leaves in `h` the gradient that passes the bounds.
#[inline(always)]
fn states_vjp<T: Real, const FRESH: bool>(
    gain: &[T],
    x: &[T],
    d_x: &[T],
    d_w: &[T],
    d_z: &mut [T],
    d_u: &mut [T],
    h: &mut [T],
    Bounds { on, off, lo, hi }: Bounds<T>,
) {
    let n = x.len();
    let (gain, d_x, d_w) = (&gain[..n], &d_x[..n], &d_w[..n]);
    let (d_z, d_u, h) = (&mut d_z[..n], &mut d_u[..n], &mut h[..n]);
    for i in 0..n {
        let total = d_x[i] + on * d_w[i];
        let free = !((x[i] <= lo) | (x[i] >= hi));
        let through = if free { total } else { T::ZERO };
        let d_v = through * gain[i];
        let back = off * d_w[i] + d_v;
        d_z[i] = if FRESH { back } else { d_z[i] + back };
        d_u[i] = d_w[i] - d_v;
        h[i] = through;
    }
}

/// h, d_q and d_D.
#[inline(always)]
fn coefs_vjp<T: Real>(inv_a: &[T], x: &[T], d_diag: &mut [T], d_q: &mut [T], h: &mut [T]) {
    let n = x.len();
    let (inv_a, d_diag, d_q, h) = (&inv_a[..n], &mut d_diag[..n], &mut d_q[..n], &mut h[..n]);
    for i in 0..n {
        h[i] *= inv_a[i];
        d_q[i] += -h[i];
        d_diag[i] += -h[i] * x[i];
    }
}

/// Adds h(z − u − x) to the sums, coordinate i to lane i mod [`LANES`].
#[inline(always)]
fn rho_sums<T: Real>(z: &[T], u: &[T], x: &[T], h: &[T], sums: &mut [T; LANES]) {
    let n = x.len();
    let (z, u, h) = (&z[..n], &u[..n], &h[..n]);
    let (rows, rest) = x.as_chunks::<LANES>();
    for (k, x) in rows.iter().enumerate() {
        let (z, u, h) = (&z[k * LANES..][..LANES], &u[k * LANES..][..LANES], &h[k * LANES..][..LANES]);
        for lane in 0..LANES {
            sums[lane] += h[lane] * ((z[lane] - u[lane]) - x[lane]);
        }
    }
    let first = n - rest.len();
    for (lane, i) in (first..n).enumerate() {
        sums[lane] += h[i] * ((z[i] - u[i]) - x[i]);
    }
}

#[inline(always)]
fn sweep_vjp_body<T: Real, const FMA: bool>(k: SweepVjp<'_, T>) {
    if k.fresh { sweep_vjp_loop::<T, true>(k) } else { sweep_vjp_loop::<T, false>(k) }
}

kernel! {
    /// Runs [`SweepVjp`].
    pub fn sweep_vjp, sweep_vjp_at<T>(k: SweepVjp<'_, T>) = sweep_vjp_body;
}

#[cfg(test)]
mod tests {
    use super::super::diagonal_prox::{self, CoefVjp, Coefs, Fused, FusedVjp, RhoVjp};
    use super::super::simd::Level;
    use super::*;
    use sheaf_testkit::TestRng;

    #[test]
    fn every_level_gives_the_bits_of_the_general_prox() {
        for (n, lo, hi) in
            [(83, -0.5f32, 0.7f32), (16, 0.0, f32::INFINITY), (5, f32::NEG_INFINITY, f32::INFINITY)]
        {
            let mut stream = TestRng::new(1);
            let mut draw = |low: f32, high: f32| -> Vec<f32> {
                (0..n).map(|_| low + (high - low) * stream.uniform() as f32).collect()
            };
            let (inv_a, gain, shift) = (draw(0.3, 1.0), draw(0.2, 0.9), draw(-1.0, 1.0));
            let (los, his) = (vec![lo; n], vec![hi; n]);
            let coefs = Coefs { inv_a: &inv_a, gain: &gain, shift: &shift, kappa: &los, lo: &los, hi: &his };
            let (z, u, relax) = (&draw(-4.0, 4.0)[..], &draw(-1.0, 1.0)[..], 1.6);
            let (d_x, d_w) = (&draw(-1.0, 1.0)[..], &draw(-1.0, 1.0)[..]);
            let [mut x, mut w, mut d_z, mut d_u, mut v, mut g, mut h, mut d_diag, mut d_q] =
                [(); 9].map(|()| vec![0.0; n]);
            let soft = false;
            diagonal_prox::fused(Fused { coefs, soft, z, u, relax, x: &mut x, w: &mut w });
            diagonal_prox::fused_vjp(FusedVjp {
                coefs,
                soft,
                z,
                u,
                relax,
                x: &x,
                d_x,
                d_w,
                d_z: &mut d_z,
                d_u: &mut d_u,
                v: &mut v,
                g: &mut g,
                h: &mut h,
            });
            let mut d_rho = [0.5];
            diagonal_prox::rho_vjp(RhoVjp { runs: &[0, n], v: &v, x: &x, h: &h, d_rho: &mut d_rho });
            let (diag, q) = (Some(&mut d_diag[..]), Some(&mut d_q[..]));
            let (d_l1, d_l2, d_lo, d_hi) = (None, None, None, None);
            let d_x_of = &g;
            diagonal_prox::coef_vjp(CoefVjp {
                coefs,
                x: &x,
                d_x: d_x_of,
                h: &h,
                d_diag: diag,
                d_q: q,
                d_l1,
                d_l2,
                d_lo,
                d_hi,
            });
            let want = [&x, &w, &d_z, &d_u, &d_diag, &d_q]
                .map(|v| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
            for level in [Level::Portable, Level::Avx2, Level::Avx512] {
                for fresh in [true, false] {
                    let [mut x, mut w, mut d_z, mut d_u, mut d_diag, mut d_q] =
                        [(); 6].map(|()| vec![0.0; n]);
                    sweep_at(
                        level,
                        Sweep { gain: &gain, shift: &shift, lo, hi, z, u, relax, x: &mut x, w: &mut w },
                    );
                    let mut sum = 0.5;
                    sweep_vjp_at(
                        level,
                        SweepVjp {
                            inv_a: &inv_a,
                            gain: &gain,
                            lo,
                            hi,
                            z,
                            u,
                            relax,
                            x: &x,
                            d_x,
                            d_w,
                            d_z: &mut d_z,
                            fresh,
                            d_u: &mut d_u,
                            d_diag: &mut d_diag,
                            d_q: &mut d_q,
                            d_rho: &mut sum,
                        },
                    );
                    let got = [&x, &w, &d_z, &d_u, &d_diag, &d_q]
                        .map(|v| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
                    assert_eq!(got, want, "{n} numbers, {level:?}");
                    assert_eq!(sum.to_bits(), d_rho[0].to_bits(), "{n} numbers, {level:?}");
                }
            }
        }
    }
}
