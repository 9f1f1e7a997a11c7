//! How a large problem is cut, so that any number of threads gives the same bits.
//!
//! Agents are cut into runs of [`AGENTS`], in their order; only the number of agents decides where. A chunk of a vector of
//! states is the run of numbers of its agents. Work on a chunk reads what it likes and writes its own run only. A sum over
//! all agents is the sum of the chunks' own sums, added in the order of the chunks: whoever computes them, and in whatever
//! order, the result is the same.
//!
//! A problem of at most [`AGENTS`] agents is one chunk: its sums are plain sums, and nothing runs in parallel. This is the
//! case of every learned model that ships.
//!
//! Processes that [share](crate::share) a problem own whole chunks and add partial sums in the same order.

use std::array;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use sheaf_kernels::pool;

use crate::{Error, Real, Result};

/// Agents of a chunk.
pub const AGENTS: usize = 4096;

/// Items of a run of another list, such as the edges of a network.
pub(crate) const ITEMS: usize = 16_384;

/// Chunks that are handed out together: as many partial results fit on the stack.
const TOGETHER: usize = 64;

/// The number of chunks of so many agents; at least 1.
pub fn count(agents: usize) -> usize {
    agents.div_ceil(AGENTS).max(1)
}

/// The agents of a chunk.
pub fn agents(chunk: usize, agents: usize) -> Range<usize> {
    (chunk * AGENTS).min(agents)..((chunk + 1) * AGENTS).min(agents)
}

/// The run of a chunk in a vector with these offsets per agent, `[agents + 1]`.
pub(crate) fn run(chunk: usize, offsets: &[usize]) -> Range<usize> {
    let own = agents(chunk, offsets.len() - 1);
    offsets[own.start]..offsets[own.end]
}

/// Output that can be cut between chunks.
pub(crate) trait Parts: Send + Sized {
    /// The first chunk, and the rest.
    fn cut(self) -> (Self, Self);
}

/// A vector with offsets per `stride` chunks' units: per agent, or per chunk.
pub(crate) struct Cut<'a, T> {
    pub data: &'a mut [T],
    offsets: &'a [usize],
    stride: usize,
}

impl<'a, T> Cut<'a, T> {
    /// A vector whose offsets are given per agent.
    pub(crate) fn by_agent(data: &'a mut [T], offsets: &'a [usize]) -> Self {
        Self { data, offsets, stride: AGENTS }
    }

    /// A vector whose offsets are given per item of a list that is cut into runs of [`ITEMS`].
    pub(crate) fn by_item(data: &'a mut [T], offsets: &'a [usize]) -> Self {
        Self { data, offsets, stride: ITEMS }
    }

    /// A vector whose offsets are given per chunk.
    pub(crate) fn by_chunk(data: &'a mut [T], offsets: &'a [usize]) -> Self {
        Self { data, offsets, stride: 1 }
    }
}

impl<T: Send> Parts for Cut<'_, T> {
    fn cut(self) -> (Self, Self) {
        let Self { data, offsets, stride } = self;
        let at = stride.min(offsets.len() - 1);
        let (own, rest) = data.split_at_mut(offsets[at] - offsets[0]);
        (
            Self { data: own, offsets: &offsets[..=at], stride },
            Self { data: rest, offsets: &offsets[at..], stride },
        )
    }
}

/// A vector with one entry for every item of a list that is cut into runs of [`ITEMS`].
pub(crate) struct Items<'a, T>(pub &'a mut [T]);

impl<T: Send> Parts for Items<'_, T> {
    fn cut(self) -> (Self, Self) {
        let at = ITEMS.min(self.0.len());
        let (own, rest) = self.0.split_at_mut(at);
        (Self(own), Self(rest))
    }
}

/// The number of runs of so many items.
pub(crate) fn item_runs(items: usize) -> usize {
    items.div_ceil(ITEMS).max(1)
}

/// The items of a run.
pub(crate) fn items(run: usize, items: usize) -> Range<usize> {
    (run * ITEMS).min(items)..((run + 1) * ITEMS).min(items)
}

impl Parts for () {
    fn cut(self) -> (Self, Self) {
        ((), ())
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Parts),+> Parts for ($($name,)+) {
            fn cut(self) -> (Self, Self) {
                #[allow(non_snake_case)]
                let ($($name,)+) = self;
                $(#[allow(non_snake_case)] let $name = $name.cut();)+
                (($($name.0,)+), ($($name.1,)+))
            }
        }
    };
}

tuples!(A B);
tuples!(A B C);
tuples!(A B C D);

