//! Models the agents are compared with.

pub mod cnn;
