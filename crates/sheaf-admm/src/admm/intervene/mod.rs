//! Interventions: what if an agent were kicked, an edge cut, the input changed while the agents negotiate?
//!
//! Observers see, interventions act. A list of [`Intervention`]s, plain data, is checked against a problem and applied
//! between the updates of its iterations ([`play`](super::Problem::play)). The same list gives the same bits every time:
//! noise depends only on its seed, the iteration, the agent and the coordinate.
//!
//! | action | does | from |
//! | --- | --- | --- |
//! | `set`, `noise`, `scale` | change x, z or u of some agents once | any point of an iteration |
//! | `pin` | holds them from then on, until released | any point |
//! | `remove`, `restore` | takes agents out: their edges are cut, z and u stay as they are, x = z | the start of an iteration |
//! | `cut`, `join` | takes edges out and back in | the start of an iteration |
//! | `rho`, `gamma`, `relaxation`, `steps` | change the solver; duals are rescaled so that ρu stays | the start of an iteration |
//! | `input` | continues with another problem on the same agents | the start of an iteration |
//!
//! Iterations count from 1, as in reports. What a consensus solver carries from one iteration to the next starts anew
//! when the problem changes; states do not.

mod apply;
mod check;
mod play;
mod pose;
mod random;

pub use apply::{Acting, Held};
pub use check::{Kind, Shape};
pub(crate) use play::Run;
pub use play::{Now, Played};
pub use pose::Part;
pub use random::{chosen, normal};
pub(crate) use random::{mix, unit};

use super::Before;
use crate::{Real, Result};

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// Interventions of a solve. Those at the same point apply in the order of the list.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default, deny_unknown_fields))]
pub struct Interventions {
    /// Where to start, if not where the problem says.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub start: Option<StartAt>,
    /// What to do.
    pub list: Vec<Intervention>,
}

/// States to start from. x is no part of a start: the first x-update computes it from z and u.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(default, deny_unknown_fields))]
pub struct StartAt {
    /// z of ADMM, or the state of message passing; as the problem says if empty.
    pub z: Vec<f64>, // [states] or []
    /// u of ADMM; 0 if empty.
    pub u: Vec<f64>, // [states] or []
}

/// One intervention.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Intervention {
    /// The iteration, from 1.
    pub k: usize,
    /// The point of the iteration; by default the first at which the action has an effect.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub before: Option<Before>,
    /// What to do.
    #[cfg_attr(feature = "serde", serde(rename = "do"))]
    pub action: Action,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(rename_all = "snake_case", deny_unknown_fields)
)]
pub enum Action {
    /// Sets coordinates.
    Set {
        /// Of which state.
        of: Variable,
        /// Of which agents.
        agents: Agents,
        /// Which coordinates; all if not given.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        coordinates: Option<Vec<usize>>,
        /// The new values.
        to: Values,
    },
    /// Adds normal noise.
    Noise {
        /// To which state.
        of: Variable,
        /// Of which agents.
        agents: Agents,
        /// Which coordinates; all if not given.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        coordinates: Option<Vec<usize>>,
        /// Standard deviation.
        deviation: f64,
        /// Seed.
        seed: u64,
    },
    /// Multiplies by a number.
    Scale {
        /// Which state.
        of: Variable,
        /// Of which agents.
        agents: Agents,
        /// Which coordinates; all if not given.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        coordinates: Option<Vec<usize>>,
        /// The number.
        by: f64,
    },
    /// Holds coordinates from here on.
    Pin {
        /// Of which state.
        of: Variable,
        /// Of which agents.
        agents: Agents,
        /// Which coordinates; all if not given.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        coordinates: Option<Vec<usize>>,
        /// The values; as they are at that point if not given.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        to: Option<Values>,
        /// The first iteration that is free again; never if not given.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        until: Option<usize>,
    },
    /// Takes agents out.
    Remove(Agents),
    /// Puts removed agents back.
    Restore(Agents),
    /// Cuts all edges between pairs of agents.
    Cut(Vec<[usize; 2]>),
    /// Joins pairs of agents again.
    Join(Vec<[usize; 2]>),
    /// Another penalty ρ, for all agents.
    Rho(f64),
    /// Another price γ of disagreement.
    Gamma(f64),
    /// Another over-relaxation α.
    Relaxation(f64),
    /// Another number of steps of the consensus solver.
    Steps(usize),
    /// Another input, by its number.
    Input(usize),
}

/// A state of the agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum Variable {
    /// Proposals.
    X,
    /// The agreed state.
    Z,
    /// The duals.
    U,
    /// The state of message passing.
    H,
}

/// Some agents.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(untagged, expecting = "agents: a list of numbers, \"all\", or {\"share\": 0.1, \"seed\": 1}")
)]
pub enum Agents {
    /// These.
    These(Vec<usize>),
    /// A random part of all, the same for the same seed.
    Share {
        /// Their share, above 0 and at most 1; at least one agent.
        share: f64,
        /// Seed.
        seed: u64,
    },
    /// All.
    All(All),
}

/// The word for all agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum All {
    /// All of them.
    All,
}

/// Values of some coordinates of some agents.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(
        untagged,
        expecting = "a number, or a list of numbers: one per coordinate, or per agent and coordinate"
    )
)]
pub enum Values {
    /// The same for all.
    One(f64),
    /// One per coordinate, the same for every agent; or one per agent and coordinate.
    Each(Vec<f64>),
}

impl Action {
    /// Whether it changes states; other actions change the problem.
    pub fn changes_states(&self) -> bool {
        self.target().is_some()
    }

    /// The state, agents and coordinates that it changes.
    pub(super) fn target(&self) -> Option<(Variable, &Agents, Option<&[usize]>)> {
        match self {
            Self::Set { of, agents, coordinates, .. }
            | Self::Noise { of, agents, coordinates, .. }
            | Self::Scale { of, agents, coordinates, .. }
            | Self::Pin { of, agents, coordinates, .. } => Some((*of, agents, coordinates.as_deref())),
            _ => None,
        }
    }

    /// Its name in files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Set { .. } => "set",
            Self::Noise { .. } => "noise",
            Self::Scale { .. } => "scale",
            Self::Pin { .. } => "pin",
            Self::Remove(_) => "remove",
            Self::Restore(_) => "restore",
            Self::Cut(_) => "cut",
            Self::Join(_) => "join",
            Self::Rho(_) => "rho",
            Self::Gamma(_) => "gamma",
            Self::Relaxation(_) => "relaxation",
            Self::Steps(_) => "steps",
            Self::Input(_) => "input",
        }
    }
}

impl Intervention {
    /// The point of the iteration: given, or the first at which the action has an effect.
    pub fn point(&self) -> Before {
        let first = match self.action.target() {
            Some((Variable::X, ..)) => Before::Z,
            _ => Before::X,
        };
        self.before.unwrap_or(first)
    }
}

impl Agents {
    /// Their numbers, of `count` agents.
    pub fn numbers(&self, count: usize) -> Vec<usize> {
        match self {
            Self::These(numbers) => numbers.clone(),
            Self::Share { share, seed } => chosen(count, *share, *seed),
            Self::All(All::All) => (0..count).collect(),
        }
    }
}

impl Interventions {
    /// Whether there are none, so that a run is an ordinary solve.
    pub fn is_empty(&self) -> bool {
        self.start.is_none() && self.list.is_empty()
    }
}

/// Numbers of a script as scalars.
fn scalars<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&v| T::from_f64(v)).collect()
}

/// The result of a check.
type Checked = Result<()>;
