//! The metric of the hard problem with one penalty per agent.
//!
//! The projection that minimises ½ Σ ρ_i‖z_i − w_i‖² depends on the ratios of the penalties only. So it is written
//! with weights s_i = h/ρ_i, h the harmonic mean of the penalties: they average to 1, equal penalties give s = 1, and
//! a common factor of all penalties (residual balancing) changes neither the weights nor the step sizes that suit
//! them. With a single penalty s = 1 and h = ρ.
//!
//! Adjoint, N agents: dρ_i −= d_s_i h/ρ_i²; with d = d_h + Σ d_s_j/ρ_j, dρ_i += d h²/(N ρ_i²).

use crate::Real;
use crate::sheaf::Sheaf;
use crate::x_update::Penalty;

/// s_i = h/ρ_i.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights<'a, T> {
    rho: Penalty<'a, T>,
    /// h.
    pub mean: T,
}

impl<'a, T: Real> Weights<'a, T> {
    pub(super) fn new(rho: &Penalty<'a, T>) -> Self {
        let mean = match rho {
            Penalty::Scalar(rho) => *rho,
            Penalty::PerAgent(rho) => {
                T::from_f64(rho.len() as f64) / rho.iter().map(|&rho| T::ONE / rho).sum::<T>()
            }
        };
        Self { rho: *rho, mean }
    }

    /// Whether all agents have one penalty.
    pub(super) fn is_uniform(&self) -> bool {
        matches!(self.rho, Penalty::Scalar(_))
    }

    /// s of one agent.
    pub(super) fn of(&self, agent: usize) -> T {
        match self.rho {
            Penalty::Scalar(_) => T::ONE,
            Penalty::PerAgent(rho) => self.mean / rho[agent],
        }
    }

    /// x_i ← s_i x_i.
    pub(super) fn scale(&self, sheaf: &Sheaf, x: &mut [T]) {
        if let Penalty::PerAgent(_) = self.rho {
            for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
                let s = self.of(i);
                x[range[0]..range[1]].iter_mut().for_each(|x| *x *= s);
            }
        }
    }

    /// Adds the contributions of the weights and their mean to the gradients of the penalties.
    pub(super) fn vjp(&self, d_s: &[T], d_mean: T, d_rho: &mut [T]) {
        match self.rho {
            Penalty::Scalar(_) => d_rho[0] += d_mean,
            Penalty::PerAgent(rho) => {
                let count = T::from_f64(rho.len() as f64);
                let d_mean = d_mean + d_s.iter().zip(rho).map(|(&d, &rho)| d / rho).sum::<T>();
                for ((d_rho, &rho), &d_s) in d_rho.iter_mut().zip(rho).zip(d_s) {
                    let ratio = self.mean / rho;
                    *d_rho += d_mean * ratio * ratio / count - d_s * ratio / rho;
                }
            }
        }
    }
}
