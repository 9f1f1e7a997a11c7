//! The system on the states, A = γ·S L S + diag(shift), as a linear map with its adjoint.
//!
//! A receives from every product k = A p the pair (d_k, p): dF += γ (e(p) d_kᵀ + e(d_k) pᵀ), dγ += d_k·Lp,
//! dshift += d_k·p, e(·) being the exchanged residuals. The pairs of a solve are collected and added to dF at once.

use std::ops::Range;

use super::Cg;
use super::work::{Places, Work};
use crate::Real;
use crate::chunks::Cut;
use crate::share::{ChunkSum, Lanes};
use crate::sheaf::{Given, Made, SheafOp};
use crate::x_update::Penalty;
use crate::z_update::krylov::{self, Direction, LinearMap, LinearMapVjp, Pair, PerStep, Plain, Tape};
use crate::z_update::{Agreement, ConsensusGrad, InnerReport, Stop};
use sheaf_kernels::stack::BAND;
use sheaf_kernels::vector::{add_dot, dot, scale_into, scale_shift};

/// A = γ·S L S + diag(shift) and its surroundings.
pub(super) struct System<'a, 's, T> {
    pub cfg: &'a Cg<T>,
    pub op: &'a SheafOp<'a, T>,
    pub gamma: T,
    pub shift: Penalty<'a, T>,
    /// The diagonal of S per coordinate; `None` if it is the identity.
    pub half: Option<&'s [T]>,
}

impl<'a, 's, T: Real> System<'a, 's, T> {
    pub(super) fn new(
        cfg: &'a Cg<T>,
        op: &'a SheafOp<'a, T>,
        rho: &Penalty<'a, T>,
        half: &'s mut [T],
    ) -> Self {
        match (cfg.agreement, rho) {
            (Agreement::Soft { gamma }, _) => Self { cfg, op, gamma, shift: *rho, half: None },
            (Agreement::Hard, Penalty::Scalar(_)) => {
                Self { cfg, op, gamma: T::ONE, shift: Penalty::Scalar(cfg.tikhonov), half: None }
            }
            (Agreement::Hard, Penalty::PerAgent(rho)) => {
                for (range, &rho) in op.sheaf().state_offsets().windows(2).zip(*rho) {
                    half[range[0]..range[1]].fill(T::ONE / rho.sqrt());
                }
                Self { cfg, op, gamma: T::ONE, shift: Penalty::Scalar(cfg.tikhonov), half: Some(half) }
            }
        }
    }

    /// out = S L S p without shift; leaves the exchanged residuals in `s`.
    fn laplacian(&self, p: &[T], out: &mut [T], y: &mut [T], s: &mut [T], tmp: &mut [T]) {
        match self.half {
            None => self.op.raw().laplacian(p, out, y, s),
            Some(half) => {
                multiply_into(tmp, half, p);
                self.op.raw().laplacian(tmp, out, y, s);
                out.iter_mut().zip(half).for_each(|(o, &h)| *o *= h);
            }
        }
    }

    /// k = A p; leaves the exchanged residuals of S p in `s`.
    fn apply(&self, p: &[T], k: &mut [T], y: &mut [T], s: &mut [T], tmp: &mut [T]) {
        self.laplacian(p, k, y, s, tmp);
        match self.shift {
            Penalty::Scalar(shift) => scale_shift(k, self.gamma, shift, p),
            Penalty::PerAgent(shift) => {
                for (range, &shift) in self.op.sheaf().state_offsets().windows(2).zip(shift) {
                    let range = range[0]..range[1];
                    scale_shift(&mut k[range.clone()], self.gamma, shift, &p[range]);
                }
            }
        }
    }

    /// The shift, if A can be applied in one sweep.
    fn swept(&self) -> Option<T> {
        match (self.half, self.shift) {
            (None, Penalty::Scalar(shift)) => Some(shift),
            _ => None,
        }
    }

    /// Whether inner products are summed while the sweep goes through the agents: not if the sweep leaves the order of the
    /// chunks, nor if it hands out all of them at once.
    fn sums_while_sweeping(&self) -> bool {
        let sheaf = self.op.sheaf();
        sheaf.share().is_none() && (sheaf.is_one_chunk() || self.op.raw().is_banded())
    }

    /// The pieces of a chunk whose sums are added one after the other, those of a sweep that sums.
    fn pieces(&self, chunk: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let band = self.op.sheaf().as_uniform().filter(|_| self.op.raw().is_banded()).map(|u| BAND * u.d_v);
        let (step, end) = (band.unwrap_or(chunk.len()).max(1), chunk.end);
        chunk.step_by(step).map(move |start| start..(start + step).min(end))
    }

