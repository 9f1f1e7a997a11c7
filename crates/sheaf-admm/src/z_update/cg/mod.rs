//! Conjugate gradients on the states, by T fixed steps or to a tolerance.
//!
//! The system is A z = b with A = γ·S L S + diag(shift), L = FᵀF and a symmetric node scaling S (absent unless
//! agents have penalties of their own in the hard case).
//!
//! | agreement | A | b | start | result |
//! | --- | --- | --- | --- | --- |
//! | soft | γL + ρ | ρ w | w, or z_prev without gradient | z |
//! | hard, published or carried | L + ε | L w | w − z_prev | w − solution |
//! | hard, exact | L + ε | L w | 0 | w − solution |
//!
//! The published hard variant is inexact. Its start w − z_prev has a part in ker L that the steps cannot remove: with ε
//! = 0 no step changes it, with a small ε a few steps hardly do. So the result has the part of z_prev in ker L instead
//! of that of w and is not the projection of w. The variant exists because the published models were trained through a
//! few of its steps, and their weights are valid only with the same start. For the projection itself use
//! [`CgStart::Zero`], [`Exact`](super::Exact) or [`EdgeSpace`](super::EdgeSpace).
//!
//! With one penalty per agent the hard problem is solved in the scaled variable ρ^½ z, where the weighted projection
//! becomes an ordinary one (S = ρ^−½).
//!
//! The iteration and its adjoint are those of [`krylov`](super::krylov), with C = I.

mod adjoint;
mod ends;
mod kept;
mod system;
mod work;

use super::checks::EdgeSupport;
use super::{Agreement, InnerReport, Stop};
use crate::error::check_positive;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};
use system::System;
use work::Work;

/// Where the iteration starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgStart {
    /// The published choice. Soft: at w. Hard: at w − z_prev, which is inexact: a few steps leave the part of z_prev in
    /// ker L in the result instead of that of w. Use it with weights that were trained with it.
    Published,
    /// Soft: at z_prev, through which no gradient flows. Hard: as [`CgStart::Zero`].
    Warm,
    /// Hard: at 0, which makes the converged result the exact projection. Soft: as [`CgStart::Published`].
    Zero,
    /// Hard: as [`CgStart::Published`], with one product fewer. The first residual L z_prev − ε·start takes L z_prev
    /// from the end of the previous solve, where it is r + ε·solution: the same numbers up to rounding. Rounding errors
    /// in it do not decay, so it is recomputed from time to time, see [`Cg::refresh`]. Soft, or with one penalty per
    /// agent: as [`CgStart::Published`].
    Carried,
}

/// The default of [`Cg::refresh`].
pub const REFRESH: usize = 16;

/// Conjugate gradients on the states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cg<T> {
    /// Hard or soft.
    pub agreement: Agreement<T>,
    /// When to stop; a relative tolerance is relative to the right side b.
    pub stop: Stop<T>,
    /// Where to start.
    pub start: CgStart,
    /// Added to both denominators, so that a solve may continue after it has converged. 1e-8 as published; 0 for solves
    /// to a tight tolerance.
    pub guard: T,
    /// Tikhonov term ε of the hard system L + ε; ignored when soft. 1e-5 as published; 0 for the exact projection.
    pub tikhonov: T,
    /// With [`CgStart::Carried`]: solves from one computation of L z_prev to the next, at least 1; 1 recomputes it
    /// every time. [`REFRESH`] unless set.
    pub refresh: usize,
}

impl<T: Real> Cg<T> {
    /// The published solver: `steps` fixed steps, guard 1e-8, Tikhonov term 1e-5, [`CgStart::Published`]. When hard it
    /// is inexact, see [`CgStart::Published`].
    pub fn published(agreement: Agreement<T>, steps: usize) -> Self {
        Self {
            agreement,
            stop: Stop::Steps(steps),
            start: CgStart::Published,
            guard: T::from_f64(1e-8),
            tikhonov: T::from_f64(1e-5),
            refresh: REFRESH,
        }
    }

    /// A solve to a relative tolerance: no guard, no Tikhonov term, and a start that makes the hard result the exact
    /// projection.
    pub fn to_tolerance(agreement: Agreement<T>, relative: T, max_steps: usize) -> Self {
        Self {
            agreement,
            stop: Stop::Tolerance { absolute: T::ZERO, relative, max_steps },
            start: CgStart::Zero,
            guard: T::ZERO,
            tikhonov: T::ZERO,
            refresh: REFRESH,
        }
    }

    /// Whether gradients are those of the solution: of a solve to a tolerance, unless its start moves the solution.
    pub(super) fn differentiates_solution(&self) -> bool {
        let published = matches!(self.start, CgStart::Published | CgStart::Carried);
        matches!(self.stop, Stop::Tolerance { .. }) && !(published && self.agreement == Agreement::Hard)
    }

    /// Checks the options.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        let (mut edges, mut hint) =
            (EdgeSupport { hard_edges: false, ..EdgeSupport::ALL }, "solve with ZUpdate::Exact");
        if !self.differentiates_solution() {
            (edges, hint) = (EdgeSupport::NONE, "solve to a tolerance with Cg::to_tolerance");
        }
        edges.check("conjugate gradients", self.agreement, op, hint)?;
        if let Agreement::Soft { gamma } = self.agreement {
            check_positive("gamma", gamma.to_f64())?;
        }
        for (place, value) in [("cg guard", self.guard), ("cg tikhonov", self.tikhonov)] {
            if !(value.is_finite() && value >= T::ZERO) {
                return Err(Error::new(ErrorKind::NotPositive, place, "a finite number, 0 or above", value));
            }
        }
        if self.refresh == 0 {
            return Err(Error::new(ErrorKind::NotPositive, "cg refresh", "a number of at least 1", 0)
                .hint("1 computes the product of every start"));
        }
        self.stop.validate("cg")
    }

    /// Length of the carry to the next solve: L z and the number of solves since it was computed.
    pub(crate) fn carry_len(&self, op: &SheafOp<'_, T>) -> usize {
        match (self.agreement, self.start) {
            (Agreement::Hard, CgStart::Carried) => op.sheaf().state_len() + 1,
            _ => 0,
        }
    }

    /// Marks the L z of a carry as not computed: z has changed since.
    pub(crate) fn forget_z(&self, carry: &mut [T]) {
        if let Some(age) = carry.last_mut() {
            *age = T::ZERO;
        }
    }

    /// Scratch of a forward solve.
    pub(crate) fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        Work::len(op)
    }

    /// Solves. Saves: nothing; the adjoint replays.
    pub(crate) fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &mut [T], // carry_len(op)
        z: &mut [T],
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        let (mut work, half) = Work::carve(op, scratch);
        let system = System::new(self, op, rho, half);
        let report = system.run(w, z_prev, carry, z, &mut work, None);
        system.carry_on(work.r, z, carry);
        system.finish(w, z);
        Ok(report)
    }
}
