//! The communication graph.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use sheaf_admm::ErrorKind;
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Edge};

use crate::arrays::array;
use crate::errors::{Raised, wrong};

/// Agents, their slots, and the edges between slots.
///
/// `Graph(agents, edges)` takes pairs of agents; every end of an edge gets a slot of its own, in order of appearance.
///
/// >>> import sheaf_admm as sa
/// >>> graph = sa.Graph(3, [(0, 1), (1, 2), (2, 0)])
/// >>> graph.agents, graph.slots, len(graph.edges)
/// (3, 2, 3)
/// >>> sa.Graph.grid(2, 3, connectivity=4)
/// Graph(agents=6, slots=4, edges=7)
#[pyclass(frozen, module = "sheaf_admm", name = "Graph")]
pub struct Graph {
    pub inner: AgentGraph,
}

impl Graph {
    /// The most slots of an agent.
    pub fn most_slots(&self) -> usize {
        (0..self.inner.agents()).map(|i| self.inner.slots(i)).max().unwrap_or(0)
    }

    /// The same edges with equally many slots for every agent; those that are added have no edge.
    pub fn even(&self) -> sheaf_admm::Result<AgentGraph> {
        AgentGraph::with_slots(vec![self.most_slots(); self.inner.agents()], self.inner.edges().to_vec())
    }
}

#[pymethods]
impl Graph {
    #[new]
    fn new(agents: usize, edges: Vec<(usize, usize)>) -> PyResult<Self> {
        Ok(Self { inner: AgentGraph::from_edges(agents, &edges).raised()? })
    }

    /// A graph with explicit slots: `slots[i]` of agent i, and edges (u, slot of u, v, slot of v).
    #[staticmethod]
    fn with_slots(slots: Vec<usize>, edges: Vec<(u32, u32, u32, u32)>) -> PyResult<Self> {
        let edge = |(u, slot_u, v, slot_v)| Edge { u, slot_u, v, slot_v };
        let edges = edges.into_iter().map(edge).collect();
        Ok(Self { inner: AgentGraph::with_slots(slots, edges).raised()? })
    }

    /// A grid of agents; the slot is the direction of the neighbour: N, NE, E, SE, S, SW, W, NW, or N, E, S, W.
    #[staticmethod]
    #[pyo3(signature = (height, width, connectivity = 8))]
    fn grid(height: usize, width: usize, connectivity: usize) -> PyResult<Self> {
        let connectivity = match connectivity {
            4 => Connectivity::Four,
            8 => Connectivity::Eight,
            other => return Err(wrong(ErrorKind::Unsupported, "connectivity", "4 or 8", other)),
        };
        Ok(Self { inner: AgentGraph::grid(height, width, connectivity).raised()? })
    }

    /// The 27 agents of a Sudoku board; the slot is the position of a cell within its row, column or box.
    #[staticmethod]
    fn sudoku() -> Self {
        Self { inner: AgentGraph::sudoku() }
    }

    /// The graph of a `networkx` graph: its nodes, in their order, are the agents. Directions do not matter: two edges of a
    /// `DiGraph` that are opposite are one.
    ///
    /// >>> import networkx as nx, sheaf_admm as sa
    /// >>> sa.Graph.from_networkx(nx.path_graph(["a", "b", "c"]))
    /// Graph(agents=3, slots=2, edges=2)
    #[staticmethod]
    fn from_networkx(graph: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (numbers, mut agents) = (PyDict::new(graph.py()), 0);
        for node in graph.getattr("nodes")?.try_iter()? {
            numbers.set_item(node?, agents)?;
            agents += 1;
        }
        let number = |node: Bound<'_, PyAny>| numbers.as_any().get_item(node)?.extract::<usize>();
        let directed: bool = graph.call_method0("is_directed")?.extract()?;
        let graph = if directed { graph.call_method0("to_undirected")? } else { graph.clone() };
        let pairs = graph.call_method0("edges")?;
        let pair = |edge: PyResult<Bound<'_, PyAny>>| {
            let edge = edge?;
            Ok((number(edge.get_item(0)?)?, number(edge.get_item(1)?)?))
        };
        let edges = pairs.try_iter()?.map(pair).collect::<PyResult<Vec<_>>>()?;
        Self::new(agents, edges)
    }

    /// Number of agents.
    #[getter]
    fn agents(&self) -> usize {
        self.inner.agents()
    }

    /// Slots of an agent: the most that any agent has. A layer has maps for so many slots of every agent.
    #[getter]
    fn slots(&self) -> usize {
        self.most_slots()
    }

    /// Slots of every agent.
    #[getter]
    fn slots_of(&self) -> Vec<usize> {
        (0..self.inner.agents()).map(|i| self.inner.slots(i)).collect()
    }

    /// Edges, int64 [edges, 4]: agent, its slot, the other agent, its slot.
    #[getter]
    fn edges<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let edges = self.inner.edges();
        let numbers = edges.iter().flat_map(|e| [e.u, e.slot_u, e.v, e.slot_v].map(i64::from)).collect();
        array(py, &[edges.len(), 4], numbers)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, GraphParts)> {
        let make = py.get_type::<Self>().getattr("with_slots")?;
        let edges = self.inner.edges().iter().map(|e| (e.u, e.slot_u, e.v, e.slot_v)).collect();
        Ok((make, (self.slots_of(), edges)))
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.inner == other.inner
    }

    fn __repr__(&self) -> String {
        format!("Graph(agents={}, slots={}, edges={})", self.agents(), self.slots(), self.inner.edges().len())
    }
}

/// Slots and edges, as `with_slots` takes them.
type GraphParts = (Vec<usize>, Vec<(u32, u32, u32, u32)>);
