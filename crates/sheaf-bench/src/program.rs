//! The same problems as one quadratic program, min ½ xᵀPx + qᵀx with lower ≤ A x ≤ upper, for general solvers.

use sheaf_admm::network::file::{FileCoupling, FileEnd, FileMatrix, Numbers, Problem};
use sheaf_admm::{Error, ErrorKind, Result};

use crate::instance::{D, Instance, SHARED, WEIGHT};

/// A sparse program.
#[derive(Default)]
pub struct Program {
    /// Entries (row, column, value) of the upper triangle of P.
    pub p: Vec<(u32, u32, f64)>,
    /// q.
    pub q: Vec<f64>,
    /// Entries of A.
    pub a: Vec<(u32, u32, f64)>,
    /// The lower ends of the rows of A.
    pub lower: Vec<f64>,
    /// The upper ends.
    pub upper: Vec<f64>,
    /// How many of the variables are those of the agents; the others are auxiliary.
    pub states: usize,
}

impl Program {
    /// Of an instance: soft edges enter P, hard ones are rows.
    pub fn of_instance(instance: &Instance) -> Self {
        let mut program = Self { states: D * instance.agents(), ..Self::default() };
        for (i, (quad, q)) in instance.quad.iter().zip(&instance.linear).enumerate() {
            let at = D * i;
            for row in 0..D {
                program.p.extend((row..D).map(|j| ((at + row) as u32, (at + j) as u32, quad[row * D + j])));
            }
            program.q.extend(q);
        }
        for &(a, b) in &instance.pairs {
            for k in 0..SHARED {
                let (a, b) = ((D * a as usize + k) as u32, (D * b as usize + k) as u32);
                if instance.hard {
                    let row = program.row(0.0, 0.0);
                    program.a.extend([(row, a, 1.0), (row, b, -1.0)]);
                } else {
                    program.p.extend([(a, a, WEIGHT), (b, b, WEIGHT), (a.min(b), a.max(b), -WEIGHT)]);
                }
            }
        }
        program
    }

    /// Of a problem file with quadratic agents and hard or soft edges; a soft edge has variables of its own.
    pub fn of_file(problem: &Problem) -> Result<Self> {
        let (mut program, mut starts) = (Self::default(), Vec::new());
        for agent in &problem.agents {
            let at = program.q.len();
            starts.push(at);
            let q = numbers(agent.q.as_ref(), 0.0)?;
            let d = q.len();
            program.q.extend(q);
            for (i, j, v) in agent.quad.as_ref().map_or(Ok(vec![]), entries)? {
                if i <= j {
                    program.p.push(((at + i) as u32, (at + j) as u32, v));
                }
            }
            let place = |(i, j, v): (usize, usize, f64)| (i, at + j, v);
            if let Some(equal) = &agent.equal {
                let b = numbers(Some(&equal.b), 0.0)?;
                program.rows(entries(&equal.a)?.into_iter().map(place), &b, &b);
            }
            if let Some(most) = &agent.at_most {
                let h = numbers(Some(&most.h), 0.0)?;
                let free = vec![f64::NEG_INFINITY; h.len()];
                program.rows(entries(&most.g)?.into_iter().map(place), &free, &h);
            }
            let lower = numbers(agent.lower.as_ref(), f64::NEG_INFINITY)?;
            let upper = numbers(agent.upper.as_ref(), f64::INFINITY)?;
            let of = |all: &[f64], j: usize, none: f64| all.get(j).or(all.first()).copied().unwrap_or(none);
            for j in 0..d {
                let (lo, hi) = (of(&lower, j, f64::NEG_INFINITY), of(&upper, j, f64::INFINITY));
                if lo.is_finite() || hi.is_finite() {
                    let row = program.row(lo, hi);
                    program.a.push((row, (at + j) as u32, 1.0));
                }
            }
        }
        program.states = program.q.len();
        for edge in &problem.edges {
            let ends = [(&edge.a, &edge.map_a, 1.0), (&edge.b, &edge.map_b, -1.0)];
            let rows = entries(&edge.map_a)?.iter().map(|e| e.0 + 1).max().unwrap_or(0);
            let mut offset = numbers(edge.offset.as_ref(), 0.0)?;
            offset.resize(rows, 0.0);
            let mut all = Vec::new();
            for (end, map, sign) in ends {
                let FileEnd::Number(agent) = end else {
                    return Err(unsupported("an end of an edge by name"));
                };
                let at = starts[*agent];
                all.extend(entries(map)?.into_iter().map(|(i, j, v)| (i, at + j, sign * v)));
            }
            match &edge.coupling {
                None | Some(FileCoupling::Hard) => {}
                Some(FileCoupling::Soft { weight }) => {
                    for i in 0..rows {
                        let own = program.q.len();
                        program.q.push(0.0);
                        program.p.push((own as u32, own as u32, *weight));
                        all.push((i, own, -1.0));
                    }
                }
                Some(_) => return Err(unsupported("a coupling that is not quadratic")),
            }
            program.rows(all.into_iter(), &offset, &offset);
        }
        Ok(program)
    }

    fn row(&mut self, lower: f64, upper: f64) -> u32 {
        self.lower.push(lower);
        self.upper.push(upper);
        (self.lower.len() - 1) as u32
    }

    fn rows(&mut self, entries: impl Iterator<Item = (usize, usize, f64)>, lower: &[f64], upper: &[f64]) {
        let first = self.lower.len();
        self.a.extend(entries.map(|(i, j, v)| ((first + i) as u32, j as u32, v)));
        self.lower.extend(lower);
        self.upper.extend(upper);
    }
}

/// Numbers as they are given, `missing` where there is none.
fn numbers(numbers: Option<&Numbers>, missing: f64) -> Result<Vec<f64>> {
    match numbers {
        None => Ok(Vec::new()),
        Some(Numbers::One(v)) => Ok(vec![*v]),
        Some(Numbers::Each(all)) => Ok(all.iter().map(|v| v.unwrap_or(missing)).collect()),
        Some(Numbers::File(_)) => Err(unsupported("numbers in another file")),
    }
}

/// The entries of a matrix that are not 0.
fn entries(matrix: &FileMatrix) -> Result<Vec<(usize, usize, f64)>> {
    Ok(match matrix {
        FileMatrix::Rows(rows) => rows
            .iter()
            .enumerate()
            .flat_map(|(i, row)| row.iter().enumerate().map(move |(j, &v)| (i, j, v)))
            .filter(|e| e.2 != 0.0)
            .collect(),
        FileMatrix::Identity(of) => (0..of.identity).map(|i| (i, i, 1.0)).collect(),
        FileMatrix::Diagonal(of) => of.diagonal.iter().enumerate().map(|(i, &v)| (i, i, v)).collect(),
        FileMatrix::Select(of) => of.select.iter().enumerate().map(|(i, &j)| (i, j, 1.0)).collect(),
        FileMatrix::Sparse(of) => of.sparse.clone(),
        FileMatrix::File(_) => return Err(unsupported("a matrix in another file")),
    })
}

fn unsupported(got: &str) -> Error {
    Error::new(ErrorKind::Unsupported, "benchmark problem", "numbers in the file itself", got)
}
