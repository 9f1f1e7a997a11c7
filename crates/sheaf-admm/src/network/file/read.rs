//! From a file's problem to a [`Network`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::{
    FileAgent, FileCoupling, FileEdge, FileEnd, FileMap, FileMatrix, FileNorm, FileSettings, Loader, Mistake,
    Numbers, Problem, Step,
};
use crate::error::check_len;
use crate::network::{AgentId, Coupling, Edge, Network, Settings, hints, named};
use crate::x_update::{Ball, Huber, Logistic, Norm, Proximal, Quadratic, SecondOrderCone, Simplex};
use crate::{Error, ErrorKind, Matrix, Result};

/// The largest size of an agent, and the most entries of a matrix that a short form may stand for: a few bytes must not
/// ask for all memory.
pub const MAX_SIZE: usize = 1 << 20;

/// The most numbers in the states of all agents together, and the most rows of all edges together.
pub const MAX_TOTAL: usize = 1 << 24;

/// The most rows of A or G of one agent. Their multipliers are solved with dense matrices of that size.
const MAX_ROWS: usize = 1 << 13;

/// What reading a part of a problem returns: the key of a mistake with it.
type Part<T> = std::result::Result<T, (Vec<Step>, Error)>;

impl Problem {
    /// The network, with the files that it names read by `loader`.
    pub fn network(&self, loader: &mut impl Loader) -> std::result::Result<Network, Mistake> {
        let mut net = Network::new();
        let mut names: HashMap<&str, AgentId> = HashMap::new();
        let mut states = Total::new("sizes of the agents so far");
        let mut rows = Total::new("rows of the edges so far");
        for (i, agent) in self.agents.iter().enumerate() {
            let label = agent.name.clone().unwrap_or_else(|| i.to_string());
            let fail = |(rest, error)| mistake("agents", i, rest, named(format!("agent {label}"), error));
            let map = agent.objective(loader).map_err(fail)?;
            states.add(map.dim()).map_err(|e| fail((vec![], e)))?;
            let id = net.add_agent(map).map_err(|e| fail((key_of(&e), e)))?;
            if let Some(penalty) = &agent.penalty {
                let numbers =
                    penalty.read(None, loader).map_err(|e| fail((vec![Step::Key("penalty")], e)))?;
                net.set_penalty(id, &numbers).map_err(|e| fail((vec![Step::Key("penalty")], e)))?;
            }
            if let Some(name) = &agent.name
                && names.insert(name, id).is_some()
            {
                let error = Error::new(
                    ErrorKind::Malformed,
                    "name",
                    "another name for every agent",
                    format_args!("\"{name}\" again"),
                );
                return Err(fail((vec![Step::Key("name")], error)));
            }
        }
        for (e, edge) in self.edges.iter().enumerate() {
            let label = edge.name.clone().unwrap_or_else(|| e.to_string());
            let fail = |(rest, error)| mistake("edges", e, rest, named(format!("edge {label}"), error));
            let edge = edge.edge(&names, net.agents(), loader).map_err(fail)?;
            rows.add(edge.ends[0].1.rows()).map_err(|e| fail((vec![], e)))?;
            net.add_edge(edge).map_err(|e| fail((key_of(&e), e)))?;
        }
        Ok(net)
    }

    /// The settings of the file on top of these.
    pub fn settings(&self, base: Settings) -> Result<Settings> {
        let Some(FileSettings { tol, iterations, time_limit, rho, adapt, relax, scale }) = self.settings
        else {
            return Ok(base);
        };
        let settings = Settings {
            tol: tol.unwrap_or(base.tol),
            iterations: iterations.unwrap_or(base.iterations),
            time_limit: time_limit
                .map(|s| seconds("settings: time_limit", s))
                .transpose()?
                .or(base.time_limit),
            rho: rho.or(base.rho),
            adapt: adapt.unwrap_or(base.adapt),
            relax: relax.unwrap_or(base.relax),
            scale: scale.unwrap_or(base.scale),
            consensus: base.consensus,
            threads: base.threads,
        };
        settings.validate().map(|()| settings)
    }
}

