//! The kernels of low-rank maps on one base: F\[s\] = R + A\[s\]·B\[s\]ᵀ for every slot s of an agent.
//!
//! With m = slots·rank, one agent's products are chains of small ones, each of the form "broadcast a coefficient, add
//! a row", which is what vector units do best; every matrix is therefore kept in the order its product reads it:
//!
//! | product | steps | reads |
//! | --- | --- | --- |
//! | y = F z | t = R z, c = Bᵀ z, y\[s\] = t + A\[s\] c\[s\] | Rᵀ `[d_v, d_e]`, B `[d_v, m]`, A `[slots, rank, d_e]` |
//! | g = Fᵀ s | u = Σ s\[s\], e\[s\] = A\[s\]ᵀ s\[s\], g = Rᵀ u + B e | R `[d_e, d_v]`, Aᵀ `[slots, d_e, rank]`, Bᵀ `[m, d_v]` |
//! | dF += rows·stateᵀ | a block of dF stays in registers over all terms | |
//!
//! R is applied once per agent, not once per slot. Agents with the same view come one after another, [`GROUP`] of them
//! at a time, so that a row is loaded once for all of them; of the many distinct views that one agent has alone, every
//! number is read once per product, and the products run as fast as the cache delivers.

pub(crate) use super::low_rank_outers::outers;
use super::simd::{fma, kernel};
use crate::Real;

/// Sizes of the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowRankShape {
    /// Vertex stalk.
    pub d_v: usize,
    /// Edge stalk.
    pub d_e: usize,
    /// Slots of an agent.
    pub slots: usize,
    /// Rank of the update of each slot.
    pub rank: usize,
    /// Rows of an agent, padded.
    pub ld: usize,
}

/// Longest c, e, t or u the kernels hold.
const CAPACITY: usize = 128;

/// Agents of one view that are multiplied together.
pub const GROUP: usize = 4;

impl LowRankShape {
    /// slots · rank.
    #[inline(always)]
    pub fn m(&self) -> usize {
        self.slots * self.rank
    }

    /// Numbers of a packed base: R, then Rᵀ.
    pub fn base_len(&self) -> usize {
        2 * self.d_e * self.d_v
    }

    /// Numbers of a packed view: B, A, Aᵀ, Bᵀ.
    pub fn view_len(&self) -> usize {
        2 * self.m() * (self.d_v + self.d_e)
    }

    /// Whether the kernels take these sizes.
    pub fn fits(&self) -> bool {
        self.d_e <= CAPACITY && self.m() <= CAPACITY && self.ld.is_multiple_of(16)
    }
}

/// Which view each agent has, and the agents in an order that puts equal views side by side.
#[derive(Clone, Copy, Debug)]
pub struct Grouped<'a> {
    /// The view of each agent.
    pub index: &'a [u32], // [agents]
    /// All agents, those with the same view next to each other.
    pub order: &'a [u32], // [agents]
}

