//! The slope of the consensus energy in the states, for descent.
//!
//! With y = P x, r = D y, s = Dᵀ U'(r) (for a quadratic U: s = DᵀD y, one pass):
//!
//! | coupling | slope g | its adjoint, ŝ = Dᵀ(U''(r)∘D P ḡ) |
//! | --- | --- | --- |
//! | hard | S Pᵀ s | first ḡ ← S ḡ; x̄ += Pᵀ ŝ; d_s_i += (P ḡ)_i·s_i / s_i (one penalty per agent only) |
//! | soft | γ Pᵀ s + ρ (x − w) | x̄ += γ Pᵀ ŝ + ρ ḡ; γ̄ += P ḡ·s = x·Pᵀ ŝ (quadratic U) or D P ḡ·U'(r); w̄ −= ρ ḡ; ρ̄ += ḡ·(x − w) |
//!
//! In both, the maps receive dF += scale·(s ḡᵀ + ŝ xᵀ), scale 1 or γ. The s and ŝ of all steps are kept, and their
//! outer products added at once.

use std::ops::Range;

use super::rule::{Rule, Slope};
use crate::error::check_positive;
use crate::linalg::scratch::Scratch;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::z_update::checks::EdgeSupport;
use crate::z_update::potential::{EdgePotential, potential_scratch_len, potential_vjp};
use crate::z_update::solution::{Accuracy, solution_scratch_len, solution_vjp};
use crate::z_update::weights::Weights;
use crate::z_update::{Agreement, ConsensusGrad, InnerReport, Stop};
use crate::{Real, Result};
use sheaf_kernels::vector::{add, axpy, dot};

/// The energy of the states.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Coupling<T> {
    /// ½‖F z‖², in the metric of the penalties.
    Hard,
    /// γ Σ U(F z) + ½‖z − w‖²_ρ.
    Soft { gamma: T, potential: EdgePotential<T> },
}

impl<T: Real> Coupling<T> {
    /// γ; 1 when hard.
    fn gamma(&self) -> T {
        match *self {
            Self::Hard => T::ONE,
            Self::Soft { gamma, .. } => gamma,
        }
    }

    fn potential(&self) -> EdgePotential<T> {
        match *self {
            Self::Hard => EdgePotential::Quadratic,
            Self::Soft { potential, .. } => potential,
        }
    }

    /// Whether the slope is a product with L: not with another potential, nor with offsets or weights of edges.
    fn is_linear(&self, op: &SheafOp<'_, T>) -> bool {
        self.potential() == EdgePotential::Quadratic && op.raw().is_plain()
    }

    /// Length of the edge vectors that other slopes need.
    fn edge_len(&self, op: &SheafOp<'_, T>) -> usize {
        if self.is_linear(op) { 0 } else { op.sheaf().edge_len() }
    }
}

struct NodeSlope<'a, T> {
    op: &'a SheafOp<'a, T>,
    rho: Penalty<'a, T>,
    weights: Weights<'a, T>,
    coupling: Coupling<T>,
    w: &'a [T],
    y: &'a mut [T],     // [rows]
    rows: &'a mut [T],  // [2·slopes, rows]: ŝ before `middle`, s from there; a forward run has room for one s
    edges: &'a mut [T], // [slopes + 1, edges]: r of every slope, then a temporary one
    slopes: usize,      // how many are kept: one in a forward run
    steps: usize,       // that ran, known in the reverse sweep
    // Only in the reverse sweep:
    tmp: &'a mut [T], // [states]
    d_w: &'a mut [T], // [states]
    d_rho: &'a mut [T],
    d_s: &'a mut [T], // [agents]
    d_gamma: T,
    d_offsets: &'a mut [T], // [edges] or []
    d_weights: EdgeWeightsGrad<'a, T>,
}

/// The gradient of the weights of edges.
struct EdgeWeightsGrad<'a, T>(&'a mut [T]); // [edges] or []

