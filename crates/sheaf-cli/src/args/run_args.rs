//! The arguments of `sheaf run`.

use std::path::PathBuf;

use clap::Args;

use super::positive;

pub(super) const EXAMPLES: &str = "\
Examples:
  sheaf run problem.toml
  sheaf run problem.json --tol 1e-9 --out solution.json --report

docs/solver.md has the format. A problem that is not solved exits with 0 and says so in its status.";

/// `sheaf run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Agents, edges and matrices; numbers inline, or in .npy, .npz and .mtx files beside it
    #[arg(value_name = "PROBLEM.toml|.json")]
    pub problem: PathBuf,
    /// Write the solution as JSON: x of every agent, prices of every edge, residuals
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Show x of every agent, the prices of every edge and how the residuals fell
    #[arg(long)]
    pub report: bool,
    /// Absolute and relative tolerance, instead of the file's
    #[arg(long)]
    pub tol: Option<f64>,
    /// The most iterations, instead of the file's
    #[arg(long, value_name = "N", value_parser = positive)]
    pub iterations: Option<usize>,
    /// The most seconds, instead of the file's
    #[arg(long, value_name = "S")]
    pub time_limit: Option<f64>,
}
