//! Small sheaves of every kind, and one check for every gradient of a consensus solver.

use sheaf_admm::sheaf::{
    AgentGraph, Connectivity, Edge, LowRank, LowRankGrad, Maps, MapsGrad, Sheaf, SheafOp,
};
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{ConsensusGrad, InnerReport, ZUpdate};
use sheaf_testkit::{DenseEdge, DenseSheaf, TestRng, assert_vjp};

/// How a case stores its maps; the numbers are one flat vector in every case.
#[derive(Clone, Debug)]
pub enum Kind {
    Shared,
    Table { index: Vec<u32> },
    PerAgent,
    LowRank { index: Vec<u32>, views: usize, rank: usize },
}

#[derive(Clone, Debug)]
pub struct Case {
    pub name: &'static str,
    pub graph: AgentGraph,
    pub sheaf: Sheaf,
    pub kind: Kind,
    pub params: Vec<f64>,
}

impl Case {
    /// Different stalks everywhere, two parallel edges, an edge from an agent to itself, an agent without edges.
    pub fn mixed(seed: u64) -> Self {
        let mut rng = TestRng::new(seed);
        let pairs = [(0, 1), (1, 2), (2, 0), (2, 3), (1, 2), (3, 3)];
        let graph = AgentGraph::from_edges(5, &pairs).unwrap();
        let d_v: Vec<usize> = (0..5).map(|_| 7 + rng.below(3)).collect();
        let d_e: Vec<usize> = (0..pairs.len()).map(|_| 1 + rng.below(3)).collect();
        Self::per_agent("mixed", graph, &d_v, &d_e, seed)
    }

    /// The same edge twice with the same maps, so that rows of F repeat; and they stay equal when the maps change,
    /// because both edges meet the same slots.
    pub fn repeated(seed: u64) -> Self {
        let edge = |u, slot_u, v, slot_v| Edge { u, slot_u, v, slot_v };
        let edges = vec![edge(0, 0, 1, 0), edge(0, 0, 1, 0), edge(1, 1, 2, 0), edge(1, 0, 0, 0)];
        let graph = AgentGraph::with_slots(vec![1, 2, 1], edges).unwrap();
        Self::per_agent("repeated", graph, &[3, 4, 3], &[2, 2, 1, 2], seed)
    }

    /// A path of agents with a branch: rows of F are independent.
    pub fn tree(seed: u64) -> Self {
        let graph = AgentGraph::from_edges(4, &[(0, 1), (1, 2), (1, 3)]).unwrap();
        Self::per_agent("tree", graph, &[3, 5, 4, 3], &[1, 2, 1], seed)
    }

    /// The sizes of the edges.
    pub fn edge_dims(&self) -> Vec<usize> {
        let dim = |e: &Edge| {
            let rows = &self.sheaf.slot_rows(e.u as usize)[e.slot_u as usize..];
            rows[1] - rows[0]
        };
        self.graph.edges().iter().map(dim).collect()
    }

    fn per_agent(name: &'static str, graph: AgentGraph, d_v: &[usize], d_e: &[usize], seed: u64) -> Self {
        let sheaf = Sheaf::heterogeneous(&graph, d_v, d_e).unwrap();
        let mut params = vec![0.0; sheaf.stack_len()];
        for i in 0..sheaf.agents() {
            let used = *sheaf.slot_rows(i).last().unwrap();
            let rows = scaled(TestRng::new(seed + 100 + i as u64).normals(used * d_v[i]), 0.5);
            Sheaf::pack_stack(
                &rows,
                d_v[i],
                &mut params[sheaf.stack_offsets()[i]..sheaf.stack_offsets()[i + 1]],
            )
            .unwrap();
        }
        Self { name, graph, sheaf, kind: Kind::PerAgent, params }
    }

