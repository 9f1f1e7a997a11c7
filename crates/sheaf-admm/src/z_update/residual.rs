//! How far a state is from the solution of its consensus step, whatever solver made it.
//!
//! With d = ρu = ρ(w − z), the slope that the step must balance:
//!
//! | agreement | at the solution | measured |
//! | --- | --- | --- |
//! | hard | F z = b and d = Fᵀλ for some λ | ‖F z − b‖; ‖d − Fᵀλ‖ only for starts that can leave the range of Fᵀ |
//! | soft | γ FᵀΩ(F z − b) = d | ‖γ FᵀΩ(F z − b) − d‖ |
//! | potential | γ FᵀΩ U'(F z − b) = d | ‖γ FᵀΩ U'(F z − b) − d‖ |
//! | mixed | both, λ on the hard edges | both |
//!
//! Every other hard solver makes z = w − R⁻¹ Fᵀ λ by construction.

use std::ops::Range;

use super::multipliers::{LeastSquares, least_squares};
use super::potential::EdgePotential;
use super::{Agreement, CgStart, ZUpdate};
use crate::Real;
use crate::linalg::norms::{extremes_of_agents, norm, norms_of_agents, norms_of_edges};
use crate::linalg::scratch::Scratch;
use crate::linalg::units::Units;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;

/// The norm of a residual, the size of what it compares, and how many numbers it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured<T> {
    pub value: T,
    pub size: T,
    pub count: usize,
}

/// The residuals of a consensus step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ConsensusResidual<T> {
    /// Of F z = 0 on hard edges.
    pub edges: Option<Measured<T>>,
    /// Of the slopes.
    pub stationarity: Option<Measured<T>>,
}

impl<T: Real> ZUpdate<T> {
    /// Hard or soft, and the potential of soft edges.
    pub(crate) fn agreement(&self) -> (Agreement<T>, EdgePotential<T>) {
        let quadratic = EdgePotential::Quadratic;
        match self {
            Self::Cg(s) => (s.agreement, quadratic),
            Self::Descent(s) => (s.agreement, quadratic),
            Self::Asynchronous(s) => (s.descent.agreement, quadratic),
            Self::EdgeSpace(s) => (s.agreement, quadratic),
            Self::Exact(s) => (s.agreement, quadratic),
            Self::Potential(s) => (Agreement::Soft { gamma: s.gamma }, s.potential),
            Self::Gram(s) => (s.agreement, quadratic),
            Self::Orthonormal(s) => (s.agreement, quadratic),
        }
    }

    /// Whether d = ρ(w − z) may leave the range of Fᵀ in a hard solve.
    pub(crate) fn leaves_range(&self) -> bool {
        matches!(self, Self::Cg(s) if matches!(s.start, CgStart::Published | CgStart::Carried))
    }

    /// Whether [`residual`](Self::residual) costs more than a few products.
    pub(crate) fn residual_is_costly(&self, op: &SheafOp<'_, T>) -> bool {
        op.has_hard_edges() || self.leaves_range() && self.agreement().0 == Agreement::Hard
    }

