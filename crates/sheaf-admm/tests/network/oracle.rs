//! A network as plain numbers: built with the library, and solved as one program by an interior-point method.

#[path = "../../examples/common/mod.rs"]
mod common;

use clarabel::solver::SolverStatus;
use common::Program;
use sheaf_admm::Matrix;
use sheaf_admm::network::{AgentId, Coupling, Edge, EdgeId, Network};
use sheaf_admm::x_update::Quadratic;

/// Rows of a dense matrix.
pub type Rows = Vec<Vec<f64>>;

#[derive(Clone, Debug, Default)]
pub struct AgentSpec {
    pub quad: Rows, // [d, d]
    pub diagonal: bool,
    pub q: Vec<f64>,
    pub l1: Vec<f64>,
    pub bounds: Option<(Vec<f64>, Vec<f64>)>,
    pub equal: (Rows, Vec<f64>),
    pub at_most: (Rows, Vec<f64>),
}

#[derive(Clone, Debug)]
pub struct EdgeSpec {
    pub ends: [usize; 2],
    pub maps: [Rows; 2],
    pub offset: Vec<f64>,
    pub coupling: Coupling,
}

#[derive(Clone, Debug, Default)]
pub struct Spec {
    pub agents: Vec<AgentSpec>,
    pub edges: Vec<EdgeSpec>,
}

fn matrix(rows: &Rows, cols: usize) -> Matrix {
    Matrix::dense(rows.len(), cols, rows.concat())
}

impl Spec {
    pub fn network(&self) -> sheaf_admm::Result<(Network, Vec<AgentId>, Vec<EdgeId>)> {
        let (mut net, mut agents, mut edges) = (Network::new(), vec![], vec![]);
        for a in &self.agents {
            let d = a.q.len();
            let quad = if a.diagonal {
                Matrix::diagonal((0..d).map(|j| a.quad[j][j]).collect::<Vec<_>>())
            } else {
                matrix(&a.quad, d)
            };
            let mut f = Quadratic::new(quad, a.q.clone());
            if !a.l1.is_empty() {
                f = f.l1(a.l1.clone());
            }
            if let Some((lo, hi)) = &a.bounds {
                f = f.bounds(lo.clone(), hi.clone());
            }
            f = f.equal(matrix(&a.equal.0, d), a.equal.1.clone());
            agents.push(net.agent(f.at_most(matrix(&a.at_most.0, d), a.at_most.1.clone()))?);
        }
        for e in &self.edges {
            let [a, b] = e.ends.map(|i| (agents[i], self.agents[i].q.len()));
            let edge = Edge::new(a.0, matrix(&e.maps[0], a.1), b.0, matrix(&e.maps[1], b.1));
            edges.push(net.edge(edge.offset(e.offset.clone()).coupling(e.coupling))?);
        }
        Ok((net, agents, edges))
    }

    fn starts(&self) -> Vec<usize> {
        let mut starts = vec![0];
        self.agents.iter().for_each(|a| starts.push(starts[starts.len() - 1] + a.q.len()));
        starts
    }

    /// F_a x_a − F_b x_b − b of an edge.
    pub fn residual(&self, e: usize, x: &[f64]) -> Vec<f64> {
        let (starts, edge) = (self.starts(), &self.edges[e]);
        let side = |k: usize, row: usize| {
            let x = &x[starts[edge.ends[k]]..];
            edge.maps[k][row].iter().zip(x).map(|(f, x)| f * x).sum::<f64>()
        };
        (0..edge.offset.len()).map(|row| side(0, row) - side(1, row) - edge.offset[row]).collect()
    }
}

/// How the interior-point method ended.
pub struct Oracle {
    pub status: SolverStatus,
    pub objective: f64,
    pub x: Vec<f64>,
}

impl Spec {
    pub fn oracle(&self) -> Oracle {
        let (starts, mut prog) = (self.starts(), Program::default());
        for a in &self.agents {
            prog.variables(a.q.iter().copied());
        }
        for (a, &at) in self.agents.iter().zip(&starts) {
            for (i, row) in a.quad.iter().enumerate() {
                for (j, &v) in row.iter().enumerate().skip(i) {
                    prog.p.push((at + i, at + j, v));
                }
            }
            let sparse =
                |row: &Vec<f64>| row.iter().enumerate().map(|(j, &v)| (at + j, v)).collect::<Vec<_>>();
            let (eq, le) = (&a.equal, &a.at_most);
            prog.equal.extend(eq.0.iter().zip(&eq.1).map(|(row, &b)| (sparse(row), b)));
            prog.at_most.extend(le.0.iter().zip(&le.1).map(|(row, &b)| (sparse(row), b)));
            if let Some((lo, hi)) = &a.bounds {
                for j in 0..lo.len() {
                    if hi[j].is_finite() {
                        prog.at_most.push((vec![(at + j, 1.0)], hi[j]));
                    }
                    if lo[j].is_finite() {
                        prog.at_most.push((vec![(at + j, -1.0)], -lo[j]));
                    }
                }
            }
            for (j, &w) in a.l1.iter().enumerate() {
                prog.abs(&[(at + j, 1.0)], 0.0, w);
            }
        }
        for edge in &self.edges {
            let row_of = |row: usize| {
                let mut all = Vec::new();
                for (k, sign) in [1.0, -1.0].into_iter().enumerate() {
                    let at = starts[edge.ends[k]];
                    all.extend(edge.maps[k][row].iter().enumerate().map(|(j, &v)| (at + j, sign * v)));
                }
                all
            };
            let rows = edge.offset.len();
            match edge.coupling {
                Coupling::Hard => prog.equal.extend((0..rows).map(|k| (row_of(k), edge.offset[k]))),
                Coupling::Soft { weight } => {
                    for k in 0..rows {
                        let r = prog.variables([0.0]);
                        prog.p.push((r, r, weight));
                        prog.equal.push((row_of(k).into_iter().chain([(r, -1.0)]).collect(), edge.offset[k]));
                    }
                }
                Coupling::Huber { weight, delta } => {
                    for k in 0..rows {
                        let s = prog.variables([0.0]);
                        prog.p.push((s, s, weight));
                        let of: Vec<_> = row_of(k).into_iter().chain([(s, -1.0)]).collect();
                        prog.abs(&of, edge.offset[k], weight * delta);
                    }
                }
                Coupling::L1 { weight } => {
                    (0..rows).for_each(|k| prog.abs(&row_of(k), edge.offset[k], weight));
                }
                Coupling::L2 { weight } => {
                    let t = prog.variables([weight]);
                    let mut cone = vec![(vec![(t, -1.0)], 0.0)];
                    cone.extend((0..rows).map(|k| (row_of(k), edge.offset[k])));
                    prog.cones.push(cone);
                }
                _ => unreachable!("a coupling without an oracle"),
            }
        }
        let (status, answer) = prog.run();
        Oracle { status, objective: answer.value, x: answer.x[..starts[starts.len() - 1]].to_vec() }
    }
}
