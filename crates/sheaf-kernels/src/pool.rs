//! Threads for the parts of one large problem.
//!
//! [`run`] calls a function with 0, 1, …, count − 1, on the calling thread and on helpers that wait between calls. It
//! returns when all calls have ended, and allocates nothing once the helpers exist. Which thread makes which call is not
//! fixed; callers give every part its own output, so that results do not depend on it.
//!
//! A call from inside another one, or while another thread uses the helpers, runs on the calling thread alone: batches
//! that are already spread over all cores are not spread again.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// The function of a call, with its lifetime erased.
#[derive(Clone, Copy)]
struct Work(*const (dyn Fn(usize) + Sync));

// SAFETY: the function is Sync, and `run` returns only after the last use of the pointer.
#[allow(unsafe_code)]
unsafe impl Send for Work {}

#[derive(Default)]
struct State {
    work: Option<Work>,
    count: usize,
    next: usize,
    /// Calls that are running on helpers.
    active: usize,
    /// Helpers that may still join.
    room: usize,
    panicked: bool,
}

struct Pool {
    state: Mutex<State>,
    wake: Condvar,
    done: Condvar,
    /// Held while the helpers are in use.
    busy: Mutex<()>,
    helpers: usize,
}

static POOL: OnceLock<Pool> = OnceLock::new();

/// The most threads of calls that set no number of their own; 0: one per core.
static DEFAULT: AtomicUsize = AtomicUsize::new(0);

/// Calls that set no number of their own use at most so many threads from now on; 0: one per core.
pub fn set_default_threads(most: usize) {
    DEFAULT.store(most, Ordering::Relaxed);
}

/// The most threads that a call from here may use; 0: one per core.
fn most() -> usize {
    match MOST.get() {
        0 => DEFAULT.load(Ordering::Relaxed),
        most => most,
    }
}

thread_local! {
    /// The most threads that a call from this thread uses; 0: one per core.
    static MOST: Cell<usize> = const { Cell::new(0) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic is caught before it can reach a lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The helpers, started at the first use. A thread that the system refuses is not missed.
fn pool() -> &'static Pool {
    let mut fresh = false;
    let pool = POOL.get_or_init(|| {
        fresh = true;
        let cores = thread::available_parallelism().map_or(1, |n| n.get());
        let (state, busy) = (Mutex::default(), Mutex::default());
        Pool { state, wake: Condvar::new(), done: Condvar::new(), busy, helpers: cores - 1 }
    });
    if fresh {
        for k in 0..pool.helpers {
            let name = format!("sheaf-{}", k + 1);
            let _ = thread::Builder::new().name(name).spawn(|| help(pool));
        }
    }
    pool
}

/// The life of a helper.
#[allow(unsafe_code)]
fn help(pool: &'static Pool) {
    let mut state = lock(&pool.state);
    loop {
        match state.work {
            Some(Work(work)) if state.room > 0 && state.next < state.count => {
                state.room -= 1;
                while state.next < state.count {
                    let i = state.next;
                    state.next += 1;
                    state.active += 1;
                    drop(state);
                    // SAFETY: `run` waits until no call is active before it lets go of the function.
                    let ended = catch_unwind(AssertUnwindSafe(|| unsafe { (*work)(i) }));
                    state = lock(&pool.state);
                    state.active -= 1;
                    state.panicked |= ended.is_err();
                }
                if state.active == 0 {
                    pool.done.notify_all();
                }
                // Back to waiting until this call is over: `next` has reached `count`.
            }
            _ => state = pool.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// The most threads that [`run`] uses here.
pub fn threads() -> usize {
    match most() {
        0 => pool().helpers + 1,
        most => most.min(pool().helpers + 1),
    }
}

/// Calls `f`, in which [`run`] uses at most so many threads; 0: one per core.
pub fn with_threads<R>(most: usize, f: impl FnOnce() -> R) -> R {
    struct Restore(usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            MOST.set(self.0);
        }
    }
    let _restore = Restore(MOST.replace(most));
    f()
}

/// Calls `f(0)`, …, `f(count − 1)`, each once, in any order and on several threads.
///
/// # Panics
/// If a call panics, after all others have ended.
#[allow(unsafe_code)]
pub fn run(count: usize, f: &(dyn Fn(usize) + Sync)) {
    let alone = || (0..count).for_each(f);
    if count <= 1 || most() == 1 || threads() == 1 {
        return alone();
    }
    let pool = pool();
    let Ok(_busy) = pool.busy.try_lock() else { return alone() };
    // SAFETY: only the lifetime changes. Below, this function waits until `next == count` and no call is active, and
    // removes the pointer, before it returns; a panic in `f` is caught until then.
    let work = Work(unsafe {
        std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync + 'static)>(f)
    });
    let room = threads() - 1;
    *lock(&pool.state) = State { work: Some(work), count, next: 0, active: 0, room, panicked: false };
    pool.wake.notify_all();
    let mut own = None;
    loop {
        let mut state = lock(&pool.state);
        if state.next == count {
            while state.active > 0 {
                state = pool.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.work = None;
            let panicked = state.panicked;
            drop(state);
            if let Some(payload) = own {
                resume_unwind(payload);
            }
            assert!(!panicked, "a part of a parallel loop panicked");
            return;
        }
        let i = state.next;
        state.next += 1;
        drop(state);
        // Calls inside this one run alone: `busy` is held.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f(i))) {
            own = Some(payload);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn every_part_runs_once_on_any_number_of_threads() {
        for most in [0, 1, 2, 5] {
            with_threads(most, || {
                for count in [0, 1, 2, 3, 64, 1000] {
                    let calls: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                    run(count, &|i| {
                        calls[i].fetch_add(1, Relaxed);
                        // A call inside a call runs alone.
                        run(3, &|_| ());
                    });
                    assert!(calls.iter().all(|c| c.load(Relaxed) == 1), "{count} parts, {most} threads");
                }
            });
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_after_all_parts_have_ended() {
        let ended = AtomicUsize::new(0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            run(20, &|i| {
                ended.fetch_add(1, Relaxed);
                assert!(i != 7, "part 7");
            });
        }));
        assert!(caught.is_err());
        assert!(ended.load(Relaxed) >= 8);
        run(4, &|_| {
            ended.fetch_add(1, Relaxed);
        });
    }
}
