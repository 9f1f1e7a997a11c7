//! The numbers of L = Σ_e γω_e F_eᵀF_e, agent by agent: every chunk writes the rows of its own agents.

use std::ops::Range;

use super::iterative::Iterative;
use super::rows::{OwnEnd, Rows};
use super::stacks::Stacks;
use crate::chunks::{self, Cut};
use crate::clock::Leave;
use crate::sheaf::{Sheaf, SheafOp};
use crate::z_update::weights::Weights;
use crate::{Real, Result};

impl Iterative {
    /// `None` if there are more numbers than the pattern can count.
    pub(super) fn new<T: Real>(op: &SheafOp<'_, T>, stacks: &Stacks<'_, T>) -> Option<Self> {
        let rows = Rows::new(op.sheaf(), stacks)?;
        let (starts, cols) = pattern(op.sheaf(), &rows);
        let spans = rows.bounds.iter().map(|&k| starts[k]).collect();
        Some(Self { rows, starts, cols, spans })
    }

    /// The largest number on the diagonal of L; `weight(e)` is γω_e.
    pub(super) fn largest_diagonal<T: Real>(
        &self,
        sheaf: &Sheaf,
        stacks: &Stacks<'_, T>,
        weight: impl Fn(usize) -> T + Sync,
    ) -> T {
        let one = |chunk: usize, ()| {
            let mut largest = T::ZERO;
            for agent in chunks::agents(chunk, sheaf.agents()) {
                let ((stack, lead), base) = (stacks.of_agent(agent), sheaf.row_offsets()[agent]);
                for column in stack.chunks_exact(lead.max(1)) {
                    let of = |end: OwnEnd| -> T {
                        let own = &column[end.rows[end.side] - base..][..end.dim];
                        weight(end.edge) * own.iter().map(|&f| f * f).sum::<T>()
                    };
                    largest = largest.max(self.rows.of_agent(agent, sheaf).map(of).sum());
                }
            }
            Ok([largest])
        };
        let join = |total: &mut [T; 1], own: [T; 1]| total[0] = total[0].max(own[0]);
        chunks::fold(self.chunks(), (), one, join).map_or(T::ZERO, |[largest]| largest)
    }

