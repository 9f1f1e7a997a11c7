//! What a share learns when its sheaf is made.

use std::ops::Range;

use super::halo::{Lane, Share};
use super::part::GraphPart;
use crate::sheaf::Edge;
use sheaf_kernels::exchange::Partners;
use sheaf_kernels::stack::BAND;

impl GraphPart {
    /// Slots of the own agents.
    pub(crate) fn slots(&self) -> &[usize] {
        &self.slots
    }

    /// Edges that meet an own agent.
    pub(crate) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The slots of every agent, if all have equally many.
    pub(crate) fn common(&self) -> Option<usize> {
        self.common
    }
}

impl Share {
    /// Takes the rows that are exchanged with every rank, and adds up the lengths of all ranks.
    pub(crate) fn join(
        &mut self,
        sends: &[Vec<(usize, Range<usize>)>],
        receives: &[Vec<Range<usize>>],
        lengths: [f64; 2], // of states and of edges, on this rank
    ) {
        let some =
            |(rank, rows): (usize, Vec<Range<usize>>)| (!rows.is_empty()).then_some(Lane { rank, rows });
        let rows = |lane: &Vec<(usize, Range<usize>)>| lane.iter().map(|(_, rows)| rows.clone()).collect();
        self.sends = sends.iter().map(rows).enumerate().filter_map(some).collect();
        self.receives = receives.iter().cloned().enumerate().filter_map(some).collect();
        self.border = sends.iter().flatten().map(|(own, _)| *own).collect();
        self.border.sort_unstable();
        self.border.dedup();
        let all = self.collect(&lengths, &vec![2; self.comm.ranks()]);
        self.state_len = all.iter().step_by(2).sum::<f64>() as usize;
        self.edge_len = all.iter().skip(1).step_by(2).sum::<f64>() as usize;
    }

    /// Takes the partners of all slots, and finds the bands at the border.
    pub(crate) fn join_partners(&mut self, partners: Option<Partners>, agents: usize) {
        self.partners = partners;
        let mut runs: Vec<Range<usize>> = Vec::new();
        for band in self.border.iter().map(|agent| agent / BAND) {
            debug_assert!(band < agents.div_ceil(BAND));
            match runs.last_mut() {
                Some(run) if band < run.end => {}
                Some(run) if band == run.end => run.end += 1,
                _ => runs.push(band..band + 1),
            }
        }
        self.border_bands = runs;
    }

    /// The partners of all slots, if every slot has at most one.
    pub(crate) fn partners(&self) -> Option<&Partners> {
        self.partners.as_ref()
    }

    /// Own agents with an edge to another rank.
    pub(crate) fn border(&self) -> &[usize] {
        &self.border
    }

    /// Runs of bands with such agents.
    pub(crate) fn border_bands(&self) -> &[Range<usize>] {
        &self.border_bands
    }

    /// Length of a state vector of the whole sheaf.
    pub fn whole_state_len(&self) -> usize {
        self.state_len
    }

    /// Length of an edge vector of the whole sheaf.
    pub fn whole_edge_len(&self) -> usize {
        self.edge_len
    }
}
