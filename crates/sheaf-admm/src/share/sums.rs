//! Sums over all agents or edges of a sheaf: chunk by chunk, over all threads and ranks, added in the order of the chunks.
//!
//! A sheaf of one chunk that no other rank shares is summed as a whole, by the plain kernels.

use std::ops::Range;

use crate::chunks::{self, Cut, Parts};
use crate::sheaf::Sheaf;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::vector;

impl Sheaf {
    /// Whether sums are plain sums: one chunk, one rank.
    #[inline]
    pub(crate) fn is_one_chunk(&self) -> bool {
        self.share().is_none() && self.agents() <= chunks::AGENTS
    }

    /// Calls `f(states of a chunk, its part)` for every own chunk and joins what all chunks of the sheaf give, in their order,
    /// starting from zeros.
    pub(crate) fn fold<P: Parts, T: Real, const K: usize>(
        &self,
        parts: P,
        f: impl Fn(Range<usize>, P) -> [T; K] + Sync,
        join: impl Fn(&mut [T; K], [T; K]),
    ) -> [T; K] {
        if self.is_one_chunk() {
            return f(0..self.state_len(), parts);
        }
        let own = if self.agents() == 0 { 0 } else { chunks::count(self.agents()) };
        let offsets = self.state_offsets();
        let one = |chunk: usize, part: P| Ok::<_, Error>(f(chunks::run(chunk, offsets), part));
        let mut total = [T::ZERO; K];
        // No chunk fails.
        let made: Result<()> = match self.share() {
            None => chunks::in_order(own, parts, one, |sums| join(&mut total, sums)),
            Some(share) => {
                let make = |take: &mut dyn FnMut([T; K])| drop(chunks::in_order(own, parts, one, take));
                share.gather(make, |sums| join(&mut total, sums));
                Ok(())
            }
        };
        debug_assert!(made.is_ok());
        total
    }

    /// As [`fold`](Self::fold), adding.
    pub(crate) fn sums<P: Parts, T: Real, const K: usize>(
        &self,
        parts: P,
        f: impl Fn(Range<usize>, P) -> [T; K] + Sync,
    ) -> [T; K] {
        self.fold(parts, f, |total, own| total.iter_mut().zip(own).for_each(|(t, v)| *t += v))
    }

    /// A sum over agents: `f` gives that of a range of them.
    pub fn sum_of_agents<T: Real>(&self, f: impl Fn(Range<usize>) -> T + Sync) -> T {
        let [sum] = self.sums((), |states, ()| [f(self.agents_of(states))]);
        sum
    }

    /// The agents that have these states.
    pub(crate) fn agents_of(&self, states: Range<usize>) -> Range<usize> {
        let agent = |state: usize| self.state_offsets().partition_point(|&start| start < state);
        agent(states.start)..agent(states.end)
    }

    /// a·b over the states of all agents.
    pub(crate) fn dot<T: Real>(&self, a: &[T], b: &[T]) -> T {
        let [sum] = self.sums((), |own, ()| [vector::dot(&a[own.clone()], &b[own])]);
        sum
    }

    /// Whether it holds on any rank.
    pub(crate) fn any(&self, here: bool) -> bool {
        match self.share() {
            None => here,
            Some(share) => {
                let own = [if here { 1.0f64 } else { 0.0 }];
                share.collect(&own, &vec![1; share.comm().ranks()]).contains(&1.0)
            }
        }
    }

    /// Calls `f(edge, sums of its chunk)` for every edge and joins what all chunks have, in their order, starting from zeros. An
    /// edge belongs to the chunk of its first end. Not for a sheaf of one chunk.
    pub(crate) fn fold_edges<T: Real, const K: usize>(
        &self,
        f: impl Fn(usize, &mut [T; K]),
        join: impl Fn(&mut [T; K], [T; K]),
    ) -> [T; K] {
        let count = if self.agents() == 0 { 0 } else { chunks::count(self.agents()) };
        // Edges are in any order. So many chunks are summed in one pass over them, which needs no memory but the stack's.
        const TOGETHER: usize = 64;
        let each_chunk = |take: &mut dyn FnMut([T; K])| {
            for first in (0..count).step_by(TOGETHER) {
                let mut room = [[T::ZERO; K]; TOGETHER];
                let own = &mut room[..TOGETHER.min(count - first)];
                for (edge, &chunk) in self.edge_chunks().iter().enumerate() {
                    let place = (chunk as usize).checked_sub(first);
                    if let Some(sums) = place.and_then(|place| own.get_mut(place)) {
                        f(edge, sums);
                    }
                }
                own.iter().for_each(|&sums| take(sums));
            }
        };
        let mut total = [T::ZERO; K];
        match self.share() {
            None => each_chunk(&mut |sums| join(&mut total, sums)),
            Some(share) => share.gather(each_chunk, |sums| join(&mut total, sums)),
        }
        total
    }

    /// a·b over the stalks of all edges.
    pub(crate) fn edge_dot<T: Real>(&self, a: &[T], b: &[T]) -> T {
        if self.is_one_chunk() {
            return vector::dot(a, b);
        }
        let one = |edge: usize, [sum]: &mut [T; 1]| {
            let edge = &self.edges()[edge];
            let stalk = edge.start as usize..(edge.start + edge.dim) as usize;
            *sum += a[stalk.clone()].iter().zip(&b[stalk]).map(|(&a, &b)| a * b).sum::<T>();
        };
        let [sum] = self.fold_edges(one, |[total], [own]| *total += own);
        sum
    }

