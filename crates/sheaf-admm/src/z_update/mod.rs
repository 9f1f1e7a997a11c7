//! The consensus step: from the target w = x̃ + u to a state z that neighbours agree on.
//!
//! | family | minimises |
//! | --- | --- |
//! | hard | ½‖z − w‖²_ρ subject to F z = 0 |
//! | soft | γ/2‖F z‖² + ½‖z − w‖²_ρ |
//! | potential | γ·U(F z) + ½‖z − w‖²_ρ, U Huber or smoothed l1 |
//!
//! Each kind of solver has its own folder; [`ZUpdate`] dispatches. Every solver provides
//!
//! * `scratch_len`, `carry_len`: its memory; the carry is the warm-start state of a solver from one ADMM iteration to
//!   the next (edge-space multipliers, a product that need not be recomputed), empty for most;
//! * `prepare`: called once per solve, or when the penalty changes (factorisations);
//! * `forward`: w, z_prev, carry → z, carry;
//! * `vjp`: replays the forward pass from the same inputs, then runs it in reverse, adding to every gradient.
//!
//! [`Gram`] and [`Orthonormal`] solve a whole batch at once; the others run sample by sample. States, carries and the
//! kept steps are stored one sample after the other.

mod again;
mod asynchronous;
mod cg;
mod checks;
mod cut;
mod deferred;
mod descent;
mod edge;
mod exact;
mod gram;
mod krylov;
mod memory;
mod multipliers;
mod potential;
mod report;
mod residual;
mod solution;
mod stop;
mod weights;

pub use asynchronous::{Asynchronous, Draw, MAX_DELAY, OutOfStep, When};
pub use cg::{Cg, CgStart, REFRESH};
pub use descent::Descent;
pub use descent::step_size::{
    check_eta_bounds, eta_bounded, eta_bounded_vjp, eta_softplus, eta_softplus_vjp,
};
pub use edge::{EdgeMethod, EdgeSpace};
pub use exact::Exact;
#[cfg(test)]
pub(crate) use exact::FACTORED;
pub use gram::{Gram, Orthonormal};
pub use potential::{EdgePotential, Potential};
pub use report::{InnerReport, InnerTotals};
pub use stop::Stop;

pub(crate) use asynchronous::Streams;
pub(crate) use multipliers::{LeastSquares, least_squares};
pub(crate) use residual::Measured;

use crate::error::check_len;
use crate::sheaf::{MapsGrad, SheafOp};
use crate::x_update::Penalty;
use crate::{Real, Result};
use checks::{check_grad, check_scratch};
use cut::Cut;
use solution::{Accuracy, solution_vjp};

/// How strictly neighbours must agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Agreement<T> {
    /// F z = 0.
    Hard,
    /// Disagreement costs γ/2‖F z‖².
    Soft {
        /// The weight of disagreement.
        gamma: T,
    },
}

/// The gradients of a consensus step, added to.
#[derive(Debug)]
pub struct ConsensusGrad<'g, 'm, T> {
    /// Gradient of the restriction maps.
    pub maps: &'g mut MapsGrad<'m, T>,
    /// Gradient of the penalty: 1 number or one per agent.
    pub rho: &'g mut [T],
    /// Gradient of γ.
    pub gamma: &'g mut T,
    /// Gradient of the step size η.
    pub eta: &'g mut T,
    /// Gradient of the offsets of edges; empty if not needed.
    pub offsets: &'g mut [T], // [samples, edge_len] or []
    /// Gradient of the weights of edges; empty if not needed.
    pub edge_weights: &'g mut [T], // [edges] or []
}

/// A consensus solver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ZUpdate<T> {
    /// Conjugate gradients on the states.
    Cg(Cg<T>),
    /// Gradient descent on the states.
    Descent(Descent<T>),
    /// The same by agents that are not in step.
    Asynchronous(Asynchronous<T>),
    /// Multipliers of the edges, kept from iteration to iteration.
    EdgeSpace(EdgeSpace<T>),
    /// A factorisation, cached.
    Exact(Exact<T>),
    /// Nonlinear edge potentials.
    Potential(Potential<T>),
    /// Conjugate gradients in the space of projections, for shared maps.
    Gram(Gram<T>),
    /// The closed form for orthonormal shared maps.
    Orthonormal(Orthonormal<T>),
}

