//! `sheaf`: train, evaluate, trace and watch agents that agree by sheaf ADMM.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use sheaf_cli::args::Cli;
use sheaf_cli::commands::Ending;
use sheaf_cli::errors::{self, Exit};

fn main() -> ExitCode {
    errors::report_panics();
    // A panic is a defect, already reported by the hook; the exit code is a documented one all the same.
    std::panic::catch_unwind(run).unwrap_or_else(|_| Exit::Failure.into())
}

fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return errors::tell_usage(&error),
    };
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
