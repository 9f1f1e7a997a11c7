//! From a [`Network`] to the sheaf, stacks and maps of a scaled problem.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::edge_term::EdgeTerm;
use super::placed::Placed;
use super::scale::Scaling;
use super::{Agent, Coupling, Network};
use crate::chunks::{self, Cut};
use crate::sheaf::{AgentGraph, Maps, Sheaf, SheafOp};
use crate::x_update::Proximal;
use crate::z_update::Agreement;
use crate::{Matrix, Result};

/// Where an edge of the network went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An edge of the sheaf.
    Native(usize),
    /// An agent of its own, with two edges from this one on.
    Term { agent: usize, edge: usize },
}

/// A scaled problem.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub sheaf: Sheaf,
    pub stacks: Vec<f64>,
    pub maps: Vec<Arc<dyn Proximal<f64>>>, // the network's agents, then edges that are agents
    pub places: Vec<Place>,                // [edges]
    pub slots: Vec<[usize; 2]>,            // [edges], the slots of both ends
    pub offsets: Vec<f64>,                 // [edge_len]
    pub edge_starts: Vec<usize>,           // [edges of the sheaf + 1]
    /// The weights of edges, if all are soft; then none is an agent.
    pub weights: Option<Vec<f64>>, // [edges]
    pub scaling: Scaling,
}

/// One edge of the sheaf: two agents with their maps.
struct Wire<'n> {
    ends: [(usize, &'n Matrix); 2],
    scale: f64,
}

impl Coupling {
    /// The coupling of r̂ = e·r whose cost is c times this one's.
    pub(super) fn scaled(self, e: f64, c: f64) -> Self {
        match self {
            Self::Hard => Self::Hard,
            Self::Soft { weight } => Self::Soft { weight: c * weight / (e * e) },
            Self::Huber { weight, delta } => Self::Huber { weight: c * weight / (e * e), delta: e * delta },
            Self::L1 { weight } => Self::L1 { weight: c * weight / e },
            Self::L2 { weight } => Self::L2 { weight: c * weight / e },
        }
    }
}

impl Coupling {
    /// The derivative of the scaled weight by the weight.
    pub(super) fn weight_ratio(self, e: f64, c: f64) -> f64 {
        match self {
            Self::Hard => 0.0,
            Self::Soft { .. } | Self::Huber { .. } => c / (e * e),
            Self::L1 { .. } | Self::L2 { .. } => c / e,
        }
    }
}

impl Compiled {
    pub(super) fn new(net: &Network, scaling: Scaling) -> Result<Self> {
        let mut maps = scaled_maps(net, &scaling);
        // Terms with as many rows share their maps.
        let terms = net.edges.iter().filter(|e| e.coupling != Coupling::Hard);
        let halves: BTreeMap<usize, [Matrix; 2]> = terms.map(|e| (e.rows(), halves(e.rows()))).collect();
        let count = net.edges.len();
        let (mut wires, mut places) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut offsets = Vec::with_capacity(net.edges.iter().map(|edge| edge.rows()).sum());
        let weights = soft_weights(net, &scaling);
        for (edge, &e) in net.edges.iter().zip(&scaling.edges) {
            let [a, b] = [0, 1].map(|k| (edge.ends[k].0.0, &edge.ends[k].1));
            let offset = edge.offset.iter().map(|b| e * b);
            if edge.coupling == Coupling::Hard || weights.is_some() {
                places.push(Place::Native(wires.len()));
                wires.push(Wire { ends: [a, b], scale: e });
                offsets.extend(offset);
                continue;
            }
            let agent = maps.len();
            places.push(Place::Term { agent, edge: wires.len() });
            offsets.resize(offsets.len() + 2 * edge.rows(), 0.0);
            let (coupling, offset) = (edge.coupling.scaled(e, scaling.cost), offset.collect());
            maps.push(Arc::new(EdgeTerm { coupling, offset }));
            // The term's own map is the identity of its half, whatever e is.
            let [first, second] = &halves[&edge.rows()];
            wires.push(Wire { ends: [a, (agent, first)], scale: e });
            wires.push(Wire { ends: [b, (agent, second)], scale: e });
        }
        let (sheaf, stacks, graph) = assemble(net, &maps, &wires, &scaling)?;
        let slots = places.iter().map(|place| match *place {
            Place::Native(edge) => [graph.edges()[edge].slot_u, graph.edges()[edge].slot_v],
            Place::Term { edge, .. } => [graph.edges()[edge].slot_u, graph.edges()[edge + 1].slot_u],
        });
        let slots = slots.map(|ends| ends.map(|slot| slot as usize)).collect();
        let mut edge_starts = vec![0];
        wires.iter().for_each(|w| edge_starts.push(edge_starts[edge_starts.len() - 1] + w.ends[0].1.rows()));
        Ok(Self { sheaf, stacks, maps, places, slots, offsets, edge_starts, weights, scaling })
    }
}

impl Compiled {
    /// The sheaf with its maps, offsets and weights.
    pub(super) fn op(&self) -> Result<SheafOp<'_, f64>> {
        let op = SheafOp::new(&self.sheaf, Maps::PerAgent(&self.stacks))?;
        let op = if self.offsets.is_empty() { op } else { op.with_offsets(&self.offsets)? };
        match &self.weights {
            Some(weights) => op.with_edge_weights(weights),
            None => Ok(op),
        }
    }

    /// Hard, or soft with the weights as they are.
    pub(super) fn agreement(&self) -> Agreement<f64> {
        if self.weights.is_some() { Agreement::Soft { gamma: 1.0 } } else { Agreement::Hard }
    }

    /// A first penalty: 1, but where all agents are quadratics without constraints half the geometric mean of their scaled
    /// curvatures. There ADMM is fastest near the geometric mean of the extreme eigenvalues, which is below that of the
    /// diagonal.
    pub(super) fn typical_curvature(&self) -> f64 {
        let (mut sum, mut count) = (0.0, 0usize);
        for map in &self.maps {
            let Some(f) = map.as_quadratic().filter(|f| f.is_smooth()) else { return 1.0 };
            for q in f.diagonal().into_iter().filter(|q| *q > 1e-6) {
                sum += q.ln();
                count += 1;
            }
        }
        if count == 0 { 1.0 } else { (0.5 * (sum / count as f64).exp()).clamp(1e-3, 10.0) }
    }

    /// The unit of every scaled coordinate: x = unit·x̂.
    pub(super) fn units(&self) -> Vec<f64> {
        let mut units: Vec<f64> = self.scaling.states.concat();
        for (place, e) in self.places.iter().zip(&self.scaling.edges) {
            if let Place::Term { agent, .. } = *place {
                units.resize(units.len() + self.maps[agent].dim(), 1.0 / e);
            }
        }
        units
    }
}

