//! The kernel against its twin, bit for bit, and the twin against its rules.

use super::super::aligned::AlignedVec;
use super::super::gemm::{Mat, Product, gemm_at, gemm_in, pack_bf16};
use super::super::simd::Level;
use super::twin::{round, tiles};
use super::{DEPTH, fills_tiles, has_instructions, parts};
use crate::Precision;
use sheaf_testkit::TestRng;

/// Whole and ragged rows, columns and pairs; one part of the inner dimension and several.
const SHAPES: [(usize, usize, usize); 17] = [
    (1, 1, 1),
    (2, 3, 5),
    (7, 2, 16),
    (12, 9, 17),
    (36, 9, 128),
    (9, 288, 48),
    (27, 320, 96),
    (27, 321, 96),
    (10, 31, 64),
    (6, 33, 61),
    (5, 1300, 130),
    (241, 27, 40),
    (513, 27, 40),
    (500, 65, 33),
    (13, 700, 3),
    (1, 40, 200),
    (200, 40, 1),
];

fn product(
    limit: Level,
    (m, k, n): (usize, usize, usize),
    case: usize,
    (a, b, before): (&[f32], &[f32], &[f32]),
) -> Vec<f32> {
    let (a, b, alpha) = operands((m, k, n), case, a, b);
    let mut out = before.to_vec();
    gemm_at((limit, Precision::Bf16), &mut out, a, b, alpha, [0.0, 1.0][case >> 2 & 1]);
    out
}

/// The same by one of the kernels or twins.
fn with(
    how: fn(Product<'_, f32>),
    (m, k, n): (usize, usize, usize),
    case: usize,
    (a, b, before): (&[f32], &[f32], &[f32]),
) -> Vec<f32> {
    let (a, b, alpha) = operands((m, k, n), case, a, b);
    let mut out = before.to_vec();
    how(Product { out: &mut out, stride: n, a, b, alpha, add: case & 4 > 0 });
    out
}

/// The operands of a case, as they are or transposed, and the factor.
fn operands<'a>(
    (m, k, n): (usize, usize, usize),
    case: usize,
    a: &'a [f32],
    b: &'a [f32],
) -> (Mat<'a, f32>, Mat<'a, f32>, f32) {
    let a = if case & 1 > 0 { Mat::new(a, k, m).t() } else { Mat::new(a, m, k) };
    let b = if case & 2 > 0 { Mat::new(b, n, k).t() } else { Mat::new(b, k, n) };
    (a, b, [1.0, -0.7][case >> 3])
}

fn same_bits(got: &[f32], want: &[f32], what: &str) {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let same = g.to_bits() == w.to_bits() || g.is_nan() && w.is_nan();
        assert!(same, "{what}, number {i}: {g:e} {w:e}");
    }
}

#[test]
fn the_kernel_and_its_twin_give_the_same_bits() {
    let stream = &mut TestRng::new(3);
    for (m, k, n) in SHAPES {
        let mut numbers = |len: usize| (0..len).map(|_| stream.normal() as f32).collect::<Vec<_>>();
        let (a, b, before) = (numbers(m * k), numbers(k * n), numbers(m * n));
        for case in 0..16 {
            let of = |level| product(level, (m, k, n), case, (&a, &b, &before));
            let want = of(Level::Plain);
            for level in [Level::Portable, Level::Avx2, Level::Avx512] {
                same_bits(&of(level), &want, &format!("{m}x{k}x{n}, case {case}, {level:?}"));
            }
        }
    }
}

