//! The part of a graph that one rank holds.

use std::ops::Range;

use crate::chunks;
use crate::sheaf::grid::{Connectivity, grid_edges_of_rows};
use crate::sheaf::{AgentGraph, Edge};
use crate::{Error, ErrorKind, Result};

/// The chunks that a rank owns: the same number for all, up to one.
pub fn own_chunks(agents: usize, rank: usize, ranks: usize) -> Range<usize> {
    let chunks = chunks::count(agents);
    rank * chunks / ranks..(rank + 1) * chunks / ranks
}

/// The agents that a rank owns: those of its chunks.
pub fn own_agents(agents: usize, rank: usize, ranks: usize) -> Range<usize> {
    let chunks = own_chunks(agents, rank, ranks);
    let start = |chunk: usize| (chunk * chunks::AGENTS).min(agents);
    start(chunks.start)..start(chunks.end)
}

/// The agents of one rank and every edge that meets one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphPart {
    pub(super) agents: usize,      // of the whole graph
    pub(super) own: Range<usize>,  // of this rank
    pub(super) slots: Vec<usize>,  // [own agents]
    pub(super) edges: Vec<Edge>,   // with agents of the whole graph, in its order
    pub(super) places: Vec<usize>, // [edges], where they stand in the whole graph; empty if that is not known
    /// The slots of every agent of the whole graph, if all have equally many.
    pub(super) common: Option<usize>,
}

impl GraphPart {
    /// The part of `rank` of a graph that this process holds as a whole.
    pub fn new(graph: &AgentGraph, rank: usize, ranks: usize) -> Result<Self> {
        check(rank, ranks)?;
        let own = own_agents(graph.agents(), rank, ranks);
        let touches = |edge: &Edge| own.contains(&(edge.u as usize)) || own.contains(&(edge.v as usize));
        let (places, edges) = graph
            .edges()
            .iter()
            .enumerate()
            .filter(|(_, edge)| touches(edge))
            .map(|(e, edge)| (e, *edge))
            .unzip();
        let slots = own.clone().map(|i| graph.slots(i)).collect();
        let alike = (0..graph.agents()).all(|i| graph.slots(i) == graph.slots(0));
        let common = alike.then(|| graph.slots(0));
        Ok(Self { agents: graph.agents(), own, slots, edges, places, common })
    }

    /// The part of `rank` of a grid, of which nothing else is made: a run of grid rows, cut straight.
    pub fn grid(
        height: usize,
        width: usize,
        connectivity: Connectivity,
        rank: usize,
        ranks: usize,
    ) -> Result<Self> {
        check(rank, ranks)?;
        let agents = height.saturating_mul(width);
        if agents > u32::MAX as usize {
            let expected = format!("at most {}", u32::MAX);
            return Err(Error::new(ErrorKind::OutOfRange, "graph: agents", expected, agents));
        }
        let own = own_agents(agents, rank, ranks);
        // Edges go to the same grid row or to the next one.
        let rows = (own.start / width.max(1)).saturating_sub(1)..own.end.div_ceil(width.max(1)).min(height);
        let touches = |edge: &Edge| own.contains(&(edge.u as usize)) || own.contains(&(edge.v as usize));
        let edges = grid_edges_of_rows(rows, height, width, connectivity)
            .map(|e| Edge { u: e.u, slot_u: e.slot_u.into(), v: e.v, slot_v: e.slot_v.into() })
            .filter(touches)
            .collect();
        let slots = vec![connectivity.slots(); own.len()];
        Ok(Self { agents, own, slots, edges, places: Vec::new(), common: Some(connectivity.slots()) })
    }

    /// Agents of the whole graph.
    pub fn agents(&self) -> usize {
        self.agents
    }

    /// The agents of this rank.
    pub fn own(&self) -> Range<usize> {
        self.own.clone()
    }

    /// Where the edges of this part stand in the whole graph; empty for a [`grid`](Self::grid).
    pub fn edge_places(&self) -> &[usize] {
        &self.places
    }

    /// How many edges have an end on another rank.
    pub fn cut_edges(&self) -> usize {
        let inside = |agent: u32| self.own.contains(&(agent as usize));
        self.edges.iter().filter(|e| !(inside(e.u) && inside(e.v))).count()
    }
}

fn check(rank: usize, ranks: usize) -> Result<()> {
    if rank < ranks {
        return Ok(());
    }
    Err(Error::new(ErrorKind::OutOfRange, "rank", format_args!("below {ranks}"), rank))
}
