//! A few samples on one core: gather the values of their views, iterate, decode, and run the reverse pass.

mod setting;

pub use setting::Setting;

use sheaf_admm::admm::{Balancing, Gradients, Mode, Observer, Options, Seeds, SolveReport, Start, Workspace};
use sheaf_admm::sheaf::SharedStackGrad;
use sheaf_admm::x_update::{DiagonalGrad, ObjectiveGrad, TetherGrad};
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;

use crate::model::heads::{COLUMNS, H, Q, RHO};
use crate::model::maps::{MapGrad, MapIndex};
use crate::model::net::{Decoder, DecoderGrad, Encoder};
use crate::model::tables::TableGrad;
use crate::model::views::{Samples, Targets};
use crate::model::{Horizon, Model, ObjectiveKind, Prepared};

/// Buffers for a few samples at a time, kept by a worker. Their contents do not affect the next samples.
#[derive(Debug)]
pub struct Worker<T: Real, D: Decoder> {
    ws: Workspace<T>,
    columns: [AlignedVec<T>; COLUMNS], // h, D, q, l1, hi, rho of every agent
    d_columns: [AlignedVec<T>; COLUMNS],
    maps: MapIndex<T>,
    d_maps: MapGrad<T>,
    d_x: AlignedVec<T>,     // [W, states]
    rows: Vec<u32>,         // [W, agents], the views of the decoder's rows
    exps: AlignedVec<T>,    // [agents, outputs]
    outputs: AlignedVec<T>, // [agents, outputs]
    targets: Vec<Targets>,  // [samples]
    decoder: D::Work<T>,
}

impl<T: Real, D: Decoder> Default for Worker<T, D> {
    fn default() -> Self {
        Self {
            ws: Workspace::default(),
            columns: Default::default(),
            d_columns: Default::default(),
            maps: MapIndex::default(),
            d_maps: MapGrad::default(),
            d_x: AlignedVec::default(),
            rows: Vec::new(),
            exps: AlignedVec::default(),
            outputs: AlignedVec::default(),
            targets: Vec::new(),
            decoder: D::Work::default(),
        }
    }
}

/// Gradients of a chunk of a batch.
#[derive(Debug)]
pub struct ChunkGrad<T: Real> {
    /// Of the parameters that samples use directly.
    pub params: Vec<T>, // [layout.len()]
    /// Of what the decoder prepared.
    pub decoder: AlignedVec<T>,
    /// Of the maps that all agents share.
    pub shared: SharedStackGrad<T>,
    /// Sum of the losses.
    pub loss: f64,
    /// First sample of the batch with a loss that is not finite.
    pub bad: Option<usize>,
}

impl<T: Real> Default for ChunkGrad<T> {
    fn default() -> Self {
        let (params, decoder, shared) = Default::default();
        Self { params, decoder, shared, loss: 0.0, bad: None }
    }
}

impl<T: Real, D: Decoder> Worker<T, D> {
    /// The workspace of the last solve.
    pub fn workspace(&self) -> &Workspace<T> {
        &self.ws
    }

    /// The most recent outputs, `[agents, outputs]`.
    pub fn outputs(&self) -> &[T] {
        &self.outputs
    }