    /// Length of a state vector of the whole sheaf.
    pub(crate) fn whole_state_len(&self) -> usize {
        self.share().map_or(self.state_len(), |share| share.whole_state_len())
    }

    /// Length of an edge vector of the whole sheaf.
    pub(crate) fn whole_edge_len(&self) -> usize {
        self.share().map_or(self.edge_len(), |share| share.whole_edge_len())
    }
}

/// A sum that grows band by band through the chunks of a sheaf, in order.
#[derive(Debug)]
pub(crate) struct ChunkSum<'a, T> {
    offsets: &'a [usize], // [agents + 1]
    chunk: usize,
    own: T,
    total: T,
}

impl<'a, T: Real> ChunkSum<'a, T> {
    pub(crate) fn new(sheaf: &'a Sheaf) -> Self {
        Self { offsets: sheaf.state_offsets(), chunk: 0, own: T::ZERO, total: T::ZERO }
    }

    /// Adds the sum of a band that begins with this state.
    pub(crate) fn add(&mut self, state: usize, sum: T) {
        while state >= chunks::run(self.chunk, self.offsets).end
            && state < self.offsets[self.offsets.len() - 1]
        {
            self.total += self.own;
            self.own = T::ZERO;
            self.chunk += 1;
        }
        self.own += sum;
    }

    pub(crate) fn total(self) -> T {
        if self.chunk == 0 { self.own } else { self.total + self.own }
    }
}

/// How the vectors of a solve are added up: as states of a sheaf, or as plain vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes<'a>(pub Option<&'a Sheaf>);

impl<'a> Lanes<'a> {
    /// The sheaf, if its sums are not plain ones.
    fn cut(&self) -> Option<&'a Sheaf> {
        self.0.filter(|sheaf| !sheaf.is_one_chunk())
    }

    pub(crate) fn dot<T: Real>(&self, a: &[T], b: &[T]) -> T {
        self.cut().map_or_else(|| vector::dot(a, b), |sheaf| sheaf.dot(a, b))
    }

    /// x += a·p, r −= a·q; returns r·r.
    pub(crate) fn cg_update<T: Real>(&self, x: &mut [T], r: &mut [T], p: &[T], q: &[T], a: T) -> T {
        let one = |x: &mut [T], r: &mut [T], p: &[T], q: &[T]| {
            let mut rr = T::ZERO;
            vector::cg_update(x, r, p, q, a, &mut rr);
            rr
        };
        let Some(sheaf) = self.cut() else { return one(x, r, p, q) };
        let parts = (by_agent(sheaf, x), by_agent(sheaf, r));
        let [rr] = sheaf.sums(parts, |own, (x, r)| [one(x.data, r.data, &p[own.clone()], &q[own])]);
        rr
    }

    /// As [`vector::cg_back`]; returns d_a.
    pub(crate) fn cg_back<T: Real>(
        &self,
        d_r: &mut [T],
        d_p: &mut [T],
        d_x: &[T],
        [p_next, p, q]: [&[T]; 3],
        b: T,
        two_dc: T,
    ) -> T {
        let one = |d_r: &mut [T], d_p: &mut [T], own: Range<usize>| {
            let (mut d_a, [p_next, p, q]) = (T::ZERO, [p_next, p, q].map(|v| &v[own.clone()]));
            vector::cg_back(d_r, d_p, &d_x[own], p_next, p, q, b, two_dc, &mut d_a);
            d_a
        };
        let Some(sheaf) = self.cut() else { return one(d_r, d_p, 0..d_x.len()) };
        let parts = (by_agent(sheaf, d_r), by_agent(sheaf, d_p));
        let [d_a] = sheaf.sums(parts, |own, (d_r, d_p)| [one(d_r.data, d_p.data, own)]);
        d_a
    }

    /// As [`vector::cg_back_update`]; returns its two inner products.
    pub(crate) fn cg_back_update<T: Real>(
        &self,
        d_p: &mut [T],
        d_q: &mut [T],
        [d_x, d_r, p, q]: [&[T]; 4],
        a: T,
        d_s: T,
    ) -> [T; 2] {
        let one = |d_p: &mut [T], d_q: &mut [T], own: Range<usize>| {
            let (mut dots, [d_x, d_r, p, q]) = ([T::ZERO; 2], [d_x, d_r, p, q].map(|v| &v[own.clone()]));
            vector::cg_back_update(d_p, d_q, d_x, d_r, p, q, a, d_s, &mut dots);
            dots
        };
        let Some(sheaf) = self.cut() else { return one(d_p, d_q, 0..d_x.len()) };
        let parts = (by_agent(sheaf, d_p), by_agent(sheaf, d_q));
        sheaf.sums(parts, |own, (d_p, d_q)| one(d_p.data, d_q.data, own))
    }

    /// y += x; returns y·with.
    pub(crate) fn add_dot<T: Real>(&self, y: &mut [T], x: &[T], with: &[T]) -> T {
        let one = |y: &mut [T], own: Range<usize>| {
            let mut out = T::ZERO;
            vector::add_dot(y, &x[own.clone()], &with[own], &mut out);
            out
        };
        let Some(sheaf) = self.cut() else { return one(y, 0..x.len()) };
        let [out] = sheaf.sums(by_agent(sheaf, y), |own, y| [one(y.data, own)]);
        out
    }
}

fn by_agent<'a, T>(sheaf: &'a Sheaf, data: &'a mut [T]) -> Cut<'a, T> {
    Cut::by_agent(data, sheaf.state_offsets())
}

/// An error about something that ranks cannot share.
pub(super) fn unsupported(place: &str, expected: &str, got: &str, hint: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{place} over several ranks"), expected, got).hint(hint)
}
