//! One sheaf over several ranks, here threads of one process: the bits of one process, whatever their number.

mod grid;
mod halo;
mod network;
mod refusals;
mod reverse;
mod reverse_table;
mod solve;
mod support;
