//! Sheaf-constrained ADMM: solve it, and differentiate through the solve.

pub mod admm;
pub mod chunks;
mod clock;
pub mod error;
#[cfg(all(debug_assertions, not(test)))]
#[doc(hidden)]
pub mod instances;
mod linalg;
mod matrix;
pub mod network;
pub mod share;
pub mod sheaf;
pub mod x_update;
pub mod z_update;

pub use error::{Error, ErrorKind, Result};
pub use matrix::Matrix;
pub use sheaf_kernels::{Precision, Real};

/// The README's example is compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// So is that of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/solver.md")]
struct SolverGuide;
