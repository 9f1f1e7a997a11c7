//! What depends only on the parameters: computed once per batch, read by every worker.

use sheaf_admm::error::check_precision;
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::z_update::ZUpdate;
use sheaf_admm::{Error, ErrorKind, Real, Result};

use super::maps::PreparedMaps;
use super::messages::Links;
use super::net::{Decoder, Encoder};
use super::{ConsensusKind, Model, consensus};

/// Scalars, maps, decoder and consensus solver of one parameter vector.
#[derive(Debug)]
pub struct Prepared<T: Real, D: Decoder> {
    pub(super) maps: PreparedMaps<T>,
    pub(super) decoder: D::Prepared<T>,
    pub(super) rho: T,
    pub(super) beta: T,
    z_update: Option<ZUpdate<T>>,
    links: Links,
    sheaf: Option<Sheaf>, // the sheaf of a planned exact solver, or of the links
}

impl<T: Real, D: Decoder> Default for Prepared<T, D> {
    fn default() -> Self {
        let (maps, decoder) = (PreparedMaps::default(), D::Prepared::default());
        Self {
            maps,
            decoder,
            rho: T::ZERO,
            beta: T::ONE,
            z_update: None,
            links: Links::default(),
            sheaf: None,
        }
    }
}

impl<T: Real, D: Decoder> Prepared<T, D> {
    /// Prepares the model for these parameters.
    pub fn prepare<E: Encoder>(&mut self, model: &Model<E, D>, params: &[T], sheaf: &Sheaf) -> Result<()> {
        check_precision::<T>("precision of the model", model.precision)?;
        model.maps.prepare(params, sheaf, &mut self.maps)?;
        model.decoder.prepare(params, &mut self.decoder);
        self.rho = model.rho(params).0;
        self.beta = model.beta(params).0;
        let eta = model.eta(params).0;
        if let (Some(_), Some(_)) = (&model.messages, sheaf.share()) {
            let (expected, got) = ("agents that run ADMM", "message passing");
            return Err(Error::new(ErrorKind::Unsupported, "coordination over several ranks", expected, got)
                .hint("solve in one process"));
        }
        if let Some(messages) = &model.messages {
            if self.sheaf.as_ref() != Some(sheaf) || self.links.types() != messages.types() {
                self.links = Links::new(sheaf, messages.types());
                self.sheaf = Some(sheaf.clone());
            }
            return Ok(());
        }
        if !model.choices.admm() {
            self.z_update = None;
        } else if !self.is_planned(model, sheaf) {
            self.z_update = Some(consensus::z_update(&model.section, &model.choices, sheaf, eta)?);
            let exact = matches!(self.z_update, Some(ZUpdate::Exact(_)));
            self.sheaf = exact.then(|| sheaf.clone());
        }
        Ok(())
    }

    /// Whether the existing exact solver belongs to this model and sheaf. Its plan depends on nothing else and costs
    /// more than a step.
    fn is_planned<E: Encoder>(&self, model: &Model<E, D>, sheaf: &Sheaf) -> bool {
        let agreement = consensus::agreement(&model.section, &model.choices);
        let same = matches!(&self.z_update, Some(ZUpdate::Exact(exact)) if exact.agreement == agreement);
        same && model.choices.consensus == ConsensusKind::Exact && self.sheaf.as_ref() == Some(sheaf)
    }

    /// Which messages reach which agent.
    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    /// The consensus solver.
    pub fn z_update(&self) -> &ZUpdate<T> {
        self.z_update.as_ref().expect("prepared before use")
    }
}
