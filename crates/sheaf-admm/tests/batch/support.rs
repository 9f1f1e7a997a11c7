//! Small batches with every kind of maps that can be shared, cut from one flat point.

use sheaf_admm::Result;
use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, SolveReport, Start, Workspace};
use sheaf_admm::sheaf::{
    AgentGraph, AgentUpdates, AgentUpdatesGrad, Connectivity, Edge, Maps, MapsGrad, SharedMaps,
    SharedMapsGrad, SharedStack, SharedStackGrad, Sheaf, SheafOp, UpdateDims,
};
use sheaf_admm::x_update::{Coefficient, Diagonal, DiagonalGrad, Objective, ObjectiveGrad, Penalty};
use sheaf_admm::z_update::{Agreement, ZUpdate};
use sheaf_testkit::TestRng;

pub const RANK: usize = 2;
pub const SCALE: f64 = 0.5;

/// A sheaf with shared maps and a number of samples.
pub struct Batch {
    pub name: &'static str,
    pub sheaf: Sheaf,
    pub samples: usize,
    /// Whether each agent has an update of its own.
    pub updated: bool,
}

/// Makes the solver from γ.
pub type Build<'a> = dyn Fn(f64) -> ZUpdate<f64> + 'a;

impl Batch {
    /// A 2 × 3 grid: pairs and single slots; rows of 8 numbers, padded to 16.
    pub fn grid(samples: usize, updated: bool) -> Self {
        let graph = AgentGraph::grid(2, 3, Connectivity::Four).unwrap();
        Self { name: "grid", sheaf: Sheaf::uniform(&graph, 9, 2).unwrap(), samples, updated }
    }

    /// Like a Sudoku board, but small: 6 agents with 2 slots, cliques of three.
    pub fn triples(samples: usize, updated: bool) -> Self {
        let edge = |u, slot_u, v, slot_v| Edge { u, slot_u, v, slot_v };
        let mut edges = Vec::new();
        for cell in [
            [(0, 0), (2, 0), (4, 1)],
            [(0, 1), (3, 1), (5, 0)],
            [(1, 0), (2, 1), (5, 1)],
            [(1, 1), (3, 0), (4, 0)],
        ] {
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                edges.push(edge(cell[a].0, cell[a].1, cell[b].0, cell[b].1));
            }
        }
        let graph = AgentGraph::with_slots(vec![2; 6], edges).unwrap();
        Self { name: "triples", sheaf: Sheaf::uniform(&graph, 7, 3).unwrap(), samples, updated }
    }

    pub fn all(samples: usize) -> Vec<Self> {
        [false, true].into_iter().flat_map(|u| [Self::grid(samples, u), Self::triples(samples, u)]).collect()
    }

    pub fn states(&self) -> usize {
        self.samples * self.sheaf.state_len()
    }

    pub fn dims(&self) -> UpdateDims {
        let u = self.sheaf.as_uniform().unwrap();
        UpdateDims { slots: u.slots, d_v: u.d_v, d_e: u.d_e, rank: RANK }
    }

    /// Lengths of maps, A, B, D, q, h, and then ρ and γ.
    pub fn lens(&self) -> [usize; 8] {
        let (dims, n) = (self.dims(), self.states());
        let q = if self.updated { self.samples * self.sheaf.agents() * dims.slots * RANK } else { 0 };
        [dims.slots * dims.d_e * dims.d_v, q * dims.d_e, q * dims.d_v, n, n, n, 1, 1]
    }

    /// A random point.
    pub fn point(&self, seed: u64) -> Vec<f64> {
        let (mut rng, lens) = (TestRng::new(seed), self.lens());
        let mut point: Vec<f64> = rng.normals(lens[0] + lens[1] + lens[2]).iter().map(|v| 0.4 * v).collect();
        point.extend(rng.ranges(lens[3], 0.5, 1.5));
        point.extend(rng.normals(lens[4] + lens[5]));
        point.extend([0.8, 1.3]);
        point
    }

    /// The same point with maps whose rows are orthonormal.
    pub fn orthonormal_point(&self, seed: u64) -> Vec<f64> {
        let (mut point, d_v) = (self.point(seed), self.dims().d_v);
        let rows = self.lens()[0] / d_v;
        for r in 0..rows {
            for other in 0..r {
                let dot: f64 = (0..d_v).map(|j| point[r * d_v + j] * point[other * d_v + j]).sum();
                (0..d_v).for_each(|j| point[r * d_v + j] -= dot * point[other * d_v + j]);
            }
            let norm = point[r * d_v..][..d_v].iter().map(|v| v * v).sum::<f64>().sqrt();
            point[r * d_v..][..d_v].iter_mut().for_each(|v| *v /= norm);
        }
        point
    }

    /// The same with rows of other lengths, one for each dimension of an edge.
    pub fn scaled_point(&self, seed: u64) -> Vec<f64> {
        let (mut point, dims) = (self.orthonormal_point(seed), self.dims());
        let maps = self.lens()[0];
        for (r, row) in point[..maps].chunks_exact_mut(dims.d_v).enumerate() {
            let length = 0.5 + 0.4 * (r % dims.d_e) as f64;
            row.iter_mut().for_each(|v| *v *= length);
        }
        point
    }

    pub fn cut<'p>(&self, point: &'p [f64]) -> [&'p [f64]; 8] {
        let mut rest = point;
        self.lens().map(|len| {
            let (own, after) = rest.split_at(len);
            rest = after;
            own
        })
    }

    /// The maps of a point, prepared.
    pub fn prepare(&self, point: &[f64]) -> Prepared {
        let [maps, a, b, ..] = self.cut(point);
        let mut prepared = Prepared::default();
        prepared.stack.prepare(maps, self.dims().d_v).unwrap();
        if self.updated {
            prepared.updates.prepare(&prepared.stack, self.dims(), SCALE, a, b).unwrap();
        }
        prepared
    }

    pub fn op<'p>(&'p self, prepared: &'p Prepared) -> SheafOp<'p, f64> {
        let maps = if self.updated {
            SharedMaps::with_updates(&prepared.stack, &prepared.updates)
        } else {
            SharedMaps::new(&prepared.stack)
        };
        SheafOp::batch(&self.sheaf, Maps::Shared(maps), self.samples).unwrap()
    }

    /// The problem of a point.
    pub fn problem<'p>(
        &'p self,
        point: &'p [f64],
        prepared: &'p Prepared,
        z_update: &'p ZUpdate<f64>,
    ) -> Problem<'p, f64> {
        let [_, _, _, diag, q, _, rho, _] = self.cut(point);
        // A box far from most values: some coordinates reach it, but not all.
        let lo = Some(Coefficient::Scalar(-0.6));
        let objective = Objective::Diagonal(Diagonal { lo, ..Diagonal::new(diag, q) });
        Problem { op: self.op(prepared), objective, z_update, rho: Penalty::Scalar(rho[0]), relax: 1.4 }
    }

    /// Solves and returns the gradient of seeds with respect to the whole point, in its order, with the workspace.
    pub fn gradient(
        &self,
        point: &[f64],
        build: &Build<'_>,
        options: &Options<f64>,
        adjoint: Adjoint<f64>,
        mode: Mode,
        seeds: &Seeds<'_, f64>,
    ) -> Result<(Vec<f64>, Workspace<f64>, SolveReport<f64>)> {
        let [_, _, _, _, _, h, _, gamma] = self.cut(point);
        let (prepared, z_update) = (self.prepare(point), build(gamma[0]));
        let problem = self.problem(point, &prepared, &z_update);
        problem.validate()?;
        let mut ws = Workspace::new(&problem, mode);
        let report = problem.solve(Start::At(h), options, &mut ws, &mut ())?;
        let mut grads = prepared.grads(self);
        let [mut d_diag, mut d_q, mut d_h] = [(); 3].map(|()| vec![0.0; self.states()]);
        let (mut d_rho, mut d_gamma, mut d_eta) = ([0.0], 0.0, 0.0);
        let diagonal = DiagonalGrad { diag: Some(&mut d_diag), q: Some(&mut d_q), ..Default::default() };
        problem.reverse(
            adjoint,
            seeds,
            &mut Gradients {
                objective: &mut ObjectiveGrad::Diagonal(diagonal),
                maps: &mut grads.maps(),
                rho: &mut d_rho,
                gamma: &mut d_gamma,
                eta: &mut d_eta,
                offsets: &mut [],
                edge_weights: &mut [],
                start: &mut d_h,
            },
            &mut ws,
        )?;
        let maps = grads.fold(self, &prepared);
        Ok(([maps, d_diag, d_q, d_h, d_rho.to_vec(), vec![d_gamma]].concat(), ws, report))
    }
}

