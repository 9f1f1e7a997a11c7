//! Turns the words of the `[model]` section into choices.

use sheaf_admm::{Error, ErrorKind, Result};

use super::{
    AggregationKind, Choices, ConsensusKind, CoordinationKind, MapKind, ModelSection, ObjectiveKind, Sharing,
};
use crate::config::word;
use crate::limits::{MAX_PARAMETERS, MAX_WIDTH, at_most, check_width, is_positive_f32, product};

impl ModelSection {
    /// Turns words into choices and rejects invalid combinations. `slots` is the number of slots of an agent.
    pub fn check(&self, slots: usize) -> Result<Choices> {
        for (name, value) in [("d_v", self.d_v), ("d_e", self.d_e), ("cg_steps", self.cg_steps)] {
            check_width(&format!("model.{name}"), value)?;
        }
        for (name, value) in [
            ("agents", self.agents),
            ("rank", self.rank),
            ("objective_rank", self.objective_rank),
            ("objective_rows", self.objective_rows),
            ("message_width", self.message_width),
        ] {
            at_most(&format!("model.{name}"), "numbers", MAX_WIDTH, value)?;
        }
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
            if !is_positive_f32(value) {
                let (place, want) = (format!("model.{name}"), "a finite number above 0 that f32 can hold");
                return Err(Error::new(ErrorKind::NotPositive, place, want, value));
            }
        }
        for (name, value) in [("l1", self.l1), ("cg_tolerance", self.cg_tolerance)] {
            if !(value == 0.0 || is_positive_f32(value)) {
                return Err(wrong(name, "a finite number above 0 that f32 can hold, or 0", value));
            }
        }
        if !(self.alpha as f32).is_finite() {
            return Err(wrong("alpha", "a finite number that f32 can hold", self.alpha));
        }
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(wrong("momentum", "a number from 0 to below 1", self.momentum));
        }
        if self.relaxation >= 2.0 {
            return Err(wrong("relaxation", "a number below 2", self.relaxation)
                .hint("1 is plain ADMM, 1.5 to 1.8 often converges faster"));
        }
        let coordination = word(
            "model.coordination",
            &self.coordination,
            &[
                ("admm", CoordinationKind::Admm),
                ("message-passing", CoordinationKind::MessagePassing),
                ("none", CoordinationKind::None),
            ],
        )?;
        let aggregation = word(
            "model.aggregation",
            &self.aggregation,
            &[
                ("max", AggregationKind::Max),
                ("mean", AggregationKind::Mean),
                ("add", AggregationKind::Add),
                ("degree", AggregationKind::Degree),
            ],
        )?;
        let shared_messages =
            word("model.messages", &self.messages, &[("directional", false), ("shared", true)])?;
        if coordination != CoordinationKind::MessagePassing {
            self.check_no_messages()?;
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
        let sharing = word(
            "model.sharing",
            &self.sharing,
            &[("slot", Sharing::Slot), ("global", Sharing::Global), ("agent", Sharing::Agent)],
        )?;
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
                ("dense", ObjectiveKind::Dense),
                ("equality", ObjectiveKind::Equality),
                ("qp", ObjectiveKind::Qp),
            ],
        )?;
        let per_agent = word("model.penalty", &self.penalty, &[("shared", false), ("per-agent", true)])?;
        let consensus = self.consensus(maps, sharing, hard, slots)?;
        if coordination == CoordinationKind::Admm {
            self.check_objective(objective)?;
            self.check_maps(maps, sharing, slots)?;
            self.check_consensus(consensus, maps, sharing, hard, per_agent)?;
        }
        let (warm, lag) = self.check_descent(coordination, consensus, hard)?;
        let start_at_h = word("model.start", &self.start, &[("h", true), ("zeros", false)])?;
        Ok(Choices {
            coordination,
            objective,
            maps,
            sharing,
            hard,
            consensus,
            warm,
            lag,
            per_agent,
            start_at_h,
            aggregation,
            shared_messages,
        })
    }

    fn consensus(&self, maps: MapKind, sharing: Sharing, hard: bool, slots: usize) -> Result<ConsensusKind> {
        let small = slots * self.d_e <= self.d_v && sharing != Sharing::Agent;
        let auto = match maps {
            MapKind::Orthonormal => ConsensusKind::ClosedForm,
            // In Gram space a step costs one product with an m × m matrix, m = slots·d_e, instead of two with m × d_v.
            MapKind::LowRank | MapKind::Shared if !hard && small => ConsensusKind::Gram,
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

    /// Rejects keys of message passing in a model that passes no messages: they would change nothing.
    fn check_no_messages(&self) -> Result<()> {
        let usual = Self::default();
        let set = if self.aggregation != usual.aggregation {
            ("aggregation", self.aggregation.clone())
        } else if self.messages != usual.messages {
            ("messages", self.messages.clone())
        } else if self.message_width != usual.message_width {
            ("message_width", self.message_width.to_string())
        } else {
            return Ok(());
        };
        let (name, got) = set;
        Err(self.no_messages(&format!("model.{name}"), &got))
    }

    /// Refuses a key of message passing that was set by hand, as `text`, where nothing passes messages: who sets it wants
    /// messages, also with the value that is the default.
    pub(crate) fn check_set(&self, key: &str, text: &str) -> Result<()> {
        let of_messages = ["model.aggregation", "model.messages", "model.message_width"].contains(&key);
        if !of_messages || self.coordination == "message-passing" {
            return Ok(());
        }
        let got = text.split_once('=').map_or(text, |(_, value)| value.trim());
        Err(self.no_messages(&format!("--set {key}"), got))
    }

    fn no_messages(&self, place: &str, got: &str) -> Error {
        let want = format!("no such key with model.coordination = {:?}", self.coordination);
        refused(place, &want, got)
            .hint("it is a key of message passing: set model.coordination = \"message-passing\"")
    }

    fn check_objective(&self, objective: ObjectiveKind) -> Result<()> {
        match objective {
            ObjectiveKind::Dense if self.objective_rank == 0 => Err(wrong("objective_rank", "at least 1", 0)
                .hint("without V the objective is model.objective = \"quadratic\"")),
            ObjectiveKind::Equality | ObjectiveKind::Qp if self.objective_rows == 0 => {
                Err(wrong("objective_rows", "at least 1", 0)
                    .hint("without constraints the objective is \"quadratic\" or \"non-negative\""))
            }
            // As many independent equalities as coordinates leave no freedom: x would not depend on the neighbours.
            ObjectiveKind::Equality if self.objective_rows >= self.d_v => {
                let want = format!("fewer than model.d_v = {}", self.d_v);
                Err(wrong("objective_rows", &want, self.objective_rows)
                    .hint("d_v independent equalities determine x without the neighbours"))
            }
            _ => Ok(()),
        }
    }

    fn check_maps(&self, maps: MapKind, sharing: Sharing, slots: usize) -> Result<()> {
        if sharing == Sharing::Agent {
            return self.check_agents(maps, slots);
        }
        if maps == MapKind::LowRank && self.rank == 0 {
            return Err(
                wrong("rank", "at least 1", 0).hint("for maps without an update set model.maps = \"shared\"")
            );
        }
        if self.scales && maps != MapKind::Orthonormal {
            let (want, got) = ("false without orthonormal maps", "true");
            return Err(refused("model.scales", want, got)
                .hint("other maps learn their scales as they are; set model.maps = \"orthonormal\""));
        }
        if self.gates && maps != MapKind::LowRank {
            return Err(refused("model.gates", "false without a LoRA update", "true")
                .hint("gates multiply the update of model.maps = \"low-rank\""));
        }
        if maps != MapKind::Orthonormal {
            return Ok(());
        }
        if sharing == Sharing::Global {
            return Err(refused("model.sharing", "\"slot\" with orthonormal maps", "\"global\"")
                .hint("equal maps in every slot cannot be orthogonal to each other"));
        }
        if self.d_v != slots * self.d_e {
            let want = format!("{} / {slots}, so that the stacked maps make a square matrix", self.d_v);
            return Err(Error::new(ErrorKind::Malformed, "model.d_e", want, self.d_e));
        }
        Ok(())
    }

    fn check_agents(&self, maps: MapKind, slots: usize) -> Result<()> {
        if maps != MapKind::Shared {
            let (want, got) = ("\"shared\" with maps of every agent", format!("{:?}", self.maps));
            return Err(refused("model.maps", want, got)
                .hint("set model.maps = \"shared\": the base maps of every agent are learned as they are"));
        }
        if self.agents == 0 {
            return Err(wrong("agents", "the number of agents of an input", 0)
                .hint("a 19×19 maze has 81 agents, a picture of 28×28 pixels 81, a Sudoku board 27"));
        }
        let sizes = [self.agents, slots, self.d_e, self.d_v];
        if product(&sizes, MAX_PARAMETERS as u64).is_none() {
            let want = format!("maps of all agents of at most {MAX_PARAMETERS} numbers");
            let got = format!("{} × {slots} × {} × {}", self.agents, self.d_e, self.d_v);
            return Err(wrong("agents", &want, got));
        }
        Ok(())
    }

    fn check_consensus(
        &self,
        consensus: ConsensusKind,
        maps: MapKind,
        sharing: Sharing,
        hard: bool,
        per_agent: bool,
    ) -> Result<()> {
        match consensus {
            ConsensusKind::Gram if sharing == Sharing::Agent => {
                Err(refused("model.consensus", "maps that all agents share for Gram space", "\"agent\"")
                    .hint("model.consensus = \"cg\" takes maps of every agent"))
            }
            ConsensusKind::ClosedForm if maps != MapKind::Orthonormal => Err(refused(
                "model.consensus",
                "orthonormal maps for the closed form",
                format!("{:?}", self.maps),
            )
            .hint("set model.maps = \"orthonormal\", or choose another consensus")),
            // The Laplacian has one eigenvalue besides 0, so that the first step removes all disagreement. What is left is
            // rounding, which the guarded divisions of further steps amplify: losses lose up to ten digits.
            ConsensusKind::Cg | ConsensusKind::CgCarried | ConsensusKind::Gram
                if hard && maps == MapKind::Orthonormal && self.cg_tolerance == 0.0 && self.cg_steps > 1 =>
            {
                let expected = "\"closed-form\" with hard agreement and orthonormal maps";
                Err(refused("model.consensus", expected, format!("{:?}", self.consensus)).hint(
                    "conjugate gradients converge in one step there and amplify rounding in the others; \
                     \"closed-form\" is exact",
                ))
            }
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

pub(super) fn refused(place: &str, expected: &str, got: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, place, expected, got)
}
