//! F by rows: where the entries of the maps that are not 0 lie, and the edges of every agent.
//!
//! The matrix of a soft system is built agent by agent: an agent's chunk reads the edges that end there and writes the agent's own
//! rows, so that chunks share nothing and sums have the order of the edges on any number of threads. Entries are listed in the order of
//! the agents, too: stacks are read from their first number to their last, and only the entries of neighbours lie far away.

use std::ops::Range;

use super::stacks::{Stacks, ends};
use crate::chunks::{self, Cut};
use crate::clock::Leave;
use crate::sheaf::{EdgeRows, Sheaf};
use crate::{Error, ErrorKind, Real, Result};

/// The edges of every agent, and the places of entries.
#[derive(Debug, Default)]
pub(super) struct Rows {
    starts: Vec<u32>,       // [agents + 1]
    incident: Vec<u32>,     // [2·edges], the ends of an agent as 2·edge + side, growing
    rows: Vec<u32>,         // [rows + 1], where the entries of every row of the stacks begin
    places: Vec<u32>,       // [entries], their numbers among those that edges read
    spans: Vec<usize>,      // [chunks + 1], where the entries of a chunk of agents begin
    pub coupled: Vec<u32>,  // [m], the numbers that edges read, growing
    pub bounds: Vec<usize>, // [chunks + 1], where those of a chunk begin
}

/// An edge, as the agent at one of its ends sees it.
#[derive(Clone, Copy)]
pub(super) struct OwnEnd {
    pub edge: usize,
    /// Where its numbers begin in an edge vector.
    pub start: usize,
    /// 0 for the end that F adds, 1 for the one that it subtracts.
    pub side: usize,
    /// The first row of both ends.
    pub rows: [usize; 2],
    /// How many rows it has.
    pub dim: usize,
}

impl OwnEnd {
    /// The sign of one end in F.
    pub(super) fn sign<T: Real>(side: usize) -> T {
        if side == 0 { T::ONE } else { -T::ONE }
    }
}

impl Rows {
    /// `None` if there are more numbers than the pattern of L can count.
    pub(super) fn new<T: Real>(sheaf: &Sheaf, stacks: &Stacks<'_, T>) -> Option<Self> {
        u32::try_from(sheaf.state_len().max(2 * sheaf.edge_len()).max(sheaf.stack_len())).ok()?;
        let (agents, offsets) = (sheaf.agents(), sheaf.row_offsets());
        let (starts, incident) = incidence(sheaf);
        let mut made = Self { starts, incident, ..Self::default() };
        let found = chunks::collect(chunks::count(agents), |chunk| {
            let rows = chunks::run(chunk, offsets).len();
            let (mut counts, mut states) = (Vec::with_capacity(rows), Vec::<u32>::with_capacity(rows));
            let mut read = Vec::new();
            for agent in chunks::agents(chunk, agents) {
                made.mark_read(agent, sheaf, &mut read);
                let ((stack, lead), first) = (stacks.of_agent(agent), sheaf.state_offsets()[agent]);
                for (r, &read) in read.iter().enumerate() {
                    let before = states.len();
                    if read {
                        let columns = stack.chunks_exact(lead).enumerate();
                        let listed = columns.filter(|(_, column)| column[r] != T::ZERO);
                        listed.for_each(|(j, _)| states.push((first + j) as u32));
                    }
                    counts.push((states.len() - before) as u32);
                }
            }
            (counts, states)
        });
        made.rows.reserve_exact(offsets[agents] + 1);
        made.places.reserve_exact(found.iter().map(|own| own.1.len()).sum());
        made.rows.push(0);
        made.spans.push(0);
        made.bounds.push(0);
        let (mut last, mut compact) = (0, vec![u32::MAX; sheaf.state_len()]);
        for (chunk, (counts, states)) in found.into_iter().enumerate() {
            for count in counts {
                last += count;
                made.rows.push(last);
            }
            states.iter().for_each(|&s| compact[s as usize] = 0);
            for k in chunks::run(chunk, sheaf.state_offsets()) {
                if compact[k] == 0 {
                    compact[k] = made.coupled.len() as u32;
                    made.coupled.push(k as u32);
                }
            }
            made.places.extend(states.iter().map(|&s| compact[s as usize]));
            made.spans.push(made.places.len());
            made.bounds.push(made.coupled.len());
        }
        Some(made)
    }

