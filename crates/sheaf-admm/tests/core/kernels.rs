//! The f32 kernels, hand-written for some shapes, against the same products in f64. Padding holds NaN on all sides: no
//! result may depend on it.

use sheaf_admm::Real;
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Maps, MapsGrad, Sheaf, SheafOp};
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{Agreement, ConsensusGrad, Descent, ZUpdate};
use sheaf_kernels::stack::{BAND, order_by_view};
use sheaf_kernels::tiles::tile_stacks;
use sheaf_testkit::{TestRng, assert_close_max};

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

/// Puts a value into the padding of every column of a stack, or of every agent's rows.
fn pad_with<T: Real>(sheaf: &Sheaf, rows: &mut [T], value: T) {
    let u = sheaf.as_uniform().expect("all agents are alike");
    rows.chunks_exact_mut(u.ld).for_each(|agent| agent[u.slots * u.d_e..].fill(value));
}

/// All products of a sheaf with these maps, one after the other: P z, DᵀD P z, L z, Pᵀ s, F z, Fᵀ r, and the gradient
/// of the maps from two pairs.
fn products<T: Real>(sheaf: &Sheaf, maps: Maps<'_, T>, z: &[T], s: &[T], r: &[T]) -> Vec<Vec<T>> {
    let op = SheafOp::new(sheaf, maps).expect("the maps fit");
    let nan = T::from_f64(f64::NAN);
    let zeros = |n: usize| vec![nan; n];
    let (n, m, e) = (sheaf.state_len(), sheaf.row_len(), sheaf.edge_len());
    let (mut projected, mut exchanged, mut laplacian) = (zeros(m), zeros(m), zeros(n));
    op.laplacian(z, &mut laplacian, &mut projected, &mut exchanged).expect("fits");
    op.project(z, &mut projected).expect("fits");
    let (mut alone, mut lifted, mut residual, mut back, mut rows) =
        (zeros(m), zeros(n), zeros(e), zeros(n), zeros(m));
    op.exchange(&projected, &mut alone).expect("fits");
    for rows in [&mut projected, &mut alone, &mut exchanged] {
        pad_with(sheaf, rows, T::ZERO);
    }
    // With several bands the agents are paired differently, which rounds differently.
    let same = |(a, b): (&T, &T)| a == b || sheaf.agents() > BAND && (*a - *b).abs() < T::from_f64(1e-5);
    assert!(
        alone.iter().zip(&exchanged).all(same),
        "the fused product leaves the same residuals as the exchange alone"
    );
    op.lift(s, &mut lifted).expect("fits");
    op.coboundary(z, &mut residual, &mut rows).expect("fits");
    op.coboundary_t(r, &mut back, &mut rows).expect("fits");
    let stacks = match maps {
        Maps::Stack(stack) => stack.len(),
        Maps::Table { stacks, .. } => stacks.len(),
        Maps::PerAgent(stacks) => stacks.len(),
        Maps::Shared(_) | Maps::LowRank(_) | Maps::Packed(_) => 0,
    };
    let mut d_stacks = vec![T::ONE; stacks];
    let mut d_maps = match maps {
        Maps::Stack(_) => MapsGrad::Stack(&mut d_stacks),
        Maps::Table { .. } => MapsGrad::Table(&mut d_stacks),
        _ => MapsGrad::PerAgent(&mut d_stacks),
    };
    let pairs = ([exchanged.clone(), s.to_vec()].concat(), [z.to_vec(), lifted.clone()].concat());
    op.add_pair(&mut d_maps, T::from_f64(0.7), &pairs.0, &pairs.1).expect("fits");
    pad_with(sheaf, &mut d_stacks, T::ZERO);
    vec![projected, exchanged, laplacian, lifted, residual, back, d_stacks]
}

