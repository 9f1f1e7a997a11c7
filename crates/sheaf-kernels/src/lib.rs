//! Matrix products and the small hot kernels, with plain reference versions, and the two scalar types they run on.
//!
//! Internal: this crate serves `sheaf-admm`, `sheaf-learn` and `sheaf-tasks`, and changes with them. All unsafe code of
//! the libraries is here; other crates turn their own loops into kernels with [`simd::kernel`].
//!
//! Callers check sizes: a kernel panics on slices that do not fit and never reads beyond their ends. There is no error
//! type.

pub mod activation;
pub mod aligned;
mod bf16;
pub mod cliques;
pub mod diagonal_prox;
pub mod diagonal_sweep;
pub mod exchange;
pub mod gemm;
pub mod low_rank;
pub mod pool;
pub mod precision;
#[cfg(target_arch = "x86_64")]
mod product;
pub mod reduce;
pub mod refusing_alloc;
pub mod scalar;
pub mod simd;
pub mod sparse;
pub mod stack;
#[cfg(target_arch = "x86_64")]
mod stack_avx512;
pub mod thin;
pub mod tiles;
pub mod vector;

pub use precision::Precision;
pub use scalar::Real;
