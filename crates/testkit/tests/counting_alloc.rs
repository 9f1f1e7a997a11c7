//! The counting allocator counts, separately for each thread.

use std::hint::black_box;

use sheaf_testkit::{CountingAllocator, allocations, allocations_on_all_threads};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn arithmetic_allocates_nothing() {
    let numbers = [1.0f64; 64];
    assert_eq!(allocations(|| black_box(&numbers).iter().sum::<f64>()), 0);
}

#[test]
fn every_fresh_zeroed_or_grown_block_counts_once() {
    assert_eq!(allocations(|| black_box(Vec::<u8>::with_capacity(10))), 1);
    assert_eq!(allocations(|| black_box(vec![0u8; 10])), 1);
    let mut grown = Vec::<u8>::with_capacity(1);
    assert_eq!(allocations(|| grown.reserve_exact(black_box(100))), 1);
}

#[test]
fn giving_memory_back_is_not_counted() {
    let block = vec![1u8; 10];
    assert_eq!(allocations(move || drop(black_box(block))), 0);
}

#[test]
fn another_thread_is_seen_only_by_the_count_over_all_threads() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (done, ready) = std::sync::mpsc::channel::<()>();
    let worker = std::thread::spawn(move || {
        wait.recv().unwrap();
        for size in 1..100 {
            black_box(vec![0u8; size]);
        }
        done.send(()).unwrap();
    });
    let on_this_thread = std::cell::Cell::new(0);
    let everywhere = allocations_on_all_threads(|| {
        on_this_thread.set(allocations(|| {
            go.send(()).unwrap();
            ready.recv().unwrap();
        }));
    });
    worker.join().unwrap();
    assert!(everywhere >= 99, "the worker allocated 99 blocks, {everywhere} were counted");
    assert!(on_this_thread.get() < 50, "{} blocks of the worker leaked in", on_this_thread.get());
}
