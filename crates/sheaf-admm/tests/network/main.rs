//! Networks: builder, solver, solution, gradients, and random problems against an interior-point method.

mod basics;
mod corners;
mod families;
mod gradient;
mod large;
mod limits;
mod oracle;
mod promises;
mod random;

#[global_allocator]
static ALLOCATOR: sheaf_testkit::CountingAllocator = sheaf_testkit::CountingAllocator;
