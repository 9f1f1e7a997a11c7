//! The two ends of a solve of [`cg`](super), each with its adjoint: from the target w to the start and its residual,
//! and from the solution to the result and to the carried product. The table in the documentation of [`cg`](super)
//! lists them.

use std::ops::Range;

use super::CgStart;
use super::system::{StateMap, System, multiply_into};
use super::work::Work;
use crate::Real;
use crate::sheaf::Made;
use crate::x_update::Penalty;
use crate::z_update::{Agreement, ConsensusGrad};
use sheaf_kernels::vector::{add, axpy, scale_into, sub};

impl<T: Real> System<'_, '_, T> {
    /// x = start, r = b − A·start. In every case one Laplacian suffices, or none if it was carried: the parts of b and
    /// A·start that cancel are never formed. The exchanged residuals of the product are left in the first rows of
    /// `map`, if it keeps them.
    pub(super) fn begin(
        &self,
        w: &[T],
        z_prev: &[T],
        carry: &[T],
        x: &mut [T],
        r: &mut [T],
        map: &mut StateMap<'_, '_, '_, T>,
    ) {
        let StateMap { rows, keep, y, .. } = map;
        let s = rows.at_mut(0);
        match (self.cfg.agreement, self.cfg.start) {
            (Agreement::Soft { .. }, start) if !self.op.raw().is_plain() => {
                x.copy_from_slice(if start == CgStart::Warm { z_prev } else { w });
                self.op.raw().affine_laplacian(x, r, y, s);
                r.iter_mut().for_each(|r| *r *= -self.gamma);
                if start == CgStart::Warm {
                    self.add_shifted_difference(r, w, z_prev);
                }
            }
            (Agreement::Soft { .. }, start) => {
                let from = if start == CgStart::Warm { z_prev } else { w };
                let make = |part, x: &mut [T]| x.copy_from_slice(&from[part]);
                let input = Made { to: x, make, from };
                self.op.raw().sweep(-self.gamma, T::ZERO, input, r, y, s, *keep, |_, _, _| {});
                if start == CgStart::Warm {
                    self.add_shifted_difference(r, w, z_prev);
                }
            }
            (Agreement::Hard, CgStart::Published | CgStart::Carried) => {
                sub(x, w, z_prev);
                match self.carried(carry) {
                    Some(l_z) => r.copy_from_slice(l_z),
                    None => self.op.raw().laplacian(z_prev, r, y, s),
                }
                if let Some(half) = self.half {
                    x.iter_mut().zip(half).for_each(|(x, &h)| *x /= h);
                    r.iter_mut().zip(half).for_each(|(r, &h)| *r *= h);
                }
                axpy(r, -self.cfg.tikhonov, x);
            }
            (Agreement::Hard, CgStart::Zero | CgStart::Warm) => {
                x.fill(T::ZERO);
                self.op.raw().affine_laplacian(w, r, y, s);
                if let Some(half) = self.half {
                    r.iter_mut().zip(half).for_each(|(r, &h)| *r *= h);
                }
            }
        }
    }

    /// Adjoint of a start that computes its product; fills its pair (d_k, p, rows of d_k).
    pub(super) fn begin_vjp(
        &self,
        w: &[T],
        z_prev: &[T],
        d_x: &[T],
        d_r: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        (d_k, p, rows_dk): (&mut [T], &mut [T], &mut [T]),
        d_half: &mut [T],
        l_dr: &mut [T],
        work: &mut Work<'_, T>,
    ) {
        // The product of the start is S L y, in the soft case −γ L y: its adjoint pair is (S d_r_0, y) or (−d_r_0, y).
        let soft = self.cfg.agreement != Agreement::Hard;
        let make = |part: Range<usize>, d_k: &mut [T]| match self.half {
            Some(half) => multiply_into(d_k, &half[part.clone()], &d_r[part]),
            None => scale_into(d_k, if soft { -T::ONE } else { T::ONE }, &d_r[part]),
        };
        let input = Made { to: d_k, make, from: d_r };
        self.op.raw().sweep(T::ONE, T::ZERO, input, l_dr, work.y, rows_dk, true, |_, _, _| {});
        match (self.cfg.agreement, self.cfg.start) {
            (Agreement::Soft { .. }, CgStart::Published | CgStart::Zero | CgStart::Carried) => {
                // r_0 = −γ L w, start = w
                add(d_w, d_x);
                axpy(d_w, self.gamma, l_dr);
                *grad.gamma += self.op.sheaf().dot(l_dr, w);
                p.copy_from_slice(w);
            }
            (Agreement::Soft { .. }, CgStart::Warm) => {
                // r_0 = ρ(w − z_prev) − γ L z_prev, start = z_prev without gradient
                let (sheaf, offsets) = (self.op.sheaf(), self.op.sheaf().state_offsets());
                let d_rho = |own: Range<usize>| {
                    own.map(|k| d_r[k] * (w[k] - z_prev[k])).fold(T::ZERO, |sum, term| sum + term)
                };
                for (i, range) in offsets.windows(2).enumerate() {
                    let rho = self.shift.of(i);
                    (range[0]..range[1]).for_each(|k| d_w[k] += rho * d_r[k]);
                    if let Penalty::PerAgent(_) = self.shift {
                        grad.rho[i] += d_rho(range[0]..range[1]);
                    }
                }
                if let Penalty::Scalar(_) = self.shift {
                    grad.rho[0] += sheaf.sums((), |own, ()| [d_rho(own)])[0];
                }
                *grad.gamma += sheaf.dot(l_dr, z_prev);
                p.copy_from_slice(z_prev);
            }
            (Agreement::Hard, CgStart::Published | CgStart::Carried) => {
                // start = S⁻¹(w − z_prev), r_0 = S L z_prev − ε start
                let eps = self.cfg.tikhonov;
                for k in 0..w.len() {
                    let d_start = d_x[k] - eps * d_r[k];
                    let h = self.half.map_or(T::ONE, |half| half[k]);
                    d_w[k] += d_start / h;
                    d_z_prev[k] += l_dr[k] - d_start / h;
                    if self.half.is_some() {
                        d_half[k] -= d_start * (w[k] - z_prev[k]) / (h * h);
                    }
                }
                self.begin_half(z_prev, d_r, d_half, work);
                p.copy_from_slice(z_prev);
            }
            (Agreement::Hard, CgStart::Zero | CgStart::Warm) => {
                // r_0 = S L w
                add(d_w, l_dr);
                self.begin_half(w, d_r, d_half, work);
                p.copy_from_slice(w);
            }
        }
    }

