//! F by rows: where the entries of the maps that are not 0 lie, and the edges of every agent.
//!
//! The matrix of a soft system is built agent by agent: an agent's chunk reads the edges that end there and writes the agent's own
//! rows, so that chunks share nothing and sums have the order of the edges on any number of threads. The entries of an edge are
//! listed side by side: the stacks of its two agents are far from each other in memory, and each is looked at only once.

use std::ops::Range;

use super::stacks::{End, Stacks, ends};
use crate::chunks::{self, Cut};
use crate::sheaf::Sheaf;
use crate::{Error, ErrorKind, Real, Result};

/// The ends of every edge, the edges of every agent, and the places of entries.
#[derive(Debug)]
pub(super) struct Rows {
    ends: Vec<[End; 2]>, // [edges]
    starts: Vec<u32>,    // [agents + 1]
    incident: Vec<u32>,  // [2·edges], the ends of an agent as 2·edge + side, growing
    sides: Vec<u32>,     // [2·edge_len + 1], where the entries of both sides of every row begin
    states: Vec<u32>,    // [entries]
    spans: Vec<usize>,   // [runs + 1], where the entries of a run of edges begin
}

/// A row of an edge, as the agent at one of its ends sees it.
#[derive(Clone)]
pub(super) struct EndRow {
    pub edge: usize,
    /// Entries of this end.
    pub own: Range<usize>,
    /// Entries of both ends.
    pub all: Range<usize>,
}

impl Rows {
    /// With the values of the entries; `None` if there are more numbers than the pattern of L can count.
    pub(super) fn new<T: Real>(sheaf: &Sheaf, stacks: &Stacks<'_, T>) -> Option<(Self, Vec<T>)> {
        u32::try_from(sheaf.state_len().max(2 * sheaf.edge_len()).max(sheaf.stack_len())).ok()?;
        let (ends, edges) = (ends(sheaf), sheaf.edges());
        let (starts, incident) = incidence(sheaf.agents(), &ends);
        let found = chunks::collect(chunks::item_runs(edges.len()), |run| {
            let (mut counts, mut states, mut values) = (Vec::new(), Vec::new(), Vec::new());
            for e in chunks::items(run, edges.len()) {
                for r in 0..edges[e].dim as usize {
                    for (end, sign) in ends[e].into_iter().zip([T::ONE, -T::ONE]) {
                        let before = states.len();
                        for j in 0..stacks.stalk(end) {
                            let value = stacks.number(stacks.place(end, j) + r);
                            if value != T::ZERO {
                                states.push((stacks.start(end) + j) as u32);
                                values.push(sign * value);
                            }
                        }
                        counts.push((states.len() - before) as u32);
                    }
                }
            }
            (counts, states, values)
        });
        let len = found.iter().map(|own| own.1.len()).sum();
        let (mut states, mut values) = (Vec::with_capacity(len), Vec::with_capacity(len));
        let (mut sides, mut spans, mut last) = (Vec::with_capacity(2 * sheaf.edge_len() + 1), vec![0], 0);
        sides.push(0);
        for (counts, own_states, own_values) in found {
            for count in counts {
                last += count;
                sides.push(last);
            }
            states.extend(own_states);
            values.extend(own_values);
            spans.push(states.len());
        }
        Some((Self { ends, starts, incident, sides, states, spans }, values))
    }

    /// The values of the entries in these stacks. Entries at other places are an error.
    pub(super) fn values<T: Real>(&self, sheaf: &Sheaf, stacks: &Stacks<'_, T>) -> Result<Vec<T>> {
        let (edges, mut values) = (sheaf.edges(), vec![T::ZERO; self.states.len()]);
        let parts = Cut::by_chunk(&mut values, &self.spans);
        let made: Result<[T; 0]> = chunks::sums(self.spans.len() - 1, parts, |run, own| {
            let mut out = own.data.iter_mut();
            for e in chunks::items(run, edges.len()) {
                for r in 0..edges[e].dim as usize {
                    let row = 2 * (edges[e].start as usize + r);
                    for (side, sign) in [T::ONE, -T::ONE].into_iter().enumerate() {
                        let (end, at) = (self.ends[e][side], self.range(row + side, row + side + 1));
                        let (first, mut listed) = (stacks.start(end), self.states[at].iter().peekable());
                        for j in 0..stacks.stalk(end) {
                            let value = stacks.number(stacks.place(end, j) + r);
                            if listed.next_if(|&&s| s as usize == first + j).is_some() {
                                out.next().into_iter().for_each(|out| *out = sign * value);
                            } else if value != T::ZERO {
                                return Err(another_pattern(e));
                            }
                        }
                    }
                }
            }
            Ok([])
        });
        made.map(|_| values)
    }

    /// Calls `f(state, value of F)` for the entries of row `r` of edge `e` that are not 0.
    pub(super) fn each_entry<T: Real>(
        &self,
        e: usize,
        r: usize,
        stacks: &Stacks<'_, T>,
        mut f: impl FnMut(usize, T),
    ) {
        for (end, sign) in self.ends[e].into_iter().zip([T::ONE, -T::ONE]) {
            for j in 0..stacks.stalk(end) {
                let value = stacks.number(stacks.place(end, j) + r);
                if value != T::ZERO {
                    f(stacks.start(end) + j, sign * value);
                }
            }
        }
    }

    /// The state of an entry.
    pub(super) fn state(&self, entry: usize) -> usize {
        self.states[entry] as usize
    }

    /// The rows of edges that end at an agent, in the order of the edges.
    pub(super) fn of_agent<'s>(
        &'s self,
        agent: usize,
        sheaf: &'s Sheaf,
    ) -> impl Iterator<Item = EndRow> + 's {
        let own = self.starts[agent] as usize..self.starts[agent + 1] as usize;
        self.incident[own].iter().flat_map(move |&k| {
            let (edge, side) = (k as usize / 2, k as usize % 2);
            let rows = sheaf.edges()[edge].start as usize..;
            rows.take(sheaf.edges()[edge].dim as usize).map(move |row| {
                let all = self.range(2 * row, 2 * row + 2);
                EndRow { edge, own: self.range(2 * row + side, 2 * row + side + 1), all }
            })
        })
    }

    fn range(&self, from: usize, to: usize) -> Range<usize> {
        self.sides[from] as usize..self.sides[to] as usize
    }
}

/// The ends of edges at every agent, as 2·edge + side, in the order of the edges.
fn incidence(agents: usize, ends: &[[End; 2]]) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; agents + 1];
    ends.iter().flatten().for_each(|end| starts[end.agent as usize + 1] += 1);
    (0..agents).for_each(|i| starts[i + 1] += starts[i]);
    let (mut next, mut incident) = (starts.clone(), vec![0u32; 2 * ends.len()]);
    for (k, end) in ends.iter().flatten().enumerate() {
        let place = &mut next[end.agent as usize];
        incident[*place as usize] = k as u32;
        *place += 1;
    }
    (starts, incident)
}

fn another_pattern(e: usize) -> Error {
    let place = format!("exact solver, maps of edge {e}");
    let expected = "zeros where the maps it was made for have them";
    Error::new(ErrorKind::Unsupported, place, expected, "another number")
        .hint("make it anew with Exact::automatic, or with Exact::new for maps of any pattern")
}
