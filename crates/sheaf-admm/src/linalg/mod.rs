//! Thin layer over the chosen GEMM crate, and the small hot kernels with their plain twins.

pub mod activation;
pub mod aligned;
pub mod cholesky;
pub(crate) mod diagonal_prox;
pub mod gemm;
pub(crate) mod reduce;
pub mod simd;
pub mod stack;
pub mod vector;
