//! An edge of a [`Network`](super::Network): what two agents must, or should, agree on.

use super::AgentId;
use crate::error::{check_finite, check_len, check_positive};
use crate::{Matrix, Result};

/// What it costs if r = F_a x_a − F_b x_b − offset is not 0.
///
/// ```
/// use sheaf_admm::network::{Coupling, Edge, Network};
/// use sheaf_admm::x_update::Quadratic;
///
/// // One agent wants 0 and the other 1, both with weight 1.
/// for (coupling, gap) in [
///     (Coupling::Hard, 0.0),
///     (Coupling::Soft { weight: 1.0 }, 1.0 / 3.0),
///     (Coupling::L1 { weight: 0.2 }, 0.6),
///     (Coupling::L1 { weight: 0.6 }, 0.0),
/// ] {
///     let mut net = Network::new();
///     let a = net.agent(Quadratic::new([[1.0]], [0.0]))?;
///     let b = net.agent(Quadratic::new([[1.0]], [-1.0]))?;
///     net.edge(Edge::new(a, [[1.0]], b, [[1.0]]).coupling(coupling))?;
///     let solution = net.solve(1e-9)?;
///     assert!((solution.x(b)[0] - solution.x(a)[0] - gap).abs() < 1e-6);
/// }
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Coupling {
    /// r must be 0.
    Hard,
    /// w/2 ‖r‖².
    Soft {
        /// w.
        weight: f64,
    },
    /// w Σ U(r_k), U quadratic up to δ and linear beyond: a few edges may be far off.
    Huber {
        /// w.
        weight: f64,
        /// δ.
        delta: f64,
    },
    /// w Σ |r_k|: many components of r become exactly 0.
    L1 {
        /// w.
        weight: f64,
    },
    /// w ‖r‖: the whole r of many edges becomes exactly 0.
    L2 {
        /// w.
        weight: f64,
    },
}

impl Coupling {
    pub(super) fn validate(self) -> Result<()> {
        match self {
            Self::Hard => Ok(()),
            Self::Soft { weight } | Self::L1 { weight } | Self::L2 { weight } => {
                check_positive("weight", weight)
            }
            Self::Huber { weight, delta } => {
                check_positive("weight", weight)?;
                check_positive("delta", delta)
            }
        }
    }

    /// The cost of r.
    pub fn value(self, r: &[f64]) -> f64 {
        match self {
            Self::Hard => 0.0,
            Self::Soft { weight } => 0.5 * weight * r.iter().map(|r| r * r).sum::<f64>(),
            Self::Huber { weight, delta } => {
                weight * r.iter().map(|&r| crate::x_update::huber(delta, r)).sum::<f64>()
            }
            Self::L1 { weight } => weight * r.iter().map(|r| r.abs()).sum::<f64>(),
            Self::L2 { weight } => weight * r.iter().map(|r| r * r).sum::<f64>().sqrt(),
        }
    }
}

/// An edge between two agents, to be given to [`Network::edge`](super::Network::edge).
///
/// ```
/// use sheaf_admm::network::{Coupling, Edge, Network};
/// use sheaf_admm::x_update::Quadratic;
/// use sheaf_admm::Matrix;
///
/// let mut net = Network::new();
/// let a = net.agent(Quadratic::new(Matrix::identity(2), [0.0, 0.0]))?;
/// let b = net.agent(Quadratic::new(Matrix::identity(2), [0.0, 0.0]))?;
/// // a is one to the right of b, and their second numbers should be close.
/// net.edge(Edge::new(a, [[1.0, 0.0]], b, [[1.0, 0.0]]).offset([1.0]))?;
/// net.edge(Edge::new(a, [[0.0, 1.0]], b, [[0.0, 1.0]]).coupling(Coupling::Soft { weight: 3.0 }))?;
/// assert_eq!(net.edges(), 2);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Edge {
    pub(crate) ends: [(AgentId, Matrix); 2],
    pub(crate) offset: Vec<f64>, // [rows]
    pub(crate) coupling: Coupling,
}

impl Edge {
    /// F_a x_a = F_b x_b.
    pub fn new(a: AgentId, map_a: impl Into<Matrix>, b: AgentId, map_b: impl Into<Matrix>) -> Self {
        let (map_a, map_b) = (map_a.into(), map_b.into());
        let offset = vec![0.0; map_a.rows()];
        Self { ends: [(a, map_a), (b, map_b)], offset, coupling: Coupling::Hard }
    }

    /// F_a x_a − F_b x_b = offset instead of 0.
    pub fn offset(mut self, offset: impl Into<Vec<f64>>) -> Self {
        self.offset = offset.into();
        self
    }

    /// What disagreement costs; without this it is forbidden.
    pub fn coupling(mut self, coupling: Coupling) -> Self {
        self.coupling = coupling;
        self
    }

    /// Shorthand for [`Coupling::Soft`].
    pub fn soft(self, weight: f64) -> Self {
        self.coupling(Coupling::Soft { weight })
    }

    pub(super) fn rows(&self) -> usize {
        self.offset.len()
    }

    /// Texts are made for mistakes alone: a network may have millions of edges.
    pub(super) fn validate(&self, dims: [usize; 2]) -> Result<()> {
        let places = ["map of end a", "map of end b"];
        for ((place, (_, map)), dim) in places.into_iter().zip(&self.ends).zip(dims) {
            map.check(place)?;
            map.check_cols(place, dim)?;
        }
        let rows = self.ends[0].1.rows();
        check_len("rows of the map of end b", rows, self.ends[1].1.rows())?;
        check_len("offset", rows, self.offset.len())?;
        check_positive("rows of the maps", rows as f64)?;
        check_finite("offset", &self.offset)?;
        self.coupling.validate()
    }
}
