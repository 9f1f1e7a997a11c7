//! An allocator that ends the program with a message and exit code 1 when memory runs out.
//!
//! The standard library aborts where the system refuses memory, which leaves a core dump instead of an exit code that a
//! caller could expect. A system that promises more than it has kills the program later, without a word; a limit,
//! [`RefusingAlloc::limit`], comes before that. A program chooses it with `#[global_allocator]`; its plain twin is
//! [`System`], which it wraps.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, without aborts and with a limit.
#[derive(Debug)]
pub struct RefusingAlloc {
    budget: Budget,
}

/// Bytes in use and the most there may be. Exact at rest; threads that allocate at once may each be refused a little
/// early.
#[derive(Debug)]
struct Budget {
    used: AtomicUsize,
    limit: AtomicUsize,
}

impl Budget {
    /// Takes bytes, or returns how many are left.
    #[inline]
    fn take(&self, bytes: usize) -> Result<(), usize> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        let limit = self.limit.load(Ordering::Relaxed);
        if used.checked_add(bytes).is_some_and(|sum| sum <= limit) {
            return Ok(());
        }
        self.give_back(bytes);
        Err(limit.saturating_sub(used))
    }

    #[inline]
    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl RefusingAlloc {
    /// An allocator without a limit.
    pub const fn new() -> Self {
        Self { budget: Budget { used: AtomicUsize::new(0), limit: AtomicUsize::new(usize::MAX) } }
    }

    /// Refuses memory beyond this many bytes in all.
    pub fn limit(&self, bytes: usize) {
        self.budget.limit.store(bytes, Ordering::Relaxed);
    }

    #[inline]
    fn take(&self, bytes: usize) {
        if let Err(left) = self.budget.take(bytes) {
            refused(bytes, left);
        }
    }
}

impl Default for RefusingAlloc {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: every call is passed on unchanged to `System`, which keeps the contract; a null pointer is never returned.
unsafe impl GlobalAlloc for RefusingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.take(layout.size());
        // SAFETY: the caller's promises are those that `System` asks for.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.take(layout.size());
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        match size.checked_sub(layout.size()) {
            Some(more) => self.take(more),
            None => self.budget.give_back(layout.size() - size),
        }
        // SAFETY: as above.
        given(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.budget.give_back(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[inline]
fn given(pointer: *mut u8, bytes: usize) -> *mut u8 {
    if pointer.is_null() { refused(bytes, 0) } else { pointer }
}

#[cold]
fn refused(bytes: usize, left: usize) -> ! {
    // Standard error is not buffered and numbers are formatted in place: nothing here allocates.
    let _ = writeln!(
        std::io::stderr(),
        "error: memory: expected {bytes} bytes more, got {left} that are free\n\
         hint: choose smaller sizes or batches, or free memory; files are whole, nothing was half written"
    );
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_beyond_the_limit_is_refused_and_what_is_given_back_counts_no_more() {
        let alloc = RefusingAlloc::new();
        alloc.limit(100);
        let budget = &alloc.budget;
        assert_eq!(budget.take(60), Ok(()));
        assert_eq!(budget.take(41), Err(40));
        assert_eq!(budget.take(usize::MAX), Err(40));
        assert_eq!(budget.take(40), Ok(()));
        budget.give_back(60);
        assert_eq!(budget.take(60), Ok(()));
    }

    #[test]
    fn what_is_freed_or_shrunk_is_given_back() {
        let alloc = RefusingAlloc::new();
        alloc.limit(1000);
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        // SAFETY: the layouts are those of the calls before, and nothing is used after it is freed.
        unsafe {
            let a = alloc.alloc(layout(600));
            let a = alloc.realloc(a, layout(600), 900);
            let a = alloc.realloc(a, layout(900), 100);
            let b = alloc.alloc_zeroed(layout(900));
            assert_eq!(alloc.budget.take(1), Err(0));
            alloc.dealloc(a, layout(100));
            alloc.dealloc(b, layout(900));
        }
        assert_eq!(alloc.budget.take(1000), Ok(()));
    }
}
