//! Edges that the consensus step cannot take are agents of their own.
//!
//! ```text
//! state (p, q) with p = F_a x_a and q = F_b x_b (two hard edges),   objective φ(p − q − b)
//! prox:  m = (p + q)/2 stays,   s = p − q becomes b + prox of φ at penalty ρ/2 of s − b
//! ```
//!
//! Adjoint, with g the gradient of (p, q): the mean passes through; the difference passes the adjoint of the inner
//! prox, and b gets what does not reach s.

use super::Coupling;
use crate::Result;
use crate::x_update::{ProxGrad, Proximal, shrink};

/// φ(p − q − b).
#[derive(Clone, Debug)]
pub(super) struct EdgeTerm {
    pub coupling: Coupling,
    pub offset: Vec<f64>, // [d_e]
}

impl EdgeTerm {
    fn rows(&self) -> usize {
        self.offset.len()
    }

    /// The difference of the two halves beyond the offset.
    fn gap(&self, v: &[f64], k: usize) -> f64 {
        v[k] - v[self.rows() + k] - self.offset[k]
    }

    /// The factor of the group norm's prox: r = t·factor.
    fn group(&self, rho: f64, v: &[f64], weight: f64) -> f64 {
        let size = (0..self.rows()).map(|k| self.gap(v, k).powi(2)).sum::<f64>().sqrt();
        if size * rho > weight { 1.0 - weight / (rho * size) } else { 0.0 }
    }
}

impl Proximal<f64> for EdgeTerm {
    fn dim(&self) -> usize {
        2 * self.rows()
    }

    fn prox(&self, rho: f64, v: &[f64], x: &mut [f64], _scratch: &mut [f64]) -> Result<()> {
        let (n, half) = (self.rows(), 0.5 * rho);
        let factor = match self.coupling {
            Coupling::L2 { weight } => self.group(half, v, weight),
            _ => 0.0,
        };
        for k in 0..n {
            let t = self.gap(v, k);
            let r = match self.coupling {
                Coupling::Hard => 0.0,
                Coupling::Soft { weight } => half * t / (half + weight),
                Coupling::Huber { weight, delta } => shrink(weight, delta, half, t),
                Coupling::L1 { weight } => t.signum() * (t.abs() - weight / half).max(0.0),
                Coupling::L2 { .. } => factor * t,
            };
            let (mean, s) = (0.5 * (v[k] + v[n + k]), r + self.offset[k]);
            (x[k], x[n + k]) = (mean + 0.5 * s, mean - 0.5 * s);
        }
        Ok(())
    }

    fn value(&self, x: &[f64]) -> Option<f64> {
        let r: Vec<f64> = (0..self.rows()).map(|k| self.gap(x, k)).collect();
        Some(self.coupling.value(&r))
    }

    fn lowest(&self, d: &[f64], zero: f64) -> Option<(f64, f64)> {
        let n = self.rows();
        let (mut value, mut size) = (0.0, 0.0);
        for k in 0..n {
            // On p − q = b only directions that agree on p + q stay bounded.
            let hard = self.coupling == Coupling::Hard && (d[k] + d[n + k]).abs() <= zero;
            let term = if hard { d[k] * self.offset[k] } else { 0.0 };
            if !hard && d[k].abs().max(d[n + k].abs()) > zero {
                return Some((f64::NEG_INFINITY, 0.0));
            }
            (value, size) = (value + term, size + term.abs());
        }
        Some((value, size))
    }

    fn recession(&self, d: &[f64], zero: f64) -> Option<(f64, f64)> {
        let n = self.rows();
        let gap = |k: usize| if (d[k] - d[n + k]).abs() <= zero { 0.0 } else { d[k] - d[n + k] };
        let l1 = (0..n).map(|k| gap(k).abs()).sum::<f64>();
        let value = match self.coupling {
            Coupling::Hard | Coupling::Soft { .. } => {
                if l1 > 0.0 {
                    f64::INFINITY
                } else {
                    0.0
                }
            }
            Coupling::Huber { weight, delta } => weight * delta * l1,
            Coupling::L1 { weight } => weight * l1,
            Coupling::L2 { weight } => weight * (0..n).map(|k| gap(k).powi(2)).sum::<f64>().sqrt(),
        };
        Some((value, value))
    }

    fn detached(&self) -> Option<std::sync::Arc<dyn Proximal<f64>>> {
        Some(std::sync::Arc::new(self.clone()))
    }

    fn offset_mut(&mut self) -> Option<&mut [f64]> {
        Some(&mut self.offset)
    }

    /// The offset, then the weight (0 for a hard edge's).
    fn param_len(&self) -> usize {
        self.rows() + 1
    }

