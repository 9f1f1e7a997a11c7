//! What is kept of every iteration of a run.

use sheaf_admm::Result;
use sheaf_admm::sheaf::Sheaf;
use sheaf_learn::model::evaluate::rms;
use sheaf_learn::model::worker::Scene;

use crate::arrays::Arrays;
use crate::tasks::{Answer, Field};

/// What to keep beside answers, residuals and disagreement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// How much every message changed.
    pub flow: bool,
    /// x, z and u of all agents.
    pub states: bool,
    /// x, z and u of this agent.
    pub agent: Option<usize>,
}

/// Every iteration of a run.
#[derive(Debug, Default)]
pub struct Record {
    /// Iterations that ran.
    pub iterations: usize,
    /// The classes of all cells.
    pub classes: Vec<u8>, // [K, cells]
    /// How sure the agents are.
    pub sure: Vec<u8>, // [K, cells]
    /// Mean votes, where agents vote.
    pub votes: Vec<f32>, // [K, classes] or []
    /// Whether the answer is right.
    pub right: Vec<u8>, // [K]
    /// The input that the agents see.
    pub input: Vec<u8>, // [K]
    /// The states that the decoder reads.
    pub x: Vec<f32>, // [K, states]
    z: Vec<f32>, // [K, states], or of one agent, or []
    u: Vec<f32>,
    x_kept: Vec<f32>,
    primal: Vec<f32>, // [K, agents]; without ADMM, how far states moved
    dual: Vec<f32>,   // [K, agents] or []
    norm: Vec<f32>,   // [K, agents], ‖u‖, or []
    edges: Vec<f32>,  // [K, edges], ‖(F z)_e‖, or []
    flow: Vec<f32>,   // [K, edges, 2], how much the message of each end changed, or []
    curves: Vec<f32>, // [K, 3]: root mean squares of primal, dual, disagreement
    last: Option<Answer>,
}

/// Takes notes of a run.
pub struct Recorder<'a> {
    field: &'a dyn Field,
    sheaf: &'a Sheaf,
    keep: Keep,
    record: Record,
    ends: Vec<[usize; 3]>, // [edges], first rows of both ends, and their number
    rows: Vec<f32>,        // [row_len]
    before: Vec<f32>,      // [row_len], of the iteration before
    norms: Vec<f32>,       // [agents]
}

impl<'a> Recorder<'a> {
    /// For runs on these agents.
    pub fn new(field: &'a dyn Field, keep: Keep) -> Self {
        let sheaf = field.sheaf();
        let row = |(agent, slot): (usize, usize)| sheaf.row_offsets()[agent] + sheaf.slot_rows(agent)[slot];
        let ends = sheaf.edge_ends().map(|(u, v)| {
            let rows = sheaf.slot_rows(u.0);
            [row(u), row(v), rows[u.1 + 1] - rows[u.1]]
        });
        let (rows, norms) = (vec![0.0; sheaf.row_len()], vec![0.0; sheaf.agents()]);
        Self {
            field,
            sheaf,
            keep,
            record: Record::default(),
            ends: ends.collect(),
            before: Vec::new(),
            rows,
            norms,
        }
    }

    /// Notes an iteration.
    pub fn note(&mut self, scene: &Scene<'_, '_, f32>) -> Result<()> {
        let answer = self.field.read(scene.part.input, scene.outputs);
        let record = &mut self.record;
        record.iterations = scene.k + 1;
        record.classes.extend_from_slice(&answer.classes);
        record.sure.extend_from_slice(&answer.sure);
        record.votes.extend_from_slice(&answer.votes);
        record.right.push(u8::from(answer.right));
        record.input.push(scene.part.input as u8);
        record.x.extend_from_slice(scene.states);
        record.last = Some(answer);
        self.note_states(scene);
        let offsets = self.sheaf.state_offsets();
        let record = &mut self.record;
        let Some(iteration) = scene.admm else {
            for (norm, own) in self.norms.iter_mut().zip(offsets.windows(2)) {
                let square = |i: usize| (scene.states[i] - scene.before[i]).powi(2);
                *norm = (own[0]..own[1]).map(square).sum::<f32>().sqrt();
            }
            record.primal.extend_from_slice(&self.norms);
            record.curves.extend([rms(&self.norms), 0.0, 0.0]);
            return Ok(());
        };
        iteration.primal(&mut self.norms);
        record.primal.extend_from_slice(&self.norms);
        let primal = rms(&self.norms);
        iteration.dual(&mut self.norms);
        record.dual.extend_from_slice(&self.norms);
        let dual = rms(&self.norms);
        let norm = |own: &[usize]| iteration.u[own[0]..own[1]].iter().map(|u| u * u).sum::<f32>().sqrt();
        record.norm.extend(offsets.windows(2).map(norm));
        iteration.op.project(iteration.z, &mut self.rows)?;
        let at = record.edges.len();
        record.edges.resize(at + self.ends.len(), 0.0);
        let mut sum = 0.0;
        for &e in scene.edges {
            let [u, v, dim] = self.ends[e];
            let square: f32 = (0..dim).map(|i| (self.rows[u + i] - self.rows[v + i]).powi(2)).sum();
            record.edges[at + e] = square.sqrt();
            sum += square;
        }
        let numbers: usize = scene.edges.iter().map(|&e| self.ends[e][2]).sum();
        record.curves.extend([primal, dual, (sum / numbers.max(1) as f32).sqrt()]);
        if self.keep.flow {
            self.note_flow(scene.edges);
        }
        Ok(())
    }

