//! Constructors on arbitrary input: an error or a valid object, never a panic.

use proptest::prelude::*;
use sheaf_admm::Precision;
use sheaf_admm::sheaf::{
    AgentGraph, Connectivity, Edge, LowRank, Maps, PackedLowRank, Sheaf, SheafOp, ViewGroups,
    compose_low_rank,
};

/// Mostly small numbers, sometimes very large ones.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..6, 1 => Just(usize::MAX), 1 => Just(usize::MAX / 16), 1 => Just(1 << 40)]
}

fn edge() -> impl Strategy<Value = Edge> {
    let number = || prop_oneof![8 => 0u32..5, 1 => Just(u32::MAX)];
    (number(), number(), number(), number()).prop_map(|(u, slot_u, v, slot_v)| Edge { u, slot_u, v, slot_v })
}

/// A valid graph: ends are taken modulo the number of agents and slots.
fn graph() -> impl Strategy<Value = AgentGraph> {
    let ends = prop::collection::vec((0usize..100, 0usize..100), 0..8);
    (1usize..6, ends, any::<bool>()).prop_filter_map(
        "no edge joins a slot to itself",
        |(agents, ends, own)| {
            if own {
                let pairs: Vec<_> = ends.iter().map(|(u, v)| (u % agents, v % agents)).collect();
                return AgentGraph::from_edges(agents, &pairs).ok();
            }
            let edge = |&(u, v): &(usize, usize)| Edge {
                u: (u % agents) as u32,
                slot_u: (u / 7 % 3) as u32,
                v: (v % agents) as u32,
                slot_v: (v / 7 % 3) as u32,
            };
            AgentGraph::with_slots(vec![3; agents], ends.iter().map(edge).collect()).ok()
        },
    )
}

