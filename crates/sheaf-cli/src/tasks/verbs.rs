//! Arguments that a task declares: those of `sheaf solve TASK` and `sheaf data TASK`, and the options of `sheaf eval`
//! that only some tasks have.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use sheaf_admm::{Error, ErrorKind, Result};

use super::{ALL, Task};
use crate::commands::Job;

/// Arguments that become a job. Their doc comments are the help of the subcommand.
pub trait Arguments: Args {
    /// Checks the arguments; `json` disables animations.
    fn check(self, json: bool) -> Result<Box<dyn Job>>;
}

/// Turns parsed arguments into a job, with or without `--json`.
type Check = fn(&ArgMatches, bool) -> Result<Box<dyn Job>>;

/// A subcommand that a task declares, and how its arguments become a job.
#[derive(Clone, Debug)]
pub struct Verb {
    command: Command,
    check: Check,
}

impl Verb {
    /// The subcommand `name` with the arguments `A`.
    pub fn new<A: Arguments>(name: &'static str) -> Self {
        let command = A::augment_args(Command::new(name));
        Self { command, check: |matches, json| parsed::<A>(matches)?.check(json) }
    }
}

/// Arguments of type `A` from already parsed matches.
fn parsed<A: Args>(matches: &ArgMatches) -> Result<A> {
    let wrong = |e| Error::new(ErrorKind::Malformed, "arguments", "those that the help lists", e);
    A::from_arg_matches(matches).map_err(wrong)
}

/// The selected subcommand of a task: of `sheaf data` if `DATA`, otherwise of `sheaf solve`.
#[derive(Debug)]
pub struct TaskCommand<const DATA: bool> {
    check: Check,
    matches: ArgMatches,
}

impl<const DATA: bool> TaskCommand<DATA> {
    fn verb(task: &dyn Task) -> Option<Verb> {
        if DATA { task.data() } else { task.solve() }
    }

    /// Checks the arguments; `json` disables animations.
    pub fn check(&self, json: bool) -> Result<Box<dyn Job>> {
        (self.check)(&self.matches, json)
    }
}

impl<const DATA: bool> FromArgMatches for TaskCommand<DATA> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let chosen = matches.subcommand().and_then(|(name, matches)| {
            let task = ALL.into_iter().find(|task| task.name() == name)?;
            Some(Self { check: Self::verb(task)?.check, matches: matches.clone() })
        });
        chosen.ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingSubcommand))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<const DATA: bool> Subcommand for TaskCommand<DATA> {
    fn augment_subcommands(command: Command) -> Command {
        let verbs = ALL.into_iter().filter_map(Self::verb);
        command.subcommands(verbs.map(|verb| verb.command)).subcommand_required(true)
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        ALL.into_iter().any(|task| task.name() == name && Self::verb(task).is_some())
    }
}

/// Options of `sheaf eval` that a task declares.
pub trait EvalOptions: Args {
    /// Rejects invalid values.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// The options of `sheaf eval` that only some tasks have, as given.
#[derive(Clone, Debug)]
pub struct TaskOptions(ArgMatches);

/// All options of `sheaf eval` that tasks declare.
fn declared() -> impl Iterator<Item = Arg> {
    ALL.iter().flat_map(|t| t.eval_options().get_arguments().cloned().collect::<Vec<_>>())
}

impl TaskOptions {
    /// Those of one task.
    pub fn of<A: Args>(&self) -> Result<A> {
        parsed(&self.0)
    }

    /// Rejects options that weights of this task do not have.
    pub fn check_task(&self, task: &dyn Task) -> Result<()> {
        let has =
            |task: &dyn Task, id: &clap::Id| task.eval_options().get_arguments().any(|a| a.get_id() == id);
        for arg in declared() {
            let id = arg.get_id();
            if self.0.value_source(id.as_str()) == Some(ValueSource::CommandLine) && !has(task, id) {
                let others: Vec<_> = ALL.iter().filter(|t| has(**t, id)).map(|t| t.name()).collect();
                let place = format!("--{}", arg.get_long().unwrap_or(id.as_str()));
                let (want, got) = (others.join(" or "), format!("weights of {}", task.name()));
                return Err(Error::new(ErrorKind::Unsupported, place, format!("weights of {want}"), got));
            }
        }
        Ok(())
    }
}

impl FromArgMatches for TaskOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self(matches.clone());
        Ok(())
    }
}

impl Args for TaskOptions {
    fn augment_args(mut command: Command) -> Command {
        for arg in declared() {
            // Tasks that share an option declare it identically.
            if !command.get_arguments().any(|known| known.get_id() == arg.get_id()) {
                command = command.arg(arg);
            }
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
