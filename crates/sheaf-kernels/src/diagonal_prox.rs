//! The loops of the diagonal prox, one number per coordinate, over coefficients prepared once per solve:
//!
//! ```text
//! t = gain·v − shift        gain = ρ/a, shift = q/a, kappa = l1/a, a = D + l2 + ρ
//! x = min(max(t − clamp(t, −kappa, kappa), lo), hi)
//! ```
//!
//! The reverse pass reads everything off x: a coordinate on a bound passes its gradient to the bound, a coordinate in
//! the dead zone (x = 0) passes none, the others pass on `h = d_x/a`. All arrays have the same length. Selects instead
//! of branches keep the loops vectorisable. No multiply-add is fused, so every instruction set gives the same bits.

use super::simd::kernel;
use crate::Real;

/// Prepared coefficients, each one number per coordinate.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Coefs<'a, T> {
    pub inv_a: &'a [T],
    pub gain: &'a [T],
    pub shift: &'a [T],
    pub kappa: &'a [T],
    pub lo: &'a [T],
    pub hi: &'a [T],
}

impl<'a, T: Real> Coefs<'a, T> {
    /// Number of prepared arrays.
    pub const ARRAYS: usize = 6;

    /// Views of `n` coordinates into a slice filled in the order of the fields.
    #[inline]
    pub fn new(prepared: &'a [T], n: usize) -> Self {
        let (inv_a, rest) = prepared.split_at(n);
        let (gain, rest) = rest.split_at(n);
        let (shift, rest) = rest.split_at(n);
        let (kappa, rest) = rest.split_at(n);
        let (lo, rest) = rest.split_at(n);
        Self { inv_a, gain, shift, kappa, lo, hi: &rest[..n] }
    }

    /// The prox of one coordinate. NaN in `v` propagates.
    #[inline(always)]
    fn point<const SOFT: bool>(&self, i: usize, v: T) -> T {
        let t = self.gain[i] * v - self.shift[i];
        let s = if SOFT { t - clamp(t, self.kappa[i]) } else { t };
        let s = if self.lo[i] > s { self.lo[i] } else { s };
        if self.hi[i] < s { self.hi[i] } else { s }
    }

    /// True where the gradient passes through: off the bounds and out of the dead zone.
    #[inline(always)]
    fn free<const SOFT: bool>(&self, i: usize, x: T) -> bool {
        let on_bound = (x <= self.lo[i]) | (x >= self.hi[i]);
        !on_bound & (!SOFT | (x != T::ZERO))
    }

    #[inline(always)]
    fn cut(&self, n: usize) -> Self {
        Self {
            inv_a: &self.inv_a[..n],
            gain: &self.gain[..n],
            shift: &self.shift[..n],
            kappa: &self.kappa[..n],
            lo: &self.lo[..n],
            hi: &self.hi[..n],
        }
    }
}

#[inline(always)]
fn clamp<T: Real>(t: T, kappa: T) -> T {
    let low = if -kappa > t { -kappa } else { t };
    if kappa < low { kappa } else { low }
}

/// x = prox(v).
#[allow(missing_docs)]
pub struct Prox<'a, T> {
    pub coefs: Coefs<'a, T>,
    /// Whether there is an l1 term, and with it a dead zone.
    pub soft: bool,
    pub v: &'a [T],
    pub x: &'a mut [T],
}

#[inline(always)]
fn prox_loop<T: Real, const SOFT: bool>(k: Prox<'_, T>) {
    let n = k.x.len();
    let (c, v, x) = (k.coefs.cut(n), &k.v[..n], k.x);
    for i in 0..n {
        x[i] = c.point::<SOFT>(i, v[i]);
    }
}

#[inline(always)]
fn prox_body<T: Real, const FMA: bool>(k: Prox<'_, T>) {
    if k.soft { prox_loop::<T, true>(k) } else { prox_loop::<T, false>(k) }
}

