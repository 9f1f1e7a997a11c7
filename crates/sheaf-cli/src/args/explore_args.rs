//! The arguments of `sheaf intervene` and `sheaf explore`.

use std::path::PathBuf;

use clap::Args;

pub(super) const INTERVENE_EXAMPLES: &str = "\
Examples:
  sheaf intervene docs/interventions/kick.json
  sheaf intervene docs/interventions/goal.json --out goal.gif
  sheaf intervene script.json --weights runs/maze/best.safetensors --json

docs/explore.md has the format of scripts. `sheaf explore` writes them.";

#[cfg(feature = "explore")]
pub(super) const EXPLORE_EXAMPLES: &str = "\
Examples:
  sheaf explore
  sheaf explore sudoku --port 8080 --no-open
  sheaf explore maze --weights runs/maze/best.safetensors --weights runs/messages/best.safetensors

The first line on standard output is the address of the page. Nothing leaves this machine.";

/// `sheaf intervene`.
#[derive(Debug, Args)]
pub struct InterveneArgs {
    /// Input, iterations and interventions
    #[arg(value_name = "SCRIPT.json")]
    pub script: PathBuf,
    /// Weights to use; the built-in ones of the script's task if not given
    #[arg(long, value_name = "FILE|builtin:TASK")]
    pub weights: Option<String>,
    /// Also write both runs as a picture (.svg), an animation (.gif) or arrays (.npz)
    #[arg(long, value_name = "FILE.svg|.gif|.npz")]
    pub out: Option<PathBuf>,
}

/// `sheaf explore`.
#[cfg(feature = "explore")]
#[derive(Debug, Args)]
pub struct ExploreArgs {
    /// The task that the page opens with
    #[arg(value_parser = ["maze", "sudoku", "mnist"])]
    pub task: Option<String>,
    /// Weights to offer before the built-in ones; may be repeated, to compare models
    #[arg(long, value_name = "FILE|builtin:TASK")]
    pub weights: Vec<String>,
    /// The port; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Do not open the page in a browser
    #[arg(long)]
    pub no_open: bool,
}
