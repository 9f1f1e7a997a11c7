//! The numbers of L = Σ_e γω_e F_eᵀF_e, agent by agent: every chunk writes the rows of its own agents.

use std::ops::Range;

use super::iterative::Iterative;
use super::rows::{EndRow, Rows};
use super::stacks::Stacks;
use crate::chunks::{self, Cut};
use crate::sheaf::{Sheaf, SheafOp};
use crate::z_update::weights::Weights;
use crate::{Real, Result};

impl Iterative {
    /// With the values of the entries of F.
    pub(super) fn new<T: Real>(op: &SheafOp<'_, T>, stacks: &Stacks<'_, T>) -> Option<(Self, Vec<T>)> {
        let (sheaf, (rows, values)) = (op.sheaf(), Rows::new(op.sheaf(), stacks)?);
        let (agents, offsets) = (sheaf.agents(), sheaf.state_offsets());
        let mut compact = vec![u32::MAX; sheaf.state_len()];
        chunks::each(chunks::count(agents), Cut::by_agent(&mut compact, offsets), |chunk, own| {
            let first = chunks::run(chunk, offsets).start;
            each_row(&rows, sheaf, chunk, |row| {
                row.own.for_each(|entry| own.data[rows.state(entry) - first] = 0);
            });
        });
        let (mut coupled, mut bounds) = (Vec::new(), vec![0]);
        for chunk in 0..chunks::count(agents) {
            coupled.extend(chunks::run(chunk, offsets).filter(|&k| compact[k] == 0).map(|k| k as u32));
            bounds.push(coupled.len());
        }
        coupled.iter().enumerate().for_each(|(place, &k)| compact[k as usize] = place as u32);
        let (starts, cols) = pattern(sheaf, &rows, &compact);
        let spans = bounds.iter().map(|&k| starts[k]).collect();
        Some((Self { rows, coupled, compact, starts, cols, bounds, spans }, values))
    }

    /// The largest number on the diagonal of L, from the values of F; `weight(e)` is γω_e.
    pub(super) fn largest_diagonal<T: Real>(
        &self,
        sheaf: &Sheaf,
        values: &[T],
        weight: impl Fn(usize) -> T + Sync,
    ) -> T {
        let one = |chunk: usize, ()| {
            let range = chunks::run(chunk, sheaf.state_offsets());
            let mut own = vec![T::ZERO; range.len()];
            each_row(&self.rows, sheaf, chunk, |row| {
                let g = weight(row.edge);
                row.own.for_each(|at| own[self.rows.state(at) - range.start] += g * values[at] * values[at]);
            });
            Ok([own.into_iter().fold(T::ZERO, |m, d| m.max(d))])
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
        let (m, sheaf, entries) = (self.coupled.len(), op.sheaf(), self.rows.values(op.sheaf(), stacks)?);
        let (values, rest) = kept.split_at_mut(self.cols.len());
        let (metric, rest) = rest.split_at_mut(m);
        let cut = |data| Cut::by_chunk(data, &self.bounds);
        let parts = (Cut::by_chunk(values, &self.spans), cut(metric), cut(&mut rest[..m]));
        chunks::each(self.chunks(), parts, |chunk, (values, metric, diagonal)| {
            let (first, entry) = (self.bounds[chunk], self.spans[chunk]);
            values.data.fill(T::ZERO);
            diagonal.data.fill(T::ZERO);
            for agent in chunks::agents(chunk, sheaf.agents()) {
                let own = sheaf.state_offsets()[agent]..sheaf.state_offsets()[agent + 1];
                for &place in self.compact[own].iter().filter(|p| **p != u32::MAX) {
                    metric.data[place as usize - first] = T::ONE / weights.of(agent);
                }
            }
            each_row(&self.rows, sheaf, chunk, |EndRow { edge, own, all, .. }| {
                let g = weight(edge);
                for at in own {
                    let (s, f) = (self.rows.state(at), g * entries[at]);
                    let row = self.compact[s];
                    for other in all.clone() {
                        let o = self.rows.state(other);
                        if o == s {
                            diagonal.data[row as usize - first] += f * entries[other];
                        } else if let Some(place) = self.position(row, self.compact[o]) {
                            // The pattern was made from the same list of entries: there is a place.
                            values.data[place - entry] += f * entries[other];
                        }
                    }
                }
            });
        });
        self.pull(op, stacks, weight, kept);
        self.rescale(weights, kept);
        Ok(())
    }

    /// Σ γω Fᵀb.
    pub(super) fn pull<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        stacks: &Stacks<'_, T>,
        weight: impl Fn(usize) -> T + Sync,
        kept: &mut [T],
    ) {
        let m = self.coupled.len();
        let pull = &mut kept[self.cols.len() + 4 * m..][..m];
        pull.fill(T::ZERO);
        let Some(b) = op.raw().offsets() else { return };
        // Few edges have offsets, and they are updated without allocation: values are read from the stacks.
        for (e, edge) in op.sheaf().edges().iter().enumerate() {
            for r in 0..edge.dim as usize {
                let b = b[edge.start as usize + r];
                if b != T::ZERO {
                    let add = |s: usize, f: T| pull[self.compact[s] as usize] += weight(e) * f * b;
                    self.rows.each_entry(e, r, stacks, add);
                }
            }
        }
    }

    /// Where an entry off the diagonal lies, if it is in the pattern. Rows are short: a plain search is the fastest.
    fn position(&self, row: u32, col: u32) -> Option<usize> {
        let own: Range<usize> = self.starts[row as usize]..self.starts[row as usize + 1];
        self.cols[own.clone()].iter().position(|&c| c == col).map(|at| own.start + at)
    }
}

/// Calls `f` for every row of an edge that ends at an agent of a chunk.
fn each_row(rows: &Rows, sheaf: &Sheaf, chunk: usize, f: impl FnMut(EndRow)) {
    chunks::agents(chunk, sheaf.agents()).flat_map(|agent| rows.of_agent(agent, sheaf)).for_each(f);
}

/// Rows and columns of L off the diagonal, for the compact numbers.
fn pattern(sheaf: &Sheaf, rows: &Rows, compact: &[u32]) -> (Vec<usize>, Vec<u32>) {
    let (agents, offsets) = (sheaf.agents(), sheaf.state_offsets());
    let found = chunks::collect(chunks::count(agents), |chunk| {
        let (mut counts, mut cols) = (Vec::<u32>::new(), Vec::<u32>::new());
        // The columns of every number of one agent.
        let mut lists: Vec<Vec<u32>> = Vec::new();
        for agent in chunks::agents(chunk, agents) {
            let own = offsets[agent]..offsets[agent + 1];
            lists.resize_with(lists.len().max(own.len()), Vec::new);
            for row in rows.of_agent(agent, sheaf) {
                for a in row.own.map(|at| rows.state(at)) {
                    let others = row.all.clone().map(|at| rows.state(at)).filter(|&b| b != a);
                    lists[a - own.start].extend(others.map(|b| compact[b]));
                }
            }
            for (_, list) in own.zip(&mut lists).filter(|(k, _)| compact[*k] != u32::MAX) {
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
