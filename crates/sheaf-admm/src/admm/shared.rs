//! Solves of large problems: what several ranks can share, and gradients that are added up chunk by chunk.

use super::{Adjoint, Gradients, Options, Problem};
use crate::share::refuse;
use crate::x_update::{Coefficient, Diagonal, Objective, ObjectiveGrad, Penalty};
use crate::z_update::{Agreement, ZUpdate};
use crate::{Real, Result};

impl<T: Real> Problem<'_, T> {
    /// Refuses what ranks cannot share.
    pub(super) fn check_shared(&self, options: &Options<T>) -> Result<()> {
        let sheaf = self.op.sheaf();
        let hard = self.z_update.agreement().0 == Agreement::Hard;
        if options.goals().is_some() && (self.op.has_hard_edges() || hard && self.z_update.leaves_range()) {
            // Whether a multiplier exists is a least-squares problem of all edges.
            let hint = "start conjugate gradients with CgStart::Warm or Zero; or set Options::iterates_only";
            let expected = "edges that are all hard or all soft, and states that stay in the range of Fᵀ";
            refuse(sheaf, "tolerances on all residuals of hard edges", expected, hint)?;
        }
        match (self.z_update, &self.rho) {
            (ZUpdate::Descent(descent), Penalty::PerAgent(_)) if descent.agreement == Agreement::Hard => {
                let hint = "use ZUpdate::Cg, whose scaling needs no mean over all agents";
                refuse(sheaf, "hard descent with a penalty per agent", "one penalty", hint)
            }
            _ => Ok(()),
        }
    }

    /// Refuses gradients that would need a sum over agents of all ranks.
    pub(super) fn check_shared_reverse(
        &self,
        adjoint: Adjoint<T>,
        grads: &Gradients<'_, '_, T>,
    ) -> Result<()> {
        let sheaf = self.op.sheaf();
        if let Adjoint::Implicit { .. } = adjoint {
            refuse(
                sheaf,
                "implicit adjoint",
                "Adjoint::Unrolled or LastSteps",
                "or differentiate in one process",
            )?;
        }
        if self.z_update.differentiates_solution() {
            let hint = "solve with a fixed number of steps";
            refuse(sheaf, "gradient of a consensus step to a tolerance", "a fixed number of steps", hint)?;
        }
        if shares_coefficient(&self.objective, grads.objective) {
            let hint = "give one coefficient per coordinate";
            refuse(sheaf, "gradient of a coefficient that all agents share", "one per coordinate", hint)?;
        }
        Ok(())
    }

    /// The penalty and a gradient for every agent, in place of one for all: over several chunks its gradient is a sum.
    pub(super) fn penalty_of_each(&self, rho: &Penalty<'_, T>) -> Option<(Vec<T>, Vec<T>)> {
        match *rho {
            Penalty::Scalar(rho) if !self.op.sheaf().is_one_chunk() => {
                Some((vec![rho; self.op.agents()], vec![T::ZERO; self.op.agents()]))
            }
            _ => None,
        }
    }

    /// The sum over the agents of all samples.
    pub(super) fn sum_of_each(&self, each: &[T]) -> T {
        let sheaf = self.op.sheaf();
        let samples = each.chunks_exact(sheaf.agents().max(1));
        let one = |each: &[T]| sheaf.sum_of_agents(|own| each[own].iter().fold(T::ZERO, |sum, &d| sum + d));
        if each.is_empty() {
            return one(each);
        }
        samples.map(one).fold(T::ZERO, |sum, one| sum + one)
    }
}

/// Whether a gradient is asked for of a number that all agents share.
fn shares_coefficient<T: Real>(objective: &Objective<'_, T>, grad: &ObjectiveGrad<'_, T>) -> bool {
    match (objective, grad) {
        (Objective::Diagonal(Diagonal { l1, l2, lo, hi, .. }), ObjectiveGrad::Diagonal(d)) => {
            let shared = |c: &Option<Coefficient<'_, T>>| matches!(c, Some(Coefficient::Scalar(_)));
            shared(l1) && d.l1.is_some()
                || shared(l2) && d.l2.is_some()
                || shared(lo) && d.lo.is_some()
                || shared(hi) && d.hi.is_some()
        }
        (Objective::Tether(_), ObjectiveGrad::Tether(d)) => d.beta.is_some(),
        (Objective::Qp(_), ObjectiveGrad::Qp(d)) => d.lo.is_some() || d.hi.is_some(),
        _ => false,
    }
}