    fn note_flow(&mut self, left: &[usize]) {
        let at = self.record.flow.len();
        self.record.flow.resize(at + 2 * self.ends.len(), 0.0);
        if !self.before.is_empty() {
            for &e in left {
                for (end, &row) in self.ends[e][..2].iter().enumerate() {
                    let change = |i: usize| (self.rows[row + i] - self.before[row + i]).powi(2);
                    let sum: f32 = (0..self.ends[e][2]).map(change).sum();
                    self.record.flow[at + 2 * e + end] = sum.sqrt();
                }
            }
        }
        self.before.clone_from(&self.rows);
    }

    fn note_states(&mut self, scene: &Scene<'_, '_, f32>) {
        let offsets = self.sheaf.state_offsets();
        let own = match self.keep.agent {
            Some(agent) => offsets[agent]..offsets[agent + 1],
            None if self.keep.states => 0..self.sheaf.state_len(),
            None => return,
        };
        let record = &mut self.record;
        if self.keep.agent.is_some() {
            record.x_kept.extend_from_slice(&scene.states[own.clone()]);
        }
        if let Some(iteration) = scene.admm {
            record.z.extend_from_slice(&iteration.z[own.clone()]);
            record.u.extend_from_slice(&iteration.u[own]);
        }
    }

    /// The record.
    pub fn finish(self) -> Record {
        self.record
    }
}

impl Record {
    /// The last answer.
    pub fn answer(&self) -> Option<&Answer> {
        self.last.as_ref()
    }

    /// Root mean squares of primal and dual residuals and of disagreement, `[K, 3]`.
    pub fn curves(&self) -> &[f32] {
        &self.curves
    }

    /// The classes of iteration `k`.
    pub fn classes_at(&self, k: usize) -> &[u8] {
        let cells = self.classes.len() / self.iterations.max(1);
        &self.classes[k * cells..][..cells]
    }

    /// How sure the agents are in iteration `k`.
    pub fn sure_at(&self, k: usize) -> &[u8] {
        let cells = self.sure.len() / self.iterations.max(1);
        &self.sure[k * cells..][..cells]
    }

    /// The mean votes of iteration `k`; empty where agents do not vote.
    pub fn votes_at(&self, k: usize) -> &[f32] {
        let classes = self.votes.len() / self.iterations.max(1);
        &self.votes[k * classes..][..classes]
    }

    /// As arrays. Those that a model does not have are left out.
    pub fn into_arrays(self, sheaf: &Sheaf, keep: Keep) -> Result<Arrays> {
        let (k, n) = (self.iterations, sheaf.agents());
        let mut arrays = Arrays::default();
        let each = |len: usize| len / k.max(1);
        arrays.bytes("classes", &[k, each(self.classes.len())], self.classes)?;
        arrays.bytes("sure", &[k, each(self.sure.len())], self.sure)?;
        arrays.bytes("right", &[k], self.right)?;
        arrays.bytes("input", &[k], self.input)?;
        arrays.floats("curves", &[k, 3], self.curves)?;
        let e = sheaf.edge_count();
        for (name, shape, values) in [
            ("votes", vec![k, each(self.votes.len())], self.votes),
            ("primal", vec![k, n], self.primal),
            ("dual", vec![k, n], self.dual),
            ("norm", vec![k, n], self.norm),
            ("edges", vec![k, e], self.edges),
            ("flow", vec![k, e, 2], self.flow),
        ] {
            if !values.is_empty() {
                arrays.floats(name, &shape, values)?;
            }
        }
        let (x, shape) = match (keep.agent, keep.states, sheaf.as_uniform()) {
            (Some(_), ..) => (self.x_kept, vec![k, each(self.z.len().max(1))]),
            (None, true, Some(u)) => (self.x, vec![k, n, u.d_v]),
            (None, true, None) => (self.x, vec![k, sheaf.state_len()]),
            (None, false, _) => return Ok(arrays),
        };
        let shape = if shape.iter().product::<usize>() == x.len() { shape } else { vec![k, each(x.len())] };
        for (name, values) in [("z", self.z), ("u", self.u)] {
            if !values.is_empty() {
                arrays.floats(name, &shape, values)?;
            }
        }
        arrays.floats("x", &shape, x)?;
        Ok(arrays)
    }
}
