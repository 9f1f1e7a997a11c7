//! The two ways to step through the edge-space system, under one interface.

use super::cg::{EdgeCg, EdgeCgHistory};
use super::system::EdgeSystem;
use crate::Real;
use crate::linalg::scratch::Scratch;
use crate::z_update::InnerReport;
use crate::z_update::descent::rule::Rule;
use sheaf_kernels::vector::norm;

pub(super) enum EdgeSteps<T> {
    Cg(EdgeCg<T>),
    Descent(Rule<T>),
}

/// What a run keeps for its adjoint.
pub(super) enum Trail<'s, T> {
    Cg(EdgeCgHistory<'s, T>),
    Descent {
        x: &'s mut [T],   // [steps, edges]
        v: &'s mut [T],   // [steps, edges]
        d_g: &'s mut [T], // [steps, edges]
    },
}

impl<T: Real> EdgeSteps<T> {
    /// The most products that a run may need.
    pub(super) fn products(&self) -> usize {
        match self {
            Self::Cg(cg) => cg.products(),
            Self::Descent(rule) => rule.slopes().max(1),
        }
    }

    /// Length of the trail.
    pub(super) fn trail_len(&self, edges: usize) -> usize {
        match self {
            Self::Cg(cg) => EdgeCgHistory::<T>::len(cg.stop.max_steps(), edges),
            Self::Descent(rule) => rule.stop.max_steps().saturating_mul(3 * edges),
        }
    }

    pub(super) fn trail<'s>(&self, edges: usize, scratch: &mut Scratch<'s, T>) -> Trail<'s, T> {
        match self {
            Self::Cg(cg) => Trail::Cg(EdgeCgHistory::carve(cg.stop.max_steps(), edges, scratch)),
            Self::Descent(rule) => {
                let len = rule.stop.max_steps() * edges;
                Trail::Descent { x: scratch.take(len), v: scratch.take(len), d_g: scratch.take(len) }
            }
        }
    }

    /// Moves `x` from the start to the end; `work` is `[4, edges]`.
    pub(super) fn run(
        &self,
        system: &mut EdgeSystem<'_, T>,
        x: &mut [T],
        work: &mut [T],
        trail: Option<&mut Trail<'_, T>>,
    ) -> InnerReport {
        match (self, trail) {
            (Self::Cg(cg), None) => cg.run(system, x, work, None),
            (Self::Cg(cg), Some(Trail::Cg(history))) => cg.run(system, x, work, Some(history)),
            (Self::Descent(rule), trail) => {
                let history = match trail {
                    Some(Trail::Descent { x, v, .. }) => Some((&mut **x, &mut **v)),
                    _ => None,
                };
                let (m, g) = work.split_at_mut(x.len());
                let reference = norm(system.b);
                rule.run(system, Some(reference), x, m, &mut g[..x.len()], history)
            }
            (Self::Cg(_), Some(Trail::Descent { .. })) => unreachable!("a trail has the kind of its steps"),
        }
    }

    /// Adjoint of [`run`](Self::run) through the `ran` steps; `d_x` goes from the gradient of the end to that of the
    /// start; returns the gradient of η.
    pub(super) fn run_vjp(
        &self,
        system: &mut EdgeSystem<'_, T>,
        ran: usize,
        start: &[T],
        trail: &mut Trail<'_, T>,
        d_x: &mut [T],
        work: &mut [T],
    ) -> T {
        match (self, trail) {
            (Self::Cg(cg), Trail::Cg(history)) => {
                cg.run_vjp(system, ran, start, history, d_x, work);
                T::ZERO
            }
            (Self::Descent(rule), Trail::Descent { x, v, d_g }) => {
                system.products.count = ran;
                rule.run_vjp(system, ran, x, v, d_x, &mut work[..start.len()], d_g)
            }
            _ => unreachable!("a trail has the kind of its steps"),
        }
    }
}