kernel! {
    /// Runs [`Prox`].
    pub fn prox, prox_at<T>(k: Prox<'_, T>) = prox_body;
}

/// h = d_x/a where the gradient passes, else 0; d_v += ρ·h.
#[allow(missing_docs)]
pub struct ProxVjp<'a, T> {
    pub coefs: Coefs<'a, T>,
    /// Whether there is an l1 term, and with it a dead zone.
    pub soft: bool,
    pub x: &'a [T],
    pub d_x: &'a [T],
    pub d_v: &'a mut [T],
    pub h: &'a mut [T],
}

#[inline(always)]
fn prox_vjp_loop<T: Real, const SOFT: bool>(k: ProxVjp<'_, T>) {
    let n = k.h.len();
    let (c, x, d_x, d_v) = (k.coefs.cut(n), &k.x[..n], &k.d_x[..n], &mut k.d_v[..n]);
    for i in 0..n {
        let g = if c.free::<SOFT>(i, x[i]) { d_x[i] } else { T::ZERO };
        k.h[i] = g * c.inv_a[i];
        d_v[i] += g * c.gain[i];
    }
}

#[inline(always)]
fn prox_vjp_body<T: Real, const FMA: bool>(k: ProxVjp<'_, T>) {
    if k.soft { prox_vjp_loop::<T, true>(k) } else { prox_vjp_loop::<T, false>(k) }
}

kernel! {
    /// Runs [`ProxVjp`].
    pub fn prox_vjp, prox_vjp_at<T>(k: ProxVjp<'_, T>) = prox_vjp_body;
}

/// v = z − u, x = prox(v), w = relax·x + (1 − relax)·z + u, in one pass.
#[allow(missing_docs)]
pub struct Fused<'a, T> {
    pub coefs: Coefs<'a, T>,
    /// Whether there is an l1 term, and with it a dead zone.
    pub soft: bool,
    pub z: &'a [T],
    pub u: &'a [T],
    pub relax: T,
    pub x: &'a mut [T],
    pub w: &'a mut [T],
}

#[inline(always)]
fn fused_loop<T: Real, const SOFT: bool>(k: Fused<'_, T>) {
    let n = k.x.len();
    let (c, z, u, w) = (k.coefs.cut(n), &k.z[..n], &k.u[..n], &mut k.w[..n]);
    let (on, off) = (k.relax, T::ONE - k.relax);
    for i in 0..n {
        let x = c.point::<SOFT>(i, z[i] - u[i]);
        k.x[i] = x;
        w[i] = (on * x + off * z[i]) + u[i];
    }
}

#[inline(always)]
fn fused_body<T: Real, const FMA: bool>(k: Fused<'_, T>) {
    if k.soft { fused_loop::<T, true>(k) } else { fused_loop::<T, false>(k) }
}

kernel! {
    /// Runs [`Fused`].
    pub fn fused, fused_at<T>(k: Fused<'_, T>) = fused_body;
}

/// The reverse of [`Fused`]: v = z − u and g = d_x + relax·d_w are kept, h as in [`ProxVjp`];
/// d_z += (1 − relax)·d_w + ρ·h, d_u += d_w − ρ·h.
#[allow(missing_docs)]
pub struct FusedVjp<'a, T> {
    pub coefs: Coefs<'a, T>,
    /// Whether there is an l1 term, and with it a dead zone.
    pub soft: bool,
    pub z: &'a [T],
    pub u: &'a [T],
    pub relax: T,
    pub x: &'a [T],
    pub d_x: &'a [T],
    pub d_w: &'a [T],
    pub d_z: &'a mut [T],
    pub d_u: &'a mut [T],
    pub v: &'a mut [T],
    pub g: &'a mut [T],
    pub h: &'a mut [T],
}

