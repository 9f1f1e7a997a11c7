//! Small sheaves of every kind, with their maps as blocks of a [`Point`].

use sheaf_admm::sheaf::{
    AgentGraph, Connectivity, Edge, LowRank, LowRankGrad, Maps, MapsGrad, Sheaf, SheafOp,
};
use sheaf_admm::x_update::Penalty;
use sheaf_testkit::{DenseEdge, DenseSheaf, TestRng};

use crate::point::Point;

/// How the maps of a net are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Shared,
    Table,
    PerAgent,
    LowRank { bases: usize, gate: bool },
}

impl Kind {
    /// All kinds that a sheaf of equal agents can have.
    pub const UNIFORM: [Self; 7] = [
        Self::Shared,
        Self::Table,
        Self::PerAgent,
        Self::LowRank { bases: 1, gate: false },
        Self::LowRank { bases: 1, gate: true },
        Self::LowRank { bases: 8, gate: false },
        Self::LowRank { bases: 8, gate: true },
    ];
}

/// A sheaf and how its maps are given.
pub struct Net {
    pub name: String,
    pub graph: AgentGraph,
    pub sheaf: Sheaf,
    pub kind: Kind,
    index: Vec<u32>,
    views: usize,
}

const RANK: usize = 2;
const SCALE: f64 = 0.5;

impl Net {
    /// All agents alike.
    pub fn uniform(name: &str, graph: AgentGraph, d_v: usize, d_e: usize, kind: Kind) -> Self {
        let sheaf = Sheaf::uniform(&graph, d_v, d_e).expect("sizes are positive");
        // Three views, the middle one used most: agents that share a view add to one gradient.
        let index = (0..graph.agents()).map(|i| [1, 0, 1, 2][i % 4]).collect();
        Self { name: format!("{name}, {kind:?}"), graph, sheaf, kind, index, views: 3 }
    }

    /// A 3 × 3 grid with eight neighbours, stalks 5 and 2.
    pub fn grid(kind: Kind) -> Self {
        Self::uniform("grid", AgentGraph::grid(3, 3, Connectivity::Eight).expect("small"), 5, 2, kind)
    }

    /// Agents and edges of different sizes: a double edge, a slot that two edges share, an agent without edges.
    pub fn irregular() -> Self {
        let edge = |u, slot_u, v, slot_v| Edge { u, slot_u, v, slot_v };
        let edges =
            vec![edge(0, 0, 1, 0), edge(1, 1, 2, 0), edge(2, 1, 4, 0), edge(4, 1, 2, 2), edge(0, 0, 4, 2)];
        let graph = AgentGraph::with_slots(vec![1, 2, 3, 0, 3], edges).expect("all ends exist");
        let sheaf = Sheaf::heterogeneous(&graph, &[3, 2, 4, 3, 5], &[1, 2, 2, 1, 1]).expect("sizes agree");
        let (kind, index) = (Kind::PerAgent, Vec::new());
        Self { name: "irregular".into(), graph, sheaf, kind, index, views: 0 }
    }

    /// A random multigraph with random sizes, each agent joined to an earlier one and some pairs besides.
    pub fn random(seed: u64) -> Self {
        let mut rng = TestRng::new(seed);
        let agents = 3 + rng.below(4);
        let mut pairs: Vec<(usize, usize)> = (1..agents).map(|i| (rng.below(i), i)).collect();
        for _ in 0..rng.below(4) {
            pairs.push((rng.below(agents), rng.below(agents)));
        }
        let graph = AgentGraph::from_edges(agents, &pairs).expect("all ends exist");
        let d_v: Vec<usize> = (0..agents).map(|_| 2 + rng.below(4)).collect();
        let d_e: Vec<usize> = pairs.iter().map(|_| 1 + rng.below(2)).collect();
        let sheaf = Sheaf::heterogeneous(&graph, &d_v, &d_e).expect("sizes are positive");
        let name = format!("random graph {seed}");
        Self { name, graph, sheaf, kind: Kind::PerAgent, index: Vec::new(), views: 0 }
    }

    /// Every kind of maps.
    pub fn all() -> Vec<Self> {
        [vec![Self::irregular()], Kind::UNIFORM.map(Self::grid).into()].into_iter().flatten().collect()
    }

    /// Four agents: few enough rows that the Laplacian is well conditioned on its range, so that long solves and
    /// their adjoints stay far from rounding.
    pub fn small(kind: Kind) -> Self {
        Self::uniform("square", AgentGraph::grid(2, 2, Connectivity::Eight).expect("small"), 5, 2, kind)
    }

    /// Every kind of maps on few agents.
    pub fn all_small() -> Vec<Self> {
        [vec![Self::irregular()], Kind::UNIFORM.map(Self::small).into()].into_iter().flatten().collect()
    }

    pub fn states(&self) -> usize {
        self.sheaf.state_len()
    }

    pub fn agents(&self) -> usize {
        self.sheaf.agents()
    }

