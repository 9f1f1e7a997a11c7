//! Low-rank maps whose sizes the compiler knows: every loop is unrolled and nothing is checked twice.
//!
//! `DV`, `DE`, `RANK` are the sizes of [`LowRankShape`](super::low_rank::LowRankShape), `M` is slots · rank. Agents of
//! one view are multiplied [`GROUP`] at a time; where a product has few lanes, it runs in several chains of
//! multiply-adds that do not wait for each other. Views that one agent has alone run as fast as the cache delivers
//! them.

use super::low_rank::Grouped;
use super::simd::fma;
use crate::Real;

/// Agents of one view that are multiplied together: a row is then loaded once for all of them.
const GROUP: usize = 4;

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

/// g = Fᵀ s of G agents with one view. e goes through memory: broadcasting from there is free, from registers not.
#[inline(always)]
fn lift_group<
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
    s: &[T],
    out: &mut [T],
) {
    let (a_t, b_t) = view[M * (DV + DE)..][..M * (DV + DE)].split_at(M * DE);
    let (mut u, mut e, nothing) = ([[T::ZERO; DE]; G], [[T::ZERO; M]; G], [T::ZERO; DE]);
    for slot in 0..M / RANK {
        if mask >> slot & 1 == 0 {
            continue;
        }
        let mut s_of = [&nothing; G];
        for g in 0..G {
            s_of[g] = s[agents[g] as usize * ld + slot * DE..][..DE].try_into().expect("a slot");
            for r in 0..DE {
                u[g][r] += s_of[g][r];
            }
        }
        let mut parts = [[[T::ZERO; RANK]; G]; 2];
        accumulate::<T, FMA, G, DE, RANK, 2>(&mut parts, &s_of, &a_t[slot * DE * RANK..]);
        let sum = joined(&parts);
        for g in 0..G {
            e[g][slot * RANK..][..RANK].copy_from_slice(&sum[g]);
        }
    }
    let (mut acc, mut u_of) = ([[[T::ZERO; DV]; G]; 1], [&nothing; G]);
    for g in 0..G {
        u_of[g] = &u[g];
    }
    accumulate::<T, FMA, G, DE, DV, 1>(&mut acc, &u_of, base);
    for slot in 0..M / RANK {
        if mask >> slot & 1 == 0 {
            continue;
        }
        let none = [T::ZERO; RANK];
        let mut coefs = [&none; G];
        for g in 0..G {
            coefs[g] = e[g][slot * RANK..][..RANK].try_into().expect("a slot");
        }
        accumulate::<T, FMA, G, RANK, DV, 1>(&mut acc, &coefs, &b_t[slot * RANK * DV..]);
    }
    let sum = joined(&acc);
    for g in 0..G {
        out[agents[g] as usize * DV..][..DV].copy_from_slice(&sum[g]);
    }
}

/// g = Fᵀ s of one agent: as [`lift_group`], but there is nothing else to do while e is written and read again, so it stays
/// in registers.
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

/// g = Fᵀ s of a run of agents with one view.
#[inline(always)]
fn lift_run<T: Real, const FMA: bool, const DV: usize, const DE: usize, const M: usize, const RANK: usize>(
    base: &[T],
    view: &[T],
    mask: u32,
    run: &[u32],
    ld: usize,
    s: &[T],
    out: &mut [T],
) {
    if run.len() == GROUP {
        return lift_group::<T, FMA, DV, DE, M, RANK, GROUP>(base, view, mask, run, ld, s, out);
    }
    for &agent in run {
        let i = agent as usize;
        let (s, out) = (&s[i * ld..][..ld], &mut out[i * DV..][..DV]);
        lift_one::<T, FMA, DV, DE, M, RANK>(base, view, mask, s, out);
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
    let (len, mut rest) = (2 * M * (DV + DE), agents.order);
    while let Some((view, mask, run)) = agents.take_run(GROUP, &mut rest) {
        let view = &views[view * len..][..len];
        lift_run::<T, FMA, DV, DE, M, RANK>(base, view, mask, run, ld, s, out);
    }
}

/// s = y − y of the partner slot, then g_i = F_iᵀ s_i, run by run: what was exchanged is lifted while it is at hand.
#[inline(always)]
pub(super) fn exchange_lift<
    T: Real,
    const FMA: bool,
    const DV: usize,
    const DE: usize,
    const M: usize,
    const RANK: usize,
>(
    agents: Grouped<'_>,
    partners: &[u32], // [agents, slots]
    ld: usize,
    base: &[T],
    views: &[T],
    y: &[T],
    s: &mut [T],
    out: &mut [T],
) {
    let (len, slots, mut rest) = (2 * M * (DV + DE), M / RANK, agents.order);
    while let Some((view, mask, run)) = agents.take_run(GROUP, &mut rest) {
        for &agent in run {
            let i = agent as usize;
            let (own, s) = (&y[i * ld..][..ld], &mut s[i * ld..][..ld]);
            let partners = &partners[i * slots..][..slots];
            for slot in 0..slots {
                let a: &[T; DE] = own[slot * DE..][..DE].try_into().expect("a slot");
                let b: &[T; DE] = y[partners[slot] as usize..][..DE].try_into().expect("a slot");
                let s: &mut [T; DE] = (&mut s[slot * DE..][..DE]).try_into().expect("a slot");
                for r in 0..DE {
                    s[r] = a[r] - b[r];
                }
            }
            s[slots * DE..].fill(T::ZERO);
        }
        let view = &views[view * len..][..len];
        lift_run::<T, FMA, DV, DE, M, RANK>(base, view, mask, run, ld, s, out);
    }
}