    /// A triangle whose agents have one slot each, which all edges share; one stack for all agents.
    pub fn shared(seed: u64) -> Self {
        let edge = |u, v| Edge { u, slot_u: 0, v, slot_v: 0 };
        let graph = AgentGraph::with_slots(vec![1; 3], vec![edge(0, 1), edge(1, 2), edge(0, 2)]).unwrap();
        let sheaf = Sheaf::uniform(&graph, 4, 2).unwrap();
        let mut params = vec![0.0; 4 * 16];
        Sheaf::pack_stack(&scaled(TestRng::new(seed).normals(8), 0.5), 4, &mut params).unwrap();
        Self { name: "shared", graph, sheaf, kind: Kind::Shared, params }
    }

    /// A 2 × 3 grid, three views.
    pub fn table(seed: u64) -> Self {
        let graph = AgentGraph::grid(2, 3, Connectivity::Eight).unwrap();
        let sheaf = Sheaf::uniform(&graph, 4, 1).unwrap();
        let mut rng = TestRng::new(seed);
        let mut params = vec![0.0; 3 * 4 * 16];
        for stack in params.chunks_exact_mut(64) {
            Sheaf::pack_stack(&scaled(rng.normals(32), 0.5), 4, stack).unwrap();
        }
        Self { name: "table", graph, sheaf, kind: Kind::Table { index: vec![0, 1, 2, 1, 0, 2] }, params }
    }

    /// A 2 × 2 grid with low-rank maps, gated.
    pub fn low_rank(seed: u64) -> Self {
        let graph = AgentGraph::grid(2, 2, Connectivity::Four).unwrap();
        let sheaf = Sheaf::uniform(&graph, 4, 2).unwrap();
        let mut rng = TestRng::new(seed);
        let (views, rank) = (3, 2);
        let mut params = scaled(rng.normals(4 * 2 * 4 + views * 4 * (2 + 4) * rank), 0.5);
        params.extend(rng.ranges(views * 4, 0.2, 0.8));
        Self {
            name: "low rank",
            graph,
            sheaf,
            kind: Kind::LowRank { index: vec![0, 1, 2, 1], views, rank },
            params,
        }
    }

    pub fn all(seed: u64) -> Vec<Self> {
        vec![Self::mixed(seed), Self::shared(seed), Self::table(seed), Self::low_rank(seed)]
    }

    /// Ends of base, A, B within the low-rank parameters.
    fn low_rank_ends(views: usize, rank: usize) -> [usize; 3] {
        let base = 4 * 2 * 4;
        [base, base + views * 4 * 2 * rank, base + views * 4 * (2 + 4) * rank]
    }

    pub fn maps<'a>(&'a self, params: &'a [f64]) -> Maps<'a, f64> {
        match &self.kind {
            Kind::Shared => Maps::Stack(params),
            Kind::Table { index } => Maps::Table { stacks: params, index, order: &[], tiles: &[] },
            Kind::PerAgent => Maps::PerAgent(params),
            Kind::LowRank { index, views, rank } => {
                let [base, a, b] = Self::low_rank_ends(*views, *rank);
                Maps::LowRank(LowRank {
                    base: &params[..base],
                    a: &params[base..a],
                    b: &params[a..b],
                    gate: Some(&params[b..]),
                    rank: *rank,
                    scale: 0.7,
                    index,
                })
            }
        }
    }

