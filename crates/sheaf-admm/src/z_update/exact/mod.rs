//! Exact solves by a sparse factorisation, cached from one ADMM iteration to the next.
//!
//! With R̂ = ρ_i/h, h the harmonic mean of the penalties, the matrix on the states is
//!
//! ```text
//! A = R̂ + Σ_e c_e F_eᵀF_e        c_e = γω_e/h on soft edges, τ on hard ones
//! ```
//!
//! It is sparse as the graph is, and is factored by sparse Cholesky with a fill-reducing ordering. Soft:
//! A z = R̂ w + Σ c_e F_eᵀb_e. Hard edges add the multipliers x of F z = b (an augmented Lagrangian): with
//! z(x) = A⁻¹(R̂ w + Σ c_e F_eᵀb_e − Fᵀx), conjugate gradients solve F z(x) = b. Large τ makes all eigenvalues of
//! F A⁻¹Fᵀ that are not 0 nearly equal, so that a few steps suffice; rows of F that depend on each other, as they do around
//! a cycle of agents that all compare the same thing, only make x not unique. τ and the ratios of the penalties do not
//! change with a common factor of ρ: a problem whose edges are all hard is factored once.
//!
//! Where all edges are hard and compare single numbers ([`Exact::for_maps`] looks), the solution has a closed form, a mean
//! over each [component](components), and nothing is factored. Large soft systems ([`Exact::automatic`] looks) are solved by
//! [conjugate gradients](iterative) that start at the previous z, where they [converge quickly](choice); and so are hard and smaller
//! soft ones whose factor would fill in, the hard ones [on the multipliers of the edges](edges).
//!
//! The adjoint is that of the [solution](super::solution), with the same factor. In the hard case this is the derivative
//! along changes of F that keep its rank, the only ones along which the projection is smooth.

mod again;
mod assembly;
mod choice;
mod components;
mod edges;
mod hard;
mod iterative;
mod memory;
mod rows;
mod stacks;
mod system;

use std::sync::Arc;

use super::checks::EdgeSupport;
use super::solution::{Kappa, edge_vjp, edge_vjp_scratch_len};
use super::weights::Weights;
use super::{Agreement, ConsensusGrad, InnerReport};
use crate::error::{check_finite, check_positive};
use crate::linalg::scratch::Scratch;
use crate::sheaf::{Sheaf, SheafOp};
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};
use components::Components;
use edges::EdgeSolve;
use hard::Augmented;
use iterative::{Iterative, REDUCE, STEPS};
use stacks::Stacks;
use system::System;

/// An exact solve. `prepare` must have run with the same maps, offsets, weights and penalty before `forward` and `vjp`,
/// which read the factor from the front of the same scratch.
///
/// ```
/// use sheaf_admm::sheaf::{AgentGraph, Maps, Sheaf, SheafOp};
/// use sheaf_admm::z_update::{Agreement, Exact, ZUpdate};
///
/// // Two agents with one number each, which must be equal.
/// let graph = AgentGraph::from_edges(2, &[(0, 1)])?;
/// let sheaf = Sheaf::heterogeneous(&graph, &[1, 1], &[1])?;
/// let mut stacks = vec![0.0; sheaf.stack_len()];
/// for &place in &sheaf.stack_offsets()[..2] {
///     Sheaf::pack_stack(&[1.0], 1, &mut stacks[place..])?;
/// }
/// let op = SheafOp::new(&sheaf, Maps::PerAgent(&stacks))?;
/// let z_update = ZUpdate::Exact(Exact::for_maps(&op, Agreement::Hard)?);
/// # z_update.validate(&op)?;
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Exact<T> {
    /// Hard or soft; must stay the kind that the solver was made for.
    pub agreement: Agreement<T>,
    plan: Arc<Plan>,
}

/// What is known before any numbers are.
#[derive(Debug)]
struct Plan {
    sheaf: Sheaf,
    soft: bool,
    method: Method,
}

#[derive(Debug)]
enum Method {
    Factor(Box<System>),
    Means(Components),
    Iterative(Box<Iterative>),
    Edges(EdgeSolve),
    /// The pattern of the factor did not fit into memory; the error is returned when it is used.
    TooLarge(Error),
}

