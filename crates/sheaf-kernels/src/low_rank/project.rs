//! Projection by low-rank maps whose sizes are compile-time constants: loops are unrolled, nothing is checked twice.
//!
//! `DV`, `DE`, `RANK` are the sizes of [`LowRankShape`](super::LowRankShape), `M` is slots · rank. Agents of
//! one view are multiplied [`GROUP`] at a time; where a product has few lanes, it runs in several independent chains
//! of multiply-adds. A view that only one agent has runs as fast as the cache delivers it.

use super::Grouped;
use crate::Real;
use crate::simd::fma;

/// The most agents of one view that are multiplied together: a row is then loaded once for all of them.
pub(super) const GROUP: usize = 4;

/// acc\[chain\]\[g\] += Σ_j coefs\[g\]\[j\] · rows\[j\], J rows of N lanes, round robin over the chains; CH divides J.
#[inline(always)]
pub(super) fn accumulate<
    T: Real,
    const FMA: bool,
    const G: usize,
    const J: usize,
    const N: usize,
    const CH: usize,
>(
    acc: &mut [[[T; N]; G]; CH],
    coefs: &[&[T; J]; G],
    rows: &[T], // [J, N]
) {
    debug_assert!(J.is_multiple_of(CH));
    let rows = &rows[..J * N];
    for turn in 0..J / CH {
        // A constant chain count lets the compiler unroll this loop: only then the chains stay in registers.
        for chain in 0..CH {
            let j = turn * CH + chain;
            let row: [T; N] = rows[j * N..][..N].try_into().expect("N lanes");
            for g in 0..G {
                let coef = coefs[g][j];
                for l in 0..N {
                    acc[chain][g][l] = fma::<T, FMA>(coef, row[l], acc[chain][g][l]);
                }
            }
        }
    }
}

/// Adds the chains up.
#[inline(always)]
pub(super) fn joined<T: Real, const G: usize, const N: usize, const CH: usize>(
    acc: &[[[T; N]; G]; CH],
) -> [[T; N]; G] {
    let mut sum = acc[0];
    for chain in 1..CH {
        for g in 0..G {
            for l in 0..N {
                sum[g][l] += acc[chain][g][l];
            }
        }
    }
    sum
}

/// Lanes of c that are worked on together: those of two slots, where a slot has eight.
const PAIR: usize = 16;

/// c = Bᵀ z for P runs of lanes, which start at `starts`.
#[inline(always)]
fn some_lanes<T: Real, const FMA: bool, const DV: usize, const M: usize, const G: usize, const P: usize>(
    z: &[&[T; DV]; G],
    b: &[T], // [DV, M]
    starts: [usize; P],
    c: &mut [[T; M]; G],
) {
    let b = &b[..DV * M];
    let mut acc = [[[T::ZERO; PAIR]; P]; G];
    for j in 0..DV {
        let row = &b[j * M..][..M];
        for p in 0..P {
            let lanes: [T; PAIR] = row[starts[p]..][..PAIR].try_into().expect("a pair");
            for g in 0..G {
                for l in 0..PAIR {
                    acc[g][p][l] = fma::<T, FMA>(z[g][j], lanes[l], acc[g][p][l]);
                }
            }
        }
    }
    for g in 0..G {
        for p in 0..P {
            c[g][starts[p]..][..PAIR].copy_from_slice(&acc[g][p]);
        }
    }
}

/// c = Bᵀ z where the slots of `mask` need it.
#[inline(always)]
fn needed_lanes<
    T: Real,
    const FMA: bool,
    const DV: usize,
    const M: usize,
    const RANK: usize,
    const G: usize,
>(
    z: &[&[T; DV]; G],
    b: &[T],
    mask: u32,
    c: &mut [[T; M]; G],
) {
    let (per_pair, mut starts, mut count) = (PAIR / RANK, [0; 4], 0);
    for pair in 0..M / PAIR {
        if mask >> (pair * per_pair) & ((1 << per_pair) - 1) != 0 && count < 4 {
            starts[count] = pair * PAIR;
            count += 1;
        }
    }
    match count {
        4 => some_lanes::<T, FMA, DV, M, G, 4>(z, b, starts, c),
        3 => some_lanes::<T, FMA, DV, M, G, 3>(z, b, [starts[0], starts[1], starts[2]], c),
        2 => some_lanes::<T, FMA, DV, M, G, 2>(z, b, [starts[0], starts[1]], c),
        _ => some_lanes::<T, FMA, DV, M, G, 1>(z, b, [starts[0]], c),
    }
}

/// y = F z of G agents with one view.
#[inline(always)]
fn project_group<
    T: Real,
    const FMA: bool,
    const DV: usize,
    const DE: usize,
    const M: usize,
    const RANK: usize,
    const G: usize,
