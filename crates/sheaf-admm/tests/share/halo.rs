//! The operators of a part against those of the whole.

use sheaf_admm::share::{GraphPart, own_agents};
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Edge, Maps, Sheaf, SheafOp};

use crate::support::{bits, graph, numbers, on_ranks};

/// The stalk of an edge: that of its slots, which are alike everywhere.
fn stalk(edge: &Edge) -> usize {
    1 + (edge.slot_u as usize).max(edge.slot_v as usize) % 2
}

/// A graph whose slots have one size each: edges between slots of different sizes are left out.
fn sized(seed: u64) -> AgentGraph {
    let whole = graph(seed);
    let fits = |e: &&Edge| e.slot_u % 2 == e.slot_v % 2;
    let edges = whole.edges().iter().filter(fits).copied().collect();
    AgentGraph::with_slots((0..whole.agents()).map(|i| whole.slots(i)).collect(), edges).unwrap()
}

#[test]
fn the_operators_of_all_parts_are_those_of_the_whole() {
    for seed in [3, 8] {
        let graph = sized(seed);
        let d_v: Vec<usize> = (0..graph.agents()).map(|i| 1 + i % 3).collect();
        let d_e: Vec<usize> = graph.edges().iter().map(stalk).collect();
        let sheaf = Sheaf::heterogeneous(&graph, &d_v, &d_e).unwrap();
        let stacks = numbers(seed + 20, sheaf.stack_len());
        let (z, n) = (numbers(seed + 30, sheaf.state_len()), sheaf.state_len());
        let b = numbers(seed + 40, sheaf.edge_len());
        let weights: Vec<f64> = numbers(seed + 50, graph.edges().len()).iter().map(|w| 1.5 + w).collect();
        let op = SheafOp::new(&sheaf, Maps::PerAgent(&stacks)).unwrap();
        let full = op.with_offsets(&b).unwrap().with_edge_weights(&weights).unwrap();
        let (mut y, mut s, mut r) = (vec![0.0; sheaf.row_len()], vec![0.0; sheaf.row_len()], b.clone());
        let [mut plain, mut weighted] = [vec![0.0; n], vec![0.0; n]];
        op.laplacian(&z, &mut plain, &mut y, &mut s).unwrap();
        full.laplacian(&z, &mut weighted, &mut y, &mut s).unwrap();
        let energy = full.energy(&z, &mut r, &mut y).unwrap();
        let starts: Vec<usize> = d_e.iter().scan(0, |at, d| Some(std::mem::replace(at, *at + d))).collect();

        for ranks in [1, 2, 4, 6] {
            on_ranks(ranks, |comm| {
                let own = own_agents(graph.agents(), comm.rank(), ranks);
                let part = GraphPart::new(&graph, comm.rank(), ranks).unwrap();
                let d_e: Vec<usize> = part.edge_places().iter().map(|&e| d_e[e]).collect();
                let local = Sheaf::heterogeneous_part(&part, &d_v[own.clone()], &d_e, comm).unwrap();
                let stacks = &stacks[sheaf.stack_offsets()[own.start]..sheaf.stack_offsets()[own.end]];
                let states = sheaf.state_offsets()[own.start]..sheaf.state_offsets()[own.end];
                let b: Vec<f64> = part
                    .edge_places()
                    .iter()
                    .flat_map(|&e| &b[starts[e]..][..stalk(&graph.edges()[e])])
                    .copied()
                    .collect();
                let weights: Vec<f64> = part.edge_places().iter().map(|&e| weights[e]).collect();
                let op = SheafOp::new(&local, Maps::PerAgent(stacks)).unwrap();
                let full = op.with_offsets(&b).unwrap().with_edge_weights(&weights).unwrap();
                let (mut y, mut s) = (vec![0.0; local.row_len()], vec![0.0; local.row_len()]);
                let (mut g, mut r) = (vec![0.0; local.state_len()], vec![0.0; local.edge_len()]);
                let z = &z[states.clone()];
                op.laplacian(z, &mut g, &mut y, &mut s).unwrap();
                assert_eq!(bits(&g), bits(&plain[states.clone()]), "{ranks} ranks");
                full.laplacian(z, &mut g, &mut y, &mut s).unwrap();
                assert_eq!(bits(&g), bits(&weighted[states]), "{ranks} ranks");
                assert_eq!(
                    full.energy(z, &mut r, &mut y).unwrap().to_bits(),
                    energy.to_bits(),
                    "{ranks} ranks"
                );
            });
        }
    }
}

#[test]
fn a_grid_is_cut_without_making_the_whole() {
    let (height, width) = (130, 97);
    let whole = AgentGraph::grid(height, width, Connectivity::Eight).unwrap();
    for ranks in [1, 2, 4] {
        for rank in 0..ranks {
            let part = GraphPart::grid(height, width, Connectivity::Eight, rank, ranks).unwrap();
            let filtered = GraphPart::new(&whole, rank, ranks).unwrap();
            assert_eq!((part.own(), part.cut_edges()), (filtered.own(), filtered.cut_edges()));
            // A straight cut through 8-way neighbours, with a step where the row is not whole.
            assert!(part.cut_edges() <= 2 * (3 * width + 1));
        }
    }
}

#[test]
fn every_agent_has_one_rank_and_ranks_without_chunks_own_nothing() {
    for (agents, ranks) in [(10, 3), (20_000, 4), (20_000, 7)] {
        let mut next = 0;
        for rank in 0..ranks {
            let own = own_agents(agents, rank, ranks);
            assert_eq!(own.start, next);
            next = own.end;
        }
        assert_eq!(next, agents);
    }
}
