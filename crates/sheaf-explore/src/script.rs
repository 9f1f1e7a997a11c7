//! An experiment as data: the input, the number of iterations, the interventions.
//!
//! ```json
//! {
//!   "task": "maze",
//!   "about": "The goal moves at k = 40.",
//!   "input": {"seed": 7, "size": 19},
//!   "inputs": [{"goal": [17, 1]}],
//!   "iterations": 100,
//!   "interventions": [{"k": 40, "do": {"input": 1}}]
//! }
//! ```
//!
//! `input` is input 0, where the agents start; those of `inputs` are numbered from 1 and may be changes of input 0.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sheaf_admm::admm::intervene::{Action, Intervention, Interventions, StartAt};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::at_most;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The task.
    pub task: String,
    /// What it shows, for readers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The input at the start, in the form of the task.
    #[serde(default = "no_keys")]
    pub input: Value,
    /// Further inputs: whole ones, or changes of the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Value>,
    /// Iterations; as many as the weights are evaluated with if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<usize>,
    /// Where to start, if not where the model says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartAt>,
    /// What to do.
    #[serde(default)]
    pub interventions: Vec<Intervention>,
}

/// Most steps of a consensus solver that a script may ask for.
const MAX_STEPS: usize = 1000;

/// Limits of a script.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most iterations.
    pub iterations: usize,
    /// Most cells of an input.
    pub cells: usize,
    /// Most inputs.
    pub inputs: usize,
    /// Most interventions.
    pub interventions: usize,
    /// Most numbers that are kept: iterations × states.
    pub numbers: usize,
}

impl Limits {
    /// For a script that a user runs on their own machine.
    pub const COMMAND: Self =
        Self { iterations: 100_000, cells: 1 << 20, inputs: 255, interventions: 100_000, numbers: 1 << 28 };
    /// For a request to the page's server.
    pub const REQUEST: Self =
        Self { iterations: 1000, cells: 101 * 101, inputs: 100, interventions: 1000, numbers: 1 << 23 };
}

fn no_keys() -> Value {
    Value::Object(serde_json::Map::new())
}

impl Script {
    /// A script without interventions.
    pub fn plain(task: &str, input: Value) -> Self {
        let (about, inputs, interventions) = Default::default();
        Self { task: task.into(), about, input, inputs, iterations: None, start: None, interventions }
    }

    /// Reads a script; `place` names it in errors.
    pub fn parse(text: &str, place: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| {
            Error::new(ErrorKind::Malformed, place, "a script of interventions", e)
                .hint("docs/explore.md describes the format")
        })
    }

    /// The interventions, in the form of the solver.
    pub fn interventions(&self) -> Interventions {
        Interventions { start: self.start.clone(), list: self.interventions.clone() }
    }

    /// The same experiment without interventions.
    pub fn undisturbed(&self) -> Self {
        Self { inputs: Vec::new(), start: None, interventions: Vec::new(), ..self.clone() }
    }

    /// Rejects what is too large.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        if self.iterations == Some(0) {
            return Err(Error::new(ErrorKind::OutOfRange, "iterations", "at least 1", 0));
        }
        at_most("iterations", "of them", limits.iterations, self.iterations.unwrap_or(0))?;
        at_most("inputs", "of them", limits.inputs, self.inputs.len())?;
        at_most("interventions", "of them", limits.interventions, self.interventions.len())?;
        // Time is looked at between iterations: one iteration must not take for ever.
        self.interventions.iter().enumerate().try_for_each(|(i, one)| match one.action {
            Action::Steps(steps) => {
                at_most(&format!("interventions[{i}].do.steps"), "steps", MAX_STEPS, steps)
            }
            _ => Ok(()),
        })
    }
}

/// Reads an input of a task; `place` names it in errors.
pub(crate) fn input<I: serde::de::DeserializeOwned>(place: &str, value: &Value) -> Result<I> {
    I::deserialize(value).map_err(|e| {
        Error::new(ErrorKind::Malformed, place, "an input of this task", e)
            .hint("docs/explore.md lists the keys of every task")
    })
}
