//! The kernels of the published sizes against the plain loops.

use super::*;
use crate::simd::Level;
use sheaf_testkit::TestRng;

const SHAPE: LowRankShape =
    LowRankShape { d_v: 32, d_e: 24, slots: 8, rank: 8, ld: 192, precision: Precision::Full };

/// 37 agents: runs of one, two, three and four with one view, others alone, all kinds of masks.
fn agents() -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    const MASKS: [u32; 6] = [0xff, 0b0111_1100, 0b1100_0111, 0b1_1100, 0, 0b10];
    let (mut index, mut masks) = (Vec::new(), Vec::new());
    for (kind, mask) in MASKS.into_iter().enumerate() {
        index.extend(std::iter::repeat_n(1, 4 + kind % 4));
        masks.extend(std::iter::repeat_n(mask, 4 + kind % 4));
    }
    index.extend(0..6);
    masks.extend(MASKS);
    let mut order: Vec<u32> = (0..index.len() as u32).collect();
    order.sort_by_key(|&a| (index[a as usize], masks[a as usize]));
    (index, masks, order)
}

fn draw(len: usize, stream: &mut TestRng) -> Vec<f64> {
    (0..len).map(|_| stream.normal()).collect()
}

/// y, g, dF, and g of exchanged y, of random maps at a level, or by the plain loops.
fn results<T: Real>(level: Option<Level>, pad: usize) -> Vec<f64> {
    let shape = LowRankShape { ld: SHAPE.ld + pad, ..SHAPE };
    let (index, masks, order) = agents();
    let agents = Grouped { index: &index, masks: &masks, order: &order };
    let (n, rows, terms) = (index.len() * shape.d_v, index.len() * shape.ld, 3);
    let stream = &mut TestRng::new(5);
    let mut of = |len: usize| draw(len, stream).into_iter().map(T::from_f64).collect::<Vec<T>>();
    let (base, views) = (of(shape.base_len()), of(6 * shape.view_len()));
    let (z, mut s) = (of(terms * n), of(terms * rows));
    for (k, s) in s.chunks_exact_mut(shape.ld).enumerate() {
        // As after an exchange: slots without an edge and padding are 0.
        for (slot, s) in s.chunks_mut(shape.d_e).enumerate() {
            if slot >= 8 || masks[k % index.len()] >> slot & 1 == 0 {
                s.fill(T::ZERO);
            }
        }
    }
    let (mut y, mut g) = (of(rows), of(n));
    // Any rows can meet; a slot without an edge meets itself.
    let partner = |i: usize, slot: usize| match masks[i] >> slot & 1 {
        1 => ((i + 5) % index.len()) * shape.ld + (7 - slot) * shape.d_e,
        _ => i * shape.ld + slot * shape.d_e,
    };
    let partners: Vec<u32> = (0..index.len() * 8).map(|k| partner(k / 8, k % 8) as u32).collect();
    let (mut met, mut met_g) = (of(rows), of(n));
    let mut d = of(6 * shape.d_v * shape.ld);
    let scale = T::from_f64(0.7);
    match level {
        Some(level) => {
            project_at(level, shape, agents, &base, &views, &z[..n], &mut y);
            lift_at(level, shape, agents, &base, &views, &s[..rows], &mut g);
            outers_at(level, shape, agents, &mut d, scale, terms, &s, &z);
            exchange_lift_at(level, shape, agents, &partners, &base, &views, &y, &mut met, &mut met_g);
        }
        None => {
            project_plain::<T, false>(shape, agents, &base, &views, &z[..n], &mut y);
            lift_plain::<T, false>(shape, agents, &base, &views, &s[..rows], &mut g);
            outers_plain::<T, false>(shape, agents, &mut d, scale, terms, &s, &z);
            let slots = SlotRows { slots: 8, d_e: shape.d_e, ld: shape.ld };
            partners_body::<T, false>(slots, &partners, &y, &mut met);
            lift_plain::<T, false>(shape, agents, &base, &views, &met, &mut met_g);
        }
    }
    [y, g, d, met, met_g].concat().into_iter().map(T::to_f64).collect()
}

fn compare<T: Real>(tolerance: f64) {
    for pad in [0, 16] {
        let plain = results::<T>(None, pad);
        let largest = plain.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        for level in [Level::Portable, Level::Avx2, Level::Avx512] {
            for (k, (a, b)) in results::<T>(Some(level), pad).iter().zip(&plain).enumerate() {
                assert!((a - b).abs() <= tolerance * largest, "{level:?}, number {k}: {a} against {b}");
            }
        }
    }
}

#[test]
fn the_kernels_of_the_published_sizes_agree_with_the_plain_loops_at_every_level() {
    compare::<f32>(2e-6);
    compare::<f64>(1e-14);
}