    /// Writes L, the metric and the pull of the offsets; `weight(e)` is γω_e.
    pub(super) fn prepare<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        stacks: &Stacks<'_, T>,
        weights: &Weights<'_, T>,
        weight: impl Fn(usize) -> T + Sync,
        kept: &mut [T],
    ) -> Result<()> {
        let (sheaf, rows, entries) = (op.sheaf(), &self.rows, self.rows.values(op.sheaf(), stacks)?);
        let (values, rest) = kept.split_at_mut(self.cols.len());
        let (metric, rest) = rest.split_at_mut(rows.coupled.len());
        let cut = |data| Cut::by_chunk(data, &rows.bounds);
        let parts = (Cut::by_chunk(values, &self.spans), cut(metric), cut(&mut rest[..rows.coupled.len()]));
        let leave = Leave::new();
        chunks::each(self.chunks(), parts, |chunk, (values, metric, diagonal)| {
            if leave.now() {
                return;
            }
            let (first, entry) = (rows.bounds[chunk], self.spans[chunk]);
            values.data.fill(T::ZERO);
            diagonal.data.fill(T::ZERO);
            let mut own = rows.coupled[first..rows.bounds[chunk + 1]].iter().zip(metric.data).peekable();
            for agent in chunks::agents(chunk, sheaf.agents()) {
                let end = sheaf.state_offsets()[agent + 1];
                while let Some((_, metric)) = own.next_if(|(k, _)| (**k as usize) < end) {
                    *metric = T::ONE / weights.of(agent);
                }
                for end in rows.of_agent(agent, sheaf) {
                    let g = weight(end.edge) * OwnEnd::sign(end.side);
                    self.add_end(end, g, &entries, first, entry, diagonal.data, values.data);
                }
            }
        });
        self.pull(op, stacks, weight, kept);
        self.rescale(weights, kept);
        Ok(())
    }

    /// Adds the rows of an edge to those of L that belong to one of its ends; `g` is the weight with the sign of that end.
    fn add_end<T: Real>(
        &self,
        end: OwnEnd,
        g: T,
        entries: &[T],
        first: usize,
        entry: usize,
        diagonal: &mut [T],
        values: &mut [T],
    ) {
        let rows = &self.rows;
        for r in 0..end.dim {
            let all = end.rows.map(|row| rows.row(row + r));
            for at in all[end.side].clone() {
                let (place, f) = (rows.place(at), g * entries[at]);
                for (side, others) in all.iter().enumerate() {
                    for other in others.clone() {
                        let (o, term) = (rows.place(other), f * (OwnEnd::sign::<T>(side) * entries[other]));
                        if o == place {
                            diagonal[place - first] += term;
                        } else if let Some(at) = self.position(place, o as u32) {
                            // The pattern was made from the same list of entries: there is a place.
                            values[at - entry] += term;
                        }
                    }
                }
            }
        }
    }

    /// Σ γω Fᵀb.
    pub(super) fn pull<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        stacks: &Stacks<'_, T>,
        weight: impl Fn(usize) -> T + Sync,
        kept: &mut [T],
    ) {
        let (m, sheaf, rows) = (self.rows.coupled.len(), op.sheaf(), &self.rows);
        let pull = &mut kept[self.cols.len() + 4 * m..][..m];
        pull.fill(T::ZERO);
        let Some(b) = op.raw().offsets().filter(|b| b.iter().any(|b| *b != T::ZERO)) else { return };
        // Offsets are updated without allocation: values are read from the stacks.
        chunks::each(self.chunks(), Cut::by_chunk(pull, &rows.bounds), |chunk, pull| {
            for agent in chunks::agents(chunk, sheaf.agents()) {
                let ((stack, lead), base) = (stacks.of_agent(agent), sheaf.row_offsets()[agent]);
                for end in rows.of_agent(agent, sheaf) {
                    for row in end.rows[end.side]..end.rows[end.side] + end.dim {
                        let b = OwnEnd::sign::<T>(end.side) * b[end.start + row - end.rows[end.side]];
                        for place in rows.row(row).map(|at| rows.place(at)).filter(|_| b != T::ZERO) {
                            let j = rows.coupled[place] as usize - sheaf.state_offsets()[agent];
                            let f = stack[j * lead + row - base];
                            pull.data[place - rows.bounds[chunk]] += weight(end.edge) * f * b;
                        }
                    }
                }
            }
        });
    }

    /// Where an entry off the diagonal lies, if it is in the pattern. Rows are short: a plain search is the fastest.
    fn position(&self, row: usize, col: u32) -> Option<usize> {
        let own: Range<usize> = self.starts[row]..self.starts[row + 1];
        self.cols[own.clone()].iter().position(|&c| c == col).map(|at| own.start + at)
    }
}

/// Rows and columns of L off the diagonal.
fn pattern(sheaf: &Sheaf, rows: &Rows) -> (Vec<usize>, Vec<u32>) {
    let agents = sheaf.agents();
    let found = chunks::collect(chunks::count(agents), |chunk| {
        let (mut counts, mut cols) = (Vec::<u32>::new(), Vec::<u32>::new());
        // The columns of every number of one agent.
        let mut lists: Vec<Vec<u32>> = Vec::new();
        let mut next = rows.bounds[chunk];
        for agent in chunks::agents(chunk, agents) {
            let (first, end) = (next, sheaf.state_offsets()[agent + 1]);
            while next < rows.bounds[chunk + 1] && (rows.coupled[next] as usize) < end {
                next += 1;
            }
            lists.resize_with(lists.len().max(next - first), Vec::new);
            for end in rows.of_agent(agent, sheaf) {
                for r in 0..end.dim {
                    let all = end.rows.map(|row| rows.row(row + r));
                    for own in all[end.side].clone().map(|at| rows.place(at)) {
                        let others = all.iter().flat_map(|side| side.clone().map(|at| rows.place(at)));
                        lists[own - first].extend(others.filter(|&o| o != own).map(|o| o as u32));
                    }
                }
            }
            for list in &mut lists[..next - first] {
                // Rows of one edge, and parallel edges, couple the same numbers again.
                list.sort_unstable();
                list.dedup();
                counts.push(list.len() as u32);
                cols.append(list);
            }
        }
        (counts, cols)
    });
    let mut starts = Vec::with_capacity(found.iter().map(|own| own.0.len()).sum::<usize>() + 1);
    let mut cols = Vec::with_capacity(found.iter().map(|own| own.1.len()).sum());
    let mut last = 0;
    starts.push(0);
    for (counts, own) in found {
        for count in counts {
            last += count as usize;
            starts.push(last);
        }
        cols.extend(own);
    }
    (starts, cols)
}
