//! One file per command: checks its arguments and runs its job.

mod bench;
mod bench_kind;
mod bench_problems;
mod completions;
mod doctor;
mod eval;
#[cfg(feature = "explore")]
mod explore;
mod export;
mod figure;
mod import;
mod inspect;
mod intervene;
mod reproduce;
mod run;
mod trace;
mod train;

pub use bench::bench;
pub use bench_kind::BenchKind;
pub use completions::{completions, man};
pub use doctor::doctor;
pub use eval::eval;
#[cfg(feature = "explore")]
pub use explore::explore;
pub use export::Export;
pub use figure::figure;
pub use import::import;
pub use inspect::inspect;
pub use intervene::intervene;
pub use reproduce::Reproduce;
pub use run::run;
pub use trace::trace;
pub use train::Train;

use std::path::Path;

use sheaf_admm::{Error, ErrorKind, Result};

use crate::ranks;
use crate::report::Report;

/// The commit that the program was built from; empty if it is not known.
const COMMIT: &str = env!("SHEAF_COMMIT");

/// How a job ended, if not with an error.
#[derive(Debug)]
pub enum Ending {
    /// The job is complete.
    Done(Report),
    /// The job was interrupted; its progress is saved.
    Interrupted(Report),
    /// A part of the job failed, as the error says; the report is about the rest.
    Failed(Report, Error),
}

impl From<Report> for Ending {
    fn from(report: Report) -> Self {
        Self::Done(report)
    }
}

/// A job that can run.
pub trait Job {
    /// Runs the job.
    fn run(&self) -> Result<Ending>;

    /// Whether all ranks take part in it; else rank 0 runs it alone.
    fn is_shared(&self) -> bool {
        false
    }
}

impl<F: Fn() -> Result<Report>> Job for F {
    fn run(&self) -> Result<Ending> {
        self().map(Ending::Done)
    }
}

/// Sets the number of threads for everything that follows.
fn use_threads(threads: Option<usize>) -> Result<()> {
    let Some(threads) = threads.or_else(ranks::threads) else { return Ok(()) };
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .map_err(|e| Error::new(ErrorKind::Unsupported, "--threads", "threads the system can start", e))
}

/// Checks that every `--set` has the form `key=value`, comes once and does not change the task.
pub(crate) fn check_set(overrides: &[String], example: &str) -> Result<()> {
    let key = |text: &str| text.split_once('=').map(|(key, _)| key.trim().to_string());
    for (i, text) in overrides.iter().enumerate() {
        if key(text).is_some() && overrides[..i].iter().any(|other| key(other) == key(text)) {
            let got = format!("`{}` twice", key(text).unwrap_or_default());
            return Err(Error::new(ErrorKind::Unsupported, "--set", "each key once", got)
                .hint("--seed sets `train.seed`, --on-nan `train.on_nan`; leave one of the two out"));
        }
        let wrong = |kind, want, got| {
            let hint = format!("for example --set {example}");
            Err(Error::new(kind, format!("--set {text}"), want, got).hint(hint))
        };
        match text.split_once('=') {
            None => return wrong(ErrorKind::Malformed, "key=value", "no `=`"),
            Some((key, _)) if key.trim() == "task" => {
                return wrong(ErrorKind::Unsupported, "a key of the same task", "another task");
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// An option that would change nothing: it needs `want`.
pub(crate) fn without_effect(option: &str, want: &str, got: &str) -> Error {
    Error::new(ErrorKind::Unsupported, option, want, got).hint("leave the option out")
}

/// Checks early, before hours of work, that a file can be written at this path.
///
/// Files are written to a temporary name and renamed. A device must not be replaced by a file this way, nor a file that
/// the command reads: its content would be lost.
pub(crate) fn check_out<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    let place = path.display().to_string();
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !parent.is_dir() {
        let got = format!("no folder {}", parent.display());
        return Err(Error::new(ErrorKind::Io, place, "a place in a folder that exists", got)
            .hint(format!("mkdir -p {}", parent.display())));
    }
    if path.starts_with("/dev") || path.metadata().is_ok_and(|m| !m.is_file()) {
        let got = if path.is_dir() { "a folder" } else { "a device" };
        return Err(Error::new(ErrorKind::Unsupported, place, "the name of a file", got));
    }
    let whole = path.canonicalize();
    let same = |input: &Path| whole.as_ref().is_ok_and(|out| input.canonicalize().is_ok_and(|i| i == *out));
    if inputs.into_iter().any(same) {
        return Err(Error::new(ErrorKind::Unsupported, place, "another file than the input", "the input")
            .hint("choose another name for --out"));
    }
    Ok(())
}