    /// d_S of r_0 = S L y: d_r_0 ∘ L y.
    fn begin_half(&self, y: &[T], d_r: &[T], d_half: &mut [T], work: &mut Work<'_, T>) {
        if self.half.is_some() {
            self.op.raw().laplacian(y, work.tmp, work.y, work.s);
            for k in 0..y.len() {
                d_half[k] += d_r[k] * work.tmp[k];
            }
        }
    }

    /// Adjoint of a start whose L z_prev was carried: start = w − z_prev, r_0 = L z_prev − ε·start. Sets d_carry.
    pub(super) fn begin_carried_vjp(
        &self,
        d_x: &[T],
        d_r: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        d_carry: &mut [T],
    ) {
        for k in 0..d_x.len() {
            let d_start = d_x[k] - self.cfg.tikhonov * d_r[k];
            d_w[k] += d_start;
            d_z_prev[k] -= d_start;
        }
        d_carry[..d_r.len()].copy_from_slice(d_r);
    }

    /// L z_prev, if the previous solve left it. The node scaling changes with the penalties, so nothing is carried if
    /// there is one.
    pub(super) fn carried<'c>(&self, carry: &'c [T]) -> Option<&'c [T]> {
        let (age, l_z) = carry.split_last()?;
        (*age != T::ZERO && self.half.is_none()).then_some(l_z)
    }

    /// Leaves L z = r + ε·solution for the next solve.
    pub(super) fn carry_on(&self, r: &[T], x: &[T], carry: &mut [T]) {
        let Some((age, l_z)) = carry.split_last_mut() else { return };
        if self.half.is_some() {
            return;
        }
        l_z.copy_from_slice(r);
        axpy(l_z, self.cfg.tikhonov, x);
        let refresh = self.cfg.refresh;
        let next = (age.to_f64() as usize % refresh + 1) % refresh;
        *age = T::from_f64(next as f64);
    }

    /// Adjoint of [`carry_on`](Self::carry_on): sets d_r, adds to d_x, leaves 0 in d_carry. Returns whether the next
    /// solve read the carry.
    pub(super) fn carry_on_vjp(&self, d_carry: &mut [T], d_r: &mut [T], d_x: &mut [T]) -> bool {
        d_r.fill(T::ZERO);
        let Some((d_age, d_l_z)) = d_carry.split_last_mut().filter(|_| self.half.is_none()) else {
            return false;
        };
        *d_age = T::ZERO;
        // All ranks must agree: the solve reads the last residual on each, or on none.
        let read = self.op.sheaf().any(d_l_z.iter().any(|&d| d != T::ZERO));
        if read {
            axpy(d_x, self.cfg.tikhonov, d_l_z);
            d_r.copy_from_slice(d_l_z);
            d_l_z.fill(T::ZERO);
        }
        read
    }

    /// Turns the solution into the result.
    pub(super) fn finish(&self, w: &[T], z: &mut [T]) {
        if self.cfg.agreement == Agreement::Hard {
            if let Some(half) = self.half {
                z.iter_mut().zip(half).for_each(|(z, &h)| *z *= h);
            }
            z.iter_mut().zip(w).for_each(|(z, &w)| *z = w - *z);
        }
    }

    /// Adjoint of [`finish`](Self::finish): sets d_x.
    pub(super) fn finish_vjp(&self, x: &[T], d_z: &[T], d_w: &mut [T], d_x: &mut [T], d_half: &mut [T]) {
        match (self.cfg.agreement, self.half) {
            (Agreement::Soft { .. }, _) => d_x.copy_from_slice(d_z),
            (Agreement::Hard, None) => {
                add(d_w, d_z);
                d_x.iter_mut().zip(d_z).for_each(|(d_x, &d_z)| *d_x = -d_z);
            }
            (Agreement::Hard, Some(half)) => {
                add(d_w, d_z);
                for k in 0..x.len() {
                    d_x[k] = -half[k] * d_z[k];
                    d_half[k] -= x[k] * d_z[k];
                }
            }
        }
    }

    /// out += ρ·(a − b), ρ the shift of the soft system.
    pub(super) fn add_shifted_difference(&self, out: &mut [T], a: &[T], b: &[T]) {
        for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
            let rho = self.shift.of(i);
            for k in range[0]..range[1] {
                out[k] += rho * (a[k] - b[k]);
            }
        }
    }
}