    /// The squared residual to reach, in tolerance mode.
    fn goal(&self, w: &[T], work: &mut Work<'_, T>) -> Option<T> {
        let Stop::Tolerance { .. } = self.cfg.stop else { return None };
        let Work { k, y, s, tmp, .. } = work;
        match self.cfg.agreement {
            Agreement::Soft { .. } => {
                k.fill(T::ZERO);
                tmp.fill(T::ZERO);
                if !self.op.raw().is_plain() {
                    self.op.raw().affine_laplacian(tmp, k, y, s);
                    k.iter_mut().for_each(|k| *k *= -self.gamma);
                }
                self.add_shifted_difference(k, w, tmp);
            }
            Agreement::Hard => {
                self.op.raw().affine_laplacian(w, k, y, s);
                if let Some(half) = self.half {
                    k.iter_mut().zip(half).for_each(|(k, &h)| *k *= h);
                }
            }
        }
        self.cfg.stop.goal(self.op.sheaf().dot(k, k).sqrt()).map(|goal| goal * goal)
    }

    pub(super) fn rule(&self) -> krylov::Rule<T> {
        krylov::Rule { guard: self.cfg.guard, max_steps: self.cfg.stop.max_steps() }
    }

    /// Runs the solve; the last residual is in `work.r` if it is carried on. Steps are left in `places`, if given.
    pub(super) fn run(
        &self,
        w: &[T],
        z_prev: &[T],
        carry: &[T],
        x: &mut [T],
        work: &mut Work<'_, T>,
        places: Option<Places<'_, T>>,
    ) -> InnerReport {
        let goal = self.goal(w, work);
        let Work { r, p, k, tmp, y, s } = work;
        let mut scalars = [T::ZERO; krylov::SCALARS];
        let Places { rows, p, k, mut tape } = places.unwrap_or_else(|| Places {
            rows: None,
            p: PerStep::new(p, r.len()),
            k: PerStep::new(k, r.len()),
            tape: Tape::new(&mut scalars, 1),
        });
        let (keep, shared) = (rows.is_some(), s.len());
        let rows = rows.unwrap_or_else(|| PerStep::new(s, shared));
        let mut map = StateMap { system: self, rows, keep, y, tmp };
        self.begin(w, z_prev, carry, x, r, &mut map);
        let mut solve = Plain::new(&mut map, x, r, p, k, !carry.is_empty());
        let mut report = [T::ZERO; krylov::REPORT];
        let mut reports = krylov::Reports::new(&mut report);
        krylov::run(
            self.rule(),
            &mut solve,
            goal.as_ref().map(std::slice::from_ref),
            &mut tape,
            &mut reports,
        );
        reports.get(0)
    }
}

/// A with the scratch of its products.
pub(super) struct StateMap<'r, 'a, 's, T> {
    pub system: &'r System<'a, 's, T>,
    pub rows: PerStep<'r, T>, // [products + 1 or 1, rows]: e(start), then e(p) of each product
    /// Whether the exchanged residuals are kept.
    pub keep: bool,
    pub y: &'r mut [T],   // [rows]
    pub tmp: &'r mut [T], // [states]
}

impl<T: Real> LinearMap<T> for StateMap<'_, '_, '_, T> {
    fn lanes(&self) -> Lanes<'_> {
        Lanes(Some(self.system.op.sheaf()))
    }

    fn apply(&mut self, t: usize, p: &[T], k: &mut [T]) {
        self.system.apply(p, k, self.y, self.rows.at_mut(t + 1), self.tmp);
    }

    #[inline]
    fn turn(&mut self, t: usize, direction: Direction<'_, T>, p: &mut [T], k: &mut [T]) -> T {
        let Some(shift) = self.system.swept() else {
            direction.make(0..p.len(), p);
            self.apply(t, p, k);
            return self.lanes().dot(p, k);
        };
        let System { op, gamma, .. } = *self.system;
        let (fused, mut along) = (self.system.sums_while_sweeping(), ChunkSum::new(op.sheaf()));
        let sum = |part: Range<usize>, p: &[T], k: &[T]| {
            if fused {
                along.add(part.start, dot(p, k));
            }
        };
        let make = |part, p: &mut [T]| direction.make(part, p);
        let input = Made { to: &mut *p, make, from: direction.r };
        op.raw().sweep(gamma, shift, input, k, self.y, self.rows.at_mut(t + 1), self.keep, sum);
        match fused {
            true => along.total(),
            false => {
                let one = |part: Range<usize>| dot(&p[part.clone()], &k[part]);
                let sum = |total, part| total + one(part);
                let [along] = op.sheaf().sums((), |chunk, ()| [self.system.pieces(chunk).fold(T::ZERO, sum)]);
                along
            }
        }
    }
}

/// The adjoint of A: the gradients its products add to.
pub(super) struct StateMapVjp<'r, 'a, 's, 'g, 'm, T> {
    pub system: &'r System<'a, 's, T>,
    pub rows: PerStep<'r, T>, // [products + 1 or 1, rows]: room for the start's, then e(d_k) of each product
    pub y: &'r mut [T],       // [rows]
    pub tmp: &'r mut [T],     // [states]
    pub d_half: &'r mut [T],  // [states]
    pub grad: &'r mut ConsensusGrad<'g, 'm, T>,
}

