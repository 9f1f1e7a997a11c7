//! What the tests share: finite differences, a dense reference sheaf, golden arrays, a counting allocator.
//!
//! | module | answers |
//! | --- | --- |
//! | [`finite_difference`] | is this gradient the gradient of that function? is this map the transpose of that one? |
//! | [`dense`] | what would the sheaf be if it were written out as one matrix? |
//! | [`golden`] | do these numbers agree with stored ones, within the stated tolerance? |
//! | [`counting_alloc`] | how often did this code ask for memory? |
//! | [`random`] | where do reproducible test numbers come from? |
//!
//! Nothing here uses the library under test: a mistake there cannot hide itself here. Since all of it serves
//! tests, a failed expectation panics with a text that says what was expected and what came.

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
