//! The prox of a [`Quadratic`]: closed form, one linear solve, or the rows.

use super::{Quadratic, check_order};
use crate::error::{check_finite, check_len};
use crate::linalg::cholesky;
use crate::matrix::Kind;
use crate::x_update::proximal::{ProxGrad, Proximal};
use crate::{Error, ErrorKind, Result};

/// The largest factor of a sparse Q, 1 GB.
const MAX_ENVELOPE: usize = 1 << 27;

impl Proximal<f64> for Quadratic {
    fn dim(&self) -> usize {
        self.q.len()
    }

    fn validate(&self) -> Result<()> {
        let d = self.q.len();
        check_finite("q", &self.q)?;
        self.quad.check("Q")?;
        if (self.quad.rows(), self.quad.cols()) != (d, d) {
            let got = format!("{} × {}", self.quad.rows(), self.quad.cols());
            return Err(Error::new(ErrorKind::Shape, "Q", format_args!("{d} × {d}, as q"), got));
        }
        self.check_convex()?;
        for (name, terms) in [("l1", &self.l1), ("lower bounds", &self.lo), ("upper bounds", &self.hi)] {
            if !terms.is_empty() {
                check_len(name, d, terms.len())?;
            }
        }
        self.l1.iter().enumerate().try_for_each(|(j, &w)| check_weight(&format!("l1[{j}]"), w))?;
        check_weight("l2", self.l2)?;
        if let Some((beta, anchor)) = &self.tether {
            check_weight("tether: beta", *beta)?;
            check_len("tether: anchor", d, anchor.len())?;
            check_finite("tether: anchor", anchor)?;
        }
        if self.lo.len() != self.hi.len() {
            return Err(Error::new(
                ErrorKind::Shape,
                "bounds",
                "as many lower as upper bounds",
                self.hi.len(),
            ));
        }
        check_order(&self.lo, &self.hi)?;
        for (name, side, (matrix, right)) in [
            ("equalities", "right side of equalities", &self.equal),
            ("inequalities", "right side of inequalities", &self.at_most),
        ] {
            matrix.check(name)?;
            matrix.check_cols(name, d)?;
            check_len(side, matrix.rows(), right.len())?;
            check_finite(side, right)?;
        }
        Ok(())
    }

    fn scratch_len(&self) -> usize {
        self.room
    }

    fn prepare(&self, rho: f64, scratch: &mut [f64]) -> Result<()> {
        self.fill(rho, scratch)
    }

    fn prox(&self, rho: f64, v: &[f64], x: &mut [f64], scratch: &mut [f64]) -> Result<()> {
        let mut work = self.split(scratch);
        self.pull(rho, v, work.right);
        if self.separable() {
            for (j, x) in x.iter_mut().enumerate() {
                let l1 = self.l1.get(j).copied().unwrap_or(0.0);
                let t = work.right[j];
                let shrunk = if t < 0.0 { (t + l1).min(0.0) } else { (t - l1).max(0.0) };
                *x = (shrunk * work.factor[j]).max(self.lo(j)).min(self.hi(j));
            }
            return Ok(());
        }
        self.solve_h(work.factor, work.right, work.tmp);
        if work.nu.is_empty() {
            x.copy_from_slice(work.right);
            return Ok(());
        }
        check_finite("constraints: the point without them", work.right)?;
        self.solve_rows(&mut work)?;
        x.copy_from_slice(work.x);
        Ok(())
    }

    /// Constraints are not counted: it is the value of a feasible point.
    fn value(&self, x: &[f64]) -> Option<f64> {
        let mut sum = 0.0;
        self.quad.each(|i, j, v| sum += 0.5 * v * x[i] * x[j]);
        for (j, &x) in x.iter().enumerate() {
            sum += self.q[j] * x + 0.5 * self.l2 * x * x + self.l1.get(j).map_or(0.0, |w| w * x.abs());
            sum += self.tether.as_ref().map_or(0.0, |(beta, h)| 0.5 * beta * (x - h[j]) * (x - h[j]));
        }
        Some(sum)
    }

    /// Known for bounds alone.
    fn lowest(&self, d: &[f64], zero: f64) -> Option<(f64, f64)> {
        self.lowest_in_box(d, zero)
    }

    fn recession(&self, d: &[f64], zero: f64) -> Option<(f64, f64)> {
        Some(self.far(d, zero))
    }

