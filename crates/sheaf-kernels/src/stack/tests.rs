//! Every kernel against its portable version, at every shape that selects another path.

use super::*;
use crate::simd::Level;
use crate::tiles::{tile_len, tile_stacks};
use sheaf_testkit::TestRng;

const VIEWS: usize = 3;

fn normals(n: usize, stream: &mut TestRng) -> Vec<f32> {
    (0..n).map(|_| stream.normal() as f32).collect()
}

/// Relative to the largest value: sums run in another order, and multiply-adds may be fused.
fn assert_near(name: &str, got: &[f32], want: &[f32]) {
    let largest = want.iter().fold(1.0f32, |m, w| m.max(w.abs()));
    for (k, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= 4e-6 * largest, "{name}[{k}]: {g} against {w}");
    }
}

/// The rows in use; a kernel's output for padding is never used.
fn used(table: &Table<'_>, rows: &[f32]) -> Vec<f32> {
    rows.chunks_exact(table.ld).flat_map(|one| &one[..table.rows]).copied().collect()
}

#[test]
fn projections_lifts_and_outer_products_are_those_of_the_portable_twin() {
    let stream = &mut TestRng::new(1);
    let shapes =
        [(10, 48, 40), (10, 48, 45), (10, 16, 9), (10, 32, 32), (10, 64, 50), (1, 16, 1), (7, 32, 20)];
    for (d_v, ld, rows) in shapes.into_iter().chain([(16, 64, 64), (3, 48, 33), (17, 32, 20), (4, 80, 72)]) {
        for agents in [1, 6, BAND + 9] {
            let index: Vec<u32> = (0..agents).map(|_| stream.below(VIEWS) as u32).collect();
            let (mut order, mut counts) = (vec![0; agents], [0; VIEWS + 1]);
            order_by_view(&index, VIEWS, &mut counts, &mut order);
            let stacks = normals(VIEWS * d_v * ld, stream);
            let (z, s, terms) = (normals(3 * agents * d_v, stream), normals(3 * agents * ld, stream), 3);
            for order in [&order[..], &[]] {
                let table = Table { d_v, ld, rows, index: &index, order };
                let name = format!("{d_v} columns, {rows} of {ld} rows, {agents} agents");
                let (mut got, mut want) = (vec![f32::NAN; agents * ld], vec![f32::NAN; agents * ld]);
                f32::project_table(table, 0..agents, 0, &stacks, &z, &mut got);
                project_any_at(Level::Portable, table, &stacks, &z, &mut want);
                assert_near(&format!("project, {name}"), &used(&table, &got), &used(&table, &want));
                let (mut got, mut want) = (vec![f32::NAN; agents * d_v], vec![f32::NAN; agents * d_v]);
                f32::lift_table(table, &stacks, &s, &mut got);
                lift_any_at(Level::Portable, table, &stacks, &s, &mut want);
                assert_near(&format!("lift, {name}"), &got, &want);
                let (mut got, mut want) = (stacks.clone(), stacks.clone());
                f32::outers_table(table, &mut got, 0.7, terms, &s, &z);
                outers_any_at(Level::Portable, table, &mut want, 0.7, terms, &s, &z);
                assert_near(&format!("outers, {name}"), &used(&table, &got), &used(&table, &want));
            }
        }
    }
}

/// A grid of agents that meet their eight neighbours, in slots of five rows: slot k meets slot 7 − k.
fn grid(height: usize, width: usize) -> (SlotRows, Partners) {
    let sizes = SlotRows { slots: 8, d_e: 5, ld: 48 };
    let partner = |k: usize| {
        let (agent, slot) = (k / 8, k % 8);
        // The eight places around the middle of a 3 × 3 square, row by row.
        let place = slot + usize::from(slot >= 4);
        let (row, column) = (agent / width + place / 3, agent % width + place % 3);
        let inside = (1..=height).contains(&row) && (1..=width).contains(&column);
        let (other, meets) = if inside { ((row - 1) * width + column - 1, 7 - slot) } else { (agent, slot) };
        (other * sizes.ld + meets * sizes.d_e) as u32
    };
    (sizes, Partners::new((0..8 * height * width).map(partner).collect(), sizes))
}

#[test]
fn a_band_by_tiles_is_the_band_by_plain_steps() {
    let stream = &mut TestRng::new(2);
    let (slots, partners) = grid(9, 17);
    let (agents, d_v, ld) = (9 * 17, 10, slots.ld);
    let index: Vec<u32> = (0..agents).map(|_| stream.below(VIEWS) as u32).collect();
    let (mut order, mut counts) = (vec![0; agents], [0; VIEWS + 1]);
    order_by_view(&index, VIEWS, &mut counts, &mut order);
    let stacks = normals(VIEWS * d_v * ld, stream);
    let mut tiles = vec![0.0; VIEWS * tile_len(d_v, slots)];
    tile_stacks(&stacks, &mut tiles);
    assert!(!tiles.is_empty(), "the shape that has tiles");
    let (p, y) = (normals(agents * d_v, stream), normals(agents * ld, stream));
    for (range, keep) in [(0..agents, true), (0..agents, false), (0..BAND, true), (BAND..agents, false)] {
        let run = |lift: fn(LiftBand<'_, f32>), tiles: &[f32]| {
            let (mut s, mut q) = (vec![f32::NAN; agents * ld], vec![0.0; agents * d_v]);
            let table = Table { d_v, ld, rows: 40, index: &index, order: &order };
            lift(LiftBand {
                table,
                slots,
                partners: &partners,
                stacks: &stacks,
                tiles,
                agents: range.clone(),
                base: 0,
                gamma: 1.3,
                shift: 0.4,
                p: &p,
                y: &y,
                s: &mut s,
                keep,
                q: &mut q,
                soon: [&[], &[]],
            });
            let kept = if keep { used(&table, &s[range.start * ld..range.end * ld]) } else { Vec::new() };
            (q, kept)
        };
        let (plain, by_tiles) = (run(lift_band_plain, &[]), run(f32::lift_band, &tiles));
        assert_near(&format!("agents {range:?}"), &by_tiles.0, &plain.0);
        assert_eq!(by_tiles.1, plain.1, "differences of agents {range:?}");
    }
}
