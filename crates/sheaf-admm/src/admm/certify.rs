//! Certificates that a problem has no solution, from the last step of its iterates (Banjac et al. 2019).
//!
//! On a problem without a solution the steps of ADMM do not vanish but tend to a fixed direction, and this direction is
//! the proof. It is checked against the problem, so that a certificate does not depend on how it was found:
//!
//! | claim | direction | proof |
//! | --- | --- | --- |
//! | infeasible, hard edges | d = Fᵀμ closest to ρ(x̃ − z) | d·x > μ·b for every x in the domain of f, while d·z = μ·b where F z = b |
//! | unbounded | d = z − z_prev | F d = 0, and f falls linearly along d without ever curving up |
//!
//! Directions are differences of iterates: the tight tolerance treats their rounding errors as 0, the loose one is
//! for a suspicion. Objectives whose domain is not known here are at most suspected.

use super::{Problem, Status, Tape};
use crate::linalg::scratch::Scratch;
use crate::x_update::{Extent, Objective, Penalty};
use crate::z_update::{Agreement, LeastSquares, least_squares};
use crate::{Real, Result};
use sheaf_kernels::vector::{dot, norm};

/// How strictly a direction is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// For a certificate.
    Tight,
    /// For a suspicion.
    Loose,
}

impl Proof {
    /// What counts as 0 relative to the largest number.
    fn zero<T: Real>(self) -> T {
        match self {
            Self::Tight => T::EPSILON.sqrt() * T::from_f64(0.1),
            Self::Loose => T::from_f64(1e-3),
        }
    }
}

impl<T: Real> Problem<'_, T> {
    /// Length of the scratch that [`examine`](Self::examine) needs.
    pub(super) fn examine_scratch_len(&self) -> usize {
        let sheaf = self.op.sheaf();
        let hard = self.z_update.agreement().0 == Agreement::Hard || self.op.has_hard_edges();
        let domain = Objective::<T>::lowest_scratch_len(sheaf.state_offsets());
        let separate = if hard { 3 * sheaf.edge_len() + 3 * sheaf.state_len() + domain } else { 0 };
        sheaf.row_len() + separate.max(sheaf.edge_len() + sheaf.state_len())
    }

    /// What the step of iteration `k` of a single sample proves or suggests.
    pub(super) fn examine(
        &self,
        proof: Proof,
        k: usize,
        rho: &Penalty<'_, T>,
        tape: &Tape<T>,
        scratch: &mut [T],
    ) -> Result<Option<Status>> {
        let hard = self.z_update.agreement().0 == Agreement::Hard || self.op.has_hard_edges();
        if hard && self.separates(proof, k, rho, tape, scratch)? {
            return Ok(Some(match proof {
                Proof::Tight => Status::PrimalInfeasible,
                Proof::Loose => Status::SuspectedInfeasible,
            }));
        }
        if self.falls(proof, k, tape, scratch)? {
            return Ok(Some(match proof {
                Proof::Tight => Status::Unbounded,
                Proof::Loose => Status::SuspectedUnbounded,
            }));
        }
        Ok(None)
    }

    /// Whether a hyperplane lies between the domain of the objectives and the solutions of F z = b.
    fn separates(
        &self,
        proof: Proof,
        k: usize,
        rho: &Penalty<'_, T>,
        tape: &Tape<T>,
        scratch: &mut [T],
    ) -> Result<bool> {
        let (sheaf, zero) = (self.op.sheaf(), proof.zero::<T>());
        let (x, z, z_prev) = (tape.x(k), tape.z(k + 1), tape.z(k));
        let mut scratch = Scratch::new(scratch);
        let (d, q) = (scratch.take(sheaf.state_len()), scratch.take(sheaf.state_len()));
        let (rows, over) = (scratch.take(sheaf.row_len()), T::ONE - self.relax);
        let domain = scratch.take(Objective::<T>::lowest_scratch_len(sheaf.state_offsets()));
        for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
            for k in range[0]..range[1] {
                d[k] = rho.of(i) * (self.relax * x[k] + over * z_prev[k] - z[k]);
            }
        }
        if !normalise(d) || proof == Proof::Loose && !steady(d, tape.u(k + 1), k) {
            return Ok(false);
        }
        let offsets = sheaf.state_offsets();
        // The search for μ is the expensive part: first see that the direction could separate at all.
        if self.objective.lowest(offsets, d, zero.max(T::from_f64(1e-3)), domain)? == Extent::Infinite {
            return Ok(false);
        }
        let root = T::from_f64(sheaf.state_len() as f64).sqrt();
        let mut work = LeastSquares::carve(&self.op, rows, q, &mut scratch);
        let rest = least_squares(&self.op, d, T::EPSILON * root, &mut work);
        if rest > zero * root || !rest.is_finite() {
            return Ok(false);
        }
        // From here on d is Fᵀμ itself, not the difference of iterates.
        d.iter_mut().zip(work.rest.iter()).for_each(|(d, &rest)| *d -= rest);
        let b = self.op.raw().offsets().unwrap_or(&[]).iter().zip(work.lambda.iter());
        let (reached, terms) =
            b.fold((T::ZERO, T::ZERO), |(sum, size), (&b, &mu)| (sum + b * mu, size + (b * mu).abs()));
        Ok(match self.objective.lowest(offsets, d, zero, domain)? {
            Extent::Finite { value, size } => value - reached > zero * (size + terms) && value > reached,
            Extent::Unknown => proof == Proof::Loose,
            Extent::Infinite => false,
        })
    }

    /// Whether the objective falls without bound along the last step of z.
    fn falls(&self, proof: Proof, k: usize, tape: &Tape<T>, scratch: &mut [T]) -> Result<bool> {
        let (sheaf, zero) = (self.op.sheaf(), proof.zero::<T>());
        let mut scratch = Scratch::new(scratch);
        let (d, r) = (scratch.take(sheaf.state_len()), scratch.take(sheaf.edge_len()));
        let rows = scratch.take(sheaf.row_len());
        let (z, z_prev) = (tape.z(k + 1), tape.z(k));
        d.iter_mut().enumerate().for_each(|(k, d)| *d = z[k] - z_prev[k]);
        if !normalise(d) || proof == Proof::Loose && !steady(d, z, k) {
            return Ok(false);
        }
        match self.objective.recession(sheaf.state_offsets(), d, zero)? {
            Extent::Finite { value, size } if value < -zero * size => {}
            Extent::Unknown if proof == Proof::Loose => {}
            _ => return Ok(false),
        }
        self.op.raw().coboundary(d, r, rows);
        let largest = |values: &[T]| values.iter().fold(T::ZERO, |m, v| m.max(v.abs()));
        let maps = largest(rows).max(T::ONE);
        Ok(largest(r) <= zero * maps)
    }
}

/// Divides by the largest number; returns false if it is 0 or not finite.
fn normalise<T: Real>(d: &mut [T]) -> bool {
    let largest = d.iter().fold(T::ZERO, |m, v| if v.abs() <= m { m } else { v.abs() });
    if !(largest > T::ZERO && largest.is_finite()) {
        return false;
    }
    d.iter_mut().for_each(|d| *d /= largest);
    true
}

/// Whether a sum of steps points where the last step, `d`, points, as it does when the steps tend to a direction.
fn steady<T: Real>(d: &[T], sum: &[T], k: usize) -> bool {
    k >= 20 && dot(d, sum) >= T::from_f64(0.9) * norm(d) * norm(sum)
}
