//! The Laplacian of a large sheaf, band by band, so that rows never leave the cache.
//!
//! Rows are nearly five times as long as states (40 numbers for 10 in the maze). If they are written whole and read
//! again, a sweep over a large sheaf is bound by their memory traffic. But an agent needs only the rows of its
//! partners, and on a grid those are at most a grid row away: its *reach*. So the sweep projects one band of agents
//! after the other and lifts each as soon as all its partners are projected:
//!
//! ```text
//! project   0   1   2   3   4 …
//! lift              0   1   2 …      lag = ⌈reach / BAND⌉, here 2
//! ```
//!
//! The rows of the last 2·lag + 1 bands suffice. They lie in a window that moves on when it is full; a sheaf of few
//! bands fits it entirely, and the sweep is a projection of all agents, then a lift of all. While a band is lifted, the
//! states that the next one needs are prefetched.

use std::ops::Range;

use crate::Real;
use crate::share::Share;
use sheaf_kernels::exchange::{Partners, SlotRows};
use sheaf_kernels::stack::{BAND, LiftBand, Table};

/// Bands of rows that always fit the second-level cache beside the stacks (a band of the maze is 24 kB).
const WINDOW: usize = 16;

/// The source of the states of a sweep.
pub(crate) trait Input<T> {
    /// Makes these states ready; called for every range in order, before it is read.
    fn ready(&mut self, states: Range<usize>);
    /// All states, of which only those made ready are valid.
    fn get(&self) -> &[T];
    /// What [`ready`](Self::ready) touches; it may be prefetched.
    fn sources(&self) -> [&[T]; 2];
}

/// States that already exist.
pub(crate) struct Given<'a, T>(pub &'a [T]);

impl<T> Input<T> for Given<'_, T> {
    fn ready(&mut self, _states: Range<usize>) {}
    fn get(&self) -> &[T] {
        self.0
    }
    fn sources(&self) -> [&[T]; 2] {
        [self.0, &[]]
    }
}

/// States written by `make(range, states of the range)` just before they are read.
pub(crate) struct Made<'a, T, F> {
    pub to: &'a mut [T],
    pub make: F,
    /// What `make` reads besides the existing states.
    pub from: &'a [T],
}

impl<T, F: FnMut(Range<usize>, &mut [T])> Input<T> for Made<'_, T, F> {
    fn ready(&mut self, states: Range<usize>) {
        (self.make)(states.clone(), &mut self.to[states]);
    }
    fn get(&self) -> &[T] {
        self.to
    }
    fn sources(&self) -> [&[T]; 2] {
        [self.from, self.to]
    }
}

/// A sheaf whose maps are a table and whose slots have one partner each.
pub(super) struct Bands<'a, T> {
    pub table: Table<'a>,
    pub slots: SlotRows,
    pub partners: &'a Partners,
    pub stacks: &'a [T],
    pub tiles: &'a [T],
}

impl<T: Real> Bands<'_, T> {
    /// q = gamma·L p + shift·p, in the form that the sweep of the products needs.
    #[inline]
    pub fn sweep(
        &self,
        gamma: T,
        shift: T,
        mut input: impl Input<T>,
        q: &mut [T],
        y: &mut [T],
        s: &mut [T],
        keep: bool,
        mut after: impl FnMut(Range<usize>, &[T], &[T]),
    ) {
        let Table { d_v, ld, .. } = self.table;
        let agents = self.table.index.len();
        let (bands, lag) = (agents.div_ceil(BAND), self.partners.reach().div_ceil(BAND));
        let window = bands.min(WINDOW.max(2 * (2 * lag + 1)));
        let of = |band: usize| band * BAND..((band + 1) * BAND).min(agents);
        let states = |agents: &Range<usize>| agents.start * d_v..agents.end * d_v;
        let mut first = 0; // the band whose rows y starts with
        for k in 0..bands + lag {
            if k < bands {
                if k >= first + window {
                    let held = (k - 2 * lag - first) * BAND * ld..(k - first) * BAND * ld;
                    y.copy_within(held, 0);
                    first = k - 2 * lag;
                }
                let agents = of(k);
                input.ready(states(&agents));
                T::project_table(self.table, agents, first * BAND, self.stacks, input.get(), y);
            }
            if k >= lag {
                let agents = of(k - lag);
                let part = states(&agents);
                let next = states(&of((k + 1).min(bands - 1)));
                let soon = input
                    .sources()
                    .map(|all| if k + 1 < bands && !all.is_empty() { &all[next.clone()] } else { &[] });
                T::lift_band(LiftBand {
                    table: self.table,
                    slots: self.slots,
                    partners: self.partners,
                    stacks: self.stacks,
                    tiles: self.tiles,
                    agents,
                    base: first * BAND,
                    gamma,
                    shift,
                    p: input.get(),
                    y,
                    s,
                    keep,
                    q,
                    soon,
                });
                after(part.clone(), &input.get()[part.clone()], &q[part]);
            }
        }
    }

    /// The same on a rank's part of a sheaf. The rows of bands at the border travel while the others are swept as if they had
    /// no partners elsewhere; then the bands at the border are lifted again, with all their partners.
    pub fn sweep_shared(
        &self,
        share: &Share,
        gamma: T,
        shift: T,
        input: &mut impl Input<T>,
        q: &mut [T],
        y: &mut [T],
        s: &mut [T],
        keep: bool,
    ) {
        let agents = self.table.index.len();
        let bands = agents.div_ceil(BAND);
        let of = |band: usize| band * BAND..((band + 1) * BAND).min(agents);
        input.ready(0..agents * self.table.d_v);
        let z = input.get();
        let project = |band: usize, y: &mut [T]| T::project_table(self.table, of(band), 0, self.stacks, z, y);
        let border = share.border_bands();
        border.iter().cloned().flatten().for_each(|band| project(band, y));
        // Where most bands are at the border, lifting them twice costs more than rows that leave the cache.
        let twice = 2 * border.iter().map(Range::len).sum::<usize>() <= bands;
        share.swap(y, |y| match twice {
            true => self.sweep(gamma, shift, Given(z), q, y, s, keep, |_, _, _| {}),
            false => (0..bands).for_each(|band| project(band, y)),
        });
        let partners = share.partners().unwrap_or(self.partners);
        let lag = self.partners.reach().div_ceil(BAND);
        let whole = 0..bands;
        let all = std::slice::from_ref(&whole);
        for run in if twice { border } else { all } {
            if twice {
                (run.start.saturating_sub(lag)..(run.end + lag).min(bands)).for_each(|band| project(band, y));
            }
            for band in run.clone() {
                T::lift_band(LiftBand {
                    table: self.table,
                    slots: self.slots,
                    partners,
                    stacks: self.stacks,
                    tiles: self.tiles,
                    agents: of(band),
                    base: 0,
                    gamma,
                    shift,
                    p: z,
                    y,
                    s,
                    keep,
                    q,
                    soon: [&[], &[]],
                });
            }
        }
    }
}
