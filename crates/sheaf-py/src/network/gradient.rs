//! The gradient of a loss by everything that a network was made of.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::network::{AgentGrad, Gradient as Inner};

use super::Names;
use super::objective::Layout;
use crate::arrays::array;

/// The gradient of a loss by everything that a network was made of. Made by `Solution.backward`.
#[pyclass(frozen, module = "sheaf_admm", name = "Gradient")]
pub struct Gradient {
    pub inner: Inner,
    pub names: Names,
}

#[pymethods]
impl Gradient {
    /// Of an agent's objective. Of a `Quadratic`: `Q`, `q`, and whatever else it has of `l1`, `l2`, `beta`, `anchor`,
    /// `lo`, `hi`, `A`, `b`, `G`, `g`, in the shapes they were given in; sparse where they were sparse. Of any other
    /// objective: `parameters`.
    fn agent<'py>(&self, py: Python<'py>, agent: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        let id = self.names.agent(agent)?;
        match (&self.inner.agents[id.index()], &self.names.shapes[id.index()]) {
            (AgentGrad::Quadratic(grad), Some(shapes)) => {
                out.set_item("Q", shaped(py, &shapes.quad, &grad.quad)?)?;
                out.set_item("q", array(py, &[grad.q.len()], grad.q.clone())?)?;
                out.set_item("l2", grad.l2)?;
                out.set_item("beta", grad.beta)?;
                for (name, layout, values) in
                    [("A", &shapes.equal, &grad.equal), ("G", &shapes.at_most, &grad.at_most)]
                {
                    if !values.is_empty() {
                        out.set_item(name, shaped(py, layout, values)?)?;
                    }
                }
                let vectors = [
                    ("l1", &grad.l1),
                    ("anchor", &grad.anchor),
                    ("lo", &grad.lo),
                    ("hi", &grad.hi),
                    ("b", &grad.equal_to),
                    ("g", &grad.limit),
                ];
                for (name, values) in vectors.into_iter().filter(|(_, values)| !values.is_empty()) {
                    out.set_item(name, array(py, &[values.len()], values.clone())?)?;
                }
            }
            (AgentGrad::Quadratic(_), None) => {}
            (AgentGrad::Own(values), _) => {
                out.set_item("parameters", array(py, &[values.len()], values.clone())?)?;
            }
        }
        Ok(out)
    }

    /// Of an edge: `map_a`, `map_b`, `offset`, `weight`.
    fn edge<'py>(&self, py: Python<'py>, edge: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        let id = self.names.edge(edge)?;
        let (grad, [a, b]) = (&self.inner.edges[id.index()], &self.names.maps[id.index()]);
        out.set_item("map_a", shaped(py, a, &grad.maps[0])?)?;
        out.set_item("map_b", shaped(py, b, &grad.maps[1])?)?;
        out.set_item("offset", array(py, &[grad.offset.len()], grad.offset.clone())?)?;
        out.set_item("weight", grad.weight)?;
        Ok(out)
    }

    fn __repr__(&self) -> String {
        format!("Gradient(agents={}, edges={})", self.inner.agents.len(), self.inner.edges.len())
    }
}

/// The gradient of a matrix, in the form the matrix was given in.
fn shaped<'py>(py: Python<'py>, layout: &Layout, values: &[f64]) -> PyResult<Bound<'py, PyAny>> {
    match layout {
        Layout::None => array(py, &[values.len()], values.to_vec()),
        Layout::Diagonal(n) => array(py, &[*n], values.to_vec()),
        Layout::Dense(rows, cols) => array(py, &[*rows, *cols], values.to_vec()),
        Layout::Sparse(rows, cols, places) => {
            let (row, col): (Vec<i64>, Vec<i64>) = places.iter().map(|&(r, c)| (r as i64, c as i64)).unzip();
            let place = (array(py, &[row.len()], row)?, array(py, &[col.len()], col)?);
            let entries = (array(py, &[values.len()], values.to_vec())?, place);
            let options = PyDict::new(py);
            options.set_item("shape", (*rows, *cols))?;
            py.import("scipy.sparse")?.call_method("coo_matrix", (entries,), Some(&options))
        }
    }
}
