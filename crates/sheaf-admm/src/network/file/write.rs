//! From a [`Network`] to a problem that can be written to a file.

use super::{
    FileAgent, FileAtMost, FileCoupling, FileDiagonal, FileEdge, FileEnd, FileEqual, FileMap, FileMatrix,
    FileNorm, FileSparse, FileTether, Numbers, Problem,
};
use crate::matrix::Kind;
use crate::network::{Coupling, Network};
use crate::x_update::{Ball, Huber, Logistic, Norm, Proximal, Quadratic, SecondOrderCone, Simplex};
use crate::{Error, ErrorKind, Matrix, Result};

impl Problem {
    /// A network as data, every number in it. Maps of one's own cannot be written.
    pub fn of(net: &Network) -> Result<Self> {
        let mut agents = Vec::with_capacity(net.agents.len());
        for (i, agent) in net.agents.iter().enumerate() {
            let mut out = match agent.map.as_quadratic() {
                Some(f) => quadratic(f),
                None => FileAgent { map: Some(map(agent.map.as_ref(), i)?), ..FileAgent::default() },
            };
            out.penalty = (!agent.penalty.is_empty()).then(|| numbers(&agent.penalty));
            agents.push(out);
        }
        let edges = net.edges.iter().map(|edge| FileEdge {
            name: None,
            a: FileEnd::Number(edge.ends[0].0.0),
            map_a: matrix(&edge.ends[0].1),
            b: FileEnd::Number(edge.ends[1].0.0),
            map_b: matrix(&edge.ends[1].1),
            offset: edge.offset.iter().any(|b| *b != 0.0).then(|| numbers(&edge.offset)),
            coupling: match edge.coupling {
                Coupling::Hard => None,
                Coupling::Soft { weight } => Some(FileCoupling::Soft { weight }),
                Coupling::Huber { weight, delta } => Some(FileCoupling::Huber { weight, delta }),
                Coupling::L1 { weight } => Some(FileCoupling::L1 { weight }),
                Coupling::L2 { weight } => Some(FileCoupling::L2 { weight }),
            },
        });
        Ok(Self { settings: None, edges: edges.collect(), agents })
    }
}

fn quadratic(f: &Quadratic) -> FileAgent {
    let some = |values: &Vec<f64>| (!values.is_empty()).then(|| numbers(values));
    let (a, g) = (&f.equal, &f.at_most);
    FileAgent {
        quad: Some(matrix(&f.quad)),
        q: Some(numbers(&f.q)),
        l1: some(&f.l1),
        l2: (f.l2 != 0.0).then_some(f.l2),
        tether: f.tether.as_ref().map(|(beta, h)| FileTether { beta: *beta, anchor: numbers(h) }),
        lower: some(&f.lo),
        upper: some(&f.hi),
        equal: (!a.1.is_empty()).then(|| FileEqual { a: matrix(&a.0), b: numbers(&a.1) }),
        at_most: (!g.1.is_empty()).then(|| FileAtMost { g: matrix(&g.0), h: numbers(&g.1) }),
        ..FileAgent::default()
    }
}

fn map(map: &dyn Proximal<f64>, agent: usize) -> Result<FileMap> {
    let any = map.as_any();
    if let Some(f) = any.and_then(|m| m.downcast_ref::<Huber<f64>>()) {
        return Ok(FileMap::Huber { weight: f.weight, delta: f.delta, centre: numbers(&f.centre) });
    }
    if let Some(f) = any.and_then(|m| m.downcast_ref::<Ball<f64>>()) {
        let norm = match f.norm {
            Norm::L1 => FileNorm::L1,
            Norm::L2 => FileNorm::L2,
            Norm::LInf => FileNorm::LInf,
        };
        return Ok(FileMap::Ball { norm, radius: f.radius, centre: numbers(&f.centre) });
    }
    if let Some(f) = any.and_then(|m| m.downcast_ref::<Simplex<f64>>()) {
        return Ok(FileMap::Simplex { dim: f.dim, total: f.total });
    }
    if let Some(f) = any.and_then(|m| m.downcast_ref::<SecondOrderCone>()) {
        return Ok(FileMap::SecondOrderCone { dim: f.dim });
    }
    if let Some(f) = any.and_then(|m| m.downcast_ref::<Logistic<f64>>()) {
        let features = matrix(&Matrix::dense(f.labels.len(), f.dim, f.features.clone()));
        return Ok(FileMap::Logistic { features, labels: numbers(&f.labels), weight: f.weight, l2: f.l2 });
    }
    let place = format!("objective of agent {agent}");
    Err(Error::new(
        ErrorKind::Unsupported,
        place,
        "a quadratic or another map of the library",
        "a map of one's own",
    ))
}

/// Infinite numbers are missing bounds.
fn numbers(values: &[f64]) -> Numbers {
    Numbers::Each(values.iter().map(|v| v.is_finite().then_some(*v)).collect())
}

fn matrix(matrix: &Matrix) -> FileMatrix {
    match matrix.kind() {
        Kind::Dense(values) => {
            FileMatrix::Rows(values.chunks(matrix.cols().max(1)).map(<[f64]>::to_vec).collect())
        }
        Kind::Diagonal(values) => FileMatrix::Diagonal(FileDiagonal { diagonal: values.clone() }),
        Kind::Sparse(entries) => {
            FileMatrix::Sparse(FileSparse { shape: [matrix.rows(), matrix.cols()], sparse: entries.clone() })
        }
    }
}
