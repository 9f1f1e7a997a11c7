//! The command-line arguments, and the single step that turns them into valid jobs.
//!
//! The structs here are raw: they hold every argument as given. [`Cli::check`] turns them into [`Job`]s, or reports
//! what is wrong before anything runs.

mod bench;
mod explore_args;
mod figure_args;
mod numbers;
mod reproduce_args;
mod run_args;

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use sheaf_admm::Result;
use sheaf_admm::z_update::OutOfStep;
use sheaf_learn::config::PrecisionKind;

pub use crate::commands::BenchKind;
#[cfg(feature = "explore")]
use crate::commands::explore;
use crate::commands::{
    Export, Job, Reproduce, Train, bench as measure, completions, doctor, eval, figure, import, inspect,
    intervene, man, run, trace,
};
use crate::tasks;
use crate::tasks::verbs::{TaskCommand, TaskOptions};
pub use bench::BenchArgs;
#[cfg(feature = "explore")]
pub use explore_args::ExploreArgs;
pub use explore_args::InterveneArgs;
pub use figure_args::{FigureArgs, FigureName};
pub(crate) use numbers::{agents, batch, iterations, out_of_step, positive, rounds, seed, threads};
pub use reproduce_args::ReproduceArgs;
pub use run_args::{ConsensusArg, RunArgs};

const START: &str = "\
Start here:
  sheaf solve maze             watch 81 agents find a path through a fresh maze
  sheaf solve maze --animate   the same, iteration by iteration
  sheaf solve maze --help      mazes of your own, pictures, animations
  sheaf solve sudoku           watch 27 agents fill in a puzzle
  sheaf solve mnist            watch 81 agents agree on a digit
  sheaf explore                the same in a browser: kick agents, move the goal, compare

Results go to standard output, progress and errors to standard error.
Exit codes: 0 done, 1 failed, 2 not understood, 130 interrupted.";

/// Agents that see only a part of a problem, talk only to their neighbours, and together find the whole answer.
#[derive(Debug, Parser)]
#[command(name = "sheaf", version, after_help = START, max_term_width = 100)]
pub struct Cli {
    /// Print results as one JSON object
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Solve a problem and draw the answer
    #[command(
        after_help = "Examples:\n  sheaf solve maze --size 25 --out maze.gif\n  sheaf solve sudoku --kind minimal"
    )]
    Solve {
        /// Which kind of problem.
        #[command(subcommand)]
        task: TaskCommand<false>,
    },
    /// Solve a problem of your own from a file
    #[command(after_help = run_args::EXAMPLES)]
    Run(RunArgs),
    /// Watch agents negotiate in a browser, intervene, and see what follows
    #[cfg(feature = "explore")]
    #[command(after_help = explore_args::EXPLORE_EXAMPLES)]
    Explore(ExploreArgs),
    /// Run a script of interventions and compare with the undisturbed run
    #[command(after_help = explore_args::INTERVENE_EXAMPLES)]
    Intervene(InterveneArgs),
    /// Make data sets
    #[command(after_help = DATA_EXAMPLES)]
    Data {
        /// Of which task.
        #[command(subcommand)]
        task: TaskCommand<true>,
    },
    /// Train a model from an experiment file
    #[command(after_help = TRAIN_EXAMPLES)]
    Train(TrainArgs),
    /// Measure how well weights solve a data set
    #[command(after_help = EVAL_EXAMPLES)]
    Eval(EvalArgs),
    /// Write every iteration of one solve to a file
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(TraceArgs),
    /// Draw a figure of a sample, of runs or of results
    #[command(after_help = figure_args::EXAMPLES)]
    Figure(FigureArgs),
    /// Reproduce the paper's tables: plan, train, evaluate, report
    #[command(after_help = reproduce_args::EXAMPLES)]
    Reproduce(ReproduceArgs),
    /// Turn parameters under the authors' names into weights
    #[command(after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Write weights to a file of their own: of a run or checkpoint, a mean of two, with other keys, in half precision
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// Show what is in a file of weights or a checkpoint
    #[command(
        after_help = "Examples:\n  sheaf inspect builtin:maze\n  sheaf inspect runs/maze/best.safetensors"
    )]
    Inspect {
        /// A weights file, a checkpoint, the folder of a run, or built-in weights like builtin:maze
        #[arg(value_name = "FILE|RUN_DIR|builtin:TASK")]
        weights: String,
        /// Also show the whole configuration, every tensor and the record of the training
        #[arg(long)]
        history: bool,
    },
    /// Measure speed and memory on this machine
    #[command(after_help = bench::EXAMPLES)]
    Bench(BenchArgs),
    /// Check this installation: CPU, threads, memory, built-in weights, and a self-test
    #[command(after_help = "Example:\n  sheaf doctor\n\nThe exit code is 1 if the self-test fails.")]
    Doctor,
    /// Write completions for a shell to standard output
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Write manual pages, one a command
    #[command(after_help = "Example:\n  sheaf man --out ~/.local/share/man/man1")]
    Man {
        /// The folder to write to
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  sheaf completions bash > ~/.local/share/bash-completion/completions/sheaf
  sheaf completions zsh > ~/.zfunc/_sheaf
  sheaf completions fish > ~/.config/fish/completions/sheaf.fish";

const DATA_EXAMPLES: &str = "\
Examples:
  sheaf data maze --size 19 --count 1000 --out test.npz
  sheaf data sudoku --count 2000 --out test.csv";

const TRAIN_EXAMPLES: &str = "\
Examples:
  sheaf train experiments/maze.toml --out runs/maze
  sheaf train experiments/maze.toml --out runs/short --set train.steps=2000 --seed 7
  sheaf train --resume --out runs/maze
  sheaf train --resume --out runs/maze --checkpoint runs/maze/checkpoints/step-00030000.safetensors
  sheaf train experiments/maze.toml --out runs/tuned --init builtin:maze --set train.steps=1000
  sheaf train experiments/maze-far.toml --out runs/maze-far

An experiment may list stages ([[stage]]), each from the weights of the one before; --set changes a key in all of them.
Ctrl-C saves a checkpoint and exits; --resume continues to the same bits.
The weights are RUN_DIR/best.safetensors and RUN_DIR/final.safetensors.";

/// `sheaf train`.
#[derive(Debug, Args)]
pub struct TrainArgs {
    /// The experiment; with --resume the one of the run, if not given
    #[arg(value_name = "EXPERIMENT.toml", required_unless_present = "resume")]
    pub experiment: Option<PathBuf>,
    /// Directory of the run: configuration, metrics, checkpoints, weights
    #[arg(long, value_name = "RUN_DIR")]
    pub out: PathBuf,
    /// Continue the run in RUN_DIR from its last checkpoint
    #[arg(long)]
    pub resume: bool,
    /// With --resume, the checkpoint to continue from; the newest that is not damaged if not given
    #[arg(long, value_name = "FILE", requires = "resume")]
    pub checkpoint: Option<PathBuf>,
    /// Change a key of the experiment; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Start from these weights instead of random ones, or those that the experiment names (train.init)
    #[arg(long, value_name = "FILE|builtin:TASK", conflicts_with = "resume")]
    pub init: Option<String>,
    /// Seed of initial parameters and batches, instead of the experiment's
    #[arg(long)]
    pub seed: Option<u64>,
    /// Threads; one per core if not given. Their number does not change the result
    #[arg(long, value_name = "T", value_parser = threads)]
    pub threads: Option<usize>,
    /// Reaction to a loss or gradient that is not finite, instead of the experiment's choice
    #[arg(long, value_enum)]
    pub on_nan: Option<OnNanArg>,
}

/// What follows a number that is lost: a loss or gradient that is not finite, a penalty that has become 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnNanArg {
    /// Stop and name the last good checkpoint
    Stop,
    /// Return to it and leave the bad batch out
    Rollback,
}

