//! Matrix products and the small hot kernels, with their plain twins.
//!
//! Sizes are checked by those who call: a kernel that is handed slices that do not fit panics, and never reads beyond
//! one.

pub(crate) mod activation;
pub mod aligned;
pub mod cells;
pub(crate) mod cholesky;
pub(crate) mod diagonal_prox;
pub(crate) mod envelope;
pub(crate) mod exchange;
pub mod gemm;
pub mod low_rank;
pub(crate) mod ordering;
#[cfg(target_arch = "x86_64")]
mod product;
pub(crate) mod reduce;
pub(crate) mod scratch;
pub mod simd;
pub mod stack;
#[cfg(target_arch = "x86_64")]
mod stack_avx512;
pub mod thin;
pub mod tile_prox;
pub mod tiles;
pub mod vector;
