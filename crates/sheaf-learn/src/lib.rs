//! Learning with sheaf-constrained ADMM: layers, parameters and their initial values, the trainer and its files.

pub mod config;
pub mod init;
pub mod limits;
pub mod model;
pub mod nn;
pub mod params;
pub mod rng;
pub mod task;
pub mod train;
