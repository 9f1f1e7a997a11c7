//! The paper's tables as runs: plan them, train and evaluate what is missing, and report beside the paper's numbers.
//!
//! | module | holds |
//! | --- | --- |
//! | [`tables`] | every table: its rows, the experiments behind them, the paper's values |
//! | [`scale`] | how much of a published schedule is run |
//! | [`task`] | the four tasks: parameters, training, evaluation |
//! | [`plan`] | the runs of some tables, their state, time and disk |
//! | [`run`](mod@run) | one run: train, resume, evaluate, record |
//! | [`record`] | what a run leaves in the results folder |
//! | [`report`] | `report.md` and `report.html` |
//! | [`machine`] | the processor |
//!
//! ```text
//! OUT/runs/SCALE/RUN/      the folder of a training: checkpoints, weights
//! OUT/results/SCALE/RUN/   config.toml, metrics.jsonl, result.json: all that reports need
//! OUT/report.md, report.html
//! ```

pub mod machine;
pub mod plan;
mod plan_text;
pub mod record;
pub mod report;
pub mod run;
pub mod scale;
pub mod sweeps;
pub mod tables;
pub mod task;

pub use plan::{Plan, Planned, Request};
pub use plan_text::counted;
pub use scale::Scale;
