//! The adjoints of how a conjugate-gradient solve starts and ends. The equations stand at the head of
//! [`cg`](super::cg).

use std::ops::Range;

use super::cg::CgStart;
use super::cg_system::{System, Work, multiply_into};
use super::{Agreement, ConsensusGrad};
use crate::Real;
use crate::linalg::vector::{add, axpy, dot, scale_into};
use crate::sheaf::Made;

impl<T: Real> System<'_, '_, T> {
    /// Adjoint of [`carry_on`](Self::carry_on): sets d_r, adds to d_x, leaves 0 in d_carry. Says whether there was
    /// anything.
    pub(super) fn carry_on_vjp(&self, d_carry: &mut [T], d_r: &mut [T], d_x: &mut [T]) -> bool {
        let Some((_, d_l_z)) = d_carry.split_last() else {
            d_r.fill(T::ZERO);
            return false;
        };
        let read = d_carry.iter().any(|&d| d != T::ZERO);
        d_r.copy_from_slice(d_l_z);
        axpy(d_x, self.cfg.tikhonov, d_l_z);
        d_carry.fill(T::ZERO);
        read
    }

    /// Adjoint of a start whose L z_prev was carried: start = w − z_prev, r_0 = L z_prev − ε·start.
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
            d_carry[k] = d_r[k];
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

    /// Adjoint of the start of a solve; fills its pair (d_q, p, rows of d_q).
    pub(super) fn begin_vjp(
        &self,
        w: &[T],
        z_prev: &[T],
        d_x: &[T],
        d_r: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        (d_q, p, rows_dq): (&mut [T], &mut [T], &mut [T]),
        d_half: &mut [T],
        l_dr: &mut [T],
        work: &mut Work<'_, T>,
    ) {
        // The product of the start is S L y, in the soft case −γ L y: its adjoint pair is (S r̄_0, y) or (−r̄_0, y).
        let soft = self.cfg.agreement != Agreement::Hard;
        let make = |part: Range<usize>, d_q: &mut [T]| match self.half {
            Some(half) => multiply_into(d_q, &half[part.clone()], &d_r[part]),
            None => scale_into(d_q, if soft { -T::ONE } else { T::ONE }, &d_r[part]),
        };
        let input = Made { to: d_q, make };
        self.op.sweep(T::ONE, T::ZERO, input, l_dr, work.y, rows_dq, true, |_, _, _| {});
        match (self.cfg.agreement, self.cfg.start) {
            (Agreement::Soft { .. }, CgStart::Published | CgStart::Zero | CgStart::Carried) => {
                // r_0 = −γ L w, start = w
                add(d_w, d_x);
                axpy(d_w, self.gamma, l_dr);
                *grad.gamma += dot(l_dr, w);
                p.copy_from_slice(w);
            }
            (Agreement::Soft { .. }, CgStart::Warm) => {
                // r_0 = ρ(w − z_prev) − γ L z_prev, start = z_prev without gradient
                for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
                    let rho = self.shift.of(i);
                    let d_rho = &mut grad.rho[self.shift.grad_index(i)];
                    for k in range[0]..range[1] {
                        d_w[k] += rho * d_r[k];
                        *d_rho += d_r[k] * (w[k] - z_prev[k]);
                    }
                }
                *grad.gamma += dot(l_dr, z_prev);
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

    /// d_S of r_0 = S L y: r̄_0 ∘ L y.
    fn begin_half(&self, y: &[T], d_r: &[T], d_half: &mut [T], work: &mut Work<'_, T>) {
        if self.half.is_some() {
            self.op.laplacian(y, work.tmp, work.y, work.s);
            for k in 0..y.len() {
                d_half[k] += d_r[k] * work.tmp[k];
            }
        }
    }

    /// S = ρ^−½: dρ_i = −½ ρ^−3/2 Σ dS.
    pub(super) fn half_to_rho(&self, half: &[T], d_half: &[T], d_rho: &mut [T]) {
        for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
            for k in range[0]..range[1] {
                d_rho[i] -= T::from_f64(0.5) * d_half[k] * half[k] * half[k] * half[k];
            }
        }
    }
}
