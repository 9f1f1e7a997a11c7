//! The ranks of a job that `mpirun` started, if there are several. Rank 0 speaks; the others compute.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sheaf_admm::share::{Comm, Traffic};
use sheaf_kernels::pool;
use sheaf_mpi::World;

/// The connection, once it is made.
static RANKS: OnceLock<Ranks> = OnceLock::new();

struct Ranks {
    comm: Arc<dyn Comm>,
    metered: Arc<sheaf_admm::share::Metered>,
}

/// Joins the ranks of the job.
pub fn join(world: Option<&World>) {
    let Some(world) = world else { return };
    let _ = RANKS.set(Ranks { comm: world.comm(), metered: Arc::clone(world.metered()) });
    pool::set_default_threads(threads().unwrap_or(0));
}

/// The connection with the other ranks; `None` if there are none.
pub fn comm() -> Option<&'static Arc<dyn Comm>> {
    RANKS.get().map(|ranks| &ranks.comm)
}

/// How many ranks there are.
pub fn count() -> usize {
    comm().map_or(1, |comm| comm.ranks())
}

/// Whether this is rank 0, or the only process.
pub fn is_first() -> bool {
    comm().is_none_or(|comm| comm.rank() == 0)
}

/// What this rank has sent so far.
pub fn traffic() -> Option<Traffic> {
    RANKS.get().map(|ranks| ranks.metered.traffic())
}

/// What rank 0 says; all ranks must ask.
pub fn told(here: bool) -> bool {
    told_number(u64::from(here)) == 1
}

/// The number that rank 0 has; all ranks must ask.
pub fn told_number(here: u64) -> u64 {
    let mut bytes = here.to_ne_bytes();
    if let Some(comm) = comm() {
        comm.broadcast(0, &mut bytes);
    }
    u64::from_ne_bytes(bytes)
}

/// The bytes that rank 0 has; all ranks must ask.
pub fn told_bytes(here: Vec<u8>) -> Vec<u8> {
    let mut bytes = here;
    let len = told_number(bytes.len() as u64) as usize;
    bytes.resize(len, 0);
    if let Some(comm) = comm() {
        comm.broadcast(0, &mut bytes);
    }
    bytes
}

/// The threads of a rank where several share a machine: an equal part of the cores that it may use. `RAYON_NUM_THREADS` and
/// `--threads` set another number.
pub fn threads() -> Option<usize> {
    comm()?;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    if let Some(threads) = number("RAYON_NUM_THREADS") {
        return Some(threads);
    }
    let names = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"];
    let here = names.into_iter().find_map(number).unwrap_or(1).max(1);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    Some((cores / here).max(1))
}

/// Where an error of this rank is reported: rank 0 at once; others after a moment, in which rank 0 may have met the same error
/// and ended the job.
pub fn speak_up() -> Option<String> {
    let comm = comm()?;
    if comm.rank() > 0 {
        std::thread::sleep(Duration::from_secs(1));
    }
    Some(format!("rank {}: ", comm.rank()))
}

/// Ends the job on all ranks, where there are others.
pub fn end_job() {
    if comm().is_some() {
        sheaf_mpi::abort(1);
    }
}
