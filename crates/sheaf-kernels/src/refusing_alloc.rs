//! An allocator that ends the program with a message and exit code 1 when the system refuses memory.
//!
//! The standard library aborts there, which leaves a core dump instead of an exit code that a caller could expect. A
//! program chooses it with `#[global_allocator]`; its plain twin is [`System`], which it wraps.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// The system's allocator, without aborts.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusingAlloc;

// SAFETY: every call is passed on unchanged to `System`, which keeps the contract; a null pointer is never returned.
unsafe impl GlobalAlloc for RefusingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are those that `System` asks for.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[inline]
fn given(pointer: *mut u8, bytes: usize) -> *mut u8 {
    if pointer.is_null() { refused(bytes) } else { pointer }
}

#[cold]
fn refused(bytes: usize) -> ! {
    // Standard error is not buffered and numbers are formatted in place: nothing here allocates.
    let _ = writeln!(
        std::io::stderr(),
        "error: memory: expected {bytes} bytes more, got none from the system\n\
         hint: choose smaller sizes or batches, or free memory; files are whole, nothing was half written"
    );
    std::process::exit(1)
}