#[inline(always)]
fn fused_vjp_loop<T: Real, const SOFT: bool>(k: FusedVjp<'_, T>) {
    let n = k.h.len();
    let (c, z, u, x) = (k.coefs.cut(n), &k.z[..n], &k.u[..n], &k.x[..n]);
    let (d_x, d_w) = (&k.d_x[..n], &k.d_w[..n]);
    let (d_z, d_u) = (&mut k.d_z[..n], &mut k.d_u[..n]);
    let (v, g, h) = (&mut k.v[..n], &mut k.g[..n], k.h);
    let (on, off) = (k.relax, T::ONE - k.relax);
    for i in 0..n {
        let total = d_x[i] + on * d_w[i];
        let through = if c.free::<SOFT>(i, x[i]) { total } else { T::ZERO };
        let d_v = through * c.gain[i];
        v[i] = z[i] - u[i];
        g[i] = total;
        h[i] = through * c.inv_a[i];
        d_z[i] += off * d_w[i] + d_v;
        d_u[i] += d_w[i] - d_v;
    }
}

#[inline(always)]
fn fused_vjp_body<T: Real, const FMA: bool>(k: FusedVjp<'_, T>) {
    if k.soft { fused_vjp_loop::<T, true>(k) } else { fused_vjp_loop::<T, false>(k) }
}

kernel! {
    /// Runs [`FusedVjp`].
    pub fn fused_vjp, fused_vjp_at<T>(k: FusedVjp<'_, T>) = fused_vjp_body;
}

/// The gradients of the per-coordinate coefficients, given h and the gradient `d_x` of x.
#[allow(missing_docs)]
pub struct CoefVjp<'a, T> {
    pub coefs: Coefs<'a, T>,
    pub x: &'a [T],
    pub d_x: &'a [T],
    pub h: &'a [T],
    pub d_diag: Option<&'a mut [T]>,
    pub d_q: Option<&'a mut [T]>,
    pub d_l1: Option<&'a mut [T]>,
    pub d_l2: Option<&'a mut [T]>,
    pub d_lo: Option<&'a mut [T]>,
    pub d_hi: Option<&'a mut [T]>,
}

#[inline(always)]
fn coef_vjp_body<T: Real, const FMA: bool>(k: CoefVjp<'_, T>) {
    let n = k.h.len();
    let (c, h, x, d_x) = (k.coefs.cut(n), k.h, &k.x[..n], &k.d_x[..n]);
    // x = (ρv − q − sign(x)·l1)/a off the kinks, hence −1/a, −sign/a and −x/a.
    add(k.d_q, n, |i| -h[i]);
    add(k.d_l1, n, |i| -sign(x[i]) * h[i]);
    add(k.d_diag, n, |i| -h[i] * x[i]);
    add(k.d_l2, n, |i| -h[i] * x[i]);
    add(k.d_hi, n, |i| if x[i] >= c.hi[i] { d_x[i] } else { T::ZERO });
    add(k.d_lo, n, |i| if (x[i] <= c.lo[i]) & (x[i] < c.hi[i]) { d_x[i] } else { T::ZERO });
}

kernel! {
    /// Runs [`CoefVjp`].
    pub fn coef_vjp, coef_vjp_at<T>(k: CoefVjp<'_, T>) = coef_vjp_body;
}

#[inline(always)]
fn add<T: Real>(into: Option<&mut [T]>, n: usize, term: impl Fn(usize) -> T) {
    if let Some(into) = into {
        for (i, out) in into[..n].iter_mut().enumerate() {
            *out += term(i);
        }
    }
}

/// −1 below 0, else 1.
#[inline(always)]
pub fn sign<T: Real>(x: T) -> T {
    if x < T::ZERO { -T::ONE } else { T::ONE }
}

/// `d_rho[k] += Σ h·(v − x)` over the k-th run of coordinates.
#[allow(missing_docs)]
pub struct RhoVjp<'a, T> {
    pub runs: &'a [usize], // [runs + 1], absolute
    pub v: &'a [T],
    pub x: &'a [T],
    pub h: &'a [T],
    pub d_rho: &'a mut [T], // [runs]
}

#[inline(always)]
fn rho_vjp_body<T: Real, const FMA: bool>(k: RhoVjp<'_, T>) {
    let first = k.runs[0];
    for (run, d_rho) in k.runs.windows(2).zip(k.d_rho) {
        let at = run[0] - first..run[1] - first;
        *d_rho += gap_dot(&k.h[at.clone()], &k.v[at.clone()], &k.x[at]);
    }
}