>(
    base: &[T],
    view: &[T],
    mask: u32,
    agents: &[u32],
    ld: usize,
    z: &[T],
    y: &mut [T],
) {
    let (base_t, a) = (&base[DE * DV..], &view[DV * M..][..M * DE]);
    let zero = [T::ZERO; DV];
    let mut z_of = [&zero; G];
    for g in 0..G {
        z_of[g] = z[agents[g] as usize * DV..][..DV].try_into().expect("a state");
    }
    let (mut t, mut c) = ([[[T::ZERO; DE]; G]; 1], [[T::ZERO; M]; G]);
    accumulate::<T, FMA, G, DV, DE, 1>(&mut t, &z_of, base_t);
    needed_lanes::<T, FMA, DV, M, RANK, G>(&z_of, view, mask, &mut c);
    for slot in 0..M / RANK {
        let (mut out, wanted) = ([[[T::ZERO; DE]; G]; 1], mask >> slot & 1 == 1);
        if wanted {
            let none = [T::ZERO; RANK];
            let mut coefs = [&none; G];
            for g in 0..G {
                coefs[g] = c[g][slot * RANK..][..RANK].try_into().expect("a slot");
            }
            out = t;
            accumulate::<T, FMA, G, RANK, DE, 1>(&mut out, &coefs, &a[slot * RANK * DE..]);
        }
        for g in 0..G {
            y[agents[g] as usize * ld + slot * DE..][..DE].copy_from_slice(&out[0][g]);
        }
    }
    for &agent in agents {
        y[agent as usize * ld + M / RANK * DE..(agent as usize + 1) * ld].fill(T::ZERO);
    }
}

/// y = F z of one agent: t and c together, so that a coefficient is broadcast once for both.
#[inline(always)]
fn project_one<
    T: Real,
    const FMA: bool,
    const DV: usize,
    const DE: usize,
    const M: usize,
    const RANK: usize,
>(
    base: &[T],
    view: &[T],
    mask: u32,
    z: &[T],     // [DV]
    y: &mut [T], // [ld]
) {
    let (base_t, b) = (&base[DE * DV..][..DE * DV], &view[..DV * M]);
    let a = &view[DV * M..][..M * DE];
    let z: &[T; DV] = z.try_into().expect("a state");
    let (mut t, mut c) = ([T::ZERO; DE], [T::ZERO; M]);
    for j in 0..DV {
        let row: &[T; M] = b[j * M..][..M].try_into().expect("a row of B");
        for l in 0..M {
            c[l] = fma::<T, FMA>(z[j], row[l], c[l]);
        }
        let row: &[T; DE] = base_t[j * DE..][..DE].try_into().expect("a row of the base");
        for l in 0..DE {
            t[l] = fma::<T, FMA>(z[j], row[l], t[l]);
        }
    }
    for slot in 0..M / RANK {
        let mut out = [[[T::ZERO; DE]; 1]; 1];
        if mask >> slot & 1 == 1 {
            let coefs = c[slot * RANK..][..RANK].try_into().expect("a slot");
            out = [[t]];
            accumulate::<T, FMA, 1, RANK, DE, 1>(&mut out, &[coefs], &a[slot * RANK * DE..]);
        }
        y[slot * DE..][..DE].copy_from_slice(&out[0][0]);
    }
    y[M / RANK * DE..].fill(T::ZERO);
}

/// y_i = F_i z_i for every agent; padding becomes 0.
#[inline(always)]
pub(super) fn project<
    T: Real,
    const FMA: bool,
    const DV: usize,
    const DE: usize,
    const M: usize,
    const RANK: usize,
>(
    agents: Grouped<'_>,
    ld: usize,
    base: &[T],
    views: &[T],
    z: &[T],
    y: &mut [T],
) {
    let (len, mut rest) = (2 * M * (DV + DE), agents.order);
    while let Some((view, mask, run)) = agents.take_run(GROUP, &mut rest) {
        let view = &views[view * len..][..len];
        match run.len() {
            GROUP => project_group::<T, FMA, DV, DE, M, RANK, GROUP>(base, view, mask, run, ld, z, y),
            3 => project_group::<T, FMA, DV, DE, M, RANK, 3>(base, view, mask, run, ld, z, y),
            2 => project_group::<T, FMA, DV, DE, M, RANK, 2>(base, view, mask, run, ld, z, y),
            _ => {
                for &agent in run {
                    let i = agent as usize;
                    let (z, y) = (&z[i * DV..][..DV], &mut y[i * ld..][..ld]);
                    project_one::<T, FMA, DV, DE, M, RANK>(base, view, mask, z, y);
                }
            }
        }
    }
}
