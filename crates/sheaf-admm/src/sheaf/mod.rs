//! TODO
pub mod grid;
