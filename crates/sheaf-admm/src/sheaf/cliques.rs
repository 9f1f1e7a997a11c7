//! Slots that meet in cliques: every two slots of a group are joined by exactly one edge, and no edge leaves a group.
//!
//! Then the exchange does not iterate over edges: (DᵀD y)_slot = c y_slot − Σ y over the c slots of its group. Grids
//! have pairs and single slots, a Sudoku board has the three views of each cell.

use super::{AgentGraph, Uniform};
use sheaf_kernels::cliques::Groups;

/// The group of every slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cliques {
    of: Vec<u32>,    // [agents, slots]
    sizes: Vec<u32>, // [groups]
}

impl Cliques {
    /// The groups of a graph whose agents are all alike; `None` when its slots do not form cliques.
    pub(super) fn of(graph: &AgentGraph, uniform: Uniform) -> Option<Self> {
        let slots = uniform.slots;
        let place = |agent: u32, slot: u32| agent as usize * slots + slot as usize;
        let mut ends: Vec<(usize, usize)> = graph
            .edges()
            .iter()
            .map(|e| (place(e.u, e.slot_u), place(e.v, e.slot_v)))
            .map(|(u, v)| (u.min(v), u.max(v)))
            .collect();
        ends.sort_unstable();
        if ends.windows(2).any(|pair| pair[0] == pair[1]) {
            return None;
        }
        // In a clique the smallest slot meets all others, so it names the group.
        let mut first: Vec<usize> = (0..graph.agents() * slots).collect();
        for &(u, v) in &ends {
            first[v] = first[v].min(u);
        }
        let mut cliques = Self { of: vec![0; first.len()], sizes: Vec::new() };
        for slot in 0..first.len() {
            cliques.of[slot] = if first[slot] == slot {
                cliques.sizes.push(0);
                cliques.sizes.len() as u32 - 1
            } else {
                cliques.of[first[slot]]
            };
            cliques.sizes[cliques.of[slot] as usize] += 1;
        }
        let mut joined = vec![0u64; cliques.sizes.len()];
        for (u, v) in ends {
            if cliques.of[u] != cliques.of[v] {
                return None;
            }
            joined[cliques.of[u] as usize] += 1;
        }
        let whole = |(&size, &edges): (&u32, &u64)| edges == u64::from(size) * u64::from(size - 1) / 2;
        cliques.sizes.iter().zip(&joined).all(whole).then_some(cliques)
    }

    /// The groups in the form that the kernels read.
    pub(crate) fn groups(&self) -> Groups<'_> {
        Groups { of: &self.of, sizes: &self.sizes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Connectivity, Edge, Sheaf};
    use super::*;

    fn sizes(graph: &AgentGraph) -> Option<Vec<u32>> {
        let sheaf = Sheaf::uniform(graph, 2, 1).unwrap();
        sheaf.cliques().map(|cliques| cliques.sizes.clone())
    }

    #[test]
    fn grids_have_pairs_and_singles_and_a_sudoku_has_triples() {
        assert_eq!(sizes(&AgentGraph::sudoku()), Some(vec![3; 81]));
        let grid = sizes(&AgentGraph::grid(2, 2, Connectivity::Four).unwrap()).unwrap();
        let count = |size: u32| grid.iter().filter(|&&s| s == size).count();
        assert_eq!((count(1), count(2), grid.len()), (8, 4, 12));
    }

    #[test]
    fn a_path_through_one_slot_and_a_double_edge_are_no_cliques() {
        let edge = |u, v| Edge { u, slot_u: 0, v, slot_v: 0 };
        let graph = |edges: &[Edge]| AgentGraph::with_slots(vec![1; 4], edges.to_vec()).unwrap();
        assert_eq!(sizes(&graph(&[edge(0, 1), edge(2, 1), edge(0, 2)])), Some(vec![3, 1]));
        assert_eq!(sizes(&graph(&[edge(0, 1), edge(1, 2)])), None);
        assert_eq!(sizes(&graph(&[edge(0, 2), edge(1, 2)])), None);
        assert_eq!(sizes(&graph(&[edge(0, 1), edge(1, 0)])), None);
        assert_eq!(sizes(&graph(&[edge(0, 1), edge(1, 2), edge(2, 3), edge(3, 0)])), None);
    }
}
