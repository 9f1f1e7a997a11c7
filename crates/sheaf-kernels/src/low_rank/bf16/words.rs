//! Packing of bases and views as words, and back.

use super::{BASE, DE, DV, M, RANK, SLOTS, VIEW};
use crate::bf16::round_pair;
use crate::simd::kernel;

/// The words of R `[DE, DV]`.
pub fn pack_base(base: &[f32], out: &mut [f32]) {
    let (r, r_t) = out[..BASE].split_at_mut(BASE / 2);
    for (k, word) in r.iter_mut().enumerate() {
        let (pair, j) = (k / DV, k % DV);
        *word = f32::from_bits(round_pair(base[2 * pair * DV + j], base[(2 * pair + 1) * DV + j]));
    }
    for (k, word) in r_t.iter_mut().enumerate() {
        let (pair, r) = (k / DE, k % DE);
        *word = f32::from_bits(round_pair(base[r * DV + 2 * pair], base[r * DV + 2 * pair + 1]));
    }
}

#[inline(always)]
fn pack_view_body<const FMA: bool>(a: &[f32], b: &[f32], factor: f32, out: &mut [f32]) {
    let (own_b, rest) = out[..VIEW].split_at_mut(M * DV / 2);
    let (own_a, rest) = rest.split_at_mut(M * DE / 2);
    let (a_t, b_t) = rest.split_at_mut(M * DE / 2);
    for slot in 0..SLOTS {
        let a = &a[slot * DE * RANK..][..DE * RANK];
        let b = &b[slot * DV * RANK..][..DV * RANK];
        for pair in 0..DV / 2 {
            let to = &mut own_b[pair * M + slot * RANK..][..RANK];
            lines(&b[2 * pair * RANK..][..2 * RANK], 1.0, to);
        }
        for pair in 0..DE / 2 {
            let to = &mut a_t[(slot * DE / 2 + pair) * RANK..][..RANK];
            lines(&a[2 * pair * RANK..][..2 * RANK], factor, to);
        }
        columns::<DE>(a, factor, &mut own_a[slot * RANK / 2 * DE..][..RANK / 2 * DE]);
        columns::<DV>(b, 1.0, &mut b_t[slot * RANK / 2 * DV..][..RANK / 2 * DV]);
    }
}

/// Two lines of RANK numbers as one line of words.
#[inline(always)]
fn lines(two: &[f32], factor: f32, to: &mut [f32]) {
    let (first, second) = two.split_at(RANK);
    for k in 0..RANK {
        to[k] = f32::from_bits(round_pair(factor * first[k], factor * second[k]));
    }
}

/// The pairs of N lines of RANK numbers, as lines of N words.
#[inline(always)]
fn columns<const N: usize>(m: &[f32], factor: f32, to: &mut [f32]) {
    for pair in 0..RANK / 2 {
        for (line, to) in to[pair * N..][..N].iter_mut().enumerate() {
            let at = line * RANK + 2 * pair;
            *to = f32::from_bits(round_pair(factor * m[at], factor * m[at + 1]));
        }
    }
}

kernel! {
    /// The words of a view with factors A `[slots, DE, rank]`, B `[slots, DV, rank]`; `factor` is multiplied into A.
    pub fn pack_view, pack_view_at(a: &[f32], b: &[f32], factor: f32, out: &mut [f32]) = pack_view_body;
}

#[inline(always)]
fn unpack_view_body<const FMA: bool>(view: &[f32], b: &mut [f32], a_t: &mut [f32]) {
    for (words, two) in view[..M * DV / 2].chunks_exact(M).zip(b.chunks_exact_mut(2 * M)) {
        apart(words, two);
    }
    let words = view[VIEW / 2..][..M * DE / 2].chunks_exact(RANK);
    for (words, two) in words.zip(a_t.chunks_exact_mut(2 * RANK)) {
        apart(words, two);
    }
}

/// The first numbers of some words, then the second.
#[inline(always)]
fn apart(words: &[f32], two: &mut [f32]) {
    let (first, second) = two.split_at_mut(words.len());
    for ((word, first), second) in words.iter().zip(first).zip(second) {
        *first = f32::from_bits(word.to_bits() << 16);
        *second = f32::from_bits(word.to_bits() & 0xffff_0000);
    }
}

kernel! {
    /// The factors of a packed view, rounded: B `[DV, m]` and Aᵀ `[slots, DE, rank]`, as an unrounded view holds them.
    pub fn unpack_view, unpack_view_at(view: &[f32], b: &mut [f32], a_t: &mut [f32]) = unpack_view_body;
}
