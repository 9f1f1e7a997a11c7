//! The exchange along edges of a sheaf where every slot meets at most one other: s = y − y of the partner slot.
//!
//! `partners[k]` is the row where the partner of slot k starts; a slot without an edge is its own partner, so that its
//! difference is 0. Slots lie `d_e` rows apart within an agent's `ld` rows.

use super::simd::kernel;
use crate::Real;

/// Sizes of the rows of one agent.
#[derive(Clone, Copy, Debug)]
pub struct SlotRows {
    /// Slots of an agent.
    pub slots: usize,
    /// Rows of a slot.
    pub d_e: usize,
    /// Rows of an agent, padded.
    pub ld: usize,
}

/// Where the partner of every slot starts, and how far the rows they name reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partners {
    rows: Vec<u32>, // [agents, slots]
    end: usize,
}

impl Partners {
    /// Partners whose slots have `d_e` rows.
    pub fn new(rows: Vec<u32>, d_e: usize) -> Self {
        let end = rows.iter().max().map_or(0, |&last| last as usize + d_e);
        Self { rows, end }
    }

    /// The first row of each slot's partner.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// All rows lie below this.
    pub fn end(&self) -> usize {
        self.end
    }
}

#[inline(always)]
pub(super) fn partners_body<T: Real, const FMA: bool>(
    rows: SlotRows,
    partners: &[u32],
    y: &[T],
    s: &mut [T],
) {
    let SlotRows { slots, d_e, ld } = rows;
    for ((i, s), partners) in s.chunks_exact_mut(ld).enumerate().zip(partners.chunks_exact(slots)) {
        let own = &y[i * ld..][..ld];
        for (k, &partner) in partners.iter().enumerate() {
            let other = &y[partner as usize..][..d_e];
            let own = &own[k * d_e..][..d_e];
            for ((s, &a), &b) in s[k * d_e..][..d_e].iter_mut().zip(own).zip(other) {
                *s = a - b;
            }
        }
        s[slots * d_e..].fill(T::ZERO);
    }
}

kernel! {
    /// s = y − y of the partner, slot by slot; padding becomes 0.
    pub(crate) fn exchange_any, exchange_any_at<T>(rows: SlotRows, partners: &[u32], y: &[T], s: &mut [T])
        = partners_body;
}

/// Scalars that bring an exchange kernel of their own.
pub trait ExchangeKernel: Sized {
    /// s = y − y of the partner, slot by slot; padding becomes 0.
    fn exchange_partners(rows: SlotRows, partners: &Partners, y: &[Self], s: &mut [Self]);
}

impl ExchangeKernel for f64 {
    fn exchange_partners(rows: SlotRows, partners: &Partners, y: &[f64], s: &mut [f64]) {
        exchange_any(rows, &partners.rows, y, s);
    }
}

impl ExchangeKernel for f32 {
    #[allow(unsafe_code)]
    fn exchange_partners(rows: SlotRows, partners: &Partners, y: &[f32], s: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if rows.d_e <= 8 && super::simd::level() >= super::simd::Level::Avx2 {
            let agents = partners.rows.len() / rows.slots.max(1);
            let fits = rows.slots * rows.d_e <= rows.ld
                && y.len() >= agents * rows.ld
                && s.len() >= agents * rows.ld
                && partners.end <= y.len();
            assert!(fits, "exchange: a vector shorter than its agents");
            // SAFETY: AVX2 was detected and the lengths were just checked.
            unsafe { avx2::exchange(rows, &partners.rows, y, s) };
            return;
        }
        exchange_any(rows, &partners.rows, y, s);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    #![allow(unsafe_code)]
    use super::SlotRows;
    use std::arch::x86_64::*;

    /// Eight lanes at a time, of which `d_e` count: each store is overwritten by the next slot's, the rest by zeros.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn exchange(rows: SlotRows, partners: &[u32], y: &[f32], s: &mut [f32]) {
        let SlotRows { slots, d_e, ld } = rows;
        let (y_len, agents) = (y.len(), partners.len() / slots);
        for i in 0..agents {
            for k in 0..slots {
                let (own, partner) = (i * ld + k * d_e, partners[i * slots + k] as usize);
                let wide = own + 8 <= (i + 1) * ld && partner + 8 <= y_len;
                if wide {
                    // SAFETY: both loads and the store end inside their slices, as `wide` says (s is as long as y).
                    unsafe {
                        let a = _mm256_loadu_ps(y.as_ptr().add(own));
                        let b = _mm256_loadu_ps(y.as_ptr().add(partner));
                        _mm256_storeu_ps(s.as_mut_ptr().add(own), _mm256_sub_ps(a, b));
                    }
                } else {
                    for r in 0..d_e {
                        s[own + r] = y[own + r] - y[partner + r];
                    }
                }
            }
            s[i * ld + slots * d_e..(i + 1) * ld].fill(0.0);
        }
    }
}
