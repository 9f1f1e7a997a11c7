//! Problems of one's own, in the words of `sheaf_admm::network`.

pub mod gradient;
pub mod objective;
pub mod settings;
pub mod solution;
pub mod solver;

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::ErrorKind;
use sheaf_admm::network::{AgentId, Coupling, Edge as Link, EdgeId, Network as Inner};

use crate::arrays::{matrix, vector};
use crate::errors::{Raised, wrong};
use crate::run::run;
use objective::{Layout, Objective, Quadratic, Shapes};
use settings::Settings;
use solution::Solution;
use solver::Solver;

/// An agent of a network.
#[pyclass(frozen, module = "sheaf_admm", name = "Agent", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct Agent {
    pub id: AgentId,
    network: u64,
}

/// An edge of a network.
#[pyclass(frozen, module = "sheaf_admm", name = "Edge", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct Edge {
    pub id: EdgeId,
    network: u64,
}

#[pymethods]
impl Agent {
    /// Its number, in the order in which agents were added.
    #[getter]
    fn index(&self) -> usize {
        self.id.index()
    }

    fn __index__(&self) -> usize {
        self.id.index()
    }

    fn __repr__(&self) -> String {
        format!("Agent({})", self.id.index())
    }
}

#[pymethods]
impl Edge {
    /// Its number, in the order in which edges were added.
    #[getter]
    fn index(&self) -> usize {
        self.id.index()
    }

    fn __repr__(&self) -> String {
        format!("Edge({})", self.id.index())
    }
}

/// What identifies a network and its parts.
#[derive(Clone)]
pub struct Names {
    network: u64,
    agents: Vec<AgentId>,
    edges: Vec<EdgeId>,
    pub shapes: Vec<Option<Shapes>>,
    pub maps: Vec<[Layout; 2]>,
}

impl Names {
    /// The agent that an object names: an agent of this network, or a number.
    pub fn agent(&self, object: &Bound<'_, PyAny>) -> PyResult<AgentId> {
        match object.cast::<Agent>() {
            Ok(agent) if agent.get().network != self.network => Err(foreign("agent")),
            Ok(agent) => self.known("agent", &self.agents, agent.get().id.index()),
            Err(_) => self.known("agent", &self.agents, object.extract()?),
        }
    }

    /// The edge that an object names, in the same way.
    pub fn edge(&self, object: &Bound<'_, PyAny>) -> PyResult<EdgeId> {
        match object.cast::<Edge>() {
            Ok(edge) if edge.get().network != self.network => Err(foreign("edge")),
            Ok(edge) => self.known("edge", &self.edges, edge.get().id.index()),
            Err(_) => self.known("edge", &self.edges, object.extract()?),
        }
    }

    fn known<I: Copy>(&self, what: &str, all: &[I], index: usize) -> PyResult<I> {
        let missing = || wrong(ErrorKind::OutOfRange, what, format!("a number below {}", all.len()), index);
        all.get(index).copied().ok_or_else(missing)
    }
}

fn foreign(what: &str) -> PyErr {
    let expected = format!("an {what} of this network");
    wrong(ErrorKind::OutOfRange, what, expected, format!("an {what} of another network"))
}

static NETWORKS: AtomicU64 = AtomicU64::new(0);

/// Agents with objectives, and edges on which they agree.
///
/// >>> import numpy as np, sheaf_admm as sa
/// >>> net = sa.Network()
/// >>> a = net.agent(sa.Quadratic(np.eye(2), np.array([-1.0, -7.0])))
/// >>> b = net.agent(sa.Quadratic(np.eye(3), np.array([-2.0, 3.0, -1.0])))
/// >>> edge = net.agree(a, np.array([[1.0, 0.0]]), b, np.array([[1.0, 0.0, 0.0]]), offset=np.array([0.5]))
/// >>> sol = net.solve(tol=1e-9)
/// >>> sol.status, sol.x(a).round(6).tolist(), sol.x(b).round(6).tolist()
/// ('solved', [1.75, 7.0], [1.25, -3.0, 1.0])
/// >>> sol.price(edge).round(6).tolist()
/// [-0.75]
#[pyclass(module = "sheaf_admm", name = "Network")]
pub struct Network {
    pub inner: Inner,
    names: Names,
}

#[pymethods]
impl Network {
    #[new]
    fn new() -> Self {
        let network = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let names = Names { network, agents: vec![], edges: vec![], shapes: vec![], maps: vec![] };
        Self { inner: Inner::new(), names }
    }

