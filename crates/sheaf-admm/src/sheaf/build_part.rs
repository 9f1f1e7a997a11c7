//! The sheaf of one rank.
//!
//! Its agents are those of the rank. An end of an edge on another rank has rows of its own behind those of all agents:
//! [`Share::swap`] fills them. Both ranks of an edge that is cut hold it, and compute the same residual.

use std::ops::Range;
use std::sync::Arc;

use super::{Sheaf, Uniform, edge_rows, pad, partners};
use crate::chunks;
use crate::error::check_len;
use crate::share::{Comm, GraphPart, Share};
use crate::{Error, ErrorKind, Result};

impl Sheaf {
    /// The part of a rank in a sheaf whose agents all have stalks of `d_v` and whose edges all have stalks of `d_e`. All
    /// ranks call this together.
    pub fn uniform_part(part: &GraphPart, d_v: usize, d_e: usize, comm: Arc<dyn Comm>) -> Result<Self> {
        super::check_size("d_v", d_v)?;
        super::check_size("d_e", d_e)?;
        let slot_dims: Vec<Vec<usize>> = part.slots().iter().map(|&slots| vec![d_e; slots]).collect();
        let mut sheaf =
            Self::part(part, &vec![d_v; slot_dims.len()], &slot_dims, &vec![d_e; part.edges().len()], comm)?;
        if let Some(slots) = part.common() {
            sheaf.uniform = Some(Uniform { d_v, d_e, slots, ld: pad(slots * d_e) });
            sheaf.join_partners(part);
        }
        Ok(sheaf)
    }

    /// The same with a stalk size for every own agent and every edge of the part.
    pub fn heterogeneous_part(
        part: &GraphPart,
        d_v: &[usize], // [own agents]
        d_e: &[usize], // [edges of the part]
        comm: Arc<dyn Comm>,
    ) -> Result<Self> {
        check_len("stalk sizes of agents", part.own().len(), d_v.len())?;
        check_len("stalk sizes of edges", part.edges().len(), d_e.len())?;
        let mut slot_dims: Vec<Vec<usize>> = part.slots().iter().map(|&slots| vec![0; slots]).collect();
        for (e, (edge, &dim)) in part.edges().iter().zip(d_e).enumerate() {
            super::check_size(format_args!("stalk of edge {e}"), dim)?;
            for (agent, slot) in [(edge.u, edge.slot_u), (edge.v, edge.slot_v)] {
                let Some(own) = local(part, agent) else { continue };
                let held = &mut slot_dims[own][slot as usize];
                if *held != 0 && *held != dim {
                    let place = format!("stalk of edge {e}");
                    let expected = format!("{held}, the size of slot {slot} of agent {agent}");
                    return Err(Error::new(ErrorKind::Shape, place, expected, dim));
                }
                *held = dim;
            }
        }
        Self::part(part, d_v, &slot_dims, d_e, comm)
    }

    fn part(
        part: &GraphPart,
        d_v: &[usize],
        slot_dims: &[Vec<usize>],
        d_e: &[usize],
        comm: Arc<dyn Comm>,
    ) -> Result<Self> {
        let own = crate::share::own_agents(part.agents(), comm.rank(), comm.ranks());
        if own != part.own() {
            let (expected, got) = (format!("agents {own:?}"), format!("{:?}", part.own()));
            let place = format!("part of rank {}", comm.rank());
            return Err(Error::new(ErrorKind::Shape, place, expected, got));
        }
        let mut sheaf = Self::of_agents(d_v, slot_dims, d_e)?;
        let halo = Halo::new(part, d_e, sheaf.row_len(), comm.ranks());
        // Kernels load whole vectors.
        sheaf.halo_rows = pad(halo.rows) + super::ROW_PAD;
        let row = |agent: u32, slot: u32| match local(part, agent) {
            Some(own) => sheaf.row(own, slot as usize),
            None => halo.row(agent, slot),
        };
        let ends = part.edges().iter().map(|e| (row(e.u, e.slot_u), row(e.v, e.slot_v)));
        (sheaf.edges, sheaf.edge_len) = edge_rows(ends, d_e);
        let chunk = |agent: u32| local(part, agent).map_or(u32::MAX, |own| (own / chunks::AGENTS) as u32);
        sheaf.edge_chunks = part.edges().iter().map(|e| chunk(e.u)).collect();
        let owned = sheaf.edges.iter().zip(&sheaf.edge_chunks).filter(|(_, chunk)| **chunk != u32::MAX);
        let lengths = [sheaf.state_len() as f64, owned.map(|(e, _)| f64::from(e.dim)).sum()];
        let mut share = Share::new(comm, part.agents(), own);
        share.join(&halo.sends(part, &sheaf), &halo.receives(part), lengths);
        sheaf.share = Some(Arc::new(share));
        Ok(sheaf)
    }

