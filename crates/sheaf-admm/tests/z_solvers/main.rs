//! Consensus solvers against dense references and finite differences.

mod descent;
mod edge_space;
mod exact;
mod memory;
mod potential;
mod step_size;
mod support;