impl<T: Real> Exact<T> {
    /// For any maps on this sheaf: every number of an agent counts as coupled to every number of its neighbours. For
    /// selectors and other sparse maps [`for_maps`](Self::for_maps) has a thinner factor.
    pub fn new(sheaf: &Sheaf, agreement: Agreement<T>) -> Self {
        let method =
            System::full(sheaf).map_or_else(Method::TooLarge, |system| Method::Factor(Box::new(system)));
        Self::with(sheaf, agreement, method)
    }

    /// For maps with zeros where these have them. Where all edges are hard and compare single numbers, the solution has a
    /// closed form.
    pub fn for_maps(op: &SheafOp<'_, T>, agreement: Agreement<T>) -> Result<Self> {
        let op = op.sample(0);
        let mut scratch = vec![T::ZERO; Stacks::scratch_len(&op)];
        let stacks = Stacks::new(&op, &mut scratch);
        let means = if agreement == Agreement::Hard { Components::of_maps(&op, &stacks) } else { None };
        let method = match means {
            Some(components) => Method::Means(components),
            None => Method::Factor(Box::new(System::of_maps(&op, &stacks)?)),
        };
        Ok(Self::with(op.sheaf(), agreement, method))
    }

    /// As [`for_maps`](Self::for_maps), but large systems, and those whose factor would fill in, are solved by conjugate gradients
    /// to the accuracy that ADMM needs, where a trial shows that this is faster.
    pub fn automatic(op: &SheafOp<'_, T>, agreement: Agreement<T>) -> Result<Self> {
        let one = op.sample(0);
        let mut scratch = vec![T::ZERO; Stacks::scratch_len(&one)];
        let stacks = Stacks::new(&one, &mut scratch);
        let method = match agreement {
            Agreement::Hard => choice::hard(&one, &stacks)?,
            // The multipliers of hard edges among soft ones need the factor.
            Agreement::Soft { .. } if op.has_hard_edges() => return Self::for_maps(op, agreement),
            Agreement::Soft { gamma } => {
                let weight = |e: usize| gamma * one.edge_weights().map_or(T::ONE, |weights| weights[e]);
                choice::soft(&one, &stacks, weight)?
            }
        };
        Ok(Self::with(one.sheaf(), agreement, method))
    }

    fn with(sheaf: &Sheaf, agreement: Agreement<T>, method: Method) -> Self {
        let soft = agreement != Agreement::Hard;
        Self { agreement, plan: Arc::new(Plan { sheaf: sheaf.clone(), soft, method }) }
    }

    /// Length of the factor; 0 if none is needed.
    pub fn factor_len(&self) -> usize {
        match &self.plan.method {
            Method::Factor(system) => system.symbolic.factor_len(),
            Method::Means(_) | Method::Iterative(_) | Method::Edges(_) | Method::TooLarge(_) => 0,
        }
    }

    /// Whether the solve is only as accurate as ADMM needs it to be.
    pub fn is_iterative(&self) -> bool {
        matches!(self.plan.method, Method::Iterative(_) | Method::Edges(_))
    }

    /// Whether z is nearly affine in the target, so that combinations of iterations mean something.
    pub(crate) fn is_affine(&self) -> bool {
        !matches!(self.plan.method, Method::Iterative(_))
    }

    /// Multipliers λ of large hard problems with Fᵀλ = `slope`, along a spanning tree; leaves what is not explained. False if there
    /// is no such tree.
    pub(super) fn tree_multipliers(&self, lambda: &mut [T], slope: &mut [T]) -> bool {
        match &self.plan.method {
            Method::Means(components) if self.plan.sheaf.state_len() > LARGE => {
                components.multipliers(lambda, slope);
                true
            }
            _ => false,
        }
    }