    /// The values of the entries in these stacks. Entries at other places are an error.
    pub(super) fn values<T: Real>(&self, sheaf: &Sheaf, stacks: &Stacks<'_, T>) -> Result<Vec<T>> {
        let mut values = vec![T::ZERO; self.places.len()];
        let (parts, leave) = (Cut::by_chunk(&mut values, &self.spans), Leave::new());
        let made: Result<[T; 0]> = chunks::sums(self.spans.len() - 1, parts, |chunk, own| {
            if leave.now() {
                return Ok([]);
            }
            let mut out = own.data.iter_mut();
            for agent in chunks::agents(chunk, sheaf.agents()) {
                let mut outside = false;
                self.each_number(agent, sheaf, stacks, |_, value, listed| {
                    if listed {
                        out.next().into_iter().for_each(|out| *out = value);
                    } else {
                        outside |= value != T::ZERO;
                    }
                });
                if outside {
                    self.check_pattern(agent, sheaf, stacks)?;
                }
            }
            Ok([])
        });
        made.map(|_| values)
    }

    /// Calls `f(row of the agent, value, whether it is listed)` for all numbers of an agent's stack, row by row.
    fn each_number<T: Real>(
        &self,
        agent: usize,
        sheaf: &Sheaf,
        stacks: &Stacks<'_, T>,
        mut f: impl FnMut(usize, T, bool),
    ) {
        let ((stack, lead), first) = (stacks.of_agent(agent), sheaf.state_offsets()[agent]);
        for r in 0..lead {
            let row = &self.places[self.row(sheaf.row_offsets()[agent] + r)];
            let mut listed = row.iter().map(|&place| self.coupled[place as usize] as usize).peekable();
            for (j, column) in stack.chunks_exact(lead).enumerate() {
                f(r, column[r], listed.next_if(|&state| state == first + j).is_some());
            }
        }
    }

    /// An error if an edge reads a number that is not listed. Rows that no edge reads may hold anything.
    fn check_pattern<T: Real>(&self, agent: usize, sheaf: &Sheaf, stacks: &Stacks<'_, T>) -> Result<()> {
        let mut read = Vec::new();
        self.mark_read(agent, sheaf, &mut read);
        let mut outside = None;
        self.each_number(agent, sheaf, stacks, |r, value, listed| {
            outside = outside.or((read[r] && !listed && value != T::ZERO).then_some(r));
        });
        let Some(r) = outside else { return Ok(()) };
        let row = sheaf.row_offsets()[agent] + r;
        let reads = |end: &OwnEnd| (end.rows[end.side]..end.rows[end.side] + end.dim).contains(&row);
        Err(another_pattern(self.of_agent(agent, sheaf).find(reads).map_or(0, |end| end.edge)))
    }

    /// Which rows of an agent's stack edges read.
    fn mark_read(&self, agent: usize, sheaf: &Sheaf, read: &mut Vec<bool>) {
        let own = sheaf.row_offsets()[agent]..sheaf.row_offsets()[agent + 1];
        read.clear();
        read.resize(own.len(), false);
        for end in self.of_agent(agent, sheaf) {
            read[end.rows[end.side] - own.start..][..end.dim].fill(true);
        }
    }

    /// The entries of a row of the stacks.
    pub(super) fn row(&self, row: usize) -> Range<usize> {
        self.rows[row] as usize..self.rows[row + 1] as usize
    }

    /// The number of an entry among those that edges read.
    pub(super) fn place(&self, entry: usize) -> usize {
        self.places[entry] as usize
    }

    /// The ends of edges at an agent, in the order of the edges.
    pub(super) fn of_agent<'s>(
        &'s self,
        agent: usize,
        sheaf: &'s Sheaf,
    ) -> impl Iterator<Item = OwnEnd> + 's {
        let own = self.starts[agent] as usize..self.starts[agent + 1] as usize;
        self.incident[own].iter().map(|&k| {
            let (edge, side) = (k as usize / 2, k as usize % 2);
            let EdgeRows { row_u, row_v, dim, start } = sheaf.edges()[edge];
            let rows = [row_u as usize, row_v as usize];
            OwnEnd { edge, start: start as usize, side, rows, dim: dim as usize }
        })
    }
}

/// The ends of edges at every agent, as 2·edge + side, in the order of the edges.
fn incidence(sheaf: &Sheaf) -> (Vec<u32>, Vec<u32>) {
    let (ends, agents) = (ends(sheaf), sheaf.agents());
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
