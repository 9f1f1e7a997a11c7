//! The result of a solve.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use sheaf_admm::network::Solver as Inner;
use sheaf_admm::{ErrorKind, Result};

use super::Names;
use super::gradient::Gradient;
use crate::arrays::{array, tensor, vector};
use crate::errors::{Raised, within, wrong};
use crate::run::run;

/// How a solve ended: x of every agent, prices of edges, residuals.
///
/// `backward(dx)` is the derivative of a loss by everything the network was made of, given its derivative by x.
///
/// >>> import numpy as np, sheaf_admm as sa
/// >>> net = sa.Network()
/// >>> a, b = net.agent(sa.Quadratic([[1.0]], [-1.0])), net.agent(sa.Quadratic([[3.0]], [-9.0]))
/// >>> edge = net.agree(a, [[1.0]], b, [[1.0]])
/// >>> sol = net.solve(tol=1e-10)
/// >>> sol
/// Solution(solved, iterations=...)
/// >>> grad = sol.backward({a: [1.0]})       # of the loss x_a
/// >>> grad.agent(b)["q"].round(6).tolist(), grad.edge(edge)["offset"].round(6).tolist()
/// ([-0.25], [0.75])
#[pyclass(frozen, module = "sheaf_admm", name = "Solution")]
pub struct Solution {
    pub solver: Arc<Inner>,
    pub names: Names,
}

#[pymethods]
impl Solution {
    /// `"solved"`, `"infeasible"`, `"unbounded"`, `"iteration limit"`, `"time limit"`, `"inexact"`, …
    #[getter]
    fn status(&self) -> String {
        self.solver.solution().status().to_string()
    }

    /// Whether every residual is below its goal.
    #[getter]
    fn solved(&self) -> bool {
        self.solver.solution().is_solved()
    }

    /// Number of agents.
    #[getter]
    fn agents(&self) -> usize {
        self.solver.network().agents()
    }

    /// Iterations that ran.
    #[getter]
    fn iterations(&self) -> usize {
        self.solver.solution().iterations()
    }

    /// Seconds that the solve took.
    #[getter]
    fn time(&self) -> f64 {
        self.solver.solution().time().as_secs_f64()
    }

    /// The value of the problem at x; `None` if an objective does not tell its value.
    #[getter]
    fn objective(&self) -> Option<f64> {
        self.solver.solution().objective()
    }

    /// x of an agent.
    fn x<'py>(&self, py: Python<'py>, agent: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let x = self.solver.solution().x(self.names.agent(agent)?);
        array(py, &[x.len()], x.to_vec())
    }

    /// x of all agents, one after another.
    #[getter]
    fn all_x<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let x = self.solver.solution().all_x();
        array(py, &[x.len()], x.to_vec())
    }

    /// The multiplier of F_a x_a − F_b x_b = offset: what a change of −offset would cost.
    fn price<'py>(&self, py: Python<'py>, edge: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let price = self.solver.solution().price(self.names.edge(edge)?);
        array(py, &[price.len()], price.to_vec())
    }

    /// Multipliers of the constraints of a quadratic agent: `equal`, `at_most`, `lower`, `upper`.
    fn duals<'py>(&self, py: Python<'py>, agent: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let duals = self.solver.duals(self.names.agent(agent)?).raised()?;
        let out = PyDict::new(py);
        let all = [
            ("equal", duals.equal),
            ("at_most", duals.at_most),
            ("lower", duals.lower),
            ("upper", duals.upper),
        ];
        for (name, values) in all {
            out.set_item(name, array(py, &[values.len()], values)?)?;
        }
        Ok(out)
    }

    /// The last residuals, each with its goal: `primal`, `dual`, `edges`.
    #[getter]
    fn residuals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let misses = self.solver.solution().misses();
        let out = PyDict::new(py);
        out.set_item("primal", misses.primal)?;
        out.set_item("dual", misses.dual)?;
        out.set_item("edges", misses.edges)?;
        Ok(out)
    }

    /// Residuals and penalty of every iteration, of the first 10,000 at most: `primal`, `dual`, `rho`.
    #[getter]
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let history = self.solver.solution().history();
        let out = PyDict::new(py);
        let column = |of: fn(&sheaf_admm::network::Record) -> f64| {
            array(py, &[history.len()], history.iter().map(of).collect::<Vec<f64>>())
        };
        out.set_item("primal", column(|r| r.primal)?)?;
        out.set_item("dual", column(|r| r.dual)?)?;
        out.set_item("rho", column(|r| r.rho)?)?;
        Ok(out)
    }

    /// The gradient of a loss whose gradient by x is `dx`: a dictionary by agent, or all agents one after another. It is
    /// that of the exact solution as far as the solve was accurate.
    fn backward(&self, py: Python<'_>, dx: &Bound<'_, PyAny>) -> PyResult<Gradient> {
        let d_x = self.seed(dx)?;
        let solver = &self.solver;
        let inner = run(py, None, |_| solver.gradient(&d_x))?;
        Ok(Gradient { inner, names: self.names.clone() })
    }

    fn __repr__(&self) -> String {
        format!("Solution({}, iterations={})", self.status(), self.iterations())
    }
}

impl Solution {
    /// The gradient of x, all agents one after another.
    fn seed(&self, dx: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
        let Ok(by_agent) = dx.cast::<PyDict>() else { return vector("dx", dx, None) };
        let solution = self.solver.solution();
        let mut seed = vec![0.0; solution.all_x().len()];
        let ids: Vec<_> = self.solver.network().agent_ids().collect();
        for (key, value) in by_agent {
            let agent = self.names.agent(&key)?;
            let start: usize = ids[..agent.index()].iter().map(|&id| solution.x(id).len()).sum();
            let len = solution.x(agent).len();
            let values = vector("dx", &value, Some(len))?;
            if values.len() != len {
                let place = format!("dx of agent {}", agent.index());
                return Err(wrong(ErrorKind::Shape, &place, format!("{len} numbers"), values.len()));
            }
            seed[start..start + len].copy_from_slice(&values);
        }
        Ok(seed)
    }
}

/// The gradients of many solutions, in parallel; `dx` is `[solutions, all x]`.
#[pyfunction]
#[pyo3(signature = (solutions, dx, threads = None))]
pub fn backward_all(
    py: Python<'_>,
    solutions: Vec<Py<Solution>>,
    dx: &Bound<'_, PyAny>,
    threads: Option<usize>,
) -> PyResult<Vec<Gradient>> {
    let (shape, d_x) = tensor("dx", dx)?;
    if shape.len() != 2 || shape[0] != solutions.len() {
        let expected = format!("[{}, numbers of x]", solutions.len());
        return Err(wrong(ErrorKind::Shape, "dx", expected, format!("{shape:?}")));
    }
    let solvers: Vec<Arc<Inner>> = solutions.iter().map(|s| s.get().solver.clone()).collect();
    let all = run(py, threads, |stop| {
        let one = |(i, solver): (usize, &Arc<Inner>)| {
            stop.check()?;
            solver.gradient(&d_x[i * shape[1]..][..shape[1]]).map_err(|e| within(&format!("variant {i}"), &e))
        };
        solvers.par_iter().enumerate().map(one).collect::<Result<Vec<_>>>()
    })?;
    let named = all.into_iter().zip(&solutions);
    Ok(named.map(|(inner, s)| Gradient { inner, names: s.get().names.clone() }).collect())
}
