//! A part of the batch, on one thread: compose the maps, iterate, and run the reverse sweep.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use sheaf_admm::admm::{Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::sheaf::{Maps, MapsGrad, SharedMaps, SharedMapsGrad, SharedStack, Sheaf, SheafOp, Uniform};
use sheaf_admm::x_update::{
    Curvature, Dense, DenseGrad, Diagonal, DiagonalGrad, Equality, EqualityGrad, Objective, ObjectiveGrad,
    Penalty, Qp, QpGrad,
};
use sheaf_admm::z_update::ZUpdate;
use sheaf_admm::{Error, Real, Result};
use sheaf_kernels::aligned::AlignedVec;

use super::inputs::{Family, Inputs, SLOTS, Slot, Views};
use super::parts::{ALL, Part};
use super::spec::Spec;
use super::views::Stacks;
use crate::errors::within;
use crate::run::Stop;

/// Samples that are solved together where the maps are shared: their products are one matrix product.
pub const TILE: usize = 8;

/// Everything that the parts of a call share.
pub struct Call<'a, T: Real> {
    pub spec: &'a Spec,
    pub sheaf: &'a Sheaf,
    pub u: Uniform,
    pub inputs: Inputs<'a, T>,
    pub z_update: ZUpdate<T>,
    /// Equalities and inequalities of every agent of the samples that are solved together; empty for none.
    pub eq_rows: Vec<usize>, // [tile, agents] or []
    pub in_rows: Vec<usize>,
    /// Shared maps, prepared once; `None` where every part composes its stacks.
    pub shared: Option<SharedStack<T>>,
    pub wanted: [bool; SLOTS],
    pub stop: &'a Stop,
}

/// Numbers that have buffers for workers, kept from call to call and shared by all layers.
pub trait Buffers: Real {
    /// The buffers that are not in use.
    fn idle() -> &'static Mutex<Vec<Worker<Self>>>;

    /// Runs `work` with buffers that an earlier call has left, or new ones. Very large ones are not kept.
    fn with_worker<R>(work: impl FnOnce(&mut Worker<Self>) -> R) -> R {
        let lock = || Self::idle().lock().unwrap_or_else(PoisonError::into_inner);
        let found = lock().pop();
        let mut worker = found.unwrap_or_default();
        let result = work(&mut worker);
        if worker.ws.len() + worker.d_stacks.len() <= MOST_KEPT {
            lock().push(worker);
        }
        result
    }
}

impl Buffers for f32 {
    fn idle() -> &'static Mutex<Vec<Worker<Self>>> {
        static IDLE: Mutex<Vec<Worker<f32>>> = Mutex::new(Vec::new());
        &IDLE
    }
}

impl Buffers for f64 {
    fn idle() -> &'static Mutex<Vec<Worker<Self>>> {
        static IDLE: Mutex<Vec<Worker<f64>>> = Mutex::new(Vec::new());
        &IDLE
    }
}

/// Buffers of a worker with more numbers than this are given back: 256 MB of f32.
const MOST_KEPT: usize = 1 << 26;

/// Buffers of a thread.
#[derive(Default)]
pub struct Worker<T: Copy + Default> {
    ws: Workspace<T>,
    stacks: Stacks<T>,
    d_stacks: AlignedVec<T>,
    d_x: Vec<T>,
}

