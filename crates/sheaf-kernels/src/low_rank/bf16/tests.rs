//! The kernels in bf16 against their plain loops, bit for bit, and against the kernels of `f32`.

use super::super::LowRankShape;
use super::*;
use crate::Precision;
use sheaf_testkit::TestRng;

const LD: usize = 208;
const AGENTS: usize = 13;
const VIEWS: usize = 4;

fn numbers(len: usize, stream: &mut TestRng) -> Vec<f32> {
    (0..len).map(|_| stream.normal() as f32).collect()
}

struct Case {
    index: Vec<u32>,
    masks: Vec<u32>,
    order: Vec<u32>,
    base: Vec<f32>,
    a: Vec<f32>,
    b: Vec<f32>,
    words: (Vec<f32>, Vec<f32>),
}

impl Case {
    fn new() -> Self {
        let stream = &mut TestRng::new(8);
        let index = (0..AGENTS as u32).map(|i| i * i % VIEWS as u32).collect();
        let masks = (0..AGENTS).map(|i| [0xff, 0b0111_1100, 0b1, 0, 0b1010_1010][i % 5]).collect();
        let base = numbers(DE * DV, stream);
        let (a, b) = (numbers(VIEWS * M * DE, stream), numbers(VIEWS * M * DV, stream));
        let (mut packed_base, mut views) = (vec![0.0; BASE], vec![0.0; VIEWS * VIEW]);
        pack_base(&base, &mut packed_base);
        for ((a, b), view) in a.chunks(M * DE).zip(b.chunks(M * DV)).zip(views.chunks_mut(VIEW)) {
            pack_view(a, b, 0.125, view);
        }
        let order = (0..AGENTS as u32).rev().collect();
        Self { index, masks, order, base, a, b, words: (packed_base, views) }
    }

    fn agents(&self) -> Grouped<'_> {
        Grouped { index: &self.index, masks: &self.masks, order: &self.order }
    }

    fn maps(&self) -> Maps<'_> {
        Maps { agents: self.agents(), ld: LD, base: &self.words.0, views: &self.words.1 }
    }

    /// y, g, s, g after an exchange, and a slot.
    fn results(&self, limit: Level) -> Vec<Vec<f32>> {
        let stream = &mut TestRng::new(9);
        let (z, mut s) = (numbers(AGENTS * DV, stream), numbers(AGENTS * LD, stream));
        let partners: Vec<u32> = (0..AGENTS * SLOTS)
            .map(|k| {
                let (i, slot) = (k / SLOTS, k % SLOTS);
                (if self.masks[i] >> slot & 1 == 1 { (i + 3) % AGENTS * LD } else { i * LD } + slot * DE)
                    as u32
            })
            .collect();
        let (mut y, mut g) = (vec![9.0; AGENTS * LD], vec![9.0; AGENTS * DV]);
        project(limit, self.maps(), &z, &mut y);
        lift(limit, self.maps(), &s, &mut g);
        let (mut g_met, mut f) = (g.clone(), vec![9.0; DE * DV]);
        exchange_lift(limit, self.maps(), &partners, &y, &mut s, &mut g_met);
        slot(limit, &self.words.0, &self.words.1[VIEW..2 * VIEW], 5, &mut f);
        vec![y, g, s, g_met, f]
    }
}

#[test]
fn vector_instructions_and_plain_loops_give_the_same_bits() {
    let case = Case::new();
    let want = case.results(Level::Plain);
    for level in [Level::Portable, Level::Avx2, Level::Avx512] {
        for (k, (got, want)) in case.results(level).iter().zip(&want).enumerate() {
            let same = got.iter().zip(want).all(|(g, w)| g.to_bits() == w.to_bits());
            assert!(same, "result {k} at {level:?}");
        }
    }
}

/// Blocks of pairs of states: all of the first block, some of the second, none of the third; more pairs than are rounded
/// together.
fn tape(numbers: &mut [f32]) -> PairTape<'_, f32> {
    const STATES: usize = AGENTS * DV;
    let block = numbers.len() / 3;
    for (numbers, span) in numbers.chunks_exact_mut(block).zip([[0.0, 9.0], [2.0, 9.0], [0.0, 0.0]]) {
        numbers[block - 2..].copy_from_slice(&span);
    }
    PairTape { numbers, block, states: STATES, most: 9, p: 1, q: 1 + 9 * STATES, span: block - 2 }
}

