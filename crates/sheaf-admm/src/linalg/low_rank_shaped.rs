//! Low-rank maps whose sizes the compiler knows: every loop is unrolled and nothing is checked twice.
//!
//! `DV`, `DE`, `RANK` are the sizes of [`LowRankShape`](super::low_rank::LowRankShape), `M` is slots · rank. Agents of
//! one view are projected [`GROUP`] at a time, so that a row is loaded once for all of them; where a product has few
//! lanes, it runs in several chains of multiply-adds that do not wait for each other. Views that one agent has alone
//! run as fast as the cache delivers them.

use super::low_rank::Grouped;
use super::simd::fma;
use crate::Real;

/// Agents of one view that are multiplied together.
const GROUP: usize = 4;

/// Columns of dF that are held in registers.
const HELD: usize = 4;

/// acc\[chain\]\[g\] += Σ_j coefs\[g\]\[j\] · rows\[j\], J rows of N lanes, the chains taking turns; CH divides J.
#[inline(always)]
fn accumulate<T: Real, const FMA: bool, const G: usize, const J: usize, const N: usize, const CH: usize>(
    acc: &mut [[[T; N]; G]; CH],
    coefs: &[&[T; J]; G],
    rows: &[T], // [J, N]
) {
    debug_assert!(J.is_multiple_of(CH));
    let rows = &rows[..J * N];
    for turn in 0..J / CH {
        // A chain has its number in the text of the loop, not in a variable: only then it stays in registers.
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
fn joined<T: Real, const G: usize, const N: usize, const CH: usize>(acc: &[[[T; N]; G]; CH]) -> [[T; N]; G] {
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

/// g = Fᵀ s of one agent. Unlike the projection it gains nothing from several agents at a time: the narrow products
/// wait for broadcasts, not for rows.
#[inline(always)]
fn lift_one<T: Real, const FMA: bool, const DV: usize, const DE: usize, const M: usize, const RANK: usize>(
    base: &[T],
    view: &[T],
    mask: u32,
    s: &[T],       // [ld]
    out: &mut [T], // [DV]
) {
    let (a_t, b_t) = view[M * (DV + DE)..][..M * (DV + DE)].split_at(M * DE);
    let mut u = [T::ZERO; DE];
    for slot in 0..M / RANK {
        if mask >> slot & 1 == 1 {
            let s: &[T; DE] = s[slot * DE..][..DE].try_into().expect("a slot");
            for r in 0..DE {
                u[r] += s[r];
            }
        }
    }
    let mut acc = [[[T::ZERO; DV]; 1]; 2];
    accumulate::<T, FMA, 1, DE, DV, 2>(&mut acc, &[&u], base);
    for slot in 0..M / RANK {
        if mask >> slot & 1 == 1 {
            let s: &[T; DE] = s[slot * DE..][..DE].try_into().expect("a slot");
            let mut parts = [[[T::ZERO; RANK]; 1]; 4];
            accumulate::<T, FMA, 1, DE, RANK, 4>(&mut parts, &[s], &a_t[slot * DE * RANK..]);
            let [e] = joined(&parts);
            accumulate::<T, FMA, 1, RANK, DV, 2>(&mut acc, &[&e], &b_t[slot * RANK * DV..]);
        }
    }
    let [sum] = joined(&acc);
    out.copy_from_slice(&sum);
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
        if run.len() == GROUP {
            project_group::<T, FMA, DV, DE, M, RANK, GROUP>(base, view, mask, run, ld, z, y);
        } else {
            for one in run.chunks_exact(1) {
                project_group::<T, FMA, DV, DE, M, RANK, 1>(base, view, mask, one, ld, z, y);
            }
        }
    }
}

/// g_i = F_iᵀ s_i for every agent.
#[inline(always)]
pub(super) fn lift<
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
    s: &[T],
    out: &mut [T],
) {
    let len = 2 * M * (DV + DE);
    for &agent in agents.order {
        let i = agent as usize;
        let view = &views[agents.index[i] as usize * len..][..len];
        let (s, out) = (&s[i * ld..][..ld], &mut out[i * DV..][..DV]);
        lift_one::<T, FMA, DV, DE, M, RANK>(base, view, agents.masks[i], s, out);
    }
}

/// A block of [`HELD`] columns × N rows of dF: all terms of all agents are added in registers, then it is written once.
#[inline(always)]
fn outer_block<T: Real, const FMA: bool, const DV: usize, const N: usize>(
    agents: &[u32],
    (count, ld): (usize, usize),
    (column, row): (usize, usize),
    d_stack: &mut [T],
    scale: T,
    terms: usize,
    rows: &[T],
    states: &[T],
) {
    let mut acc = [[T::ZERO; N]; HELD];
    for t in 0..terms {
        for &agent in agents {
            let place = t * count + agent as usize;
            let rows: [T; N] = rows[place * ld + row..][..N].try_into().expect("N rows");
            let state: &[T; HELD] = states[place * DV + column..][..HELD].try_into().expect("columns");
            for c in 0..HELD {
                for l in 0..N {
                    acc[c][l] = fma::<T, FMA>(state[c], rows[l], acc[c][l]);
                }
            }
        }
    }
    for c in 0..HELD {
        let d = &mut d_stack[(column + c) * ld + row..][..N];
        for l in 0..N {
            d[l] = fma::<T, FMA>(scale, acc[c][l], d[l]);
        }
    }
}

/// dF_i += scale·Σ_t rows_t,i · state_t,iᵀ, into stacks `[views, DV, ld]`; DV is a multiple of [`HELD`], DE of 8.
#[inline(always)]
pub(super) fn outers<T: Real, const FMA: bool, const DV: usize, const DE: usize>(
    agents: Grouped<'_>,
    ld: usize,
    d_stacks: &mut [T],
    scale: T,
    terms: usize,
    rows: &[T],
    states: &[T],
) {
    let (count, mut rest) = (agents.index.len(), agents.order);
    while let Some((view, mut mask, run)) = agents.take_run(count, &mut rest) {
        let d = &mut d_stacks[view * DV * ld..][..DV * ld];
        while mask != 0 {
            // The lowest slots in a row, as one block of rows.
            let first = mask.trailing_zeros();
            let slots = (mask >> first).trailing_ones();
            mask &= !((((1u64 << slots) - 1) << first) as u32);
            let (mut row, end) = (first as usize * DE, (first + slots) as usize * DE);
            while row < end {
                let wide = match end - row {
                    64.. => 64,
                    24.. => 24,
                    _ => 8,
                };
                for column in (0..DV).step_by(HELD) {
                    let (sizes, at) = ((count, ld), (column, row));
                    match wide {
                        64 => outer_block::<T, FMA, DV, 64>(run, sizes, at, d, scale, terms, rows, states),
                        24 => outer_block::<T, FMA, DV, 24>(run, sizes, at, d, scale, terms, rows, states),
                        _ => outer_block::<T, FMA, DV, 8>(run, sizes, at, d, scale, terms, rows, states),
                    }
                }
                row += wide;
            }
        }
    }
}
