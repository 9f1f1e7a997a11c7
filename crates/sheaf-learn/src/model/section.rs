//! The `[model]` keys that all tasks share: objective, maps, consensus, penalty.
//!
//! A task adds its own keys (widths of its networks) and its own defaults. [`ModelSection::check`] turns words into
//! [`Choices`] and rejects invalid combinations, each with a reason.

use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Result};

use crate::config::word;
use crate::limits::{MAX_PARAMETERS, MAX_WIDTH, at_most, check_width, product};

/// Keys of `[model]` that every task has. The defaults are those of the published Maze model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelSection {
    /// Vertex stalk: dimension of an agent's state.
    pub d_v: usize,
    /// Edge stalk: dimension in which two neighbours compare their states.
    pub d_e: usize,
    /// `low-rank` (base maps with a LoRA update per view), `shared` (base maps alone; `slot` means the same),
    /// `orthonormal` (the stacked base maps are an orthogonal matrix) or `identity` (fixed).
    pub maps: String,
    /// `slot` (one base map per slot) or `global` (one for all slots).
    pub sharing: String,
    /// Rank of the LoRA update.
    pub rank: usize,
    /// The LoRA update is multiplied by alpha / rank.
    pub alpha: f64,
    /// `l1-box`, `quadratic` (diagonal, no l1, no box), `lasso` (one fixed l1 weight), `non-negative` or `tether`.
    pub objective: String,
    /// Fixed l1 weight of `lasso`; 0 leaves the term out.
    pub l1: f64,
    /// Initial l1 weight of `l1-box`.
    pub l1_init: f64,
    /// Initial upper bound of `l1-box`.
    pub upper_init: f64,
    /// `soft` or `hard`.
    pub agreement: String,
    /// Weight γ of disagreement, when soft.
    pub gamma: f64,
    /// `cg`, `cg-carried`, `cg-warm`, `gram` (CG in Gram space), `closed-form` (orthonormal maps), `descent`, `edge`,
    /// `exact`, `huber`, or `auto`, which takes what suits the maps.
    pub consensus: String,
    /// Inner steps of a consensus step, for iterative solvers.
    pub cg_steps: usize,
    /// Relative tolerance of the inner solve; 0 runs exactly `cg_steps` steps.
    pub cg_tolerance: f64,
    /// Initial step size of `descent`, `edge` and `huber`; it is learned.
    pub eta_init: f64,
    /// Momentum of `descent` and `huber`.
    pub momentum: f64,
    /// Threshold at which the Huber potential becomes linear.
    pub huber_width: f64,
    /// Initial penalty.
    pub rho_init: f64,
    /// Whether the penalty is learned.
    pub rho_learned: bool,
    /// `shared` (one penalty) or `per-agent` (the encoder emits one per agent).
    pub penalty: String,
    /// Whether the penalty follows the residuals (Boyd et al., section 3.4.1).
    pub balancing: bool,
    /// Over-relaxation; 1 is plain ADMM.
    pub relaxation: f64,
    /// `h` (an encoder output) or `zeros`.
    pub start: String,
}

impl Default for ModelSection {
    fn default() -> Self {
        Self {
            d_v: 10,
            d_e: 5,
            maps: "low-rank".into(),
            sharing: "slot".into(),
            rank: 4,
            alpha: 1.0,
            objective: "l1-box".into(),
            l1: 0.0,
            l1_init: 0.01,
            upper_init: 1.0,
            agreement: "soft".into(),
            gamma: 5.0,
            consensus: "auto".into(),
            cg_steps: 5,
            cg_tolerance: 0.0,
            eta_init: 0.01,
            momentum: 0.9,
            huber_width: 1.0,
            rho_init: 0.25,
            rho_learned: true,
            penalty: "shared".into(),
            balancing: false,
            relaxation: 1.0,
            start: "h".into(),
        }
    }
}

