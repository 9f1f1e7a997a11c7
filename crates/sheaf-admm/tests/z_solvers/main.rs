//! Consensus solvers against dense references and finite differences.

mod asynchronous;
mod asynchronous_admm;
mod choice;
mod descent;
mod edge_space;
mod edges;
mod exact;
mod memory;
mod potential;
mod solution;
mod step_size;
mod support;