#[test]
fn f32_products_of_every_shape_are_those_of_f64() {
    let graphs = [
        AgentGraph::grid(3, 4, Connectivity::Eight).expect("small"),
        AgentGraph::grid(5, 2, Connectivity::Four).expect("small"),
        AgentGraph::sudoku(),
        AgentGraph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]).expect("a ring"),
        // More agents than the window of a sweep holds.
        AgentGraph::grid(60, 45, Connectivity::Eight).expect("small"),
    ];
    for graph in &graphs {
        for (d_v, d_e) in
            [(1, 1), (3, 2), (6, 3), (10, 5), (7, 5), (16, 5), (17, 6), (24, 8), (12, 9), (33, 12)]
        {
            if graph.agents() > 1000 && (d_v, d_e) != (10, 5) {
                continue;
            }
            let sheaf = Sheaf::uniform(graph, d_v, d_e).expect("sizes are positive");
            let u = sheaf.as_uniform().expect("all agents are alike");
            let mut rng = TestRng::new((100 * d_v + d_e) as u64);
            let (z, r) = (rng.normals(sheaf.state_len()), rng.normals(sheaf.edge_len()));
            let mut s = rng.normals(sheaf.row_len());
            pad_with(&sheaf, &mut s, f64::NAN);
            let index: Vec<u32> = (0..sheaf.agents()).map(|_| rng.below(3) as u32).collect();
            let (mut table, mut own) = (rng.normals(3 * u.d_v * u.ld), rng.normals(sheaf.stack_len()));
            pad_with(&sheaf, &mut table, f64::NAN);
            pad_with(&sheaf, &mut own, f64::NAN);
            let inputs = (narrow(&table), narrow(&own), narrow(&z), narrow(&s), narrow(&r));
            let (table32, own32, z32, s32, r32) = &inputs;
            let one = u.d_v * u.ld;
            let (mut order, mut counts) = (vec![0; index.len()], [0; 4]);
            order_by_view(&index, 3, &mut counts, &mut order);
            let mut tiles = vec![0.0; 3 * sheaf.tile_len()];
            tile_stacks(table32, &mut tiles);
            let kinds: [(&str, Maps<'_, f64>, Maps<'_, f32>); 5] = [
                ("shared", Maps::Stack(&table[..one]), Maps::Stack(&table32[..one])),
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
                    "table by view, and tiles where the shape has them",
                    Maps::Table { stacks: &table, index: &index, order: &[], tiles: &[] },
                    Maps::Table { stacks: table32, index: &index, order: &order, tiles: &tiles },
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

/// Gradients of w, rho, gamma and the maps of ten steps of descent, on scratch that holds NaN.
fn descent<T: Real>(
    sheaf: &Sheaf,
    maps: Maps<'_, T>,
    agreement: Agreement<T>,
    rho: &[T],
    w: &[T],
    d_z: &[T],
) -> Vec<Vec<T>> {
    let op = SheafOp::new(sheaf, maps).expect("the maps fit");
    let z_update = ZUpdate::Descent(Descent::nesterov(agreement, T::from_f64(0.02), 10));
    let n = w.len();
    let mut scratch = vec![T::from_f64(f64::NAN); z_update.scratch_len(&op)];
    let Maps::Table { stacks, .. } = maps else { panic!("a table") };
    let (mut d_stacks, mut d_w, mut d_z_prev) =
        (vec![T::ZERO; stacks.len()], vec![T::ZERO; n], vec![T::ZERO; n]);
    let (mut d_rho, mut d_gamma, mut d_eta) = (vec![T::ZERO; rho.len()], T::ZERO, T::ZERO);
    let mut d_maps = MapsGrad::Table(&mut d_stacks);
    let mut grad = ConsensusGrad {
        maps: &mut d_maps,
        rho: &mut d_rho,
        gamma: &mut d_gamma,
        eta: &mut d_eta,
        offsets: &mut [],
        edge_weights: &mut [],
    };
    let (rho, d_w_out, d_z_out) = (Penalty::PerAgent(rho), &mut d_w, &mut d_z_prev);
    z_update
        .vjp(&op, &rho, w, w, &[], d_z, d_w_out, d_z_out, &mut [], &mut grad, &mut scratch)
        .expect("the adjoint of descent");
    pad_with(sheaf, &mut d_stacks, T::ZERO);
    vec![d_w, d_rho, vec![d_gamma], vec![d_eta], d_stacks]
}

#[test]
fn gradients_of_descent_on_fused_products_are_those_of_f64() {
    for (height, width) in [(4, 5), (60, 45)] {
        let graph = AgentGraph::grid(height, width, Connectivity::Eight).expect("small");
        let sheaf = Sheaf::uniform(&graph, 10, 5).expect("sizes are positive");
        let (u, mut rng) = (sheaf.as_uniform().expect("a grid"), TestRng::new(11));
        let index: Vec<u32> = (0..sheaf.agents()).map(|_| rng.below(3) as u32).collect();
        let mut table: Vec<f64> = rng.normals(3 * u.d_v * u.ld).iter().map(|f| 0.3 * f).collect();
        pad_with(&sheaf, &mut table, f64::NAN);
        let (w, d_z) = (rng.normals(sheaf.state_len()), rng.normals(sheaf.state_len()));
        let rho = rng.ranges(sheaf.agents(), 0.5, 1.5);
        let (table32, w32, d_z32, rho32) = (narrow(&table), narrow(&w), narrow(&d_z), narrow(&rho));
        let mut tiles = vec![0.0; 3 * sheaf.tile_len()];
        tile_stacks(&table32, &mut tiles);
        assert!(!tiles.is_empty(), "the shape has tiles");
        let wide = Maps::Table { stacks: &table, index: &index, order: &[], tiles: &[] };
        let narrow = Maps::Table { stacks: &table32, index: &index, order: &[], tiles: &tiles };
        for soft in [true, false] {
            let agree = |gamma: f64| if soft { Agreement::Soft { gamma } } else { Agreement::Hard };
            let agree32 = if soft { Agreement::Soft { gamma: 1.5f32 } } else { Agreement::Hard };
            let want = descent(&sheaf, wide, agree(1.5), &rho, &w, &d_z);
            let got = descent(&sheaf, narrow, agree32, &rho32, &w32, &d_z32);
            for (k, (got, want)) in got.iter().zip(&want).enumerate() {
                assert_close_max(&format!("{height}x{width}, soft {soft}, gradient {k}"), got, want, 2e-5);
            }
        }
    }
}
