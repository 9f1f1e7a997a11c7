//! Orthogonal matrices from unconstrained ones, by the Cayley transform.
//!
//! ```text
//! A = S − Sᵀ      N = (I + A)⁻¹      Q = (I − A)(I + A)⁻¹ = 2N − I
//! d_A = −2 Nᵀ d_Q Nᵀ      d_S = d_A − d_Aᵀ
//! ```
//!
//! Every S gives an orthogonal Q; S = 0 gives the identity. I + A has no singular value below 1 and a positive definite
//! symmetric part, so elimination needs no pivoting. All matrices are n × n.

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::gemm::{Mat, gemm};
use sheaf_kernels::vector::axpy;

/// N of the last forward pass, and scratch for the adjoint.
#[derive(Clone, Debug, Default)]
pub struct Cayley<T: Copy + Default> {
    inverse: AlignedVec<T>, // [n, n]
    room: AlignedVec<T>,    // [2, n, n]
}

impl<T: Real> Cayley<T> {
    /// Q from S. Saves: N.
    pub fn forward(&mut self, n: usize, s: &[T], q: &mut [T]) {
        self.inverse.ensure(n * n);
        self.room.ensure(2 * n * n);
        let (left, right) = (&mut self.room[..n * n], &mut self.inverse[..n * n]);
        for i in 0..n {
            for j in 0..n {
                let unit = if i == j { T::ONE } else { T::ZERO };
                left[i * n + j] = unit + (s[i * n + j] - s[j * n + i]);
                right[i * n + j] = unit;
            }
        }
        invert(n, left, right);
        for (i, (q, &inv)) in q[..n * n].iter_mut().zip(&*right).enumerate() {
            *q = inv + inv - if i / n == i % n { T::ONE } else { T::ZERO };
        }
    }

    /// Adjoint of [`forward`](Self::forward): adds to `d_s`.
    pub fn vjp(&mut self, n: usize, d_q: &[T], d_s: &mut [T]) {
        let (half, d_a) = self.room.split_at_mut(n * n);
        let inv = Mat::new(&self.inverse, n, n);
        gemm(&mut half[..n * n], inv.t(), Mat::new(d_q, n, n), T::ONE, T::ZERO);
        gemm(&mut d_a[..n * n], Mat::new(half, n, n), inv.t(), T::from_f64(-2.0), T::ZERO);
        for i in 0..n {
            for j in 0..n {
                d_s[i * n + j] += d_a[i * n + j] - d_a[j * n + i];
            }
        }
    }
}

/// Gauss–Jordan: reduces `left` to the identity and turns `right` into left⁻¹ right.
fn invert<T: Real>(n: usize, left: &mut [T], right: &mut [T]) {
    for i in 0..n {
        let scale = T::ONE / left[i * n + i];
        left[i * n..][..n].iter_mut().for_each(|v| *v *= scale);
        right[i * n..][..n].iter_mut().for_each(|v| *v *= scale);
        for j in (0..n).filter(|&j| j != i) {
            let factor = -left[j * n + i];
            let (a, b) = two_rows(left, n, i, j);
            axpy(&mut b[i..], factor, &a[i..]);
            let (a, b) = two_rows(right, n, i, j);
            axpy(b, factor, a);
        }
    }
}

/// Row `i` for reading and row `j` for writing.
fn two_rows<T>(m: &mut [T], n: usize, i: usize, j: usize) -> (&[T], &mut [T]) {
    let (front, back) = m.split_at_mut(i.max(j) * n);
    if i < j { (&front[i * n..][..n], &mut back[..n]) } else { (&back[..n], &mut front[j * n..][..n]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_testkit::finite_difference::assert_vjp;
    use sheaf_testkit::random::TestRng;

    const N: usize = 7;

    fn transform(s: &[f64]) -> Vec<f64> {
        let mut q = vec![0.0; N * N];
        Cayley::default().forward(N, s, &mut q);
        q
    }

    #[test]
    fn every_matrix_gives_an_orthogonal_one() {
        for size in [0.01, 1.0, 30.0] {
            let s: Vec<f64> = TestRng::new(3).normals(N * N).iter().map(|v| v * size).collect();
            let q = transform(&s);
            for i in 0..N {
                for j in 0..N {
                    let dot: f64 = (0..N).map(|k| q[i * N + k] * q[j * N + k]).sum();
                    assert!((dot - f64::from(u8::from(i == j))).abs() < 1e-12, "{size}: {i} {j} {dot}");
                }
            }
        }
    }

    #[test]
    fn the_formula_holds() {
        // Q (I + A) = I − A
        let s = TestRng::new(4).normals(N * N);
        let q = transform(&s);
        let a = |i: usize, j: usize| s[i * N + j] - s[j * N + i];
        for i in 0..N {
            for j in 0..N {
                let unit = f64::from(u8::from(i == j));
                let left = q[i * N + j] + (0..N).map(|k| q[i * N + k] * a(k, j)).sum::<f64>();
                assert!((left - (unit - a(i, j))).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn the_adjoint_agrees_with_differences() {
        let s = TestRng::new(5).normals(N * N);
        assert_vjp("cayley", &mut transform, &s, &mut |d_q| {
            let (mut cayley, mut q, mut d_s) = (Cayley::default(), vec![0.0; N * N], vec![0.0; N * N]);
            cayley.forward(N, &s, &mut q);
            cayley.vjp(N, d_q, &mut d_s);
            d_s
        });
    }
}