impl<T: Real> EdgeWeightsGrad<'_, T> {
    /// Adds γ (F ḡ)_e·U'(r_e); returns F ḡ·ΩU'(r).
    fn add(&mut self, op: &SheafOp<'_, T>, coupling: Coupling<T>, along: &[T], r: &[T]) -> T {
        let (gamma, potential, mut sum) = (coupling.gamma(), coupling.potential(), T::ZERO);
        for (e, edge) in op.sheaf().edges().iter().enumerate() {
            let own = edge.start as usize..(edge.start + edge.dim) as usize;
            let pairs = along[own.clone()].iter().zip(&r[own]);
            let one: T = pairs.map(|(&a, &r)| a * potential.slope(r)).sum();
            sum += one * op.raw().weights().map_or(T::ONE, |weights| weights[e]);
            if let Some(d) = self.0.get_mut(e) {
                *d += gamma * one;
            }
        }
        sum
    }
}

impl<T: Real> NodeSlope<'_, T> {
    /// The s of slope `t`; a forward run, which keeps none, has one buffer for all.
    fn kept(&self, t: usize) -> std::ops::Range<usize> {
        let m = self.op.sheaf().row_len();
        let room = if self.slopes == 1 { 0 } else { t };
        let middle = self.rows.len() - self.slopes * m;
        middle + room * m..middle + (room + 1) * m
    }

    /// The ŝ of slope `t`, placed so that those of the steps that ran end where the s begin.
    fn answered(&self, t: usize) -> std::ops::Range<usize> {
        let m = self.op.sheaf().row_len();
        let first = self.slopes - self.steps + t;
        first * m..(first + 1) * m
    }
}

impl<T: Real> Slope<T> for NodeSlope<'_, T> {
    fn dot(&self, a: &[T], b: &[T]) -> T {
        self.op.sheaf().dot(a, b)
    }

    fn slope(&mut self, t: usize, x: &[T], g: &mut [T]) {
        let (kept, potential) = (self.kept(t), self.coupling.potential());
        let s = &mut self.rows[kept];
        if self.coupling.is_linear(self.op) {
            self.op.raw().laplacian(x, g, self.y, s);
        } else {
            let e = self.op.sheaf().edge_len();
            let (residuals, pull) = self.edges.split_at_mut(self.slopes * e);
            let room = if self.slopes == 1 { 0 } else { t };
            let r = &mut residuals[room * e..][..e];
            self.op.raw().residual(x, r, self.y);
            pull.iter_mut().zip(r.iter()).for_each(|(p, &r)| *p = potential.slope(r));
            self.op.raw().weigh(pull);
            self.op.raw().spread(pull, s);
            self.op.raw().lift(s, g);
        }
        match self.coupling {
            Coupling::Hard => self.weights.scale(self.op.sheaf(), g),
            Coupling::Soft { gamma, .. } => {
                for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
                    let rho = self.rho.of(i);
                    for k in range[0]..range[1] {
                        g[k] = gamma * g[k] + rho * (x[k] - self.w[k]);
                    }
                }
            }
        }
    }

    fn slope_vjp(&mut self, t: usize, x: &[T], d_g: &mut [T], d_x: &mut [T]) {
        let (kept, answered, potential) = (self.kept(t), self.answered(t), self.coupling.potential());
        let sheaf = self.op.sheaf();
        if let Coupling::Hard = self.coupling {
            self.weights.scale(sheaf, d_g);
        }
        let (front, back) = self.rows.split_at_mut(kept.start);
        let (s_hat, s) = (&mut front[answered], &back[..kept.len()]);
        // P ḡ·s from the products available: rows are padded, and a fused product leaves no P ḡ behind.
        let along_s;
        if self.coupling.is_linear(self.op) {
            self.op.raw().laplacian(d_g, self.tmp, self.y, s_hat);
            along_s = sheaf.dot(x, self.tmp);
        } else {
            let e = sheaf.edge_len();
            let (residuals, along) = self.edges.split_at_mut(self.slopes * e);
            let r = &residuals[t * e..][..e];
            self.op.raw().coboundary(d_g, along, self.y);
            along_s = self.d_weights.add(self.op, self.coupling, along, r);
            along.iter_mut().zip(r).for_each(|(a, &r)| *a *= potential.curvature(r));
            self.op.raw().weigh(along);
            if !self.d_offsets.is_empty() {
                let gamma = self.coupling.gamma();
                axpy(self.d_offsets, -gamma, along);
            }
            self.op.raw().spread(along, s_hat);
            self.op.raw().lift(s_hat, self.tmp);
        }
        match self.coupling {
            Coupling::Hard => {
                add(d_x, self.tmp);
                if let Penalty::PerAgent(_) = self.rho {
                    // Per agent, P ḡ itself is needed: lifting the s of x would cost one more product as well.
                    self.op.raw().project(d_g, self.y);
                    for (i, range) in sheaf.row_offsets().windows(2).enumerate() {
                        let used = sheaf.slot_rows(i).last().copied().unwrap_or(0);
                        let rows = range[0]..range[0] + used;
                        self.d_s[i] += dot(&self.y[rows.clone()], &s[rows]) / self.weights.of(i);
                    }
                }
            }
            Coupling::Soft { gamma, .. } => {
                self.d_gamma += along_s;
                axpy(d_x, gamma, self.tmp);
                let offsets = sheaf.state_offsets();
                for (i, range) in offsets.windows(2).enumerate() {
                    let rho = self.rho.of(i);
                    for k in range[0]..range[1] {
                        d_x[k] += rho * d_g[k];
                        self.d_w[k] -= rho * d_g[k];
                    }
                }
                let w = self.w;
                let d_rho = |i: usize| {
                    let terms = (offsets[i]..offsets[i + 1]).map(|k| d_g[k] * (x[k] - w[k]));
                    terms.fold(T::ZERO, |sum, term| sum + term)
                };
                match self.rho {
                    Penalty::PerAgent(_) => (0..sheaf.agents()).for_each(|i| self.d_rho[i] += d_rho(i)),
                    Penalty::Scalar(_) => {
                        let sum = |own: Range<usize>| own.map(d_rho).fold(T::ZERO, |sum, one| sum + one);
                        self.d_rho[0] += sheaf.sum_of_agents(sum);
                    }
                }
            }
        }
    }
}

