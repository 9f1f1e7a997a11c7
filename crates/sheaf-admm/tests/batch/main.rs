//! Batches of samples, and the consensus solvers that solve a whole batch at once.

mod alone;
mod ends;
mod gradients;
mod gram;
mod memory;
mod refusals;
mod support;