    /// Checks the options, and that the sheaf is the one the solver was made for.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        EdgeSupport::ALL.check("exact solver", self.agreement, op, "")?;
        let soft = match self.agreement {
            Agreement::Soft { gamma } => check_positive("gamma", gamma.to_f64()).map(|()| true)?,
            Agreement::Hard => false,
        };
        if soft != self.plan.soft {
            let name = |soft| if soft { "soft agreement" } else { "hard agreement" };
            return Err(Error::new(ErrorKind::Unsupported, "exact solver", name(self.plan.soft), name(soft))
                .hint("make another one with Exact::new"));
        }
        if let Method::TooLarge(error) = &self.plan.method {
            return Err(error.clone());
        }
        if *op.sheaf() == self.plan.sheaf { Ok(()) } else { Err(another_sheaf(op)) }
    }

    /// Checks what the solve itself relies on: that all vectors have the lengths of its own sheaf.
    fn check_sheaf(&self, op: &SheafOp<'_, T>) -> Result<()> {
        let lens = |s: &Sheaf| (s.agents(), s.state_len(), s.row_len(), s.edge_len());
        if lens(op.sheaf()) == lens(&self.plan.sheaf) { Ok(()) } else { Err(another_sheaf(op)) }
    }

    /// Factors the system of these maps and this penalty into the front of `scratch`.
    pub(super) fn prepare(&self, op: &SheafOp<'_, T>, rho: &Penalty<'_, T>, scratch: &mut [T]) -> Result<()> {
        self.validate(op)?;
        let weights = Weights::new(rho);
        let (kept, work) = scratch.split_at_mut(self.room());
        let (stacks, work) = work.split_at_mut(Stacks::scratch_len(op));
        let stacks = Stacks::new(op, stacks);
        let system = match &self.plan.method {
            Method::Factor(system) => system,
            Method::Means(components) => {
                return components.prepare(op, &stacks, &mut kept[..op.sheaf().state_len()]);
            }
            Method::Iterative(system) => {
                let weight = |e| self.coefficient(op, &weights, T::ZERO, e) * weights.mean;
                return system.prepare(op, &stacks, &weights, weight, kept);
            }
            Method::Edges(system) => {
                system.prepare(op, &stacks, &weights, &mut kept[..op.sheaf().edge_len()]);
                return Ok(());
            }
            Method::TooLarge(error) => return Err(error.clone()),
        };
        let tau = self.penalty_of_hard_edges(op, system, &stacks);
        let (values, work) = work.split_at_mut(system.symbolic.nnz());
        system.assemble(op, &stacks, &weights, |e| self.coefficient(op, &weights, tau, e), values)?;
        check_finite("exact solver, entries of its matrix", values)?;
        let (factor, rest) = kept.split_at_mut(system.symbolic.factor_len());
        (rest[0], rest[1]) = (tau, T::ZERO);
        #[cfg(test)]
        FACTORED.set(FACTORED.get() + 1);
        T::sparse_factor(&system.symbolic, values, factor, work).map_err(|unknown| {
            Error::new(
                ErrorKind::NotPositiveDefinite,
                format!("pivot {unknown}"),
                "a number above 0",
                "another",
            )
            .hint("the system is too badly scaled for this precision, or has entries that are not finite")
        })?;
        rest[1] = weights.mean;
        Ok(())
    }

    /// τ: large, but not so large that rounding errors of A reach the solution.
    fn penalty_of_hard_edges(&self, op: &SheafOp<'_, T>, system: &System, stacks: &Stacks<'_, T>) -> T {
        if self.agreement != Agreement::Hard && !op.has_hard_edges() {
            return T::ZERO;
        }
        let largest = system.largest_row(op, stacks, |e| self.is_hard(op, e));
        if largest > T::ZERO { stiffness::<T>() / largest } else { T::ONE }
    }

    fn is_hard(&self, op: &SheafOp<'_, T>, e: usize) -> bool {
        self.agreement == Agreement::Hard
            || op.edge_weights().is_some_and(|weights| weights[e] == T::INFINITY)
    }

    /// c_e.
    fn coefficient(&self, op: &SheafOp<'_, T>, weights: &Weights<'_, T>, tau: T, e: usize) -> T {
        match self.agreement {
            Agreement::Soft { gamma } if !self.is_hard(op, e) => {
                gamma / weights.mean * op.edge_weights().map_or(T::ONE, |weights| weights[e])
            }
            _ => tau,
        }
    }

    /// The solution z for target `w` and its multipliers x, with offsets if `affine`.
    fn solve(
        &self,
        op: &SheafOp<'_, T>,
        weights: &Weights<'_, T>,
        kept: &[T],
        w: &[T],
        affine: bool,
        z: &mut [T],
        x: &mut [T],
        work: &mut [T],
    ) -> Result<()> {
        match &self.plan.method {
            Method::Factor(system) => {
                let symbolic = &system.symbolic;
                let (factor, rest) = kept.split_at(symbolic.factor_len());
                let tau = rest[0];
                let coefficient = |e: usize| self.coefficient(op, weights, tau, e);
                let hard = |e: usize| self.is_hard(op, e);
                let row = if tau > T::ZERO { stiffness::<T>() / tau } else { T::ZERO };
                let system = Augmented { op, weights, symbolic, factor, tau, row, coefficient, hard };
                system.solve(w, affine, z, x, work);
                Ok(())
            }
            Method::Means(components) => {
                let n = op.sheaf().state_len();
                components.project(op, weights, affine.then_some(&kept[..n]), w, z, &mut work[..3 * n]);
                let flow = &mut work[..n];
                for (i, range) in op.sheaf().state_offsets().windows(2).enumerate() {
                    (range[0]..range[1]).for_each(|k| flow[k] = (w[k] - z[k]) / weights.of(i));
                }
                components.multipliers(x, flow);
                Ok(())
            }
            Method::Iterative(system) => {
                system.solve(kept, w, w, T::ZERO, affine, z, work, STEPS)?;
                let coefficient = |e| self.coefficient(op, weights, T::ZERO, e);
                let rows = &mut work[..op.sheaf().row_len()];
                system.multipliers(op, coefficient, affine, z, x, rows);
                Ok(())
            }
            Method::Edges(system) => {
                let inverse = &kept[..op.sheaf().edge_len()];
                system.solve(op, weights, inverse, w, affine, z, x, work)
            }
            Method::TooLarge(error) => Err(error.clone()),
        }
    }

    /// Solves. Saves: nothing; the adjoint replays.
    pub(super) fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],      // [states]
        z_prev: &[T], // [states]
        carry: &mut [T],
        z: &mut [T], // [states]
        scratch: &mut [T],
    ) -> Result<InnerReport> {
        self.check_sheaf(op)?;
        let (kept, work) = scratch.split_at_mut(self.room());
        if let Method::Iterative(system) = &self.plan.method {
            return system.solve(kept, w, z_prev, T::from_f64(REDUCE), true, z, work, STEPS);
        }
        if let Method::Edges(system) = &self.plan.method {
            // λ = h x does not change when the penalty does.
            let (weights, inverse) = (Weights::new(rho), &kept[..op.sheaf().edge_len()]);
            carry.iter_mut().for_each(|x| *x /= weights.mean);
            let reduce = edges::reduction(carry);
            let report = system.step(op, &weights, inverse, w, reduce, edges::STEPS, z, carry, work);
            carry.iter_mut().for_each(|x| *x *= weights.mean);
            return Ok(report);
        }
        if let Method::Means(components) = &self.plan.method {
            // Without the multipliers.
            let n = op.sheaf().state_len();
            components.project(op, &Weights::new(rho), Some(&kept[..n]), w, z, &mut work[..3 * n]);
            return Ok(InnerReport { steps: 1, converged: true });
        }
        let mut work = Scratch::new(work);
        let x = work.take(op.sheaf().edge_len());
        self.solve(op, &Weights::new(rho), kept, w, true, z, x, work.rest())?;
        Ok(InnerReport { steps: 1, converged: true })
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_w`, maps, ρ, γ, offsets and weights.
    pub(super) fn vjp(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        _z_prev: &[T],
        _carry: &[T],
        d_z: &[T],
        d_w: &mut [T],
        _d_z_prev: &mut [T],
        d_carry: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        self.check_sheaf(op)?;
        // The solution does not depend on where the solve started.
        d_carry.fill(T::ZERO);
        let (kept, work) = scratch.split_at_mut(self.room());
        let (work, own) = work.split_at_mut(edge_vjp_scratch_len(op.sheaf()));
        let weights = Weights::new(rho);
        let kappa = Kappa::new(self.agreement, T::ZERO, &weights, op);
        edge_vjp(op, self.agreement, weights, kappa, w, d_z, d_w, grad, work, &mut |w, affine, z, x| {
            self.solve(op, &weights, kept, w, affine, z, x, own)
        })
    }
}

#[cfg(test)]
thread_local! {
    /// Factorisations of this thread.
    pub(crate) static FACTORED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The fewest coupled numbers that are worth more than a factorisation.
pub const LARGE: usize = 20_000;

/// τ times the largest squared row of F: large, but far below 1/ε.
fn stiffness<T: Real>() -> T {
    T::from_f64(T::EPSILON.to_f64().powf(-0.4))
}

fn another_sheaf<T: Real>(op: &SheafOp<'_, T>) -> Error {
    let got = format!("another one, of {} agents", op.sheaf().agents());
    Error::new(ErrorKind::Shape, "exact solver", "the sheaf it was made for", got)
        .hint("make one for this sheaf with Exact::new")
}
