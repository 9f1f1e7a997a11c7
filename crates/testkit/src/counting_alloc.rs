//! A global allocator that counts requests, to show that hot paths make none.
//!
//! A test binary installs it once:
//!
//! ```
//! use sheaf_testkit::{CountingAllocator, allocations};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! assert_eq!(allocations(|| 1 + 1), 0);
//! assert_eq!(allocations(|| std::hint::black_box(Box::new(7))), 1);
//! ```
//!
//! [`allocations`] counts only the calling thread, because other tests of the same binary run in parallel.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system allocator, counting every allocation (fresh, zeroed or grown); deallocations are not counted.
pub struct CountingAllocator;

thread_local! {
    // Constant initialisation and no destructor: reading the counter never allocates, in any phase of a thread.
    static ON_THIS_THREAD: Cell<usize> = const { Cell::new(0) };
}

static ON_ALL_THREADS: AtomicUsize = AtomicUsize::new(0);

fn count() {
    ON_ALL_THREADS.fetch_add(1, Relaxed);
    // A thread that is being torn down no longer has a counter; it also no longer runs a test.
    let _ = ON_THIS_THREAD.try_with(|counter| counter.set(counter.get() + 1));
}

// SAFETY: every method forwards its arguments unchanged to `System`, which upholds the contract; counting touches
// an integer and neither allocates nor unwinds.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the requirements of `System` on `layout`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: `ptr` came from `System` through this allocator, with this `layout`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the requirements of `System` on `layout`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: `ptr` came from `System` through this allocator, with this `layout`; the caller guarantees that
        // `new_size` is valid.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

/// The number of allocations that `work` makes on this thread.
///
/// Panics if [`CountingAllocator`] is not installed: a count of zero would then be meaningless.
pub fn allocations<R>(work: impl FnOnce() -> R) -> usize {
    counted(|| ON_THIS_THREAD.with(Cell::get), work)
}

/// The number of allocations of all threads while `work` runs. Only meaningful in a test binary with a single test,
/// since tests running in parallel are counted too.
pub fn allocations_on_all_threads<R>(work: impl FnOnce() -> R) -> usize {
    counted(|| ON_ALL_THREADS.load(Relaxed), work)
}

fn counted<R>(read: impl Fn() -> usize, work: impl FnOnce() -> R) -> usize {
    let before = read();
    drop(black_box(Box::new(0u8)));
    assert!(
        read() > before,
        "the counting allocator is not installed: add `#[global_allocator]` to this test"
    );
    let before = read();
    let result = work();
    let count = read() - before;
    drop(result);
    count
}
