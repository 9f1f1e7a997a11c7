//! Exchange and lift of the maze's shape: eight slots of five rows, ten columns, stacks by [tiles](crate::tiles).
//!
//! The differences of an agent are five vectors of eight rows, each twice side by side; a tile then serves two columns.
//! Five chains of five multiply-adds remain; a small tree adds up their lanes.

use std::arch::x86_64::*;

use super::{by_pairs, place};
use crate::stack::LiftBand;
use crate::tiles::{CHUNKS, COLUMNS, STACK};

const LD: usize = 48;
const D_V: usize = 10;
const D_E: usize = 5;
/// Prefetch distance of the kept differences, in agents.
const AHEAD: usize = 4;
/// The lanes of a state.
const STATE: __mmask16 = (1 << D_V) - 1;

/// # Safety
/// The caller has checked all lengths of the band; the CPU has the instructions.
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
pub(super) unsafe fn lift_tiles_band<const KEEP: bool, const MORE: bool>(
    band: LiftBand<'_, f32>,
    views: usize,
) {
    let pointers = Pointers {
        partners: band.partners.rows(),
        base: band.base,
        y: band.y.as_ptr(),
        s: band.s.as_mut_ptr(),
        p: band.p.as_ptr(),
        q: band.q.as_mut_ptr(),
        gamma: band.gamma,
        shift: band.shift,
    };
    let tiles = band.tiles.as_ptr();
    let (mut ahead, end) = (band.agents.start, band.agents.end);
    let mut call = |count: usize| {
        for k in ahead..ahead + count {
            // The kept differences go to lines that were not written recently: they are prefetched in the order in
            // which they are needed.
            if KEEP && k < end {
                let soon = pointers.s.wrapping_add(band.table.agent(k) * LD);
                (0..LD / 16).for_each(|line| will_write(soon.wrapping_add(line * 16)));
            }
            // In a large sheaf states come from memory. Bands are too short for the CPU's own prefetchers.
            if MORE {
                let part = (k - band.agents.start) * D_V;
                for soon in band.soon {
                    if part < soon.len() {
                        will_write(soon[part..].as_ptr());
                    }
                }
                will_write(pointers.q.wrapping_add(end * D_V + part));
                will_read(pointers.partners.as_ptr().wrapping_add((k + end - band.agents.start) * 8));
            }
        }
        ahead += count;
    };
    call(AHEAD);
    by_pairs!(
        band.table,
        band.agents,
        |agents, view| {
            call(1);
            // SAFETY: `place` holds for every view, the band's checks for every agent.
            unsafe { lift_some::<KEEP, MORE, 1>(agents, tiles.add(place(view, views, STACK)), &pointers) };
        },
        {
            call(2);
            // SAFETY: as above.
            unsafe { lift_some::<KEEP, MORE, 2>(agents, tiles.add(place(view, views, STACK)), &pointers) };
        }
    );
}

/// Prefetches a line that is read later. The address may be anything: nothing is read by this.
#[inline(always)]
fn will_read<T>(at: *const T) {
    // SAFETY: a prefetch touches nothing and cannot fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// Prefetches a line that is written later.
#[inline(always)]
fn will_write<T>(at: *const T) {
    // SAFETY: a prefetch touches nothing and cannot fault.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.cast()) };
}

struct Pointers<'a> {
    partners: &'a [u32],
    base: usize,
    y: *const f32,
    s: *mut f32,
    p: *const f32,
    q: *mut f32,
    gamma: f32,
    shift: f32,
}