/// Calls `f(chunk, part)` for every chunk, on all threads, and adds what they return in the order of the chunks. The error
/// of the first chunk that fails counts.
pub(crate) fn sums<P: Parts, T: Real, const K: usize>(
    chunks: usize,
    parts: P,
    f: impl Fn(usize, P) -> Result<[T; K]> + Sync,
) -> Result<[T; K]> {
    fold(chunks, parts, f, |total, own| total.iter_mut().zip(own).for_each(|(t, v)| *t += v))
}

/// As [`sums`], with another way to put results together; it starts from zeros.
pub(crate) fn fold<P: Parts, T: Real, const K: usize>(
    chunks: usize,
    parts: P,
    f: impl Fn(usize, P) -> Result<[T; K]> + Sync,
    join: impl Fn(&mut [T; K], [T; K]),
) -> Result<[T; K]> {
    if chunks <= 1 {
        return f(0, parts);
    }
    let mut total = [T::ZERO; K];
    in_order(chunks, parts, f, |own| join(&mut total, own))?;
    Ok(total)
}

/// Calls `f(chunk, part)` for every chunk, on all threads, and `take` with what they return, in the order of the chunks.
pub(crate) fn in_order<P: Parts, T: Real, const K: usize>(
    chunks: usize,
    parts: P,
    f: impl Fn(usize, P) -> Result<[T; K]> + Sync,
    mut take: impl FnMut([T; K]),
) -> Result<()> {
    let mut rest = parts;
    for first in (0..chunks).step_by(TOGETHER) {
        let here = TOGETHER.min(chunks - first);
        let cells: [Mutex<Cell<P, T, K>>; TOGETHER] = array::from_fn(|_| Mutex::new(Cell::Empty));
        for cell in &cells[..here] {
            let (own, after) = rest.cut();
            rest = after;
            *lock(cell) = Cell::Part(own);
        }
        pool::run(here, &|c| {
            let mut cell = lock(&cells[c]);
            if let Cell::Part(part) = std::mem::replace(&mut *cell, Cell::Empty) {
                *cell = Cell::Sums(f(first + c, part));
            }
        });
        for cell in cells.into_iter().take(here) {
            if let Cell::Sums(own) = cell.into_inner().unwrap_or_else(PoisonError::into_inner) {
                take(own?);
            }
        }
    }
    Ok(())
}

/// What a chunk is given, and then what it returns.
enum Cell<P, T, const K: usize> {
    Empty,
    Part(P),
    Sums(Result<[T; K], Error>),
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `f(chunk, part)` for every chunk, on all threads.
pub(crate) fn each<P: Parts>(chunks: usize, parts: P, f: impl Fn(usize, P) + Sync) {
    let made: Result<[f64; 0]> = sums(chunks, parts, |chunk, part| {
        f(chunk, part);
        Ok([])
    });
    debug_assert!(made.is_ok());
}

/// What `f(chunk)` makes for every chunk, on all threads, in the order of the chunks.
pub(crate) fn collect<R: Send>(chunks: usize, f: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let cells: Vec<Mutex<Option<R>>> = (0..chunks).map(|_| Mutex::new(None)).collect();
    pool::run(chunks, &|chunk| {
        let made = f(chunk);
        *lock(&cells[chunk]) = Some(made);
    });
    cells.into_iter().filter_map(|cell| cell.into_inner().unwrap_or_else(PoisonError::into_inner)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inner product of two vectors of states.
    fn dot(offsets: &[usize], a: &[f64], b: &[f64]) -> f64 {
        let one = |chunk, ()| {
            let own = run(chunk, offsets);
            Ok([sheaf_kernels::vector::dot(&a[own.clone()], &b[own])])
        };
        sums(count(offsets.len() - 1), (), one).map_or(0.0, |[sum]| sum)
    }

    #[test]
    fn chunks_cover_every_agent_once() {
        for agents in [1, AGENTS, AGENTS + 1, 70 * AGENTS + 3] {
            let mut next = 0;
            for chunk in 0..count(agents) {
                let own = super::agents(chunk, agents);
                assert!(own.start == next && !own.is_empty());
                next = own.end;
            }
            assert_eq!(next, agents);
        }
    }

    #[test]
    fn sums_have_the_same_bits_on_any_number_of_threads() {
        let agents = 70 * AGENTS + 3;
        let offsets: Vec<usize> = (0..=agents).map(|i| 2 * i).collect();
        let v: Vec<f64> = (0..2 * agents).map(|k| ((k * 7919) as f64).sin()).collect();
        let one = pool::with_threads(1, || dot(&offsets, &v, &v));
        for threads in [2, 3, 0] {
            assert_eq!(pool::with_threads(threads, || dot(&offsets, &v, &v)).to_bits(), one.to_bits());
        }
        let mut out = vec![0.0; 2 * agents];
        each(count(agents), Cut::by_agent(&mut out, &offsets), |chunk, part| {
            part.data.copy_from_slice(&v[run(chunk, &offsets)]);
        });
        assert_eq!(out, v);
    }
}
