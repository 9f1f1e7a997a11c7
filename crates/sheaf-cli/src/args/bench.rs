//! Arguments of `sheaf bench`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::{PrecisionArg, batch, iterations, threads};
use crate::commands::BenchKind;
use crate::tasks;

pub(super) const EXAMPLES: &str = "\
Examples:
  sheaf bench train --task maze --iterations 27
  sheaf bench eval --task maze --iterations 100 --json
  sheaf bench solve --task maze --size 1001 --iterations 20
  sheaf bench scaling --task maze
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
}
