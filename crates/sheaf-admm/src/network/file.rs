//! Problems as data, for any format that serde knows. The keys are documented in `docs/solver.md`.
//!
//! ```
//! use sheaf_admm::network::{Network, file::Problem};
//! use sheaf_admm::x_update::Quadratic;
//!
//! let mut net = Network::new();
//! let a = net.agent(Quadratic::new([[1.0]], [-1.0]))?;
//! let b = net.agent(Quadratic::new([[1.0]], [-5.0]))?;
//! net.agree(a, [[1.0]], b, [[1.0]])?;
//! let text = serde_json::to_string(&Problem::of(&net)?).unwrap();
//!
//! let again: Problem = serde_json::from_str(&text).unwrap();
//! let solution = again.network(&mut ())?.solve(1e-9)?;
//! assert!((solution.all_x()[0] - 3.0).abs() < 1e-6);
//! # Ok::<(), sheaf_admm::Error>(())
//! ```

mod forms;
mod read;
mod write;

pub use read::{MAX_SIZE, MAX_TOTAL, seconds};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Matrix, Result};

/// A network as it stands in a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Problem {
    /// How to solve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<FileSettings>,
    /// The agents, in order.
    pub agents: Vec<FileAgent>,
    /// The edges, in order.
    pub edges: Vec<FileEdge>,
}

/// The `settings` of a file; what is missing has its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileSettings {
    pub tol: Option<f64>,
    pub iterations: Option<usize>,
    pub time_limit: Option<f64>,
    pub rho: Option<f64>,
    pub adapt: Option<bool>,
    pub relax: Option<f64>,
    pub scale: Option<bool>,
}

/// An agent of a file: a quadratic, or another map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileAgent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The size of x, where neither q nor Q gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
    #[serde(default, rename = "Q", skip_serializing_if = "Option::is_none")]
    pub quad: Option<FileMatrix>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<Numbers>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l1: Option<Numbers>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2: Option<f64>,
    #[serde(default, deserialize_with = "forms::table", skip_serializing_if = "Option::is_none")]
    pub tether: Option<FileTether>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<Numbers>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<Numbers>,
    #[serde(default, deserialize_with = "forms::table", skip_serializing_if = "Option::is_none")]
    pub equal: Option<FileEqual>,
    #[serde(default, deserialize_with = "forms::table", skip_serializing_if = "Option::is_none")]
    pub at_most: Option<FileAtMost>,
    /// Another objective instead of the quadratic.
    #[serde(default, deserialize_with = "forms::table", skip_serializing_if = "Option::is_none")]
    pub map: Option<FileMap>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub penalty: Option<Numbers>,
}

/// β/2 ‖x − anchor‖².
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileTether {
    pub beta: f64,
    pub anchor: Numbers,
}

/// A x = b.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileEqual {
    #[serde(rename = "A")]
    pub a: FileMatrix,
    pub b: Numbers,
}

/// G x ≤ h.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileAtMost {
    #[serde(rename = "G")]
    pub g: FileMatrix,
    pub h: Numbers,
}

/// An objective that is not a quadratic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum FileMap {
    Huber { weight: f64, delta: f64, centre: Numbers },
    Ball { norm: FileNorm, radius: f64, centre: Numbers },
    Simplex { dim: usize, total: f64 },
    SecondOrderCone { dim: usize },
    Logistic { features: FileMatrix, labels: Numbers, weight: f64, l2: f64 },
}

/// A norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum FileNorm {
    L1,
    L2,
    LInf,
}

/// An edge of a file. Agents are named, or numbered from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileEdge {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub a: FileEnd,
    #[serde(rename = "F_a")]
    pub map_a: FileMatrix,
    pub b: FileEnd,
    #[serde(rename = "F_b")]
    pub map_b: FileMatrix,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Numbers>,
    #[serde(default, deserialize_with = "forms::table", skip_serializing_if = "Option::is_none")]
    pub coupling: Option<FileCoupling>,
}

/// The agent at an end of an edge.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum FileEnd {
    Number(usize),
    Name(String),
}

/// The cost of disagreement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[allow(missing_docs)]
pub enum FileCoupling {
    Hard,
    Soft { weight: f64 },
    Huber { weight: f64, delta: f64 },
    L1 { weight: f64 },
    L2 { weight: f64 },
}

/// Numbers: one for all coordinates, one per coordinate (`null` where a bound is missing), or in a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum Numbers {
    One(f64),
    Each(Vec<Option<f64>>),
    File(FileName),
}

/// The name of a file beside the problem: `.npy`, `.npz` with the name of an array, or `.mtx`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileName {
    pub file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
}

/// A matrix: rows, or one of the short forms.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum FileMatrix {
    Rows(Vec<Vec<f64>>),
    Identity(FileIdentity),
    Diagonal(FileDiagonal),
    Select(FileSelect),
    Sparse(FileSparse),
    File(FileName),
}

/// The identity of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileIdentity {
    pub identity: usize,
}

/// A diagonal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileDiagonal {
    pub diagonal: Vec<f64>,
}

/// Some of `of` coordinates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileSelect {
    pub select: Vec<usize>,
    pub of: usize,
}

/// Entries `[row, column, value]` of a matrix of this shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct FileSparse {
    pub shape: [usize; 2],
    pub sparse: Vec<(usize, usize, f64)>,
}

/// Reads the files that a problem names.
pub trait Loader {
    /// A matrix; a vector is a matrix with one column.
    fn matrix(&mut self, name: &FileName) -> Result<Matrix>;
}

/// No files at all.
impl Loader for () {
    fn matrix(&mut self, name: &FileName) -> Result<Matrix> {
        Err(Error::new(
            ErrorKind::Unsupported,
            format!("file {}", name.file),
            "numbers in the problem itself",
            "a file",
        )
        .hint("give a loader that reads files"))
    }
}

/// Where in a problem a mistake is: `agents`, 3, `Q`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(&'static str),
    /// An element of a list.
    Index(usize),
}

/// A mistake in a problem: what it is, and the way from the root of the file to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// The way.
    pub path: Vec<Step>,
    /// The mistake.
    pub error: Error,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Mistake {}

impl From<Mistake> for Error {
    fn from(mistake: Mistake) -> Self {
        mistake.error
    }
}