impl<T: Real> ZUpdate<T> {
    /// Checks the options against the problem.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        crate::share::check_solver(op.sheaf(), self)?;
        match self {
            Self::Cg(s) => s.validate(op),
            Self::Descent(s) => s.validate(op),
            Self::Asynchronous(s) => s.validate(op),
            Self::EdgeSpace(s) => s.validate(op),
            Self::Exact(s) => s.validate(op),
            Self::Potential(s) => s.validate(op),
            Self::Gram(s) => s.validate(op),
            Self::Orthonormal(s) => s.validate(op),
        }
    }

    /// Checks that the solver supports such penalties.
    pub fn validate_penalty(&self, rho: &Penalty<'_, T>) -> Result<()> {
        match self {
            Self::Gram(_) => gram::one_penalty("consensus in Gram space", rho).map(|_| ()),
            Self::Orthonormal(_) => gram::one_penalty("orthonormal consensus", rho).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Whether gradients may reach the previous z: if not, `vjp` leaves `d_z_prev` unchanged.
    pub(crate) fn reads_previous(&self) -> bool {
        !matches!(self, Self::Gram(_) | Self::Orthonormal(_))
    }

    /// Whether its gradient is that of the solution, by one more solve, and not through its steps.
    pub(crate) fn differentiates_solution(&self) -> bool {
        match self {
            Self::Cg(s) => s.differentiates_solution(),
            Self::Descent(s) => matches!(s.stop, Stop::Tolerance { .. }),
            Self::Gram(s) => s.differentiates_solution(),
            _ => true,
        }
    }

    /// Work done once per solve and penalty.
    pub fn prepare(&self, op: &SheafOp<'_, T>, rho: &Penalty<'_, T>, scratch: &mut [T]) -> Result<()> {
        rho.check_count(op.sheaf().agents())?;
        self.validate_penalty(rho)?;
        check_scratch(self.forward_scratch_len(op), scratch.len())?;
        match self {
            Self::Exact(s) => {
                let cut = Cut::new(self, op, 0, 0);
                (0..op.samples()).try_for_each(|b| s.prepare(&op.sample(b), rho, cut.scratch(b, scratch)))
            }
            _ => Ok(()),
        }
    }

    fn check_states<const S: usize, const C: usize>(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        states: [usize; S],
        carries: [usize; C],
    ) -> Result<()> {
        let (n, carry) = (op.state_len(), self.carry_len(op));
        rho.check_count(op.sheaf().agents())?;
        states.into_iter().try_for_each(|len| check_len("z-update: a state or its gradient", n, len))?;
        carries.into_iter().try_for_each(|len| check_len("z-update: the carry or its gradient", carry, len))
    }

    /// z from the target `w` and the previous `z_prev`; `carry` is updated in place. For a batch, returns the steps of
    /// all samples and whether all converged.
    pub fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],      // [samples, states]
        z_prev: &[T], // [samples, states]
        carry: &mut [T],
        z: &mut [T], // [samples, states]
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        let totals =
            self.forward_keeping(When::FIRST, op, rho, w, z_prev, carry, z, &mut [], &[], &mut [], scratch)?;
        Ok(InnerReport { steps: totals.steps, converged: totals.missed == 0 })
    }

    /// As [`forward`](Self::forward). Saves: `kept`, if it is not empty. Samples that are not running keep their z;
    /// an empty `running` means all. Solvers that take a batch at once may overwrite it. `missed` receives whether each
    /// sample that ran missed the tolerance of its solve. `when` matters to agents out of step only.
    pub fn forward_keeping(
        &self,
        when: When,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &mut [T],
        z: &mut [T],
        kept: &mut [T],      // kept_len(op), or empty
        running: &[bool],    // [samples], or empty
        missed: &mut [bool], // [samples], or empty
        scratch: &mut [T],
    ) -> Result<InnerTotals> {
        self.check_states(op, rho, [w.len(), z_prev.len(), z.len()], [carry.len()])?;
        check_scratch(self.forward_scratch_len(op), scratch.len())?;
        if !kept.is_empty() {
            check_len("what a z-update keeps", self.kept_len(op), kept.len())?;
        }
        match self {
            Self::Gram(s) => return s.forward(op, rho, w, z, kept, missed, scratch),
            Self::Orthonormal(s) => return s.forward(op, rho, w, z, kept, scratch),
            _ => {}
        }
        let mut totals = InnerTotals::default();
        let cut = Cut::new(self, op, carry.len(), kept.len());
        for b in (0..op.samples()).filter(|&b| running.get(b).copied().unwrap_or(true)) {
            let (op, states) = (&op.sample(b), cut.states(b));
            let (w, z_prev, z) = (&w[states.clone()], &z_prev[states.clone()], &mut z[states]);
            let (carry, kept) = (&mut carry[cut.carry(b)], &mut kept[cut.kept(b)]);
            let scratch = cut.scratch(b, scratch);
            let report = match self {
                Self::Cg(s) if !kept.is_empty() => {
                    s.forward_keeping(op, rho, w, z_prev, carry, z, kept, scratch)?
                }
                Self::Cg(s) => s.forward(op, rho, w, z_prev, carry, z, scratch)?,
                Self::Descent(s) => s.steps().forward(op, rho, w, z, scratch),
                Self::Asynchronous(s) => s.forward(when.of_sample(b), op, rho, w, z_prev, carry, z, scratch),
                Self::EdgeSpace(s) => s.forward(op, rho, w, z_prev, carry, z, scratch)?,
                Self::Exact(s) => s.forward(op, rho, w, z_prev, carry, z, scratch)?,
                Self::Potential(s) => s.steps().forward(op, rho, w, z, scratch),
                Self::Gram(_) | Self::Orthonormal(_) => InnerReport::default(),
            };
            if let Some(missed) = missed.get_mut(b) {
                *missed = !report.converged;
            }
            totals.add(InnerTotals {
                solves: 1,
                steps: report.steps,
                missed: usize::from(!report.converged),
            });
        }
        Ok(totals)
    }

    /// Adjoint of [`forward`](Self::forward), which it replays. `carry` is the input carry of the forward pass;
    /// `d_carry` holds the gradient of the output carry and is replaced by the gradient of the input carry.
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
        let none = &mut [];
        self.vjp_kept(
            When::FIRST,
            op,
            rho,
            w,
            z_prev,
            carry,
            none,
            &[],
            d_z,
            d_w,
            d_z_prev,
            d_carry,
            grad,
            scratch,
        )
    }

    /// Adjoint of [`forward_keeping`](Self::forward_keeping), with its `kept`. Part of the maps' gradient may be left
    /// there for [`add_deferred`](Self::add_deferred). Samples that were not running must have d_z = 0.
    pub fn vjp_kept(
        &self,
        when: When,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        z_prev: &[T],
        carry: &[T],
        kept: &mut [T],   // kept_len(op), or empty
        running: &[bool], // [samples], or empty
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
        if !kept.is_empty() {
            check_len("what a z-update keeps", self.kept_len(op), kept.len())?;
        }
        match self {
            Self::Gram(s) if !s.differentiates_solution() => {
                return s.vjp(op, rho, w, kept, d_z, d_w, grad, scratch);
            }
            Self::Orthonormal(s) => return s.vjp(op, rho, w, kept, d_z, d_w, grad, scratch),
            _ => {}
        }
        let cut = Cut::new(self, op, carry.len(), kept.len());
        for b in (0..op.samples()).filter(|&b| running.get(b).copied().unwrap_or(true)) {
            let maps = &mut grad.maps.sample(op.sheaf(), op.maps(), b);
            let grad = &mut ConsensusGrad {
                maps,
                rho: grad.rho,
                gamma: grad.gamma,
                eta: grad.eta,
                offsets: cut.offsets(b, grad.offsets),
                edge_weights: grad.edge_weights,
            };
            let (op, states) = (&op.sample(b), cut.states(b));
            let (w, z_prev, d_z) = (&w[states.clone()], &z_prev[states.clone()], &d_z[states.clone()]);
            let (d_w, d_z_prev) = (&mut d_w[states.clone()], &mut d_z_prev[states]);
            let (carry, d_carry) = (&carry[cut.carry(b)], &mut d_carry[cut.carry(b)]);
            let (kept, scratch) = (&mut kept[cut.kept(b)], cut.scratch(b, scratch));
            match self {
                Self::Cg(s) if !kept.is_empty() => {
                    s.vjp_kept(op, rho, w, z_prev, carry, kept, d_z, d_w, d_z_prev, d_carry, grad, scratch)
                }
                Self::Cg(s) => s.vjp(op, rho, w, z_prev, carry, d_z, d_w, d_z_prev, d_carry, grad, scratch),
                Self::Descent(s) => s.steps().vjp(op, rho, w, d_z, d_w, grad, scratch),
                Self::Asynchronous(s) => {
                    let when = when.of_sample(b);
                    s.vjp(when, op, rho, w, z_prev, carry, d_z, d_w, d_z_prev, d_carry, grad, scratch);
                    Ok(())
                }
                Self::EdgeSpace(s) => {
                    s.vjp(op, rho, w, z_prev, carry, d_z, d_w, d_z_prev, d_carry, grad, scratch)
                }
                Self::Exact(s) => {
                    s.vjp(op, rho, w, z_prev, carry, d_z, d_w, d_z_prev, d_carry, grad, scratch)
                }
                Self::Potential(s) => s.steps().vjp(op, rho, w, d_z, d_w, grad, scratch),
                Self::Gram(s) => {
                    let (system, accuracy) = ((s.agreement, s.tikhonov), Accuracy::like(&s.stop));
                    solution_vjp(op, rho, system, accuracy, w, d_z, d_w, grad, scratch)
                }
                Self::Orthonormal(_) => Ok(()),
            }?;
        }
        Ok(())
    }
}
