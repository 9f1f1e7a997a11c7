//! What the `sheaf` tool is made of: raw arguments become checked jobs in one step, a job runs and gives a report.
//!
//! | module | holds |
//! | --- | --- |
//! | [`args`] | what can be typed |
//! | [`commands`] | what each command does, whatever the task |
//! | [`tasks`] | what the commands need to know about a task: one folder each |
//! | [`report`], [`errors`], [`progress`] | results on standard output; errors and progress on standard error |
//! | [`draw`] | pictures |

pub mod args;
pub mod commands;
pub mod draw;
pub mod errors;
pub mod progress;
pub mod report;
pub mod tasks;
