//! The plane in which points vary most: principal components by power iteration on the covariance.

/// The mean of some points and two orthonormal directions, the first with the largest variance.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    mean: Vec<f64>,
    axes: [Vec<f64>; 2],
}

/// Steps of power iteration. A figure needs two or three digits of a direction.
const STEPS: usize = 200;

impl Plane {
    /// The plane of points of `dim` numbers each.
    pub fn of(points: &[f32], dim: usize) -> Self {
        let count = (points.len() / dim).max(1) as f64;
        let mut mean = vec![0.0; dim];
        for point in points.chunks_exact(dim) {
            mean.iter_mut().zip(point).for_each(|(m, &p)| *m += f64::from(p) / count);
        }
        let mut covariance = vec![0.0; dim * dim];
        for point in points.chunks_exact(dim) {
            let away: Vec<f64> = point.iter().zip(&mean).map(|(&p, m)| f64::from(p) - m).collect();
            for (row, &a) in covariance.chunks_exact_mut(dim).zip(&away) {
                row.iter_mut().zip(&away).for_each(|(c, &b)| *c += a * b / count);
            }
        }
        let first = direction(&covariance, dim, None);
        let second = direction(&covariance, dim, Some(&first));
        Self { mean, axes: [first, second] }
    }

    /// The coordinates of a point in the plane.
    pub fn at(&self, point: &[f32]) -> (f64, f64) {
        let along = |axis: &[f64]| {
            point.iter().zip(&self.mean).zip(axis).map(|((&p, m), a)| (f64::from(p) - m) * a).sum()
        };
        (along(&self.axes[0]), along(&self.axes[1]))
    }
}

/// The direction of the largest variance, orthogonal to another one.
fn direction(covariance: &[f64], dim: usize, without: Option<&[f64]>) -> Vec<f64> {
    // Any start that is not orthogonal to the answer will do; a fixed one gives the same figure every time.
    let mut v: Vec<f64> =
        (0..dim).map(|i| 1.0 + 0.01 * i as f64 * if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
    for _ in 0..STEPS {
        let mut next: Vec<f64> =
            covariance.chunks_exact(dim).map(|row| row.iter().zip(&v).map(|(c, v)| c * v).sum()).collect();
        if let Some(other) = without {
            let part: f64 = next.iter().zip(other).map(|(a, b)| a * b).sum();
            next.iter_mut().zip(other).for_each(|(n, o)| *n -= part * o);
        }
        let norm = next.iter().map(|n| n * n).sum::<f64>().sqrt();
        if norm.is_nan() || norm < 1e-30 {
            break;
        }
        v = next.iter().map(|n| n / norm).collect();
    }
    // The largest coordinate is positive, so that a figure is not mirrored at random.
    let largest = v.iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
    if largest < 0.0 {
        v.iter_mut().for_each(|v| *v = -*v);
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plane_holds_the_two_directions_of_largest_variance() {
        // Points along (3, 4, 0)/5, less along (0, 0, 1), least along (-4, 3, 0)/5.
        let mut points = Vec::new();
        for i in -10..=10 {
            for j in -3..=3 {
                let (a, b, c) = (i as f32, j as f32, 0.1 * (i * j % 3) as f32);
                points.extend([0.6 * a - 0.8 * c + 7.0, 0.8 * a + 0.6 * c, b]);
            }
        }
        let plane = Plane::of(&points, 3);
        let (x, y) = plane.at(&[7.0 + 0.6, 0.8, 0.0]);
        assert!((x - 1.0).abs() < 1e-2 && y.abs() < 1e-2, "{x} {y}");
        let (x, y) = plane.at(&[7.0, 0.0, 2.0]);
        assert!(x.abs() < 1e-2 && (y - 2.0).abs() < 1e-2, "{x} {y}");
    }
}
