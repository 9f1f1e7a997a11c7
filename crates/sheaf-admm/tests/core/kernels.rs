//! The f32 kernels, hand-written for some shapes, against the same products in f64.

use sheaf_admm::linalg::stack::order_by_view;
use sheaf_admm::linalg::tiles::tile_stacks;
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_testkit::{TestRng, assert_close_max};

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

/// All products of a sheaf with these maps, one after the other: P z, DᵀD P z, L z, Pᵀ s, F z, Fᵀ r, and the gradient of
/// the maps from two pairs.
fn products<T: sheaf_admm::Real>(sheaf: &Sheaf, maps: Maps<'_, T>, z: &[T], s: &[T], r: &[T]) -> Vec<Vec<T>> {
    let op = SheafOp::new(sheaf, maps).expect("the maps fit");
    let zeros = |n: usize| vec![T::ZERO; n];
    let (n, m, e) = (sheaf.state_len(), sheaf.row_len(), sheaf.edge_len());
    let (mut projected, mut exchanged, mut laplacian) = (zeros(m), zeros(m), zeros(n));
    op.laplacian(z, &mut laplacian, &mut projected, &mut exchanged);
    op.project(z, &mut projected);
    let (mut alone, mut lifted, mut residual, mut back, mut rows) =
        (zeros(m), zeros(n), zeros(e), zeros(n), zeros(m));
    op.exchange(&projected, &mut alone);
    assert!(alone == exchanged, "the fused product leaves the same residuals as the exchange alone");
    op.lift(s, &mut lifted);
    op.coboundary(z, &mut residual, &mut rows);
    op.coboundary_t(r, &mut back, &mut rows);
    let stacks = match maps {
        Maps::Shared(stack) => stack.len(),
        Maps::Table { stacks, .. } => stacks.len(),
        Maps::PerAgent(stacks) => stacks.len(),
        Maps::LowRank(_) | Maps::Packed(_) => 0,
    };
    let mut d_stacks = vec![T::ONE; stacks];
    let mut d_maps = match maps {
        Maps::Shared(_) => MapsGrad::Shared(&mut d_stacks),
        Maps::Table { .. } => MapsGrad::Table(&mut d_stacks),
        _ => MapsGrad::PerAgent(&mut d_stacks),
    };
    let pairs = ([exchanged.clone(), s.to_vec()].concat(), [z.to_vec(), lifted.clone()].concat());
    op.add_pair(&mut d_maps, T::from_f64(0.7), &pairs.0, &pairs.1);
    vec![projected, exchanged, laplacian, lifted, residual, back, d_stacks]
}

#[test]
fn f32_products_of_every_shape_are_those_of_f64() {
    let graphs = [
        AgentGraph::grid(3, 4, Connectivity::Eight),
        AgentGraph::grid(5, 2, Connectivity::Four),
        AgentGraph::sudoku(),
        AgentGraph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]).expect("a ring"),
    ];
    for graph in &graphs {
        for (d_v, d_e) in
            [(1, 1), (3, 2), (6, 3), (10, 5), (7, 5), (16, 5), (17, 6), (24, 8), (12, 9), (33, 12)]
        {
            let sheaf = Sheaf::uniform(graph, d_v, d_e).expect("sizes are positive");
            let u = sheaf.as_uniform().expect("all agents are alike");
            let mut rng = TestRng::new((100 * d_v + d_e) as u64);
            let (z, r) = (rng.normals(sheaf.state_len()), rng.normals(sheaf.edge_len()));
            let mut s = rng.normals(sheaf.row_len());
            // Rows beyond the slots never carry residuals.
            for agent in s.chunks_exact_mut(u.ld) {
                agent[u.slots * u.d_e..].fill(0.0);
            }
            let index: Vec<u32> = (0..sheaf.agents()).map(|_| rng.below(3) as u32).collect();
            let (mut table, mut own) = (rng.normals(3 * u.d_v * u.ld), rng.normals(sheaf.stack_len()));
            for column in table.chunks_exact_mut(u.ld).chain(own.chunks_exact_mut(u.ld)) {
                column[u.slots * u.d_e..].fill(0.0);
            }
            let inputs = (narrow(&table), narrow(&own), narrow(&z), narrow(&s), narrow(&r));
            let (table32, own32, z32, s32, r32) = &inputs;
            let one = u.d_v * u.ld;
            let (mut order, mut counts) = (vec![0; index.len()], [0; 4]);
            order_by_view(&index, 3, &mut counts, &mut order);
            let mut tiles32 = vec![0.0; 3 * sheaf.tile_len()];
            tile_stacks(table32, &mut tiles32);
            let kinds: [(&str, Maps<'_, f64>, Maps<'_, f32>); 5] = [
                ("shared", Maps::Shared(&table[..one]), Maps::Shared(&table32[..one])),
                (
                    "table",
                    Maps::Table { stacks: &table, index: &index, order: &[], tiles: &[] },
                    Maps::Table { stacks: table32, index: &index, order: &[], tiles: &[] },
                ),
                (
                    "table by view",
                    Maps::Table { stacks: &table, index: &index, order: &[], tiles: &[] },
                    Maps::Table { stacks: table32, index: &index, order: &order, tiles: &[] },
                ),
                (
                    "table by tiles",
                    Maps::Table { stacks: &table, index: &index, order: &[], tiles: &[] },
                    Maps::Table { stacks: table32, index: &index, order: &order, tiles: &tiles32 },
                ),
                ("per agent", Maps::PerAgent(&own), Maps::PerAgent(own32)),
            ];
            for (kind, wide, narrow) in kinds {
                let wide = products(&sheaf, wide, &z, &s, &r);
                let narrow = products(&sheaf, narrow, z32, s32, r32);
                for (k, (wide, narrow)) in wide.iter().zip(&narrow).enumerate() {
                    let name =
                        format!("{kind}, {} agents, d_v {d_v}, d_e {d_e}, product {k}", sheaf.agents());
                    assert_close_max(&name, narrow, wide, 3e-6);
                }
            }
        }
    }
}
