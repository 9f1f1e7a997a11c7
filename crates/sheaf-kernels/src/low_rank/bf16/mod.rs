//! The kernels of low-rank maps of the published sizes with operands in bf16 and sums in `f32`.
//!
//! Rounding and the order of the two products of a pair are those of [`bf16`](crate::bf16). A number of a packed base or
//! view is a *word*: two bf16 that are neighbours in the inner dimension of their product, in the bits of one `f32`, so
//! that a packed view takes half the room and half the multiply-adds.
//!
//! | product | steps | reads words |
//! | --- | --- | --- |
//! | y = F z | t = R z, c = Bᵀ z, y\[s\] = t + A\[s\] c\[s\] | Rᵀ `[16, 24]`, B `[16, 64]`, A `[8, 4, 24]` |
//! | g = Fᵀ s | u = Σ s\[s\], e\[s\] = A\[s\]ᵀ s\[s\], g = Rᵀ u + B e | R `[12, 32]`, Aᵀ `[8, 12, 8]`, Bᵀ `[32, 32]` |
//!
//! The steps are written once, over the two operations of [`Dots`]: vector instructions and plain loops that give the same
//! bits. [`pairs`] does the same for the gradient of the maps.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod pairs;
#[cfg(test)]
mod tests;
mod words;

use super::lift::exchange_one;
use super::{Grouped, PairTape};
use crate::bf16::{add_products, has_instructions, round_pair};
use crate::simd::{Level, kernel};

use pairs::sums;
pub(super) use words::{pack_base, pack_view, unpack_view};

const DV: usize = 32;
const DE: usize = 24;
const SLOTS: usize = 8;
const RANK: usize = 8;
const M: usize = SLOTS * RANK;
/// Words of a base: R, then Rᵀ.
pub(super) const BASE: usize = DE * DV;
/// Words of a view: B, A, Aᵀ, Bᵀ.
pub(super) const VIEW: usize = M * (DV + DE);

/// The two operations of which the products consist.
#[allow(unsafe_code)]
trait Dots {
    /// acc += Σ_j coefs\[j\]·rows\[j\], rows of N words; the second products of a word come before the first.
    ///
    /// # Safety
    /// The CPU must have the instructions of the implementation.
    unsafe fn accumulate<const N: usize>(acc: &mut [f32; N], coefs: &[u32], rows: &[f32]);
    /// The words of some numbers, two for each.
    ///
    /// # Safety
    /// As for [`accumulate`](Self::accumulate).
    unsafe fn words(numbers: &[f32], words: &mut [u32]);
}

/// Plain loops.
struct Plain;

#[allow(unsafe_code)]
impl Dots for Plain {
    #[inline(always)]
    unsafe fn accumulate<const N: usize>(acc: &mut [f32; N], coefs: &[u32], rows: &[f32]) {
        for (&coef, row) in coefs.iter().zip(rows.chunks_exact(N)) {
            for (acc, row) in acc.iter_mut().zip(row) {
                *acc = add_products(*acc, coef, row.to_bits());
            }
        }
    }

    #[inline(always)]
    unsafe fn words(numbers: &[f32], words: &mut [u32]) {
        for (word, pair) in words.iter_mut().zip(numbers.chunks_exact(2)) {
            *word = round_pair(pair[0], pair[1]);
        }
    }
}

/// a + b.
#[inline(always)]
fn sum<const N: usize>(mut a: [f32; N], b: &[f32; N]) -> [f32; N] {
    for l in 0..N {
        a[l] += b[l];
    }
    a
}

/// y = F z of one agent.
///
/// # Safety
/// As for [`Dots`].
#[allow(unsafe_code)]
#[inline(always)]
unsafe fn project_one<D: Dots>(base: &[f32], view: &[f32], mask: u32, z: &[f32], y: &mut [f32]) {
    let (b, rest) = view.split_at(M * DV / 2);
    let (mut z_words, mut c_words) = ([0; DV / 2], [0; M / 2]);
    let (mut t, mut c) = ([0.0; DE], [0.0; M]);
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        D::words(&z[..DV], &mut z_words);
        D::accumulate(&mut c, &z_words, b);
        D::accumulate(&mut t, &z_words, &base[BASE / 2..]);
        D::words(&c, &mut c_words);
    }
    for slot in 0..SLOTS {
        let y: &mut [f32; DE] = (&mut y[slot * DE..][..DE]).try_into().expect("a slot");
        if mask >> slot & 1 == 0 {
            y.fill(0.0);
            continue;
        }
        *y = t;
        let a = &rest[slot * RANK / 2 * DE..][..RANK / 2 * DE];
        // SAFETY: as above.
        unsafe { D::accumulate(y, &c_words[slot * RANK / 2..][..RANK / 2], a) };
    }
    y[SLOTS * DE..].fill(0.0);
}

/// Agents that are lifted together. A number that was just written in other pieces than it is read waits for memory, so
/// each step is taken for several agents before the next.
const TOGETHER: usize = 4;