    /// Solves the samples whose agents have the views `index` `[samples, agents]`.
    pub fn solve<E: Encoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        index: &[u32],
        options: &Options<T>,
        mode: Mode,
        observer: &mut impl Observer<T>,
    ) -> Result<SolveReport<T>> {
        self.gather(at, index);
        let (prepared, tables) = (&at.prepared.maps, &at.tables.maps);
        at.model.maps.group(at.sheaf, prepared, tables, index, &mut self.maps)?;
        let problem = at.problem(index, &self.columns, &self.maps)?;
        self.ws.fit(&problem, mode);
        let n = index.len() * at.model.section.d_v;
        let start = match at.model.choices.start_at_h {
            true => Start::At(&self.columns[H][..n]),
            false => Start::Zeros,
        };
        let balancing = at.model.section.balancing.then(Balancing::default);
        let options = Options { balancing: options.balancing.or(balancing), ..*options };
        problem.solve(start, &options, &mut self.ws, observer)
    }

    fn gather<E: Encoder>(&mut self, at: &Setting<'_, T, E, D>, index: &[u32]) {
        let tables = &at.tables.headed.columns;
        for (k, (column, table)) in self.columns.iter_mut().zip(tables).enumerate() {
            let width = at.model.heads.width_of(k);
            if at.reads(k) && width > 0 {
                column.ensure(index.len() * width);
                for (to, &view) in column.chunks_exact_mut(width).zip(index) {
                    to.copy_from_slice(&table[view as usize * width..][..width]);
                }
            }
        }
    }

    /// Decodes states `x` of agents with the views `index` into [`outputs`](Self::outputs).
    pub fn decode<E: Encoder>(&mut self, at: &Setting<'_, T, E, D>, index: &[u32], x: &[T]) {
        let (d_v, outputs) = (at.model.section.d_v, at.model.decoder.outputs());
        let most = at.model.decoder.rows_at_once();
        self.outputs.ensure(index.len() * outputs);
        let parts = index.chunks(most).zip(x.chunks(most * d_v));
        for ((index, x), out) in parts.zip(self.outputs.chunks_mut(most * outputs)) {
            let (decoder, work) = (&at.model.decoder, &mut self.decoder);
            decoder.forward(at.params, &at.prepared.decoder, &at.tables.decoder, index, x, work);
            let len = index.len() * outputs;
            out[..len].copy_from_slice(&decoder.outputs_of(work, index.len())[..len]);
        }
    }

    /// Decodes the last x of a solve.
    pub fn decode_last<E: Encoder>(&mut self, at: &Setting<'_, T, E, D>, index: &[u32]) {
        let ws = std::mem::take(&mut self.ws);
        self.decode(at, index, ws.x());
        self.ws = ws;
    }

    /// Computes the loss of the samples `first..` of a batch, as many as `index` has, and adds their gradients to
    /// `tables` and `chunk`. `weight` is the weight of one loss term.
    pub fn grad<E: Encoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        index: &[u32],
        samples: &dyn Samples,
        first: usize,
        horizon: Horizon,
        weight: T,
        tables: &mut TableGrad<T>,
        chunk: &mut ChunkGrad<T>,
    ) -> Result<()> {
        let count = index.len() / at.sheaf.agents();
        self.targets.resize_with(count.max(self.targets.len()), Targets::default);
        for (i, targets) in self.targets[..count].iter_mut().enumerate() {
            samples.targets(first + i, targets);
        }
        let iterations = horizon.taped();
        let options = Options::fixed(horizon.iterations).taping(iterations);
        // The implicit adjoint needs the last z; otherwise nothing reads it.
        let options = if horizon.implicit { options } else { options.x_only() };
        // Storing the inner steps saves a quarter of the products at the cost of some megabytes per core.
        self.solve(at, index, &options, Mode::Keep { iterations }, &mut ())?;
        self.read_window(at, index, first, horizon.window(), weight, tables, chunk)?;
        self.reverse(at, index, horizon, tables, chunk)
    }

    /// Decodes the last `window` iterates and leaves the gradient of the loss in `d_x`.
    fn read_window<E: Encoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        index: &[u32],
        first: usize,
        window: usize,
        weight: T,
        tables: &mut TableGrad<T>,
        chunk: &mut ChunkGrad<T>,
    ) -> Result<()> {
        let (agents, decoder) = (at.sheaf.agents(), &at.model.decoder);
        let (n, one) = (index.len() * at.model.section.d_v, agents * decoder.outputs());
        self.d_x.ensure(window * n);
        self.d_x[..window * n].fill(T::ZERO);
        self.exps.ensure(one);
        // Iterates that fit are decoded as one list of rows: larger products are more efficient.
        let at_once = (decoder.rows_at_once() / index.len()).clamp(1, window);
        self.rows.clear();
        (0..at_once).for_each(|_| self.rows.extend_from_slice(index));
        let x = self.ws.last_x(window)?;
        for (x, d_x) in x.chunks(at_once * n).zip(self.d_x[..window * n].chunks_mut(at_once * n)) {
            let rows = &self.rows[..x.len() / at.model.section.d_v];
            let work = &mut self.decoder;
            let (prepared, table) = (&at.prepared.decoder, &at.tables.decoder);
            decoder.forward(at.params, prepared, table, rows, x, work);
            let outputs = decoder.outputs_of(work, rows.len());
            for (k, outputs) in outputs[..rows.len() * decoder.outputs()].chunks_exact_mut(one).enumerate() {
                let sample = k % (index.len() / agents);
                let loss = at.model.loss.grad(outputs, &self.targets[sample], weight, &mut self.exps);
                chunk.count(first + sample, loss);
            }
            let len = decoder.table_grad_len(at.tables.views());
            let grad = DecoderGrad {
                x: d_x,
                prepared: &mut chunk.decoder,
                table: &mut tables.decoder[..len],
                params: &mut chunk.params,
            };
            decoder.vjp(at.params, prepared, table, rows, x, work, grad);
        }
        Ok(())
    }

    /// The reverse sweep, from the gradients of the last x to those of tables and parameters.
    fn reverse<E: Encoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        index: &[u32],
        horizon: Horizon,
        tables: &mut TableGrad<T>,
        chunk: &mut ChunkGrad<T>,
    ) -> Result<()> {
        let (model, agents) = (at.model, index.len());
        let n = agents * model.section.d_v;
        for (k, d) in self.d_columns.iter_mut().enumerate() {
            if at.reads(k) || (k == Q && model.choices.objective == ObjectiveKind::Tether) {
                let len = if k == RHO { agents } else { n };
                d.ensure(len);
                d[..len].fill(T::ZERO);
            }
        }
        let [d_h, d_diag, d_q, d_l1, d_hi, d_rho] = self.d_columns.each_mut();
        let (mut rho, mut gamma, mut eta, mut beta) = ([T::ZERO], T::ZERO, T::ZERO, T::ZERO);
        let mut none = [];
        let tether = model.choices.objective == ObjectiveKind::Tether;
        let boxed = model.choices.objective == ObjectiveKind::L1Box;
        // The h of a tether is both anchor and start: the gradient of the start goes into the unused q.
        let (mut objective, start) = if tether {
            let grad = TetherGrad { anchor: Some(&mut d_h[..n]), beta: Some(&mut beta) };
            (ObjectiveGrad::Tether(grad), &mut d_q[..n])
        } else {
            let grad = DiagonalGrad {
                diag: Some(&mut d_diag[..n]),
                q: Some(&mut d_q[..n]),
                l1: boxed.then(|| &mut d_l1[..n]),
                hi: boxed.then(|| &mut d_hi[..n]),
                ..DiagonalGrad::default()
            };
            let d_h = if model.choices.start_at_h { &mut d_h[..n] } else { &mut none[..] };
            (ObjectiveGrad::Diagonal(grad), d_h)
        };
        let start: &mut [T] = if model.choices.start_at_h { start } else { &mut [] };
        let problem = at.problem(index, &self.columns, &self.maps)?;
        let views = at.tables.views();
        let mut maps = {
            let (table, shared) = (&mut tables.maps, &mut chunk.shared);
            model.maps.grad(at.sheaf, views, &self.maps, table, shared, &mut self.d_maps)
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
        let window = horizon.window();
        let seeds = Seeds { d_x: &self.d_x[..window * n], d_z: None, d_u: None };
        problem.reverse(horizon.adjoint(), &seeds, &mut grads, &mut self.ws)?;
        let scalars = [
            (&model.rho, rho[0], model.rho(at.params)),
            (&model.beta, beta, model.beta(at.params)),
            (&model.eta, eta, model.eta(at.params)),
        ];
        for (place, d, (_, slope)) in scalars {
            if let Some(place) = place {
                chunk.params[place.start] += d * slope;
            }
        }
        model.maps.scatter(
            at.sheaf,
            &at.prepared.maps,
            &at.tables.maps,
            index,
            &self.maps,
            &mut self.d_maps,
            &mut tables.maps,
            &mut chunk.shared,
            &mut chunk.params,
        )?;
        for (k, d) in self.d_columns.iter().enumerate() {
            let to = if tether && k == Q { H } else { k };
            let width = model.heads.width_of(to);
            if width == 0 || !(at.reads(k) || (tether && k == Q)) {
                continue;
            }
            let table = &mut tables.columns[to];
            for (from, &view) in d[..agents * width].chunks_exact(width).zip(index) {
                let row = &mut table[view as usize * width..][..width];
                row.iter_mut().zip(from).for_each(|(to, &g)| *to += g);
            }
        }
        Ok(())
    }
}

impl<T: Real> ChunkGrad<T> {
    /// Zeros for a model.
    pub fn reset<E: Encoder, D: Decoder>(&mut self, model: &Model<E, D>, prepared: &Prepared<T, D>) {
        model.maps.reset_shared(&prepared.maps, &mut self.shared);
        self.params.resize(model.layout.len(), T::ZERO);
        self.params[model.touched.clone()].fill(T::ZERO);
        self.decoder.ensure(model.decoder.prepared_grad_len());
        self.decoder.fill(T::ZERO);
        self.loss = 0.0;
        self.bad = None;
    }

    /// Adds the loss of a sample and records the first one that is not finite.
    pub fn count(&mut self, sample: usize, loss: T) {
        if loss.is_finite() {
            self.loss += loss.to_f64();
        } else {
            self.lost(sample);
        }
    }

    /// Records that this sample is not finite.
    pub fn lost(&mut self, sample: usize) {
        self.loss = f64::NAN;
        self.bad = Some(self.bad.map_or(sample, |bad| bad.min(sample)));
    }
}
