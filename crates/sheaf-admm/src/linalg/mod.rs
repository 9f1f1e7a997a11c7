//! Factorisations that can fail, and the cutting of scratch; the kernels below them are [`sheaf_kernels`].

pub(crate) mod cholesky;
pub(crate) mod envelope;
pub(crate) mod ordering;
pub(crate) mod scratch;
