//! Factorisations that can fail, and the splitting of scratch; the kernels below them are in [`sheaf_kernels`].

pub(crate) mod cholesky;
pub(crate) mod norms;
pub(crate) mod scratch;
pub(crate) mod units;
