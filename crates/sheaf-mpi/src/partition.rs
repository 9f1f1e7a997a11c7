//! METIS: an order of agents that cuts few edges.

use metis::option::Seed;
use metis::{Graph, Idx, Real};
use sheaf_admm::chunks;
use sheaf_admm::share::Order;
use sheaf_admm::sheaf::AgentGraph;
use sheaf_admm::{Error, ErrorKind, Result};

/// The order of a partition into as many parts as there are chunks, by recursive bisection: parts with near numbers are near in
/// the graph, so that runs of chunks, which ranks own, cut few edges too. It depends on the graph alone.
pub fn order(graph: &AgentGraph) -> Result<Order> {
    let parts = chunks::count(graph.agents());
    if parts == 1 {
        return Ok(Order::of_parts(&vec![0; graph.agents()]));
    }
    let (starts, ends) = neighbours(graph)?;
    let mut part = vec![0; graph.agents()];
    let failed = |e: &dyn std::fmt::Display| {
        Error::new(ErrorKind::SolverFailed, "METIS", "a partition of the graph", e.to_string())
            .hint("give a partition of your own")
    };
    // Parts of the sizes of chunks: ranks are cut where chunks are, and a cut through a part would be a bad one.
    let agents = graph.agents();
    let share = |chunk| chunks::agents(chunk, agents).len() as Real / agents as Real;
    let sizes: Vec<Real> = (0..parts).map(share).collect();
    let graph = Graph::new(1, parts as Idx, &starts, &ends).map_err(|e| failed(&e))?;
    graph.set_tpwgts(&sizes).set_option(Seed(1)).part_recursive(&mut part).map_err(|e| failed(&e))?;
    Ok(Order::of_parts(&part.into_iter().map(|p| p as usize).collect::<Vec<_>>()))
}

/// The neighbours of every agent, once each, as METIS takes them.
fn neighbours(graph: &AgentGraph) -> Result<(Vec<Idx>, Vec<Idx>)> {
    let both = graph.edges().iter().filter(|e| e.u != e.v).flat_map(|e| [(e.u, e.v), (e.v, e.u)]);
    let mut pairs: Vec<(u32, u32)> = both.collect();
    pairs.sort_unstable();
    pairs.dedup();
    if pairs.len() > Idx::MAX as usize {
        let expected = format!("at most {} ends of edges", Idx::MAX);
        return Err(Error::new(ErrorKind::OutOfRange, "METIS", expected, pairs.len()));
    }
    let mut starts: Vec<Idx> = vec![0; graph.agents() + 1];
    pairs.iter().for_each(|&(u, _)| starts[u as usize + 1] += 1);
    for agent in 0..graph.agents() {
        starts[agent + 1] += starts[agent];
    }
    Ok((starts, pairs.into_iter().map(|(_, v)| v as Idx).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_admm::share::GraphPart;
    use sheaf_admm::sheaf::Connectivity;

    /// A grid whose agents come in a shuffled order.
    fn shuffled() -> (AgentGraph, AgentGraph) {
        let grid = AgentGraph::grid(120, 110, Connectivity::Eight).unwrap();
        let agents = grid.agents();
        let keys: Vec<usize> = (0..agents).map(|i| i * 7919 % agents).collect();
        let mixed = Order::of_parts(&keys).graph(&grid).unwrap();
        (grid, mixed)
    }

    fn cut(graph: &AgentGraph) -> usize {
        GraphPart::new(graph, 0, 2).unwrap().cut_edges()
    }

    #[test]
    fn a_shuffled_grid_is_cut_nearly_as_well_as_a_grid() {
        let (grid, mixed) = shuffled();
        let ordered = order(&mixed).unwrap().graph(&mixed).unwrap();
        let (straight, before, after) = (cut(&grid), cut(&mixed), cut(&ordered));
        assert!(before > 10 * straight && after < 3 * straight, "{straight}, {before}, {after}");
        // The same every time.
        assert_eq!(order(&mixed).unwrap(), order(&mixed).unwrap());
    }
}