/// A time in seconds; `place` names it in errors.
pub fn seconds(place: &str, seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Error::new(ErrorKind::OutOfRange, place, "seconds, from 0 to 1e19", seconds))
        .map_err(|e| e.hint("leave it out to solve without a limit"))
}

fn mistake(list: &'static str, index: usize, rest: Vec<Step>, error: Error) -> Mistake {
    let key = rest.first().and_then(|step| if let Step::Key(key) = step { Some(*key) } else { None });
    let error = hints::hinted(error, key.or(Some("file")));
    let path = [Step::Key(list), Step::Index(index)].into_iter().chain(rest).collect();
    Mistake { path, error }
}

/// The key that a mistake of a whole agent or edge is about, from the place that its error names.
fn key_of(error: &Error) -> Vec<Step> {
    hints::key_of(error).filter(|key| !["a", "dim"].contains(key)).map(Step::Key).into_iter().collect()
}

/// The key of a mistake.
fn at(key: &'static str) -> impl Fn(Error) -> (Vec<Step>, Error) {
    move |error| (vec![Step::Key(key)], named(key.to_string(), error))
}

fn at2(first: &'static str, second: &'static str) -> impl Fn(Error) -> (Vec<Step>, Error) {
    move |error| (vec![Step::Key(first), Step::Key(second)], named(format!("{first}.{second}"), error))
}

impl FileAgent {
    fn objective(&self, loader: &mut impl Loader) -> Part<Arc<dyn Proximal<f64>>> {
        let Some(map) = &self.map else { return Ok(Arc::new(self.quadratic(loader)?)) };
        let plain = Self { name: None, map: None, penalty: None, ..self.clone() } == Self::default();
        if !plain {
            let error =
                Error::new(ErrorKind::Malformed, "map", "either a map or the terms of a quadratic", "both")
                    .hint("give the terms to an agent of their own and let the two agree");
            return Err(at("map")(error));
        }
        map.read(loader)
    }

    fn quadratic(&self, loader: &mut impl Loader) -> Part<Quadratic> {
        let quad = self.quad.as_ref().map(|m| m.read(loader)).transpose().map_err(at("Q"))?;
        let known = quad.as_ref().map(Matrix::rows).or(self.dim);
        let q = match &self.q {
            Some(q) => Some(q.read(known, loader).map_err(at("q"))?),
            None => None,
        };
        let Some(d) = known.or(q.as_ref().map(Vec::len)) else {
            let error = Error::new(ErrorKind::Malformed, "size of x", "`Q`, `q` or `dim`", "none of them");
            return Err((vec![], error));
        };
        check_size("size of x", d).map_err(|e| (vec![], e))?;
        let quad = quad.unwrap_or_else(|| Matrix::zero(d));
        let mut f = Quadratic::new(quad, q.unwrap_or_else(|| vec![0.0; d])).l2(self.l2.unwrap_or(0.0));
        if let Some(l1) = &self.l1 {
            f = f.l1(l1.read(Some(d), loader).map_err(at("l1"))?);
        }
        if let Some(tether) = &self.tether {
            f = f.tether(tether.beta, tether.anchor.read(Some(d), loader).map_err(at2("tether", "anchor"))?);
        }
        if self.lower.is_some() || self.upper.is_some() {
            let side = |numbers: &Option<Numbers>, missing: f64, loader: &mut _| match numbers {
                Some(numbers) => numbers.bounds(d, missing, loader),
                None => Ok(vec![missing; d]),
            };
            let lo = side(&self.lower, f64::NEG_INFINITY, loader).map_err(at("lower"))?;
            f = f.bounds(lo, side(&self.upper, f64::INFINITY, loader).map_err(at("upper"))?);
        }
        if let Some(rows) = &self.equal {
            let a = rows.a.read(loader).and_then(few_rows).map_err(at2("equal", "A"))?;
            let b = rows.b.read(Some(a.rows()), loader).map_err(at2("equal", "b"))?;
            f = f.equal(a, b);
        }
        if let Some(rows) = &self.at_most {
            let g = rows.g.read(loader).and_then(few_rows).map_err(at2("at_most", "G"))?;
            let h = rows.h.read(Some(g.rows()), loader).map_err(at2("at_most", "h"))?;
            f = f.at_most(g, h);
        }
        Ok(f)
    }
}

