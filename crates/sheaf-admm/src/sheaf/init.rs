//! How restriction maps start.

use crate::Real;
use crate::rng::Stream;

/// Rows orthonormal (columns, where there are more rows than columns): Gram–Schmidt on a normal matrix, twice for
/// accuracy. `map` is `[rows, cols]`.
pub fn orthonormal<T: Real>(map: &mut [T], cols: usize, stream: &mut Stream) {
    let rows = map.len() / cols;
    let (count, len) = (rows.min(cols), rows.max(cols));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut v: Vec<f64> = (0..len).map(|_| stream.normal()).collect();
        for _ in 0..2 {
            for b in &basis {
                let along: f64 = v.iter().zip(b).map(|(v, b)| v * b).sum();
                v.iter_mut().zip(b).for_each(|(v, b)| *v -= along * b);
            }
        }
        let norm = v.iter().map(|v| v * v).sum::<f64>().sqrt();
        if norm > 1e-6 {
            v.iter_mut().for_each(|v| *v /= norm);
            basis.push(v);
        }
    }
    for r in 0..rows {
        for c in 0..cols {
            let value = if rows <= cols { basis[r][c] } else { basis[c][r] };
            map[r * cols + c] = T::from_f64(value);
        }
    }
}

/// Ones on the diagonal, zeros elsewhere.
pub fn identity<T: Real>(map: &mut [T], cols: usize) {
    for (k, f) in map.iter_mut().enumerate() {
        *f = if k / cols == k % cols { T::ONE } else { T::ZERO };
    }
}

/// Uniform in ±√(6 / (rows + cols)).
pub fn glorot<T: Real>(map: &mut [T], cols: usize, stream: &mut Stream) {
    let limit = (6.0 / (map.len() / cols + cols) as f64).sqrt();
    map.iter_mut().for_each(|f| *f = T::from_f64((2.0 * stream.uniform() - 1.0) * limit));
}

/// The identity on block `block` of the stalk (columns `block·rows …`) plus normal noise of that deviation.
pub fn soft_slice<T: Real>(map: &mut [T], cols: usize, block: usize, noise: f64, stream: &mut Stream) {
    let rows = map.len() / cols;
    for (k, f) in map.iter_mut().enumerate() {
        let on = k % cols == block * rows + k / cols;
        *f = T::from_f64(f64::from(u8::from(on)) + noise * stream.normal());
    }
}
