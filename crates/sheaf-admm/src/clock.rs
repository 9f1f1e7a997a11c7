//! When the current solve must end. Inner loops look here, so that a time limit holds within one of their steps and not only
//! from one iteration to the next.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
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
}
