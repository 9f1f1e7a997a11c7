//! The order of agents, which decides what a chunk is.
//!
//! Chunks are runs of agents, and ranks own runs of chunks. On a grid, rows of agents are cut straight, which is hard to
//! improve. Agents of a general graph may come in any order: put in the order of a *partition*, whose parts have few edges
//! between them, few edges are cut. The order is a part of the problem: sums run in its order, so that any number of ranks, and
//! one process, give the same bits for the same order.

use crate::sheaf::{AgentGraph, Edge};
use crate::{Error, ErrorKind, Result};

/// A permutation of agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    agents: Vec<usize>, // [places], which agent is there
    places: Vec<usize>, // [agents], where it is
}

impl Order {
    /// Part after part, the agents of a part in their own order. `parts[i]` is that of agent i.
    ///
    /// ```
    /// let order = sheaf_admm::share::Order::of_parts(&[1, 0, 1, 0]);
    /// assert_eq!(order.agents(), [1, 3, 0, 2]);
    /// ```
    pub fn of_parts(parts: &[usize]) -> Self {
        let mut agents: Vec<usize> = (0..parts.len()).collect();
        agents.sort_by_key(|&agent| parts[agent]);
        let mut places = vec![0; agents.len()];
        agents.iter().enumerate().for_each(|(place, &agent)| places[agent] = place);
        Self { agents, places }
    }

    /// Reads a partition: one line per agent with the number of its part. Lines that begin with `#` are left out.
    pub fn read(text: &str, place: &str, agents: usize) -> Result<Self> {
        let lines =
            text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
        let part = |(number, line): (usize, &str)| {
            line.trim().parse::<usize>().map_err(|_| {
                let place = format!("{place}, line {}", number + 1);
                Error::new(ErrorKind::Malformed, place, "the number of a part", line)
                    .hint("one line per agent, 0, 1, 2 …")
            })
        };
        let parts = lines.map(part).collect::<Result<Vec<usize>>>()?;
        if parts.len() != agents {
            let expected = format!("{agents} lines, one per agent");
            return Err(Error::new(ErrorKind::Shape, place, expected, parts.len()));
        }
        Ok(Self::of_parts(&parts))
    }

    /// The agent at every place.
    pub fn agents(&self) -> &[usize] {
        &self.agents
    }

    /// The place of every agent.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// The graph with its agents in this order. Edges keep theirs.
    pub fn graph(&self, graph: &AgentGraph) -> Result<AgentGraph> {
        crate::error::check_len("order of agents", graph.agents(), self.agents.len())?;
        let slots = self.agents.iter().map(|&agent| graph.slots(agent)).collect();
        let place = |agent: u32| self.places[agent as usize] as u32;
        let edges = graph.edges().iter().map(|e| Edge { u: place(e.u), v: place(e.v), ..*e }).collect();
        AgentGraph::with_slots(slots, edges)
    }

    /// Values of agents, `width` each, in this order.
    pub fn sorted<T: Copy>(&self, values: &[T], width: usize) -> Vec<T> {
        self.agents.iter().flat_map(|&agent| &values[agent * width..][..width]).copied().collect()
    }

    /// Values in this order, put back.
    pub fn unsorted<T: Copy>(&self, values: &[T], width: usize) -> Vec<T> {
        self.places.iter().flat_map(|&place| &values[place * width..][..width]).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_undone_by_its_inverse_and_keeps_edges() {
        let order = Order::read("# parts\n2\n0\n1\n0\n", "a file", 4).unwrap();
        assert_eq!(order.agents(), [1, 3, 2, 0]);
        let values = [10, 11, 20, 21, 30, 31, 40, 41];
        assert_eq!(order.unsorted(&order.sorted(&values, 2), 2), values);
        let graph = AgentGraph::from_edges(4, &[(0, 1), (1, 3), (1, 2)]).unwrap();
        let sorted = order.graph(&graph).unwrap();
        let ends: Vec<_> = sorted.edges().iter().map(|e| (e.u, e.v)).collect();
        assert_eq!(ends, [(3, 0), (0, 1), (0, 2)]);
        assert_eq!(sorted.slots(0), graph.slots(1));
    }

    #[test]
    fn a_partition_of_other_agents_is_refused_with_its_line() {
        assert_eq!(Order::read("0\n1\n", "p", 3).unwrap_err().kind(), ErrorKind::Shape);
        assert!(Order::read("0\nx\n", "p", 2).unwrap_err().place().contains("line 2"));
    }
}
