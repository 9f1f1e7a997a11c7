//! Arguments of `sheaf figure`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::iterations;

pub(super) const EXAMPLES: &str = "\
Examples:
  sheaf figure evolution --weights builtin:maze --seed 5 --out evolution.pdf
  sheaf figure dynamics --size 37 --seed 7 --out dynamics.svg
  sheaf figure class-emergence --data data/mnist --index 7 --out emergence.png
  sheaf figure compare --weights builtin:maze --with runs/maze-mpnn-pm-max/best.safetensors --out both.pdf
  sheaf figure learning-curve --runs runs/maze results/curves/maze-42.jsonl --out curves.pdf
  sheaf figure sizes --from results --out sizes.pdf
  sheaf figure asynchronous --from results/asynchronous --out asynchronous.svg";

/// `sheaf figure`.
#[derive(Debug, Args)]
pub struct FigureArgs {
    /// Which figure
    #[arg(value_enum)]
    pub name: FigureName,
    /// Weights; those that ship if not given
    #[arg(long, value_name = "FILE|builtin:TASK")]
    pub weights: Option<String>,
    /// Other weights for the same sample, with `compare`
    #[arg(long, value_name = "FILE|builtin:TASK")]
    pub with: Option<String>,
    /// Samples, as `sheaf data` writes them
    #[arg(long, value_name = "FILE.npz|FILE.csv|DIR", conflicts_with_all = ["seed", "size"])]
    pub data: Option<PathBuf>,
    /// Which sample of --data, from 0
    #[arg(long, value_name = "I", default_value_t = 0, requires = "data")]
    pub index: usize,
    /// Seed of a fresh sample
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Pixels along a side of a fresh sample
    #[arg(long, value_name = "N")]
    pub size: Option<usize>,
    /// Iterations; the experiment's number if not given
    #[arg(long, value_name = "K", value_parser = iterations)]
    pub iterations: Option<usize>,
    /// Iterations to show
    #[arg(long, value_name = "K,K,…", value_delimiter = ',', value_parser = iterations)]
    pub at: Vec<usize>,
    /// Folders of runs or files of metrics, with `learning-curve`
    #[arg(long, value_name = "RUN_DIR|FILE.jsonl", num_args = 1..)]
    pub runs: Vec<PathBuf>,
    /// A results folder, with `sizes` and `asynchronous`
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// The file to write: its ending selects vectors or pixels
    #[arg(long, value_name = "FILE.svg|.png|.pdf")]
    pub out: PathBuf,
}

/// The figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FigureName {
    /// What the agents predict at some iterations
    Evolution,
    /// Prediction, primal and dual residuals of every agent, their ratio, and their course
    Dynamics,
    /// Where every agent's proposal and agreement move
    Trajectories,
    /// What every agent sees and believes before it hears of others
    Views,
    /// The class every agent votes for, over the iterations
    ClassEmergence,
    /// A Sudoku board at some iterations
    SudokuEvolution,
    /// Loss and metrics of runs
    LearningCurve,
    /// Solved mazes and iterations until then, by size
    Sizes,
    /// Agents that are not in step: solve rates against delay, loss and activity
    Asynchronous,
    /// Two models on the same sample
    Compare,
}