/// What lifting an agent computes on its way.
#[derive(Clone, Copy)]
struct Lifted {
    s_words: [u32; SLOTS * DE / 2],
    u: [f32; DE],
    e: [f32; M],
}

impl Lifted {
    const ZERO: Self = Self { s_words: [0; SLOTS * DE / 2], u: [0.0; DE], e: [0.0; M] };

    /// The words of s.
    ///
    /// # Safety
    /// As for [`Dots`].
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn round<D: Dots>(&mut self, s: &[f32]) {
        // SAFETY: the caller guarantees the instructions.
        unsafe { D::words(&s[..SLOTS * DE], &mut self.s_words) }
    }

    /// u = Σ s\[s\] and e\[s\] = A\[s\]ᵀ s\[s\]; long sums run in two chains.
    ///
    /// # Safety
    /// As for [`Dots`].
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn reduce<D: Dots>(&mut self, view: &[f32], mask: u32, s: &[f32]) {
        const HALF: usize = DE / 4;
        let (a_t, mut u) = (&view[VIEW / 2..], [0.0; DE]);
        for slot in 0..SLOTS {
            if mask >> slot & 1 == 0 {
                continue;
            }
            u = sum(u, s[slot * DE..][..DE].try_into().expect("a slot"));
            let words = &self.s_words[slot * DE / 2..][..DE / 2];
            let a_t = &a_t[slot * DE / 2 * RANK..][..DE / 2 * RANK];
            let (mut first, mut second) = ([0.0; RANK], [0.0; RANK]);
            // SAFETY: the caller guarantees the instructions.
            unsafe {
                D::accumulate(&mut first, &words[..HALF], &a_t[..HALF * RANK]);
                D::accumulate(&mut second, &words[HALF..], &a_t[HALF * RANK..]);
            }
            self.e[slot * RANK..][..RANK].copy_from_slice(&sum(first, &second));
        }
        self.u = u;
    }

    /// g = Rᵀ u + B e.
    ///
    /// # Safety
    /// As for [`Dots`].
    #[allow(unsafe_code)]
    #[inline(always)]
    unsafe fn expand<D: Dots>(&self, base: &[f32], view: &[f32], out: &mut [f32]) {
        let b_t = &view[VIEW / 2 + M * DE / 2..];
        let (mut u_words, mut e_words) = ([0; DE / 2], [0; M / 2]);
        let [mut from_base, mut low, mut high] = [[0.0; DV]; 3];
        // SAFETY: the caller guarantees the instructions.
        unsafe {
            D::words(&self.u, &mut u_words);
            D::words(&self.e, &mut e_words);
            D::accumulate(&mut from_base, &u_words, base);
            D::accumulate(&mut low, &e_words[..M / 4], b_t);
            D::accumulate(&mut high, &e_words[M / 4..], &b_t[M / 4 * DV..]);
        }
        out.copy_from_slice(&sum(sum(from_base, &low), &high));
    }
}

/// g_i = F_iᵀ s_i of a few agents.
///
/// # Safety
/// As for [`Dots`].
#[allow(unsafe_code)]
#[inline(always)]
unsafe fn lift_some<D: Dots>(at: Maps<'_>, agents: &[u32], s: &[f32], g: &mut [f32]) {
    let mut lifted = [Lifted::ZERO; TOGETHER];
    let each = |k: usize| (agents[k] as usize, &s[agents[k] as usize * at.ld..][..at.ld]);
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        for k in 0..agents.len() {
            lifted[k].round::<D>(each(k).1);
        }
        for k in 0..agents.len() {
            let (i, s) = each(k);
            lifted[k].reduce::<D>(at.view(i), at.agents.masks[i], s);
        }
        for k in 0..agents.len() {
            let (i, _) = each(k);
            lifted[k].expand::<D>(at.base, at.view(i), &mut g[i * DV..][..DV]);
        }
    }
}

/// y_i = F_i z_i for every agent.
///
/// # Safety
/// As for [`Dots`].
#[allow(unsafe_code)]
#[inline(always)]
unsafe fn project_all<D: Dots>(at: Maps<'_>, z: &[f32], y: &mut [f32]) {
    for &agent in at.agents.order {
        let i = agent as usize;
        let (y, mask) = (&mut y[i * at.ld..][..at.ld], at.agents.masks[i]);
        // SAFETY: the caller guarantees the instructions.
        unsafe { project_one::<D>(at.base, at.view(i), mask, &z[i * DV..][..DV], y) };
    }
}

/// g_i = F_iᵀ s_i for every agent.
///
/// # Safety
/// As for [`Dots`].
#[allow(unsafe_code)]
#[inline(always)]
unsafe fn lift_all<D: Dots>(at: Maps<'_>, s: &[f32], g: &mut [f32]) {
    for agents in at.agents.order.chunks(TOGETHER) {
        // SAFETY: the caller guarantees the instructions.
        unsafe { lift_some::<D>(at, agents, s, g) };
    }
}