/// Family of local objectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectiveKind {
    /// Diagonal quadratic, l1, box from 0 to a learned bound.
    L1Box,
    /// Diagonal quadratic alone.
    Quadratic,
    /// Diagonal quadratic with one fixed l1 weight.
    Lasso,
    /// Diagonal quadratic, not below 0.
    NonNegative,
    /// A pull towards h.
    Tether,
}

/// Kind of restriction maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// Base maps with a LoRA update per view.
    LowRank,
    /// Base maps alone.
    Shared,
    /// Base maps whose stack is an orthogonal matrix.
    Orthonormal,
    /// Ones on the diagonal, never trained.
    Identity,
}

/// Consensus solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsensusKind {
    /// CG on the states from the published start.
    Cg,
    /// The same, with the product of the last state carried over (hard agreement).
    CgCarried,
    /// CG on the states, started at the last agreed state.
    CgWarm,
    /// CG in Gram space.
    Gram,
    /// The closed form for orthonormal maps.
    ClosedForm,
    /// Gradient descent with Nesterov momentum.
    Descent,
    /// Descent on edge multipliers, warm-started.
    Edge,
    /// A cached factorisation.
    Exact,
    /// Huber potentials on the edges, by descent.
    Huber,
}

/// The checked words of a [`ModelSection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Family of local objectives.
    pub objective: ObjectiveKind,
    /// Kind of maps.
    pub maps: MapKind,
    /// One base map for all slots.
    pub global: bool,
    /// Hard agreement.
    pub hard: bool,
    /// Consensus solver.
    pub consensus: ConsensusKind,
    /// One penalty per agent.
    pub per_agent: bool,
    /// z starts at h.
    pub start_at_h: bool,
}

