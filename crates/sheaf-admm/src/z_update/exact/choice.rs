//! How a system is solved: by a factor, by conjugate gradients, or in closed form.
//!
//! Soft. Steps of conjugate gradients grow with √(κ‖L‖), up to what the graph allows: a few on random graphs, however large the
//! weights, hundreds on meshes with large weights. Graphs of the second kind have small separators, and thin factors. So a
//! stiff system is tried: if [`TRIAL`] steps with penalty 1, near which scaled problems are solved, do not reduce the residual
//! as much as one consensus step must, and a solve with the factor costs less than they do, it is factored. Systems that are not
//! [`LARGE`] are factored unless a solve with the factor costs more than so many steps.
//!
//! Hard. The pattern of the factor is known before its numbers are, and with it what a factorisation and the solves of
//! [`ITERATIONS`] iterations cost. If the factor fills in, a trial counts the steps of conjugate gradients on the multipliers of the
//! edges, and the cheaper way is taken. For a large graph of random edges the pattern itself takes long: there the trial comes first.

use super::components::Components;
use super::edges::{self, EdgeSolve};
use super::iterative::{Iterative, REDUCE};
use super::stacks::Stacks;
use super::system::System;
use super::{LARGE, Method};
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::z_update::weights::Weights;
use crate::{Real, Result};

/// Steps of conjugate gradients that are too many.
const TRIAL: usize = 40;
/// The largest diagonal entry of L, below which no trial is made: the steps are few on any graph.
const STIFF: f64 = 100.0;
/// A factor with fewer times the entries of its matrix is thin.
const THIN: usize = 4;
/// Iterations over which a factorisation is compared.
const ITERATIONS: f64 = 30.0;
/// Solves with the factor in one hard consensus step.
const SOLVES: f64 = 3.0;
/// How many multiply-adds of a factorisation take as long as one of a solve: blocks are in the cache, a whole factor is not.
const BLOCKED: f64 = 16.0;

/// ±1 at random (SplitMix64): every wave length is in them.
fn signs<T: Real>(n: usize) -> Vec<T> {
    let sign = |k: usize| {
        let mut v = (k as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        v = (v ^ (v >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        v = (v ^ (v >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        v >> 63
    };
    (0..n).map(|k| if sign(k) == 0 { T::ONE } else { -T::ONE }).collect()
}

/// How a system of soft edges is solved; `weight(e)` is γω_e.
pub(super) fn soft<T: Real>(
    op: &SheafOp<'_, T>,
    stacks: &Stacks<'_, T>,
    weight: impl Fn(usize) -> T + Sync,
) -> Result<Method> {
    let factored = || System::of_maps(op, stacks).map(|system| Method::Factor(Box::new(system)));
    let Some(system) = Iterative::new(op, stacks) else { return factored() };
    if system.unknowns() > LARGE {
        return Ok(match factor(op, stacks, &system, weight)? {
            Some(factor) => Method::Factor(Box::new(factor)),
            None => Method::Iterative(Box::new(system)),
        });
    }
    match factored() {
        Ok(Method::Factor(factor)) if is_cheap(&factor, &system) => Ok(Method::Factor(factor)),
        _ => Ok(Method::Iterative(Box::new(system))),
    }
}

/// Whether a solve with the factor costs less than the steps of a trial.
fn is_cheap(factor: &System, system: &Iterative) -> bool {
    2 * factor.symbolic.factor_len() <= TRIAL * system.entries()
}

/// The factor of a large soft system, if it is the better way.
fn factor<T: Real>(
    op: &SheafOp<'_, T>,
    stacks: &Stacks<'_, T>,
    system: &Iterative,
    weight: impl Fn(usize) -> T + Sync,
) -> Result<Option<System>> {
    if system.largest_diagonal(op.sheaf(), stacks, &weight) <= T::from_f64(STIFF) {
        return Ok(None);
    }
    let (n, one) = (op.sheaf().state_len(), Penalty::Scalar(T::ONE));
    let mut kept = vec![T::ZERO; system.room()];
    system.prepare(op, stacks, &Weights::new(&one), weight, &mut kept)?;
    let (w, start) = (signs(n), vec![T::ZERO; n]);
    let (mut z, mut work) = (vec![T::ZERO; n], vec![T::ZERO; system.scratch_len()]);
    let reduce = T::from_f64(REDUCE);
    if system.solve(&kept, &w, &start, reduce, false, &mut z, &mut work, TRIAL)?.converged {
        return Ok(None);
    }
    Ok(System::of_maps(op, stacks).ok().filter(|factor| is_cheap(factor, system)))
}

/// How a system of hard edges is solved.
pub(super) fn hard<T: Real>(op: &SheafOp<'_, T>, stacks: &Stacks<'_, T>) -> Result<Method> {
    if let Some(components) = Components::of_maps(op, stacks) {
        return Ok(Method::Means(components));
    }
    let system = EdgeSolve::new(op.sheaf());
    // Two products with all maps in a step, and vectors.
    let step = 2.0 * op.sheaf().stack_len() as f64 + 10.0 * op.sheaf().edge_len() as f64;
    if op.sheaf().state_len() > LARGE && steps(op, stacks, &system, 2 * TRIAL).is_some() {
        return Ok(Method::Edges(system));
    }
    let factor = match System::of_maps(op, stacks) {
        Ok(factor) if factor.symbolic.factor_len() <= THIN * factor.symbolic.nnz() => {
            return Ok(Method::Factor(Box::new(factor)));
        }
        Ok(factor) => factor,
        // Memory does not hold the factor.
        Err(_) => return Ok(Method::Edges(system)),
    };
    let (len, n) = (factor.symbolic.factor_len() as f64, factor.symbolic.n() as f64);
    let budget = 2.0 * SOLVES * len + len * len / (n * BLOCKED * ITERATIONS);
    let most = (budget / step).min(edges::STEPS as f64) as usize;
    match steps(op, stacks, &system, most) {
        Some(_) => Ok(Method::Edges(system)),
        None => Ok(Method::Factor(Box::new(factor))),
    }
}

/// The steps of conjugate gradients for a consensus step from nothing, if at most so many.
fn steps<T: Real>(
    op: &SheafOp<'_, T>,
    stacks: &Stacks<'_, T>,
    system: &EdgeSolve,
    most: usize,
) -> Option<usize> {
    let (sheaf, one) = (op.sheaf(), Penalty::Scalar(T::ONE));
    let (weights, n, e) = (Weights::new(&one), sheaf.state_len(), sheaf.edge_len());
    let (mut inverse, mut x) = (vec![T::ZERO; e], vec![T::ZERO; e]);
    system.prepare(op, stacks, &weights, &mut inverse);
    let (mut z, mut work) = (vec![T::ZERO; n], vec![T::ZERO; EdgeSolve::scratch_len(sheaf)]);
    let (w, reduce) = (signs(n), edges::REDUCE);
    let report = system.step(op, &weights, &inverse, &w, reduce, most, &mut z, &mut x, &mut work);
    report.converged.then_some(report.steps)
}
