//! What if? Interventions on agents that negotiate: as a script (`sheaf intervene`) and as a page (`sheaf explore`).
//!
//! | module | holds |
//! | --- | --- |
//! | [`script`] | an experiment as data |
//! | [`tasks`] | inputs, geometry and answers of mazes, Sudoku and pictures |
//! | [`subject`] | weights that can be run |
//! | [`record`] | what is kept of every iteration |
//! | [`compare`] | a run with interventions beside the one without |
//! | [`arrays`] | results as files and messages |
//! | [`draw`] | pictures of a comparison |
//! | `server` | the page and its server (feature `server`) |

pub mod arrays;
pub mod compare;
pub mod draw;
pub mod record;
pub mod script;
#[cfg(feature = "server")]
pub mod server;
pub mod subject;
pub mod tasks;

pub use compare::Comparison;
pub use script::{Limits, Script};
pub use subject::{Subject, Want, open};
