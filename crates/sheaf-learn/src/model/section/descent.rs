//! Checks of the keys of local descent: where it starts, and how far the agents are out of step.

use sheaf_admm::z_update::OutOfStep;
use sheaf_admm::{Error, ErrorKind, Result};

use super::check::refused;
use super::{ConsensusKind, CoordinationKind, ModelSection};
use crate::config::word;

impl ModelSection {
    /// Whether descent starts where each agent was, and how far the agents are out of step.
    pub(super) fn check_descent(
        &self,
        coordination: CoordinationKind,
        consensus: ConsensusKind,
        hard: bool,
    ) -> Result<(bool, OutOfStep)> {
        let warm =
            word("model.descent_start", &self.descent_start, &[("target", false), ("previous", true)])?;
        let lag = match self.asynchronous.as_str() {
            "" => OutOfStep::NONE,
            text => text.parse().map_err(placed)?,
        };
        let descends = coordination == CoordinationKind::Admm && consensus == ConsensusKind::Descent;
        if warm && descends && hard {
            return Err(refused("model.descent_start", "\"target\" with hard agreement", "\"previous\"")
                .hint("hard descent knows the target only by its start"));
        }
        if self.asynchronous.is_empty() {
            return Ok((warm, lag));
        }
        if coordination != CoordinationKind::Admm {
            let got = format!("model.coordination = {:?}", self.coordination);
            return Err(refused("model.asynchronous", "agents that run ADMM", got)
                .hint("set model.coordination = \"admm\", or leave model.asynchronous out"));
        }
        if !descends {
            let expected =
                "model.consensus = \"descent\": every other solver needs more than messages of neighbours";
            return Err(refused("model.asynchronous", expected, format!("{:?}", self.consensus)).hint(
                "conjugate gradients need sums over all agents in every step; `sheaf export --set \
                 model.consensus=descent --set model.eta_learned=false --set model.eta_init=…` changes the solver of \
                 weights",
            ));
        }
        if self.cg_tolerance > 0.0 {
            let error =
                Error::new(ErrorKind::Unsupported, "model.cg_tolerance", "0 out of step", self.cg_tolerance);
            return Err(error.hint("a norm is a sum over all agents; a fixed number of steps needs none"));
        }
        if self.balancing && !lag.is_in_step() {
            return Err(refused("model.balancing", "false out of step", "true")
                .hint("residuals are sums over all agents"));
        }
        Ok((warm, lag))
    }
}

/// An error of the text, with the place of the key.
fn placed(error: Error) -> Error {
    let place = error.place().replace("asynchronous", "model.asynchronous");
    let placed = Error::new(error.kind(), place, error.expected(), error.got());
    error.hint_text().map_or(placed.clone(), |hint| placed.hint(hint))
}