#[test]
fn runs_are_of_one_view_and_one_mask_and_cover_every_agent_once() {
    let (index, masks, order) = agents();
    let agents = Grouped { index: &index, masks: &masks, order: &order };
    for most in [1, 4, 37] {
        let (mut rest, mut seen) = (agents.order, Vec::new());
        while let Some((view, mask, run)) = agents.take_run(most, &mut rest) {
            assert!(!run.is_empty() && run.len() <= most);
            assert!(run.iter().all(|&a| index[a as usize] == view as u32 && masks[a as usize] == mask));
            seen.extend_from_slice(run);
        }
        assert_eq!(seen, order);
    }
}

/// dF of some pairs at a level, or by the plain products of their residuals.
fn of_pairs<T: Real>(level: Option<Level>) -> Vec<f64> {
    let (index, masks, order) = grid();
    let agents = Grouped { index: &index, masks: &masks, order: &order };
    let (count, shape) = (index.len(), SHAPE);
    let (n, rows) = (count * shape.d_v, count * shape.ld);
    let partners: Vec<u32> = (0..count * 8)
        .map(|k| match neighbour(k / 8, k % 8) {
            Some(j) => (j * shape.ld + (k % 8 + 4) % 8 * shape.d_e) as u32,
            None => (k / 8 * shape.ld + k % 8 * shape.d_e) as u32,
        })
        .collect();
    let stream = &mut TestRng::new(6);
    let mut of = |len: usize| draw(len, stream).into_iter().map(T::from_f64).collect::<Vec<T>>();
    let (base, views) = (of(shape.base_len()), of(4 * shape.view_len()));
    let mut d = of(4 * shape.d_v * shape.ld);
    // Three pairs in a block; the second block leaves the first out, the last has none.
    let (block, spans) = (6 * n + 5, [[0.0, 3.0], [1.0, 3.0], [0.0, 0.0]]);
    let mut numbers = of(3 * block);
    for (block, span) in numbers.chunks_exact_mut(block).zip(spans) {
        block[6 * n + 1..6 * n + 3].copy_from_slice(&span.map(T::from_f64));
    }
    let (span, scale) = (6 * n + 1, T::from_f64(0.6));
    let tape = PairTape { numbers: &numbers, block, states: n, most: 3, p: 0, q: 3 * n, span };
    if let Some(level) = level {
        pairs_at(level, shape, agents, &index, &partners, &base, &views, tape, scale, &mut d);
        return d.into_iter().map(T::to_f64).collect();
    }
    let (mut y, mut e) = (vec![T::ZERO; rows], vec![T::ZERO; rows]);
    for (numbers, span) in numbers.chunks_exact(block).zip(spans) {
        for t in span[0] as usize..span[1] as usize {
            let (p, q) = (&numbers[t * n..][..n], &numbers[(3 + t) * n..][..n]);
            for (of, with) in [(p, q), (q, p)] {
                project_plain::<T, false>(shape, agents, &base, &views, of, &mut y);
                let slots = SlotRows { slots: 8, d_e: shape.d_e, ld: shape.ld };
                partners_body::<T, false>(slots, &partners, &y, &mut e);
                outers_plain::<T, false>(shape, agents, &mut d, scale, 1, &e, with);
            }
        }
    }
    d.into_iter().map(T::to_f64).collect()
}

/// The agent next to `agent` on a grid of four by five, in a direction counted as slots are.
fn neighbour(agent: usize, slot: usize) -> Option<usize> {
    const WAYS: [(isize, isize); 8] = [(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)];
    let (row, column) = ((agent / 5) as isize + WAYS[slot].0, (agent % 5) as isize + WAYS[slot].1);
    ((0..4).contains(&row) && (0..5).contains(&column)).then(|| (row * 5 + column) as usize)
}

/// Index, masks and order of that grid: one view for most agents, three for others.
fn grid() -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let index: Vec<u32> =
        (0..20).map(|a| [6, 8, 13].iter().position(|&o| o == a).map_or(0, |k| k as u32 + 1)).collect();
    let slots = |a: usize| (0..8).filter(move |&s| neighbour(a, s).is_some());
    let masks: Vec<u32> = (0..20).map(|a| slots(a).fold(0, |mask, slot| mask | 1 << slot)).collect();
    let mut order: Vec<u32> = (0..20).collect();
    order.sort_by_key(|&a| (index[a as usize], masks[a as usize]));
    (index, masks, order)
}

#[test]
fn pairs_of_states_give_what_the_outer_products_of_their_residuals_give() {
    fn compare<T: Real>(tolerance: f64) {
        let plain = of_pairs::<T>(None);
        let largest = plain.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        for level in [Level::Portable, Level::Avx2, Level::Avx512] {
            for (k, (a, b)) in of_pairs::<T>(Some(level)).iter().zip(&plain).enumerate() {
                assert!((a - b).abs() <= tolerance * largest, "{level:?}, number {k}: {a} against {b}");
            }
        }
    }
    compare::<f32>(5e-6);
    compare::<f64>(1e-14);
}