    /// Adds an agent with this objective.
    fn agent(&mut self, objective: &Bound<'_, PyAny>) -> PyResult<Agent> {
        let (id, shapes) = if let Ok(quadratic) = objective.cast::<Quadratic>() {
            let quadratic = quadratic.get();
            (self.inner.agent(quadratic.inner.clone()).raised()?, Some(quadratic.shapes.clone()))
        } else if let Ok(other) = objective.cast::<Objective>() {
            (self.inner.shared_agent(other.get().map.clone()).raised()?, None)
        } else {
            let expected = "a Quadratic, Huber, Logistic, Ball, Simplex or SecondOrderCone";
            let got = crate::arrays::kind_of(objective);
            return Err(wrong(ErrorKind::Unsupported, "objective", expected, got));
        };
        self.names.agents.push(id);
        self.names.shapes.push(shapes);
        Ok(Agent { id, network: self.names.network })
    }

    /// Adds an edge: F_a x_a − F_b x_b = offset, or what it costs if that does not hold.
    ///
    /// `cost` is `"hard"` (it must hold), `"soft"` (w/2 ‖r‖²), `"huber"`, `"l1"` (w Σ|r|) or `"l2"` (w ‖r‖).
    #[pyo3(signature = (a, map_a, b, map_b, offset = None, *, cost = "hard", weight = 1.0, delta = 1.0))]
    fn agree(
        &mut self,
        a: &Bound<'_, PyAny>,
        map_a: &Bound<'_, PyAny>,
        b: &Bound<'_, PyAny>,
        map_b: &Bound<'_, PyAny>,
        offset: Option<&Bound<'_, PyAny>>,
        cost: &str,
        weight: f64,
        delta: f64,
    ) -> PyResult<Edge> {
        let (a, b) = (self.names.agent(a)?, self.names.agent(b)?);
        let place = |end: &str| format!("edge {}: map of end {end}", self.inner.edges());
        let (first, second) = (matrix(&place("a"), map_a, false)?, matrix(&place("b"), map_b, false)?);
        let layouts = [Layout::of(map_a, &first)?, Layout::of(map_b, &second)?];
        let coupling = match cost {
            "hard" => Coupling::Hard,
            "soft" => Coupling::Soft { weight },
            "huber" => Coupling::Huber { weight, delta },
            "l1" => Coupling::L1 { weight },
            "l2" => Coupling::L2 { weight },
            other => {
                let known = "\"hard\", \"soft\", \"huber\", \"l1\" or \"l2\"";
                return Err(wrong(ErrorKind::Unsupported, "cost", known, format!("{other:?}")));
            }
        };
        let rows = first.rows();
        let mut link = Link::new(a, first, b, second).coupling(coupling);
        if let Some(offset) = offset {
            link = link.offset(vector("offset", offset, Some(rows))?);
        }
        let id = self.inner.edge(link).raised()?;
        self.names.edges.push(id);
        self.names.maps.push(layouts);
        Ok(Edge { id, network: self.names.network })
    }

    /// Sets the penalty of an agent relative to the others (1). It changes the way to the solution, not the solution.
    fn set_penalty(&mut self, agent: &Bound<'_, PyAny>, penalty: &Bound<'_, PyAny>) -> PyResult<()> {
        let id = self.names.agent(agent)?;
        self.inner.set_penalty(id, &vector("penalty", penalty, Some(1))?).raised()
    }

    /// Number of agents.
    #[getter]
    fn agents(&self) -> usize {
        self.inner.agents()
    }

    /// Number of edges.
    #[getter]
    fn edges(&self) -> usize {
        self.inner.edges()
    }

    /// Solves once. Look at `status`: a limit or an infeasible problem is no exception. `tol` and further keywords are those
    /// of `Settings`, which may also be given whole.
    #[pyo3(signature = (tol = None, **settings))]
    fn solve(
        &self,
        py: Python<'_>,
        tol: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Solution> {
        self.solver(py, tol, settings)?.solve(py)
    }

    /// A solver that is factorised once and solves again and again, from where it ended. Arguments as for `solve`.
    #[pyo3(signature = (tol = None, **settings))]
    fn solver(
        &self,
        py: Python<'_>,
        tol: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Solver> {
        let (settings, inner) = (Settings::read(py, tol, settings)?, &self.inner);
        let made = run(py, None, |_| inner.solver(settings))?;
        Ok(Solver { inner: made, names: self.names.clone() })
    }

    fn __repr__(&self) -> String {
        format!("Network(agents={}, edges={})", self.inner.agents(), self.inner.edges())
    }
}
