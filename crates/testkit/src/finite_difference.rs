//! Gradients against finite differences, and transposes against inner products, in f64.
//!
//! | check | statement |
//! | --- | --- |
//! | [`GradientCheck`] | ⟨∇f(p), d⟩ = (8 (f(p + hd) − f(p − hd)) − (f(p + 2hd) − f(p − 2hd))) / 12h for random d |
//! | [`assert_vjp`] | the same for f(p) = ⟨c, forward(p)⟩, c a random cotangent |
//! | [`assert_adjoint`] | ⟨A v, w⟩ = ⟨v, Aᵀ w⟩ for random v, w |
//!
//! Five points are used because their error falls as h⁴: a step of 1e-4 then leaves truncation and rounding both near
//! 1e-12, so a tolerance of 1e-6 tests the gradient, not the difference. With two points the best compromise between
//! the two errors would be close to 1e-6 itself.

use crate::random::TestRng;

/// How to compare a gradient with finite differences; the defaults suit functions of order one.
#[derive(Clone, Debug)]
pub struct GradientCheck {
    /// How many random directions to try.
    pub directions: usize,
    /// The step h. Steps h, 10h and h/10 are tried and the best agreement counts: a kink or strong curvature nearby
    /// spoils the long ones, rounding the short ones, and no step makes a wrong gradient agree.
    pub step: f64,
    /// Largest relative error allowed.
    pub tolerance: f64,
    /// Seed of the directions.
    pub seed: u64,
}

impl Default for GradientCheck {
    fn default() -> Self {
        Self { directions: 5, step: 1e-4, tolerance: 1e-6, seed: 1 }
    }
}

impl GradientCheck {
    /// Panics unless `gradient` is the gradient of `f` at `point`.
    ///
    /// The error of a direction d is measured relative to the largest of |difference|, |⟨gradient, d⟩| and ‖gradient‖₂
    /// / 10, the last because a random direction may be almost orthogonal to the gradient, where both numbers are small
    /// by cancellation. Where `gradient` is zero the difference must be rounding alone.
    pub fn assert(&self, name: &str, f: &mut dyn FnMut(&[f64]) -> f64, point: &[f64], gradient: &[f64]) {
        assert_eq!(point.len(), gradient.len(), "{name}: point and gradient must have one length");
        assert!(self.directions > 0, "{name}: a check without directions checks nothing");
        for (i, g) in gradient.iter().enumerate() {
            assert!(g.is_finite(), "{name}: gradient[{i}] is {g}");
        }
        let floor = 0.1 * dot(gradient, gradient).sqrt();
        let value = f(point).abs();
        let mut rng = TestRng::new(self.seed);
        for number in 0..self.directions {
            let direction = rng.normals(point.len());
            let claimed = dot(gradient, &direction);
            let best = [self.step, 10.0 * self.step, 0.1 * self.step]
                .map(|step| {
                    let difference = central_difference(f, point, &direction, step);
                    let error = (difference - claimed).abs();
                    let rounding = 16.0 * f64::EPSILON * value / step;
                    let relative = if floor == 0.0 && error <= rounding {
                        0.0
                    } else {
                        error / difference.abs().max(claimed.abs()).max(floor)
                    };
                    (relative, difference, step)
                })
                .into_iter()
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .expect("three steps were tried");
            assert!(
                best.0 <= self.tolerance,
                "{name}: direction {number} of {}: the gradient says {claimed:.12e}, the difference with step \
                 {:.0e} says {:.12e}: relative error {:.2e}, allowed {:.0e}",
                self.directions,
                best.2,
                best.1,
                best.0,
                self.tolerance,
            );
        }
    }
}

/// The five-point central difference of `f` at `point` along `direction`.
fn central_difference(f: &mut dyn FnMut(&[f64]) -> f64, point: &[f64], direction: &[f64], step: f64) -> f64 {
    let mut at = |scale: f64| {
        let moved: Vec<f64> = point.iter().zip(direction).map(|(p, d)| p + scale * d).collect();
        f(&moved)
    };
    let near = at(step) - at(-step);
    let far = at(2.0 * step) - at(-2.0 * step);
    (8.0 * near - far) / (12.0 * step)
}

/// [`GradientCheck::assert`] with the defaults.
pub fn assert_gradient(name: &str, f: &mut dyn FnMut(&[f64]) -> f64, point: &[f64], gradient: &[f64]) {
    GradientCheck::default().assert(name, f, point, gradient);
}

/// Panics unless `vjp(c)` is the gradient of ⟨c, forward(point)⟩ for a random cotangent c.
///
/// `forward` maps the concatenated inputs to the outputs; `vjp` maps a cotangent of the outputs to the gradient of the
/// inputs at `point`.
pub fn assert_vjp(
    name: &str,
    forward: &mut dyn FnMut(&[f64]) -> Vec<f64>,
    point: &[f64],
    vjp: &mut dyn FnMut(&[f64]) -> Vec<f64>,
) {
    let outputs = forward(point).len();
    assert!(outputs > 0, "{name}: the function returns nothing");
    let cotangent = TestRng::new(0x5eed).normals(outputs);
    let gradient = vjp(&cotangent);
    assert_gradient(name, &mut |at| dot(&forward(at), &cotangent), point, &gradient);
}

/// Panics unless ⟨A v, w⟩ = ⟨v, Aᵀ w⟩ for random v (length `n`) and w (length `m`): `forward` is A, `transpose` Aᵀ.
pub fn assert_adjoint(
    name: &str,
    forward: &mut dyn FnMut(&[f64]) -> Vec<f64>,
    transpose: &mut dyn FnMut(&[f64]) -> Vec<f64>,
    n: usize,
    m: usize,
) {
    let mut rng = TestRng::new(0xad01);
    for trial in 0..5 {
        let (v, w) = (rng.normals(n), rng.normals(m));
        let (a_v, at_w) = (forward(&v), transpose(&w));
        assert_eq!(a_v.len(), m, "{name}: A v must have length m");
        assert_eq!(at_w.len(), n, "{name}: Aᵀ w must have length n");
        let (left, right) = (dot(&a_v, &w), dot(&v, &at_w));
        // Both sums may cancel, so the error is measured relative to the sum of the magnitudes of the terms.
        let scale = (dot(&a_v, &a_v) * dot(&w, &w)).sqrt().max((dot(&v, &v) * dot(&at_w, &at_w)).sqrt());
        assert!(
            (left - right).abs() <= 1e-12 * scale,
            "{name}: trial {trial}: ⟨A v, w⟩ = {left:.15e} but ⟨v, Aᵀ w⟩ = {right:.15e}"
        );
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "inner product of vectors of different lengths");
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
