//! The same sheaf without some of its edges. Agents keep their slots, so that maps fit both.

use super::{AgentGraph, Cliques, Edge, Sheaf, ends, partners};
use crate::Result;

impl Sheaf {
    /// The sheaf without the edges that `cut` names, in the same order. Stalks, slots and rows of agents stay as they
    /// are: maps of this sheaf are maps of that one. Values of edges (offsets, weights) have to be chosen anew.
    pub fn without_edges(&self, cut: impl Fn(usize) -> bool) -> Result<Self> {
        let hint = "cut the edges of the whole graph, then share it";
        crate::share::refuse(self, "a sheaf without some edges", "one process", hint)?;
        let mut sheaf = self.clone();
        let (mut start, mut number) = (0, 0);
        sheaf.edges.retain_mut(|edge| {
            let kept = !cut(number);
            number += 1;
            if kept {
                edge.start = start;
                start += edge.dim;
            }
            kept
        });
        let mut number = 0..;
        sheaf.edge_chunks.retain(|_| number.next().is_some_and(|e| !cut(e)));
        sheaf.edge_len = start as usize;
        (sheaf.partners, sheaf.cliques) = (None, None);
        if let Some(uniform) = self.uniform {
            let graph = sheaf.graph(uniform.slots)?;
            sheaf.partners = partners(&sheaf, ends(&graph, &sheaf));
            sheaf.cliques = Cliques::of(&graph, uniform);
        }
        Ok(sheaf)
    }

    /// Whether slots meet in cliques, which some solvers of shared maps need.
    pub fn has_cliques(&self) -> bool {
        self.cliques.is_some()
    }

    fn graph(&self, slots: usize) -> Result<AgentGraph> {
        let edge = |((u, slot_u), (v, slot_v)): ((usize, usize), (usize, usize))| Edge {
            u: u as u32,
            slot_u: slot_u as u32,
            v: v as u32,
            slot_v: slot_v as u32,
        };
        AgentGraph::with_slots(vec![slots; self.agents()], self.edge_ends().map(edge).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheaf::Connectivity;

    #[test]
    fn a_sheaf_without_some_edges_is_that_of_the_smaller_graph() {
        let graph = AgentGraph::grid(3, 3, Connectivity::Eight).unwrap();
        let sheaf = Sheaf::uniform(&graph, 4, 2).unwrap();
        let fewer: Vec<Edge> = graph.edges().iter().copied().filter(|e| e.u != 4 && e.v != 4).collect();
        let ends: Vec<_> = sheaf.edge_ends().collect();
        let cut = sheaf.without_edges(|e| ends[e].0.0 == 4 || ends[e].1.0 == 4).unwrap();
        let expected = Sheaf::uniform(&AgentGraph::with_slots(vec![8; 9], fewer).unwrap(), 4, 2).unwrap();
        assert_eq!(cut, expected);
        assert_eq!(sheaf.without_edges(|_| false).unwrap(), sheaf);
    }

    #[test]
    fn agents_of_all_sizes_keep_their_rows_when_an_edge_goes() {
        let graph = AgentGraph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
        let sheaf = Sheaf::heterogeneous(&graph, &[3, 5, 2], &[2, 1]).unwrap();
        let cut = sheaf.without_edges(|e| e == 0).unwrap();
        assert_eq!((cut.edge_count(), cut.edge_len()), (1, 1));
        assert_eq!((cut.stack_len(), cut.row_len()), (sheaf.stack_len(), sheaf.row_len()));
        assert_eq!(cut.edge_ends().next(), Some(((1, 1), (2, 0))));
    }

    #[test]
    fn one_edge_of_a_cell_less_breaks_its_clique() {
        let sheaf = Sheaf::uniform(&AgentGraph::sudoku(), 9, 1).unwrap();
        assert!(sheaf.has_cliques() && !sheaf.without_edges(|e| e == 0).unwrap().has_cliques());
    }
}
