//! The consensus step: from the target w = x̃ + u to a state z that neighbours agree on.
//!
//! | family | minimises |
//! | --- | --- |
//! | hard | ½‖z − w‖²_ρ subject to F z = 0 |
//! | soft | γ/2‖F z‖² + ½‖z − w‖²_ρ |
//! | potential | γ·U(F z) + ½‖z − w‖²_ρ, U Huber or smoothed l1 |
//!
//! One solver a folder; [`ZUpdate`] dispatches. Every solver brings
//!
//! * `scratch_len`, `carry_len`: memory for one sample; the carry is what a solver keeps from one ADMM iteration to
//!   the next (edge-space multipliers, a product that need not be computed again), empty for most;
//! * `prepare`: once per solve, or when the penalty changes (factorisations);
//! * `forward`: w, z_prev, carry → z, carry;
//! * `vjp`: replays the forward from the same inputs, then runs it backwards, adding to every gradient.

mod cg;
mod descent;
mod edge;
mod exact;
mod krylov;
mod potential;
mod stop;
mod weights;

pub use cg::{Cg, CgStart, REFRESH};
pub use descent::Descent;
pub use descent::step_size::{
    check_eta_bounds, eta_bounded, eta_bounded_vjp, eta_softplus, eta_softplus_vjp,
};
pub use edge::{EdgeMethod, EdgeSpace};
pub use exact::Exact;
pub use potential::{EdgePotential, Potential};
pub use stop::Stop;

use crate::error::check_len;
use crate::sheaf::{MapsGrad, SheafOp};
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};

/// How strictly neighbours must agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Agreement<T> {
    /// F z = 0.
    Hard,
    /// γ/2‖F z‖² is paid.
    Soft {
        /// The price of disagreement.
        gamma: T,
    },
}

/// How an inner solve ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InnerReport {
    /// Steps that ran.
    pub steps: usize,
    /// Whether the tolerance was met (always true for a fixed number of steps and for exact solves).
    pub converged: bool,
}

/// Where a consensus step adds its gradients.
#[derive(Debug)]
pub struct ConsensusGrad<'g, 'm, T> {
    /// Of the restriction maps.
    pub maps: &'g mut MapsGrad<'m, T>,
    /// Of the penalty: 1 number or one per agent.
    pub rho: &'g mut [T],
    /// Of γ.
    pub gamma: &'g mut T,
    /// Of the step size η.
    pub eta: &'g mut T,
}

/// A consensus solver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ZUpdate<T> {
    /// Conjugate gradients on the states.
    Cg(Cg<T>),
    /// Gradient descent on the states.
    Descent(Descent<T>),
    /// Multipliers of the edges, kept from iteration to iteration.
    EdgeSpace(EdgeSpace<T>),
    /// A factorisation, cached.
    Exact(Exact<T>),
    /// Nonlinear edge potentials.
    Potential(Potential<T>),
}

impl<T: Real> ZUpdate<T> {
    /// Checks the options against the problem.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        match self {
            Self::Cg(s) => s.validate(op),
            Self::Descent(s) => s.validate(op),
            Self::EdgeSpace(s) => s.validate(op),
            Self::Exact(s) => s.validate(op),
            Self::Potential(s) => s.validate(op),
        }
    }

    /// Numbers of scratch that `prepare`, `forward` and `vjp` share.
    pub fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        match self {
            Self::Cg(s) => s.scratch_len(op),
            Self::Descent(s) => s.steps().scratch_len(op),
            Self::EdgeSpace(s) => s.scratch_len(op),
            Self::Exact(s) => s.scratch_len(op),
            Self::Potential(s) => s.steps().scratch_len(op),
        }
    }

    /// Numbers of scratch that `prepare` and `forward` need when no adjoint will run.
    pub fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        match self {
            Self::Cg(s) => s.forward_scratch_len(op),
            Self::Descent(s) => s.steps().forward_scratch_len(op),
            Self::EdgeSpace(s) => s.forward_scratch_len(op),
            Self::Exact(s) => s.forward_scratch_len(op),
            Self::Potential(s) => s.steps().forward_scratch_len(op),
        }
    }

    /// Numbers carried from one ADMM iteration to the next.
    pub fn carry_len(&self, op: &SheafOp<'_, T>) -> usize {
        match self {
            Self::Cg(s) => s.carry_len(op),
            Self::EdgeSpace(s) => s.carry_len(op),
            Self::Descent(_) | Self::Exact(_) | Self::Potential(_) => 0,
        }
    }

    /// Work done once per solve and penalty.
    pub fn prepare(&self, op: &SheafOp<'_, T>, rho: &Penalty<'_, T>, scratch: &mut [T]) -> Result<()> {
        rho.check_count(op.sheaf().agents())?;
        check_scratch(self.forward_scratch_len(op), scratch.len())?;
        match self {
            Self::Exact(s) => s.prepare(op, rho, scratch),
            Self::Cg(_) | Self::Descent(_) | Self::EdgeSpace(_) | Self::Potential(_) => Ok(()),
        }
    }

    fn check_states<const S: usize, const C: usize>(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        states: [usize; S],
        carries: [usize; C],
    ) -> Result<()> {
        let (n, carry) = (op.sheaf().state_len(), self.carry_len(op));
        rho.check_count(op.sheaf().agents())?;
        states.into_iter().try_for_each(|len| check_len("z-update: a state or its gradient", n, len))?;
        carries.into_iter().try_for_each(|len| check_len("z-update: the carry or its gradient", carry, len))
    }

    /// z from the target `w` and the previous `z_prev`; `carry` goes from the previous iteration's to this one's.
    pub fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],      // [states]
        z_prev: &[T], // [states]
        carry: &mut [T],
        z: &mut [T], // [states]
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        self.check_states(op, rho, [w.len(), z_prev.len(), z.len()], [carry.len()])?;
        check_scratch(self.forward_scratch_len(op), scratch.len())?;
        match self {
            Self::Cg(s) => s.forward(op, rho, w, z_prev, carry, z, scratch),
            Self::Descent(s) => Ok(s.steps().forward(op, rho, w, z, scratch)),
            Self::EdgeSpace(s) => s.forward(op, rho, w, z_prev, carry, z, scratch),
            Self::Exact(s) => s.forward(op, rho, w, z_prev, carry, z, scratch),
            Self::Potential(s) => Ok(s.steps().forward(op, rho, w, z, scratch)),
        }
    }

    /// Adjoint of [`forward`](Self::forward), which it replays. `carry` is the one the forward was given; `d_carry`
    /// holds the gradient of the carry it returned and is replaced by the gradient of the one it was given.
    pub fn vjp(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &[T],
        d_z: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        d_carry: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let states = [w.len(), z_prev.len(), d_z.len(), d_w.len(), d_z_prev.len()];
        self.check_states(op, rho, states, [carry.len(), d_carry.len()])?;
        check_grad(op, rho, grad)?;
        check_scratch(self.scratch_len(op), scratch.len())?;
        match self {
            Self::Cg(s) => s.vjp(op, rho, w, z_prev, carry, d_z, d_w, d_z_prev, d_carry, grad, scratch),
            Self::Descent(s) => s.steps().vjp(op, rho, w, d_z, d_w, grad, scratch),
            Self::EdgeSpace(s) => {
                s.vjp(op, rho, w, z_prev, carry, d_z, d_w, d_z_prev, d_carry, grad, scratch)
            }
            Self::Exact(s) => s.vjp(op, rho, w, z_prev, carry, d_z, d_w, d_z_prev, d_carry, grad, scratch),
            Self::Potential(s) => s.steps().vjp(op, rho, w, d_z, d_w, grad, scratch),
        }
    }
}