/// Precision of the operands of matrix products; sums are always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrecisionArg {
    /// As they are
    F32,
    /// Rounded to bfloat16: faster on CPUs with AMX or AVX-512 BF16
    Bf16,
}

impl From<PrecisionArg> for PrecisionKind {
    fn from(arg: PrecisionArg) -> Self {
        match arg {
            PrecisionArg::F32 => Self::F32,
            PrecisionArg::Bf16 => Self::Bf16,
        }
    }
}

const EVAL_EXAMPLES: &str = "\
Examples:
  sheaf data maze --size 19 --count 1000 --out test.npz
  sheaf eval --weights builtin:maze --data test.npz
  sheaf eval --weights runs/maze/best.safetensors --data test.npz --until-settled --json
  sheaf eval --weights builtin:mnist --data data/mnist --iterations 20
  sheaf eval --weights builtin:mnist --data data/mnist --shift pad:16 --shift noise:0.1
  sheaf eval --weights builtin:mnist --data data/mnist --shifts published --draws 3
  sheaf eval --weights builtin:sudoku --data test.csv";

/// `sheaf eval`.
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Weights to use
    #[arg(long, value_name = "FILE|builtin:TASK")]
    pub weights: String,
    /// Samples to solve, as `sheaf data` writes them
    #[arg(long, value_name = "FILE.npz|FILE.csv|DIR")]
    pub data: PathBuf,
    /// Iterations of every sample; the experiment's number if not given
    #[arg(long, value_name = "K", value_parser = iterations, conflicts_with = "until_settled")]
    pub iterations: Option<usize>,
    /// Stop each sample when it has settled: for 5 iterations in a row no agent moved faster than 0.1 % (pictures: 1 %) of the
    /// fastest before, or a complete answer stood for 5 iterations
    #[arg(long)]
    pub until_settled: bool,
    /// Most iterations of a sample that does not settle
    #[arg(long, value_name = "K", value_parser = iterations, default_value = "400", requires = "until_settled")]
    pub max_iterations: usize,
    /// Precision of the operands of matrix products; f32 if not given, whatever the training used
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionArg>,
    /// Agents that are not in step: delay=D,loss=P,activity=A,seed=S. Messages come up to D descent steps late, a share P of them
    /// never, and an agent is awake in a share A of the iterations. For weights with model.consensus = "descent"
    #[arg(long, value_name = "LAG", value_parser = out_of_step)]
    pub asynchronous: Option<OutOfStep>,
    /// Threads; one per core if not given
    #[arg(long, value_name = "T", value_parser = threads)]
    pub threads: Option<usize>,
    /// Options that only some tasks have.
    #[command(flatten)]
    pub task: TaskOptions,
}

