//! A proximal map in scaled units: x = s·x̂ with one s for all its coordinates, and the cost times c.
//!
//! ```text
//! f̂(x̂) = c·f(s x̂)      prox of f̂ at ρ, v̂ = prox of f at ρ/(c s²), s v̂, divided by s
//! ```

use std::sync::Arc;

use crate::Result;
use crate::x_update::{ProxGrad, Proximal};

/// f̂.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub inner: Arc<dyn Proximal<f64>>,
    /// s.
    pub scale: f64,
    /// c.
    pub cost: f64,
}

impl Placed {
    fn rho(&self, rho: f64) -> f64 {
        rho / (self.cost * self.scale * self.scale)
    }

    /// Splits the scratch into the map's own and one vector.
    fn split<'s>(&self, scratch: &'s mut [f64]) -> (&'s mut [f64], &'s mut [f64]) {
        scratch.split_at_mut(self.inner.scratch_len())
    }
}

impl Proximal<f64> for Placed {
    fn dim(&self) -> usize {
        self.inner.dim()
    }

    fn validate(&self) -> Result<()> {
        self.inner.validate()
    }

    fn scratch_len(&self) -> usize {
        self.inner.scratch_len() + 4 * self.dim()
    }

    fn prepare(&self, rho: f64, scratch: &mut [f64]) -> Result<()> {
        let own = self.split(scratch).0;
        self.inner.prepare(self.rho(rho), own)
    }

    fn prox(&self, rho: f64, v: &[f64], x: &mut [f64], scratch: &mut [f64]) -> Result<()> {
        let (own, spare) = self.split(scratch);
        let placed = &mut spare[..v.len()];
        placed.iter_mut().zip(v).for_each(|(p, v)| *p = self.scale * v);
        self.inner.prox(self.rho(rho), placed, x, own)?;
        x.iter_mut().for_each(|x| *x /= self.scale);
        Ok(())
    }

    fn value(&self, x: &[f64]) -> Option<f64> {
        let placed: Vec<f64> = x.iter().map(|x| self.scale * x).collect();
        self.inner.value(&placed).map(|f| self.cost * f)
    }

    fn lowest(&self, d: &[f64], zero: f64) -> Option<(f64, f64)> {
        // d·x̂ = (d/s)·x, and the sign of an extent does not depend on the factor.
        self.inner.lowest(d, zero).map(|(value, size)| (value / self.scale, size / self.scale))
    }

    fn recession(&self, d: &[f64], zero: f64) -> Option<(f64, f64)> {
        let factor = self.cost * self.scale;
        self.inner.recession(d, zero).map(|(value, size)| (factor * value, factor * size))
    }

    fn param_len(&self) -> usize {
        self.inner.param_len()
    }

    fn vjp(
        &self,
        rho: f64,
        v: &[f64],
        x: &[f64],
        d_x: &[f64],
        grad: &mut ProxGrad<'_, f64>,
        scratch: &mut [f64],
    ) -> Result<()> {
        let (own, spare) = self.split(scratch);
        let n = v.len();
        let (placed_v, rest) = spare.split_at_mut(n);
        let (placed_x, rest) = rest.split_at_mut(n);
        let (d_v, scaled) = rest.split_at_mut(n);
        placed_v.iter_mut().zip(v).for_each(|(p, v)| *p = self.scale * v);
        placed_x.iter_mut().zip(x).for_each(|(p, x)| *p = self.scale * x);
        d_v.fill(0.0);
        let mut d_rho = 0.0;
        // x̂ = x/s and v = s v̂: the two factors cancel for v, and the parameters see d_x/s.
        scaled.iter_mut().zip(d_x).for_each(|(s, g)| *s = g / self.scale);
        let mut inner = ProxGrad { v: d_v, rho: &mut d_rho, params: grad.params };
        self.inner.vjp(self.rho(rho), placed_v, placed_x, scaled, &mut inner, own)?;
        grad.v.iter_mut().zip(&*d_v).for_each(|(d, g)| *d += self.scale * g);
        *grad.rho += d_rho / (self.cost * self.scale * self.scale);
        Ok(())
    }
}
