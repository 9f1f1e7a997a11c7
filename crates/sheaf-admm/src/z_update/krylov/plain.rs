//! Conjugate gradients without a preconditioner on one sample: s = r, e = p.
//!
//! The adjoint reads p and k of every step. Residuals are not kept: r_0 = p_0 and r_t = p_t − b_t p_t−1.
//!
//! After the last step of a solve whose residual nothing reads, d_k = d_δ p: its product d_δ k is already available.

use std::ops::Range;

use super::{PerStep, Steps, StepsVjp};
use crate::Real;
use crate::share::Lanes;
use sheaf_kernels::vector::{add, axpy, xpby, xpby_into};

/// How the next direction is made: p = r + b p.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direction<'a, T> {
    pub r: &'a [T],
    /// `None` in the first step: p = r.
    pub b: Option<T>,
    /// The previous p; `None` if it is still in the buffer of the new one.
    pub before: Option<&'a [T]>,
}

impl<T: Real> Direction<'_, T> {
    /// Writes a part of p.
    #[inline]
    pub(crate) fn make(&self, part: Range<usize>, p: &mut [T]) {
        match (self.b, self.before) {
            (Some(b), Some(before)) => xpby_into(p, &self.r[part.clone()], b, &before[part]),
            (Some(b), None) => xpby(p, &self.r[part], b),
            (None, _) => p.copy_from_slice(&self.r[part]),
        }
    }
}

/// A symmetric linear map A whose products are numbered, so that each can keep what its adjoint needs.
pub(crate) trait LinearMap<T: Real> {
    /// k = A p, product number `t`.
    fn apply(&mut self, t: usize, p: &[T], k: &mut [T]);

    /// How inner products of its vectors are added up.
    fn lanes(&self) -> Lanes<'_> {
        Lanes(None)
    }

    /// p = r + b p, k = A p; returns p·k. Fuse it where one sweep can do all three.
    fn turn(&mut self, t: usize, direction: Direction<'_, T>, p: &mut [T], k: &mut [T]) -> T {
        direction.make(0..p.len(), p);
        self.apply(t, p, k);
        self.lanes().dot(p, k)
    }
}

/// A product k = A p and the gradient of k.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a, T> {
    pub p: &'a [T],
    pub k: &'a [T],
    pub d_k: &'a [T],
    /// d_k·p.
    pub along_p: T,
    /// d_k·k.
    pub along_k: T,
}

/// The adjoint of a [`LinearMap`].
pub(crate) trait LinearMapVjp<T: Real> {
    /// out = A d_k, for product number `t`.
    fn apply_vjp(&mut self, t: usize, d_k: &[T], out: &mut [T]);

    /// As [`LinearMap::lanes`].
    fn lanes(&self) -> Lanes<'_> {
        Lanes(None)
    }

    /// out = A d_k where d_k = factor·p, so that out = factor·k; other terms of the gradient of A can be scaled
    /// likewise.
    fn apply_aligned_vjp(&mut self, t: usize, factor: T, pair: &Pair<'_, T>, out: &mut [T]);

    /// out = A d_k, d_p += out; returns d_p·before. Fuse it where one sweep can do all three.
    fn turn_vjp(&mut self, t: usize, d_k: &[T], out: &mut [T], d_p: &mut [T], before: &[T]) -> T {
        self.apply_vjp(t, d_k, out);
        self.lanes().add_dot(d_p, out, before)
    }

    /// Adds the gradient of A that product `t` contributes; `a_dk` is A d_k.
    fn add_pair(&mut self, t: usize, pair: &Pair<'_, T>, a_dk: &[T]);
}

/// A running solve.
#[derive(Debug)]
pub(crate) struct Plain<'s, M, T> {
    map: &'s mut M,
    x: &'s mut [T],
    r: &'s mut [T],
    p: PerStep<'s, T>,
    k: PerStep<'s, T>,
    rr: T,
    end_read: bool,
}