    pub fn maps_grad<'a>(&self, d_params: &'a mut [f64]) -> MapsGrad<'a, f64> {
        match &self.kind {
            Kind::Shared => MapsGrad::Stack(d_params),
            Kind::Table { .. } => MapsGrad::Table(d_params),
            Kind::PerAgent => MapsGrad::PerAgent(d_params),
            Kind::LowRank { views, rank, .. } => {
                let ends = Self::low_rank_ends(*views, *rank);
                let (base, rest) = d_params.split_at_mut(ends[0]);
                let (a, rest) = rest.split_at_mut(ends[1] - ends[0]);
                let (b, gate) = rest.split_at_mut(ends[2] - ends[1]);
                MapsGrad::LowRank(LowRankGrad { base, a, b, gate: Some(gate) })
            }
        }
    }

    pub fn op(&self) -> SheafOp<'_, f64> {
        SheafOp::new(&self.sheaf, self.maps(&self.params)).unwrap()
    }

    /// The sheaf as a matrix; for per-agent maps and shared ones.
    pub fn dense(&self) -> DenseSheaf {
        let stalks: Vec<usize> = self.sheaf.state_offsets().windows(2).map(|o| o[1] - o[0]).collect();
        let map = |agent: u32, slot: u32| {
            let agent = agent as usize;
            let (d_v, rows) = (stalks[agent], self.sheaf.slot_rows(agent));
            let ld = self.sheaf.row_offsets()[agent + 1] - self.sheaf.row_offsets()[agent];
            let stack = match &self.kind {
                Kind::PerAgent => &self.params[self.sheaf.stack_offsets()[agent]..],
                Kind::Shared => &self.params[..],
                Kind::Table { index } => &self.params[index[agent] as usize * d_v * ld..],
                Kind::LowRank { .. } => panic!("low-rank cases have no dense twin here"),
            };
            let range = rows[slot as usize]..rows[slot as usize + 1];
            range.flat_map(|r| (0..d_v).map(move |j| stack[j * ld + r])).collect()
        };
        let edges = self.graph.edges().iter().map(|e| DenseEdge {
            u: e.u as usize,
            v: e.v as usize,
            map_u: map(e.u, e.slot_u),
            map_v: map(e.v, e.slot_v),
        });
        DenseSheaf::new(&stalks, edges.collect())
    }

    /// One penalty per coordinate from one per agent.
    pub fn spread(&self, rho: &Penalty<'_, f64>) -> Vec<f64> {
        let offsets = self.sheaf.state_offsets().windows(2).enumerate();
        offsets.flat_map(|(i, o)| vec![rho.of(i); o[1] - o[0]]).collect()
    }
}

pub fn scaled(mut x: Vec<f64>, factor: f64) -> Vec<f64> {
    x.iter_mut().for_each(|x| *x *= factor);
    x
}

/// Validates, prepares and solves from a zero carry.
pub fn solve(
    z_update: &ZUpdate<f64>,
    case: &Case,
    rho: &Penalty<'_, f64>,
    w: &[f64],
) -> (Vec<f64>, InnerReport) {
    let op = case.op();
    z_update.validate(&op).unwrap();
    let mut scratch = vec![f64::NAN; z_update.scratch_len(&op)];
    let mut carry = vec![0.0; z_update.carry_len(&op)];
    let mut z = vec![f64::NAN; w.len()];
    z_update.prepare(&op, rho, &mut scratch).unwrap();
    let report = z_update.forward(&op, rho, w, w, &mut carry, &mut z, &mut scratch).unwrap();
    (z, report)
}

/// All inputs of a solve, taken from one flat vector.
struct Inputs<'a> {
    w: &'a [f64],
    z_prev: &'a [f64],
    carry: &'a [f64],
    maps: &'a [f64],
    rho: &'a [f64],
    gamma: f64,
    eta: f64,
}

fn cut<'a>(case: &Case, carry: usize, rhos: usize, point: &'a [f64]) -> Inputs<'a> {
    let n = case.sheaf.state_len();
    let (w, rest) = point.split_at(n);
    let (z_prev, rest) = rest.split_at(n);
    let (carry, rest) = rest.split_at(carry);
    let (maps, rest) = rest.split_at(case.params.len());
    let (rho, rest) = rest.split_at(rhos);
    Inputs { w, z_prev, carry, maps, rho, gamma: rest[0], eta: rest[1] }
}

fn penalty<'a>(rho: &'a [f64]) -> Penalty<'a, f64> {
    if let [rho] = rho { Penalty::Scalar(*rho) } else { Penalty::PerAgent(rho) }
}

/// Compares the gradients of all inputs (w, z_prev, carry, maps, ρ, γ, η) with finite differences, for a single
/// penalty and one per agent. `build(γ, η)` makes the solver.
pub fn check_gradients(
    name: &str,
    case: &Case,
    gamma: f64,
    eta: f64,
    build: &dyn Fn(f64, f64) -> ZUpdate<f64>,
) {
    for rhos in [1, case.sheaf.agents()] {
        check_penalties(&format!("{name}, {}, {rhos} penalties", case.name), case, rhos, gamma, eta, build);
    }
}