    fn detached(&self) -> Option<std::sync::Arc<dyn Proximal<f64>>> {
        Some(std::sync::Arc::new(self.clone()))
    }

    fn as_quadratic(&self) -> Option<&Quadratic> {
        Some(self)
    }

    fn as_quadratic_mut(&mut self) -> Option<&mut Quadratic> {
        Some(self)
    }

    fn param_len(&self) -> usize {
        self.grad_len()
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
        self.reverse(rho, v, x, d_x, grad, scratch)
    }
}

impl Quadratic {
    /// −c = ρv + βh − q, the right side of H x = −c.
    pub(super) fn pull(&self, rho: f64, v: &[f64], right: &mut [f64]) {
        for j in 0..v.len() {
            right[j] = rho * v[j] - self.q[j];
        }
        if let Some((beta, anchor)) = &self.tether {
            right.iter_mut().zip(anchor).for_each(|(r, h)| *r += beta * h);
        }
    }

    /// Q is symmetric and positive semidefinite up to rounding. Allocates.
    fn check_convex(&self) -> Result<()> {
        let d = self.q.len();
        let fail = |got: String, expected: &str, hint: &str| {
            Err(Error::new(ErrorKind::NotPositiveDefinite, "Q", expected, got).hint(hint))
        };
        let build = "build Q as M Mᵀ, or add a multiple of the identity";
        if let Kind::Diagonal(diagonal) = self.quad.kind() {
            return match diagonal.iter().position(|q| *q < 0.0) {
                None => Ok(()),
                Some(j) => fail(format!("{} at row {j}", diagonal[j]), "a diagonal of at least 0", build),
            };
        }
        if let Some(envelope) = &self.envelope {
            if envelope.len() > MAX_ENVELOPE {
                let got = format!("{} numbers", envelope.len());
                let expected = format!("a sparse matrix whose factor has at most {MAX_ENVELOPE}");
                return Err(Error::new(ErrorKind::Unsupported, "Q", expected, got)
                    .hint("split the agent: let parts that are loosely coupled be agents, and agree"));
            }
            let mut matrix = vec![0.0; envelope.len()];
            self.quad.each(|i, j, v| envelope.add(&mut matrix, i, j, v));
            let mut mirror = vec![0.0; envelope.len()];
            self.quad.each(|i, j, v| envelope.add(&mut mirror, j, i, v));
            let largest = matrix.iter().fold(0.0f64, |m, v| m.max(v.abs()));
            if matrix.iter().zip(&mirror).any(|(a, b)| (a - b).abs() > 64.0 * f64::EPSILON * largest) {
                return fail(
                    "a matrix that is not".into(),
                    "a symmetric matrix",
                    "store both triangles of a sparse Q",
                );
            }
            let lift = 64.0 * f64::EPSILON * largest * d as f64;
            (0..d).for_each(|i| envelope.add(&mut matrix, i, i, lift));
            return match envelope.factor(&mut matrix) {
                Err(bad) if largest > 0.0 => fail(bad.got().into(), "a positive semidefinite matrix", build),
                _ => Ok(()),
            };
        }
        let mut dense = self.quad.to_dense();
        let largest = dense.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let rounding = 64.0 * f64::EPSILON * largest;
        for i in 0..d {
            for j in 0..i {
                let (low, high) = (dense[i * d + j], dense[j * d + i]);
                if (low - high).abs() > rounding {
                    let got = format!("{low} at [{i}, {j}] and {high} at [{j}, {i}]");
                    return fail(got, "a symmetric matrix", "use (Q + Qᵀ)/2: ½xᵀQx sees nothing else");
                }
            }
        }
        (0..d).for_each(|i| dense[i * d + i] += rounding * d as f64);
        match cholesky::factor(&mut dense, d, 0.0) {
            Err(bad) if largest > 0.0 => {
                let got = format!("pivot {:e} at row {}", bad.value, bad.row);
                fail(got, "a positive semidefinite matrix", build)
            }
            _ => Ok(()),
        }
    }
}

fn check_weight(place: &str, w: f64) -> Result<()> {
    if w >= 0.0 && w.is_finite() {
        return Ok(());
    }
    let kind = if w.is_finite() { ErrorKind::NotPositive } else { ErrorKind::NotFinite };
    Err(Error::new(kind, place, "a finite weight, at least 0", w))
}
