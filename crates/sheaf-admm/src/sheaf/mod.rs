//! The cellular sheaf: a graph of agents, a vector space on every agent and every edge, and linear maps between them.
//!
//! Agent i's maps are stacked into one matrix F_i (one block of rows per slot). The Laplacian is three steps:
//!
//! | step | does | shape |
//! | --- | --- | --- |
//! | project | y_i = F_i z_i, agent by agent | states → rows |
//! | exchange | s = DᵀD y: along each edge, the difference of its two row blocks, added at one end and subtracted at the other | rows → rows |
//! | lift | g_i = F_iᵀ s_i, agent by agent | rows → states |
//!
//! Only the exchange involves another agent: it is the only communication.

mod bands;
mod batch;
mod border;
mod build_part;
mod cliques;
mod coboundary;
mod compose;
mod cut;
mod graph;
pub mod grid;
mod maps;
mod maps_grad;
mod operator;
mod packed;
mod packed_grad;
mod shared;
mod stack;
mod table_grad;
mod update_parts;
mod updates;

pub(crate) use bands::{Given, Made};
pub(crate) use cliques::Cliques;
pub use compose::{compose_low_rank, compose_low_rank_vjp};
pub use graph::{AgentGraph, Edge, MAX_SLOTS};
pub use grid::Connectivity;
pub use maps::{LowRank, Maps};
pub use maps_grad::{LowRankGrad, MapsGrad};
pub use operator::SheafOp;
pub use packed::{PackedLowRank, ViewGroups, pack_base, pack_view};
pub use packed_grad::unpack_grad;
pub use shared::{SharedMaps, SharedMapsGrad};
pub use stack::{SharedStack, SharedStackGrad};
pub use table_grad::TableParts;
pub use updates::{AgentUpdates, AgentUpdatesGrad, UpdateDims};

use std::fmt;
use std::sync::Arc;

use crate::chunks;
use crate::share::Share;
use crate::{Error, ErrorKind, Result};
use sheaf_kernels::exchange::{Partners, SlotRows};
use sheaf_kernels::tiles::tile_len;

/// Row blocks of agents start at multiples of this many numbers, so that f32 stacks are whole cache lines.
pub const ROW_PAD: usize = 16;

/// An edge in terms of rows: `dim` rows from `row_u` meet `dim` rows from `row_v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EdgeRows {
    pub row_u: u32,
    pub row_v: u32,
    pub dim: u32,
    /// Offset of the edge's own stalk in an edge vector.
    pub start: u32,
}

/// The shape of a sheaf: sizes and offsets of all stalks. It holds no learned parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheaf {
    state_offsets: Vec<usize>,  // [agents + 1]
    row_offsets: Vec<usize>,    // [agents + 1], multiples of ROW_PAD
    stack_offsets: Vec<usize>,  // [agents + 1], places of stacks of their own size
    slot_rows: Vec<Vec<usize>>, // [agents][slots + 1], row offsets of the slots within the agent
    edges: Vec<EdgeRows>,
    edge_len: usize,
    uniform: Option<Uniform>,
    /// Where the partner of every slot starts, if all agents are alike and no slot has two edges.
    partners: Option<Partners>,
    /// The groups of slots, if all agents are alike and their slots meet in cliques.
    cliques: Option<Cliques>,
    /// Rows behind those of all agents: of agents that other ranks own.
    halo_rows: usize,
    /// The rank's part in a sheaf over several processes.
    share: Option<Arc<Share>>,
    /// The chunk of the first end of every edge, `u32::MAX` if another rank owns it; empty if there is one chunk.
    edge_chunks: Vec<u32>, // [edges] or []
}

/// Sizes of a sheaf whose agents are all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uniform {
    /// Vertex stalk.
    pub d_v: usize,
    /// Edge stalk.
    pub d_e: usize,
    /// Slots of each agent.
    pub slots: usize,
    /// Rows of a padded stack: `slots · d_e` rounded up to [`ROW_PAD`].
    pub ld: usize,
}