fn check_penalties(
    name: &str,
    case: &Case,
    rhos: usize,
    gamma: f64,
    eta: f64,
    build: &dyn Fn(f64, f64) -> ZUpdate<f64>,
) {
    let n = case.sheaf.state_len();
    let carry_len = build(gamma, eta).carry_len(&case.op());
    let mut rng = TestRng::new(77);
    let mut point = rng.normals(2 * n + carry_len);
    point.extend(&case.params);
    point.extend(rng.ranges(rhos, 0.6, 1.6));
    point.extend([gamma, eta]);

    let mut forward = |point: &[f64]| {
        let at = cut(case, carry_len, rhos, point);
        let z_update = build(at.gamma, at.eta);
        let op = SheafOp::new(&case.sheaf, case.maps(at.maps)).unwrap();
        let mut scratch = vec![f64::NAN; z_update.scratch_len(&op)];
        let (mut z, mut carry) = (vec![f64::NAN; n], at.carry.to_vec());
        let rho = penalty(at.rho);
        z_update.prepare(&op, &rho, &mut scratch).unwrap();
        z_update.forward(&op, &rho, at.w, at.z_prev, &mut carry, &mut z, &mut scratch).unwrap();
        z.extend(carry);
        z
    };
    let mut vjp = |cotangent: &[f64]| {
        let at = cut(case, carry_len, rhos, &point);
        let z_update = build(at.gamma, at.eta);
        let op = SheafOp::new(&case.sheaf, case.maps(at.maps)).unwrap();
        let mut scratch = vec![f64::NAN; z_update.scratch_len(&op)];
        let rho = penalty(at.rho);
        z_update.prepare(&op, &rho, &mut scratch).unwrap();
        // Gradients start at 1, not 0: a vjp adds. The carry's is replaced instead.
        let (mut d_w, mut d_z_prev) = (vec![1.0; n], vec![1.0; n]);
        let mut d_carry = cotangent[n..].to_vec();
        let mut d_maps = vec![1.0; at.maps.len()];
        let (mut d_rho, mut d_gamma, mut d_eta) = (vec![1.0; rhos], 1.0, 1.0);
        let mut grad = ConsensusGrad {
            maps: &mut case.maps_grad(&mut d_maps),
            rho: &mut d_rho,
            gamma: &mut d_gamma,
            eta: &mut d_eta,
            offsets: &mut [],
            edge_weights: &mut [],
        };
        z_update
            .vjp(
                &op,
                &rho,
                at.w,
                at.z_prev,
                at.carry,
                &cotangent[..n],
                &mut d_w,
                &mut d_z_prev,
                &mut d_carry,
                &mut grad,
                &mut scratch,
            )
            .unwrap();
        let less_one = |d: Vec<f64>| d.into_iter().map(|d| d - 1.0).collect::<Vec<_>>();
        let scalars = less_one(vec![d_gamma, d_eta]);
        [less_one(d_w), less_one(d_z_prev), d_carry, less_one(d_maps), less_one(d_rho), scalars].concat()
    };
    assert_vjp(name, &mut forward, &point, &mut vjp);
    // In a direction of all inputs, small groups would have little weight: each group is checked again on its own.
    let groups = [n, n, carry_len, case.params.len(), rhos, 1, 1];
    let mut start = 0;
    for (group, len) in groups.into_iter().enumerate() {
        let range = start..start + len;
        start += len;
        if len == 0 {
            continue;
        }
        let at = |part: &[f64]| {
            let mut whole = point.clone();
            whole[range.clone()].copy_from_slice(part);
            whole
        };
        assert_vjp(
            &format!("{name}, input group {group}"),
            &mut |part| forward(&at(part)),
            &point[range.clone()],
            &mut |cotangent| vjp(cotangent)[range.clone()].to_vec(),
        );
    }
}

#[track_caller]
pub fn assert_near(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!((g - e).abs() <= tolerance, "entry {i}: got {g}, expected {e}, allowed {tolerance:e}");
    }
}
