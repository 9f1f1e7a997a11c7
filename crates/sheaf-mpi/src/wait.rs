//! Waiting with an end.

use std::time::{Duration, Instant};

use mpi::request::{LocalScope, Request};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// A message, on its way or expected.
pub(crate) type Pending<'a, 's> = Request<'a, [u8], &'s LocalScope<'a>>;

/// The tag of the roll call.
const ROLL: mpi::Tag = 7;
/// How long the roll call waits for answers.
const ANSWERS: Duration = Duration::from_secs(3);
/// After so long without an answer a waiting rank gives its core away, between looks.
const PATIENT: Duration = Duration::from_millis(2);
const NAP: Duration = Duration::from_micros(50);

/// Whether MPI has been started and not ended.
pub(crate) fn is_running() -> bool {
    mpi::environment::is_initialized() && !mpi::environment::is_finalized()
}

/// Waits until all have arrived. After `limit` the job ends.
pub(crate) fn all(mut pending: Vec<Pending<'_, '_>>, limit: Option<Duration>, what: &str) {
    let began = Instant::now();
    loop {
        pending = pending.into_iter().filter_map(|request| request.test().err()).collect();
        if pending.is_empty() {
            return;
        }
        pause(began, limit, what);
    }
}

/// Between two looks: gives the core away for a moment; ends the job after `limit`.
pub(crate) fn pause(began: Instant, limit: Option<Duration>, what: &str) {
    let waited = began.elapsed();
    if limit.is_some_and(|limit| waited > limit) {
        call_roll(waited, what);
    }
    match waited > PATIENT {
        true => std::thread::sleep(NAP),
        false => std::thread::yield_now(),
    }
}

/// Asks who else is waiting, names those who do not answer, and ends the job.
fn call_roll(waited: Duration, what: &str) -> ! {
    let world = SimpleCommunicator::world();
    let (own, ranks) = (world.rank(), world.size());
    static HERE: [u8; 1] = [1];
    mpi::request::scope(|scope| {
        let calls: Vec<_> = (0..ranks)
            .filter(|&rank| rank != own)
            .map(|rank| world.process_at_rank(rank).immediate_send_with_tag(scope, &HERE[..], ROLL))
            .collect();
        let (began, mut answered) = (Instant::now(), vec![false; ranks as usize]);
        answered[own as usize] = true;
        while began.elapsed() < ANSWERS && answered.contains(&false) {
            for rank in (0..ranks).filter(|&rank| rank != own) {
                answered[rank as usize] |=
                    world.process_at_rank(rank).immediate_probe_with_tag(ROLL).is_some();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let silent: Vec<String> =
            (0..ranks).filter(|&r| !answered[r as usize]).map(|r| r.to_string()).collect();
        let seconds = waited.as_secs();
        let who = match silent.is_empty() {
            true => "all ranks wait, so they do not run the same program".to_string(),
            false => format!("no answer from rank {}", silent.join(", ")),
        };
        eprintln!("error: rank {own}: {what}: waited {seconds} s; {who}");
        eprintln!("  hint: look at that rank's machine; SHEAF_MPI_TIMEOUT sets the limit in seconds");
        let _unsent = std::mem::ManuallyDrop::new(calls);
        world.abort(1)
    })
}
