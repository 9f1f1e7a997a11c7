//! Initial values of restriction maps. A map is `[rows, cols]`; the slice determines the number of rows.

use crate::rng::Stream;
use sheaf_admm::Real;

/// Orthonormal rows (columns, if there are more rows than columns): Gram–Schmidt on a normal matrix, twice for
/// accuracy. Entries after the last whole row become 0.
pub fn orthonormal<T: Real>(map: &mut [T], cols: usize, stream: &mut Stream) {
    let rows = map.len().checked_div(cols).unwrap_or(0);
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
    map[rows * cols..].fill(T::ZERO);
}

/// Ones on the diagonal, zeros elsewhere.
pub fn identity<T: Real>(map: &mut [T], cols: usize) {
    for (k, f) in map.iter_mut().enumerate() {
        let on = cols > 0 && k / cols == k % cols;
        *f = if on { T::ONE } else { T::ZERO };
    }
}

/// Uniform in ±√(6 / (rows + cols)).
pub fn glorot<T: Real>(map: &mut [T], cols: usize, stream: &mut Stream) {
    let rows = map.len().checked_div(cols).unwrap_or(0);
    let limit = (6.0 / rows.saturating_add(cols).max(1) as f64).sqrt();
    map.iter_mut().for_each(|f| *f = T::from_f64((2.0 * stream.uniform() - 1.0) * limit));
}

/// The identity on block `block` of the stalk (columns `block·rows …`) plus normal noise of the given deviation.
pub fn soft_slice<T: Real>(map: &mut [T], cols: usize, block: usize, noise: f64, stream: &mut Stream) {
    let rows = map.len().checked_div(cols).unwrap_or(0);
    for (k, f) in map.iter_mut().enumerate() {
        let on = cols > 0 && k % cols == block.saturating_mul(rows).saturating_add(k / cols);
        *f = T::from_f64(f64::from(u8::from(on)) + noise * stream.normal());
    }
}
