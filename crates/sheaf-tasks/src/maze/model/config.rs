//! The choices that make a maze model, with the published ones as defaults.

use serde::{Deserialize, Serialize};
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Stop, ZUpdate};
use sheaf_admm::{Error, ErrorKind, Real, Result};

use sheaf_learn::config::word;

/// The `[model]` section of a maze experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MazeConfig {
    /// Vertex stalk.
    pub d_v: usize,
    /// Edge stalk.
    pub d_e: usize,
    /// Width of the encoder's and the decoder's hidden layer.
    pub hidden: usize,
    /// `low-rank` (shared base, updated by each view), `shared` (base only) or `identity` (fixed).
    pub maps: String,
    /// Rank of the update of the maps.
    pub rank: usize,
    /// Factor of the update is alpha / rank.
    pub alpha: f64,
    /// `l1-box`, `quadratic` (diagonal, no l1, no box), `non-negative` or `tether`.
    pub objective: String,
    /// l1 weight at the start.
    pub l1_init: f64,
    /// Upper bound at the start.
    pub upper_init: f64,
    /// `soft` or `hard`.
    pub agreement: String,
    /// Price of disagreement, when soft.
    pub gamma: f64,
    /// Conjugate-gradient steps of a consensus step.
    pub cg_steps: usize,
    /// Penalty at the start.
    pub rho_init: f64,
    /// Whether the penalty is learned.
    pub rho_learned: bool,
    /// Over-relaxation.
    pub relaxation: f64,
    /// `h` (an encoder output) or `zeros`.
    pub start: String,
}

impl Default for MazeConfig {
    fn default() -> Self {
        Self {
            d_v: 10,
            d_e: 5,
            hidden: 256,
            maps: "low-rank".into(),
            rank: 4,
            alpha: 1.0,
            objective: "l1-box".into(),
            l1_init: 0.01,
            upper_init: 1.0,
            agreement: "soft".into(),
            gamma: 5.0,
            cg_steps: 5,
            rho_init: 0.25,
            rho_learned: true,
            relaxation: 1.0,
            start: "h".into(),
        }
    }
}

/// Which local objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectiveKind {
    /// Diagonal quadratic, l1, box from 0 to a learned bound.
    L1Box,
    /// Diagonal quadratic alone.
    Quadratic,
    /// Diagonal quadratic, not below 0.
    NonNegative,
    /// A pull towards h.
    Tether,
}

/// Which restriction maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Base plus low-rank update per view.
    LowRank,
    /// Base alone.
    Shared,
    /// Ones on the diagonal, never trained.
    Identity,
}

/// The checked choices.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Of the local objective.
    pub objective: ObjectiveKind,
    /// Of the maps.
    pub maps: MapKind,
    /// Whether z starts at h.
    pub start_at_h: bool,
    hard: bool,
}

impl MazeConfig {
    /// Turns words into choices and refuses what makes no sense.
    pub fn check(&self) -> Result<Checked> {
        for (name, value) in [("d_v", self.d_v), ("d_e", self.d_e), ("hidden", self.hidden)] {
            if value == 0 {
                return Err(Error::new(ErrorKind::Malformed, format!("model.{name}"), "at least 1", value));
            }
        }
        for (name, value) in
            [("gamma", self.gamma), ("rho_init", self.rho_init), ("relaxation", self.relaxation)]
        {
            if !(value.is_finite() && value > 0.0) {
                let place = format!("model.{name}");
                return Err(Error::new(ErrorKind::NotPositive, place, "a finite number above 0", value));
            }
        }
        let maps = word(
            "model.maps",
            &self.maps,
            &[("low-rank", MapKind::LowRank), ("shared", MapKind::Shared), ("identity", MapKind::Identity)],
        )?;
        if maps == MapKind::LowRank && self.rank == 0 {
            return Err(Error::new(ErrorKind::Malformed, "model.rank", "at least 1", 0)
                .hint("for maps without an update set model.maps = \"shared\""));
        }
        Ok(Checked {
            objective: word(
                "model.objective",
                &self.objective,
                &[
                    ("l1-box", ObjectiveKind::L1Box),
                    ("quadratic", ObjectiveKind::Quadratic),
                    ("non-negative", ObjectiveKind::NonNegative),
                    ("tether", ObjectiveKind::Tether),
                ],
            )?,
            maps,
            start_at_h: word("model.start", &self.start, &[("h", true), ("zeros", false)])?,
            hard: word("model.agreement", &self.agreement, &[("hard", true), ("soft", false)])?,
        })
    }

    /// The consensus solver.
    pub fn z_update<T: Real>(&self, checked: &Checked) -> ZUpdate<T> {
        let agreement =
            if checked.hard { Agreement::Hard } else { Agreement::Soft { gamma: T::from_f64(self.gamma) } };
        let published = Cg::published(agreement, self.cg_steps);
        ZUpdate::Cg(Cg { stop: Stop::Steps(self.cg_steps), start: CgStart::Published, ..published })
    }
}
