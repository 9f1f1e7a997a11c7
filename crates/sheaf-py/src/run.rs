//! Work without the interpreter lock, on a pool of threads, that Ctrl-C can end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use sheaf_admm::{Error, ErrorKind, Result};

use crate::errors::{Raised, panicked};

/// Set when the user has asked to stop. Work looks at it between samples or iterations.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Whether to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Asks to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The flag itself.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// An error where work must end early. The caller sees the exception of the signal instead.
    pub fn check(&self) -> Result<()> {
        match self.is_set() {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::SolverFailed, "work", "no interruption", "one")),
        }
    }
}

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Threads of work that asks for no number of its own; 0: one per core.
static THREADS: AtomicUsize = AtomicUsize::new(0);

struct Pool {
    process: u32,
    threads: usize,
    pool: Arc<ThreadPool>,
}

/// Pools by number of threads. A forked process has none of its parent's threads and makes its own.
static POOLS: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

/// Sets the number of threads of later calls.
pub fn set_threads(threads: usize) {
    THREADS.store(threads, Ordering::Relaxed);
}

fn pool(threads: Option<usize>) -> Result<Arc<ThreadPool>> {
    let (threads, process) = (threads.unwrap_or(THREADS.load(Ordering::Relaxed)), std::process::id());
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = pools.iter().find(|p| p.process == process && p.threads == threads) {
        return Ok(found.pool.clone());
    }
    let made = ThreadPoolBuilder::new().num_threads(threads).build();
    let failed = |e| Error::new(ErrorKind::Io, "threads", format!("a pool of {threads} threads"), e);
    let pool = Arc::new(made.map_err(failed)?);
    pools.push(Pool { process, threads, pool: pool.clone() });
    Ok(pool)
}

/// Runs `work` on the pool, without the interpreter lock. Ctrl-C sets the flag that `work` is given, and becomes
/// `KeyboardInterrupt`; a panic becomes an exception.
pub fn run<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    work: impl FnOnce(&Stop) -> Result<T> + Send,
) -> PyResult<T> {
    let (pool, stop) = (pool(threads).raised()?, Stop::default());
    let mut signal = None;
    let joined = py.detach(|| {
        thread::scope(|scope| {
            let (done, wait) = channel();
            let stop = &stop;
            let worker = scope.spawn(move || {
                let result = pool.install(|| work(stop));
                // The receiver is gone only if this thread is not waited for, and it always is.
                let _ = done.send(());
                result
            });
            while wait.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if signal.is_none() {
                    signal = Python::attach(|py| py.check_signals()).err();
                    if signal.is_some() {
                        stop.set();
                    }
                }
            }
            worker.join()
        })
    });
    match (signal, joined) {
        (Some(signal), _) => Err(signal),
        (None, Ok(result)) => result.raised(),
        (None, Err(payload)) => Err(panicked(&*payload)),
    }
}