impl Sheaf {
    /// Every agent has a stalk of `d_v`, every edge one of `d_e`.
    pub fn uniform(graph: &AgentGraph, d_v: usize, d_e: usize) -> Result<Self> {
        check_size("d_v", d_v)?;
        check_size("d_e", d_e)?;
        let slot_dims = (0..graph.agents()).map(|i| vec![d_e; graph.slots(i)]).collect();
        let mut sheaf =
            Self::assemble(graph, vec![d_v; graph.agents()], slot_dims, vec![d_e; graph.edges().len()])?;
        let slots = if graph.agents() > 0 { graph.slots(0) } else { 0 };
        if (0..graph.agents()).all(|i| graph.slots(i) == slots) {
            sheaf.uniform = Some(Uniform { d_v, d_e, slots, ld: pad(slots * d_e) });
            sheaf.partners = partners(&sheaf, ends(graph, &sheaf));
            sheaf.cliques = sheaf.uniform.and_then(|uniform| Cliques::of(graph, uniform));
        }
        Ok(sheaf)
    }

    /// A stalk size for every agent and every edge. A slot takes the size of its edge; edges that share a slot must
    /// agree; a slot without an edge has size 0.
    ///
    /// ```
    /// use sheaf_admm::sheaf::{AgentGraph, Sheaf};
    /// let graph = AgentGraph::from_edges(2, &[(0, 1)])?;
    /// let sheaf = Sheaf::heterogeneous(&graph, &[3, 5], &[2])?;
    /// assert_eq!(sheaf.state_len(), 8);
    /// # Ok::<(), sheaf_admm::Error>(())
    /// ```
    pub fn heterogeneous(graph: &AgentGraph, d_v: &[usize], d_e: &[usize]) -> Result<Self> {
        crate::error::check_len("stalk sizes of agents", graph.agents(), d_v.len())?;
        crate::error::check_len("stalk sizes of edges", graph.edges().len(), d_e.len())?;
        for (i, &d) in d_v.iter().enumerate() {
            check_size(format_args!("stalk of agent {i}"), d)?;
        }
        let mut slot_dims: Vec<Vec<usize>> = (0..graph.agents()).map(|i| vec![0; graph.slots(i)]).collect();
        for (e, (edge, &dim)) in graph.edges().iter().zip(d_e).enumerate() {
            check_size(format_args!("stalk of edge {e}"), dim)?;
            for (agent, slot) in [(edge.u, edge.slot_u), (edge.v, edge.slot_v)] {
                let held = &mut slot_dims[agent as usize][slot as usize];
                if *held != 0 && *held != dim {
                    return Err(Error::new(
                        ErrorKind::Shape,
                        format!("stalk of edge {e}"),
                        format_args!("{held}, the size of slot {slot} of agent {agent}"),
                        dim,
                    ));
                }
                *held = dim;
            }
        }
        Self::assemble(graph, d_v.to_vec(), slot_dims, d_e.to_vec())
    }

    fn assemble(
        graph: &AgentGraph,
        d_v: Vec<usize>,
        slot_dims: Vec<Vec<usize>>,
        d_e: Vec<usize>,
    ) -> Result<Self> {
        let mut sheaf = Self::of_agents(&d_v, &slot_dims, &d_e)?;
        let row = |agent: u32, slot: u32| sheaf.row(agent as usize, slot as usize);
        let ends = graph.edges().iter().map(|e| (row(e.u, e.slot_u), row(e.v, e.slot_v)));
        (sheaf.edges, sheaf.edge_len) = edge_rows(ends, &d_e);
        if graph.agents() > chunks::AGENTS {
            sheaf.edge_chunks = graph.edges().iter().map(|e| e.u / chunks::AGENTS as u32).collect();
        }
        Ok(sheaf)
    }