kernel! {
    /// Runs [`RhoVjp`].
    pub fn rho_vjp, rho_vjp_at<T>(k: RhoVjp<'_, T>) = rho_vjp_body;
}

/// Independent partial sums of [`gap_dot`]: one AVX-512 vector of `f32`, little waste for short stalks.
const LANES: usize = 16;

/// Σ h·(a − b), in interleaved partial sums that are then added pairwise: the same order on every machine.
#[inline(always)]
pub fn gap_dot<T: Real>(h: &[T], a: &[T], b: &[T]) -> T {
    let mut acc = [T::ZERO; LANES];
    let n = h.len();
    let (a, b) = (&a[..n], &b[..n]);
    let done = n - n % LANES;
    let chunks = h.chunks_exact(LANES).zip(a.chunks_exact(LANES)).zip(b.chunks_exact(LANES));
    for ((h, a), b) in chunks {
        for l in 0..LANES {
            acc[l] += h[l] * (a[l] - b[l]);
        }
    }
    for i in done..n {
        acc[i - done] += h[i] * (a[i] - b[i]);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            acc[l] += acc[l + width];
        }
        width /= 2;
    }
    acc[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;
    use sheaf_testkit::TestRng;

    /// x, w, then every gradient, of one fused step and its reverse at a level, as bits.
    fn bits(level: Level, soft: bool) -> Vec<u32> {
        const N: usize = 83;
        let mut stream = TestRng::new(1);
        let mut draw = |low: f32, high: f32| -> Vec<f32> {
            (0..N).map(|_| low + (high - low) * stream.uniform() as f32).collect()
        };
        let (inv_a, gain, shift) = (draw(0.3, 1.0), draw(0.2, 0.9), draw(-1.0, 1.0));
        let (kappa, lo, hi) = (draw(0.0, 0.5), draw(-1.0, -0.5), draw(0.5, 1.0));
        let coefs = Coefs { inv_a: &inv_a, gain: &gain, shift: &shift, kappa: &kappa, lo: &lo, hi: &hi };
        let (z, u, d_x, d_w) = (draw(-4.0, 4.0), draw(-1.0, 1.0), draw(-1.0, 1.0), draw(-1.0, 1.0));
        let mut out = vec![vec![0.0f32; N]; 14];
        let [x, w, y, d_z, d_u, v, g, h, d_q, d_l1, d_lo, d_hi, d_v, rest] = &mut out[..] else {
            unreachable!()
        };
        let relax = 1.6;
        fused_at(level, Fused { coefs, soft, z: &z, u: &u, relax, x, w });
        prox_at(level, Prox { coefs, soft, v: &z, x: y });
        let (z, u, d_x, d_w) = (&z[..], &u[..], &d_x[..], &d_w[..]);
        fused_vjp_at(level, FusedVjp { coefs, soft, z, u, relax, x, d_x, d_w, d_z, d_u, v, g, h });
        rho_vjp_at(level, RhoVjp { runs: &[0, 10, 83], v, x, h, d_rho: &mut rest[..2] });
        prox_vjp_at(level, ProxVjp { coefs, soft, x: y, d_x, d_v, h });
        let (d_q, d_l1, d_lo, d_hi) =
            (Some(&mut d_q[..]), Some(&mut d_l1[..]), Some(&mut d_lo[..]), Some(&mut d_hi[..]));
        coef_vjp_at(level, CoefVjp { coefs, x: y, d_x, h, d_diag: None, d_q, d_l1, d_l2: None, d_lo, d_hi });
        out.iter().flatten().map(|x| x.to_bits()).collect()
    }

    #[test]
    fn every_level_gives_the_bits_of_the_portable_twin() {
        for soft in [false, true] {
            assert_eq!(bits(Level::Portable, soft), bits(Level::Avx2, soft));
            assert_eq!(bits(Level::Portable, soft), bits(Level::Avx512, soft));
        }
    }
}
