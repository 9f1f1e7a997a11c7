//! `sheaf`: train, evaluate, trace and watch agents that agree by sheaf ADMM.

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use sheaf_cli::args::Cli;
use sheaf_cli::commands::Ending;
use sheaf_cli::errors::{self, Exit};
use sheaf_cli::{interrupt, ranks};
use sheaf_kernels::refusing_alloc::RefusingAlloc;
use sheaf_learn::limits::available_memory;
use sheaf_mpi::World;

/// More memory than there is ends the program with a message and a documented exit code.
#[global_allocator]
static MEMORY: RefusingAlloc = RefusingAlloc::new();

fn main() -> ExitCode {
    errors::report_panics();
    if let Some(free) = available_memory() {
        MEMORY.limit(usize::try_from(free).unwrap_or(usize::MAX));
    }
    let world = match World::start() {
        Ok(world) => world,
        Err(error) => return errors::report_error(&error, Exit::Failure),
    };
    ranks::join(world.as_ref());
    // A panic is a defect, already reported by the hook; the exit code is a documented one all the same.
    let code = std::panic::catch_unwind(run).unwrap_or_else(|_| Exit::Failure.into());
    if code != ExitCode::SUCCESS && code != Exit::Interrupted.into() {
        // Other ranks may be waiting for this one.
        ranks::end_job();
    }
    code
}

fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return errors::report_usage(&error),
    };
    let json = cli.json;
    let job = match cli.check() {
        Ok(Some(job)) => job,
        Ok(None) => return help(),
        Err(error) => return errors::report_error(&error, Exit::Usage),
    };
    if let Err(error) = interrupt::handle() {
        return errors::report_error(&error, Exit::Failure);
    }
    // What ranks cannot share is done by rank 0.
    if !ranks::is_first() && !job.is_shared() {
        return Exit::Success.into();
    }
    let (report, exit) = match job.run() {
        Ok(Ending::Done(report)) => (report, Exit::Success),
        Ok(Ending::Interrupted(report)) => (report, Exit::Interrupted),
        Ok(Ending::Failed(report, error)) => {
            errors::report_error(&error, Exit::Failure);
            (report, Exit::Failure)
        }
        Err(error) => return errors::report_error(&error, Exit::Failure),
    };
    if !ranks::is_first() {
        return exit.into();
    }
    match report.print(json) {
        Ok(()) => exit.into(),
        Err(error) => errors::report_error(&error, Exit::Failure),
    }
}

/// Plain `sheaf` shows the help and succeeds.
fn help() -> ExitCode {
    match Cli::command().print_help() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Failure.into(),
        _ => Exit::Success.into(),
    }
}