    /// The offsets of agents with these stalks and slots, without edges.
    fn of_agents(d_v: &[usize], slot_dims: &[Vec<usize>], d_e: &[usize]) -> Result<Self> {
        check_sum("stalks of agents", d_v.iter().copied())?;
        check_sum("stalks of edges", d_e.iter().copied())?;
        check_sum("rows of agents", slot_dims.iter().map(|dims| saturating_sum(dims.iter().copied())))?;
        let mut state_offsets = vec![0];
        let mut row_offsets = vec![0];
        let mut stack_offsets: Vec<usize> = vec![0];
        let mut slot_rows = Vec::with_capacity(d_v.len());
        for (d, dims) in d_v.iter().zip(slot_dims) {
            let mut starts = vec![0];
            for dim in dims {
                starts.push(starts[starts.len() - 1] + dim);
            }
            let used = starts[starts.len() - 1];
            state_offsets.push(state_offsets[state_offsets.len() - 1] + d);
            row_offsets.push(row_offsets[row_offsets.len() - 1] + pad(used));
            let stack = stack_offsets[stack_offsets.len() - 1].checked_add(d * pad(used));
            stack_offsets.push(stack.ok_or_else(|| too_large("stacks of agents"))?);
            slot_rows.push(starts);
        }
        Ok(Self {
            state_offsets,
            row_offsets,
            stack_offsets,
            slot_rows,
            edges: Vec::new(),
            edge_len: 0,
            uniform: None,
            partners: None,
            cliques: None,
            halo_rows: 0,
            share: None,
            edge_chunks: Vec::new(),
        })
    }

    /// The first row of a slot.
    fn row(&self, agent: usize, slot: usize) -> u32 {
        (self.row_offsets[agent] + self.slot_rows[agent][slot]) as u32
    }

    /// Number of agents.
    pub fn agents(&self) -> usize {
        self.slot_rows.len()
    }

    /// Length of a state vector: the sum of all agents' stalks.
    pub fn state_len(&self) -> usize {
        self.state_offsets[self.agents()]
    }

    /// Length of a row vector: all agents' stacked projections, padded, and those of other ranks that edges meet.
    pub fn row_len(&self) -> usize {
        self.row_offsets[self.agents()] + self.halo_rows
    }

    /// This rank's part, if several processes [share](crate::share) the sheaf.
    pub fn share(&self) -> Option<&Share> {
        self.share.as_deref()
    }

    /// Length of an edge vector: the sum of all edges' stalks.
    pub fn edge_len(&self) -> usize {
        self.edge_len
    }

    /// Number of edges.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The ends of every edge, each an (agent, slot).
    pub fn edge_ends(&self) -> impl Iterator<Item = ((usize, usize), (usize, usize))> + '_ {
        let end = |row: u32| {
            let row = row as usize;
            // Agents without rows share their offset with the next one: the last that starts here has the row.
            let agent = self.row_offsets.partition_point(|&start| start <= row) - 1;
            let slots = &self.slot_rows[agent];
            let slot = slots.partition_point(|&start| start <= row - self.row_offsets[agent]) - 1;
            (agent, slot)
        };
        self.edges.iter().map(move |edge| (end(edge.row_u), end(edge.row_v)))
    }

    /// Where each agent's state starts; one more entry than agents.
    pub fn state_offsets(&self) -> &[usize] {
        &self.state_offsets
    }

    /// Where each agent's rows start; one more entry than agents, all multiples of [`ROW_PAD`].
    pub fn row_offsets(&self) -> &[usize] {
        &self.row_offsets
    }

    /// Where each agent's stack starts in [`Maps::PerAgent`]; one more entry than agents.
    pub fn stack_offsets(&self) -> &[usize] {
        &self.stack_offsets
    }

    /// Length of all stacks together in [`Maps::PerAgent`].
    pub fn stack_len(&self) -> usize {
        self.stack_offsets[self.agents()]
    }

    /// Row offsets of an agent's slots within its own rows; one more entry than slots. Empty for an agent that does
    /// not exist.
    pub fn slot_rows(&self, agent: usize) -> &[usize] {
        self.slot_rows.get(agent).map_or(&[], Vec::as_slice)
    }

    /// The common sizes, when all agents are alike.
    pub fn as_uniform(&self) -> Option<Uniform> {
        self.uniform
    }

    /// The sizes of a slot and the partners' rows, when every slot has at most one edge.
    pub(crate) fn partners(&self) -> Option<(SlotRows, &Partners)> {
        let (u, partners) = (self.uniform?, self.partners.as_ref()?);
        Some((SlotRows { slots: u.slots, d_e: u.d_e, ld: u.ld }, partners))
    }

    /// The cliques of the slots, if they form cliques.
    pub(crate) fn cliques(&self) -> Option<&Cliques> {
        self.cliques.as_ref()
    }

    /// Length of one stack by [tiles](sheaf_kernels::tiles); 0 if the shape has none.
    pub fn tile_len(&self) -> usize {
        match (self.uniform, self.partners()) {
            (Some(u), Some((rows, _))) => tile_len(u.d_v, rows),
            _ => 0,
        }
    }

    /// The chunk of the first end of every edge, where there are several chunks.
    pub(crate) fn edge_chunks(&self) -> &[u32] {
        &self.edge_chunks
    }

    pub(crate) fn edges(&self) -> &[EdgeRows] {
        &self.edges
    }
}

