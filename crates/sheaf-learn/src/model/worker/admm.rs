//! Some samples coordinated by ADMM: their problem, its solve and the reverse sweep.

use sheaf_admm::admm::{Balancing, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::x_update::Penalty;
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::add;

use super::disturb::Disturbed;
use super::objective::{Parts, PartsGrad, zeroed};
use super::seen::{OfAdmm, Watcher};
use super::{ChunkGrad, Columns, Setting};
use crate::model::Horizon;
use crate::model::heads::{H, RHO};
use crate::model::maps::{MapGrad, MapIndex};
use crate::model::net::{Decoder, Encoder};
use crate::model::tables::TableGrad;

/// The problem of some samples, and what it is made of.
pub(super) struct Posed<'c, T: Real> {
    index: &'c [u32], // [samples, agents], the agents' views
    columns: &'c Columns<T>,
    parts: &'c Parts<T>,
    maps: &'c MapIndex<T>,
    problem: Problem<'c, T>,
}

impl<'c, T: Real> Posed<'c, T> {
    /// The problem of the samples whose head outputs, objectives and maps have been prepared.
    pub fn new<E: Encoder, D: Decoder>(
        at: &'c Setting<'_, T, E, D>,
        index: &'c [u32],
        columns: &'c Columns<T>,
        parts: &'c Parts<T>,
        maps: &'c MapIndex<T>,
    ) -> Result<Self> {
        let (model, agents) = (at.model, index.len());
        let problem = Problem {
            op: model.maps.op(at.sheaf, &at.prepared.maps, &at.tables.maps, index, maps)?,
            objective: parts.objective(at, agents, columns),
            z_update: at.prepared.z_update(),
            rho: match model.choices.per_agent {
                true => Penalty::PerAgent(&columns[RHO][..agents]),
                false => Penalty::Scalar(at.prepared.rho),
            },
            relax: T::from_f64(model.section.relaxation),
        };
        Ok(Self { index, columns, parts, maps, problem })
    }

    /// The problem.
    pub fn problem(&self) -> &Problem<'c, T> {
        &self.problem
    }

    /// Where it starts.
    pub fn start<E: Encoder, D: Decoder>(&self, at: &Setting<'_, T, E, D>) -> Start<'c, T> {
        let n = self.index.len() * at.model.section.d_v;
        match at.model.choices.start_at_h {
            true => Start::At(&self.columns[H][..n]),
            false => Start::Zeros,
        }
    }

    /// Solves it.
    pub fn solve<E: Encoder, D: Decoder>(
        &self,
        at: &Setting<'_, T, E, D>,
        options: &Options<T>,
        mode: Mode,
        ws: &mut Workspace<T>,
        watcher: &mut impl Watcher<T>,
    ) -> Result<()> {
        ws.fit(&self.problem, mode);
        let options = balanced(at, options);
        self.problem.solve(self.start(at), &options, ws, &mut OfAdmm(watcher)).map(drop)
    }

    /// Solves it for a training step, its states disturbed before iteration `k`.
    pub fn solve_disturbed<E: Encoder, D: Decoder>(
        &self,
        at: &Setting<'_, T, E, D>,
        options: &Options<T>,
        mode: Mode,
        ws: &mut Workspace<T>,
        disturbed: &mut Disturbed,
        k: usize,
        horizon: &Horizon,
    ) -> Result<()> {
        ws.fit(&self.problem, mode);
        let (options, start) = (balanced(at, options), self.start(at));
        let first = match start {
            Start::At(h) => Some(h),
            _ => None,
        };
        let mut actor = disturbed.actor(at.sheaf, horizon.disturbance, options.draw, k, first);
        self.problem.solve_acting(start, &options, ws, &mut (), &mut actor).map(drop)
    }
}

/// The options, with the balancing of the model.
pub(super) fn balanced<T: Real, E: Encoder, D: Decoder>(
    at: &Setting<'_, T, E, D>,
    options: &Options<T>,
) -> Options<T> {
    let balancing = at.model.section.balancing.then(Balancing::default);
    Options { balancing: options.balancing.or(balancing), ..*options }
}

/// Buffers of the reverse sweep.
#[derive(Debug)]
pub(super) struct Back<T: Real> {
    maps: MapGrad<T>,
    parts: PartsGrad<T>,
    start: AlignedVec<T>, // [samples, states]
}

impl<T: Real> Default for Back<T> {
    fn default() -> Self {
        Self { maps: MapGrad::default(), parts: PartsGrad::default(), start: AlignedVec::default() }
    }
}

impl<T: Real> Back<T> {
    /// The reverse sweep of a solve: adds to `d_columns`, `tables` and `chunk`. `d_x` is the gradient of the last x.
    pub fn reverse<E: Encoder, D: Decoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        posed: &Posed<'_, T>,
        horizon: Horizon,
        d_x: &[T], // [W, samples, states]
        ws: &mut Workspace<T>,
        d_columns: &mut Columns<T>,
        tables: &mut TableGrad<T>,
        chunk: &mut ChunkGrad<T>,
    ) -> Result<()> {
        let (model, agents) = (at.model, posed.index.len());
        let n = if model.choices.start_at_h { agents * model.section.d_v } else { 0 };
        let start = zeroed(&mut self.start, n);
        let (mut rho, mut gamma, mut eta) = ([T::ZERO], T::ZERO, T::ZERO);
        let mut d_rho = std::mem::take(&mut d_columns[RHO]);
        let mut objective = self.parts.begin(at, posed.parts, agents, d_columns);
        let mut maps = {
            let (views, table) = (at.tables.views(), &mut tables.maps);
            model.maps.grad(at.sheaf, views, posed.maps, table, &mut chunk.shared, &mut self.maps)
        };
        let mut grads = Gradients {
            objective: &mut objective,
            maps: &mut maps,
            rho: if model.choices.per_agent { &mut d_rho[..agents] } else { &mut rho },
            gamma: &mut gamma,
            eta: &mut eta,
            offsets: &mut [],
            edge_weights: &mut [],
            start,
        };
        let seeds = Seeds { d_x, d_z: None, d_u: None };
        posed.problem.reverse(horizon.adjoint(), &seeds, &mut grads, ws)?;
        d_columns[RHO] = d_rho;
        add(&mut d_columns[H][..n], &self.start[..n]);
        for (place, d, (_, slope)) in
            [(&model.rho, rho[0], model.rho(at.params)), (&model.eta, eta, model.eta(at.params))]
        {
            if let Some(place) = place {
                chunk.params[place.start] += d * slope;
            }
        }
        self.parts.finish(at, agents, posed.columns, d_columns, chunk);
        model.maps.scatter(
            at.sheaf,
            &at.prepared.maps,
            &at.tables.maps,
            posed.index,
            posed.maps,
            &mut self.maps,
            &mut tables.maps,
            &mut chunk.shared,
            &mut chunk.params,
        )
    }
}
