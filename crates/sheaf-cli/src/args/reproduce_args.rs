//! Arguments of `sheaf reproduce`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sheaf_reproduce::{Scale, tables};

use super::{OnNanArg, seed, threads};

pub(super) const EXAMPLES: &str = "\
Examples:
  sheaf reproduce all --scale quick --out runs/quick
  sheaf reproduce maze-baselines --only pm-max --seeds 42 --out runs/paper
  sheaf reproduce sizes --only maze --seeds 42 --out runs/paper
  sheaf reproduce maze-baselines ablations --list --out runs/paper
  sheaf reproduce all --from results --out runs/report

Runs what is missing and writes DIR/report.md and DIR/report.html. Ctrl-C or a kill loses nothing:
the same command goes on. DIR/results holds metrics and configurations without weights.";

/// `sheaf reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Which tables
    #[arg(value_name = "TABLE", required = true, value_parser = PossibleValuesParser::new(names()))]
    pub tables: Vec<String>,
    /// How much of the published schedules
    #[arg(long, value_parser = scales(), default_value = Scale::Full.name())]
    pub scale: Scale,
    /// Seeds of the runs; the paper's three if not given, one of them at scale quick
    #[arg(long, value_name = "S,S,…", value_delimiter = ',', value_parser = seed, allow_hyphen_values = true)]
    pub seeds: Vec<u64>,
    /// Only this row, by its name (--list shows them) or by its label in reports, or this experiment in all rows; may be
    /// repeated
    #[arg(long, value_name = "ROW")]
    pub only: Vec<String>,
    /// Show the plan, how far every run is and the names that --only takes, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Write the report of these results and run nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["list", "scale", "seeds", "mnist", "sudoku", "on_nan", "threads"])]
    pub from: Option<PathBuf>,
    /// Folder with the files of MNIST
    #[arg(long, value_name = "DIR", default_value = "data/mnist")]
    pub mnist: PathBuf,
    /// Puzzles to take instead of generated ones
    #[arg(long, value_name = "FILE.csv")]
    pub sudoku: Option<PathBuf>,
    /// Reaction to a loss or gradient that is not finite
    #[arg(long, value_enum, default_value = "stop")]
    pub on_nan: OnNanArg,
    /// Threads; one per core if not given
    #[arg(long, value_name = "T", value_parser = threads)]
    pub threads: Option<usize>,
    /// The folder of runs, results and report
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

fn scales() -> impl TypedValueParser<Value = Scale> {
    let value = |scale: Scale| PossibleValue::new(scale.name()).help(scale.about());
    PossibleValuesParser::new(Scale::ALL.map(value)).try_map(|name| Scale::named(&name).ok_or(name))
}

fn names() -> Vec<&'static str> {
    tables::all().iter().map(|table| table.name).chain(["all"]).collect()
}