/// Sizes that fill tiles and sizes that do not, operands as they are and packed before.
#[test]
fn tiles_and_their_twin_give_the_same_bits() {
    let stream = &mut TestRng::new(7);
    let more = [(8, 16, 8), (16, 32, 16), (32, 64, 32), (33, 288, 288), (300, 352, 20), (48, 700, 33)];
    for (m, k, n) in SHAPES.into_iter().chain(more) {
        let mut numbers = |len: usize| (0..len).map(|_| stream.normal() as f32).collect::<Vec<_>>();
        let (a, b, before) = (numbers(m * k), numbers(k * n), numbers(m * n));
        for case in 0..16 {
            let of = |how: fn(Product<'_, f32>)| with(how, (m, k, n), case, (&a, &b, &before));
            let plain: fn(Product<'_, f32>) = |p| super::twin::product(p, Level::Plain);
            let twin = if fills_tiles(m, k, n) { tiles } else { plain };
            same_bits(
                &of(|p| super::product(p, Level::Amx)),
                &of(twin),
                &format!("{m}x{k}x{n}, case {case}"),
            );
        }
    }
}

#[test]
fn an_operand_that_was_packed_before_gives_the_same_bits() {
    let stream = &mut TestRng::new(6);
    for (m, k, n) in SHAPES {
        let mut numbers = |len: usize| (0..len).map(|_| stream.normal() as f32).collect::<Vec<_>>();
        let (a, b) = (numbers(m * k), numbers(k * n));
        let mut pairs = AlignedVec::default();
        for b in [Mat::new(&b, k, n), Mat::new(&b, n, k).t()] {
            pack_bf16(b, &mut pairs);
            assert_eq!(pairs.is_empty(), !has_instructions());
            let (mut got, mut want) = (vec![0.0; m * n], vec![0.0; m * n]);
            gemm_in(Precision::Bf16, &mut got, Mat::new(&a, m, k), b.packed(&pairs), 1.0, 0.0);
            gemm_in(Precision::Bf16, &mut want, Mat::new(&a, m, k), b, 1.0, 0.0);
            same_bits(&got, &want, &format!("{m}x{k}x{n}"));
        }
    }
}

/// Any bits: denormal numbers, zeros of both signs, infinities, NaN, and sums that underflow or overflow.
#[test]
fn they_agree_on_every_kind_of_number() {
    let stream = &mut TestRng::new(4);
    for round in 0..200 {
        let mut number = || {
            let bits = stream.next_u64();
            let exponent = match round % 4 {
                0 => bits >> 8 & 0xff,
                1 => 40 + (bits >> 8) % 30,
                2 => 180 + (bits >> 8) % 20,
                _ => (bits >> 8) % 3,
            };
            f32::from_bits((bits >> 32) as u32 & 0x807f_ffff | (exponent as u32) << 23)
        };
        let size = (5, 11, 21);
        let a: Vec<f32> = (0..5 * 11).map(|_| number()).collect();
        let b: Vec<f32> = (0..11 * 21).map(|_| number()).collect();
        let before: Vec<f32> = (0..5 * 21).map(|_| number()).collect();
        for case in 0..8 {
            let of = |level| product(level, size, case, (&a, &b, &before));
            same_bits(&of(Level::Avx512), &of(Level::Plain), &format!("round {round}, case {case}"));
        }
        let size = (8, 40, 21);
        let a: Vec<f32> = (0..8 * 40).map(|_| number()).collect();
        let b: Vec<f32> = (0..40 * 21).map(|_| number()).collect();
        let before: Vec<f32> = (0..8 * 21).map(|_| number()).collect();
        for case in 0..8 {
            let got = product(Level::Amx, size, case, (&a, &b, &before));
            let want = with(tiles, size, case, (&a, &b, &before));
            same_bits(&got, &want, &format!("tiles, round {round}, case {case}"));
        }
    }
}

#[test]
fn operands_are_rounded_to_nearest_with_ties_to_even_and_denormals_to_zero() {
    let bits = |x: u32| round(f32::from_bits(x)).to_bits();
    assert_eq!(bits(0x3f80_7fff), 0x3f80_0000);
    assert_eq!(bits(0x3f80_8000), 0x3f80_0000, "a tie goes to the even neighbour, below");
    assert_eq!(bits(0x3f81_8000), 0x3f82_0000, "and above");
    assert_eq!(bits(0x3f80_8001), 0x3f81_0000);
    assert_eq!(bits(0xbf80_8001), 0xbf81_0000);
    assert_eq!(bits(0x7f7f_ffff), 0x7f80_0000, "beyond the largest is infinity");
    assert_eq!(bits(0x807f_ffff), 0x8000_0000, "denormal");
    assert_eq!(bits(0x0080_0000), 0x0080_0000, "the smallest normal number");
    assert!(f32::from_bits(bits(0x7f80_0001)).is_nan());
}

/// With operands that are bf16 already, sums are those of f32 to f32's own rounding.
#[test]
fn sums_are_kept_in_f32() {
    let stream = &mut TestRng::new(5);
    let (m, k, n) = (9, 288, 40);
    let mut numbers = |len: usize| (0..len).map(|_| round(stream.normal() as f32)).collect::<Vec<_>>();
    let (a, b, before) = (numbers(m * k), numbers(k * n), numbers(m * n));
    let got = product(Level::Avx512, (m, k, n), 0, (&a, &b, &before));
    for (at, got) in got.iter().enumerate() {
        let (i, j) = (at / n, at % n);
        let want: f64 = (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * n + j])).sum();
        assert!((f64::from(*got) - want).abs() < 1e-4, "{got} {want}");
    }
}

#[test]
fn parts_of_the_inner_dimension_are_whole_pairs_and_nearly_equal() {
    for k in [1, 2, 319, 320, 321, 641, 10_368] {
        let all: Vec<_> = parts(k).collect();
        assert_eq!(all.iter().map(|p| p.1).sum::<usize>(), k.div_ceil(2));
        assert!(all.iter().all(|&(_, pairs)| 0 < pairs && 2 * pairs <= DEPTH), "{k}: {all:?}");
        assert!(all.windows(2).all(|w| w[0].0 + w[0].1 == w[1].0));
    }
}

#[test]
fn bf16_says_whether_it_is_fast_here() {
    assert!(Precision::Full.is_fast());
    assert_eq!(Precision::Bf16.is_fast(), has_instructions());
}