impl<T: Real> ZUpdate<T> {
    /// Numbers a forward step can keep so that its adjoint need not replay it; 0 where the adjoint always does.
    pub fn kept_len(&self, op: &SheafOp<'_, T>) -> usize {
        match self {
            Self::Cg(s) => s.kept_len(op),
            _ => 0,
        }
    }

    /// As [`forward`](Self::forward). Saves: `kept`, where it is not empty.
    pub fn forward_keeping(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &mut [T],
        z: &mut [T],
        kept: &mut [T], // kept_len(op), or empty
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        match self {
            Self::Cg(s) if !kept.is_empty() => {
                self.check_states(op, rho, [w.len(), z_prev.len(), z.len()], [carry.len()])?;
                check_len("what a z-update keeps", s.kept_len(op), kept.len())?;
                check_scratch(self.forward_scratch_len(op), scratch.len())?;
                s.forward_keeping(op, rho, w, z_prev, carry, z, kept, scratch)
            }
            _ => self.forward(op, rho, w, z_prev, carry, z, scratch),
        }
    }

    /// Adjoint of [`forward_keeping`](Self::forward_keeping), with what it kept. Part of the maps' gradient may be left
    /// there for [`add_deferred`](Self::add_deferred).
    pub fn vjp_kept(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &[T],
        kept: &mut [T], // kept_len(op), or empty
        d_z: &[T],
        d_w: &mut [T],
        d_z_prev: &mut [T],
        d_carry: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        match self {
            Self::Cg(s) if !kept.is_empty() => {
                let states = [w.len(), z_prev.len(), d_z.len(), d_w.len(), d_z_prev.len()];
                self.check_states(op, rho, states, [carry.len(), d_carry.len()])?;
                check_grad(op, rho, grad)?;
                check_len("what a z-update keeps", s.kept_len(op), kept.len())?;
                check_scratch(self.scratch_len(op), scratch.len())?;
                s.vjp_kept(op, rho, w, z_prev, carry, kept, d_z, d_w, d_z_prev, d_carry, grad, scratch)
            }
            _ => self.vjp(op, rho, w, z_prev, carry, d_z, d_w, d_z_prev, d_carry, grad, scratch),
        }
    }

    /// Adds to the maps' gradient what [`vjp_kept`](Self::vjp_kept) of many steps left for later in what they kept, one
    /// after the other.
    pub fn add_deferred(
        &self,
        op: &SheafOp<'_, T>,
        kept: &mut [T], // [steps, kept_len(op)], or empty
        d_maps: &mut MapsGrad<'_, T>,
    ) -> Result<()> {
        match self {
            Self::Cg(s) if !kept.is_empty() => {
                let one = s.kept_len(op);
                check_len("what z-updates keep", kept.len() / one * one, kept.len())?;
                d_maps.validate(op.sheaf(), op.maps())?;
                s.add_deferred(op, kept, d_maps);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn check_grad<T: Real>(
    op: &SheafOp<'_, T>,
    rho: &Penalty<'_, T>,
    grad: &ConsensusGrad<'_, '_, T>,
) -> Result<()> {
    check_len("gradient of rho", rho.grad_len(op.sheaf().agents()), grad.rho.len())?;
    grad.maps.validate(op.sheaf(), op.maps())
}

fn check_scratch(needed: usize, got: usize) -> Result<()> {
    if got >= needed {
        return Ok(());
    }
    let expected = format!("at least {needed} numbers");
    Err(Error::new(ErrorKind::Shape, "z-update scratch", expected, got)
        .hint("size it with ZUpdate::scratch_len"))
}
