//! Diagonal quadratic with l1, l2 and a box, in closed form, coordinate by coordinate.
//!
//! ```text
//! f(x) = ½ Σ (D + l2) x² + Σ q x + Σ l1 |x|      lo ≤ x ≤ hi
//! a = D + l2 + ρ,  t = (ρv − q)/a,  x = clip(soft(t, l1/a), lo, hi)
//! ```
//!
//! Adjoint, with h = d_x/a where x is off its bounds and out of the dead zone, else 0:
//!
//! ```text
//! d_v += ρh   d_q −= h   d_D −= hx   d_l2 −= hx   d_l1 −= h·sign(x)   d_ρ += Σ h(v − x)
//! x = hi: d_hi += d_x      x = lo: d_lo += d_x
//! ```
//!
//! At kinks one side is taken: a bound that x touches counts as active and gets the whole gradient (where lo = hi,
//! the upper one), and the edge of the dead zone belongs to the dead zone, which passes no gradient. Automatic
//! differentiation of min(max(soft(t, κ), lo), hi) gives the same, except that it halves the gradient where
//! soft(t, κ) meets a bound exactly. Without an l1 term there is no dead zone.
//!
//! | array | shape |
//! | --- | --- |
//! | v, x, D, q and their gradients | `[Σ d_i]` |
//! | l1, l2, lo, hi and their gradients | one number, or `[Σ d_i]` |
//! | ρ, d_ρ | one number, or `[agents]` |

use super::agents::Agents;
use super::coefficient::{Coefficient, check_box, check_weights};
use super::penalty::Penalty;
use crate::error::{check_finite, check_len};
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::diagonal_prox::{self as kernels, CoefVjp, Coefs, Fused, FusedVjp, Prox, ProxVjp, RhoVjp};
use sheaf_kernels::diagonal_sweep::{Sweep, SweepVjp, sweep, sweep_vjp};

/// The parameters of the diagonal family.
#[derive(Clone, Copy, Debug)]
pub struct Diagonal<'a, T> {
    /// D, the diagonal of Q; D + l2 ≥ 0.
    pub diag: &'a [T], // [Σ d_i]
    /// q, the linear term.
    pub q: &'a [T], // [Σ d_i]
    /// The weight of |x|, at least 0.
    pub l1: Option<Coefficient<'a, T>>,
    /// The weight of x²/2, at least 0.
    pub l2: Option<Coefficient<'a, T>>,
    /// The lower bound; −∞ allowed.
    pub lo: Option<Coefficient<'a, T>>,
    /// The upper bound; +∞ allowed.
    pub hi: Option<Coefficient<'a, T>>,
}

/// The gradients of a [`Diagonal`], added to; `None` if one is not needed.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct DiagonalGrad<'a, T> {
    pub diag: Option<&'a mut [T]>,
    pub q: Option<&'a mut [T]>,
    pub l1: Option<&'a mut [T]>, // [1] or [Σ d_i], as the coefficient
    pub l2: Option<&'a mut [T]>,
    pub lo: Option<&'a mut [T]>,
    pub hi: Option<&'a mut [T]>,
}

impl<T> Default for DiagonalGrad<'_, T> {
    fn default() -> Self {
        Self { diag: None, q: None, l1: None, l2: None, lo: None, hi: None }
    }
}

impl<'a, T: Real> Diagonal<'a, T> {
    /// A plain diagonal quadratic ½ Σ D x² + Σ q x; add the other terms by setting their fields.
    pub fn new(diag: &'a [T], q: &'a [T]) -> Self {
        Self { diag, q, l1: None, l2: None, lo: None, hi: None }
    }

    pub(super) fn check_sizes(&self, agents: Agents<'_>) -> Result<()> {
        let n = agents.width();
        check_len("diagonal.diag", n, self.diag.len())?;
        check_len("diagonal.q", n, self.q.len())?;
        self.l1.map_or(Ok(()), |l| l.check_len("diagonal.l1", n))?;
        self.l2.map_or(Ok(()), |l| l.check_len("diagonal.l2", n))?;
        self.lo.map_or(Ok(()), |b| b.check_len("diagonal.lo", n))?;
        self.hi.map_or(Ok(()), |b| b.check_len("diagonal.hi", n))
    }