const TRACE_EXAMPLES: &str = "\
Example:
  sheaf trace --weights builtin:maze --data test.npz --index 0 --iterations 100 --out trace.safetensors

The file holds x, z, u [K, N, d_v], primal and dual residuals [K, N], edge_rms [K] and
logits. The array consistency is edge_rms under its older name. Of message passing it holds the
states h0 [N, d_v] and h [K, N, d_v] and logits.";

/// `sheaf trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Weights to use
    #[arg(long, value_name = "FILE|builtin:TASK")]
    pub weights: String,
    /// Samples, as `sheaf data` writes them
    #[arg(long, value_name = "FILE.npz|FILE.csv|DIR")]
    pub data: PathBuf,
    /// Which sample, from 0
    #[arg(long, value_name = "I", default_value_t = 0)]
    pub index: usize,
    /// Iterations; the experiment's number if not given
    #[arg(long, value_name = "K", value_parser = iterations)]
    pub iterations: Option<usize>,
    /// The file to write
    #[arg(long, value_name = "T.safetensors")]
    pub out: PathBuf,
}

const IMPORT_EXAMPLES: &str = "\
Examples:
  sheaf import --task maze --from params.safetensors --out weights.safetensors
  sheaf import --task sudoku --experiment experiments/sudoku-lowrank.toml --from p.safetensors --out w.safetensors

Names may stand alone or after param/, params/ or ema_params/; the running average is preferred.";

/// `sheaf import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The task of the model
    #[arg(long, value_parser = PossibleValuesParser::new(tasks::names()))]
    pub task: String,
    /// Parameters under the authors' names
    #[arg(long, value_name = "PARAMS.safetensors")]
    pub from: PathBuf,
    /// The experiment whose model they belong to; the published one if not given
    #[arg(long, value_name = "FILE.toml")]
    pub experiment: Option<PathBuf>,
    /// The weights file to write
    #[arg(long, value_name = "W.safetensors")]
    pub out: PathBuf,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  sheaf export --weights runs/maze/checkpoints/step-00030000.safetensors --out maze.safetensors
  sheaf export --weights maze.safetensors --half --out small.safetensors
  sheaf export --weights a.safetensors --mix b.safetensors --share 0.3 --out between.safetensors
  sheaf export --weights builtin:mnist --set model.cg_steps=8 --out more-steps.safetensors

From a checkpoint the running average is taken, as in best.safetensors and final.safetensors.";

/// `sheaf export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Weights, a checkpoint, or the folder of a run: its final weights. The record of a run's weights gets the hours it took
    #[arg(long, value_name = "FILE|RUN_DIR|builtin:TASK")]
    pub weights: String,
    /// Other weights of the same model, to write a mean of the two: useful between runs that started from the same weights
    #[arg(long, value_name = "FILE|builtin:TASK")]
    pub mix: Option<String>,
    /// Weight of --mix in the mean, from 0 to 1
    #[arg(long, value_name = "SHARE", requires = "mix", default_value_t = 0.5)]
    pub share: f64,
    /// Change a key of the experiment in the file, where the parameters stay the same; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Store 16 bits a number: half the size, about three decimal digits
    #[arg(long)]
    pub half: bool,
    /// The weights file to write
    #[arg(long, value_name = "W.safetensors")]
    pub out: PathBuf,
}

impl Cli {
    /// The job, if there is one to run; errors are usage errors.
    pub fn check(self) -> Result<Option<Box<dyn Job>>> {
        let json = self.json;
        Ok(Some(match self.command {
            None => return Ok(None),
            Some(Command::Solve { task }) => task.check(json)?,
            Some(Command::Run(args)) => run(args, json)?,
            #[cfg(feature = "explore")]
            Some(Command::Explore(args)) => explore(args)?,
            Some(Command::Intervene(args)) => intervene(args)?,
            Some(Command::Data { task }) => task.check(json)?,
            Some(Command::Train(args)) => Box::new(Train::check(args)?),
            Some(Command::Eval(args)) => eval(args)?,
            Some(Command::Trace(args)) => trace(args)?,
            Some(Command::Figure(args)) => figure(args)?,
            Some(Command::Reproduce(args)) => Box::new(Reproduce::check(args)?),
            Some(Command::Import(args)) => import(args)?,
            Some(Command::Export(args)) => Box::new(Export::check(args)?),
            Some(Command::Inspect { weights, history }) => inspect(&weights, history, json)?,
            Some(Command::Bench(args)) => measure(args)?,
            Some(Command::Doctor) => doctor(),
            Some(Command::Completions { shell }) => completions(shell),
            Some(Command::Man { out }) => man(out),
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_arguments_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