impl FileMap {
    fn read(&self, loader: &mut impl Loader) -> Part<Arc<dyn Proximal<f64>>> {
        let size = |d: usize| check_size("dim", d).map(|()| d).map_err(at2("map", "dim"));
        Ok(match self {
            Self::Huber { weight, delta, centre } => {
                let centre = centre.read(None, loader).map_err(at2("map", "centre"))?;
                Arc::new(Huber { weight: *weight, delta: *delta, centre })
            }
            Self::Ball { norm, radius, centre } => {
                let norm = match norm {
                    FileNorm::L1 => Norm::L1,
                    FileNorm::L2 => Norm::L2,
                    FileNorm::LInf => Norm::LInf,
                };
                let centre = centre.read(None, loader).map_err(at2("map", "centre"))?;
                Arc::new(Ball { norm, radius: *radius, centre })
            }
            Self::Simplex { dim, total } => Arc::new(Simplex { dim: size(*dim)?, total: *total }),
            Self::SecondOrderCone { dim } => Arc::new(SecondOrderCone { dim: size(*dim)? }),
            Self::Logistic { features, labels, weight, l2 } => {
                let features = features.read(loader).map_err(at2("map", "features"))?;
                let labels = labels.read(Some(features.rows()), loader).map_err(at2("map", "labels"))?;
                let (dim, weight, l2) = (features.cols(), *weight, *l2);
                check_entries(&features).map_err(at2("map", "features"))?;
                Arc::new(Logistic { dim, features: features.to_dense(), labels, weight, l2 })
            }
        })
    }
}

impl FileEdge {
    fn edge(&self, names: &HashMap<&str, AgentId>, agents: usize, loader: &mut impl Loader) -> Part<Edge> {
        let find = |end: &FileEnd, key: &'static str| match end {
            FileEnd::Number(i) if *i < agents => Ok(AgentId(*i)),
            FileEnd::Name(name) if names.contains_key(name.as_str()) => Ok(names[name.as_str()]),
            FileEnd::Number(i) => Err(at(key)(Error::new(
                ErrorKind::OutOfRange,
                "agent",
                format_args!("a number below {agents}"),
                i,
            ))),
            FileEnd::Name(name) => Err(at(key)(
                Error::new(
                    ErrorKind::OutOfRange,
                    "agent",
                    "the name of an agent of this file",
                    format_args!("\"{name}\""),
                )
                .hint("agents are named by their `name`, or by number, from 0"),
            )),
        };
        let (a, b) = (find(&self.a, "a")?, find(&self.b, "b")?);
        let map_a = self.map_a.read(loader).map_err(at("F_a"))?;
        let map_b = self.map_b.read(loader).map_err(at("F_b"))?;
        let rows = map_a.rows();
        let mut edge = Edge::new(a, map_a, b, map_b);
        if let Some(offset) = &self.offset {
            edge = edge.offset(offset.read(Some(rows), loader).map_err(at("offset"))?);
        }
        Ok(match self.coupling {
            None | Some(FileCoupling::Hard) => edge,
            Some(FileCoupling::Soft { weight }) => edge.soft(weight),
            Some(FileCoupling::Huber { weight, delta }) => edge.coupling(Coupling::Huber { weight, delta }),
            Some(FileCoupling::L1 { weight }) => edge.coupling(Coupling::L1 { weight }),
            Some(FileCoupling::L2 { weight }) => edge.coupling(Coupling::L2 { weight }),
        })
    }
}

impl Numbers {
    /// Finite numbers, `count` of them if that is known; one stands for `count` equal ones.
    fn read(&self, count: Option<usize>, loader: &mut impl Loader) -> Result<Vec<f64>> {
        let numbers = self.listed(count, loader)?;
        count.map_or(Ok(()), |count| check_len("numbers", count, numbers.len()))?;
        Ok(numbers)
    }

