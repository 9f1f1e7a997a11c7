//! `sheaf explore`: the page of the crate `sheaf-explore`, with the weights of the arguments.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use sheaf_admm::Result;
use sheaf_explore::server::{Config, Server};
use sheaf_explore::{Subject, open, subject};
use sheaf_learn::train::file::io_error;

use super::Job;
use crate::args::ExploreArgs;
use crate::progress::say;
use crate::report::Report;
use crate::tasks::Source;

/// Checks the arguments; the job serves the page until it is stopped.
pub fn explore(args: ExploreArgs) -> Result<Box<dyn Job>> {
    let sources = args.weights.iter().map(|text| Source::parse(text)).collect::<Result<Vec<_>>>()?;
    Ok(Box::new(move || {
        let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
        for source in &sources {
            subjects.push(open(&name(source), &source.open()?)?);
        }
        for task in ["maze", "sudoku", "mnist"] {
            let shipped = subject::builtin(task)?;
            if subjects.iter().all(|subject| subject.name() != shipped.name()) {
                subjects.push(shipped);
            }
        }
        let first = (!sources.is_empty()).then(|| subjects[0].task().to_string());
        let task = args.task.clone().or(first);
        let solves = std::thread::available_parallelism().map_or(1, usize::from);
        let server = Server::bind(Config { subjects, task, port: args.port, solves })?;
        let url = server.url();
        let mut out = std::io::stdout().lock();
        writeln!(out, "{url}")
            .and_then(|()| out.flush())
            .map_err(|e| io_error("standard output".as_ref(), "a place to write the address", &e))?;
        drop(out);
        say("press Ctrl-C to stop");
        if !args.no_open {
            show(&url);
        }
        server.run()?;
        Ok(Report::new())
    }))
}

/// How the page calls weights: runs have files of the same name, so that the folder belongs to it.
fn name(source: &Source) -> String {
    let Source::File(path) = source else { return source.name() };
    let folder = path.parent().and_then(Path::file_name).map(OsStr::to_string_lossy);
    folder.map_or_else(|| source.name(), |folder| format!("{folder}/{}", source.name()))
}

/// Opens the page with what the system has for that; without it the address is enough.
fn show(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let quiet = Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if quiet.is_err() {
        say("open the address above in a browser");
    }
}
