//! The exchange along edges of a sheaf where every slot meets at most one other: s = y − y of the partner slot.
//!
//! `partners[k]` is the row where the partner of slot k starts; a slot without an edge is its own partner, so that its
//! difference is 0. Slots lie `d_e` rows apart within an agent's `ld` rows.

use std::ops::Range;

use super::simd::kernel;
use crate::Real;

/// Sizes of the rows of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRows {
    /// Slots of an agent.
    pub slots: usize,
    /// Rows of a slot.
    pub d_e: usize,
    /// Rows of an agent, padded.
    pub ld: usize,
}

/// Where the partner of every slot starts, and how far those rows reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partners {
    rows: Vec<u32>, // [agents, slots]
    sizes: SlotRows,
    end: usize,
    reach: usize,
    /// Whether some rows lie behind those of all agents: partners that another process computes.
    beyond: bool,
}

impl Partners {
    /// Partners of agents whose rows have these sizes. Rows behind those of the last agent are allowed; then the whole
    /// vector must be given to every exchange.
    pub fn new(rows: Vec<u32>, sizes: SlotRows) -> Self {
        let SlotRows { slots, d_e, ld } = sizes;
        let end = rows.iter().max().map_or(0, |&last| last as usize + d_e);
        let apart = |(k, &row): (usize, &u32)| (k / slots).abs_diff((row as usize + d_e - 1) / ld);
        let before = |(k, &row): (usize, &u32)| (k / slots).abs_diff(row as usize / ld);
        let places = || rows.iter().enumerate();
        let reach = places().map(apart).chain(places().map(before)).max().unwrap_or(0);
        let beyond = end > rows.len() / slots.max(1) * ld;
        Self { rows, sizes, end, reach, beyond }
    }

    /// The largest distance between an agent and a partner, in agents.
    #[inline]
    pub fn reach(&self) -> usize {
        self.reach
    }

    /// The first row of each slot's partner.
    #[inline]
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// All rows lie below this.
    #[inline]
    pub fn end(&self) -> usize {
        self.end
    }
}

/// The rows of agents around a band: where they start, and where the band does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Row of the whole vector that is first in `y`.
    base: usize,
    /// Row of `y` at which the band's agents start.
    first: usize,
}

#[inline(always)]
fn band_body<T: Real, const FMA: bool>(
    rows: SlotRows,
    partners: &[u32],
    window: Window,
    y: &[T],
    s: &mut [T],
) {
    let SlotRows { slots, d_e, ld } = rows;
    for ((i, s), partners) in s.chunks_exact_mut(ld).enumerate().zip(partners.chunks_exact(slots)) {
        let own = &y[window.first + i * ld..][..ld];
        for (k, &partner) in partners.iter().enumerate() {
            let other = &y[partner as usize - window.base..][..d_e];
            let own = &own[k * d_e..][..d_e];
            for ((s, &a), &b) in s[k * d_e..][..d_e].iter_mut().zip(own).zip(other) {
                *s = a - b;
            }
        }
        s[slots * d_e..].fill(T::ZERO);
    }
}

/// The whole sheaf as one band, for kernels that continue with `s`.
#[inline(always)]
pub(super) fn partners_body<T: Real, const FMA: bool>(
    rows: SlotRows,
    partners: &[u32],
    y: &[T],
    s: &mut [T],
) {
    band_body::<T, FMA>(rows, partners, Window { base: 0, first: 0 }, y, s);
}

kernel! {
    /// s = y − y of the partner, slot by slot, for the agents of a band; padding becomes 0.
    fn exchange_any, exchange_any_at<T>(rows: SlotRows, partners: &[u32], window: Window, y: &[T], s: &mut [T])
        = band_body;
}

/// Scalars with an exchange kernel of their own.
pub trait ExchangeKernel: Sized {
    /// s = y − y of the partner, slot by slot, for a range of agents; padding becomes 0. `y` starts with the rows of
    /// agent `base` and holds all partners' rows; `s` starts with the rows of the range.
    fn exchange_partners(
        rows: SlotRows,
        partners: &Partners,
        agents: Range<usize>,
        base: usize,
        y: &[Self],
        s: &mut [Self],
    );
}

impl ExchangeKernel for f64 {
    fn exchange_partners(
        rows: SlotRows,
        partners: &Partners,
        agents: Range<usize>,
        base: usize,
        y: &[f64],
        s: &mut [f64],
    ) {
        let window = Window { base: base * rows.ld, first: (agents.start - base) * rows.ld };
        exchange_any(rows, &partners.rows[agents.start * rows.slots..agents.end * rows.slots], window, y, s);
    }
}