/// Descent on the states: the energy and the steps.
pub(crate) struct NodeDescent<T> {
    pub rule: Rule<T>,
    pub coupling: Coupling<T>,
}

impl<T: Real> NodeDescent<T> {
    /// Checks the options.
    pub(crate) fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        let agreement = match self.coupling {
            Coupling::Hard => Agreement::Hard,
            Coupling::Soft { gamma, .. } => Agreement::Soft { gamma },
        };
        let edges = EdgeSupport { hard_edges: false, ..EdgeSupport::ALL };
        edges.check("descent", agreement, op, "solve with ZUpdate::Exact")?;
        match self.coupling {
            Coupling::Hard => {}
            Coupling::Soft { gamma, potential } => {
                check_positive("gamma", gamma.to_f64())?;
                potential.validate()?;
            }
        }
        self.rule.validate()
    }

    /// Length of the scratch that `forward` and `vjp` share.
    pub(crate) fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let sheaf = op.sheaf();
        if let Stop::Tolerance { .. } = self.rule.stop {
            let forward = self.forward_scratch_len(op);
            return solution_scratch_len(sheaf)
                .max(forward.max(potential_scratch_len(sheaf)) + sheaf.state_len());
        }
        let (n, m, e) = (sheaf.state_len(), sheaf.row_len(), self.coupling.edge_len(op));
        let (steps, slopes) = (self.rule.stop.max_steps(), self.rule.slopes().max(1));
        let fixed = m + 3 * n + e + sheaf.agents();
        fixed.saturating_add(slopes.saturating_mul(2 * m + e)).saturating_add(steps.saturating_mul(3 * n))
    }

    /// Length of the scratch that `forward` needs if no adjoint runs.
    pub(crate) fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let sheaf = op.sheaf();
        2 * (sheaf.row_len() + sheaf.state_len() + self.coupling.edge_len(op))
    }

    /// Descends from w. Saves: nothing; the adjoint replays.
    pub(crate) fn forward(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],     // [states]
        z: &mut [T], // [states]
        scratch: &mut [T],
    ) -> InnerReport {
        let Self { rule, coupling } = *self;
        let sheaf = op.sheaf();
        let (n, m) = (sheaf.state_len(), sheaf.row_len());
        let mut scratch = Scratch::new(scratch);
        let mut slope = NodeSlope {
            op,
            rho: *rho,
            weights: Weights::new(rho),
            coupling,
            w,
            y: scratch.take(m),
            rows: scratch.take(m),
            edges: scratch.take(2 * coupling.edge_len(op)),
            slopes: 1,
            steps: 0,
            tmp: &mut [],
            d_w: &mut [],
            d_rho: &mut [],
            d_s: &mut [],
            d_gamma: T::ZERO,
            d_offsets: &mut [],
            d_weights: EdgeWeightsGrad(&mut []),
        };
        z.copy_from_slice(w);
        rule.run(&mut slope, None, z, scratch.take(n), scratch.take(n), None)
    }

    /// The gradient of the solution that a descent to a tolerance approaches; it does not depend on η.
    fn solution_vjp(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        d_z: &[T],
        d_w: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let accuracy = Accuracy::like(&self.rule.stop);
        let (agreement, energy) = match self.coupling {
            Coupling::Hard => (Agreement::Hard, None),
            Coupling::Soft { gamma, potential: EdgePotential::Quadratic } => {
                (Agreement::Soft { gamma }, None)
            }
            Coupling::Soft { gamma, potential } => (Agreement::Soft { gamma }, Some((gamma, potential))),
        };
        let Some(energy) = energy else {
            return solution_vjp(op, rho, (agreement, T::ZERO), accuracy, w, d_z, d_w, grad, scratch);
        };
        let (z, scratch) = scratch.split_at_mut(op.sheaf().state_len());
        self.forward(op, rho, w, z, scratch);
        potential_vjp(op, rho, energy, accuracy, w, z, d_z, d_w, grad, scratch)
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_w`, maps, ρ, γ and η.
    pub(crate) fn vjp(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],
        d_z: &[T],
        d_w: &mut [T],
        grad: &mut ConsensusGrad<'_, '_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let Self { rule, coupling } = *self;
        let sheaf = op.sheaf();
        let (n, m) = (sheaf.state_len(), sheaf.row_len());
        if let Stop::Tolerance { .. } = rule.stop {
            return self.solution_vjp(op, rho, w, d_z, d_w, grad, scratch);
        }
        let (max_steps, slopes) = (rule.stop.max_steps(), rule.slopes().max(1));
        let mut scratch = Scratch::new(scratch);
        let mut slope = NodeSlope {
            op,
            rho: *rho,
            weights: Weights::new(rho),
            coupling,
            w,
            y: scratch.take(m),
            rows: scratch.take(2 * slopes * m),
            edges: scratch.take((slopes + 1) * coupling.edge_len(op)),
            slopes,
            steps: 0,
            tmp: scratch.take(n),
            d_w,
            d_rho: grad.rho,
            d_s: scratch.take(sheaf.agents()),
            d_gamma: T::ZERO,
            d_offsets: grad.offsets,
            d_weights: EdgeWeightsGrad(grad.edge_weights),
        };
        let (x, m_state) = (scratch.take(n), scratch.take(n));
        let (states, vs) = (scratch.take(2 * max_steps * n), scratch.take(max_steps * n));

        x.copy_from_slice(w);
        let g = std::mem::take(&mut slope.tmp);
        let steps = rule.run(&mut slope, None, x, m_state, g, Some((&mut states[..max_steps * n], vs))).steps;
        slope.tmp = g;
        slope.steps = steps;
        slope.d_s.fill(T::ZERO);
        let (xs, d_gs) = states[..2 * steps * n].split_at_mut(steps * n);
        x.copy_from_slice(d_z);
        *grad.eta += rule.run_vjp(&mut slope, steps, xs, vs, x, m_state, d_gs);
        add(slope.d_w, x);

        let NodeSlope { rows, d_s, d_rho, d_gamma, weights, .. } = slope;
        let rows = &rows[(slopes - steps) * m..][..2 * steps * m];
        match coupling {
            Coupling::Hard => {
                weights.vjp(d_s, T::ZERO, d_rho);
                grad.maps.outers(sheaf, op.maps(), T::ONE, 2 * steps, rows, &states[..2 * steps * n]);
            }
            Coupling::Soft { gamma, .. } => {
                *grad.gamma += d_gamma;
                grad.maps.outers(sheaf, op.maps(), gamma, 2 * steps, rows, &states[..2 * steps * n]);
            }
        }
        Ok(())
    }
}