impl<T: Real> LinearMapVjp<T> for StateMapVjp<'_, '_, '_, '_, '_, T> {
    fn lanes(&self) -> Lanes<'_> {
        Lanes(Some(self.system.op.sheaf()))
    }

    fn apply_vjp(&mut self, t: usize, d_k: &[T], out: &mut [T]) {
        self.system.apply(d_k, out, self.y, self.rows.at_mut(t + 1), self.tmp);
    }

    /// e(d_k) is not needed either: both halves of the pair are equal, and the first counts twice.
    fn apply_aligned_vjp(&mut self, _t: usize, factor: T, pair: &Pair<'_, T>, out: &mut [T]) {
        scale_into(out, factor, pair.k);
    }

    #[inline]
    fn turn_vjp(&mut self, t: usize, d_k: &[T], out: &mut [T], d_p: &mut [T], before: &[T]) -> T {
        let Some(shift) = self.system.swept() else {
            self.system.apply(d_k, out, self.y, self.rows.at_mut(t + 1), self.tmp);
            return self.lanes().add_dot(d_p, out, before);
        };
        let System { op, gamma, .. } = *self.system;
        let (fused, mut along) = (self.system.sums_while_sweeping(), ChunkSum::new(op.sheaf()));
        let one = |part: Range<usize>, d_p: &mut [T], out: &[T]| {
            let mut sum = T::ZERO;
            add_dot(d_p, out, &before[part], &mut sum);
            sum
        };
        let after = |part: Range<usize>, _: &[T], out: &[T]| {
            if fused {
                along.add(part.start, one(part.clone(), &mut d_p[part], out));
            }
        };
        op.raw().sweep(gamma, shift, Given(d_k), out, self.y, self.rows.at_mut(t + 1), true, after);
        match fused {
            true => along.total(),
            false => {
                let parts = Cut::by_agent(d_p, op.sheaf().state_offsets());
                let [along] = op.sheaf().sums(parts, |chunk, d_p| {
                    let first = chunk.start;
                    let piece = |total, part: Range<usize>| {
                        let own = &mut d_p.data[part.start - first..part.end - first];
                        total + one(part.clone(), own, &out[part])
                    };
                    [self.system.pieces(chunk).fold(T::ZERO, piece)]
                });
                along
            }
        }
    }

    fn add_pair(&mut self, _t: usize, pair: &Pair<'_, T>, a_dk: &[T]) {
        self.add_scalars(pair);
        if let Some(half) = self.system.half {
            self.add_half(half, pair, a_dk);
        }
    }
}

impl<T: Real> StateMapVjp<'_, '_, '_, '_, '_, T> {
    /// Adds d_shift and d_gamma. With k available, d_k·Lp = (d_k·k − d_k·shift p)/γ.
    fn add_scalars(&mut self, pair: &Pair<'_, T>) {
        let System { cfg, op, gamma, shift, .. } = *self.system;
        if cfg.agreement == Agreement::Hard {
            return;
        }
        let mut shifted = T::ZERO;
        match shift {
            Penalty::Scalar(shift) => {
                self.grad.rho[0] += pair.along_p;
                shifted += shift * pair.along_p;
            }
            Penalty::PerAgent(shift) => {
                let offsets = op.sheaf().state_offsets();
                let along = |i: usize| {
                    let own = offsets[i]..offsets[i + 1];
                    dot(&pair.d_k[own.clone()], &pair.p[own])
                };
                (0..shift.len()).for_each(|i| self.grad.rho[i] += along(i));
                shifted = op.sheaf().sum_of_agents(|own| {
                    own.map(|i| shift[i] * along(i)).fold(T::ZERO, |sum, term| sum + term)
                });
            }
        }
        *self.grad.gamma += (pair.along_k - shifted) / gamma;
    }

    /// Adds d_S of k = S L S p + ε p: d_k∘(L S p) + p∘(L S d_k), both read off the available products.
    fn add_half(&mut self, half: &[T], pair: &Pair<'_, T>, a_dk: &[T]) {
        let (eps, Pair { p, k, d_k, .. }) = (self.system.cfg.tikhonov, *pair);
        for i in 0..p.len() {
            let (l_p, l_dk) = ((k[i] - eps * p[i]) / half[i], (a_dk[i] - eps * d_k[i]) / half[i]);
            self.d_half[i] += d_k[i] * l_p + p[i] * l_dk;
        }
    }
}

/// out = a∘b.
pub(super) fn multiply_into<T: Real>(out: &mut [T], a: &[T], b: &[T]) {
    for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *o = a * b;
    }
}