    pub(super) fn validate(&self, agents: Agents<'_>) -> Result<()> {
        check_finite("diagonal.diag", self.diag)?;
        check_finite("diagonal.q", self.q)?;
        for (name, weight) in [("diagonal.l1", self.l1), ("diagonal.l2", self.l2)] {
            if let Some(weight) = weight {
                check_weights(name, agents, weight)?;
            }
        }
        for i in 0..agents.width() {
            let curvature = self.diag[i] + self.l2.map_or(T::ZERO, |l| l.at(i));
            if curvature < T::ZERO {
                let place = format!("diagonal.diag[{i}] (agent {})", agents.owner(i));
                let expected = "D + l2 at least 0, so that the objective is convex";
                return Err(Error::new(ErrorKind::NotPositiveDefinite, place, expected, curvature)
                    .hint("pass the diagonal through softplus"));
            }
        }
        check_box("diagonal", agents, self.lo, self.hi)
    }

    /// Prepared coefficients, then h.
    pub(super) fn scratch_len(&self, agents: Agents<'_>) -> usize {
        agents.width().saturating_mul(Coefs::<T>::ARRAYS + 1)
    }

    pub(super) fn prepare(&self, agents: Agents<'_>, rho: &Penalty<'_, T>, scratch: &mut [T]) -> Result<()> {
        let n = agents.width();
        let mut arrays = scratch.chunks_exact_mut(n.max(1));
        let mut next = || arrays.next().unwrap_or_default();
        let (inv_a, gain, shift, kappa, lo, hi) = (next(), next(), next(), next(), next(), next());
        match (*rho, self.l2) {
            (Penalty::Scalar(rho), None) => {
                sheaf_kernels::diagonal_sweep::prepare(self.diag, self.q, rho, inv_a, gain, shift);
            }
            _ => {
                for agent in 0..agents.count() {
                    let rho = rho.of(agent);
                    for i in agents.range(agent) {
                        inv_a[i] = T::ONE / (self.diag[i] + self.l2.map_or(T::ZERO, |l| l.at(i)) + rho);
                        gain[i] = rho * inv_a[i];
                        shift[i] = self.q[i] * inv_a[i];
                    }
                }
            }
        }
        match self.l1 {
            None => kappa.fill(T::ZERO),
            Some(l1) => (0..n).for_each(|i| kappa[i] = l1.at(i) * inv_a[i]),
        }
        for (to, bound, none) in [(lo, self.lo, -T::INFINITY), (hi, self.hi, T::INFINITY)] {
            match bound {
                None => to.fill(none),
                Some(Coefficient::Scalar(bound)) => to.fill(bound),
                Some(Coefficient::PerCoordinate(bounds)) => to.copy_from_slice(bounds),
            }
        }
        match inv_a.iter().position(|&inv| !(inv > T::ZERO && inv.is_finite())) {
            None => Ok(()),
            Some(i) => {
                let place = format!("diagonal.diag[{i}] (agent {})", agents.owner(i));
                let got = T::ONE / inv_a[i];
                Err(Error::new(ErrorKind::NotPositiveDefinite, place, "D + l2 + rho above 0", got))
            }
        }
    }

    pub(super) fn prox(&self, agents: Agents<'_>, v: &[T], x: &mut [T], scratch: &mut [T]) {
        let coefs = Coefs::new(scratch, agents.width());
        let soft = self.l1.is_some();
        kernels::prox(Prox { coefs, soft, v, x });
    }

