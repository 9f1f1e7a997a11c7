//! One file per command: what was typed, checked; and what is done about it.

mod bench;
mod data;
mod eval;
mod import;
mod inspect;
mod solve;
mod trace;
mod train;

pub use bench::Bench;
pub use data::Data;
pub use eval::Eval;
pub use import::Import;
pub use inspect::Inspect;
pub use solve::Solve;
pub use trace::Trace;
pub use train::Train;

use std::num::NonZeroUsize;
use std::path::Path;

use sheaf_admm::{Error, ErrorKind, Result};

use crate::report::Report;

/// How a job ended, when it did not end in an error.
#[derive(Debug)]
pub enum Ending {
    /// All of it was done.
    Done(Report),
    /// It was interrupted; what was done so far is saved.
    Interrupted(Report),
}

impl From<Report> for Ending {
    fn from(report: Report) -> Self {
        Self::Done(report)
    }
}

/// Something that can be done.
pub trait Job: std::fmt::Debug {
    /// Does it.
    fn run(&self) -> Result<Ending>;
}

/// Sets the number of threads for everything that follows.
fn use_threads(threads: Option<NonZeroUsize>) -> Result<()> {
    let Some(threads) = threads else { return Ok(()) };
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.get())
        .build_global()
        .map_err(|e| Error::new(ErrorKind::Unsupported, "--threads", "threads the system can start", e))
}

/// Checks early, before hours of work, that a file can be written where it is wanted.
pub(crate) fn check_parent(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if parent.is_dir() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Io,
        path.display().to_string(),
        "a place in a folder that exists",
        format!("no folder {}", parent.display()),
    )
    .hint(format!("mkdir -p {}", parent.display())))
}
