//! Maze, MNIST and Sudoku as sheaves of agents; the same four files for each task: data, views, model, metrics.

pub mod baselines;
pub mod builtin;
#[cfg(all(debug_assertions, not(test)))]
#[doc(hidden)]
pub mod instances;
pub mod maze;
pub mod mnist;
pub mod sudoku;

pub use sheaf_files::npz;
