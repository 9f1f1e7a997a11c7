//! A few samples on one core: gather the values of their views, coordinate, decode, and run the reverse pass.
//!
//! | file | holds |
//! | --- | --- |
//! | `setting` | model, parameters, agents and encoded views |
//! | `admm`, `objective` | coordination by ADMM: the problem, its solve, its reverse sweep |
//! | `disturb` | states changed before the iterations that gradients go back through |
//! | `readout` | the decoder and the loss |
//! | `seen` | what observers of an iteration see |
//! | `play` | a sample with interventions |
//! | `chunk` | gradients of a chunk of a batch |

mod admm;
mod chunk;
mod disturb;
mod objective;
mod play;
mod readout;
mod seen;
mod setting;

pub use chunk::ChunkGrad;
pub use play::{Scene, play};
pub use readout::Aim;
pub use seen::{Seen, Watcher};
pub use setting::{Encoded, Given, Setting};

use sheaf_admm::admm::{Mode, Options, Workspace};
use sheaf_admm::z_update::Draw;
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;

use crate::model::heads::{COLUMNS, H};
use crate::model::maps::MapIndex;
use crate::model::messages::Rounds;
use crate::model::net::{Decoder, Encoder};
use crate::model::tables::TableGrad;
use crate::model::{CoordinationKind, Horizon};
use admm::{Back, Posed};
use disturb::Disturbed;
use objective::Parts;
use readout::Readout;

/// Head outputs of every agent, in the order of [`heads`](crate::model::heads).
type Columns<T> = [AlignedVec<T>; COLUMNS];

/// Buffers for a few samples at a time, kept by a worker. Their contents do not affect the next samples.
#[derive(Debug)]
pub struct Worker<T: Real, D: Decoder> {
    columns: Columns<T>,
    d_columns: Columns<T>,
    parts: Parts<T>,
    maps: MapIndex<T>,
    ws: Workspace<T>,
    back: Back<T>,
    disturbed: Disturbed,
    rounds: Rounds<T>,
    readout: Readout<T, D>,
    iterations: Vec<usize>, // [samples], those that ran
}

impl<T: Real, D: Decoder> Default for Worker<T, D> {
    fn default() -> Self {
        Self {
            columns: Default::default(),
            d_columns: Default::default(),
            parts: Parts::default(),
            maps: MapIndex::default(),
            ws: Workspace::default(),
            back: Back::default(),
            disturbed: Disturbed::default(),
            rounds: Rounds::default(),
            readout: Readout::default(),
            iterations: Vec::new(),
        }
    }
}

impl<T: Real, D: Decoder> Worker<T, D> {
    /// The most recent outputs, `[agents, outputs]`.
    pub fn outputs(&self) -> &[T] {
        &self.readout.outputs
    }

    /// Iterations that every sample of the last solve ran.
    pub fn iterations(&self) -> &[usize] {
        &self.iterations
    }