#[test]
fn sums_over_pairs_have_the_same_bits_at_every_level_and_agree_with_f64() {
    let stream = &mut TestRng::new(11);
    let mut tape_numbers = numbers(3 * (2 * 9 * AGENTS * DV + 3), stream);
    let tape = tape(&mut tape_numbers);
    let ends = [(3, 5), (4, 4), (12, 0), (1, 3), (0, 12)];
    let before = numbers(DV * DV, stream);
    let at = |limit: Level| {
        let mut out = before.clone();
        pair_sums(limit, tape, &ends, &mut out);
        out
    };
    let got = at(Level::Plain);
    for level in [Level::Portable, Level::Avx2, Level::Avx512] {
        assert!(at(level).iter().zip(&got).all(|(g, w)| g.to_bits() == w.to_bits()), "{level:?}");
    }
    let mut want: Vec<f64> = before.iter().map(|&x| f64::from(x)).collect();
    for (j, i) in ends {
        for (block, span) in [0..9, 2..9].into_iter().enumerate() {
            for t in span {
                let of = |from: usize, agent: u32, l: usize| {
                    let at = block * tape.block + from + t * tape.states + agent as usize * DV;
                    f64::from(tape.numbers[at + l])
                };
                for (k, want) in want.iter_mut().enumerate() {
                    let (r, l) = (k / DV, k % DV);
                    *want += of(tape.p, j, r) * of(tape.q, i, l) + of(tape.q, j, r) * of(tape.p, i, l);
                }
            }
        }
    }
    let norm = |of: &mut dyn Iterator<Item = f64>| of.map(|x| x * x).sum::<f64>().sqrt();
    let off = norm(&mut got.iter().zip(&want).map(|(g, w)| f64::from(*g) - w));
    let relative = off / norm(&mut want.iter().copied());
    assert!(1e-5 < relative && relative < 6e-3, "{relative}");
}

/// The same maps with unrounded operands: every operand is off by at most 2⁻⁹ of itself, some of them twice.
#[test]
fn they_agree_with_f32_up_to_the_rounding_of_operands() {
    let (case, stream) = (Case::new(), &mut TestRng::new(10));
    let shape =
        LowRankShape { d_v: DV, d_e: DE, slots: SLOTS, rank: RANK, ld: LD, precision: Precision::Full };
    let (z, mut s) = (numbers(AGENTS * DV, stream), numbers(AGENTS * LD, stream));
    for (row, mask) in s.chunks_mut(LD).zip(&case.masks) {
        let unused =
            row.chunks_mut(DE).enumerate().filter(|(slot, _)| *slot >= SLOTS || mask >> slot & 1 == 0);
        unused.for_each(|(_, row)| row.fill(0.0));
    }
    let (base, views) = full(&case);
    let (mut y, mut g) = (vec![0.0; AGENTS * LD], vec![0.0; AGENTS * DV]);
    let (mut want_y, mut want_g) = (y.clone(), g.clone());
    project(Level::Avx512, case.maps(), &z, &mut y);
    lift(Level::Avx512, case.maps(), &s, &mut g);
    super::super::project(shape, case.agents(), &base, &views, &z, &mut want_y);
    super::super::lift(shape, case.agents(), &base, &views, &s, &mut want_g);
    for (got, want) in [(&y, &want_y), (&g, &want_g)] {
        let norm = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
        let off: Vec<f32> = got.iter().zip(want).map(|(g, w)| g - w).collect();
        let relative = norm(&off) / norm(want);
        assert!(1e-5 < relative && relative < 6e-3, "{relative}");
    }
}

/// Base and views as the kernels of `f32` read them.
fn full(case: &Case) -> (Vec<f32>, Vec<f32>) {
    let transposed = |m: &[f32], rows: usize, cols: usize| -> Vec<f32> {
        (0..rows * cols).map(|k| m[k % rows * cols + k / rows]).collect()
    };
    let base = [case.base.clone(), transposed(&case.base, DE, DV)].concat();
    let mut views = Vec::new();
    for (a, b) in case.a.chunks(M * DE).zip(case.b.chunks(M * DV)) {
        let a: Vec<f32> = a.iter().map(|a| 0.125 * a).collect();
        let b_of = |j: usize, m: usize| b[(m / RANK * DV + j) * RANK + m % RANK];
        views.extend((0..DV * M).map(|k| b_of(k / M, k % M)));
        a.chunks(DE * RANK).for_each(|a| views.extend(transposed(a, DE, RANK)));
        views.extend(&a);
        views.extend((0..DV * M).map(|k| b_of(k % DV, k / DV)));
    }
    (base, views)
}

#[test]
fn an_unpacked_view_holds_the_rounded_factors() {
    let case = Case::new();
    let (mut b, mut a_t) = (vec![0.0; M * DV], vec![0.0; M * DE]);
    unpack_view(&case.words.1[..VIEW], &mut b, &mut a_t);
    let (_, views) = full(&case);
    let near =
        |got: &[f32], want: &[f32]| got.iter().zip(want).all(|(g, w)| (g - w).abs() <= w.abs() / 256.0);
    assert!(near(&b, &views[..M * DV]), "B");
    assert!(near(&a_t, &views[M * (DV + DE)..][..M * DE]), "the transposed A");
}