/// Agents that share a stack. `MORE` changes nothing here: it gives every caller its own instance, which is inlined.
///
/// # Safety
/// `tiles` has a whole stack; the agents and their partners lie within the memory behind the pointers.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
unsafe fn lift_some<const KEEP: bool, const MORE: bool, const A: usize>(
    agents: [usize; A],
    tiles: *const f32,
    at: &Pointers<'_>,
) {
    // SAFETY: the caller guarantees all places.
    unsafe {
        let mut held = [[_mm512_setzero_ps(); CHUNKS]; A];
        for i in 0..A {
            held[i] = exchange_one::<KEEP>(agents[i], at);
        }
        let mut sums = [[_mm512_setzero_ps(); COLUMNS.len()]; A];
        for q in 0..COLUMNS.len() {
            for c in 0..CHUNKS {
                let tile = _mm512_loadu_ps(tiles.add((c * COLUMNS.len() + q) * 16));
                for i in 0..A {
                    sums[i][q] = match c {
                        0 => _mm512_mul_ps(tile, held[i][0]),
                        _ => _mm512_fmadd_ps(tile, held[i][c], sums[i][q]),
                    };
                }
            }
        }
        for i in 0..A {
            let p = _mm512_maskz_loadu_ps(STATE, at.p.add(agents[i] * D_V));
            let shifted = _mm512_mul_ps(_mm512_set1_ps(at.shift), p);
            let q = _mm512_fmadd_ps(_mm512_set1_ps(at.gamma), add_up(sums[i]), shifted);
            _mm512_mask_storeu_ps(at.q.add(agents[i] * D_V), STATE, q);
        }
    }
}

/// y − y of the partner slots of one agent, each eight rows twice; also written to `s` if they are kept.
///
/// # Safety
/// As for [`lift_some`].
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
unsafe fn exchange_one<const KEEP: bool>(agent: usize, at: &Pointers<'_>) -> [__m512; CHUNKS] {
    let partners: &[u32; 8] = at.partners[agent * 8..][..8].try_into().expect("eight slots");
    let origin = at.y.wrapping_sub(at.base * LD);
    let mut held = [_mm512_setzero_ps(); CHUNKS];
    for c in 0..CHUNKS {
        let (lo, hi) = (c * 8, c * 8 + 8);
        let mut other = _mm256_setzero_ps();
        for k in 0..8 {
            let (first, end) = (k * D_E, (k + 1) * D_E);
            if first < hi && end > lo {
                let (from, to) = (first.max(lo) - lo, end.min(hi) - lo);
                let mask = (((1u32 << to) - 1) & !((1u32 << from) - 1)) as __mmask8;
                let shift = lo as isize - first as isize;
                let start = origin.wrapping_add(partners[k] as usize).wrapping_offset(shift);
                // SAFETY: the lanes of the mask lie inside the partner's slot; the others are never accessed, so a
                // start before or after the rows is not read there.
                other = unsafe { _mm256_mask_loadu_ps(other, mask, start) };
            }
        }
        // SAFETY: the agent's own rows.
        unsafe {
            let own = _mm256_loadu_ps(origin.wrapping_add(agent * LD + lo));
            let difference = _mm256_sub_ps(own, other);
            if KEEP {
                _mm256_storeu_ps(at.s.add(agent * LD + lo), difference);
            }
            held[c] = _mm512_insertf32x8(_mm512_castps256_ps512(difference), difference, 1);
        }
    }
    held
}

/// Lane j of the result is the sum over the rows of column j.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
fn add_up(v: [__m512; COLUMNS.len()]) -> __m512 {
    let pairs = |a, b| _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    let (a, b) = (_mm512_castps_pd(pairs(v[0], v[1])), _mm512_castps_pd(pairs(v[2], v[3])));
    let (lo, hi) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
    let fours = _mm512_add_ps(_mm512_castpd_ps(lo), _mm512_castpd_ps(hi));
    let last = _mm512_add_ps(v[4], _mm512_permute_ps(v[4], 0b01_00_11_10));
    let last = _mm512_add_ps(last, _mm512_permute_ps(last, 0b10_11_00_01));
    let (lo, hi) = (_mm512_shuffle_f32x4(fours, last, 0x88), _mm512_shuffle_f32x4(fours, last, 0xdd));
    // Columns 0 to 8 are in their lanes, column 9 is in lane 12.
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 12, 12, 12, 12, 12, 12);
    _mm512_permutexvar_ps(lanes, _mm512_add_ps(lo, hi))
}
