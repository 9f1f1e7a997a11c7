//! The choices that make a model of pictures, with the published ones as defaults.

use serde::{Deserialize, Serialize};
use sheaf_admm::sheaf::Connectivity;
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Stop, ZUpdate};
use sheaf_admm::{Error, ErrorKind, Real, Result};

use sheaf_learn::config::word;

/// The `[model]` section of an experiment on pictures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MnistConfig {
    /// Classes to tell apart.
    pub classes: usize,
    /// Pixels of a view along one side.
    pub patch: usize,
    /// Pixels between agents.
    pub stride: usize,
    /// Neighbours of an agent: 8 or 4.
    pub neighbours: usize,
    /// Vertex stalk.
    pub d_v: usize,
    /// Edge stalk.
    pub d_e: usize,
    /// Width of the encoder.
    pub hidden: usize,
    /// `low-rank` (one base, updated by each view), `shared` (the base alone) or `identity` (fixed).
    pub maps: String,
    /// Rank of the update of the maps.
    pub rank: usize,
    /// Factor of the update is alpha / rank.
    pub alpha: f64,
    /// Weight of |x|, the same everywhere; 0 leaves the term out.
    pub l1: f64,
    /// `hard` or `soft`.
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

impl Default for MnistConfig {
    fn default() -> Self {
        Self {
            classes: 10,
            patch: 3,
            stride: 3,
            neighbours: 8,
            d_v: 32,
            d_e: 24,
            hidden: 256,
            maps: "low-rank".into(),
            rank: 8,
            alpha: 1.0,
            l1: 0.006337180166370117,
            agreement: "hard".into(),
            gamma: 1.0,
            cg_steps: 5,
            rho_init: 0.12,
            rho_learned: true,
            relaxation: 1.0,
            start: "h".into(),
        }
    }
}

/// The checked choices.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Who is a neighbour.
    pub connectivity: Connectivity,
    /// Rank of the update; 0 for none.
    pub rank: usize,
    /// Whether the base is trained.
    pub trains_base: bool,
    /// Whether z starts at h.
    pub start_at_h: bool,
    hard: bool,
}

impl MnistConfig {
    /// Turns words into choices and refuses what makes no sense.
    pub fn check(&self) -> Result<Checked> {
        let wrong = |name: &str, expected: &str, got: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Malformed, format!("model.{name}"), expected, got)
        };
        for (name, value) in
            [("d_v", self.d_v), ("d_e", self.d_e), ("hidden", self.hidden), ("stride", self.stride)]
        {
            if value == 0 {
                return Err(wrong(name, "at least 1", &value));
            }
        }
        if !(1..=255).contains(&self.classes) {
            return Err(wrong("classes", "1 to 255", &self.classes));
        }
        if !(1..=6).contains(&self.patch) {
            return Err(wrong("patch", "1 to 6", &self.patch));
        }
        for (name, value) in
            [("gamma", self.gamma), ("rho_init", self.rho_init), ("relaxation", self.relaxation)]
        {
            if !(value.is_finite() && value > 0.0) {
                return Err(wrong(name, "a finite number above 0", &value));
            }
        }
        if !(self.l1.is_finite() && self.l1 >= 0.0) {
            return Err(wrong("l1", "a finite number, 0 or above", &self.l1));
        }
        let (low_rank, trains_base) = word(
            "model.maps",
            &self.maps,
            &[("low-rank", (true, true)), ("shared", (false, true)), ("identity", (false, false))],
        )?;
        if low_rank && self.rank == 0 {
            return Err(wrong("rank", "at least 1", &0)
                .hint("for maps without an update set model.maps = \"shared\""));
        }
        Ok(Checked {
            connectivity: match self.neighbours {
                8 => Connectivity::Eight,
                4 => Connectivity::Four,
                other => return Err(wrong("neighbours", "8 or 4", &other)),
            },
            rank: if low_rank { self.rank } else { 0 },
            trains_base,
            start_at_h: word("model.start", &self.start, &[("h", true), ("zeros", false)])?,
            hard: word("model.agreement", &self.agreement, &[("hard", true), ("soft", false)])?,
        })
    }

    /// The consensus solver.
    pub fn z_update<T: Real>(&self, checked: &Checked) -> ZUpdate<T> {
        let agreement =
            if checked.hard { Agreement::Hard } else { Agreement::Soft { gamma: T::from_f64(self.gamma) } };
        let published = Cg::published(agreement, self.cg_steps);
        ZUpdate::Cg(Cg { stop: Stop::Steps(self.cg_steps), start: CgStart::Carried, ..published })
    }
}