    /// The partners of the slots, with and without those on other ranks.
    fn join_partners(&mut self, part: &GraphPart) {
        let first = part.own().start as u32;
        let ends = || {
            part.edges().iter().zip(&self.edges).flat_map(|(edge, rows)| {
                let both = [(edge.u, edge.slot_u, rows.row_v), (edge.v, edge.slot_v, rows.row_u)];
                both.into_iter()
                    .filter(|end| local(part, end.0).is_some())
                    .map(|(a, s, row)| (a - first, s, row))
            })
        };
        let (end, agents) = (self.row_offsets[self.agents()] as u32, self.agents());
        let inside = partners(self, ends().filter(|(.., row)| *row < end));
        let all = partners(self, ends());
        if all.is_none() {
            return;
        }
        self.partners = inside;
        if let Some(share) = self.share.as_mut().and_then(Arc::get_mut) {
            share.join_partners(all, agents);
        }
    }
}

/// The place of an agent among those of the part.
fn local(part: &GraphPart, agent: u32) -> Option<usize> {
    part.own().contains(&(agent as usize)).then(|| agent as usize - part.own().start)
}

/// The ends of edges on other ranks and where their rows are.
struct Halo {
    ends: Vec<((u32, u32), u32, u32)>, // (agent, slot), first row, how many; growing
    rows: usize,
    ranks: usize,
}

impl Halo {
    fn new(part: &GraphPart, d_e: &[usize], first: usize, ranks: usize) -> Self {
        let others = part.edges().iter().zip(d_e).flat_map(|(e, &dim)| {
            let both = [(e.u, e.slot_u), (e.v, e.slot_v)];
            both.into_iter().filter(|end| local(part, end.0).is_none()).map(move |end| (end, dim as u32))
        });
        let mut ends: Vec<_> = others.collect();
        ends.sort_unstable();
        ends.dedup_by_key(|(end, _)| *end);
        let mut rows = 0;
        let place = |(end, dim): ((u32, u32), u32)| {
            let row = first as u32 + rows;
            rows += dim;
            (end, row, dim)
        };
        let ends = ends.into_iter().map(place).collect();
        Self { ends, rows: rows as usize, ranks }
    }

    fn row(&self, agent: u32, slot: u32) -> u32 {
        self.ends.binary_search_by_key(&(agent, slot), |end| end.0).map_or(0, |at| self.ends[at].1)
    }

    /// The rows that come from every rank.
    fn receives(&self, part: &GraphPart) -> Vec<Vec<Range<usize>>> {
        let mut lanes = vec![Vec::new(); self.ranks];
        for &((agent, _), row, dim) in &self.ends {
            lanes[owner(part, agent, self.ranks)].push(row as usize..(row + dim) as usize);
        }
        lanes
    }

    /// The rows that go to every rank, in the order in which it expects them, with the own agents that they belong to.
    fn sends(&self, part: &GraphPart, sheaf: &Sheaf) -> Vec<Vec<(usize, Range<usize>)>> {
        let mut ends = vec![Vec::new(); self.ranks];
        for (edge, rows) in part.edges().iter().zip(&sheaf.edges) {
            let both = [(edge.u, edge.slot_u, edge.v), (edge.v, edge.slot_v, edge.u)];
            for (agent, slot, other) in both {
                if let (Some(own), None) = (local(part, agent), local(part, other)) {
                    ends[owner(part, other, self.ranks)].push((own, slot, rows.dim as usize));
                }
            }
        }
        let lane = |mut ends: Vec<(usize, u32, usize)>| {
            ends.sort_unstable();
            ends.dedup();
            let rows = ends.into_iter().map(|(own, slot, dim)| {
                let row = sheaf.row(own, slot as usize) as usize;
                (own, row..row + dim)
            });
            rows.collect()
        };
        ends.into_iter().map(lane).collect()
    }
}

/// The rank of an agent.
fn owner(part: &GraphPart, agent: u32, ranks: usize) -> usize {
    let (chunks, chunk) = (chunks::count(part.agents()), agent as usize / chunks::AGENTS);
    // The first rank whose chunks end behind this one.
    let guess = (chunk * ranks / chunks).saturating_sub(1);
    (guess..ranks).find(|rank| chunk < (rank + 1) * chunks / ranks).unwrap_or(ranks - 1)
}