impl<T: Real> Call<'_, T> {
    /// Samples whose maps are composed together, and samples that are solved together.
    fn sizes(&self, part: &Range<usize>) -> (usize, usize) {
        match (&self.shared, self.inputs.views) {
            (Some(_), _) => (part.len(), TILE),
            // Nothing is shared: the stacks of one sample stay in the cache.
            (None, Views::PerSample) => (1, 1),
            (None, _) => (part.len(), 1),
        }
    }

    /// The problem of some samples of a group whose maps are composed.
    fn problem<'p>(
        &'p self,
        stacks: &'p Stacks<T>,
        group: &Range<usize>,
        samples: &Range<usize>,
    ) -> Result<Problem<'p, T>> {
        let (inputs, agents) = (&self.inputs, self.sheaf.agents());
        let (first, count) = (samples.start, samples.len());
        let maps = match &self.shared {
            Some(stack) => Maps::Shared(SharedMaps::new(stack)),
            None => stacks.maps(first - group.start, agents),
        };
        let objective = self.objective(samples);
        let rho = match inputs.get(Slot::Rho) {
            Some(rho) if rho.len() > 1 => Penalty::PerAgent(rho),
            rho => Penalty::Scalar(rho.map_or(T::ONE, |rho| rho[0])),
        };
        let op = SheafOp::batch(self.sheaf, maps, count)?;
        Ok(Problem { op, objective, z_update: &self.z_update, rho, relax: T::from_f64(self.spec.relax) })
    }

    /// The objectives of some samples.
    fn objective(&self, samples: &Range<usize>) -> Objective<'_, T> {
        let (inputs, first, count) = (&self.inputs, samples.start, samples.len());
        let own = |slot: Slot| {
            let one = inputs.each(slot);
            inputs.get(slot).map_or(&[][..], |all| &all[first * one..][..count * one])
        };
        let bound = |slot: Slot| inputs.coefficient(slot, first, count);
        let rows = |rows: &'_ [usize]| rows.len().min(count * self.sheaf.agents());
        let (equal, limits) = (&self.eq_rows[..rows(&self.eq_rows)], &self.in_rows[..rows(&self.in_rows)]);
        let (q, quad) = (
            own(Slot::Q),
            match inputs.get(Slot::Quad) {
                Some(_) => Curvature::Dense(own(Slot::Quad)),
                None => Curvature::Diagonal(own(Slot::Diag)),
            },
        );
        match inputs.family() {
            Family::Diagonal => Objective::Diagonal(Diagonal {
                l1: bound(Slot::L1),
                l2: bound(Slot::L2),
                lo: bound(Slot::Lo),
                hi: bound(Slot::Hi),
                ..Diagonal::new(own(Slot::Diag), q)
            }),
            Family::Dense => Objective::Dense(Dense { quad: own(Slot::Quad), q }),
            Family::Equality => {
                Objective::Equality(Equality { quad, q, rows: equal, a: own(Slot::EqA), b: own(Slot::EqB) })
            }
            Family::Qp => Objective::Qp(Qp {
                eq_rows: equal,
                a: own(Slot::EqA),
                b: own(Slot::EqB),
                in_rows: limits,
                g: own(Slot::InG),
                h: own(Slot::InH),
                lo: bound(Slot::Lo),
                hi: bound(Slot::Hi),
                ..Qp::new(quad, q)
            }),
        }
    }

    fn start(&self, samples: &Range<usize>) -> Start<'_, T> {
        let n = self.inputs.states;
        self.inputs
            .get(Slot::Start)
            .map_or(Start::Zeros, |z| Start::At(&z[samples.start * n..samples.end * n]))
    }

    /// Groups of samples whose maps are composed together.
    fn groups(&self, part: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (size, end) = (self.sizes(part).0, part.end);
        part.clone().step_by(size).map(move |start| start..(start + size).min(end))
    }

    /// Tiles of a group, each solved together.
    fn tiles(&self, group: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<T> {
        let (size, end) = (self.sizes(group).1, group.end);
        group.clone().step_by(size).map(move |start| start..(start + size).min(end))
    }

    /// Composes the maps of a group, and clears their gradient.
    fn compose(&self, group: &Range<usize>, worker: &mut Worker<T>) -> Result<()> {
        if self.shared.is_some() {
            return Ok(());
        }
        worker.stacks.compose(self.sheaf, self.u, &self.inputs, group.clone())?;
        let len = worker.stacks.grad_len();
        worker.d_stacks.ensure(len);
        worker.d_stacks[..len].fill(T::ZERO);
        Ok(())
    }

    /// The last x of the samples of a part, `[window, samples, states]`.
    pub fn forward(&self, part: Range<usize>, worker: &mut Worker<T>) -> Result<Vec<T>> {
        let (n, window) = (self.inputs.states, self.spec.window);
        let (options, mode) = self.spec.forward::<T>();
        let mut out = vec![T::ZERO; window * part.len() * n];
        for group in self.groups(&part) {
            self.compose(&group, worker)?;
            for samples in self.tiles(&group) {
                let (first, count) = (samples.start, samples.len());
                self.stop.check()?;
                self.solve(&group, &samples, &options, mode, worker).map_err(|e| named(first, &e))?;
                let x = if window == 1 { worker.ws.x() } else { worker.ws.last_x(window)? };
                for (w, x) in x.chunks_exact(count * n).enumerate() {
                    out[(w * part.len() + first - part.start) * n..][..count * n].copy_from_slice(x);
                }
            }
        }
        Ok(out)
    }

    fn solve(
        &self,
        group: &Range<usize>,
        samples: &Range<usize>,
        options: &Options<T>,
        mode: Mode,
        worker: &mut Worker<T>,
    ) -> Result<()> {
        let Worker { ws, stacks, .. } = worker;
        let problem = self.problem(stacks, group, samples)?;
        problem.validate()?;
        ws.fit(&problem, mode);
        problem.solve(self.start(samples), options, ws, &mut ()).map(|_| ())
    }

    /// The gradients of a part, given `d_x` `[window, batch, states]`.
    pub fn backward(&self, part: Range<usize>, d_x: &[T], worker: &mut Worker<T>) -> Result<Part<T>> {
        let mut grads = Part::new(&self.inputs, &self.wanted, part.clone());
        if let Some(stack) = &self.shared {
            grads.stack.reset(stack);
        }
        let (options, mode) = self.spec.recorded::<T>();
        for group in self.groups(&part) {
            self.compose(&group, worker)?;
            for samples in self.tiles(&group) {
                self.stop.check()?;
                let done = self.solve(&group, &samples, &options, mode, worker);
                let done = done.and_then(|()| self.reverse(&group, &samples, d_x, worker, &mut grads));
                done.map_err(|e| named(samples.start, &e))?;
            }
            if self.shared.is_none() && self.wants_maps() {
                let Worker { stacks, d_stacks, .. } = &mut *worker;
                stacks.unpack(
                    self.sheaf,
                    self.u,
                    &self.inputs,
                    &d_stacks[..stacks.grad_len()],
                    &mut grads,
                )?;
            }
        }
        Ok(grads)
    }

    fn wants_maps(&self) -> bool {
        [Slot::Maps, Slot::Base, Slot::A, Slot::B].iter().any(|&slot| self.wanted[slot as usize])
    }

    /// The reverse sweep of the solve in the workspace.
    fn reverse(
        &self,
        group: &Range<usize>,
        samples: &Range<usize>,
        d_x: &[T],
        worker: &mut Worker<T>,
        part: &mut Part<T>,
    ) -> Result<()> {
        let Worker { ws, stacks, d_stacks, d_x: seeds } = worker;
        let problem = self.problem(stacks, group, samples)?;
        let (n, all) = (self.inputs.states, self.inputs.samples * self.inputs.states);
        seeds.clear();
        for d_x in d_x.chunks_exact(all) {
            seeds.extend_from_slice(&d_x[samples.start * n..samples.end * n]);
        }
        let own = samples.start - part.first..samples.end - part.first;
        let Part { grads, stack, .. } = part;
        let mut maps = match (&self.shared, self.wants_maps()) {
            (_, false) => MapsGrad::None,
            (Some(_), true) => MapsGrad::Shared(SharedMapsGrad { stack, updates: None }),
            (None, true) => MapsGrad::Table(&mut d_stacks[..stacks.grad_len()]),
        };
        let spreads = ALL.map(|slot| self.inputs.spreads(slot));
        let [q, diag, quad, l1, l2, lo, hi, eq_a, eq_b, in_g, in_h, _, _, _, _, rho, gamma, eta, start] =
            grads;
        let of = |grad, slot: Slot| of_samples(grad, spreads[slot as usize], &own, self.inputs.each(slot));
        let dense = self.inputs.get(Slot::Quad).is_some();
        let (q, diag, quad) = (of(q, Slot::Q), of(diag, Slot::Diag), of(quad, Slot::Quad));
        let (lo, hi, a, b) = (of(lo, Slot::Lo), of(hi, Slot::Hi), of(eq_a, Slot::EqA), of(eq_b, Slot::EqB));
        let mut objective = match self.inputs.family() {
            Family::Diagonal => {
                let (l1, l2) = (of(l1, Slot::L1), of(l2, Slot::L2));
                ObjectiveGrad::Diagonal(DiagonalGrad { diag, q, l1, l2, lo, hi })
            }
            Family::Dense => ObjectiveGrad::Dense(DenseGrad { quad, q }),
            Family::Equality => {
                ObjectiveGrad::Equality(EqualityGrad { quad: if dense { quad } else { diag }, q, a, b })
            }
            Family::Qp => {
                let (g, h) = (of(in_g, Slot::InG), of(in_h, Slot::InH));
                ObjectiveGrad::Qp(QpGrad { quad: if dense { quad } else { diag }, q, a, b, g, h, lo, hi })
            }
        };
        let (mut none, mut never) = (T::ZERO, T::ZERO);
        let mut gradients = Gradients {
            objective: &mut objective,
            maps: &mut maps,
            rho,
            gamma: gamma.first_mut().unwrap_or(&mut none),
            eta: eta.first_mut().unwrap_or(&mut never),
            offsets: &mut [],
            edge_weights: &mut [],
            start: of(start, Slot::Start).unwrap_or_default(),
        };
        problem.reverse(self.spec.adjoint(), &Seeds { d_x: seeds, d_z: None, d_u: None }, &mut gradients, ws)
    }
}

/// The gradient of an input for some samples of a part; `None` if it is not wanted.
fn of_samples<'g, T>(
    grad: &'g mut [T],
    spreads: bool,
    samples: &Range<usize>,
    one: usize,
) -> Option<&'g mut [T]> {
    match (grad.is_empty(), spreads) {
        (true, _) => None,
        (false, true) => Some(&mut grad[samples.start * one..samples.end * one]),
        (false, false) => Some(grad),
    }
}

fn named(sample: usize, error: &Error) -> Error {
    within(&format!("sample {sample}"), error)
}
