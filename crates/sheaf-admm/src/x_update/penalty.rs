//! The penalty ρ of the proximal term ρ_i/2 ‖x − v_i‖²: one number for all agents, or one per agent.

use crate::error::{check_len, check_positive};
use crate::{Real, Result};

/// The penalty: one for all agents, or one per agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Penalty<'a, T> {
    /// The same ρ everywhere.
    Scalar(T),
    /// Its own ρ_i for every agent.
    PerAgent(&'a [T]), // [agents]
}

impl<'a, T: Real> Penalty<'a, T> {
    /// The penalty of one agent; NaN for an agent that has none.
    #[inline]
    pub fn of(&self, agent: usize) -> T {
        match self {
            Self::Scalar(rho) => *rho,
            Self::PerAgent(rho) => rho.get(agent).copied().unwrap_or(T::from_f64(f64::NAN)),
        }
    }

    /// Length of the gradient of the penalty: 1, or one per agent.
    pub fn grad_len(&self, agents: usize) -> usize {
        match self {
            Self::Scalar(_) => 1,
            Self::PerAgent(_) => agents,
        }
    }

    /// Where the gradient of one agent's penalty is added.
    #[inline]
    pub fn grad_index(&self, agent: usize) -> usize {
        match self {
            Self::Scalar(_) => 0,
            Self::PerAgent(_) => agent,
        }
    }

    /// Checks only the count.
    pub(crate) fn check_count(&self, agents: usize) -> Result<()> {
        match self {
            Self::Scalar(_) => Ok(()),
            Self::PerAgent(rho) => check_len("rho", agents, rho.len()),
        }
    }

    /// Checks the count and that every penalty is finite and positive.
    pub fn validate(&self, agents: usize) -> Result<()> {
        match self {
            Self::Scalar(rho) => check_positive("rho", rho.to_f64()),
            Self::PerAgent(rho) => {
                self.check_count(agents)?;
                // The name is formatted only for the entry that is wrong: this runs before every solve.
                match rho.iter().position(|r| !r.is_finite() || *r <= T::ZERO) {
                    None => Ok(()),
                    Some(i) => check_positive(&format!("rho of agent {i}"), rho[i].to_f64()),
                }
            }
        }
    }

    /// The penalty of one agent as a problem of its own.
    pub(super) fn one(&self, agent: usize) -> Penalty<'static, T> {
        Penalty::Scalar(self.of(agent))
    }
}
