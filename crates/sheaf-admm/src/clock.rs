//! When the current solve must end. Inner loops look here, so that a time limit holds within one of their steps and not only
//! from one iteration to the next.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Whether work may be left out, and whether some was.
    static MAY_LEAVE: Cell<bool> = const { Cell::new(false) };
    static LEFT: Cell<bool> = const { Cell::new(false) };
}

/// Calls `f` with this deadline, or with the earlier one around it.
pub(crate) fn until<R>(deadline: Option<Instant>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Instant>);
    impl Drop for Restore {
        fn drop(&mut self) {
            DEADLINE.set(self.0);
        }
    }
    let before = DEADLINE.get();
    let earlier = match (before, deadline) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let _restore = Restore(DEADLINE.replace(earlier));
    f()
}

/// Whether the deadline of this thread has passed.
pub(crate) fn late() -> bool {
    DEADLINE.get().is_some_and(|deadline| Instant::now() >= deadline)
}

/// Calls `f`, which may leave out work once the deadline has passed if it `may`; also returns whether it did.
pub(crate) fn leaving<R>(may: bool, f: impl FnOnce() -> R) -> (R, bool) {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MAY_LEAVE.set(self.0);
        }
    }
    let _restore = Restore(MAY_LEAVE.replace(may));
    LEFT.set(false);
    let made = f();
    (made, LEFT.replace(false))
}

/// What the chunks of a piece of work ask, on any thread, before they begin. Made and dropped by the thread of the solve.
pub(crate) struct Leave {
    deadline: Option<Instant>,
    left: AtomicBool,
}

impl Leave {
    /// With the deadline of this thread, if work may be left out.
    pub(crate) fn new() -> Self {
        let deadline = DEADLINE.get().filter(|_| MAY_LEAVE.get());
        Self { deadline, left: AtomicBool::new(false) }
    }

    /// Whether this chunk is left out.
    pub(crate) fn now(&self) -> bool {
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if late {
            self.left.store(true, Ordering::Relaxed);
        }
        late
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if self.left.load(Ordering::Relaxed) {
            LEFT.set(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_earlier_deadline_counts_and_ends_with_its_call() {
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        assert!(!late());
        until(Some(now), || {
            assert!(late());
            until(Some(now + hour), || assert!(late()));
            until(None, || assert!(late()));
        });
        until(Some(now + hour), || assert!(!late()));
        assert!(!late());
    }

    #[test]
    fn work_is_left_out_only_after_the_deadline_and_where_that_is_allowed() {
        let work = || {
            let leave = Leave::new();
            std::thread::scope(|scope| scope.spawn(|| leave.now()).join().unwrap_or(false))
        };
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        until(Some(now), || {
            assert!(!work());
            assert_eq!(leaving(false, work), (false, false));
            assert_eq!(leaving(true, work), (true, true));
            assert!(!work());
        });
        until(Some(now + hour), || assert_eq!(leaving(true, work), (false, false)));
        assert_eq!(leaving(true, work), (false, false));
    }
}