impl ExchangeKernel for f32 {
    #[allow(unsafe_code)]
    fn exchange_partners(
        rows: SlotRows,
        partners: &Partners,
        agents: Range<usize>,
        base: usize,
        y: &[f32],
        s: &mut [f32],
    ) {
        let window = Window { base: base * rows.ld, first: (agents.start - base) * rows.ld };
        let of = &partners.rows[agents.start * rows.slots..agents.end * rows.slots];
        #[cfg(target_arch = "x86_64")]
        if rows.d_e <= 8 && super::simd::level() >= super::simd::Level::Avx2 {
            partners.check(rows, &agents, base, y.len());
            assert!(s.len() >= agents.len() * rows.ld, "exchange: fewer differences than agents");
            // SAFETY: AVX2 was detected and the lengths were just checked.
            unsafe { avx2::exchange(rows, of, window, y, s) };
            return;
        }
        exchange_any(rows, of, window, y, s);
    }
}

impl Partners {
    /// Panics unless the rows of the given agents and of all their partners lie within `len` rows from agent `base` on.
    pub(super) fn check(&self, sizes: SlotRows, agents: &Range<usize>, base: usize, len: usize) {
        let SlotRows { slots, d_e, ld } = sizes;
        // The reach of the partners was computed for rows of exactly these sizes.
        assert!(sizes == self.sizes, "exchange: rows of other sizes");
        assert!(slots * d_e <= ld && agents.end * slots <= self.rows.len(), "exchange: agents without slots");
        let all = self.rows.len() / slots.max(1);
        if self.beyond {
            assert!(base == 0 && self.end.max(agents.end * ld) <= len, "exchange: a partner beyond the rows");
            return;
        }
        let (first, last) = (agents.start.saturating_sub(self.reach), (agents.end + self.reach).min(all));
        let inside = base <= first && (last - base) * ld <= len && self.end <= all * ld;
        assert!(inside || agents.is_empty(), "exchange: a partner beyond the rows");
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    #![allow(unsafe_code)]
    use super::{SlotRows, Window};
    use std::arch::x86_64::*;

    /// Eight lanes at a time, of which `d_e` are valid: the next slot's store overwrites the excess, zeros the last.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn exchange(
        rows: SlotRows,
        partners: &[u32],
        window: Window,
        y: &[f32],
        s: &mut [f32],
    ) {
        let SlotRows { slots, d_e, ld } = rows;
        let (y_len, agents) = (y.len(), partners.len() / slots);
        for i in 0..agents {
            for k in 0..slots {
                let (to, partner) = (i * ld + k * d_e, partners[i * slots + k] as usize - window.base);
                let own = window.first + to;
                let wide = k * d_e + 8 <= ld && partner + 8 <= y_len;
                if wide {
                    // SAFETY: both loads and the store end inside their slices; `wide` and the caller ensure this.
                    unsafe {
                        let a = _mm256_loadu_ps(y.as_ptr().add(own));
                        let b = _mm256_loadu_ps(y.as_ptr().add(partner));
                        _mm256_storeu_ps(s.as_mut_ptr().add(to), _mm256_sub_ps(a, b));
                    }
                } else {
                    for r in 0..d_e {
                        s[to + r] = y[own + r] - y[partner + r];
                    }
                }
            }
            s[i * ld + slots * d_e..(i + 1) * ld].fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Level;

    /// A ring of agents with two slots: each slot meets the other slot of the next agent; the last agent is alone.
    fn ring(agents: usize, d_e: usize) -> (SlotRows, Partners) {
        let sizes = SlotRows { slots: 2, d_e, ld: (2 * d_e).div_ceil(16) * 16 };
        let row = |agent: usize, slot: usize| (agent * sizes.ld + slot * d_e) as u32;
        let rows = (0..2 * agents).map(|k| match (k / 2, k % 2) {
            (agent, slot) if agent + 1 == agents => row(agent, slot),
            (agent, 0) => row((agent + agents - 2) % (agents - 1), 1),
            (agent, _) => row((agent + 1) % (agents - 1), 0),
        });
        (sizes, Partners::new(rows.collect(), sizes))
    }

    #[test]
    fn every_level_gives_the_bits_of_the_plain_loop_for_a_band_and_for_all() {
        for d_e in [1, 3, 5, 7, 8, 9, 12] {
            let (agents, (sizes, partners)) = (7, ring(7, d_e));
            let y: Vec<f32> = (0..agents * sizes.ld).map(|k| (k as f32).sin()).collect();
            for band in [0..agents, 2..5] {
                let mut fast = vec![f32::NAN; band.len() * sizes.ld];
                f32::exchange_partners(sizes, &partners, band.clone(), 0, &y, &mut fast);
                let window = Window { base: 0, first: band.start * sizes.ld };
                for level in [Level::Portable, Level::Avx2, Level::Avx512] {
                    let mut plain = vec![f32::NAN; fast.len()];
                    exchange_any_at(
                        level,
                        sizes,
                        &partners.rows[2 * band.start..2 * band.end],
                        window,
                        &y,
                        &mut plain,
                    );
                    assert_eq!(fast, plain, "d_e {d_e}, agents {band:?}, {level:?}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "rows of other sizes")]
    fn partners_found_for_rows_of_other_sizes_are_refused() {
        let (sizes, partners) = ring(7, 5);
        let other = SlotRows { ld: 2 * sizes.ld, ..sizes };
        partners.check(other, &(0..3), 0, 7 * other.ld);
    }
}