    /// Length of the scratch of [`residual`](Self::residual).
    pub(crate) fn residual_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let (sheaf, hard) = (op.sheaf(), self.agreement().0 == Agreement::Hard || op.has_hard_edges());
        // The search for multipliers of hard edges.
        let search = if hard { 3 * sheaf.edge_len() + sheaf.state_len() } else { 0 };
        sheaf.row_len() + sheaf.edge_len() + 2 * sheaf.state_len() + search
    }

    /// The residuals of one sample. `goal` gives the goal of the stationarity from its size: a search for the best λ
    /// ends there. With `units`, the slopes of soft edges are compared in them, by the largest number.
    pub(crate) fn residual(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        z: &[T], // [states]
        u: &[T], // [states]
        goal: impl Fn(T) -> T,
        units: Option<&Units<T>>,
        scratch: &mut [T],
    ) -> ConsensusResidual<T> {
        let sheaf = op.sheaf();
        let mut scratch = Scratch::new(scratch);
        let (rows, r) = (scratch.take(sheaf.row_len()), scratch.take(sheaf.edge_len()));
        let (g, d) = (scratch.take(sheaf.state_len()), scratch.take(sheaf.state_len()));
        for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
            for k in range[0]..range[1] {
                d[k] = rho.of(i) * u[k];
            }
        }
        op.raw().residual(z, r, rows);
        let (agreement, _) = self.agreement();
        let hard = |e: usize| is_hard(op, agreement, e);
        let any_hard = agreement == Agreement::Hard || op.has_hard_edges();
        let edges = any_hard.then(|| {
            let (r, rows, offsets) = (&*r, &*rows, op.raw().offsets());
            let values = |e: usize| {
                let (edge, counts) = (&sheaf.edges()[e], hard(e));
                let (u, v, start) = (edge.row_u as usize, edge.row_v as usize, edge.start as usize);
                (0..edge.dim as usize).map(move |k| {
                    let b = offsets.map_or(T::ZERO, |b| b[start + k]);
                    let [r, u, v] = [r[start + k], rows[u + k], rows[v + k]];
                    if counts { [r, u, v, b] } else { [T::ZERO, T::ZERO, T::ZERO, b] }
                })
            };
            let dims =
                sheaf.edges().iter().enumerate().filter(|&(e, _)| hard(e)).map(|(_, e)| e.dim as usize);
            let count = if op.has_hard_edges() { dims.sum() } else { sheaf.whole_edge_len() };
            let [value, u, v, b] = norms_of_edges(sheaf, values);
            Measured { value, size: u.max(v).max(b), count }
        });
        if agreement == Agreement::Hard && !self.leaves_range() {
            return ConsensusResidual { edges, stationarity: None };
        }
        self.pull(op, r);
        op.raw().coboundary_t(r, g, rows);
        if let (false, Some(units)) = (any_hard, units) {
            let offsets = sheaf.state_offsets();
            let (g, d) = (&*g, &*d);
            let values = |own: Range<usize>| {
                (offsets[own.start]..offsets[own.end]).map(move |k| {
                    let slope = units.slope(k);
                    ([slope * (g[k] - d[k])], [slope * g[k], slope * d[k]])
                })
            };
            let ([value], [g, d]) = extremes_of_agents::<_, 1, 2, 3, _>(sheaf, values);
            return ConsensusResidual {
                edges,
                stationarity: Some(Measured { value, size: g.max(d), count: 1 }),
            };
        }
        if !any_hard {
            let (g, d, offsets) = (&*g, &*d, sheaf.state_offsets());
            let [value, g, d] = norms_of_agents(sheaf, |own| {
                (offsets[own.start]..offsets[own.end]).map(move |k| [g[k] - d[k], g[k], d[k]])
            });
            let stationarity = Some(Measured { value, size: g.max(d), count: sheaf.whole_state_len() });
            return ConsensusResidual { edges, stationarity };
        }
        let stationarity = (self.leaves_range() || op.has_hard_edges()).then(|| {
            let size = norm(d.iter().copied());
            d.iter_mut().zip(g.iter()).for_each(|(d, &g)| *d -= g);
            let mut work = LeastSquares::carve(op, rows, g, &mut scratch);
            let value = least_squares(op, d, goal(size), &mut work);
            Measured { value, size, count: z.len() }
        });
        ConsensusResidual { edges, stationarity }
    }

    /// Replaces the residuals of the edges by their multipliers as far as these follow from them: γω U'(r) on soft edges,
    /// 0 on hard ones.
    fn pull(&self, op: &SheafOp<'_, T>, r: &mut [T]) {
        let (agreement, potential) = self.agreement();
        let Agreement::Soft { gamma } = agreement else { return r.fill(T::ZERO) };
        for (e, edge) in op.sheaf().edges().iter().enumerate() {
            let weight = op.edge_weights().map_or(T::ONE, |weights| weights[e]);
            let own = &mut r[edge.start as usize..(edge.start + edge.dim) as usize];
            if weight == T::INFINITY {
                own.fill(T::ZERO);
            } else {
                own.iter_mut().for_each(|r| *r = gamma * weight * potential.slope(*r));
            }
        }
    }

    /// The multipliers γω U'(F z − b) of soft edges; 0 on hard ones.
    pub(crate) fn soft_multipliers(&self, op: &SheafOp<'_, T>, z: &[T], lambda: &mut [T], rows: &mut [T]) {
        op.raw().residual(z, lambda, rows);
        self.pull(op, lambda);
    }

    /// The multipliers of the edges of one sample (the prices of b), `[edge_len]`: γω(F z − b) on soft edges, and on hard
    /// ones the λ for which Fᵀλ is closest to what remains of ρu. Returns the norm of the rest that no λ explains. Where
    /// rows of F depend on each other λ is not unique; this one has the smallest norm, or is 0 off a spanning tree where a
    /// large problem is solved along one ([`Exact`](super::Exact)).
    pub(crate) fn multipliers(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        z: &[T], // [states]
        u: &[T], // [states]
        lambda: &mut [T],
        scratch: &mut [T],
    ) -> T {
        let sheaf = op.sheaf();
        let mut scratch = Scratch::new(scratch);
        let rows = scratch.take(sheaf.row_len());
        let (g, d) = (scratch.take(sheaf.state_len()), scratch.take(sheaf.state_len()));
        if self.agreement().0 == Agreement::Hard {
            // Nothing follows from F z − b, which is 0.
            lambda.fill(T::ZERO);
            g.fill(T::ZERO);
        } else {
            self.soft_multipliers(op, z, lambda, rows);
            op.raw().coboundary_t(lambda, g, rows);
        }
        for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
            for k in range[0]..range[1] {
                d[k] = rho.of(i) * u[k] - g[k];
            }
        }
        if self.agreement().0 != Agreement::Hard && !op.has_hard_edges() {
            return norm(d.iter().copied());
        }
        if let Self::Exact(exact) = self {
            // g is free: the λ of soft edges are 0 where all edges are hard.
            g.copy_from_slice(d);
            if exact.tree_multipliers(lambda, g) {
                return norm(g.iter().copied());
            }
        }
        let goal = T::EPSILON * norm(d.iter().copied());
        let mut work = LeastSquares::carve(op, rows, g, &mut scratch);
        let rest = least_squares(op, d, goal, &mut work);
        lambda.iter_mut().zip(work.lambda.iter()).for_each(|(to, &l)| *to += l);
        rest
    }
}

/// Whether an edge is hard.
fn is_hard<T: Real>(op: &SheafOp<'_, T>, agreement: Agreement<T>, edge: usize) -> bool {
    agreement == Agreement::Hard || op.edge_weights().is_some_and(|weights| weights[edge] == T::INFINITY)
}
