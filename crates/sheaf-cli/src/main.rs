//! `sheaf`: train, evaluate, trace and watch agents that agree by sheaf ADMM.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use sheaf_cli::args::Cli;
use sheaf_cli::commands::Ending;
use sheaf_cli::errors::{self, Exit};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.json;
    let job = match cli.check() {
        Ok(Some(job)) => job,
        Ok(None) => return help(),
        Err(error) => return errors::tell(&error, Exit::Usage),
    };
    let (report, exit) = match job.run() {
        Ok(Ending::Done(report)) => (report, Exit::Success),
        Ok(Ending::Interrupted(report)) => (report, Exit::Interrupted),
        Err(error) => return errors::tell(&error, Exit::Failure),
    };
    match report.print(json) {
        Ok(()) => exit.into(),
        Err(error) => errors::tell(&error, Exit::Failure),
    }
}

/// Plain `sheaf` shows the help and succeeds.
fn help() -> ExitCode {
    match Cli::command().print_help() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Failure.into(),
        _ => Exit::Success.into(),
    }
}
