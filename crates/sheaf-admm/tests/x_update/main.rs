//! The local objectives: optimality of every prox, every VJP against finite differences, errors, allocation.

mod dense;
mod diagonal;
mod equality;
mod errors;
mod mixed;
mod own;
mod qp;
mod quadratic;
mod random;
mod support;
mod tether;

#[global_allocator]
static ALLOCATOR: sheaf_testkit::CountingAllocator = sheaf_testkit::CountingAllocator;