/// Prepared maps of a point.
#[derive(Default)]
pub struct Prepared {
    pub stack: SharedStack<f64>,
    pub updates: AgentUpdates<f64>,
}

/// Gradients of prepared maps.
#[derive(Default)]
pub struct PreparedGrad {
    pub stack: SharedStackGrad<f64>,
    pub updates: Option<AgentUpdatesGrad<f64>>,
}

impl Prepared {
    pub fn grads(&self, batch: &Batch) -> PreparedGrad {
        let mut grads = PreparedGrad::default();
        grads.stack.reset(&self.stack);
        if batch.updated {
            let mut updates = AgentUpdatesGrad::default();
            updates.reset(&self.updates);
            grads.updates = Some(updates);
        }
        grads
    }
}

impl PreparedGrad {
    pub fn maps(&mut self) -> MapsGrad<'_, f64> {
        MapsGrad::Shared(SharedMapsGrad { stack: &mut self.stack, updates: self.updates.as_mut() })
    }

    /// Gradients of maps, A and B.
    pub fn fold(&mut self, batch: &Batch, prepared: &Prepared) -> Vec<f64> {
        let [maps, a, b, ..] = batch.lens();
        let (mut d_maps, mut d_a, mut d_b) = (vec![0.0; maps], vec![0.0; a], vec![0.0; b]);
        if let Some(updates) = &mut self.updates {
            let stack = &mut self.stack;
            prepared.updates.prepare_vjp(&prepared.stack, updates, &mut d_a, &mut d_b, stack).unwrap();
        }
        prepared.stack.vjp(&self.stack, &mut d_maps).unwrap();
        [d_maps, d_a, d_b].concat()
    }
}

pub const SOFT: Agreement<f64> = Agreement::Soft { gamma: 1.3 };

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[track_caller]
pub fn close(name: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{name}");
    let size = want.iter().fold(1.0f64, |m, w| m.max(w.abs()));
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * size, "{name}[{i}]: {g} for {w}");
    }
}