/// s = y − y of the partner slot, then g_i = F_iᵀ s_i, a few agents at a time.
///
/// # Safety
/// As for [`Dots`].
#[allow(unsafe_code)]
#[inline(always)]
unsafe fn exchange_lift_all<D: Dots>(
    at: Maps<'_>,
    partners: &[u32],
    y: &[f32],
    s: &mut [f32],
    g: &mut [f32],
) {
    for agents in at.agents.order.chunks(TOGETHER) {
        for &agent in agents {
            let i = agent as usize;
            let (own, s) = (&y[i * at.ld..][..at.ld], &mut s[i * at.ld..][..at.ld]);
            exchange_one::<f32, DE>(own, &partners[i * SLOTS..][..SLOTS], y, s);
        }
        // SAFETY: the caller guarantees the instructions.
        unsafe { lift_some::<D>(at, agents, s, g) };
    }
}

/// A slot of F, transposed: Rᵀ + B Aᵀ, `[DV, DE]`.
///
/// # Safety
/// As for [`Dots`].
#[allow(unsafe_code)]
#[inline(always)]
unsafe fn slot_of<D: Dots>(base: &[f32], view: &[f32], slot: usize, out: &mut [f32]) {
    let a = &view[M * DV / 2 + slot * RANK / 2 * DE..][..RANK / 2 * DE];
    let b_t = &view[VIEW / 2 + M * DE / 2 + slot * RANK / 2 * DV..][..RANK / 2 * DV];
    for (k, row) in out.chunks_exact_mut(DE).take(DV).enumerate() {
        let row: &mut [f32; DE] = row.try_into().expect("a row");
        let words = &base[BASE / 2 + k / 2 * DE..][..DE];
        let shift = if k % 2 == 0 { 16 } else { 0 };
        for (row, word) in row.iter_mut().zip(words) {
            *row = f32::from_bits(word.to_bits() << shift & 0xffff_0000);
        }
        let coefs: [u32; RANK / 2] = std::array::from_fn(|pair| b_t[pair * DV + k].to_bits());
        // SAFETY: the caller guarantees the instructions.
        unsafe { D::accumulate(row, &coefs, a) };
    }
}

/// The packed maps of some agents.
#[derive(Clone, Copy)]
pub(super) struct Maps<'a> {
    pub agents: Grouped<'a>,
    pub ld: usize,
    pub base: &'a [f32],
    pub views: &'a [f32],
}

impl<'a> Maps<'a> {
    #[inline(always)]
    fn view(&self, agent: usize) -> &'a [f32] {
        &self.views[self.agents.index[agent] as usize * VIEW..][..VIEW]
    }
}

/// Makes a function that runs at most at a level from one of the above: by vector instructions, or by plain loops.
macro_rules! dispatch {
    ($(#[$doc:meta])* $name:ident, $body:ident, $loops:ident, $loops_at:ident = $all:ident ($($arg:ident: $ty:ty),*)) => {
        #[allow(unsafe_code)]
        #[inline(always)]
        fn $body<const FMA: bool>($($arg: $ty),*) {
            // SAFETY: plain loops need no instructions.
            unsafe { $all::<Plain>($($arg),*) }
        }

        kernel! {
            #[allow(dead_code)]
            fn $loops, $loops_at($($arg: $ty),*) = $body;
        }

        $(#[$doc])*
        #[allow(unsafe_code)]
        pub(super) fn $name(limit: Level, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                /// # Safety
                /// The CPU must have the instructions.
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
                unsafe fn vectors($($arg: $ty),*) {
                    // SAFETY: the caller guarantees the instructions.
                    unsafe { $all::<avx512::Vectors>($($arg),*) }
                }
                if limit >= Level::Avx512 && has_instructions() {
                    // SAFETY: the CPU has these instructions.
                    return unsafe { vectors($($arg),*) };
                }
            }
            $loops_at(limit, $($arg),*);
        }
    };
}

dispatch!(
    /// y_i = F_i z_i for every agent.
    project, project_body, project_loops, project_loops_at = project_all(at: Maps<'_>, z: &[f32], y: &mut [f32])
);
dispatch!(
    /// g_i = F_iᵀ s_i for every agent.
    lift, lift_body, lift_loops, lift_loops_at = lift_all(at: Maps<'_>, s: &[f32], g: &mut [f32])
);
dispatch!(
    /// s = y − y of the partner slot, g_i = F_iᵀ s_i for every agent.
    exchange_lift, exchange_body, exchange_loops, exchange_loops_at = exchange_lift_all(
        at: Maps<'_>, partners: &[u32], y: &[f32], s: &mut [f32], g: &mut [f32])
);
dispatch!(
    /// A slot of F, transposed, `[DV, DE]`.
    slot, slot_body, slot_loops, slot_loops_at = slot_of(base: &[f32], view: &[f32], slot: usize, out: &mut [f32])
);
dispatch!(
    /// out += Σ p_j q̄_iᵀ + q̄_j p_iᵀ over the pairs of all ends (j, i), `[DV, DV]`.
    pair_sums, pair_sums_body, pair_sums_loops, pair_sums_loops_at = sums(
        tape: PairTape<'_, f32>, ends: &[(u32, u32)], out: &mut [f32])
);
