//! Shared test utilities: finite differences, a dense reference sheaf, golden arrays, a counting allocator.
//!
//! | module | answers |
//! | --- | --- |
//! | [`finite_difference`] | is this gradient the gradient of that function? is this map the transpose of that one? |
//! | [`dense`] | what is the sheaf as one dense matrix? |
//! | [`golden`] | do these numbers agree with stored ones, within the stated tolerance? |
//! | [`counting_alloc`] | how often does this code allocate? |
//! | [`random`] | where do reproducible test numbers come from? |
//!
//! Nothing here uses the library under test, so a mistake there cannot hide itself here. Since all of it serves tests,
//! a failed expectation panics with a message that gives the expected and the actual value.

pub mod counting_alloc;
pub mod dense;
mod dense_matrix;
pub mod finite_difference;
pub mod golden;
pub mod random;

pub use counting_alloc::{CountingAllocator, allocations, allocations_on_all_threads};
pub use dense::{DenseEdge, DenseSheaf, Matrix};
pub use finite_difference::{GradientCheck, assert_adjoint, assert_gradient, assert_vjp};
pub use golden::{Array, Golden, assert_close_max, assert_grad, assert_iterates};
pub use random::TestRng;