/// Runs the operations of the maps; all outputs start as NaN, so that reading them too early is detected.
fn assert_works(op: &SheafOp<'_, f64>) -> Result<(), TestCaseError> {
    let sheaf = op.sheaf();
    let z: Vec<f64> = (0..sheaf.state_len()).map(|k| (k as f64).sin()).collect();
    let (mut y, mut s) = (vec![f64::NAN; sheaf.row_len()], vec![f64::NAN; sheaf.row_len()]);
    let (mut r, mut g) = (vec![f64::NAN; sheaf.edge_len()], vec![f64::NAN; sheaf.state_len()]);
    op.laplacian(&z, &mut g, &mut y, &mut s).expect("fits");
    let quadratic: f64 = g.iter().zip(&z).map(|(g, z)| g * z).sum();
    let energy = op.energy(&z, &mut r, &mut y).expect("fits");
    prop_assert!((quadratic - 2.0 * energy).abs() <= 1e-9 * (1.0 + energy), "{quadratic} {energy}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edge_lists_give_a_graph_or_an_error(
        agents in size(),
        pairs in prop::collection::vec((size(), size()), 0..8),
    ) {
        if let Ok(graph) = AgentGraph::from_edges(agents, &pairs) {
            prop_assert_eq!(graph.edges().len(), pairs.len());
            prop_assert!(pairs.iter().all(|&(u, v)| u < agents && v < agents));
        }
    }

    #[test]
    fn grids_give_a_graph_or_an_error((height, width) in (size(), size()), eight in any::<bool>()) {
        let connectivity = if eight { Connectivity::Eight } else { Connectivity::Four };
        if let Ok(graph) = AgentGraph::grid(height, width, connectivity) {
            prop_assert_eq!(graph.agents(), height * width);
            let (h, w) = if graph.agents() == 0 { (0, 0) } else { (height, width) };
            let across = |n: usize| n.saturating_sub(1);
            let diagonal = if eight { 2 * across(h) * across(w) } else { 0 };
            prop_assert_eq!(graph.edges().len(), h * across(w) + across(h) * w + diagonal);
        } else {
            prop_assert!(height.saturating_mul(width) > 1000);
        }
    }

    #[test]
    fn views_of_any_agents_are_grouped(graph in graph(), index in prop::collection::vec(0u32..9, 0..9)) {
        let sheaf = Sheaf::uniform(&graph, 2, 1).expect("sizes are positive");
        let mut groups = ViewGroups::default();
        groups.set(&sheaf, &index);
        prop_assert_eq!(groups.index(), &index[..]);
        for (agent, &local) in groups.local().iter().enumerate() {
            prop_assert_eq!(groups.views()[local as usize], index[agent]);
        }
    }

    #[test]
    fn slots_give_a_graph_or_an_error(
        slots in prop::collection::vec(size(), 0..6),
        edges in prop::collection::vec(edge(), 0..6),
    ) {
        if let Ok(graph) = AgentGraph::with_slots(slots, edges) {
            for e in graph.edges() {
                prop_assert!((e.slot_u as usize) < graph.slots(e.u as usize));
                prop_assert!((e.slot_v as usize) < graph.slots(e.v as usize));
            }
        }
    }

    #[test]
    fn sizes_give_a_sheaf_or_an_error(
        graph in graph(),
        d_v in prop::collection::vec(size(), 0..7),
        d_e in prop::collection::vec(size(), 0..9),
        same in (size(), size()),
    ) {
        let _ = Sheaf::uniform(&graph, same.0, same.1);
        let _ = Sheaf::heterogeneous(&graph, &d_v, &d_e);
        let mut fitted = (d_v.clone(), d_e.clone());
        fitted.0.resize(graph.agents(), 2);
        fitted.1.resize(graph.edges().len(), 1);
        if let Ok(sheaf) = Sheaf::heterogeneous(&graph, &fitted.0, &fitted.1)
            && sheaf.stack_len() < 10_000
        {
            let stacks: Vec<f64> = (0..sheaf.stack_len()).map(|k| (k as f64).cos()).collect();
            assert_works(&SheafOp::new(&sheaf, Maps::PerAgent(&stacks)).expect("a stack for every agent"))?;
        }
    }

    #[test]
    fn packed_maps_give_an_operator_or_an_error(
        (graph, grouped) in (graph(), graph()),
        (d_v, d_e, rank) in (1usize..5, 1usize..4, size()),
        lens in (0usize..60, 0usize..200),
        index in prop::collection::vec(0u32..3, 0..7),
        exact in any::<bool>(),
    ) {
        let sheaf = Sheaf::uniform(&graph, d_v, d_e).expect("sizes are positive");
        // The views may have been grouped for another sheaf.
        let other = Sheaf::uniform(&grouped, d_v, d_e).expect("sizes are positive");
        let (mut lens, mut index, mut groups) = (lens, index, ViewGroups::default());
        if let (true, Ok(shape)) = (exact && rank < 6, PackedLowRank::<f64>::shape(&sheaf, rank)) {
            index.resize(sheaf.agents(), 1);
            lens = (shape.base_len(), 3 * shape.view_len());
        }
        groups.set(&other, &index);
        let numbers = |n: usize| (0..n).map(|k| (k as f64).cos()).collect::<Vec<f64>>();
        let (base, views) = (numbers(lens.0), numbers(lens.1));
        let maps = Maps::Packed(PackedLowRank { base: &base, views: &views, rank, precision: Precision::Full, agents: std::slice::from_ref(&groups) });
        if let Ok(op) = SheafOp::new(&sheaf, maps) {
            // Slots that the other sheaf leaves free are left out, so that only the calls themselves are tested.
            let (mut y, mut s) = (vec![0.0; sheaf.row_len()], vec![0.0; sheaf.row_len()]);
            let (z, mut g) = (numbers(sheaf.state_len()), numbers(sheaf.state_len()));
            op.laplacian(&z, &mut g, &mut y, &mut s).expect("fits");
            op.project(&z, &mut y).expect("fits");
            op.lift(&y, &mut g).expect("fits");
            prop_assert!(rank < 6);
        }
    }

    #[test]
    fn maps_give_an_operator_or_an_error(
        graph in graph(),
        (d_v, d_e, rank, bases) in (1usize..5, 1usize..4, 0usize..3, 1usize..4),
        lens in prop::collection::vec(prop_oneof![0usize..200, Just(0)], 4),
        index in prop::collection::vec(0u32..4, 0..7),
        exact in any::<bool>(),
    ) {
        let sheaf = Sheaf::uniform(&graph, d_v, d_e).expect("sizes are positive");
        // Half of the cases have arrays of the right length for two views, the other half any length.
        let (mut lens, mut index) = (lens, index);
        if let (true, Some(u)) = (exact, sheaf.as_uniform()) {
            index.resize(sheaf.agents(), 1);
            index.iter_mut().for_each(|v| *v %= 2);
            let bases = if bases == 1 { 1 } else { u.slots };
            let per_view = 2 * u.slots * rank;
            lens = vec![2 * d_v * u.ld, bases * d_e * d_v, per_view * d_e, per_view * d_v];
        }
        let all: Vec<Vec<f64>> = lens.iter().map(|&n| (0..n).map(|k| (k as f64).cos()).collect()).collect();
        let low = LowRank {
            base: &all[1], a: &all[2], b: &all[3], gate: None, rank, scale: 0.5, index: &index,
        };
        let kinds = [
            Maps::Stack(&all[0]),
            Maps::Table { stacks: &all[0], index: &index, order: &[], tiles: &[] },
            Maps::PerAgent(&all[0]),
            Maps::LowRank(low),
        ];
        let mut stacks = all[0].clone();
        if compose_low_rank(&sheaf, &low, &mut stacks).is_ok() {
            let maps = Maps::Table { stacks: &stacks, index: &index, order: &[], tiles: &[] };
            if let Ok(op) = SheafOp::new(&sheaf, maps) {
                assert_works(&op)?;
            }
        }
        for maps in kinds {
            if let Ok(op) = SheafOp::new(&sheaf, maps) {
                assert_works(&op)?;
            }
        }
    }
}
