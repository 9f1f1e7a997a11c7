//! A network as plain numbers: built with the library, and solved as one program by an interior-point method.

#[path = "../../examples/common/mod.rs"]
mod common;

use clarabel::solver::SolverStatus;
use common::Program;
use sheaf_admm::Matrix;
use sheaf_admm::network::{AgentId, Coupling, Edge, EdgeId, Network};
use sheaf_admm::x_update::{Ball, Huber, Norm, Quadratic, SecondOrderCone, Simplex};

/// Rows of a dense matrix.
pub type Rows = Vec<Vec<f64>>;

/// How Q is given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Form {
    #[default]
    Dense,
    Diagonal,
    Sparse,
}

/// An objective that is no quadratic.
#[derive(Clone, Debug)]
pub enum MapSpec {
    Huber { weight: f64, delta: f64, centre: Vec<f64> },
    Ball { norm: Norm, radius: f64, centre: Vec<f64> },
    Simplex { total: f64 },
    Cone,
}

#[derive(Clone, Debug, Default)]
pub struct AgentSpec {
    pub quad: Rows, // [d, d]
    pub form: Form,
    pub q: Vec<f64>, // [d]; zeros for a map
    pub map: Option<MapSpec>,
    pub l1: Vec<f64>,
    pub l2: f64,
    pub tether: Option<(f64, Vec<f64>)>,
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

impl AgentSpec {
    fn add_to(&self, net: &mut Network) -> sheaf_admm::Result<AgentId> {
        let d = self.q.len();
        match self.map.clone() {
            Some(MapSpec::Huber { weight, delta, centre }) => {
                return net.agent(Huber { weight, delta, centre });
            }
            Some(MapSpec::Ball { norm, radius, centre }) => return net.agent(Ball { norm, radius, centre }),
            Some(MapSpec::Simplex { total }) => return net.agent(Simplex { dim: d, total }),
            Some(MapSpec::Cone) => return net.agent(SecondOrderCone { dim: d }),
            None => {}
        }
        let all = || (0..d).flat_map(|i| (0..d).map(move |j| (i, j)));
        let quad = match self.form {
            Form::Dense => matrix(&self.quad, d),
            Form::Diagonal => Matrix::diagonal((0..d).map(|j| self.quad[j][j]).collect::<Vec<_>>()),
            Form::Sparse => Matrix::sparse(
                d,
                d,
                all().map(|(i, j)| (i, j, self.quad[i][j])).filter(|e| e.2 != 0.0).collect::<Vec<_>>(),
            ),
        };
        let mut f = Quadratic::new(quad, self.q.clone()).l2(self.l2);
        if let Some((beta, anchor)) = &self.tether {
            f = f.tether(*beta, anchor.clone());
        }
        if !self.l1.is_empty() {
            f = f.l1(self.l1.clone());
        }
        if let Some((lo, hi)) = &self.bounds {
            f = f.bounds(lo.clone(), hi.clone());
        }
        f = f.equal(matrix(&self.equal.0, d), self.equal.1.clone());
        net.agent(f.at_most(matrix(&self.at_most.0, d), self.at_most.1.clone()))
    }

    /// What l2 and the tether add to the diagonal of Q.
    fn lift(&self) -> f64 {
        self.l2 + self.tether.as_ref().map_or(0.0, |t| t.0)
    }

    /// Adds what is no quadratic cost and no row to the program; the agent's numbers begin at `at`.
    fn add_map(&self, at: usize, prog: &mut Program) {
        let d = self.q.len();
        let each = |c: &[f64]| (0..d).map(|j| (vec![(at + j, 1.0)], c[j])).collect::<Vec<_>>();
        match &self.map {
            None => {}
            Some(MapSpec::Huber { weight, delta, centre }) => {
                for (j, c) in centre.iter().enumerate() {
                    let s = prog.variables([0.0]);
                    prog.p.push((s, s, *weight));
                    prog.abs(&[(at + j, 1.0), (s, -1.0)], *c, weight * delta);
                }
            }
            Some(MapSpec::Ball { norm: Norm::L2, radius, centre }) => {
                let mut cone = vec![(vec![], *radius)];
                cone.extend(each(centre));
                prog.cones.push(cone);
            }
            Some(MapSpec::Ball { norm: Norm::LInf, radius, centre }) => {
                for (j, c) in centre.iter().enumerate() {
                    prog.at_most.push((vec![(at + j, 1.0)], c + radius));
                    prog.at_most.push((vec![(at + j, -1.0)], radius - c));
                }
            }
            Some(MapSpec::Ball { norm: Norm::L1, radius, centre }) => {
                let first = prog.q.len();
                centre.iter().enumerate().for_each(|(j, c)| prog.abs(&[(at + j, 1.0)], *c, 0.0));
                prog.at_most.push(((0..d).map(|j| (first + j, 1.0)).collect(), *radius));
            }
            Some(MapSpec::Simplex { total }) => {
                prog.equal.push(((0..d).map(|j| (at + j, 1.0)).collect(), *total));
                (0..d).for_each(|j| prog.at_most.push((vec![(at + j, -1.0)], 0.0)));
            }
            Some(MapSpec::Cone) => {
                prog.cones.push((0..d).map(|j| (vec![(at + j, -1.0)], 0.0)).collect());
            }
        }
    }
}

impl Spec {
    pub fn network(&self) -> sheaf_admm::Result<(Network, Vec<AgentId>, Vec<EdgeId>)> {
        let (mut net, mut agents, mut edges) = (Network::new(), vec![], vec![]);
        for a in &self.agents {
            agents.push(a.add_to(&mut net)?);
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
            let pull = |j: usize| a.tether.as_ref().map_or(0.0, |(beta, h)| beta * h[j]);
            prog.variables(a.q.iter().enumerate().map(|(j, q)| q - pull(j)));
        }
        for (a, &at) in self.agents.iter().zip(&starts) {
            for (i, row) in a.quad.iter().enumerate() {
                for (j, &v) in row.iter().enumerate().skip(i) {
                    prog.p.push((at + i, at + j, v + if i == j { a.lift() } else { 0.0 }));
                }
            }
            a.add_map(at, &mut prog);
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
        let square = |(beta, h): &(f64, Vec<f64>)| 0.5 * beta * h.iter().map(|h| h * h).sum::<f64>();
        let constant: f64 = self.agents.iter().filter_map(|a| a.tether.as_ref()).map(square).sum();
        Oracle {
            status,
            objective: answer.value + constant,
            x: answer.x[..starts[starts.len() - 1]].to_vec(),
        }
    }
}