impl ModelSection {
    /// Turns words into choices and rejects invalid combinations. `slots` is the number of slots of an agent.
    pub fn check(&self, slots: usize) -> Result<Choices> {
        for (name, value) in [("d_v", self.d_v), ("d_e", self.d_e), ("cg_steps", self.cg_steps)] {
            check_width(&format!("model.{name}"), value)?;
        }
        at_most("model.rank", "columns", MAX_WIDTH, self.rank)?;
        if product(&[slots, self.d_e, self.d_v], MAX_PARAMETERS as u64).is_none() {
            let want = format!("maps of an agent, slots × d_e × d_v, of at most {MAX_PARAMETERS} numbers");
            return Err(wrong("d_e", &want, format_args!("{slots} × {} × {}", self.d_e, self.d_v)));
        }
        for (name, value) in [
            ("gamma", self.gamma),
            ("rho_init", self.rho_init),
            ("relaxation", self.relaxation),
            ("eta_init", self.eta_init),
            ("huber_width", self.huber_width),
            ("l1_init", self.l1_init),
            ("upper_init", self.upper_init),
        ] {
            if !(value.is_finite() && value > 0.0) {
                let place = format!("model.{name}");
                return Err(Error::new(ErrorKind::NotPositive, place, "a finite number above 0", value));
            }
        }
        for (name, value) in [("l1", self.l1), ("cg_tolerance", self.cg_tolerance)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(wrong(name, "a finite number, 0 or above", value));
            }
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(wrong("momentum", "a number from 0 to below 1", self.momentum));
        }
        if self.relaxation >= 2.0 {
            return Err(wrong("relaxation", "a number below 2", self.relaxation)
                .hint("1 is plain ADMM, 1.5 to 1.8 often converges faster"));
        }
        let maps = word(
            "model.maps",
            &self.maps,
            &[
                ("low-rank", MapKind::LowRank),
                ("shared", MapKind::Shared),
                ("slot", MapKind::Shared),
                ("orthonormal", MapKind::Orthonormal),
                ("identity", MapKind::Identity),
            ],
        )?;
        let global = word("model.sharing", &self.sharing, &[("slot", false), ("global", true)])?;
        let hard = word("model.agreement", &self.agreement, &[("hard", true), ("soft", false)])?;
        let objective = word(
            "model.objective",
            &self.objective,
            &[
                ("l1-box", ObjectiveKind::L1Box),
                ("quadratic", ObjectiveKind::Quadratic),
                ("lasso", ObjectiveKind::Lasso),
                ("non-negative", ObjectiveKind::NonNegative),
                ("tether", ObjectiveKind::Tether),
            ],
        )?;
        let per_agent = word("model.penalty", &self.penalty, &[("shared", false), ("per-agent", true)])?;
        let consensus = self.consensus(maps, hard, slots)?;
        self.check_maps(maps, global, slots)?;
        self.check_consensus(consensus, maps, hard, per_agent)?;
        let start_at_h = word("model.start", &self.start, &[("h", true), ("zeros", false)])?;
        Ok(Choices { objective, maps, global, hard, consensus, per_agent, start_at_h })
    }

    fn consensus(&self, maps: MapKind, hard: bool, slots: usize) -> Result<ConsensusKind> {
        let auto = match maps {
            MapKind::Orthonormal => ConsensusKind::ClosedForm,
            // In Gram space a step costs one product with an m × m matrix, m = slots·d_e, instead of two with m × d_v.
            MapKind::LowRank | MapKind::Shared if !hard && slots * self.d_e <= self.d_v => {
                ConsensusKind::Gram
            }
            _ if hard => ConsensusKind::CgCarried,
            _ => ConsensusKind::Cg,
        };
        word(
            "model.consensus",
            &self.consensus,
            &[
                ("auto", auto),
                ("cg", ConsensusKind::Cg),
                ("cg-carried", ConsensusKind::CgCarried),
                ("cg-warm", ConsensusKind::CgWarm),
                ("gram", ConsensusKind::Gram),
                ("closed-form", ConsensusKind::ClosedForm),
                ("descent", ConsensusKind::Descent),
                ("edge", ConsensusKind::Edge),
                ("exact", ConsensusKind::Exact),
                ("huber", ConsensusKind::Huber),
            ],
        )
    }

    fn check_maps(&self, maps: MapKind, global: bool, slots: usize) -> Result<()> {
        if maps == MapKind::LowRank && self.rank == 0 {
            return Err(
                wrong("rank", "at least 1", 0).hint("for maps without an update set model.maps = \"shared\"")
            );
        }
        if maps != MapKind::Orthonormal {
            return Ok(());
        }
        if global {
            return Err(refused("model.sharing", "\"slot\" with orthonormal maps", "\"global\"")
                .hint("equal maps in every slot cannot be orthogonal to each other"));
        }
        if self.d_v != slots * self.d_e {
            let want = format!("{} / {slots}, so that the stacked maps make a square matrix", self.d_v);
            return Err(Error::new(ErrorKind::Malformed, "model.d_e", want, self.d_e));
        }
        Ok(())
    }

    fn check_consensus(
        &self,
        consensus: ConsensusKind,
        maps: MapKind,
        hard: bool,
        per_agent: bool,
    ) -> Result<()> {
        match consensus {
            ConsensusKind::ClosedForm if maps != MapKind::Orthonormal => Err(refused(
                "model.consensus",
                "orthonormal maps for the closed form",
                format!("{:?}", self.maps),
            )
            .hint("set model.maps = \"orthonormal\", or choose another consensus")),
            ConsensusKind::Gram | ConsensusKind::ClosedForm if per_agent => {
                Err(refused("model.penalty", "\"shared\" with this consensus", "\"per-agent\"")
                    .hint("model.consensus = \"cg\" takes one penalty per agent"))
            }
            ConsensusKind::Huber if hard => {
                Err(refused("model.agreement", "\"soft\" with Huber edges", "\"hard\"")
                    .hint("a potential is a price; hard agreement has none"))
            }
            ConsensusKind::CgWarm if hard => Err(refused("model.consensus", "soft agreement", "\"hard\"")
                .hint("hard agreement starts at w - z_prev (cg) or carries its product on (cg-carried)")),
            _ => Ok(()),
        }
    }
}

fn wrong(name: &str, expected: &str, got: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Malformed, format!("model.{name}"), expected, got)
}

fn refused(place: &str, expected: &str, got: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, place, expected, got)
}
