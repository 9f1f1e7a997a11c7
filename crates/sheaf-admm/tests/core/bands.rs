//! The Laplacian of sheaves larger than the window of rows that a sweep holds.

use sheaf_admm::sheaf::{AgentGraph, Connectivity, Maps, Sheaf, SheafOp};
use sheaf_admm::{ErrorKind, Real};
use sheaf_kernels::stack::{BAND, order_by_view};
use sheaf_kernels::tiles::tile_stacks;
use sheaf_testkit::{TestRng, assert_close_max};

const VIEWS: usize = 5;

/// L z by bands, its exchanged residuals, and Fᵀ(F z), which does not use bands.
fn both<T: Real>(sheaf: &Sheaf, maps: Maps<'_, T>, z: &[T]) -> (Vec<T>, Vec<T>, Vec<T>) {
    let op = SheafOp::new(sheaf, maps).unwrap();
    let zeros = |n: usize| vec![T::ZERO; n];
    let (n, m) = (sheaf.state_len(), sheaf.row_len());
    let (mut g, mut y, mut s) = (zeros(n), zeros(m), zeros(m));
    op.laplacian(z, &mut g, &mut y, &mut s).unwrap();
    let (mut r, mut back) = (zeros(sheaf.edge_len()), zeros(n));
    op.coboundary(z, &mut r, &mut y).unwrap();
    op.coboundary_t(&r, &mut back, &mut y).unwrap();
    (g, s, back)
}

#[test]
fn a_sweep_by_bands_is_the_laplacian() {
    // Many narrow rows; rows longer than several bands; one row, where every partner is adjacent.
    for (height, width) in [(60, 60), (5, 700), (1, 3000), (9, 9)] {
        for (d_v, d_e) in [(3, 2), (10, 5)] {
            let graph = AgentGraph::grid(height, width, Connectivity::Eight);
            let sheaf = Sheaf::uniform(&graph.unwrap(), d_v, d_e).unwrap();
            let u = sheaf.as_uniform().unwrap();
            let mut rng = TestRng::new((height * width + d_v) as u64);
            let mut stacks = rng.normals(VIEWS * u.d_v * u.ld);
            stacks.chunks_exact_mut(u.ld).for_each(|column| column[u.slots * u.d_e..].fill(0.0));
            let index: Vec<u32> = (0..sheaf.agents()).map(|_| rng.below(VIEWS) as u32).collect();
            let (mut order, mut counts) = (vec![0; index.len()], [0; VIEWS + 1]);
            order_by_view(&index, VIEWS, &mut counts, &mut order);
            let z = rng.normals(sheaf.state_len());
            let name = format!("{height} × {width}, d_v {d_v}");
            let maps = Maps::Table { stacks: &stacks, index: &index, order: &order, tiles: &[] };
            let (g, s, back) = both(&sheaf, maps, &z);
            assert_close_max(&name, &g, &back, 1e-12);

            let narrow = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<f32>>();
            let (stacks32, z32) = (narrow(&stacks), narrow(&z));
            let mut tiles = vec![0.0; VIEWS * sheaf.tile_len()];
            tile_stacks(&stacks32, &mut tiles);
            for tiles in [&tiles[..], &[]] {
                let maps = Maps::Table { stacks: &stacks32, index: &index, order: &order, tiles };
                let (g32, s32, _) = both(&sheaf, maps, &z32);
                assert_close_max(&format!("{name}, f32"), &g32, &g, 1e-5);
                assert_close_max(&format!("{name}, f32, residuals"), &s32, &s, 1e-5);
            }
        }
    }
}

#[test]
fn an_order_that_leaves_its_band_and_tiles_of_another_length_are_refused() {
    let sheaf = Sheaf::uniform(&AgentGraph::grid(20, 20, Connectivity::Eight).unwrap(), 10, 5).unwrap();
    let stacks = vec![0.0f32; 480];
    let index = vec![0; 400];
    let mut order: Vec<u32> = (0..400).collect();
    order.swap(0, BAND);
    let build = |order: &[u32], tiles: &[f32]| {
        SheafOp::new(&sheaf, Maps::Table { stacks: &stacks, index: &index, order, tiles }).map(|_| ())
    };
    let error = build(&order, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfRange);
    assert!(error.to_string().contains("place 0"), "{error}");
    assert_eq!(build(&[], &[0.0; 399]).unwrap_err().kind(), ErrorKind::Shape);
    assert!(build(&[], &[0.0; 400]).is_ok());
}
