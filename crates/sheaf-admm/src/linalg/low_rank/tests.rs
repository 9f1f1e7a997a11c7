//! The kernels of the published sizes against the plain loops.

use super::*;
use crate::linalg::simd::Level;
use crate::rng::Stream;

const SHAPE: LowRankShape = LowRankShape { d_v: 32, d_e: 24, slots: 8, rank: 8, ld: 192 };

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

fn draw(len: usize, stream: &mut Stream) -> Vec<f64> {
    (0..len).map(|_| stream.normal()).collect()
}

/// y, g, dF, and g of exchanged y, of random maps at a level, or by the plain loops.
fn results<T: Real>(level: Option<Level>, pad: usize) -> Vec<f64> {
    let shape = LowRankShape { ld: SHAPE.ld + pad, ..SHAPE };
    let (index, masks, order) = agents();
    let agents = Grouped { index: &index, masks: &masks, order: &order };
    let (n, rows, terms) = (index.len() * shape.d_v, index.len() * shape.ld, 3);
    let stream = &mut Stream::new(5, "low-rank test", 0, 0);
    let mut of = |len: usize| draw(len, stream).into_iter().map(T::from_f64).collect::<Vec<T>>();
    let (base, views) = (of(shape.base_len()), of(6 * shape.view_len()));
    let (z, mut s) = (of(terms * n), of(terms * rows));
    for (k, s) in s.chunks_exact_mut(shape.ld).enumerate() {
        // As the exchange leaves them: slots without an edge and padding are 0.
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
