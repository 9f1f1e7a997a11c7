//! The setting in which samples are solved.

use std::ops::Range;

use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::{Real, Result};

use crate::model::heads::H;
use crate::model::messages::Messages;
use crate::model::net::{Decoder, Encoder, Rows};
use crate::model::tables::Tables;
use crate::model::views::{Samples, Views};
use crate::model::{Model, Prepared};

/// A model with parameters, and the agents of its samples.
#[derive(Debug)]
pub struct Given<'a, T: Real, E: Encoder, D: Decoder> {
    /// The model.
    pub model: &'a Model<E, D>,
    /// Its parameters.
    pub params: &'a [T],
    /// The agents.
    pub sheaf: &'a Sheaf,
    /// What depends only on the parameters.
    pub prepared: &'a Prepared<T, D>,
}

/// The same, with the tables of the views of some samples.
#[derive(Debug)]
pub struct Setting<'a, T: Real, E: Encoder, D: Decoder> {
    /// The model.
    pub model: &'a Model<E, D>,
    /// Its parameters.
    pub params: &'a [T],
    /// The agents.
    pub sheaf: &'a Sheaf,
    /// What depends only on the parameters.
    pub prepared: &'a Prepared<T, D>,
    /// What depends on the views.
    pub tables: &'a Tables<T, E, D>,
}

impl<T: Real, E: Encoder, D: Decoder> Clone for Given<'_, T, E, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Real, E: Encoder, D: Decoder> Copy for Given<'_, T, E, D> {}

impl<T: Real, E: Encoder, D: Decoder> Clone for Setting<'_, T, E, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Real, E: Encoder, D: Decoder> Copy for Setting<'_, T, E, D> {}

impl<'a, T: Real, E: Encoder, D: Decoder> Given<'a, T, E, D> {
    /// The setting of samples with these tables.
    pub fn with(self, tables: &'a Tables<T, E, D>) -> Setting<'a, T, E, D> {
        let Self { model, params, sheaf, prepared } = self;
        Setting { model, params, sheaf, prepared, tables }
    }

    /// The tiles of the samples from `first` on: the number of a tile's first sample, and the views of its agents.
    pub fn tiles<'i>(&self, first: usize, index: &'i [u32]) -> impl Iterator<Item = (usize, &'i [u32])> {
        let tile = self.model.tile();
        let tiles = index.chunks(tile * self.sheaf.agents()).enumerate();
        tiles.map(move |(k, index)| (first + k * tile, index))
    }
}

impl<'a, T: Real, E: Encoder, D: Decoder> Setting<'a, T, E, D> {
    /// Whether a column of the heads is read.
    pub(super) fn reads(&self, column: usize) -> bool {
        let c = &self.model.choices;
        match column {
            H => !c.admm() || c.start_at_h || c.tether(),
            _ => self.model.heads.width_of(column) > 0,
        }
    }

    /// The layers of message passing.
    ///
    /// # Panics
    /// If the model coordinates in another way.
    pub(super) fn messages(&self) -> &'a Messages {
        self.model.messages.as_ref().expect("a model of message passing")
    }

    /// Rows for the decoder: states `x` of agents with the views `index`.
    pub(super) fn rows(&self, index: &'a [u32], x: &'a [T]) -> Rows<'a, T, D> {
        let (prepared, table) = (&self.prepared.decoder, &self.tables.decoder);
        Rows { params: self.params, prepared, table, index, x, agents: self.sheaf.agents() }
    }
}

/// Some samples with their views encoded.
#[derive(Debug)]
pub struct Encoded<T: Real, E: Encoder, D: Decoder> {
    pub(crate) views: Views,
    pub(crate) tables: Tables<T, E, D>,
}

impl<T: Real, E: Encoder, D: Decoder> Default for Encoded<T, E, D> {
    fn default() -> Self {
        Self { views: Views::default(), tables: Tables::default() }
    }
}

impl<T: Real, E: Encoder, D: Decoder> Encoded<T, E, D> {
    /// Encodes the samples in `range`.
    pub fn encode(
        &mut self,
        given: &Given<'_, T, E, D>,
        samples: &dyn Samples,
        range: Range<usize>,
    ) -> Result<()> {
        let Given { model, params, sheaf, .. } = *given;
        let own = sheaf.share().map_or(0..sheaf.agents(), |share| share.own());
        let agents = sheaf.share().map_or(sheaf.agents(), |share| share.agents());
        self.views.collect_own(samples, range, agents, own, model.encoder.view_len());
        self.tables.encode(model, params, sheaf, self.views.rows())
    }

    /// The number of every agent's view, `[samples, agents]`.
    pub fn index(&self) -> &[u32] {
        self.views.index()
    }
}
