//! Multipliers of the constraints of a [`Quadratic`] at its prox.

use super::Quadratic;
use super::work::Row;
use crate::Result;
use crate::x_update::Proximal;

/// The multipliers of an agent's own constraints: of A x = b any number, of the others at least 0. At the solution the
/// slope of the objective is −Aᵀ`equal` − Gᵀ`at_most` − `upper` + `lower`, minus what the edges pull.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Duals {
    /// Of A x = b.
    pub equal: Vec<f64>,
    /// Of G x ≤ h.
    pub at_most: Vec<f64>,
    /// Of x ≥ lo; empty if there are no bounds.
    pub lower: Vec<f64>,
    /// Of x ≤ hi; empty if there are no bounds.
    pub upper: Vec<f64>,
}

impl Quadratic {
    /// The multipliers at x = prox(v). Allocates and factorises.
    pub(crate) fn duals(&self, rho: f64, v: &[f64]) -> Result<Duals> {
        let (mut scratch, mut x) = (vec![0.0; self.scratch_len()], vec![0.0; v.len()]);
        self.prepare(rho, &mut scratch)?;
        self.prox(rho, v, &mut x, &mut scratch)?;
        let zeros = |n: usize| vec![0.0; n];
        let mut out = Duals {
            equal: zeros(self.equal.1.len()),
            at_most: zeros(self.at_most.1.len()),
            lower: zeros(self.lo.len()),
            upper: zeros(self.hi.len()),
        };
        let work = self.split(&mut scratch);
        if self.separable() {
            for j in
                (0..x.len()).filter(|&j| !self.lo.is_empty() && (x[j] == self.lo[j] || x[j] == self.hi[j]))
            {
                // What is left of the slope at a bound, beyond what |x_j| can take.
                let l1 = self.l1.get(j).copied().unwrap_or(0.0);
                let pull = rho * v[j] - self.q[j] + self.tether.as_ref().map_or(0.0, |(beta, h)| beta * h[j]);
                let slope = x[j] / work.factor[j] - pull;
                out.lower[j] =
                    if x[j] == self.lo[j] { (slope + l1 * sign(x[j], -1.0)).max(0.0) } else { 0.0 };
                out.upper[j] =
                    if x[j] == self.hi[j] { (-slope - l1 * sign(x[j], 1.0)).max(0.0) } else { 0.0 };
            }
            return Ok(out);
        }
        for (k, kind) in self.row_kinds().enumerate() {
            match kind {
                Row::Equal(i) => out.equal[i] = work.nu[k],
                Row::AtMost(i) => out.at_most[i] = work.nu[k],
                Row::Upper(j) => out.upper[j] = work.nu[k],
                Row::Lower(j) => out.lower[j] = work.nu[k],
                Row::Abs(_) => {}
            }
        }
        Ok(out)
    }
}

/// The sign of x, or `at_zero`, the slope of |x| that helps a bound at 0 least.
fn sign(x: f64, at_zero: f64) -> f64 {
    if x == 0.0 { at_zero } else { x.signum() }
}
