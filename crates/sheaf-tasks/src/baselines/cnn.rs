//! The convolutional network, the baseline for the agents' robustness: batches of pictures, experiments.

mod batch;
pub mod experiment;

pub use batch::{CnnBatch, CnnClassifier};
pub use sheaf_learn::nn::cnn::{CnnConfig, CnnModel, Net};