    /// Solves the samples whose agents have the views `index` `[samples, agents]`.
    pub fn solve<E: Encoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        index: &[u32],
        options: &Options<T>,
        watcher: &mut impl Watcher<T>,
    ) -> Result<()> {
        self.gather(at, index)?;
        self.iterations.clear();
        match at.model.choices.coordination {
            CoordinationKind::Admm => {
                let Self { columns, parts, maps, ws, .. } = self;
                let posed = Posed::new(at, index, columns, parts, maps)?;
                posed.solve(at, options, Mode::Solve, ws, watcher)?;
                self.iterations.extend(ws.samples().iter().map(|sample| sample.iterations));
            }
            CoordinationKind::MessagePassing => {
                let Self { columns, rounds, iterations, .. } = self;
                let h = &columns[H][..index.len() * at.model.section.d_v];
                let (cell, count) = (at.messages(), options.iterations);
                rounds.run(cell, at.params, at.prepared.links(), h, count, 0, iterations, watcher)?;
            }
            CoordinationKind::None => self.iterations.resize(index.len() / at.sheaf.agents(), 0),
        }
        Ok(())
    }

    /// Gathers the head outputs of the agents and prepares their objectives and maps.
    fn gather<E: Encoder>(&mut self, at: &Setting<'_, T, E, D>, index: &[u32]) -> Result<()> {
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
        if at.model.choices.admm() {
            self.parts.prepare(at, index.len(), &self.columns);
            let (prepared, tables) = (&at.prepared.maps, &at.tables.maps);
            at.model.maps.group(at.sheaf, prepared, tables, index, &mut self.maps)?;
        }
        Ok(())
    }

    /// Adds the gradients of the agents' head outputs to those of their views.
    fn scatter<E: Encoder>(&self, at: &Setting<'_, T, E, D>, index: &[u32], tables: &mut TableGrad<T>) {
        for (k, (d, table)) in self.d_columns.iter().zip(&mut tables.columns).enumerate() {
            let width = at.model.heads.width_of(k);
            if width == 0 || !at.reads(k) {
                continue;
            }
            for (from, &view) in d[..index.len() * width].chunks_exact(width).zip(index) {
                let row = &mut table[view as usize * width..][..width];
                row.iter_mut().zip(from).for_each(|(to, &g)| *to += g);
            }
        }
    }

    /// Decodes states `x` of agents with the views `index` into [`outputs`](Self::outputs).
    pub fn decode<E: Encoder>(&mut self, at: &Setting<'_, T, E, D>, index: &[u32], x: &[T]) {
        self.readout.decode(at, index, x);
    }

    /// Decodes the last states of a solve.
    pub fn decode_last<E: Encoder>(&mut self, at: &Setting<'_, T, E, D>, index: &[u32]) {
        let Self { columns, ws, rounds, readout, .. } = self;
        let states = match at.model.choices.coordination {
            CoordinationKind::Admm => ws.x(),
            CoordinationKind::MessagePassing => rounds.last(1),
            CoordinationKind::None => &columns[H],
        };
        readout.decode(at, index, states);
    }

    /// Computes the loss of some samples of a batch, as many as `index` has, and adds their gradients to `tables` and
    /// `chunk`.
    pub fn grad<E: Encoder>(
        &mut self,
        at: &Setting<'_, T, E, D>,
        index: &[u32],
        aim: &Aim<'_, T>,
        horizon: Horizon,
        tables: &mut TableGrad<T>,
        chunk: &mut ChunkGrad<T>,
    ) -> Result<()> {
        self.gather(at, index)?;
        for (k, d) in self.d_columns.iter_mut().enumerate().filter(|&(k, _)| at.reads(k)) {
            objective::zeroed(d, index.len() * at.model.heads.width_of(k));
        }
        let Self { columns, d_columns, parts, maps, ws, back, disturbed, rounds, readout, iterations } = self;
        let n = index.len() * at.model.section.d_v;
        match at.model.choices.coordination {
            CoordinationKind::Admm => {
                let iterations = horizon.taped();
                let draw = Draw { step: horizon.draw, sample: aim.first as u64 };
                let options = Options::fixed(horizon.iterations).taping(iterations).drawing(draw);
                // The implicit adjoint needs the last z; otherwise nothing reads it.
                let options = if horizon.implicit { options } else { options.x_only() };
                let posed = Posed::new(at, index, columns, parts, maps)?;
                // Storing the inner steps saves a quarter of the products at the cost of some megabytes per core.
                let mode = Mode::Keep { iterations };
                match horizon.disturbed_at() {
                    Some(k) => posed.solve_disturbed(at, &options, mode, ws, disturbed, k, &horizon)?,
                    None => posed.solve(at, &options, mode, ws, &mut ())?,
                }
                let x = ws.last_x(horizon.window())?;
                readout.loss(at, index, aim, x, tables, chunk);
                let d_x = &readout.d_states[..horizon.window() * n];
                back.reverse(at, &posed, horizon, d_x, ws, d_columns, tables, chunk)?;
            }
            CoordinationKind::MessagePassing => {
                let (cell, links, h) = (at.messages(), at.prepared.links(), &columns[H][..n]);
                let (count, taped, window) = (horizon.iterations, horizon.taped(), horizon.window());
                rounds.run(cell, at.params, links, h, count, taped, iterations, &mut ())?;
                readout.loss(at, index, aim, rounds.last(window), tables, chunk);
                let (d_last, d_h) = (&readout.d_states[..window * n], &mut d_columns[H][..n]);
                rounds.reverse(cell, at.params, links, h, d_last, d_h, &mut chunk.params);
            }
            CoordinationKind::None => {
                readout.loss(at, index, aim, &columns[H][..n], tables, chunk);
                d_columns[H][..n].copy_from_slice(&readout.d_states[..n]);
            }
        }
        self.scatter(at, index, tables);
        Ok(())
    }
}
