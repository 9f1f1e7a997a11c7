//! Consensus solvers against dense references and finite differences.

mod descent;
mod exact;
mod potential;
mod step_size;
mod support;