    pub(super) fn vjp(
        &self,
        agents: Agents<'_>,
        rho: &Penalty<'_, T>,
        v: &[T],
        x: &[T],
        d_x: &[T],
        d_v: &mut [T],
        d_rho: &mut [T],
        grad: Option<&mut DiagonalGrad<'_, T>>,
        scratch: &mut [T],
    ) -> Result<()> {
        let n = agents.width();
        let (prepared, h) = scratch.split_at_mut(Coefs::<T>::ARRAYS * n);
        let (coefs, h) = (Coefs::new(prepared, n), &mut h[..n]);
        let soft = self.l1.is_some();
        kernels::prox_vjp(ProxVjp { coefs, soft, x, d_x, d_v, h });
        rho_vjp(agents, rho, v, x, h, d_rho);
        grad.map_or(Ok(()), |grad| self.coef_vjp(coefs, x, d_x, h, grad))
    }

    /// v = z − u, x = prox(v), w = relax·x + (1 − relax)·z + u in one pass.
    pub(super) fn prox_fused(
        &self,
        agents: Agents<'_>,
        z: &[T],
        u: &[T],
        relax: T,
        x: &mut [T],
        w: &mut [T],
        scratch: &mut [T],
    ) {
        let coefs = Coefs::new(scratch, agents.width());
        if let Some((lo, hi)) = self.plain_box() {
            let Coefs { gain, shift, .. } = coefs;
            return sweep(Sweep { gain, shift, lo, hi, z, u, relax, x, w });
        }
        let soft = self.l1.is_some();
        kernels::fused(Fused { coefs, soft, z, u, relax, x, w });
    }

    /// The box, if it is the same for all coordinates and there is no l1 term.
    fn plain_box(&self) -> Option<(T, T)> {
        let bound = |bound: Option<Coefficient<'_, T>>, none: T| match bound {
            None => Some(none),
            Some(Coefficient::Scalar(bound)) => Some(bound),
            Some(Coefficient::PerCoordinate(_)) => None,
        };
        let both = bound(self.lo, -T::INFINITY).zip(bound(self.hi, T::INFINITY));
        both.filter(|_| self.l1.is_none())
    }

    /// The reverse of [`Self::prox_fused`] in one pass, if one pass suffices; returns whether it did. `d_u` is
    /// overwritten, and so is `d_z` where it is fresh.
    pub(super) fn vjp_sweep(
        &self,
        agents: Agents<'_>,
        rho: &Penalty<'_, T>,
        z: &[T],
        u: &[T],
        relax: T,
        x: &[T],
        d_x: &[T],
        d_w: &[T],
        d_z: &mut [T],
        fresh: bool,
        d_u: &mut [T],
        d_rho: &mut [T],
        grad: &mut DiagonalGrad<'_, T>,
        scratch: &[T],
    ) -> bool {
        let n = agents.width();
        let DiagonalGrad { diag: Some(d_diag), q: Some(d_q), l1: _, l2: None, lo: None, hi: None } = grad
        else {
            return false;
        };
        let (Some((lo, hi)), Penalty::Scalar(_)) = (self.plain_box(), rho) else { return false };
        if d_diag.len() != n || d_q.len() != n {
            return false;
        }
        let (Coefs { inv_a, gain, .. }, d_rho) = (Coefs::new(scratch, n), &mut d_rho[0]);
        sweep_vjp(SweepVjp {
            inv_a,
            gain,
            lo,
            hi,
            z,
            u,
            relax,
            x,
            d_x,
            d_w,
            d_z,
            fresh,
            d_u,
            d_diag,
            d_q,
            d_rho,
        });
        true
    }

    /// The reverse of [`Self::prox_fused`]; `spare` holds 2 · [Σ d_i].
    pub(super) fn vjp_fused(
        &self,
        agents: Agents<'_>,
        rho: &Penalty<'_, T>,
        z: &[T],
        u: &[T],
        relax: T,
        x: &[T],
        d_x: &[T],
        d_w: &[T],
        d_z: &mut [T],
        d_u: &mut [T],
        d_rho: &mut [T],
        grad: Option<&mut DiagonalGrad<'_, T>>,
        scratch: &mut [T],
        spare: &mut [T],
    ) -> Result<()> {
        let n = agents.width();
        let (prepared, h) = scratch.split_at_mut(Coefs::<T>::ARRAYS * n);
        let (coefs, h) = (Coefs::new(prepared, n), &mut h[..n]);
        let (v, g) = spare[..2 * n].split_at_mut(n);
        let soft = self.l1.is_some();
        kernels::fused_vjp(FusedVjp { coefs, soft, z, u, relax, x, d_x, d_w, d_z, d_u, v, g, h });
        rho_vjp(agents, rho, v, x, h, d_rho);
        grad.map_or(Ok(()), |grad| self.coef_vjp(coefs, x, g, h, grad))
    }

    fn coef_vjp(
        &self,
        coefs: Coefs<'_, T>,
        x: &[T],
        d_x: &[T],
        h: &[T],
        grad: &mut DiagonalGrad<'_, T>,
    ) -> Result<()> {
        let n = h.len();
        let (l1, d_l1) = placed("diagonal.l1", n, self.l1, &mut grad.l1)?;
        let (l2, d_l2) = placed("diagonal.l2", n, self.l2, &mut grad.l2)?;
        let (lo, d_lo) = placed("diagonal.lo", n, self.lo, &mut grad.lo)?;
        let (hi, d_hi) = placed("diagonal.hi", n, self.hi, &mut grad.hi)?;
        let (d_diag, d_q) = (grad.diag.as_deref_mut(), grad.q.as_deref_mut());
        check_len("gradient of diagonal.diag", n, d_diag.as_ref().map_or(n, |d| d.len()))?;
        check_len("gradient of diagonal.q", n, d_q.as_ref().map_or(n, |d| d.len()))?;
        kernels::coef_vjp(CoefVjp { coefs, x, d_x, h, d_diag, d_q, d_l1, d_l2, d_lo, d_hi });
        add_sum(l1, n, |i| -kernels::sign(x[i]) * h[i]);
        add_sum(l2, n, |i| -h[i] * x[i]);
        add_sum(hi, n, |i| if x[i] >= coefs.hi[i] { d_x[i] } else { T::ZERO });
        add_sum(lo, n, |i| if x[i] <= coefs.lo[i] && x[i] < coefs.hi[i] { d_x[i] } else { T::ZERO });
        Ok(())
    }

    pub(super) fn value(&self, agents: Agents<'_>, x: &[T]) -> T {
        let half = T::from_f64(0.5);
        (0..agents.width())
            .map(|i| {
                let curvature = self.diag[i] + self.l2.map_or(T::ZERO, |l| l.at(i));
                let l1 = self.l1.map_or(T::ZERO, |l| l.at(i));
                (half * curvature * x[i] + self.q[i]) * x[i] + l1 * x[i].abs()
            })
            .sum()
    }
}