impl<'s, M: LinearMap<T>, T: Real> Plain<'s, M, T> {
    /// A solve from `x`, whose residual is `r`. An adjoint needs `p` and `k` of every step. `end_read` means that the
    /// caller reads the last residual.
    pub(crate) fn new(
        map: &'s mut M,
        x: &'s mut [T],
        r: &'s mut [T],
        p: PerStep<'s, T>,
        k: PerStep<'s, T>,
        end_read: bool,
    ) -> Self {
        let rr = map.lanes().dot(r, r);
        Self { map, x, r, p, k, rr, end_read }
    }
}

impl<M: LinearMap<T>, T: Real> Steps<T> for Plain<'_, M, T> {
    fn measure(&mut self, _sample: usize) -> T {
        self.rr
    }

    fn turn(&mut self, t: usize, _sample: usize, b: Option<T>) -> T {
        let (before, p) = self.p.next(t);
        self.map.turn(t, Direction { r: self.r, b, before }, p, self.k.at_mut(t))
    }

    fn advance(&mut self, t: usize, _sample: usize, a: T, last: bool) {
        if last && !self.end_read {
            return axpy(self.x, a, self.p.at(t));
        }
        self.rr = self.map.lanes().cg_update(self.x, self.r, self.p.at(t), self.k.at(t), a);
    }
}

/// A solve in reverse.
#[derive(Debug)]
pub(crate) struct PlainVjp<'s, M, T> {
    pub map: &'s mut M,
    pub p: &'s [T],                  // [steps, len], as the solve left it
    pub k: &'s [T],                  // [steps, len], likewise
    pub d_x: &'s [T],                // [len], of the solution
    pub d_r: &'s mut [T],            // [len], of the last residual; becomes that of the first
    pub d_p: &'s mut [T],            // [len], 0 at first
    pub a_dk: &'s mut [T],           // [len], scratch
    pub d_k: PerStep<'s, T>,         // [steps or 1, len], scratch
    pub pending: Option<Pending<T>>, // none at first
}

/// The gradient of p = r + b p_prev and c = r·r, applied in one sweep with the next step back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending<T> {
    b: T,
    two_dc: T,
}

impl<M, T: Real> PlainVjp<'_, M, T> {
    fn of(v: &[T], t: usize, len: usize) -> &[T] {
        &v[t * len..][..len]
    }
}

impl<M: LinearMapVjp<T>, T: Real> StepsVjp<T> for PlainVjp<'_, M, T> {
    fn advance_vjp(&mut self, t: usize, _sample: usize, alone: bool) -> T {
        let len = self.d_x.len();
        let (p, k) = (Self::of(self.p, t, len), Self::of(self.k, t, len));
        match self.pending.take() {
            Some(Pending { b, two_dc }) => {
                let p_next = Self::of(self.p, t + 1, len);
                self.map.lanes().cg_back(self.d_r, self.d_p, self.d_x, [p_next, p, k], b, two_dc)
            }
            None if alone => self.map.lanes().dot(self.d_x, p),
            None => self.map.lanes().dot(self.d_x, p) - self.map.lanes().dot(self.d_r, k),
        }
    }

    fn turn_vjp(&mut self, t: usize, _sample: usize, a: T, d_delta: T, alone: bool) -> T {
        let len = self.d_x.len();
        let (p, k) = (Self::of(self.p, t, len), Self::of(self.k, t, len));
        let before = Self::of(self.p, t.saturating_sub(1), len);
        let d_k = self.d_k.at_mut(t);
        let dots = self.map.lanes().cg_back_update(self.d_p, d_k, [self.d_x, self.d_r, p, k], a, d_delta);
        let pair = Pair { p, k, d_k, along_p: dots[0], along_k: dots[1] };
        let d_b = if alone {
            self.map.apply_aligned_vjp(t, d_delta, &pair, self.a_dk);
            self.map.lanes().add_dot(self.d_p, self.a_dk, before)
        } else {
            self.map.turn_vjp(t, pair.d_k, self.a_dk, self.d_p, before)
        };
        self.map.add_pair(t, &pair, self.a_dk);
        d_b
    }

    fn residual_vjp(&mut self, t: usize, _sample: usize, b: T, d_c: T) {
        let two_dc = d_c + d_c;
        if t > 0 {
            self.pending = Some(Pending { b, two_dc });
            return;
        }
        add(self.d_r, self.d_p);
        axpy(self.d_r, two_dc, Self::of(self.p, 0, self.d_x.len()));
    }
}
