//! Matrix products and the small hot kernels, with their plain twins.

pub mod activation;
pub mod aligned;
pub mod cells;
pub mod cholesky;
pub(crate) mod diagonal_prox;
pub mod envelope;
pub mod exchange;
pub mod gemm;
pub mod low_rank;
pub mod ordering;
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