/// The ends of all edges, each with the row that it meets.
fn ends(graph: &AgentGraph, sheaf: &Sheaf) -> impl Iterator<Item = (u32, u32, u32)> {
    graph
        .edges()
        .iter()
        .zip(&sheaf.edges)
        .flat_map(|(edge, rows)| [(edge.u, edge.slot_u, rows.row_v), (edge.v, edge.slot_v, rows.row_u)])
}

/// The partner row of every slot; `None` when a slot has two edges, or when there are no slots. Each end is given with the
/// row that it meets.
fn partners(sheaf: &Sheaf, ends: impl Iterator<Item = (u32, u32, u32)>) -> Option<Partners> {
    let Uniform { slots, d_e, ld, .. } = sheaf.uniform.filter(|u| u.slots > 0)?;
    let places = (0..sheaf.agents()).flat_map(|a| (0..slots).map(move |s| (a, s)));
    let mut partners: Vec<u32> = places.map(|(a, s)| sheaf.row(a, s)).collect();
    let mut taken = vec![false; partners.len()];
    for (agent, slot, other) in ends {
        let place = agent as usize * slots + slot as usize;
        if std::mem::replace(&mut taken[place], true) {
            return None;
        }
        partners[place] = other;
    }
    Some(Partners::new(partners, SlotRows { slots, d_e, ld }))
}

/// Edges between these rows, with these stalks, and the length of all stalks.
fn edge_rows(ends: impl Iterator<Item = (u32, u32)>, d_e: &[usize]) -> (Vec<EdgeRows>, usize) {
    let mut start = 0;
    let edges = ends.zip(d_e).map(|((row_u, row_v), &dim)| {
        let edge = EdgeRows { row_u, row_v, dim: dim as u32, start: start as u32 };
        start += dim;
        edge
    });
    (edges.collect(), start)
}

/// Rounds up to a multiple of [`ROW_PAD`].
pub(crate) fn pad(rows: usize) -> usize {
    rows.div_ceil(ROW_PAD).saturating_mul(ROW_PAD)
}

/// Checks that offsets fit 32 bits, as edges store them.
fn check_sum(place: &str, sizes: impl Iterator<Item = usize>) -> Result<()> {
    if saturating_sum(sizes.map(pad)) <= u32::MAX as usize { Ok(()) } else { Err(too_large(place)) }
}

fn saturating_sum(sizes: impl Iterator<Item = usize>) -> usize {
    sizes.fold(0, usize::saturating_add)
}

fn too_large(place: &str) -> Error {
    Error::new(ErrorKind::Shape, place, "fewer than 2³² numbers", "more")
}

/// The place is written for mistakes alone: a sheaf may have millions of edges.
fn check_size(place: impl fmt::Display, d: usize) -> Result<()> {
    if d > 0 { Ok(()) } else { Err(Error::new(ErrorKind::Shape, place.to_string(), "at least 1", 0)) }
}
