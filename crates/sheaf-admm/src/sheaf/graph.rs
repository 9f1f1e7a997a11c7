//! The communication graph: agents, slots and edges.
//!
//! Each agent has slots; an edge joins a slot of one agent to a slot of another. The restriction map of an endpoint
//! belongs to (agent, slot), so on a grid the slot is the direction of the neighbour, and in Sudoku it is the cell.

use super::grid::{Connectivity, grid_edges};
use crate::{Error, ErrorKind, Result};

/// One edge: slot `slot_u` of agent `u` meets slot `slot_v` of agent `v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// First agent.
    pub u: u32,
    /// Slot of the first agent.
    pub slot_u: u32,
    /// Second agent.
    pub v: u32,
    /// Slot of the second agent.
    pub slot_v: u32,
}

/// Agents, the number of slots each has, and the edges between slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentGraph {
    slots: Vec<usize>, // [agents]
    edges: Vec<Edge>,
}

/// The most agents, and the most slots of all agents together, that a graph may have. Far above what one machine
/// solves; a larger number is a mistake and is reported here rather than by the allocator.
pub const MAX_SLOTS: usize = 1 << 26;

impl AgentGraph {
    /// A graph from explicit slots. `slots[i]` is the number of slots of agent `i`.
    pub fn with_slots(slots: Vec<usize>, edges: Vec<Edge>) -> Result<Self> {
        check_count("agents", slots.len())?;
        check_count("slots", slots.iter().fold(0, |sum: usize, &count| sum.saturating_add(count)))?;
        for (e, edge) in edges.iter().enumerate() {
            for (end, agent, slot) in [("u", edge.u, edge.slot_u), ("v", edge.v, edge.slot_v)] {
                let Some(&count) = slots.get(agent as usize) else {
                    return Err(Error::new(
                        ErrorKind::OutOfRange,
                        format!("edge {e}, end {end}"),
                        format_args!("an agent below {}", slots.len()),
                        format_args!("agent {agent}"),
                    ));
                };
                if slot as usize >= count {
                    return Err(Error::new(
                        ErrorKind::OutOfRange,
                        format!("edge {e}, end {end}"),
                        format_args!("a slot of agent {agent} below {count}"),
                        format_args!("slot {slot}"),
                    ));
                }
            }
            if edge.u == edge.v && edge.slot_u == edge.slot_v {
                return Err(Error::new(
                    ErrorKind::OutOfRange,
                    format!("edge {e}"),
                    "two different ends",
                    format_args!("slot {} of agent {} twice", edge.slot_u, edge.u),
                ));
            }
        }
        Ok(Self { slots, edges })
    }

    /// A graph from plain pairs; every end of every edge gets a slot of its own, numbered in order of appearance.
    ///
    /// ```
    /// let triangle = sheaf_admm::sheaf::AgentGraph::from_edges(3, &[(0, 1), (1, 2), (2, 0)]).unwrap();
    /// assert_eq!(triangle.slots(1), 2);
    /// ```
    pub fn from_edges(agents: usize, pairs: &[(usize, usize)]) -> Result<Self> {
        check_count("agents", agents)?;
        let mut slots = vec![0usize; agents];
        let mut edges = Vec::with_capacity(pairs.len());
        for (e, &(u, v)) in pairs.iter().enumerate() {
            let mut claim = |end: &str, agent: usize| {
                let count = slots.get_mut(agent).ok_or_else(|| {
                    Error::new(
                        ErrorKind::OutOfRange,
                        format!("edge {e}, end {end}"),
                        format_args!("an agent below {agents}"),
                        format_args!("agent {agent}"),
                    )
                })?;
                *count += 1;
                Ok::<u32, Error>(*count as u32 - 1)
            };
            let (slot_u, slot_v) = (claim("u", u)?, claim("v", v)?);
            edges.push(Edge { u: u as u32, slot_u, v: v as u32, slot_v });
        }
        Self::with_slots(slots, edges)
    }

    /// A grid of `height × width` agents; the slot is the direction of the neighbour.
    pub fn grid(height: usize, width: usize, connectivity: Connectivity) -> Result<Self> {
        let edges = grid_edges(height, width, connectivity)?
            .into_iter()
            .map(|e| Edge { u: e.u, slot_u: e.slot_u.into(), v: e.v, slot_v: e.slot_v.into() })
            .collect();
        Ok(Self { slots: vec![connectivity.slots(); height * width], edges })
    }

    /// The 27 agents of a Sudoku board: nine rows, nine columns, nine boxes, joined once for every cell they share
    /// (a row and a box share three cells, so this is a multigraph). The slot is the cell's position within the
    /// agent. Edges run over the cells in reading order: row–column, row–box, column–box.
    pub fn sudoku() -> Self {
        let mut edges = Vec::with_capacity(243);
        for cell in 0..81u32 {
            let (row, col) = (cell / 9, cell % 9);
            let ends = [(row, col), (9 + col, row), (18 + row / 3 * 3 + col / 3, row % 3 * 3 + col % 3)];
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                edges.push(Edge { u: ends[a].0, slot_u: ends[a].1, v: ends[b].0, slot_v: ends[b].1 });
            }
        }
        Self { slots: vec![9; 27], edges }
    }

    /// Number of agents.
    pub fn agents(&self) -> usize {
        self.slots.len()
    }

    /// Number of slots of an agent; 0 for one that does not exist.
    pub fn slots(&self, agent: usize) -> usize {
        self.slots.get(agent).copied().unwrap_or(0)
    }

    /// All edges.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }
}

pub(super) fn check_count(what: &str, count: usize) -> Result<()> {
    if count <= MAX_SLOTS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::OutOfRange,
        format!("graph: {what}"),
        format_args!("at most {MAX_SLOTS}"),
        count,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The board cell that a slot of an agent represents.
    fn cell(agent: u32, slot: u32) -> u32 {
        match agent / 9 {
            0 => agent * 9 + slot,
            1 => slot * 9 + (agent - 9),
            _ => {
                let (top, left) = ((agent - 18) / 3 * 3, (agent - 18) % 3 * 3);
                (top + slot / 3) * 9 + left + slot % 3
            }
        }
    }

    #[test]
    fn the_edges_of_a_sudoku_join_slots_that_show_the_same_cell() {
        let graph = AgentGraph::sudoku();
        assert_eq!((graph.agents(), graph.edges().len()), (27, 243));
        let mut met = vec![0; 27 * 9];
        for edge in graph.edges() {
            assert_eq!(cell(edge.u, edge.slot_u), cell(edge.v, edge.slot_v), "{edge:?}");
            assert!(edge.u / 9 < edge.v / 9, "a row, a column and a box: {edge:?}");
            met[(edge.u * 9 + edge.slot_u) as usize] += 1;
            met[(edge.v * 9 + edge.slot_v) as usize] += 1;
        }
        assert!(met.iter().all(|&count| count == 2), "every view of a cell meets the two others");
        // A row and a box share three cells, and have an edge for each.
        let double = graph.edges().iter().filter(|e| (e.u, e.v) == (0, 18)).count();
        assert_eq!(double, 3);
    }
}
