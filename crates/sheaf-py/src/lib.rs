//! The native part of the Python package `sheaf_admm`.
//!
//! | file | holds |
//! | --- | --- |
//! | `arrays`, `errors`, `run` | numpy and scipy, exceptions, threads and signals |
//! | `graph`, `layer` | the differentiable layer |
//! | `network` | problems of one's own |
//! | `models` | trained models, data and training |

mod arrays;
mod errors;
mod graph;
mod layer;
mod models;
mod network;
mod run;

/// The module that Python loads.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::graph::Graph;
    #[pymodule_export]
    use crate::layer::Layer;
    #[pymodule_export]
    use crate::models::data::{maze_generate, mnist_digits, mnist_read, mnist_shift, sudoku_generate};
    #[pymodule_export]
    use crate::models::maze::maze_centres;
    #[pymodule_export]
    use crate::models::training::train;
    #[pymodule_export]
    use crate::models::{Model, load};
    #[pymodule_export]
    use crate::network::gradient::Gradient;
    #[pymodule_export]
    use crate::network::objective::{
        Objective, Quadratic, ball, huber, logistic, second_order_cone, simplex,
    };
    #[pymodule_export]
    use crate::network::settings::Settings;
    #[pymodule_export]
    use crate::network::solution::{Solution, backward_all};
    #[pymodule_export]
    use crate::network::solver::{Solver, State};
    #[pymodule_export]
    use crate::network::{Agent, Edge, Network};

    /// Sets the number of threads of all later calls that ask for no number of their own; 0: one per core.
    #[pyfunction]
    fn set_threads(threads: usize) {
        crate::run::set_threads(threads);
    }

    /// Whether an array of float32 is read where it is, without a copy. For tests.
    #[pyfunction]
    fn _reads_in_place(array: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(matches!(crate::arrays::Held::<f32>::read("array", array)?, crate::arrays::Held::Borrowed(_)))
    }

    /// Panics inside a call, to test that a panic becomes an exception.
    #[pyfunction]
    fn _panic(py: Python<'_>) -> PyResult<()> {
        crate::run::run(py, None, |_| panic!("a panic on purpose"))
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
