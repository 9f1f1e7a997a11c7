//! Sheaf ADMM over several processes, with MPI.
//!
//! [`World::start`] joins the ranks of `mpirun`, if there are several; [`World::comm`] connects them for
//! [`sheaf_admm::share`]. The feature `mpi` links MPI. Without it there is one process, and a launch by `mpirun` is an error
//! that says so.
//!
//! # Faults
//! A rank that panics, or that [`abort`]s, ends the whole job at once. A rank that is killed is noticed by
//! `mpirun`, which ends the others. A rank that falls silent is noticed by those that wait for it: after
//! [`Settings::timeout`] they call the roll, name the ranks that do not answer and end the job.

#[cfg(feature = "mpi")]
mod connection;
#[cfg(feature = "metis")]
pub mod partition;
#[cfg(feature = "mpi")]
mod wait;

use std::sync::Arc;
use std::time::Duration;

use sheaf_admm::share::{Comm, Metered};
use sheaf_admm::{Error, ErrorKind, Result};

/// How ranks wait for each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How long a rank waits for another before it ends the job. `SHEAF_MPI_TIMEOUT`, in seconds; 300 unless set.
    pub timeout: Duration,
    /// By how much every exchange and every sum is made longer, to model a slower network. `SHEAF_MPI_DELAY`, in
    /// microseconds; 0 unless set.
    pub delay: Duration,
}

impl Settings {
    /// The settings of the environment.
    pub fn from_env() -> Result<Self> {
        let number = |name: &str, unset: f64| match std::env::var(name) {
            Err(_) => Ok(unset),
            Ok(text) => match text.trim().parse::<f64>() {
                Ok(value) if (0.0..=1e9).contains(&value) => Ok(value),
                _ => Err(Error::new(
                    ErrorKind::Malformed,
                    format!("environment variable {name}"),
                    "a number, 0 or above",
                    text,
                )),
            },
        };
        Ok(Self {
            timeout: Duration::from_secs_f64(number("SHEAF_MPI_TIMEOUT", 300.0)?),
            delay: Duration::from_secs_f64(number("SHEAF_MPI_DELAY", 0.0)? * 1e-6),
        })
    }
}

/// The ranks of this job. MPI ends when it is dropped.
pub struct World {
    comm: Arc<Metered>,
    #[cfg(feature = "mpi")]
    _universe: mpi::environment::Universe,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("World").field(&self.comm).finish()
    }
}

/// How many ranks the launcher says that there are.
fn launched() -> usize {
    let size = |name: &str| std::env::var(name).ok()?.parse().ok();
    ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"].into_iter().find_map(size).unwrap_or(1)
}

/// Whether the launcher is one that MPI understands: those that say how many ranks there are, and Slurm.
#[cfg(feature = "mpi")]
fn is_launched() -> bool {
    launched() > 1
        || (std::env::var_os("PMIX_RANK").is_some() && std::env::var("SLURM_NTASKS").is_ok_and(|n| n != "1"))
}

impl World {
    /// Joins the ranks of this job; `None` if there is only this process.
    #[cfg(feature = "mpi")]
    pub fn start() -> Result<Option<Self>> {
        if !is_launched() {
            return Ok(None);
        }
        let settings = Settings::from_env()?;
        let place = "MPI";
        let Some((universe, threading)) = mpi::initialize_with_threading(mpi::Threading::Serialized) else {
            return Err(Error::new(ErrorKind::Unsupported, place, "to be started once", "a second start"));
        };
        // Solves run on a thread of their own.
        if threading < mpi::Threading::Serialized {
            let (expected, got) = ("calls from any thread, one at a time", format!("{threading:?}"));
            return Err(Error::new(ErrorKind::Unsupported, place, expected, got)
                .hint("use an MPI library that was built with threads"));
        }
        let comm = connection::Connection::new(settings.timeout);
        Ok(Some(Self { comm: Arc::new(Metered::new(Arc::new(comm), settings.delay)), _universe: universe }))
    }

    /// Joins the ranks of this job; `None` if there is only this process.
    #[cfg(not(feature = "mpi"))]
    pub fn start() -> Result<Option<Self>> {
        Settings::from_env()?;
        match launched() {
            0 | 1 => Ok(None),
            ranks => Err(Error::new(
                ErrorKind::Unsupported,
                "MPI",
                "a program that was built with MPI",
                format!("{ranks} ranks"),
            )
            .hint("cargo build --release --features mpi, with Open MPI or MPICH and libclang installed")),
        }
    }

    /// The connection with the other ranks.
    pub fn comm(&self) -> Arc<dyn Comm> {
        self.comm.clone()
    }

    /// The same, with what was sent over it.
    pub fn metered(&self) -> &Arc<Metered> {
        &self.comm
    }
}

/// Ends all ranks at once, with this exit code.
pub fn abort(code: i32) -> ! {
    #[cfg(feature = "mpi")]
    if wait::is_running() {
        connection::abort(code);
    }
    std::process::exit(code)
}

/// A panic on this rank ends all ranks, after it has been reported. Without this, unwinding would wait for the others to end
/// MPI, and they for this rank.
pub fn abort_on_panic(rank: usize) {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        eprintln!("error: rank {rank} panicked; ending all ranks");
        abort(1);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_needs_no_ranks() {
        assert!(World::start().is_ok_and(|world| world.is_none()));
    }
}