/// The scaled weights, if every edge is soft.
fn soft_weights(net: &Network, scaling: &Scaling) -> Option<Vec<f64>> {
    let each =
        net.edges.iter().zip(&scaling.edges).map(|(edge, &e)| match edge.coupling.scaled(e, scaling.cost) {
            Coupling::Soft { weight } => Some(weight),
            _ => None,
        });
    each.collect::<Option<Vec<_>>>().filter(|weights| !weights.is_empty())
}

/// The maps of both halves of a term's state.
fn halves(rows: usize) -> [Matrix; 2] {
    [0, rows].map(|first| Matrix::selector(2 * rows, (first..first + rows).collect::<Vec<_>>()))
}

fn assemble(
    net: &Network,
    maps: &[Arc<dyn Proximal<f64>>],
    wires: &[Wire<'_>],
    scaling: &Scaling,
) -> Result<(Sheaf, Vec<f64>, AgentGraph)> {
    let pairs: Vec<(usize, usize)> = wires.iter().map(|w| (w.ends[0].0, w.ends[1].0)).collect();
    let graph = AgentGraph::from_edges(maps.len(), &pairs)?;
    let dims: Vec<usize> = maps.iter().map(|m| m.dim()).collect();
    let rows: Vec<usize> = wires.iter().map(|w| w.ends[0].1.rows()).collect();
    let sheaf = Sheaf::heterogeneous(&graph, &dims, &rows)?;
    // Every end of every edge has a slot of its own. An agent's stack is written by whoever has its chunk.
    let mut starts = vec![0];
    (0..maps.len()).for_each(|i| starts.push(starts[i] + graph.slots(i)));
    let mut ends = vec![(0, 0); starts[maps.len()]];
    for (e, edge) in graph.edges().iter().enumerate() {
        ends[starts[edge.u as usize] + edge.slot_u as usize] = (e as u32, 0u8);
        ends[starts[edge.v as usize] + edge.slot_v as usize] = (e as u32, 1);
    }
    let mut stacks = vec![0.0; sheaf.stack_len()];
    let parts = Cut::by_agent(&mut stacks, sheaf.stack_offsets());
    chunks::each(chunks::count(maps.len()), parts, |chunk, own| {
        let agents = chunks::agents(chunk, maps.len());
        let first = sheaf.stack_offsets()[agents.start];
        for agent in agents {
            for (slot, &(e, end)) in ends[starts[agent]..starts[agent + 1]].iter().enumerate() {
                let (wire, at) = (&wires[e as usize], Stack::new(&sheaf, agent, slot));
                wire.ends[end as usize].1.each(|row, col, v| {
                    // Agents beyond the network's own are terms, in edge units already.
                    let factor =
                        if agent < net.agents.len() { wire.scale * scaling.states[agent][col] } else { 1.0 };
                    own.data[at.index(row, col) - first] += factor * v;
                });
            }
        }
    });
    Ok((sheaf, stacks, graph))
}

/// The objectives of the network's agents in scaled units.
fn scaled_maps(net: &Network, scaling: &Scaling) -> Vec<Arc<dyn Proximal<f64>>> {
    let one = |agent: &Agent, d: &[f64]| -> Arc<dyn Proximal<f64>> {
        match agent.map.as_quadratic() {
            Some(f) => Arc::new(f.scaled(d, scaling.cost)),
            None => Arc::new(Placed {
                inner: agent.map.clone(),
                scale: d.first().copied().unwrap_or(1.0),
                cost: scaling.cost,
            }),
        }
    };
    let agents = net.agents.len();
    let made = chunks::collect(chunks::count(agents), |chunk| {
        let own = chunks::agents(chunk, agents);
        own.map(|i| one(&net.agents[i], &scaling.states[i])).collect::<Vec<_>>()
    });
    let mut maps = Vec::with_capacity(agents);
    made.into_iter().for_each(|own| maps.extend(own));
    maps
}

/// Where the entries of one end of an edge lie in the stacks.
pub(super) struct Stack {
    start: usize,
    ld: usize,
}

impl Stack {
    pub(super) fn new(sheaf: &Sheaf, agent: usize, slot: usize) -> Self {
        let ld = sheaf.row_offsets()[agent + 1] - sheaf.row_offsets()[agent];
        Self { start: sheaf.stack_offsets()[agent] + sheaf.slot_rows(agent)[slot], ld }
    }

    /// Entry (row, column).
    pub(super) fn index(&self, row: usize, col: usize) -> usize {
        self.start + col * self.ld + row
    }
}
