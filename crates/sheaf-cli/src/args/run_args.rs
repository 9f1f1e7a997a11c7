//! The arguments of `sheaf run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sheaf_admm::network::Consensus;

use super::positive;

pub(super) const EXAMPLES: &str = "\
Examples:
  sheaf run problem.toml
  sheaf run problem.json --tol 1e-9 --out solution.json --report

docs/solver.md has the format. A problem that is not solved exits with 0 and says so in its status.";

/// `--consensus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConsensusArg {
    /// A factorisation, or a sparse system where that is too large
    Exact,
    /// Conjugate gradients on the states
    Cg,
}

impl From<ConsensusArg> for Consensus {
    fn from(how: ConsensusArg) -> Self {
        match how {
            ConsensusArg::Exact => Self::Exact,
            ConsensusArg::Cg => Self::Cg,
        }
    }
}

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
    /// How the consensus step is solved: exact (the fastest on one machine), or cg, which ranks of mpirun can share
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ConsensusArg::Exact, hide_possible_values = true)]
    pub consensus: ConsensusArg,
    /// The order in which agents are cut into chunks, which ranks share: as they come, by METIS, or by a file with the number of
    /// a part for each agent
    #[arg(long, value_name = "metis|FILE")]
    pub partition: Option<PathBuf>,
    /// The most seconds, instead of the file's
    #[arg(long, value_name = "S")]
    pub time_limit: Option<f64>,
}
