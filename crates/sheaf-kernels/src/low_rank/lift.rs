//! Lifting by low-rank maps whose sizes are compile-time constants, and the exchange before it; as `project`.

use super::Grouped;
use super::project::{GROUP, accumulate, joined};
use crate::Real;

/// g = Fᵀ s of G agents with one view. e goes through memory: broadcasts from memory are free, from registers not.
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

/// g = Fᵀ s of one agent: as [`lift_group`], but there is no other work while e is written and read again, so it
/// stays in registers.
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
    match run.len() {
        GROUP => return lift_group::<T, FMA, DV, DE, M, RANK, GROUP>(base, view, mask, run, ld, s, out),
        3 => return lift_group::<T, FMA, DV, DE, M, RANK, 3>(base, view, mask, run, ld, s, out),
        2 => return lift_group::<T, FMA, DV, DE, M, RANK, 2>(base, view, mask, run, ld, s, out),
        _ => {}
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

/// s = own − y of the partner slot, for the slots of one agent.
#[inline(always)]
pub(super) fn exchange_one<T: Real, const DE: usize>(own: &[T], partners: &[u32], y: &[T], s: &mut [T]) {
    for (slot, &partner) in partners.iter().enumerate() {
        let a: &[T; DE] = own[slot * DE..][..DE].try_into().expect("a slot");
        let b: &[T; DE] = y[partner as usize..][..DE].try_into().expect("a slot");
        let s: &mut [T; DE] = (&mut s[slot * DE..][..DE]).try_into().expect("a slot");
        for r in 0..DE {
            s[r] = a[r] - b[r];
        }
    }
    s[partners.len() * DE..].fill(T::ZERO);
}

/// s = y − y of the partner slot, then g_i = F_iᵀ s_i, run by run: the differences are lifted while they are in cache.
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
            exchange_one::<T, DE>(own, &partners[i * slots..][..slots], y, s);
        }
        let view = &views[view * len..][..len];
        lift_run::<T, FMA, DV, DE, M, RANK>(base, view, mask, run, ld, s, out);
    }
}