    /// Adds random maps to a point. The padding of stacks is random too: it must have no effect.
    pub fn draw_maps(&self, rng: &mut TestRng, point: &mut Point) {
        let mut push = |name, n: usize, scale: f64| {
            point.push(name, rng.normals(n).iter().map(|x| x * scale).collect());
        };
        if let (Kind::LowRank { bases, gate }, Some(u)) = (self.kind, self.sheaf.as_uniform()) {
            push("base", bases * u.d_e * u.d_v, 0.4);
            push("a", self.views * u.slots * u.d_e * RANK, 0.4);
            push("b", self.views * u.slots * u.d_v * RANK, 0.4);
            if gate {
                point.push("gate", rng.ranges(self.views * u.slots, 0.2, 0.9));
            }
            return;
        }
        let stack = self.sheaf.as_uniform().map_or(0, |u| u.d_v * u.ld);
        match self.kind {
            Kind::Shared => push("stacks", stack, 0.4),
            Kind::Table => push("stacks", self.views * stack, 0.4),
            _ => push("stacks", self.sheaf.stack_len(), 0.4),
        }
    }

    pub fn low_rank<'a>(&'a self, point: &'a Point) -> LowRank<'a, f64> {
        LowRank {
            base: point.get("base"),
            a: point.get("a"),
            b: point.get("b"),
            gate: point.has("gate").then(|| point.get("gate")),
            rank: RANK,
            scale: SCALE,
            index: &self.index,
        }
    }

    /// The operator of a point.
    pub fn op<'a>(&'a self, point: &'a Point) -> SheafOp<'a, f64> {
        let maps = match self.kind {
            Kind::Shared => Maps::Stack(point.get("stacks")),
            Kind::Table => {
                Maps::Table { stacks: point.get("stacks"), index: &self.index, order: &[], tiles: &[] }
            }
            Kind::PerAgent => Maps::PerAgent(point.get("stacks")),
            Kind::LowRank { .. } => Maps::LowRank(self.low_rank(point)),
        };
        SheafOp::new(&self.sheaf, maps).expect("the maps fit")
    }

    /// The restriction map of a slot, `[d_e, d_v]` row-major, computed directly from the definition.
    pub fn map(&self, point: &Point, agent: usize, slot: usize) -> Vec<f64> {
        let rows = self.sheaf.slot_rows(agent);
        let d_v = self.sheaf.state_offsets()[agent + 1] - self.sheaf.state_offsets()[agent];
        let d_e = rows[slot + 1] - rows[slot];
        if let Kind::LowRank { bases, .. } = self.kind {
            let view = self.index[agent] as usize * (rows.len() - 1) + slot;
            let base = if bases == 1 { 0 } else { slot } * d_e * d_v;
            let factor = SCALE * if point.has("gate") { point.get("gate")[view] } else { 1.0 };
            let entry = |r: usize, j: usize| {
                let a = &point.get("a")[(view * d_e + r) * RANK..][..RANK];
                let b = &point.get("b")[(view * d_v + j) * RANK..][..RANK];
                point.get("base")[base + r * d_v + j] + factor * (a[0] * b[0] + a[1] * b[1])
            };
            return (0..d_e * d_v).map(|k| entry(k / d_v, k % d_v)).collect();
        }
        let ld = self.sheaf.row_offsets()[agent + 1] - self.sheaf.row_offsets()[agent];
        let start = match self.kind {
            Kind::Shared => 0,
            Kind::Table => self.index[agent] as usize * d_v * ld,
            _ => self.sheaf.stack_offsets()[agent],
        };
        let stack = &point.get("stacks")[start..];
        (0..d_e * d_v).map(|k| stack[k % d_v * ld + rows[slot] + k / d_v]).collect()
    }

    /// The same sheaf as one matrix.
    pub fn dense(&self, point: &Point) -> DenseSheaf {
        let stalks: Vec<usize> = self.sheaf.state_offsets().windows(2).map(|w| w[1] - w[0]).collect();
        let edge = |e: &Edge| {
            let (u, v) = (e.u as usize, e.v as usize);
            let map = |agent, slot: u32| self.map(point, agent, slot as usize);
            DenseEdge { u, v, map_u: map(u, e.slot_u), map_v: map(v, e.slot_v) }
        };
        DenseSheaf::new(&stalks, self.graph.edges().iter().map(edge).collect())
    }
}

/// Owned gradients of the maps of a net.
pub struct MapBuffers([Vec<f64>; 5]);

impl MapBuffers {
    const NAMES: [&'static str; 5] = ["stacks", "base", "a", "b", "gate"];

    pub fn new(point: &Point) -> Self {
        Self(Self::NAMES.map(|name| point.grad_buffer(name)))
    }

    pub fn grad(&mut self, kind: Kind) -> MapsGrad<'_, f64> {
        let [stacks, base, a, b, gate] = &mut self.0;
        match kind {
            Kind::Shared => MapsGrad::Stack(stacks),
            Kind::Table => MapsGrad::Table(stacks),
            Kind::PerAgent => MapsGrad::PerAgent(stacks),
            Kind::LowRank { gate: gated, .. } => {
                MapsGrad::LowRank(LowRankGrad { base, a, b, gate: gated.then_some(gate.as_mut_slice()) })
            }
        }
    }

    pub fn push_to(self, point: &Point, grad: &mut Point) {
        for (name, added) in Self::NAMES.into_iter().zip(self.0) {
            if point.has(name) {
                grad.push_added(name, added);
            }
        }
    }
}

/// One penalty, or one per agent.
pub fn penalty(rho: &[f64]) -> Penalty<'_, f64> {
    if rho.len() == 1 { Penalty::Scalar(rho[0]) } else { Penalty::PerAgent(rho) }
}