    fn listed(&self, count: Option<usize>, loader: &mut impl Loader) -> Result<Vec<f64>> {
        match self {
            Self::One(value) => {
                let count = count.unwrap_or(1);
                check_size("numbers", count)?;
                Ok(vec![*value; count])
            }
            Self::Each(values) => values
                .iter()
                .enumerate()
                .map(|(i, v)| {
                    v.ok_or_else(|| {
                        Error::new(ErrorKind::Malformed, format!("number {i}"), "a number", "null")
                    })
                })
                .collect(),
            Self::File(name) => {
                let matrix = loader.matrix(name)?;
                check_entries(&matrix)?;
                if matrix.rows() != 1 && matrix.cols() != 1 {
                    let got = format!("{} × {}", matrix.rows(), matrix.cols());
                    return Err(Error::new(ErrorKind::Shape, &name.file, "one row or one column", got));
                }
                Ok(matrix.to_dense())
            }
        }
    }

    /// Bounds: `null` is a missing one.
    fn bounds(&self, d: usize, missing: f64, loader: &mut impl Loader) -> Result<Vec<f64>> {
        match self {
            Self::Each(values) => Ok(values.iter().map(|v| v.unwrap_or(missing)).collect()),
            other => other.read(Some(d), loader),
        }
    }
}

impl FileMatrix {
    fn read(&self, loader: &mut impl Loader) -> Result<Matrix> {
        match self {
            Self::Rows(rows) => {
                let cols = rows.first().map_or(0, Vec::len);
                match rows.iter().position(|row| row.len() != cols) {
                    None => Ok(Matrix::dense(rows.len(), cols, rows.concat())),
                    Some(i) => Err(Error::new(
                        ErrorKind::Shape,
                        format!("row {i}"),
                        format_args!("{cols} numbers, as row 0"),
                        rows[i].len(),
                    )),
                }
            }
            Self::Identity(one) => {
                check_size("identity", one.identity).map(|()| Matrix::identity(one.identity))
            }
            Self::Diagonal(one) => Ok(Matrix::diagonal(one.diagonal.clone())),
            Self::Select(one) => {
                check_size("of", one.of)?;
                Ok(Matrix::selector(one.of, &one.select))
            }
            Self::Sparse(one) => {
                one.shape.iter().try_for_each(|&n| check_size("shape", n))?;
                Ok(Matrix::sparse(one.shape[0], one.shape[1], one.sparse.clone()))
            }
            Self::File(name) => loader.matrix(name),
        }
    }
}

/// A sum of sizes that is refused beyond [`MAX_TOTAL`]: many short forms must not ask for all memory either.
struct Total {
    what: &'static str,
    sum: usize,
}

impl Total {
    fn new(what: &'static str) -> Self {
        Self { what, sum: 0 }
    }

    fn add(&mut self, n: usize) -> Result<()> {
        self.sum = self.sum.saturating_add(n);
        if self.sum <= MAX_TOTAL {
            return Ok(());
        }
        let want = format!("at most {MAX_TOTAL} numbers together");
        Err(Error::new(ErrorKind::OutOfRange, self.what, want, self.sum))
    }
}

/// A matrix of constraints whose rows are limited, and not many more than its entries: empty rows say nothing.
fn few_rows(matrix: Matrix) -> Result<Matrix> {
    let most = (4 * matrix.stored()).clamp(256, MAX_ROWS);
    if matrix.rows() <= most {
        return Ok(matrix);
    }
    Err(Error::new(ErrorKind::OutOfRange, "rows", format_args!("at most {most}"), matrix.rows()))
}

fn check_size(place: &str, n: usize) -> Result<()> {
    if n <= MAX_SIZE {
        return Ok(());
    }
    Err(Error::new(ErrorKind::OutOfRange, place, format_args!("at most {MAX_SIZE}"), n))
}

/// That the dense form of a matrix is not much larger than what stands in the file.
fn check_entries(matrix: &Matrix) -> Result<()> {
    matrix.check("matrix")?;
    let entries = matrix.rows().saturating_mul(matrix.cols());
    let most = (4 * MAX_SIZE).max(2 * matrix.stored());
    if entries <= most {
        return Ok(());
    }
    Err(Error::new(ErrorKind::OutOfRange, "matrix", format_args!("at most {most} entries"), entries))
}