    fn vjp(
        &self,
        rho: f64,
        v: &[f64],
        x: &[f64],
        d_x: &[f64],
        grad: &mut ProxGrad<'_, f64>,
        _scratch: &mut [f64],
    ) -> Result<()> {
        let (n, half) = (self.rows(), 0.5 * rho);
        let size = (0..n).map(|k| self.gap(v, k).powi(2)).sum::<f64>().sqrt();
        let along = (0..n).map(|k| 0.5 * (d_x[k] - d_x[n + k]) * self.gap(v, k)).sum::<f64>()
            / size.max(f64::MIN_POSITIVE);
        for k in 0..n {
            let (t, r) = (self.gap(v, k), self.gap(x, k));
            let (mean, g) = (0.5 * (d_x[k] + d_x[n + k]), 0.5 * (d_x[k] - d_x[n + k]));
            // d r/d t applied to g, then the derivatives of r by the weight and by ρ/2.
            let (d_t, d_weight, d_half) = match self.coupling {
                Coupling::Hard => (0.0, 0.0, 0.0),
                Coupling::Soft { weight } => {
                    let h = half + weight;
                    (half / h * g, -r / h * g, (t - r) / h * g)
                }
                Coupling::Huber { weight, delta } => {
                    let h = half + weight;
                    if t.abs() <= delta * (1.0 + weight / half) {
                        (half / h * g, -r / h * g, (t - r) / h * g)
                    } else {
                        let slope = t.signum() * delta / half;
                        (g, -slope * g, slope * weight / half * g)
                    }
                }
                Coupling::L1 { weight } if t.abs() * half > weight => {
                    (g, -t.signum() / half * g, t.signum() * weight / (half * half) * g)
                }
                Coupling::L2 { weight } if size * half > weight => {
                    let (n_k, cut) = (t / size, weight / (half * size));
                    let d_t = (1.0 - cut) * g + cut * n_k * along;
                    (d_t, -n_k / half * g, n_k * weight / (half * half) * g)
                }
                Coupling::L1 { .. } | Coupling::L2 { .. } => (0.0, 0.0, 0.0),
            };
            // t = p − q − b moves with both halves; r + b is split between them.
            grad.v[k] += mean + d_t;
            grad.v[n + k] += mean - d_t;
            *grad.rho += 0.5 * d_half;
            if !grad.params.is_empty() {
                grad.params[k] += g - d_t;
                grad.params[n] += d_weight;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_testkit::{GradientCheck, TestRng};

    fn couplings(weight: f64) -> [Coupling; 5] {
        [
            Coupling::Hard,
            Coupling::Soft { weight },
            Coupling::Huber { weight, delta: 0.3 },
            Coupling::L1 { weight },
            Coupling::L2 { weight },
        ]
    }

    #[test]
    fn the_vjp_of_every_coupling_matches_finite_differences() {
        let v = [0.4, -0.2, 2.0, -0.3, 0.5, -1.5];
        let c = TestRng::new(4).normals(6);
        for kind in 0..5 {
            let term = |p: &[f64]| EdgeTerm { coupling: couplings(p[3])[kind], offset: p[..3].to_vec() };
            let params = [0.1, -0.4, 0.2, 0.35];
            let mut x = [0.0; 6];
            term(&params).prox(0.9, &v, &mut x, &mut []).unwrap();
            let (mut d_v, mut d_rho, mut d_params) = ([0.0; 6], 0.0, [0.0; 4]);
            let mut grad = ProxGrad { v: &mut d_v, rho: &mut d_rho, params: &mut d_params };
            term(&params).vjp(0.9, &v, &x, &c, &mut grad, &mut []).unwrap();
            let point: Vec<f64> = v.iter().chain(&[0.9]).chain(&params).copied().collect();
            let claimed: Vec<f64> = d_v.iter().chain(&[d_rho]).chain(&d_params).copied().collect();
            let mut f = |p: &[f64]| {
                let mut x = [0.0; 6];
                term(&p[7..]).prox(p[6], &p[..6], &mut x, &mut []).unwrap();
                x.iter().zip(&c).map(|(x, c)| x * c).sum()
            };
            GradientCheck::default().assert(
                &format!("{:?}", couplings(0.35)[kind]),
                &mut f,
                &point,
                &claimed,
            );
        }
    }

    #[test]
    fn no_other_point_costs_less_than_the_prox() {
        let (v, mut rng) = ([0.4, -0.2, 2.0, -0.3, 0.5, -1.5], TestRng::new(2));
        for coupling in &couplings(0.35)[1..] {
            let term = EdgeTerm { coupling: *coupling, offset: vec![0.1, -0.4, 0.2] };
            let mut x = [0.0; 6];
            term.prox(0.9, &v, &mut x, &mut []).unwrap();
            let merit = |x: &[f64]| {
                term.value(x).unwrap() + 0.45 * x.iter().zip(&v).map(|(x, v)| (x - v) * (x - v)).sum::<f64>()
            };
            for size in [1.0, 0.1, 1e-3] {
                for _ in 0..100 {
                    let y: Vec<f64> = x.iter().map(|x| x + size * rng.normal()).collect();
                    assert!(merit(&y) >= merit(&x) - 1e-13, "{coupling:?}");
                }
            }
        }
    }
}
