//! Arguments of `sheaf bench`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::{PrecisionArg, agents, batch, iterations, threads};
use crate::commands::BenchKind;
use crate::tasks;

pub(super) const EXAMPLES: &str = "\
Examples:
  sheaf bench train --task maze --iterations 27
  sheaf bench eval --task maze --iterations 100 --json
  sheaf bench solve --task maze --size 1001 --iterations 20
  sheaf bench scaling --task maze
  sheaf bench problems --problem plane-soft --json
  sheaf bench train --task sudoku --experiment experiments/sudoku-orthonormal.toml

Nanoseconds per agent and iteration are those of one core: wall time times threads.";

/// `sheaf bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure; all but scaling if not given
    #[arg(value_enum)]
    pub kind: Option<BenchKind>,
    /// Which task
    #[arg(long, default_value = tasks::names()[0], value_parser = PossibleValuesParser::new(tasks::names()))]
    pub task: String,
    /// The experiment whose model to measure; the published one if not given
    #[arg(long, value_name = "FILE.toml")]
    pub experiment: Option<PathBuf>,
    /// Iterations of a sample
    #[arg(long, value_name = "K", value_parser = iterations)]
    pub iterations: Option<usize>,
    /// Samples in a batch
    #[arg(long, value_name = "B", value_parser = batch)]
    pub batch: Option<usize>,
    /// Size of a sample; with scaling, the largest
    #[arg(long, value_name = "N")]
    pub size: Option<usize>,
    /// Precision of the operands of matrix products, instead of the experiment's
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionArg>,
    /// Threads; one per core if not given
    #[arg(long, value_name = "T", value_parser = threads)]
    pub threads: Option<usize>,
    /// How long to measure each row
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// What `problems` takes.
    #[command(flatten)]
    pub problems: ProblemArgs,
}

/// `sheaf bench problems`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of problems")]
pub struct ProblemArgs {
    /// Agents of the large problems; 100000 if not given
    #[arg(long, value_name = "N", value_parser = agents)]
    pub agents: Option<usize>,
    /// Only this problem
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(sheaf_bench::PROBLEMS))]
    pub problem: Option<String>,
    /// Only this solver
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(sheaf_bench::SOLVERS))]
    pub solver: Option<String>,
    /// The most seconds of a row
    #[arg(long, value_name = "S", default_value_t = 300)]
    pub limit: u64,
    /// The most memory of a row
    #[arg(long, value_name = "MB", default_value_t = 8000)]
    pub memory: u64,
    /// Measure one row in this process
    #[arg(long, hide = true)]
    pub here: bool,
}
