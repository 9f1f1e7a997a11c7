//! The parts of the `sheaf` tool: raw arguments become checked jobs in one step; a job runs and returns a report.
//!
//! | module | holds |
//! | --- | --- |
//! | [`args`] | the command-line arguments |
//! | [`commands`] | what each command does, independent of the task |
//! | [`tasks`] | what the commands need to know about a task: one folder each |
//! | [`report`], [`errors`], [`progress`] | results on standard output; errors and progress on standard error |
//! | [`interrupt`] | Ctrl-C |
//! | [`ranks`] | several processes under mpirun |
//! | [`problem`] | files with problems of one's own |
//! | [`terminal`] | what a terminal can show, and text that is safe to show there |

pub mod args;
pub mod commands;
pub mod errors;
pub mod interrupt;
pub mod progress;
pub mod ranks;
pub mod report;
pub mod tasks;
pub mod terminal;

pub use sheaf_figures::draw;
pub use sheaf_files::problem;
