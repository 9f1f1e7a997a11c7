//! How long and how accurately to solve.

use std::time::Duration;

use crate::error::check_positive;
use crate::{Error, ErrorKind, Result};

/// How a [`Solver`](super::Solver) works. The defaults suit most problems; change `tol` first.
///
/// ```
/// use std::time::Duration;
/// use sheaf_admm::network::Settings;
///
/// let settings = Settings { tol: 1e-8, time_limit: Some(Duration::from_secs(2)), ..Settings::default() };
/// assert!(settings.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Absolute and relative tolerance of every residual, in the units of the problem as it was given.
    pub tol: f64,
    /// The most iterations of a solve.
    pub iterations: usize,
    /// The most time of a solve, from its call, kept to within 100 ms where the parts of an iteration and the report are shorter than
    /// that. Looked at between the parts of the preparation, of an iteration and of inner solves; an iteration that is not done is
    /// dropped. A factorisation that has begun is completed. A limit that is over before the first iteration leaves x as it was.
    /// [`Network::solver`](super::Network::solver) is not part of it.
    pub time_limit: Option<Duration>,
    /// The first penalty ρ, in scaled units. If `None`: 1, or half the typical curvature where all agents are quadratics without
    /// constraints. It is adapted while the solve runs.
    pub rho: Option<f64>,
    /// Whether ρ is adapted.
    pub adapt: bool,
    /// Over-relaxation α, above 0 and below 2.
    pub relax: f64,
    /// Whether the problem is scaled before it is solved.
    pub scale: bool,
    /// How the consensus step is solved.
    pub consensus: Consensus,
    /// The most threads of a solve; 0: one per core. Only networks of more than [`chunks::AGENTS`](crate::chunks::AGENTS)
    /// agents use more than one, and the results do not depend on it.
    pub threads: usize,
}

/// How the consensus step of a network is solved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consensus {
    /// By a factorisation, or where that is too large by a sparse system; the fastest on one machine.
    #[default]
    Exact,
    /// By conjugate gradients on the states, to a tolerance: needs only exchanges between neighbours and inner products, which
    /// several ranks can share ([`Solver::solve_over`](super::Solver::solve_over)).
    Cg,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tol: 1e-6,
            iterations: 10_000,
            time_limit: None,
            rho: None,
            adapt: true,
            relax: 1.6,
            scale: true,
            consensus: Consensus::Exact,
            threads: 0,
        }
    }
}

impl Settings {
    /// Checks that tolerance, penalty and relaxation have a meaning.
    pub fn validate(&self) -> Result<()> {
        let positive = |place, value, hint| check_positive(place, value).map_err(|e: Error| e.hint(hint));
        positive("tol", self.tol, "1e-6 is the default; a small number asks for more digits")?;
        positive(
            "rho",
            self.rho.unwrap_or(1.0),
            "leave it out: a penalty is found, and adapted as the solve runs",
        )?;
        positive("relax", self.relax, "1 is plain ADMM, 1.6 often converges faster")?;
        if self.relax >= 2.0 {
            return Err(Error::new(ErrorKind::Unsupported, "relax", "a number below 2", self.relax)
                .hint("1 is plain ADMM, 1.6 often converges faster"));
        }
        Ok(())
    }
}