impl<'a> Grouped<'a> {
    /// Calls `f(view, agents of it)` for runs of at most `most` agents.
    #[inline(always)]
    pub(super) fn each_run(&self, most: usize, mut f: impl FnMut(usize, &'a [u32])) {
        let mut rest = self.order;
        while let Some(&first) = rest.first() {
            let view = self.index[first as usize];
            let same = |&&a: &&u32| self.index[a as usize] == view;
            let (run, more) = rest.split_at(rest.iter().take(most).take_while(same).count());
            f(view as usize, run);
            rest = more;
        }
    }
}

/// Covers `0..$n` by pieces of 64, 32, 24, 16, 8 or 1 lanes and calls `$f` with the piece's width and start.
macro_rules! cover {
    ($n:expr, $f:ident::<$t:ident, $fma:ident, $g:tt>($($arg:expr),*)) => {{
        let (n, mut at) = ($n, 0);
        while at < n {
            at += match n - at {
                64.. => { $f::<$t, $fma, $g, 64>(at, $($arg),*); 64 }
                32.. => { $f::<$t, $fma, $g, 32>(at, $($arg),*); 32 }
                24.. => { $f::<$t, $fma, $g, 24>(at, $($arg),*); 24 }
                16.. => { $f::<$t, $fma, $g, 16>(at, $($arg),*); 16 }
                8.. => { $f::<$t, $fma, $g, 8>(at, $($arg),*); 8 }
                _ => { $f::<$t, $fma, $g, 1>(at, $($arg),*); 1 }
            };
        }
    }};
}

pub(super) use cover;

/// acc\[g\] += Σ_j coefs\[g\]\[j\] · rows\[j\]\[at..at + N\].
#[inline(always)]
fn accumulate<T: Real, const FMA: bool, const G: usize, const N: usize>(
    acc: &mut [[T; N]; G],
    coefs: &[&[T]; G],
    rows: &[T],
    stride: usize,
    at: usize,
) {
    for (j, row) in rows.chunks_exact(stride).enumerate() {
        let row: &[T; N] = row[at..at + N].try_into().expect("N lanes");
        for g in 0..G {
            let coef = coefs[g][j];
            for l in 0..N {
                acc[g][l] = fma::<T, FMA>(coef, row[l], acc[g][l]);
            }
        }
    }
}

/// out\[g\]\[at..\] = Σ_j coefs\[g\]\[j\] · rows\[j\]\[at..\].
#[inline(always)]
fn fill<T: Real, const FMA: bool, const G: usize, const N: usize>(
    at: usize,
    coefs: &[&[T]; G],
    rows: &[T],
    stride: usize,
    out: &mut [[T; CAPACITY]; G],
    first: usize,
) {
    let mut acc = [[T::ZERO; N]; G];
    accumulate::<T, FMA, G, N>(&mut acc, coefs, rows, stride, at);
    for g in 0..G {
        out[g][first + at..first + at + N].copy_from_slice(&acc[g]);
    }
}

/// y of one slot: starts from t.
#[inline(always)]
fn slot_rows<T: Real, const FMA: bool, const G: usize, const N: usize>(
    at: usize,
    t: &[[T; CAPACITY]; G],
    coefs: &[&[T]; G],
    rows: &[T],
    stride: usize,
    y: &mut [T],
    starts: &[usize; G],
) {
    let mut acc = [[T::ZERO; N]; G];
    for g in 0..G {
        acc[g].copy_from_slice(&t[g][at..at + N]);
    }
    accumulate::<T, FMA, G, N>(&mut acc, coefs, rows, stride, at);
    for g in 0..G {
        y[starts[g] + at..][..N].copy_from_slice(&acc[g]);
    }
}

/// g = Rᵀ u + B e.
#[inline(always)]
fn lifted<T: Real, const FMA: bool, const G: usize, const N: usize>(
    at: usize,
    u: &[&[T]; G],
    base: &[T],
    e: &[&[T]; G],
    b_t: &[T],
    d_v: usize,
    out: &mut [T],
    starts: &[usize; G],
) {
    let mut acc = [[T::ZERO; N]; G];
    accumulate::<T, FMA, G, N>(&mut acc, u, base, d_v, at);
    accumulate::<T, FMA, G, N>(&mut acc, e, b_t, d_v, at);
    for g in 0..G {
        out[starts[g] + at..][..N].copy_from_slice(&acc[g]);
    }
}

/// Room for t and c, or u and e, of a group.
struct Room<T, const G: usize> {
    t: [[T; CAPACITY]; G],
    c: [[T; CAPACITY]; G],
}

impl<T: Real, const G: usize> Room<T, G> {
    #[inline(always)]
    fn new() -> Self {
        Self { t: [[T::ZERO; CAPACITY]; G], c: [[T::ZERO; CAPACITY]; G] }
    }
}

#[inline(always)]
fn project_group<T: Real, const FMA: bool, const G: usize>(
    shape: LowRankShape,
    base: &[T],
    view: &[T],
    agents: &[u32],
    z: &[T],
    y: &mut [T],
    room: &mut Room<T, G>,
) {
    let LowRankShape { d_v, d_e, slots, rank, ld } = shape;
    let m = slots * rank;
    let (base_t, b) = (&base[d_e * d_v..][..d_e * d_v], &view[..d_v * m]);
    let a = &view[d_v * m..][..m * d_e];
    let z: [&[T]; G] = std::array::from_fn(|g| &z[agents[g] as usize * d_v..][..d_v]);
    let Room { t, c } = room;
    cover!(d_e, fill::<T, FMA, G>(&z, base_t, d_e, t, 0));
    cover!(m, fill::<T, FMA, G>(&z, b, m, c, 0));
    for slot in 0..slots {
        let a = &a[slot * rank * d_e..][..rank * d_e];
        let coefs: [&[T]; G] = std::array::from_fn(|g| &c[g][slot * rank..][..rank]);
        let starts: [usize; G] = std::array::from_fn(|g| agents[g] as usize * ld + slot * d_e);
        cover!(d_e, slot_rows::<T, FMA, G>(t, &coefs, a, d_e, y, &starts));
    }
    for &agent in agents {
        y[agent as usize * ld + slots * d_e..(agent as usize + 1) * ld].fill(T::ZERO);
    }
}

#[inline(always)]
fn lift_group<T: Real, const FMA: bool, const G: usize>(
    shape: LowRankShape,
    base: &[T],
    view: &[T],
    agents: &[u32],
    s: &[T],
    out: &mut [T],
    room: &mut Room<T, G>,
) {
    let LowRankShape { d_v, d_e, slots, rank, ld } = shape;
    let m = slots * rank;
    let (a_t, b_t) = view[m * (d_v + d_e)..][..m * (d_v + d_e)].split_at(m * d_e);
    let Room { t: u, c: e } = room;
    for g in 0..G {
        let s = &s[agents[g] as usize * ld..][..slots * d_e];
        u[g][..d_e].fill(T::ZERO);
        for rows in s.chunks_exact(d_e) {
            for (u, &s) in u[g][..d_e].iter_mut().zip(rows) {
                *u += s;
            }
        }
    }
    for slot in 0..slots {
        let a_t = &a_t[slot * d_e * rank..][..d_e * rank];
        let s: [&[T]; G] = std::array::from_fn(|g| &s[agents[g] as usize * ld + slot * d_e..][..d_e]);
        if rank > 0 {
            cover!(rank, fill::<T, FMA, G>(&s, a_t, rank, e, slot * rank));
        }
    }
    let (u, e): ([&[T]; G], [&[T]; G]) =
        (std::array::from_fn(|g| &u[g][..d_e]), std::array::from_fn(|g| &e[g][..m]));
    let starts: [usize; G] = std::array::from_fn(|g| agents[g] as usize * d_v);
    cover!(d_v, lifted::<T, FMA, G>(&u, &base[..d_e * d_v], &e, b_t, d_v, out, &starts));
}

/// Applies `$group` to every run: [`GROUP`] agents at a time, the rest one by one.
macro_rules! by_groups {
    ($group:ident, $agents:expr, |$view:ident, $run:ident, $room:ident| $($call:tt)*) => {{
        let (mut wide, mut single) = (Room::<T, GROUP>::new(), Room::<T, 1>::new());
        $agents.each_run(GROUP, |$view, run| {
            if run.len() == GROUP {
                let ($run, $room) = (run, &mut wide);
                $group::<T, FMA, GROUP>$($call)*;
            } else {
                for $run in run.chunks_exact(1) {
                    let $room = &mut single;
                    $group::<T, FMA, 1>$($call)*;
                }
            }
        });
    }};
}

#[inline(always)]
fn project_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    base: &[T],
    views: &[T],
    z: &[T],
    y: &mut [T],
) {
    let len = shape.view_len();
    by_groups!(project_group, agents, |view, run, room| (
        shape,
        base,
        &views[view * len..][..len],
        run,
        z,
        y,
        room
    ));
}

#[inline(always)]
fn lift_body<T: Real, const FMA: bool>(
    shape: LowRankShape,
    agents: Grouped<'_>,
    base: &[T],
    views: &[T],
    s: &[T],
    g: &mut [T],
) {
    let len = shape.view_len();
    by_groups!(lift_group, agents, |view, run, room| (
        shape,
        base,
        &views[view * len..][..len],
        run,
        s,
        g,
        room
    ));
}

kernel! {
    /// y_i = F_i z_i for every agent; padding becomes 0.
    pub(crate) fn project, project_at<T>(
        shape: LowRankShape, agents: Grouped<'_>, base: &[T], views: &[T], z: &[T], y: &mut [T],
    ) = project_body;
}
kernel! {
    /// g_i = F_iᵀ s_i for every agent.
    pub(crate) fn lift, lift_at<T>(
        shape: LowRankShape, agents: Grouped<'_>, base: &[T], views: &[T], s: &[T], g: &mut [T],
    ) = lift_body;
}
