//! Global-norm clipping: g ← g · max / ‖g‖₂ where ‖g‖₂ ≥ max, the norm over all parameters together.
//!
//! The squares are summed in `f64` in eight interleaved lanes that are added in a fixed order: the loop vectorises, no
//! `f32` overflows, and the bits depend only on the gradient. No epsilon is needed: a gradient that is divided has a
//! norm of at least `max`.

use sheaf_admm::Real;

const LANES: usize = 8;

/// ‖grad‖₂ over the whole vector; NaN or infinite exactly if an entry is.
pub fn global_norm<T: Real>(grad: &[T] /* [n] */) -> f64 {
    let mut lanes = [0.0f64; LANES];
    let mut blocks = grad.chunks_exact(LANES);
    for block in &mut blocks {
        for (sum, g) in lanes.iter_mut().zip(block) {
            let g = g.to_f64();
            *sum += g * g;
        }
    }
    for (sum, g) in lanes.iter_mut().zip(blocks.remainder()) {
        let g = g.to_f64();
        *sum += g * g;
    }
    lanes.iter().sum::<f64>().sqrt()
}

/// Scales `grad` to norm `max` if its norm is at least that; returns the norm before clipping.
///
/// A gradient whose norm is not finite is left unchanged: the caller sees the norm and must not use the gradient.
pub fn clip_global_norm<T: Real>(max: f64, grad: &mut [T] /* [n] */) -> f64 {
    let norm = global_norm(grad);
    if norm.is_finite() && norm >= max {
        let (divisor, factor) = (T::from_f64(norm), T::from_f64(max));
        for g in grad.iter_mut() {
            *g = *g / divisor * factor;
        }
    }
    norm
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_gradient_is_shortened_to_max_and_keeps_its_direction() {
        let mut g: Vec<f64> = (0..1001).map(|k| (k as f64 * 0.37).sin()).collect();
        let before = g.clone();
        let want = before.iter().map(|x| x * x).sum::<f64>().sqrt();
        let norm = clip_global_norm(2.0, &mut g);
        assert!((norm - want).abs() < 1e-12 * want);
        assert!((global_norm(&g) - 2.0).abs() < 1e-12);
        for (a, b) in g.iter().zip(&before) {
            assert!((a * norm - 2.0 * b).abs() < 1e-12);
        }
    }

    #[test]
    fn a_short_gradient_is_untouched_and_one_of_exactly_max_is_divided() {
        let mut short = [0.3f32, 0.4];
        assert!((clip_global_norm(1.0, &mut short) - 0.5).abs() < 1e-7);
        assert_eq!(short, [0.3, 0.4]);
        let mut exact = [3.0f64, 4.0];
        assert_eq!(clip_global_norm(5.0, &mut exact), 5.0);
        assert_eq!(exact, [3.0 / 5.0 * 5.0, 4.0 / 5.0 * 5.0]);
    }

    #[test]
    fn huge_single_precision_gradients_have_a_finite_norm() {
        let mut g = [1e30f32; 16];
        let norm = clip_global_norm(1.0, &mut g);
        assert!((norm / 4e30 - 1.0).abs() < 1e-6);
        assert!(g.iter().all(|x| (x - 0.25).abs() < 1e-6));
    }

    #[test]
    fn a_non_finite_entry_shows_in_the_norm_and_nothing_is_scaled() {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut g = [2.0f32, bad, 3.0];
            assert!(!clip_global_norm(1.0, &mut g).is_finite());
            assert_eq!((g[0], g[2]), (2.0, 3.0));
        }
    }
}
