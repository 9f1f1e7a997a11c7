//! Sheaf-constrained ADMM: solve it, differentiate through it, train with it.

pub mod admm;
pub mod error;
pub mod linalg;
pub mod nn;
pub mod params;
pub mod rng;
pub mod scalar;
pub mod sheaf;
pub mod train;
pub mod x_update;
pub mod z_update;

pub use error::{Error, ErrorKind, Result};
pub use scalar::Real;

/// The README's example is compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
