//! Batches of samples, and the consensus solvers that take them whole.

mod alone;
mod ends;
mod gradients;
mod gram;
mod memory;
mod refusals;
mod support;