fn rho_vjp<T: Real>(agents: Agents<'_>, rho: &Penalty<'_, T>, v: &[T], x: &[T], h: &[T], d_rho: &mut [T]) {
    match rho {
        Penalty::Scalar(_) => kernels::rho_vjp(RhoVjp { runs: &[0, h.len()], v, x, h, d_rho }),
        Penalty::PerAgent(_) => kernels::rho_vjp(RhoVjp { runs: agents.offsets(), v, x, h, d_rho }),
    }
}

/// Sorts a requested gradient by the shape of its coefficient: (the one number, the array).
#[allow(clippy::type_complexity)]
fn placed<'g, T: Real>(
    name: &str,
    width: usize,
    coefficient: Option<Coefficient<'_, T>>,
    grad: &'g mut Option<&mut [T]>,
) -> Result<(Option<&'g mut T>, Option<&'g mut [T]>)> {
    let (Some(coefficient), Some(grad)) = (coefficient, grad.as_deref_mut()) else {
        return Ok((None, None));
    };
    let expected = coefficient.grad_len(width);
    if grad.len() != expected {
        check_len(&format!("gradient of {name}"), expected, grad.len())?;
    }
    Ok(match coefficient {
        Coefficient::Scalar(_) => (grad.first_mut(), None),
        Coefficient::PerCoordinate(_) => (None, Some(grad)),
    })
}

fn add_sum<T: Real>(into: Option<&mut T>, n: usize, term: impl Fn(usize) -> T) {
    if let Some(into) = into {
        *into += (0..n).map(term).sum::<T>();
    }
}
