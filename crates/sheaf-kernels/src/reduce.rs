//! Sums over one row for kernel bodies: sixteen running sums, added pairwise at the end. The order is fixed by
//! the length alone, and the running sums are independent, so that the compiler keeps them in vector registers.

use super::simd::fma;
use crate::Real;

/// More lanes would shorten the chain of additions but lengthen the final sum, which dominates for rows of tens.
const LANES: usize = 16;

/// Σ x.
#[inline(always)]
pub fn sum<T: Real>(x: &[T]) -> T {
    let mut lanes = [T::ZERO; LANES];
    let chunks = x.chunks_exact(LANES);
    let tail = chunks.remainder();
    for x in chunks {
        for (lane, &x) in lanes.iter_mut().zip(x) {
            *lane += x;
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(tail) {
        *lane += x;
    }
    fold(lanes)
}

/// Σ a·b.
#[inline(always)]
pub fn dot<T: Real, const FMA: bool>(a: &[T], b: &[T]) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tails = a.remainder().iter().zip(b.remainder());
    for (a, b) in a.zip(b) {
        for (lane, (&a, &b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane = fma::<T, FMA>(a, b, *lane);
        }
    }
    for (lane, (&a, &b)) in lanes.iter_mut().zip(tails) {
        *lane = fma::<T, FMA>(a, b, *lane);
    }
    fold(lanes)
}

/// Σ a·b·(c − shift).
#[inline(always)]
pub fn dot3<T: Real, const FMA: bool>(a: &[T], b: &[T], c: &[T], shift: T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (a, b, c) = (a.chunks_exact(LANES), b.chunks_exact(LANES), c.chunks_exact(LANES));
    let tails = a.remainder().iter().zip(b.remainder()).zip(c.remainder());
    for ((a, b), c) in a.zip(b).zip(c) {
        for (lane, ((&a, &b), &c)) in lanes.iter_mut().zip(a.iter().zip(b).zip(c)) {
            *lane = fma::<T, FMA>(a * b, c - shift, *lane);
        }
    }
    for (lane, ((&a, &b), &c)) in lanes.iter_mut().zip(tails) {
        *lane = fma::<T, FMA>(a * b, c - shift, *lane);
    }
    fold(lanes)
}

/// Adds running sums pairwise, the first half to the second, until one is left; `N` is a power of two.
#[inline(always)]
pub(crate) fn fold<T: Real, const N: usize>(mut lanes: [T; N]) -> T {
    let mut width = N / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_every_length_count_every_element_once() {
        for n in 0..100 {
            let a: Vec<f64> = (0..n).map(|i| i as f64 + 1.0).collect();
            let b: Vec<f64> = a.iter().map(|v| 2.0 * v).collect();
            let whole = |p: i32| a.iter().map(|v| v.powi(p)).sum::<f64>();
            assert_eq!(sum(&a), whole(1));
            assert_eq!(dot::<f64, false>(&a, &b), 2.0 * whole(2));
            assert_eq!(dot::<f64, true>(&a, &b), 2.0 * whole(2));
            assert_eq!(dot3::<f64, true>(&a, &b, &a, 1.0), 2.0 * (whole(3) - whole(2)));
        }
    }
}
