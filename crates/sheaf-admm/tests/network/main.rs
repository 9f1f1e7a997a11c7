//! Networks: builder, solver, solution, gradients, and random problems against an interior-point method.

mod basics;
mod corners;
mod gradient;
mod large;
mod oracle;
mod random;

#[global_allocator]
static ALLOCATOR: sheaf_testkit::CountingAllocator = sheaf_testkit::CountingAllocator;
