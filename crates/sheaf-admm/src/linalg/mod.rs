//! Thin layer over the chosen GEMM crate, and the small hot kernels with their plain twins.
pub mod activation;
pub mod gemm;
pub(crate) mod reduce;
pub mod simd;
